//! Functions that pick by position equal loops over the elements, in every layout of operand and result.

use shardc::compiler::{self, Options};
use shardc::dtype::DType;
use shardc::schedule::ArrayId;
use shardc::sim::proof;
use shardc::sim::values::{self, Tensor};

const DIMS: &str = "dims {B: 4, S: 8, T: 4, R: 4, V: 16, K: 2}";
const ROWS: usize = 4;
const LONG: usize = 8;

/// The element of `x` at a row and a position, with equal ones among them.
fn x(row: usize, at: usize) -> i64 {
    i64::try_from((row * 7 + at * 5 + at * at) % 9).expect("small") - 4
}

/// The position that `ids` has at a row and a place.
fn ids(row: usize, place: usize) -> usize {
    (3 * row + 5 * place) % LONG
}

/// The place of the largest element after `before` others, of equal ones the first.
fn largest(row: usize, before: usize) -> usize {
    let mut places: Vec<usize> = (0..LONG).collect();
    // Stable, so that of equal ones the first stays first.
    places.sort_by_key(|at| -x(row, *at));
    places[before]
}

/// A call, the dims of its result, and its element at two indices.
type Case = (&'static str, [&'static str; 2], fn(usize, usize) -> i64);

const CASES: [Case; 31] = [
    ("slice_{S->T}(x, 3)", ["B", "T"], |b, t| x(b, t + 3)),
    ("slice_{S->T}(x)", ["B", "T"], x),
    ("slice_{S->T}(x, S - T)", ["B", "T"], |b, t| x(b, t + 4)),
    ("slice_{S->T}(x, start)", ["B", "T"], |b, t| x(b, t + 2)),
    ("pad_{S->V}(x, 5)", ["B", "V"], |b, v| if (5..13).contains(&v) { x(b, v - 5) } else { 0 }),
    ("concat_{S->V}(x, 2 * x)", ["B", "V"], |b, v| if v < 8 { x(b, v) } else { 2 * x(b, v - 8) }),
    ("concat_{T,R->S}(slice_{S->T}(x, 4), slice_{S->R}(x, 0))", ["B", "S"], |b, s| {
        if s < 4 { x(b, s + 4) } else { x(b, s - 4) }
    }),
    ("stack_K(x, 2 * x)[0]", ["B", "S"], x),
    ("stack_K(x, 2 * x)[1]", ["B", "S"], |b, s| 2 * x(b, s)),
    ("shift_S(x, 1)", ["B", "S"], |b, s| if s < 1 { 0 } else { x(b, s - 1) }),
    ("shift_S(x, -3)", ["B", "S"], |b, s| if s > 4 { 0 } else { x(b, s + 3) }),
    ("roll_S(x, 3)", ["B", "S"], |b, s| x(b, (s + 5) % 8)),
    ("roll_S(x, -9)", ["B", "S"], |b, s| x(b, (s + 1) % 8)),
    ("shift_S(x, 8)", ["B", "S"], |_, _| 0),
    ("i32(shift_S(x > 0, 2))", ["B", "S"], |b, s| i64::from(s >= 2 && x(b, s - 2) > 0)),
    ("reverse_S(x)", ["B", "S"], |b, s| x(b, 7 - s)),
    ("cumsum_S(x)", ["B", "S"], |b, s| (0..=s).map(|at| x(b, at)).sum()),
    ("take_S(x, ids)", ["B", "T"], |b, t| x(b, ids(b, t))),
    ("scatter_V(x, first)", ["V", "S"], |v, s| (0..ROWS).filter(|b| ids(*b, 0) == v).map(|b| x(b, s)).sum()),
    ("i32(onehot_S(first)) - x", ["B", "S"], |b, s| i64::from(s == ids(b, 0)) - x(b, s)),
    ("argmax_S(x) + 0 * slice_{S->T}(x)", ["B", "T"], |b, _| place(largest(b, 0))),
    ("argmin_S(-x) + 0 * slice_{S->T}(x)", ["B", "T"], |b, _| place(largest(b, 0))),
    ("top_{S->K}(x)", ["K", "B"], |k, b| x(b, largest(b, k))),
    ("argtop_{S->K}(x)", ["K", "B"], |k, b| place(largest(b, k))),
    ("i32(slice_{S->T}(x > 0, 2))", ["B", "T"], |b, t| i64::from(x(b, t + 2) > 0)),
    ("take_S(x, 5) + 0 * slice_{S->T}(x)", ["B", "T"], |b, _| x(b, 5)),
    // By an array: for each of its elements, also if the operand lacks its dim.
    ("shift_S(x, first)", ["B", "S"], |b, s| s.checked_sub(ids(b, 0)).map_or(0, |s| x(b, s))),
    ("shift_S(take_B(x, 1), first)", ["B", "S"], |b, s| s.checked_sub(ids(b, 0)).map_or(0, |s| x(1, s))),
    ("slice_{S->T}(take_B(x, 1), first)", ["B", "T"], |b, t| if t + ids(b, 0) < 8 { x(1, t + ids(b, 0)) } else { 0 }),
    ("pad_{S->V}(take_B(x, 1), first)", ["B", "V"], |b, v| {
        v.checked_sub(ids(b, 0)).filter(|s| *s < 8).map_or(0, |s| x(1, s))
    }),
    ("shift_S(shift_S(x, 1), 1)", ["B", "S"], |b, s| if s < 2 { 0 } else { x(b, s - 2) }),
];

