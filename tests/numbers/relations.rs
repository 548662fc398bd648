//! Comparisons and positions along a dim: every layout on two axes compared with the tests' interpreter, and the
//! library's results compared with loops over the elements.

use super::elements::{GROUND, SHAPES, layouts};
use crate::common::{compile, numeric};
use itertools::Itertools;
use shardc::compiler::{self, Compiled};
use shardc::dtype::DType;
use shardc::sim::values;

const SIGNS: [&str; 6] = ["<", "<=", ">", ">=", "==", "!="];

fn holds(sign: &str, left: f64, right: f64) -> bool {
    match sign {
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        "==" => left == right,
        _ => left != right,
    }
}

/// The first output, computed by the devices, and the inputs in order.
fn computed(compiled: &Compiled) -> (Vec<f64>, Vec<Vec<f64>>) {
    let inputs = values::inputs(&compiled.schedule, 3).expect("small");
    let run = values::run(&compiled.schedule, &inputs).expect("small");
    (run.gather(0).expect("whole").array.to_f64s(), inputs.values().map(|input| input.to_f64s()).collect())
}

#[test]
fn every_layout_on_two_axes() {
    let mut count = 0;
    for (left, right, dims) in SHAPES {
        let results = layouts(dims);
        for (place, (a, b)) in layouts(left).into_iter().cartesian_product(layouts(right)).enumerate() {
            let (sign, result) = (SIGNS[place % 6], &results[(5 * place + 2) % results.len()]);
            let source = format!("{GROUND}A: i64[{a}]\nB: i64[{b}]\nR[{result}] = A {sign} B");
            let compiled = compile(&source);
            assert!(numeric::computes(&compiled.schedule, 5), "{source}\n{}", compiled.schedule);
            count += 1;
        }
    }
    assert!(count > 350, "{count}");
}

#[test]
fn elements_compare_as_numbers() {
    for (dtype, sign) in DType::ALL[1..].iter().cartesian_product(SIGNS) {
        let source = format!("{GROUND}A: {dtype}[I_X, J]\nB: {dtype}[I, J_Y]\nR[I, J] = A {sign} B");
        let (found, inputs) = computed(&compile(&source));
        let expected = inputs[0].iter().zip(&inputs[1]).map(|(a, b)| f64::from(u8::from(holds(sign, *a, *b))));
        assert_eq!(found, expected.collect::<Vec<f64>>(), "{source}");
    }
}

/// A number is rounded to the dtype that it is compared with, on either side.
#[test]
fn numbers_are_rounded_to_the_dtype() {
    for (dtype, number, rounded) in
        [("bf16", "0.1", 0.100_097_656_25), ("f16", "0.1", 0.099_975_585_937_5), ("f32", "0.1", f64::from(0.1f32))]
    {
        let source = format!("{GROUND}A: {dtype}[I_X]\nC = A * 0 + {number}\nR[I] = C == {number}");
        assert_eq!(computed(&compile(&source)).0, vec![1.0; 6], "{source}");
        let source = format!("{GROUND}A: {dtype}[I_X]\nC = A * 0 + {number}\nR[I] = f64(C)");
        assert_eq!(computed(&compile(&source)).0, vec![rounded; 6], "{source}");
    }
    for (turned, sign) in [(">", "<"), (">=", "<="), ("<", ">"), ("<=", ">="), ("==", "=="), ("!=", "!=")] {
        let source = format!("{GROUND}A: i32[I_X]\nR[I] = 0 {turned} A");
        let (found, inputs) = computed(&compile(&source));
        let expected = inputs[0].iter().map(|a| f64::from(u8::from(holds(sign, *a, 0.0))));
        assert_eq!(found, expected.collect::<Vec<f64>>(), "{source}");
    }
}

#[test]
fn nothing_compares_with_what_is_no_number() {
    for (sign, expected) in SIGNS.into_iter().zip([0.0, 0.0, 0.0, 0.0, 0.0, 1.0]) {
        let source = format!("{GROUND}A: f32[I_X]\nC = log(0 * A - 1)\nR[I] = C {sign} C");
        assert_eq!(computed(&compile(&source)).0, vec![expected; 6], "{source}");
    }
}

/// Positions in every layout, for sizes that divide and sizes that do not.
#[test]
fn places_are_counted() {
    for (size, axes) in [12, 7, 1].into_iter().cartesian_product(["", "_X", "_Y", "_XY", "_YX"]) {
        let ground = format!("mesh {{X: 2 ring, Y: 3 ring}}\ndims {{I: {size}, J: 5}}\n");
        let compiled = compile(&format!("{ground}A: i32[I{axes}]\nR[I{axes}] = iota_I + 0 * A"));
        assert!(numeric::computes(&compiled.schedule, 5));
        let expected: Vec<f64> = (0..size).map(f64::from).collect();
        assert_eq!(computed(&compiled).0, expected, "{axes}");
        let compiled = compile(&format!("{ground}A: i32[J, I{axes}]\nR[J] = sum_I(where(iota_J >= iota_I, A, 0))"));
        let (found, inputs) = computed(&compiled);
        let given = inputs.iter().find(|input| input.len() == 5 * size as usize && input.iter().any(|x| *x < 0.0));
        let rows = given.expect("the input").chunks(size as usize);
        let expected = rows.enumerate().map(|(row, values)| values.iter().take(row + 1).sum::<f64>());
        assert_eq!(found, expected.collect::<Vec<f64>>(), "{axes} {size}");
    }
}

