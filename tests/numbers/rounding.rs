//! Correct schedules on data that require rounding: cancellation, overflow and underflow, infinities, NaN and signed
//! zeros, in every dtype, operator and function, with every method. None is reported as wrong, and errors in results
//! are still found.

use crate::common::{compile, sets};
use itertools::{Itertools, iproduct};
use shardc::compiler::{self, Options};
use shardc::dtype::DType;
use shardc::method::Method;
use shardc::recipe::Lowering;
use shardc::schedule::{ArrayId, OpKind, Schedule};
use shardc::sim::values::{self, Inputs, Numerics, Tensor};

/// Kinds of numbers.
#[derive(Clone, Copy, Debug)]
enum Data {
    /// Of one magnitude, with all digits.
    Ordinary,
    /// Large ones that cancel, beside small ones.
    Cancelling,
    /// Close to the largest number.
    Huge,
    /// Close to the smallest number.
    Tiny,
    /// From the smallest to the largest.
    Wide,
    /// Infinities, NaN and zeros of both signs among ordinary ones.
    Special,
    /// One NaN or infinity, huge and tiny ones, all together.
    Mixed,
}

const ALL: [Data; 7] =
    [Data::Ordinary, Data::Cancelling, Data::Huge, Data::Tiny, Data::Wide, Data::Special, Data::Mixed];

/// The exponents of the largest and the smallest number, base 2.
fn range(dtype: DType) -> (i32, i32) {
    match dtype {
        DType::F8E4M3 => (8, -9),
        DType::F8E5M2 => (15, -16),
        DType::F16 => (15, -24),
        DType::Bf16 => (127, -133),
        DType::F32 => (127, -149),
        DType::F64 => (1023, -1074),
        _ => unreachable!("a float"),
    }
}

fn power(exponent: i32) -> f64 {
    2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
}

fn number(random: &mut fastrand::Rng, data: Data, dtype: DType) -> f64 {
    let (most, least) = range(dtype);
    let sign = if random.bool() { 1.0 } else { -1.0 };
    let ordinary = sign * (1.0 + random.f64() * 0.99);
    let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0, -0.0, 1.0];
    match data {
        Data::Ordinary => ordinary,
        Data::Cancelling => match random.u8(0..3) {
            0 => power(most - 4),
            1 => -power(most - 4),
            _ => ordinary,
        },
        Data::Huge => power(most - random.i32(0..3)) * ordinary,
        Data::Tiny => power(least + random.i32(0..4)) * ordinary,
        Data::Wide => power(random.i32(least..=most)) * ordinary,
        Data::Special if random.u8(0..4) == 0 => special[random.usize(0..6)],
        Data::Special => ordinary,
        Data::Mixed => match random.u8(0..24) {
            0 => special[random.usize(0..6)],
            1..=8 => number(random, Data::Wide, dtype),
            9..=16 => number(random, Data::Huge, dtype),
            _ => ordinary,
        },
    }
}

/// Float inputs of one kind for a schedule; inputs that are sums of squares are not negative.
fn inputs(schedule: &Schedule, data: Data, seed: u64) -> Inputs {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut given = Inputs::new();
    let squares = schedule.operations.node_weights().any(|operation| {
        matches!(&operation.kind, OpKind::Input { sharding, .. }
            if sharding.operator == shardc::operator::Operator::SquareAdd)
    });
    for (id, array) in (0..).map(ArrayId).zip(&schedule.arrays) {
        if array.definition.is_input() && array.dtype.is_float() {
            let count = array.valid.iter().product::<u64>();
            let draw = |_| {
                let number = number(&mut random, data, array.dtype);
                if squares { number.abs() } else { number }
            };
            let numbers: Vec<f64> = (0..count).map(draw).collect();
            given.insert(id, Tensor::from_floats(array.dtype, &array.valid, &numbers).expect("as many"));
        }
    }
    values::inputs_beside(schedule, seed, given).expect("small")
}

fn numerics(schedule: &Schedule, inputs: &Inputs) -> Numerics {
    let dense = values::dense(schedule, inputs).expect("small");
    let run = values::run(schedule, inputs).expect("small");
    values::compare(schedule, inputs, &dense, &run).expect("comparable")
}