fn place(at: usize) -> i64 {
    i64::try_from(at).expect("small")
}

/// All layouts of two dims on a mesh.
fn layouts(axes: &[&str], [first, second]: [&str; 2]) -> Vec<String> {
    let mut on: Vec<[String; 2]> = vec![[String::new(), String::new()]];
    for axis in axes {
        let with = |at: usize| {
            on.iter().map(move |dims| {
                let mut dims = dims.clone();
                dims[at].push_str(axis);
                dims
            })
        };
        on = on.iter().cloned().chain(with(0)).chain(with(1)).collect();
    }
    let one = |dim: &str, axes: &str| if axes.is_empty() { dim.to_owned() } else { format!("{dim}_{axes}") };
    on.iter().map(|[a, b]| format!("[{}, {}]", one(first, a), one(second, b))).collect()
}

/// The sizes of the dims of a result.
fn size(dim: &str) -> usize {
    match dim {
        "S" => LONG,
        "V" => 2 * LONG,
        "K" => 2,
        _ => ROWS,
    }
}

/// Compares one layout of the operand and of the result with the loops.
fn equals_loops(mesh: &str, layout: &str, result: &str, (call, dims, element): &Case) {
    // A stack has a third dim, of which one part is compared.
    let (call, part) = match call.split_once('[') {
        Some((call, part)) => (call.to_owned(), format!("take_K(stacked, {})", part.trim_end_matches(']'))),
        None => ((*call).to_owned(), "stacked".to_owned()),
    };
    let source = format!(
        "mesh {mesh} on tpu_v5p\n{DIMS}\nx: i32{layout}\nids: i32[B, T]\nfirst: i32[B]\nstart: i32[]\nstacked = {call}\n\
         out: i32{result} = {part}\noutput out\n"
    );
    let (program, found) = compiler::check(&source);
    let program = program.unwrap_or_else(|| panic!("{source}\n{found:?}"));
    let compiled =
        compiler::compile(&program, &Options::default()).unwrap_or_else(|error| panic!("{source}\n{error:?}"));
    let schedule = &compiled.schedule;
    proof::prove(schedule).unwrap_or_else(|error| panic!("{source}\n{error:?}"));
    let tensor = |name: &str| {
        let (extents, elements): (Vec<u64>, Vec<i64>) = match name {
            "x" => (vec![4, 8], (0..ROWS).flat_map(|row| (0..LONG).map(move |at| x(row, at))).collect()),
            "ids" => (vec![4, 4], (0..ROWS).flat_map(|row| (0..4).map(move |at| place(ids(row, at)))).collect()),
            "first" => (vec![4], (0..ROWS).map(|row| place(ids(row, 0))).collect()),
            _ => (vec![], vec![2]),
        };
        Tensor::from_integers(DType::I32, &extents, &elements).expect("as long as its extents")
    };
    let named = schedule
        .arrays
        .iter()
        .zip(0..)
        .filter(|(array, _)| ["x", "ids", "first", "start"].contains(&array.name.as_str()));
    let given = named.map(|(array, id)| (shardc::schedule::ArrayId(id), tensor(&array.name))).collect();
    let inputs = values::inputs_beside(schedule, 1, given).expect("small");
    let run = values::run(schedule, &inputs).expect("small");
    let made = run.gather(0).expect("whole").array.to_i64s();
    let [rows, columns] = dims.map(size);
    let expected: Vec<i64> = (0..rows).flat_map(|row| (0..columns).map(move |column| element(row, column))).collect();
    assert_eq!(made, expected, "{source}\n{}", compiled.plan);
}

#[test]
fn every_function_equals_a_loop_in_all_layouts() {
    for (mesh, axes) in [("{X: 2}", &["X"][..]), ("{X: 2 ring, Y: 2 ring}", &["X", "Y"])] {
        for case in &CASES {
            let results = layouts(axes, case.1);
            for (place, layout) in layouts(axes, ["B", "S"]).iter().enumerate() {
                // All pairs on one axis; on two, each layout with a few of the others.
                for result in results.iter().skip(place % 3).step_by(if axes.len() == 1 { 1 } else { 3 }) {
                    equals_loops(mesh, layout, result, case);
                }
            }
        }
    }
}