/// Positions in repeated bodies, and beside an array of the same name.
#[test]
fn places_are_known_everywhere() {
    let source =
        "mesh {X: 2 ring}\ndims {I: 4}\nx: i32[I_X]\nrepeat 3 {\nx[I_X] = x + iota_I\n}\nR[I] = x - 3 * iota_I";
    let (found, inputs) = computed(&compile(source));
    assert!(inputs.contains(&found), "{found:?} {inputs:?}");
    let own = compile("mesh {X: 2 ring}\ndims {I: 4}\niota_I: f32[I_X]\nR[I] = iota_I");
    assert_eq!(own.plan.program.values.iter().filter(|value| value.definition.is_input()).count(), 1);
    let found = compiler::check("mesh {X: 2 ring}\ndims {I: 4}\nR = iota_Q * 2").1;
    assert!(found.iter().any(|found| found.code == "unknown-array"), "{found:?}");
}

/// A lookup by comparison returns the row of the table, for any sharding of the table.
#[test]
fn a_one_hot_product_takes_rows() {
    for table in ["V, D", "V_X, D", "V_XY, D", "V_Y, D_X"] {
        let source = format!(
            "mesh {{X: 2 ring, Y: 3 ring}}\ndims {{B: 6, V: 9, D: 4}}\nids: i32[B]\nE: f32[{table}]\n\
             R[B, D] = f32(ids == iota_V) * E"
        );
        let compiled = compile(&source);
        let (found, inputs) = computed(&compiled);
        let (ids, rows) = (
            inputs.iter().find(|input| input.len() == 6).expect("ids"),
            inputs.iter().find(|input| input.len() == 36).expect("a table"),
        );
        let row = |id: &f64| -> Vec<f64> {
            // Numbers below the first row select no row.
            let taken = (0..9).find(|row| f64::from(*row) == *id).and_then(|row| usize::try_from(row).ok());
            taken.map_or(vec![0.0; 4], |row| rows[4 * row..][..4].to_vec())
        };
        assert_eq!(found, ids.iter().flat_map(row).collect::<Vec<f64>>(), "{source}");
    }
}

/// Functions defined by reductions, in every layout of a matrix, compared with loops over its rows.
#[test]
fn functions_over_dims_are_those_of_rows() {
    fn mean(row: &[f64]) -> f64 {
        row.iter().sum::<f64>() / row.len() as f64
    }
    fn log_sum_exp(row: &[f64]) -> f64 {
        row.iter().map(|x| x.exp()).sum::<f64>().ln()
    }
    type OfRow = fn(&[f64]) -> Vec<f64>;
    let cases: [(&str, &str, OfRow); 5] = [
        ("[I]", "var_J(A)", |row| vec![row.iter().map(|x| (x - mean(row)).powi(2)).sum::<f64>() / row.len() as f64]),
        ("[I]", "logsumexp_J(A)", |row| vec![log_sum_exp(row)]),
        ("[I, J]", "log_softmax_J(A)", |row| row.iter().map(|x| x - log_sum_exp(row)).collect()),
        ("[I]", "f64(any_J(A > 0.5))", |row| vec![f64::from(u8::from(row.iter().any(|x| *x > 0.5)))]),
        ("[I]", "f64(all_J(A > -0.5))", |row| vec![f64::from(u8::from(row.iter().all(|x| *x > -0.5)))]),
    ];
    for (layout, columns) in layouts(&["I", "J"]).into_iter().cartesian_product([12, 7]) {
        for (result, text, of_row) in cases {
            let source = format!(
                "mesh {{X: 2 ring, Y: 3 ring}}\ndims {{I: 6, J: {columns}}}\nA: f64[{layout}]\nR{result} = {text}"
            );
            let (found, inputs) = computed(&compile(&source));
            let expected: Vec<f64> = inputs[0].chunks(columns).flat_map(of_row).collect();
            let off = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(found.len() == expected.len() && off < 1e-9, "{off} {source}");
        }
    }
}

/// Positions along a merged dim, and along a dim that a function renames.
#[test]
fn places_of_merged_and_renamed_dims() {
    let ground = "mesh {X: 2 ring, Y: 3 ring}\ndims {K: 4, M: 3, N = K*M, T: 12}\n";
    let (found, _) = computed(&compile(&format!("{ground}R[N] = f64(iota_N)")));
    assert_eq!(found, (0..12).map(f64::from).collect::<Vec<f64>>());
    let source =
        format!("{ground}A: f64[T_X, K]\ndef f(a[P, Q]) {{\nreturn a + 100 * iota_P + iota_Q\n}}\nR[T, K] = f(A) - A");
    let (found, _) = computed(&compile(&source));
    assert_eq!(found, (0..48).map(|at| f64::from(at / 4 * 100 + at % 4)).collect::<Vec<f64>>());
}
