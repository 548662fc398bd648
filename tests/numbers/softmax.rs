//! A split softmax equals the whole one: every layout on two axes, sizes that divide and sizes that do not, every
//! float type, compared with a loop over the elements.

use itertools::Itertools;
use shardc::compiler::{self, Options};
use shardc::dtype::DType;
use shardc::program::Program;
use shardc::sim::values;
use std::collections::BTreeSet;

/// Softmax of each row of a matrix.
fn by_hand(rows: &[f64], columns: usize) -> Vec<f64> {
    let of_row = |row: &[f64]| {
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let powers: Vec<f64> = row.iter().map(|x| (x - most).exp()).collect();
        let sum: f64 = powers.iter().sum();
        powers.into_iter().map(move |power| power / sum).collect::<Vec<f64>>()
    };
    rows.chunks(columns).flat_map(of_row).collect()
}

fn split(program: &Program) -> Program {
    let all: BTreeSet<_> = program.softmaxes().collect();
    assert!(!all.is_empty());
    let split = program.with_softmaxes_split(&all);
    assert_eq!(split.softmaxes().count(), 0);
    split
}

#[test]
fn a_softmax_in_parts_is_one() {
    let layouts = |dim: &str| ["", "_X", "_Y", "_XY", "_YX"].map(|axes| format!("{dim}{axes}"));
    let mut count = 0;
    for (place, (b, t)) in layouts("B").into_iter().cartesian_product(layouts("T")).enumerate() {
        let [of_b, of_t] = [&b, &t].map(|text| text.chars().skip(2).collect::<BTreeSet<char>>());
        if !of_b.is_disjoint(&of_t) {
            continue;
        }
        for (dtype, tolerance) in [("f32", 1e-5), ("bf16", 1e-2), ("f16", 1e-3), ("f64", 1e-12)] {
            for columns in [12, 7] {
                let result = ["B, T", "B_X, T_Y", "B, T_YX"][place % 3];
                let source = format!(
                    "mesh {{X: 2 ring, Y: 3 ring}}\ndims {{B: 6, T: {columns}}}\nS: {dtype}[{b}, {t}]\nP[{result}] = softmax_T(0.5 * S)"
                );
                let program = compiler::check(&source).0.unwrap_or_else(|| panic!("{source}"));
                let compiled = compiler::compile(&split(&program), &Options::default()).expect("it is proven");
                let inputs = values::inputs(&compiled.schedule, 3).expect("small");
                let run = values::run(&compiled.schedule, &inputs).expect("small");
                let given: Vec<f64> = inputs.values().next().expect("an input").to_f64s();
                let halves: Vec<f64> = given.iter().map(|x| 0.5 * x).collect();
                let found = run.gather(0).expect("whole").array;
                assert_eq!(found.dtype(), dtype.parse::<DType>().expect("a dtype"));
                let expected = by_hand(&halves, columns);
                let off = found.to_f64s().iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(off < tolerance, "{off} {source}");
                count += 1;
            }
        }
    }
    assert_eq!(count, 8 * 11);
}

/// In a repeated body, of carried values.
#[test]
fn in_a_repeat() {
    let source = "mesh {X: 4 ring}\ndims {B: 8, T: 16}\nS: f32[B, T_X]\nrepeat 3 {\nS[B, T_X] = softmax_T(S) + 1\n}\nR = sum_T(S)";
    let program = compiler::check(source).0.expect("a right program");
    let options = Options::default();
    let whole = compiler::compile(&program, &options).expect("it is proven");
    let parts = compiler::compile(&split(&program), &options).expect("it is proven");
    let outputs = [&whole, &parts].map(|compiled| {
        let inputs = values::inputs(&compiled.schedule, 1).expect("small");
        values::run(&compiled.schedule, &inputs).expect("small").gather(0).expect("whole").array.to_f64s()
    });
    assert!(outputs[0].iter().zip(&outputs[1]).all(|(a, b)| (a - b).abs() < 1e-4), "{outputs:?}");
}