/// An array of one number takes every layout without communication, also in a body and as an accumulator.
#[test]
fn an_array_of_one_number_is_local() {
    for (dtype, number) in [("f32", "0"), ("bf16", "-1.5"), ("i32", "7"), ("bool", "1"), ("i8", "-3")] {
        for layout in layouts(&["X", "Y"], ["B", "S"]) {
            let source = format!("mesh {{X: 2, Y: 2}} on tpu_v5p\n{DIMS}\nz: {dtype}{layout} = {number}\noutput z\n");
            let (program, found) = compiler::check(&source);
            let program = program.unwrap_or_else(|| panic!("{source}\n{found:?}"));
            let compiled = compiler::compile(&program, &Options::default()).expect("a plan");
            assert_eq!(compiled.plan.totals().received().0, 0, "{source}\n{}", compiled.plan);
            let inputs = values::inputs(&compiled.schedule, 1).expect("small");
            let run = values::run(&compiled.schedule, &inputs).expect("small");
            let expected: f64 = number.parse().expect("a number");
            let made = run.gather(0).expect("whole").array.to_f64s();
            assert!(made.len() == 32 && made.iter().all(|element| *element == expected), "{source}\n{made:?}");
        }
    }
}

/// A scalar of one number is local, too, and counts iterations.
#[test]
fn a_scalar_of_one_number_counts() {
    for (dtype, number) in [("f32", 0), ("i32", 7), ("i8", -3), ("bf16", 2)] {
        let source = format!(
            "mesh {{X: 2, Y: 2}} on tpu_v5p\n{DIMS}\nz: {dtype}[] = {number}\nrepeat 3 {{\n    z = z + 1\n}}\noutput z\n"
        );
        let (program, found) = compiler::check(&source);
        let program = program.unwrap_or_else(|| panic!("{source}\n{found:?}"));
        let compiled = compiler::compile(&program, &Options::default()).expect("a plan");
        assert_eq!(compiled.plan.totals().received().0, 0, "{source}\n{}", compiled.plan);
        let inputs = values::inputs(&compiled.schedule, 1).expect("small");
        let run = values::run(&compiled.schedule, &inputs).expect("small");
        let made = run.gather(0).expect("whole").array.to_f64s();
        assert_eq!(made, [f64::from(number) + 3.0], "{source}");
    }
}

/// What is written wrongly is refused where it is wrong, with the right form.
#[test]
fn wrong_calls_are_answered() {
    for (call, code, help) in [
        ("slice_{S->T}(x, 5)", "function-subscript", "`S` has 8 elements and `T` has 4: 5 to 9 is outside"),
        ("slice_{S->T}(x, -1)", "function-subscript", "-1 to 3 is outside"),
        ("slice_S(x, 5)", "function-subscript", "write `slice_{S->T}(x, 3)`"),
        ("slice_{T->R}(x, 0)", "function-subscript", "the operand is `x[B_X, S]`"),
        ("slice_{S->B}(x, 0)", "function-subscript", "already has `B`; use another dim"),
        ("pad_{S->T}(x, 0)", "function-subscript", "is outside"),
        ("concat_{S->T}(x, x)", "function-subscript", "the parts have 16 elements, `T` has 4"),
        ("concat_S(x, x)", "function-subscript", "write `concat_{S,R->T}(a, b)`"),
        ("stack_K(x, x, x)", "function-subscript", "`K` has size 2, for 3 arrays"),
        ("stack_B(x, x, x, x)", "function-subscript", "already has `B`"),
        ("top_{S->V}(x)", "function-subscript", "`S` has only 8 elements"),
        ("take_S(x, 8)", "function-subscript", "positions along `S` are 0 to 7"),
        ("take_S(x)", "function-arguments", "write `take_V(E, ids)`"),
        ("scatter_S(x, x)", "function-subscript", "it makes a new dim `S`"),
        ("scatter_V(sum_S(x), x)", "function-subscript", "a row for each `S`, which"),
        ("scatter_V(x)", "function-arguments", "write `scatter_V(u, ids)`"),
        ("take_S(x, 1.5)", "function-arguments", "write a whole number, `1` or `2`"),
        ("take_S(x, f32(x))", "function-arguments", "write `i32(f32(x))`"),
        ("slice_{S->T}(x, -0.5)", "function-arguments", "write a whole number, `-1` or `0`"),
        ("shift_S(x, x > 0)", "function-arguments", "write `i32(x > 0)`"),
        ("roll_S(x, 1e30)", "function-arguments", "write a whole number below 2^60"),
        ("take(x, 3)", "function-subscript", "write `take_V(E, ids)`"),
        ("shift_S(x)", "function-arguments", "write `shift_S(x, 1)`"),
        ("argmax_T(x)", "function-subscript", "the operand is `x[B_X, S]`"),
        ("take_S(x, x)", "function-subscript", "rename their dim"),
    ] {
        let source = format!("mesh {{X: 2}} on tpu_v5p\n{DIMS}\nx: i32[B_X, S]\nout = {call}\n");
        let (program, found) = compiler::check(&source);
        let found: Vec<_> = found.iter().filter(|found| !found.code.starts_with("unused")).collect();
        assert!(program.is_none() && found.len() == 1 && found[0].code == code, "{call}: {found:?}");
        assert!(found[0].help.as_deref().is_some_and(|told| told.contains(help)), "{call}: {found:?}");
    }
}

