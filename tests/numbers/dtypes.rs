//! Every dtype on numbers of its whole range, against arithmetic on wide integers and a search among all floats.
#![allow(clippy::cast_possible_truncation)]

use crate::common::{compile, tools};
use half::{bf16, f16};
use itertools::{Itertools, iproduct};
use shardc::dtype::DType;
use shardc::sim::clock;
use shardc::sim::values::{self, Inputs, Tensor};
use std::io::Write;
use std::process::{Command, Stdio};

/// Bits and sign of each integer dtype.
const INTEGERS: [(DType, u32, bool); 10] = [
    (DType::I4, 4, true),
    (DType::U4, 4, false),
    (DType::I8, 8, true),
    (DType::I16, 16, true),
    (DType::I32, 32, true),
    (DType::I64, 64, true),
    (DType::U8, 8, false),
    (DType::U16, 16, false),
    (DType::U32, 32, false),
    (DType::U64, 64, false),
];

fn kind(dtype: DType) -> Option<(u32, bool)> {
    INTEGERS.iter().find(|(own, ..)| *own == dtype).map(|(_, bits, signed)| (*bits, *signed))
}

fn range(bits: u32, signed: bool) -> (i128, i128) {
    if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The element of an integer dtype that is congruent modulo 2^bits.
fn wrapped(dtype: DType, number: i128) -> i128 {
    let (bits, signed) = kind(dtype).expect("an integer");
    let number = number.rem_euclid(1 << bits);
    if signed && number >= 1 << (bits - 1) { number - (1 << bits) } else { number }
}

/// The integers of a tensor.
fn integers(tensor: &Tensor) -> Vec<i128> {
    if tensor.dtype() == DType::U64 {
        return tensor.to_vec::<u64>().expect("u64").into_iter().map(i128::from).collect();
    }
    tensor.to_i64s().into_iter().map(i128::from).collect()
}

/// Numbers from all of the range, its ends among them.
fn numbers(dtype: DType, count: usize, random: &mut fastrand::Rng) -> Vec<i128> {
    let (bits, signed) = kind(dtype).expect("an integer");
    let (least, most) = range(bits, signed);
    let ends = [least, most, 0, 1, most - 1, least + 1];
    (0..count)
        .map(
            |_| {
                if random.u8(0..3) == 0 { ends[random.usize(0..6)] } else { wrapped(dtype, i128::from(random.i64(..))) }
            },
        )
        .collect()
}

fn tensor(dtype: DType, extents: &[u64], numbers: &[i128]) -> Tensor {
    let low: Vec<i64> = numbers.iter().map(|number| (*number as u128 as u64).cast_signed()).collect();
    Tensor::from_integers(dtype, extents, &low).expect("as many")
}

/// The dense result of a program and that of its devices, which must be equal.
fn result(source: &str, given: Vec<Tensor>) -> Tensor {
    let schedule = compile(source).schedule;
    let ids = (0..).map(shardc::schedule::ArrayId).zip(&schedule.arrays);
    let inputs = ids.filter(|(_, array)| array.definition.is_input()).map(|(id, _)| id);
    let inputs: Inputs = inputs.zip(given).collect();
    let dense = values::dense(&schedule, &inputs).expect("small");
    let run = values::run(&schedule, &inputs).expect("small");
    let numerics = values::compare(&schedule, &inputs, &dense, &run).expect("comparable");
    assert!(numerics.equal, "{source}\n{numerics:?}");
    run.gather(0).expect("an output").array
}

const GROUND: &str = "mesh {X: 2 ring, Y: 2 ring}\ndims {I: 4, J: 6, K: 3}\n";

/// A binary operation as written, and on wide integers.
type Binary = (&'static str, fn(i128, i128) -> i128);

#[test]
fn integers_are_computed_modulo_their_range() {
    let mut random = fastrand::Rng::with_seed(1);
    let binary: [Binary; 9] = [
        ("A + B", |a, b| a + b),
        ("A - B", |a, b| a - b),
        ("A .* B", |a, b| a.wrapping_mul(b)),
        ("max(A, B)", i128::max),
        ("min(A, B)", i128::min),
        ("-A + 0 * B", |a, _| -a),
        ("square(A) + 0 * B", |a, _| a.wrapping_mul(a)),
        ("3 * A - 7 + 0 * B", |a, _| 3 * a - 7),
        ("relu(A) + 0 * B", |a, _| a.max(0)),
    ];
    for ((dtype, ..), (text, compute)) in iproduct!(INTEGERS, binary) {
        let (a, b) = (numbers(dtype, 24, &mut random), numbers(dtype, 24, &mut random));
        let source = format!("{GROUND}A: {dtype}[I_X, J]\nB: {dtype}[I, J_Y]\nR[I_X, J_Y] = {text}\noutput R\n");
        let found = result(&source, vec![tensor(dtype, &[4, 6], &a), tensor(dtype, &[4, 6], &b)]);
        assert_eq!(found.dtype(), dtype, "{source}");
        let expected = a.iter().zip(&b).map(|(a, b)| wrapped(dtype, compute(*a, *b)));
        assert_eq!(integers(&found), expected.collect::<Vec<_>>(), "{source}");
    }
    for (dtype, ..) in INTEGERS {
        let (a, b) = (numbers(dtype, 24, &mut random), numbers(dtype, 24, &mut random));
        for (sign, holds) in [("<", i128::lt as fn(&i128, &i128) -> bool), (">=", i128::ge), ("==", i128::eq)] {
            let source = format!("{GROUND}A: {dtype}[I_X, J]\nB: {dtype}[I, J_Y]\nR[I, J] = A {sign} B\noutput R\n");
            let found = result(&source, vec![tensor(dtype, &[4, 6], &a), tensor(dtype, &[4, 6], &b)]);
            let expected = a.iter().zip(&b).map(|(a, b)| i128::from(holds(a, b)));
            assert_eq!(integers(&found), expected.collect::<Vec<_>>(), "{source}");
        }
    }
}

#[test]
fn integers_beside_other_integers_have_a_common_type() {
    let mut random = fastrand::Rng::with_seed(2);
    for ((left, left_bits, left_sign), (right, right_bits, right_sign)) in iproduct!(INTEGERS, INTEGERS) {
        // The narrowest type that has all numbers of both.
        let holds = |(_, bits, signed): &(DType, u32, bool)| {
            let (least, most) = range(*bits, *signed);
            [(left_bits, left_sign), (right_bits, right_sign)]
                .into_iter()
                .all(|(bits, signed)| least <= range(bits, signed).0 && range(bits, signed).1 <= most)
        };
        let common = INTEGERS.into_iter().filter(holds).min_by_key(|(_, bits, _)| *bits).map(|(dtype, ..)| dtype);
        let source = format!("{GROUND}A: {left}[I_X, J]\nB: {right}[I, J_Y]\nR[I_X, J_Y] = A - B\noutput R\n");
        let Some(common) = common else {
            assert_eq!(crate::common::errors(&source), ["dtype-mismatch"], "{source}");
            continue;
        };
        let (a, b) = (numbers(left, 24, &mut random), numbers(right, 24, &mut random));
        let found = result(&source, vec![tensor(left, &[4, 6], &a), tensor(right, &[4, 6], &b)]);
        assert_eq!(found.dtype(), common, "{source}");
        let expected = a.iter().zip(&b).map(|(a, b)| wrapped(common, a - b));
        assert_eq!(integers(&found), expected.collect::<Vec<_>>(), "{source}");
    }
}

#[test]
fn sums_and_products_of_integers_are_those_of_wide_integers() {
    let mut random = fastrand::Rng::with_seed(3);
    for ((left, ..), (right, ..), rounds) in iproduct!(INTEGERS, INTEGERS, 0..2) {
        let source = format!("{GROUND}A: {left}[I, J_X]\nB: {right}[J_X, K]\nR[I_X, K] = A * B\noutput R\n");
        let unsigned = |dtype: DType| !kind(dtype).expect("an integer").1;
        let mixes_u64 = unsigned(left) != unsigned(right) && [left, right].contains(&DType::U64);
        if mixes_u64 {
            assert_eq!(crate::common::errors(&source), ["dtype-mismatch"], "{source}");
            continue;
        }
        // Small numbers take another way through the simulator than large ones.
        let few = |dtype: DType, numbers: Vec<i128>| -> Vec<i128> {
            let small = |n: i128| wrapped(dtype, n.rem_euclid(5));
            if rounds == 0 { numbers } else { numbers.into_iter().map(small).collect() }
        };
        let (a, b) = (few(left, numbers(left, 24, &mut random)), few(right, numbers(right, 18, &mut random)));
        let found = result(&source, vec![tensor(left, &[4, 6], &a), tensor(right, &[6, 3], &b)]);
        let sums = iproduct!(0..4, 0..3)
            .map(|(i, k)| (0..6).fold(0i128, |sum, j| sum.wrapping_add(a[6 * i + j].wrapping_mul(b[3 * j + k]))));
        let expected = sums.map(|sum| wrapped(found.dtype(), sum));
        assert_eq!(integers(&found), expected.collect::<Vec<_>>(), "{source}");
        if left.bits() <= 8 && right.bits() <= 8 {
            let wide = if unsigned(left) && unsigned(right) { DType::U32 } else { DType::I32 };
            assert_eq!(found.dtype(), wide, "{source}");
        }
    }
    for (dtype, ..) in INTEGERS {
        let a = numbers(dtype, 24, &mut random);
        for (word, fold) in
            [("sum", i128::wrapping_add as fn(i128, i128) -> i128), ("max", i128::max), ("min", i128::min)]
        {
            let source = format!("{GROUND}A: {dtype}[I_Y, J_X]\nR[I] = {word}_J(A)\noutput R\n");
            let found = result(&source, vec![tensor(dtype, &[4, 6], &a)]);
            let wide = match dtype {
                DType::I4 | DType::I8 if word == "sum" => DType::I32,
                DType::U4 | DType::U8 if word == "sum" => DType::U32,
                other => other,
            };
            assert_eq!(found.dtype(), wide, "{source}");
            let rows = a.chunks(6).map(|row| row.iter().copied().reduce(fold).expect("six"));
            let expected = rows.map(|row| wrapped(wide, row));
            assert_eq!(integers(&found), expected.collect::<Vec<_>>(), "{source}");
        }
    }
}

/// All finite numbers of a narrow float, with the evenness of their encoding.
fn floats(dtype: DType) -> Vec<(f64, bool)> {
    let of = |bits: u16| match dtype {
        DType::F16 => f16::from_bits(bits).to_f64(),
        DType::Bf16 => bf16::from_bits(bits).to_f64(),
        // The upper half of an f16.
        DType::F8E5M2 => f16::from_bits(bits << 8).to_f64(),
        _ => match bits & 0x7F {
            0x7F => f64::NAN,
            magnitude if magnitude < 8 => f64::from(magnitude) * 2f64.powi(-9),
            magnitude => f64::from(8 + magnitude % 8) * 2f64.powi(i32::from(magnitude / 8) - 10),
        },
    };
    let half = if dtype.stored() == 1 { 0x7F } else { 0x7FFF };
    let positive = (0..=half).map(|bits| (of(bits), bits % 2 == 0)).filter(|(number, _)| number.is_finite());
    positive.sorted_by(|a, b| a.0.total_cmp(&b.0)).collect()
}

/// The nearest of all numbers of a narrow float; of two, the even one. Too large ones become what is given.
fn nearest(all: &[(f64, bool)], number: f64, beyond: f64) -> f64 {
    let magnitude = number.abs();
    let at = all.partition_point(|(own, _)| *own < magnitude);
    let most = all[all.len() - 1].0;
    let step = most - all[all.len() - 2].0;
    if magnitude.is_nan() || magnitude > most {
        // The largest number has an odd encoding, except in e4m3.
        let tie_stays = all[all.len() - 1].1;
        let over = magnitude - most - step / 2.0;
        return if over < 0.0 || over == 0.0 && tie_stays { most } else { beyond }.copysign(number);
    }
    let (above, is_even) = all[at];
    let below = if at == 0 { above } else { all[at - 1].0 };
    let (down, up) = (magnitude - below, above - magnitude);
    if up < down || up == down && is_even { above } else { below }.copysign(number)
}

/// Every value of the narrow floats, numbers between them, and the ends of all ranges, cast to every dtype.
#[test]
fn casts_between_all_dtypes() {
    let mut random = fastrand::Rng::with_seed(4);
    for (from, to) in iproduct!(DType::ALL, DType::ALL) {
        let numbers: Vec<f64> = match (kind(from), from) {
            (_, DType::Bool) => vec![0.0, 1.0],
            (Some(_), _) => numbers(from, 64, &mut random).into_iter().map(|number| number as f64).collect(),
            (None, DType::F64 | DType::F32) => {
                let near = floats(to_narrow(to)).into_iter().flat_map(|(x, _)| [x, -x * 1.03, x * 1.0625, x * 0.9375]);
                let ends = [f64::NAN, f64::INFINITY, -1.5, 1e30, -1e30, 0.5, 300.7, 464.0, 465.0, 61440.0, 61439.0];
                near.chain(ends).chain((0..64).map(|_| (random.f64() - 0.5) * 600.0)).collect()
            }
            (None, _) => floats(from).into_iter().flat_map(|(x, _)| [x, -x]).chain([f64::NAN, f64::INFINITY]).collect(),
        };
        let numbers: Vec<f64> = if numbers.len() > 2000 { numbers.into_iter().step_by(31).collect() } else { numbers };
        let count = numbers.len() as u64;
        let source = format!("mesh {{X: 2}}\ndims {{I: {count}}}\nA: {from}[I_X]\nR[I_X] = {to}(A)\noutput R\n");
        let given = Tensor::from_floats(from, &[count], &numbers).expect("as many");
        let exact = if kind(from).is_some() { integers(&given) } else { Vec::new() };
        let found = if from == to { given.clone() } else { result(&source, vec![given.clone()]) };
        let narrow = matches!(to, DType::F8E4M3 | DType::F8E5M2 | DType::Bf16 | DType::F16);
        let all = if narrow { floats(to) } else { Vec::new() };
        let (whole, real) = (if kind(to).is_some() { integers(&found) } else { Vec::new() }, found.to_f64s());
        for (at, number) in given.to_f64s().into_iter().enumerate() {
            match (kind(to), exact.get(at)) {
                (Some(_), Some(exact)) => assert_eq!(whole[at], wrapped(to, *exact), "{from} {exact} {to}"),
                (Some((bits, signed)), None) => {
                    let (least, most) = range(bits, signed);
                    let cut = number.trunc();
                    let expected = if cut.is_nan() { 0 } else { (cut as i128).clamp(least, most) };
                    assert_eq!(whole[at], expected, "{from} {number} {to}");
                }
                (None, exact) => {
                    let expected = match to {
                        DType::Bool => f64::from(u8::from(number != 0.0)),
                        DType::F64 => exact.map_or(number, |exact| *exact as f64),
                        DType::F32 => exact.map_or(number as f32, |exact| *exact as f32).into(),
                        _ if number.is_nan() => f64::NAN,
                        DType::F8E4M3 => nearest(&all, number, f64::NAN),
                        _ => nearest(&all, number, f64::INFINITY),
                    };
                    let same = real[at] == expected || real[at].is_nan() && expected.is_nan();
                    assert!(same, "{from} {number:e} {to}: {:e}, not {expected:e}", real[at]);
                }
            }
        }
    }
}

/// A narrow float whose numbers probe casts to this dtype.
fn to_narrow(to: DType) -> DType {
    match to {
        DType::F8E4M3 | DType::F8E5M2 | DType::Bf16 | DType::F16 => to,
        _ => DType::F8E5M2,
    }
}

/// Products of fp8 are accumulated in f32 and not rounded to fp8; a written dtype rounds once.
#[test]
fn products_of_fp8_are_f32() {
    let numbers: Vec<f64> = (0..24).map(|n| f64::from(n % 7) - 3.0).collect();
    let given = |dtype| {
        vec![
            Tensor::from_floats(dtype, &[4, 6], &numbers).expect("24"),
            Tensor::from_floats(dtype, &[6, 3], &numbers[..18]).expect("18"),
        ]
    };
    let sums: Vec<f64> =
        iproduct!(0..4, 0..3).map(|(i, k)| (0..6).map(|j| numbers[6 * i + j] * numbers[3 * j + k]).sum()).collect();
    for dtype in [DType::F8E4M3, DType::F8E5M2] {
        for (result_dtype, word) in [(DType::F32, ""), (DType::Bf16, ": bf16"), (dtype, &format!(": {dtype}"))] {
            let source = format!("{GROUND}A: {dtype}[I_X, J]\nB: {dtype}[J, K]\nR{word}[I_X, K] = A * B\noutput R\n");
            let found = result(&source, given(dtype));
            assert_eq!(found.dtype(), result_dtype, "{source}");
            let expected = Tensor::from_floats(result_dtype, &[4, 3], &sums).expect("12");
            assert_eq!(found.to_f64s(), expected.to_f64s(), "{source}");
        }
    }
}

/// Rounds f32s to fp8 as `ml_dtypes` does, which JAX uses. Without Python with JAX the test is skipped with a message.
#[test]
fn fp8_is_rounded_as_in_jax() {
    const SCRIPT: &str = "import sys, numpy, ml_dtypes\n\
         numbers = numpy.frombuffer(sys.stdin.buffer.read(), '<f4')\n\
         for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):\n    \
         sys.stdout.buffer.write(numbers.astype(dtype).tobytes())\n";
    let Some(python) = tools::pythons().into_iter().next() else { return };
    let mut random = fastrand::Rng::with_seed(5);
    let near = |dtype| floats(dtype).into_iter().map(|(number, _)| number);
    let exact = near(DType::F8E4M3).chain(near(DType::F8E5M2)).flat_map(|x| [x, x * 1.0625, x * 1.125, x * 0.9375]);
    let around = exact.map(|x| x as f32).flat_map(|x| [x, x.next_up(), x.next_down(), -x]);
    let ends = [464.0, 465.0, 480.0, 61439.9, 61440.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 1e-30];
    let scattered = (0..20_000).map(|_| (random.f32() - 0.5) * 2f32.powi(random.i32(-20..=18)));
    let numbers: Vec<f32> = around.chain(ends).chain(scattered).collect();
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut child = Command::new(python);
    child.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().expect("python runs");
    let mut input = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("all is read");
    assert!(output.status.success());
    let count = numbers.len() as u64;
    let wide: Vec<f64> = numbers.iter().copied().map(f64::from).collect();
    for (dtype, bits) in [DType::F8E4M3, DType::F8E5M2].into_iter().zip(output.stdout.chunks(numbers.len())) {
        let expected = Tensor::from_le_bytes(dtype, &[count], bits).expect("a byte for each").to_f64s();
        let found = Tensor::from_floats(dtype, &[count], &wide).expect("as many").to_f64s();
        for ((number, expected), found) in numbers.iter().zip(expected).zip(found) {
            let same = expected.to_bits() == found.to_bits() || expected.is_nan() && found.is_nan();
            assert!(same, "{dtype} {number:e}: {found:e}, in JAX {expected:e}");
        }
    }
}

/// A product runs at the rate of its operands' dtype, in the plan and in the simulation, whatever its result is. Without
/// a rate of its own, a float is as fast as bf16.
#[test]
fn products_run_at_the_rate_of_their_operands() {
    // Peak rates: Tflop/s of bf16, of fp8 and int8.
    for (machine, bf16, fp8, int8) in [("h100_book", 990.0, 2000.0, 2000.0), ("tpu_v5e", 197.0, 197.0, 394.0)] {
        for (left, right, rate) in [
            ("bf16", "bf16", bf16),
            ("f8e4m3", "f8e4m3", fp8),
            ("f8e4m3", "f8e5m2", fp8),
            ("f8e4m3", "bf16", bf16),
            ("u8", "i8", int8),
            ("i4", "i4", int8),
            ("i4", "bf16", bf16),
            ("i8", "f8e5m2", fp8),
            ("i16", "i16", int8),
        ] {
            let source = format!(
                "mesh {{X: 2}} on {machine}\ndims {{I: 16384, J: 8192, K: 8192}}\nA: {left}[I_X, J]\nB: {right}[J, K]\n\
                 C[I_X, K] = A * B\n"
            );
            let compiled = compile(&source);
            let seconds = 2.0 * 8192f64.powi(3) / (rate * 1e12);
            let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
            for time in [compiled.plan.time(), timing.makespan] {
                let time = compiled.topology.scale.seconds(time);
                assert!((time / seconds - 1.0).abs() < 1e-3, "{source}{time} s, not {seconds} s");
            }
        }
    }
}
