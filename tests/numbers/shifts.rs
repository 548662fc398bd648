//! Shifts and rolls between neighbours, against loops over the elements.

use crate::common::numeric::computes;
use crate::common::shifted::{EXTENTS, shifted};
use itertools::iproduct;
use shardc::collective::Collective;
use shardc::compiler::{self, Compiled, Options};
use shardc::mesh::{Axes, AxisId, Mesh};
use shardc::report::Findings;
use shardc::schedule::{from_json, from_text, to_json};
use shardc::shift::Shift;
use shardc::sim::{clock, proof, values};

/// Every distance in both directions, with open and closed ends, on one and two axes: proven, with and without symmetry, equal
/// to the loops, and the same after text and JSON.
#[test]
fn all_distances_and_layouts() {
    let [x, y] = [AxisId::new(0), AxisId::new(1)];
    let list = |axes: &[AxisId]| axes.iter().copied().collect::<Axes>();
    let cases = [
        (Mesh::of(&[("X", 2)]), vec![[list(&[x]), Axes::NONE]]),
        (Mesh::of(&[("X", 3)]), vec![[list(&[x]), Axes::NONE], [Axes::NONE, list(&[x])]]),
        (Mesh::of(&[("X", 5)]), vec![[list(&[x]), Axes::NONE]]),
        (
            Mesh::of(&[("X", 2), ("Y", 3)]),
            vec![
                [list(&[x, y]), Axes::NONE],
                [list(&[y, x]), Axes::NONE],
                [list(&[y]), list(&[x])],
                [list(&[y]), Axes::NONE],
                [list(&[x]), list(&[y])],
            ],
        ),
    ];
    let mut count = 0;
    for (mesh, layouts) in cases {
        for (axes, dim, wraps, closed) in iproduct!(layouts, [0, 1], [false, true], [false, true]) {
            let extent = EXTENTS[usize::from(dim)] * axes[usize::from(dim)].group_size(&mesh);
            let most = i64::try_from(extent).expect("small");
            for by in (-most..=most).filter(|by| *by != 0) {
                let shift = Shift { dim, by, wraps };
                let name = || format!("{shift} on {mesh}, axes {axes:?}, closed: {closed}");
                let schedule = shifted(mesh.clone(), axes, shift, closed);
                proof::prove(&schedule).unwrap_or_else(|flaw| panic!("{}: {flaw}\n{schedule}", name()));
                proof::prove_uncollapsed(&schedule).unwrap_or_else(|flaw| panic!("{}: {flaw}", name()));
                assert!(computes(&schedule, 1), "{}\n{schedule}", name());
                let document = to_json(&schedule);
                let text = from_text(&schedule.to_string()).expect("its own text").schedule;
                assert_eq!(text.to_string(), schedule.to_string());
                assert_eq!(to_json(&from_json(&document).expect("its own document")), document);
                count += 1;
            }
        }
    }
    assert!(count > 700, "{count} shifts");
}

/// The blocks of a dim are in the order of its axes, which need not be that of the mesh.
#[test]
fn no_shift_is_below_its_bound() {
    let mut reached = 0;
    let mut count = 0;
    for (mesh, axes) in [
        ("X: 3, Y: 2", ["X,Y", "Y,X"].as_slice()),
        ("X: 4 ring, Y: 3 line", ["X,Y", "Y,X"].as_slice()),
        ("X: 2, Y: 2, Z: 2", ["X,Y,Z", "Z,Y,X", "Y,Z,X", "Z,X"].as_slice()),
    ] {
        for (order, word, size, by) in iproduct!(axes, ["shift", "roll"], [24, 20], [1, 2, 5, 8, 12, -3, -8]) {
            let source = format!(
                "mesh {{{mesh}}} on tpu_v5e\ndims {{S: {size}, D: 512}}\nx: f32[S_{{{order}}}, D]\n\
                 y[S_{{{order}}}, D] = {word}_S(x, {by})\noutput y\n"
            );
            let program = compiler::check(&source).0.unwrap_or_else(|| panic!("{source}"));
            let Compiled { plan, topology, schedule, .. } =
                compiler::compile(&program, &Options::default()).unwrap_or_else(|error| panic!("{source}\n{error:?}"));
            let time = clock::run(&schedule, &topology).expect("a time").makespan;
            let bound = Findings::new(&plan, &topology).bound.time;
            assert!(bound <= time, "{source}\n{bound:?} > {time:?}\n{plan}");
            (reached, count) = (reached + usize::from(bound == time), count + 1);
        }
    }
    assert!(reached > count / 3, "{reached} of {count} bounds are reached");
}

/// Every program with a shift equals its dense result in every layout of the operand, as a sum that is still open too, and
/// with padding.
#[test]
fn programs_equal_their_dense_results() {
    let mut moves = 0;
    for (size, word, by) in iproduct!([16, 13], ["shift", "roll"], [1, -1, 3, -4, 6, -13, 20]) {
        for (given, made) in [
            ("x: i32[S_X, D]", "[S_X, D]"),
            ("x: i32[S_X, D_Y]", "[S_X, D_Y]"),
            ("x: i32[S_{X,Y}, D]", "[S_{X,Y}, D]"),
            ("x: i32[S_X, D]{U_Y}", "[S_X, D]{U_Y}"),
            ("x: i32[S_X, D]{MAX_Y}", "[S_X, D]{MAX_Y}"),
            ("x: i32[S_X, D]{MUL_Y}", "[S_X, D]{MUL_Y}"),
            ("x: f32[S_X, D]{MEAN_Y}", "[S_X, D]{MEAN_Y}"),
            ("x: f32[S_X, D]{SQUARE_ADD_Y}", "[S_X, D]{SQUARE_ADD_Y}"),
            ("x: i32[S, D_X]", "[D_X, S]"),
        ] {
            let total = match made.split_once('{') {
                Some((_, open)) if open.starts_with("MAX") => "total: i32[] = max_{S,D}(y)\noutput y, total",
                Some((_, open)) if open.starts_with("MUL") => "total: i32[] = prod_{S,D}(y)\noutput y, total",
                Some((_, open)) if open.starts_with('M') || open.starts_with('S') => "output y",
                _ => "total: i32[] = sum_{S,D}(y)\noutput y, total",
            };
            let source = format!(
                "mesh {{X: 4 ring, Y: 2}} on h100\ndims {{S: {size}, D: 4}}\n{given}\ny{made} = {word}_S(x, {by})\n{total}\n"
            );
            let (program, found) = compiler::check(&source);
            let program = program.unwrap_or_else(|| panic!("{source}\n{found:?}"));
            let compiled = compiler::compile(&program, &Options::default());
            let compiled = compiled.unwrap_or_else(|error| panic!("{source}\n{error:?}"));
            let inputs = values::inputs(&compiled.schedule, 1).expect("small");
            let run = values::run(&compiled.schedule, &inputs).expect("small");
            let dense = values::dense(&compiled.schedule, &inputs).expect("small");
            let numerics = values::compare(&compiled.schedule, &inputs, &dense, &run).expect("small");
            assert!(numerics.equal || given.contains("f32") && numerics.within, "{source}\n{}", compiled.plan);
            let is_shift = |collective: &Collective| matches!(collective, Collective::Shift(_));
            let plan = &compiled.plan;
            moves += plan.ids().filter(|id| plan.step(*id).op.collective().is_some_and(is_shift)).count();
        }
    }
    assert!(moves > 20, "only {moves} shifts between neighbours");
}