/// A roll by an array is refused, with two shifts that do the same.
#[test]
fn two_shifts_roll_by_an_array() {
    for (of, by) in [("x", "n"), ("x", "S - n"), ("2 * x", "n"), ("x > 0", "n"), ("x > 0", "n .* n - n")] {
        let ground = "mesh {X: 2} on tpu_v5p\ndims {S: 8, B: 8}\nx: i32[S_X]\nn: i32[B]\n";
        let (_, found) = compiler::check(&format!("{ground}y = roll_S({of}, {by})\n"));
        let error = found.iter().find(|found| found.code == "function-arguments").expect("an error");
        let help = error.help.as_deref().and_then(|help| help.split('`').nth(1)).expect("a formula");
        let source =
            format!("{ground}y: i32[B, S] = i32({help})\nz: i32[S] = i32({of})\nby: i32[B] = {by}\noutput y, z, by\n");
        let (program, found) = compiler::check(&source);
        let compiled =
            compiler::compile(&program.unwrap_or_else(|| panic!("{source}\n{found:?}")), &Options::default());
        let schedule = compiled.expect("a plan").schedule;
        let named = |name: &str| (0..).map(ArrayId).find(|id| schedule.array(*id).name == name).expect("an input");
        let tensor = |elements: &[i64]| Tensor::from_integers(DType::I32, &[8], elements).expect("eight");
        let rows = [4, -7, 1, 0, -2, 9, 3, -5];
        let given =
            [(named("x"), tensor(&rows)), (named("n"), tensor(&[0, 1, 2, 3, 4, 5, 6, 7]))].into_iter().collect();
        let inputs = values::inputs_beside(&schedule, 1, given).expect("small");
        let run = values::run(&schedule, &inputs).expect("small");
        let [y, z, by] = [0, 1, 2].map(|output| run.gather(output).expect("whole").array.to_i64s());
        for (row, by) in by.into_iter().enumerate() {
            let Some(by) = usize::try_from(by).ok().filter(|by| *by <= 8) else { continue };
            let rolled: Vec<i64> = (0..8).map(|place| z[(place + 8 - by) % 8]).collect();
            assert_eq!(y[row * 8..][..8], rolled, "{source}");
        }
    }
}

/// Where the dims of a result go if they are not written, as `docs/language.md` says.
#[test]
fn dims_that_are_not_written_have_their_places() {
    let ground = "mesh {X: 2} on tpu_v5e\ndims {A: 4, B: 6, C: 2, D: 2, E: 8, F: 4}\nx: f32[A, B, F]\ny: f32[A, C, F]\n\
                  ids: i32[E, D]\nu: f32[A, E, D]\nstart: i32[D]\n";
    for (call, dims) in [
        ("slice_{B->C}(x, 1)", "A C F"),
        ("slice_{B->C}(x, start)", "D A C F"),
        ("pad_{B->E}(x, 1)", "A E F"),
        ("concat_{B,C->E}(x, y)", "A E F"),
        ("top_{B->C}(x)", "A C F"),
        ("argtop_{B->C}(x)", "A C F"),
        ("stack_D(x, x)", "D A B F"),
        ("take_B(x, ids)", "E D A F"),
        ("scatter_B(u, ids)", "B A"),
        ("onehot_B(ids)", "E D B"),
    ] {
        let source = format!("{ground}z = {call}\noutput z\n");
        let (program, found) = compiler::check(&source);
        let program = program.unwrap_or_else(|| panic!("{call}: {found}"));
        let found: Vec<String> =
            program.value(program.outputs[0]).dims.iter().map(|dim| program.dims.name(dim.id)).collect();
        assert_eq!(found.join(" "), dims, "{call}");
    }
}

/// A call is formatted as it was written.
#[test]
fn calls_are_formatted_as_they_are_written() {
    for call in ["slice_{S->T}(x, 3)", "concat_{T,R->S}(a, b)", "top_{E->K}(x)", "shift_S(x, -1)", "take_V(E, ids)"] {
        let source = format!("y = {call}\n");
        assert_eq!(shardc::syntax::format(&source).ok().as_deref(), Some(source.as_str()));
    }
}