/// Asserts that no kind of data makes the schedule appear wrong. A full run tries 20 times as many seeds.
#[track_caller]
fn right(what: &str, schedule: &Schedule, seeds: u64) {
    let times = if sets::are_full() { 20 } else { 1 };
    for (data, seed) in iproduct!(ALL, 0..seeds * times) {
        let inputs = inputs(schedule, data, seed);
        let numerics = numerics(schedule, &inputs);
        assert!(numerics.equal || numerics.within, "{what}\n{data:?}, seed {seed}: {numerics:?}\n{schedule}");
        assert!(numerics.not_compared <= numerics.elements, "{what}: {numerics:?}");
    }
}

const FLOATS: [DType; 6] = [DType::F8E4M3, DType::F8E5M2, DType::Bf16, DType::F16, DType::F32, DType::F64];

fn given(dtype: DType, numbers: &[f64]) -> (Schedule, Inputs) {
    let count = numbers.len();
    let source = format!("mesh {{X: {count} ring}}\ndims {{I: {count}}}\nA: {dtype}[I_X]\nB = sum_I(A)\noutput B\n");
    let schedule = compile(&source).schedule;
    let tensor = Tensor::from_floats(dtype, &[count as u64], numbers).expect("as many");
    let inputs = values::inputs_beside(&schedule, 0, Inputs::from([(ArrayId(0), tensor)])).expect("small");
    (schedule, inputs)
}

#[test]
fn what_cancels_is_not_compared() {
    let (schedule, inputs) = given(DType::F32, &[1e30, 1.0, -1e30, 1.0]);
    let numerics = numerics(&schedule, &inputs);
    assert!(numerics.equal || numerics.within && numerics.not_compared == 1, "{numerics:?}");
}

#[test]
fn what_may_overflow_is_not_compared() {
    for dtype in FLOATS {
        let most = 2f64.powi(range(dtype).0 / 2) * 2f64.powi(range(dtype).0 - range(dtype).0 / 2);
        for numbers in [[most, most, -most, -most], [most, -most, most, -most], [-most, most, most, -most]] {
            let (schedule, inputs) = given(dtype, &numbers);
            let numerics = numerics(&schedule, &inputs);
            assert!(numerics.equal || numerics.within && numerics.not_compared == 1, "{dtype}: {numerics:?}");
        }
    }
}

#[test]
fn infinities_and_nans_are_equal_where_every_order_gives_them() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    for (dtype, numbers) in iproduct!(FLOATS, [[inf, 1.0, 2.0, 3.0], [1.0, -inf, 2.0, inf], [0.5, 1.0, nan, -inf]]) {
        let (schedule, inputs) = given(dtype, &numbers);
        assert!(numerics(&schedule, &inputs).equal, "{dtype} {numbers:?}");
    }
}

/// Every operator of an open sum: closed completely, in part, scattered, left open.
#[test]
fn open_sums_of_every_operator_are_right_on_all_data() {
    for (operator, dtype) in iproduct!(["U", "MAX", "MIN", "MUL", "MEAN", "SQUARE_ADD"], FLOATS) {
        let rest = if operator == "SQUARE_ADD" { "U" } else { operator };
        let ground =
            format!("mesh {{X: 4 ring, Y: 3 ring}}\ndims {{I: 12, J: 5}}\nA: {dtype}[I, J]{{{operator}_XY}}\n");
        for body in [
            "A -> R[I, J]".to_owned(),
            "A -> R[I_X, J_Y]".to_owned(),
            format!("A -> R[I, J]{{{operator}_XY}}"),
            format!("A -> R[I_X, J]{{{rest}_Y}}"),
        ] {
            let source = format!("{ground}{body}");
            right(&source, &compile(&source).schedule, 2);
        }
    }
}

