//! `.*`, the elementwise product: every layout of both operands and of the result on two axes, compared with an
//! independent interpreter and with all written layouts.

use crate::common::{collectives, compile, numeric};
use itertools::Itertools;
use shardc::compiler::{self, Options, Overlapping, Resharding};
use shardc::units::Time;

pub(crate) const GROUND: &str = "mesh {X: 2 ring, Y: 3 ring}\ndims {I: 6, J: 12, K: 6}\n";

/// The layouts of an array with these dims.
pub(crate) fn layouts(dims: &[&str]) -> Vec<String> {
    let lists = ["", "_X", "_Y", "_XY", "_YX"];
    let of_dim = dims.iter().map(|dim| lists.map(|axes| format!("{dim}{axes}")));
    let all = of_dim.map(IntoIterator::into_iter).multi_cartesian_product().map(|dims| dims.join(", "));
    let fits = |text: &String| ["X", "Y"].iter().all(|axis| text.matches(axis).count() <= 1);
    all.filter(fits).collect()
}

/// The dims of the first operand, the second operand, and the result.
pub(crate) const SHAPES: [(&[&str], &[&str], &[&str]); 5] = [
    (&["I", "J"], &["I", "J"], &["I", "J"]),
    (&["I", "J"], &["J", "I"], &["J", "I"]),
    (&["I", "J"], &["J"], &["I", "J"]),
    (&["I"], &["I", "J"], &["I", "J"]),
    (&["I"], &["J"], &["I", "J"]),
];

#[test]
fn every_layout_on_two_axes() {
    let mut count = 0;
    for (left, right, dims) in SHAPES {
        let results = layouts(dims);
        for (place, (a, b)) in layouts(left).into_iter().cartesian_product(layouts(right)).enumerate() {
            // Each pair with two of the results, in turn.
            for result in [&results[place % results.len()], &results[(7 * place + 3) % results.len()]] {
                let source = format!("{GROUND}A: i64[{a}]\nB: i64[{b}]\nR[{result}] = A .* B");
                let compiled = compile(&source);
                assert!(numeric::computes(&compiled.schedule, 5), "{source}\n{}", compiled.schedule);
                count += 1;
            }
        }
    }
    assert!(count > 700, "{count}");
}

/// Open operands: sums beside a closed operand, two sums over different axes, products of two open operands.
#[test]
fn open_operands() {
    let mut count = 0;
    for (a, b, open) in [
        ("{U_X}", "", "{U_X}"),
        ("", "{U_Y}", "{U_Y}"),
        ("{U_X}", "{U_Y}", "{U_XY}"),
        ("{MUL_X}", "{MUL_X}", "{MUL_X}"),
        ("{ROOT_X}", "{ROOT_X}", "{ROOT_X}"),
        ("{ROOT_X}", "", "{ROOT_X}"),
    ] {
        for result in ["[I, J]".to_owned(), "[I_X, J]".to_owned(), "[I, J_YX]".to_owned(), format!("[I, J]{open}")] {
            let source = format!("{GROUND}A: i64[I, J]{a}\nB: i64[I, J]{b}\nR{result} = A .* B");
            let compiled = compile(&source);
            assert!(numeric::computes(&compiled.schedule, 5), "{source}\n{}", compiled.schedule);
            if result.ends_with('}') {
                assert_eq!(collectives(&compiled), Vec::<String>::new(), "{source}");
            }
            count += 1;
        }
    }
    assert_eq!(count, 24);
    for (a, b) in [("{U_X}", "{U_X}"), ("{MUL_X}", ""), ("{MAX_X}", ""), ("{SQUARE_ADD_X}", "")] {
        let source = format!("{GROUND}A: i64[I, J]{a}\nB: i64[I, J]{b}\nR[I, J] = A .* B");
        let found = compiler::check(&source).1;
        assert!(found.iter().any(|found| found.code == "open-sum-misuse"), "{source}{found:?}");
    }
}

/// Integers, and numbers beside them.
#[test]
fn types_and_numbers() {
    let compiled = compile(&format!("{GROUND}A: i8[I_X, J]\nB: i8[I, J]\nR = 3 .* A .* B .* 2"));
    let value = |name: &str| {
        let program = &compiled.plan.program;
        let id = program.value_ids().find(|id| program.value(*id).name.as_deref() == Some(name)).expect("a value");
        program.value(id).dtype.to_string()
    };
    assert_eq!(value("R"), "i8");
    assert!(numeric::computes(&compiled.schedule, 5));
    let found = compiler::check(&format!("{GROUND}A: bool[I]\nB: bool[I]\nR = A .* B")).1;
    assert!(found.iter().any(|found| found.code == "needs-number"), "{found:?}");
}

/// SwiGLU: with free layouts between the inputs and the output, nothing is gathered unnecessarily, and no written
/// layouts are cheaper.
#[test]
fn swiglu_takes_no_longer_than_any_written_layouts() {
    let time = |source: &str| -> Option<Time> {
        let (program, found) = compiler::check(source);
        let program = program.unwrap_or_else(|| panic!("{source}{found:?}"));
        // The sequential time of the steps, which the search minimises.
        let options = Options { overlap: Overlapping::None, reshard: Resharding::Chains, ..Options::default() };
        let topology = compiler::machine(&program, &options).expect("it has rates");
        compiler::plan(&program, &topology, &options).ok().map(|plan| plan.totals().time())
    };
    let layouts = ["", "[B, F]", "[B_X, F]", "[B_Y, F]", "[B, F_X]", "[B, F_Y]", "[B_X, F_Y]", "[B_Y, F_X]"];
    for rows in [8, 4096] {
        for (x, up, down) in
            [("B_X, D", "D, F_Y", "F_Y, D"), ("B, D_Y", "D, F_X", "F_X, D"), ("B_XY, D", "D, F", "F, D")]
        {
            let source = |gate: &str, product: &str| {
                format!(
                    "mesh {{X: 4, Y: 2}} on tpu_v5p\ndims {{B: {rows}, D: 4096, F: 14336}}\nx: bf16[{x}]\nV: bf16[{up}]\n\
                     U: bf16[{up}]\nW: bf16[{down}]\ng{gate} = x * V\nh{product} = silu(g) .* (x * U)\ny[{x}] = h * W\n"
                )
            };
            let free = time(&source("", "")).expect("a plan");
            for (gate, product) in layouts.iter().cartesian_product(layouts) {
                let written = time(&source(gate, product));
                assert!(written.is_none_or(|written| free <= written), "{}", source(gate, product));
            }
        }
    }
}