/// Sums, extremes and products over dims, and products of arrays, in all shardings.
#[test]
fn reductions_and_products_are_right_on_all_data() {
    for (dtype, bitwise) in iproduct!(FLOATS, [false, true]) {
        let ground = format!(
            "mesh {{X: 4 ring, Y: 2}}\ndims {{I: 6, J: 16, K: 8}}\nA: {dtype}[I, J_X]\nB: {dtype}[J_X, K]\n\
             C: {dtype}[J_YX, K]\n"
        );
        for body in [
            "R[I] = sum_J(A)",
            "R[I] = max_J(A)",
            "R[I] = min_J(A)",
            "R[I] = mean_J(A)",
            "R[I, K] = A * B",
            "R[I_Y, K_X] = A * B",
            "R[I, K]{U_X} = A * B",
            "R[I, K] = relu(A * B) + 1.5",
            "R[I, K] = 3 * (A * C)",
            "R[I] = sum_K(A * B)",
            "R[I, J] = softmax_J(A)",
            "T = A * B\nR[I, K] = softmax_K(T)",
            "T = A * B\nR[I, J] = T * (2 * C)",
        ] {
            let source = format!("{ground}{body}\noutput R\n");
            let Some(program) = compiler::check(&source).0 else { panic!("{source}") };
            let options = Options { lowering: Lowering { bitwise, ..Lowering::default() }, ..Options::default() };
            let schedule = compiler::compile(&program, &options).unwrap_or_else(|_| panic!("{source}")).schedule;
            right(&source, &schedule, 2);
        }
    }
}

/// Functions of sums, which depend on the order of the sum.
#[test]
fn functions_of_sums_are_right_on_all_data() {
    let functions = [
        "-T",
        "abs(T)",
        "relu(T)",
        "gelu(T)",
        "exp(T)",
        "tanh(T)",
        "sigmoid(T)",
        "silu(T)",
        "sqrt(T)",
        "rsqrt(T)",
        "log(T)",
        "square(T)",
        "recip(T)",
        "3 * T",
        "T + 0.25",
        "T / V",
        "T - V",
        "max(T, V)",
        "min(T, V)",
        "max(T, 0.5)",
        "cast(T, i32)",
        "cast(T, i8)",
        "cast(T, u8)",
        "cast(T, u64)",
        "u8(-1 * i8(T))",
        "u16(T) - u16(V)",
        "cast(T, f8e4m3)",
        "cast(T, f8e5m2)",
        "cast(T, f64)",
        "cast(T, bf16)",
        "cast(T, f16)",
        "where(T > V, T, V)",
        "softmax_I(T)",
    ];
    let mut computed = 0;
    for (dtype, function) in iproduct!(FLOATS, functions) {
        let source = format!(
            "mesh {{X: 4 ring}}\ndims {{I: 12}}\nA: {dtype}[I]{{U_X}}\nV: {dtype}[I]\nT[I] = A\nR = {function}\noutput R\n"
        );
        let Some(program) = compiler::check(&source).0 else { continue };
        let Ok(compiled) = compiler::compile(&program, &Options::default()) else { continue };
        computed += 1;
        right(&source, &compiled.schedule, 4);
        let wide = source.replace("T[I] = A", "T[I] = A\nV2 = 2 * V").replace("V)", "V2)");
        if let Some(program) = compiler::check(&wide).0
            && let Ok(compiled) = compiler::compile(&program, &Options::default())
        {
            right(&wide, &compiled.schedule, 2);
        }
    }
    assert!(computed > 4 * 18, "{computed}");
}

/// All methods of AllReduce and ReduceScatter.
#[test]
fn every_method_is_right_on_all_data() {
    let mut compiled = 0;
    for (method, dtype, result) in iproduct!(Method::ALL.map(Method::name), FLOATS, ["B[I]", "B[I_X]"]) {
        for bitwise in [false, true] {
            let source = format!(
                "mesh {{X: 8 ring}}\ndims {{I: 16}}\nA: {dtype}[I]{{U_X}}\n{result} = A using {method}\noutput B\n"
            );
            let Some(program) = compiler::check(&source).0 else { continue };
            let options = Options { lowering: Lowering { bitwise, ..Lowering::default() }, ..Options::default() };
            let Ok(it) = compiler::compile(&program, &options) else { continue };
            compiled += 1;
            right(&source, &it.schedule, 1);
        }
    }
    assert!(compiled > 60, "{compiled}");
}

/// A product that is accumulated onto the sum, slice by slice.
#[test]
fn deferred_products_are_right_on_all_data() {
    for dtype in [DType::F32, DType::F64, DType::Bf16] {
        let source = format!(
            "mesh {{X: 3 ring}}\ndims {{I: 128, J: 48, K: 384}}\nA: {dtype}[I, J_X]\nB: {dtype}[J_X, K]\n\
             A * B -> C[I, K_X]\n"
        );
        right(&source, &compile(&source).schedule, 1);
    }
}

/// An error in one element is found on ordinary data for any number of elements: the bounds are tight enough.
#[test]
fn a_slip_on_ordinary_data_is_found() {
    let mut random = fastrand::Rng::with_seed(5);
    for dtype in FLOATS {
        let source = format!(
            "mesh {{X: 4 ring}}\ndims {{I: 16, J: 64, K: 16}}\nA: {dtype}[I, J_X]\nB: {dtype}[J_X, K]\n\
             R[I, K] = tanh(A * B)\nS[I, K] = A * B\noutput R\noutput S\n"
        );
        let schedule = compile(&source).schedule;
        let inputs = inputs(&schedule, Data::Ordinary, 1);
        let dense = values::dense(&schedule, &inputs).expect("small");
        let run = values::run(&schedule, &inputs).expect("small");
        let honest = values::compare(&schedule, &inputs, &dense, &run).expect("comparable");
        assert!(honest.within && honest.not_compared == 0, "{dtype}: {honest:?}");
        for _ in 0..20 {
            let mut dense = dense.clone();
            let output = schedule.outputs[1].array.index();
            let mut numbers = dense[output].to_f64s();
            let place = random.usize(..numbers.len());
            // One of 64 products is missing.
            numbers[place] += 1.0;
            let (dtype, extents) = (dense[output].dtype(), dense[output].extents());
            dense[output] = Tensor::from_floats(dtype, &extents, &numbers).expect("as many");
            let slip = values::compare(&schedule, &inputs, &dense, &run).expect("comparable");
            assert!(!slip.within && !slip.equal, "{dtype}: {slip:?}");
        }
    }
}

/// The pieces of an input are derived from the array: data that are not a sum of squares are refused.
#[test]
fn a_negative_sum_of_squares_is_refused() {
    for (dtype, number, fine) in [("f32", -1.0, false), ("f32", 7.0, true), ("i32", -4.0, false), ("i32", 2.0, true)] {
        let source = format!("mesh {{X: 2}}\ndims {{I: 4}}\nA: {dtype}[I]{{SQUARE_ADD_X}}\nA -> B[I]\n");
        let schedule = compile(&source).schedule;
        let tensor = Tensor::from_floats(dtype.parse().expect("a dtype"), &[4], &[number; 4]).expect("four");
        let run = values::run(&schedule, &Inputs::from([(ArrayId(0), tensor)]));
        assert_eq!(run.is_ok(), fine, "{dtype} {number}: {run:?}");
    }
}

/// With given data that cancel, `run` reports the number of elements that were not compared, and exits with 0,
/// because the proof holds.
#[test]
fn run_tells_what_it_did_not_compare() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("rounding");
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = "mesh {X: 4 ring} on tpu_v5e\ndims {I: 4}\nA: f32[I_X]\nB = sum_I(A)\noutput B\n";
    std::fs::write(folder.join("p.shard"), source).expect("a file");
    let mut not_compared = 0;
    for numbers in [1e30, 1.0, -1e30, 1.0].into_iter().permutations(4) {
        let tensor = Tensor::from_floats(DType::F32, &[4], &numbers).expect("four");
        std::fs::write(folder.join("a.npy"), shardc::arrays::write_npy(&tensor)).expect("a file");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_shardc"));
        let output =
            command.current_dir(&folder).args(["run", "p.shard", "--input", "A=a.npy"]).output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{numbers:?}: {text}");
        not_compared += usize::from(text.contains("\nunclear  not compared: the element may overflow or cancel\n"));
    }
    assert!(not_compared > 0, "in some order the sum is another");
}
