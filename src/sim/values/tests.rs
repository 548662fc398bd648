//! Tests of whole schedules, and of products against three nested loops.

use super::combine::add;
use super::factor::rows_side_by_side;
use super::map::map;
use super::product::{product, product_onto};
use super::*;
use crate::dtype::DType;
use crate::einsum::{Einsum, Index};
use crate::function::{Binary, ByNumber, Function, Scalar, Unary};
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, AxisSet, Mesh};
use crate::operator::Operator;
use crate::schedule::{
    Array, ArrayId, CoordMap, Cut, Dense, OpId, OpKind, Operation, Output, Route, Schedule, Sources,
};
use crate::span::Span;
use itertools::Itertools;

const X: fn() -> AxisId = || AxisId::new(0);

/// Adds an operation that belongs to no particular step.
fn push(schedule: &mut Schedule, kind: OpKind, dtype: DType, extents: &[u64], operands: &[OpId]) -> OpId {
    let operation = Operation { kind, dtype, extents: extents.to_vec(), step: 0, method: None, span: Span::default() };
    schedule.push(operation, operands)
}

/// Adds an array.
fn declare(schedule: &mut Schedule, name: &str, dtype: DType, extents: &[u64], definition: Dense) -> ArrayId {
    let id = ArrayId(u32::try_from(schedule.arrays.len()).unwrap());
    let dims = extents.iter().map(u64::to_string).collect();
    schedule.arrays.push(Array {
        name: name.into(),
        dtype,
        dims,
        extents: extents.to_vec(),
        valid: extents.to_vec(),
        definition,
    });
    id
}

/// A sharding with axis X on a dim, or in the open sum.
fn sharding(rank: usize, on: Option<usize>, open: bool) -> Sharding {
    let mut sharding = Sharding::replicated(rank);
    if let Some(dim) = on {
        sharding.dims[dim] = Axes::one(X());
    }
    if open {
        sharding.set_open(AxisSet::one(X()));
    }
    sharding
}

/// `A[n, w]{U_X} -> A[n_X, w]` by rotations of slices, with one n-way addition at the end.
fn diagonal_reduce_scatter(n: u32, width: u64, dtype: DType) -> Schedule {
    let (devices, rows) = (u64::from(n), u64::from(n));
    let mut schedule = Schedule::new(Mesh::of(&[("X", n)]));
    let array = declare(&mut schedule, "A", dtype, &[rows, width], Dense::INPUT);
    let open = sharding(2, None, true);
    let input = push(&mut schedule, OpKind::Input { array, sharding: open }, dtype, &[rows, width], &[]);
    let parts: Vec<OpId> = (0..i64::from(n))
        .map(|k| {
            let region = vec![Cut::At(CoordMap::rotated(X(), -k, devices)), Cut::Whole];
            let kind = OpKind::Slice { view: vec![rows, width], region };
            let part = push(&mut schedule, kind, dtype, &[1, width], &[input]);
            let sources = Sources::Shift { axes: X().into(), by: k, wrap: true };
            push(&mut schedule, OpKind::Shuffle { sources, route: Route::Shortest }, dtype, &[1, width], &[part])
        })
        .collect();
    let value = push(&mut schedule, OpKind::Add { operator: Operator::Sum }, dtype, &[1, width], &parts);
    schedule.outputs.push(Output { value, array, sharding: sharding(2, Some(0), false) });
    schedule
}

#[test]
fn the_diagonal_reduce_scatter_is_right_for_all_dtypes_and_lengths() {
    for (n, dtype) in (1..=9).cartesian_product(DType::ALL).filter(|(_, dtype)| Operator::Sum.takes(*dtype)) {
        let schedule = diagonal_reduce_scatter(n, 3, dtype);
        let inputs = inputs(&schedule, 7).unwrap();
        let dense = dense(&schedule, &inputs).unwrap();
        let run = run(&schedule, &inputs).unwrap();
        let numerics = compare(&schedule, &inputs, &dense, &run).unwrap();
        assert!(numerics.equal && numerics.within, "{n} {dtype} {numerics:?}");
        assert_eq!(numerics.elements, u64::from(n) * 3);
        let gathered = run.gather(0).unwrap();
        assert_eq!(gathered.array.to_f64s(), inputs[&ArrayId(0)].to_f64s());
        assert_eq!(gathered.replica_gap, 0.0);
    }
}

/// Device c holds row c; T_k on device d is element (d + k, d). Element (a, b) is 10 a + b, so device d ends with 60
/// + 4 d.
#[test]
fn four_devices_pass_the_elements_of_the_listing() {
    let dtype = DType::I32;
    let mut schedule = Schedule::new(Mesh::of(&[("X", 4)]));
    let array = declare(&mut schedule, "A", dtype, &[4, 4], Dense::INPUT);
    let sum = declare(&mut schedule, "S", dtype, &[1, 4], Dense::INPUT);
    let rows = OpKind::Input { array, sharding: sharding(2, Some(0), false) };
    let rows = push(&mut schedule, rows, dtype, &[1, 4], &[]);
    let parts: Vec<OpId> = (0..4)
        .map(|k| {
            let region = vec![Cut::Whole, Cut::At(CoordMap::rotated(X(), -k, 4))];
            let part = push(&mut schedule, OpKind::Slice { view: vec![1, 4], region }, dtype, &[1, 1], &[rows]);
            let entries = (0..4u32).map(|d| Some((d + u32::try_from(k).unwrap()) % 4)).collect();
            let kind = OpKind::Shuffle { sources: Sources::Table { axes: vec![X()], entries }, route: Route::Shortest };
            push(&mut schedule, kind, dtype, &[1, 1], &[part])
        })
        .collect();
    let total = push(&mut schedule, OpKind::Add { operator: Operator::Sum }, dtype, &[1, 1], &parts);
    for value in parts.into_iter().chain([total]) {
        schedule.outputs.push(Output { value, array: sum, sharding: sharding(2, Some(1), false) });
    }
    let elements: Vec<i64> = (0..4).cartesian_product(0..4).map(|(a, b)| 10 * a + b).collect();
    let inputs = Inputs::from([
        (array, Tensor::from_integers(dtype, &[4, 4], &elements).unwrap()),
        (sum, Tensor::from_integers(dtype, &[1, 4], &[60, 64, 68, 72]).unwrap()),
    ]);
    let run = run(&schedule, &inputs).unwrap();
    let held = |output: usize| run.gather(output).unwrap().array.to_i64s();
    let listing = |k: i64| (0..4).map(|d| 10 * ((d + k) % 4) + d).collect::<Vec<i64>>();
    for (place, k) in (0..4).enumerate() {
        assert_eq!(held(place), listing(k), "T_{k}");
    }
    assert_eq!(held(4), [60, 64, 68, 72]);
}

#[test]
fn a_left_out_or_doubled_contribution_is_seen() {
    for dtype in [DType::I8, DType::I32, DType::Bf16, DType::F16, DType::F32, DType::F64] {
        for doubled in [false, true] {
            let mut schedule = diagonal_reduce_scatter(4, 8, dtype);
            let last = schedule.outputs[0].value;
            let mut operands = schedule.operands(last);
            if doubled {
                operands.push(operands[2]);
            } else {
                operands.remove(2);
            }
            let value = push(&mut schedule, OpKind::Add { operator: Operator::Sum }, dtype, &[1, 8], &operands);
            schedule.outputs[0].value = value;
            let inputs = inputs(&schedule, 3).unwrap();
            let run = run(&schedule, &inputs).unwrap();
            let numerics = compare(&schedule, &inputs, &dense(&schedule, &inputs).unwrap(), &run).unwrap();
            assert!(!numerics.equal && !numerics.within, "{dtype} {numerics:?}");
        }
    }
}

/// `A[m, k_X] * B[k_X, n] -> C[m, n_X]`: a product, then a clockwise ring ReduceScatter.
fn ring_matmul(devices: u32, [m, k, n]: [u64; 3], dtype: DType, result: DType) -> Schedule {
    let d = u64::from(devices);
    let (mut schedule, sum, c) = open_matmul(devices, [m, k, n], dtype, result);
    let mut value = part_of(&mut schedule, sum, -1);
    for step in 1..i64::from(devices) {
        let received = from_below(&mut schedule, value);
        let own = part_of(&mut schedule, sum, -1 - step);
        value = push(&mut schedule, OpKind::Add { operator: Operator::Sum }, result, &[m, n / d], &[received, own]);
    }
    schedule.outputs.push(Output { value, array: c, sharding: sharding(2, Some(1), false) });
    schedule
}

/// The columns of a product that belong to the device `shift` away.
fn part_of(schedule: &mut Schedule, sum: OpId, shift: i64) -> OpId {
    let (d, operation) = (schedule.mesh.device_count() as u64, schedule.operation(sum));
    let ([m, n], dtype) = ([operation.extents[0], operation.extents[1]], operation.dtype);
    let region = vec![Cut::Whole, Cut::At(CoordMap::rotated(X(), shift, d)), Cut::Whole];
    push(schedule, OpKind::Slice { view: vec![m, d, n / d], region }, dtype, &[m, n / d], &[sum])
}

fn from_below(schedule: &mut Schedule, value: OpId) -> OpId {
    let operation = schedule.operation(value);
    let (extents, dtype) = (operation.extents.clone(), operation.dtype);
    let sources = Sources::Shift { axes: X().into(), by: -1, wrap: true };
    push(schedule, OpKind::Shuffle { sources, route: Route::Hops(1) }, dtype, &extents, &[value])
}

/// `A[m, k_X] * B[k_X, n]` with its sum open. Returns the product and its array.
fn open_matmul(devices: u32, [m, k, n]: [u64; 3], dtype: DType, result: DType) -> (Schedule, OpId, ArrayId) {
    let d = u64::from(devices);
    let mut schedule = Schedule::new(Mesh::of(&[("X", devices)]));
    let einsum = Einsum { operands: vec![vec![0, 1], vec![1, 2]], result: vec![0, 2] };
    let a = declare(&mut schedule, "A", dtype, &[m, k], Dense::INPUT);
    let b = declare(&mut schedule, "B", dtype, &[k, n], Dense::INPUT);
    let c = declare(&mut schedule, "C", result, &[m, n], Dense::Product { operands: [a, b], einsum: einsum.clone() });
    let left = OpKind::Input { array: a, sharding: sharding(2, Some(1), false) };
    let left = push(&mut schedule, left, dtype, &[m, k / d], &[]);
    let right = OpKind::Input { array: b, sharding: sharding(2, Some(0), false) };
    let right = push(&mut schedule, right, dtype, &[k / d, n], &[]);
    let sum = push(&mut schedule, OpKind::MatMul { einsum }, result, &[m, n], &[left, right]);
    (schedule, sum, c)
}

#[test]
fn a_ring_after_a_product_is_exact_on_default_data() {
    for (from, to) in [
        (DType::I8, DType::I32),
        (DType::I64, DType::I64),
        (DType::Bf16, DType::Bf16),
        (DType::F16, DType::F16),
        (DType::F32, DType::F32),
        (DType::F64, DType::F64),
    ] {
        for devices in [2, 3, 8] {
            let d = u64::from(devices);
            let schedule = ring_matmul(devices, [5, 4 * d, 2 * d], from, to);
            let inputs = inputs(&schedule, 1).unwrap();
            let dense = dense(&schedule, &inputs).unwrap();
            let run = run(&schedule, &inputs).unwrap();
            assert!(compare(&schedule, &inputs, &dense, &run).unwrap().equal, "{from} {devices}");
        }
    }
}

#[test]
fn a_product_that_is_only_sliced_is_computed_slice_by_slice() {
    for (from, to) in [(DType::F32, DType::F32), (DType::Bf16, DType::Bf16), (DType::I8, DType::I32)] {
        let schedule = ring_matmul(3, [130, 6, 384], from, to);
        let product = schedule.ids().nth(2).unwrap();
        assert!(defer::is_deferred(&schedule, product));
        let inputs = inputs(&schedule, 8).unwrap();
        let numerics =
            compare(&schedule, &inputs, &dense(&schedule, &inputs).unwrap(), &run(&schedule, &inputs).unwrap())
                .unwrap();
        assert!(numerics.equal, "{from}");
        // If the product itself is also used, it is computed whole, with the same result.
        let mut both = schedule.clone();
        let array = declare(&mut both, "P", to, &[130, 384], Dense::INPUT);
        both.outputs.push(Output { value: product, array, sharding: sharding(2, None, true) });
        assert!(!defer::is_deferred(&both, product));
        let mut data = inputs.clone();
        data.insert(array, dense(&schedule, &inputs).unwrap()[2].clone());
        let dense = dense(&both, &data).unwrap();
        assert!(compare(&both, &data, &dense, &run(&both, &data).unwrap()).unwrap().equal, "{from}");
    }
}

#[test]
fn a_slice_of_a_slice_waits_for_its_addition_too() {
    let dtype = DType::F32;
    let (mut schedule, product, c) = open_matmul(2, [256, 4, 256], dtype, dtype);
    let part = part_of(&mut schedule, product, -1);
    let received = from_below(&mut schedule, part);
    let own = part_of(&mut schedule, product, -2);
    // Received and local blocks are added in two halves, which are then concatenated.
    let half = |start: u64| vec![Cut::Range { start, end: start + 128 }, Cut::Whole];
    let halves = [0, 128].map(|start| {
        let kind = OpKind::Slice { view: vec![256, 128], region: half(start) };
        let parts = [received, own].map(|of| push(&mut schedule, kind.clone(), dtype, &[128, 128], &[of]));
        push(&mut schedule, OpKind::Add { operator: Operator::Sum }, dtype, &[128, 128], &parts)
    });
    let kind = OpKind::Assemble { view: vec![256, 128], places: vec![half(0), half(128)], zeros: false };
    let value = push(&mut schedule, kind, dtype, &[256, 128], &halves);
    schedule.outputs.push(Output { value, array: c, sharding: sharding(2, Some(1), false) });
    assert!(defer::is_deferred(&schedule, product) && defer::is_only_sliced(&schedule, product, own));
    let inputs = inputs(&schedule, 8).unwrap();
    let numerics =
        compare(&schedule, &inputs, &dense(&schedule, &inputs).unwrap(), &run(&schedule, &inputs).unwrap()).unwrap();
    assert!(numerics.equal);
}

#[test]
fn fractions_are_within_the_tolerance_and_a_wrong_chunk_is_not() {
    for dtype in [DType::Bf16, DType::F16, DType::F32, DType::F64] {
        let schedule = ring_matmul(8, [16, 256, 32], dtype, dtype);
        let mut random = fastrand::Rng::with_seed(5);
        let mut fractions = |extents: &[u64]| {
            let count = extents.iter().product::<u64>();
            let elements: Vec<f64> = (0..count).map(|_| random.f64() - 0.5).collect();
            Tensor::from_floats(dtype, extents, &elements).unwrap()
        };
        let inputs = Inputs::from([(ArrayId(0), fractions(&[16, 256])), (ArrayId(1), fractions(&[256, 32]))]);
        let dense = dense(&schedule, &inputs).unwrap();
        let numerics = compare(&schedule, &inputs, &dense, &run(&schedule, &inputs).unwrap()).unwrap();
        assert!(numerics.within, "{dtype} {numerics:?}");
        let mut broken = schedule.clone();
        let last = broken.operands(broken.outputs[0].value)[0];
        broken.outputs[0].value = last;
        let numerics = compare(&broken, &inputs, &dense, &run(&broken, &inputs).unwrap()).unwrap();
        assert!(!numerics.within, "{dtype} {numerics:?}");
    }
}

/// The element of a row-major block at these coordinates.
fn at(elements: &[i64], extents: &[usize], indices: &[Index], point: &[usize]) -> i64 {
    elements[indices.iter().zip(extents).fold(0, |place, (index, extent)| place * extent + point[usize::from(*index)])]
}

/// An einsum by nested loops in i64.
fn naive(einsum: &Einsum, lengths: &[usize], operands: [&[i64]; 2]) -> Vec<i64> {
    let of = |indices: &[Index]| indices.iter().map(|index| lengths[usize::from(*index)]).collect::<Vec<usize>>();
    let extents = [of(&einsum.operands[0]), of(&einsum.operands[1])];
    let result = of(&einsum.result);
    let mut sums = vec![0i64; result.iter().product()];
    for point in lengths.iter().map(|length| 0..*length).multi_cartesian_product() {
        let factors = [0, 1].map(|n| at(operands[n], &extents[n], &einsum.operands[n], &point));
        let place =
            einsum.result.iter().zip(&result).fold(0, |place, (i, extent)| place * extent + point[usize::from(*i)]);
        sums[place] += factors[0] * factors[1];
    }
    sums
}

/// A block inside a larger buffer, with its dims in reverse: not contiguous anywhere.
fn scattered(dtype: DType, extents: &[usize], elements: &[i64]) -> Tensor {
    let wide: Vec<usize> = extents.iter().rev().map(|extent| extent + 1).collect();
    let mut buffer = vec![99; wide.iter().product()];
    let strides: Vec<usize> = view::row_major(&wide).into_iter().rev().collect();
    let points = extents.iter().map(|extent| 0..*extent).multi_cartesian_product();
    for (point, element) in points.zip(elements) {
        buffer[point.iter().zip(&strides).map(|(at, stride)| at * stride).sum::<usize>()] = *element;
    }
    let wide: Vec<u64> = wide.iter().map(|extent| *extent as u64).collect();
    let tensor = Tensor::from_integers(dtype, &wide, &buffer).unwrap();
    tensor.with_view(view::View { offset: 0, extents: extents.to_vec(), strides })
}

/// Orders of an operand's indices: its own and two others, so that every pair of neighbours occurs both ways.
fn orders(indices: &[Index]) -> Vec<Vec<Index>> {
    indices.iter().copied().permutations(indices.len()).collect()
}

#[test]
fn every_small_einsum_is_the_sum_of_its_products() {
    let lengths = [2usize, 3, 2, 3, 1, 2, 2, 3];
    let mut random = fastrand::Rng::with_seed(11);
    let mut count = 0;
    for [batch, inner, rows, columns] in
        (0..4).map(|_| 0..=2u8).multi_cartesian_product().map(|all| [all[0], all[1], all[2], all[3]])
    {
        let take = |first: u8, count: u8| (first..first + count).collect::<Vec<Index>>();
        let (batch, inner, rows, columns) = (take(0, batch), take(2, inner), take(4, rows), take(6, columns));
        let a_orders = orders(&[&batch[..], &rows, &inner].concat());
        let b_orders = orders(&[&batch[..], &inner, &columns].concat());
        let c_orders = orders(&[&batch[..], &rows, &columns].concat());
        // All combinations would be millions. Each order of each operand occurs at least once, advancing together.
        let most = a_orders.len().max(b_orders.len()).max(c_orders.len()).min(120);
        for case in 0..most {
            let pick = |orders: &Vec<Vec<Index>>, step: usize| orders[case * step % orders.len()].clone();
            let einsum =
                Einsum { operands: vec![pick(&a_orders, 7), pick(&b_orders, 11)], result: pick(&c_orders, 13) };
            check_einsum(&einsum, &lengths, &mut random);
            count += 1;
        }
    }
    assert!(count > 2000, "{count}");
}

/// One einsum in several dtypes, on contiguous and on scattered blocks.
fn check_einsum(einsum: &Einsum, lengths: &[usize], random: &mut fastrand::Rng) {
    let of = |indices: &[Index]| indices.iter().map(|index| lengths[usize::from(*index)]).collect::<Vec<usize>>();
    // Unused indices have length 1 in the reference computation.
    let used: Vec<usize> = (0..einsum.index_count())
        .map(|index| {
            if einsum.operands.iter().flatten().any(|other| usize::from(*other) == index) { lengths[index] } else { 1 }
        })
        .collect();
    let [a, b] = [0, 1].map(|n| of(&einsum.operands[n]));
    let [left, right] = [&a, &b].map(|extents| {
        (0..extents.iter().product::<usize>()).map(|_| i64::from(random.i8(-3..=3))).collect::<Vec<i64>>()
    });
    let expected = naive(einsum, &used, [&left, &right]);
    for (from, to) in [
        (DType::I64, DType::I64),
        (DType::I8, DType::I32),
        (DType::F64, DType::F64),
        (DType::F32, DType::F32),
        (DType::Bf16, DType::Bf16),
    ] {
        let wide = |extents: &[usize]| extents.iter().map(|extent| *extent as u64).collect::<Vec<u64>>();
        let plain = product(
            einsum,
            &Tensor::from_integers(from, &wide(&a), &left).unwrap(),
            &Tensor::from_integers(from, &wide(&b), &right).unwrap(),
            to,
        );
        assert_eq!(plain.to_i64s(), expected, "{einsum} {from}");
        let other = product(einsum, &scattered(from, &a, &left), &scattered(from, &b, &right), to);
        assert_eq!(other.to_i64s(), expected, "{einsum} {from} scattered");
        assert_eq!(other.extents(), wide(&of(&einsum.result)));
        let result = wide(&of(&einsum.result));
        let before: Vec<i64> = expected.iter().zip(0..).map(|(_, n)| n % 5 - 2).collect();
        let sums: Vec<i64> = before.iter().zip(&expected).map(|(before, sum)| before + sum).collect();
        let (first, second) = (scattered(from, &a, &left), scattered(from, &b, &right));
        let first = rows_side_by_side(einsum, &first, &second.view().extents, to);
        let block = Tensor::from_integers(to, &result, &before).unwrap();
        // Once with a shared block, too.
        for block in [block.clone(), Tensor::from_integers(to, &result, &before).unwrap()] {
            let onto = product_onto(block, einsum, &first, &second);
            assert_eq!(onto.to_i64s(), sums, "{einsum} {from} onto a block");
            assert_eq!(onto.extents(), result);
        }
        assert_eq!(block.to_i64s(), before);
    }
}

#[test]
fn large_products_use_the_kernels_and_agree_with_loops() {
    let einsum =
        |text: [&[Index]; 3]| Einsum { operands: vec![text[0].to_vec(), text[1].to_vec()], result: text[2].to_vec() };
    let mut random = fastrand::Rng::with_seed(2);
    for einsum in [
        einsum([&[0, 1], &[1, 2], &[0, 2]]),
        einsum([&[1, 0], &[2, 1], &[2, 0]]),
        einsum([&[3, 0, 1], &[1, 3, 2], &[0, 3, 2]]),
        einsum([&[0, 1], &[2], &[0, 2]]),
    ] {
        check_einsum(&einsum, &[17, 13, 19, 3], &mut random);
    }
}

#[test]
fn integers_wrap_whatever_their_size() {
    let einsum = Einsum { operands: vec![vec![0], vec![0]], result: vec![] };
    for (dtype, large) in [(DType::I32, i64::from(i32::MAX)), (DType::I64, i64::MAX), (DType::I64, 1 << 40)] {
        let a = Tensor::from_integers(dtype, &[3], &[large, large - 1, -large]).unwrap();
        let expected = [large, large - 1, -large].iter().fold(0i64, |sum, x| sum.wrapping_add(x.wrapping_mul(*x)));
        let expected = Tensor::from_integers(dtype, &[], &[expected]).unwrap();
        assert_eq!(product(&einsum, &a, &a, dtype).to_i64s(), expected.to_i64s());
    }
}

#[test]
fn products_of_half_floats_round_once() {
    // 256 + 1 + 1 is 258 in f32 and in bf16; if rounded after each step, it would stay 256.
    let einsum = Einsum { operands: vec![vec![0], vec![0]], result: vec![] };
    let a = Tensor::from_integers(DType::Bf16, &[3], &[256, 1, 1]).unwrap();
    let ones = Tensor::from_integers(DType::Bf16, &[3], &[1, 1, 1]).unwrap();
    assert_eq!(product(&einsum, &a, &ones, DType::Bf16).to_f64s(), [258.0]);
    let parts = |order: [i64; 3]| order.map(|x| Tensor::from_integers(DType::Bf16, &[1], &[x]).unwrap()).to_vec();
    assert_eq!(add(Operator::Sum, parts([256, 1, 1])).unwrap().to_f64s(), [258.0]);
    let [a, b, c] = [256, 1, 1].map(|x| Tensor::from_integers(DType::Bf16, &[1], &[x]).unwrap());
    let pair = add(Operator::Sum, vec![a, b]).unwrap();
    assert_eq!(add(Operator::Sum, vec![pair, c]).unwrap().to_f64s(), [256.0]);
}

#[test]
fn adds_of_every_dtype_and_operator_on_every_layout() {
    let mut random = fastrand::Rng::with_seed(4);
    for ((dtype, operator), count) in
        DType::ALL.iter().cartesian_product([Operator::Sum, Operator::Max, Operator::Min]).cartesian_product(1..=4)
    {
        let data: Vec<Vec<i64>> = (0..count).map(|_| (0..12).map(|_| i64::from(random.i8(0..=1))).collect()).collect();
        let expected: Vec<i64> = (0..12)
            .map(|i| {
                let column = data.iter().map(|elements| elements[i]);
                match operator {
                    Operator::Sum if *dtype == DType::Bool => column.max().unwrap(),
                    Operator::Sum => column.sum(),
                    Operator::Max => column.max().unwrap(),
                    Operator::Min => column.min().unwrap(),
                    Operator::Mul
                    | Operator::And
                    | Operator::Or
                    | Operator::Mean
                    | Operator::SquareAdd
                    | Operator::Root(_) => {
                        unreachable!("not in the list")
                    }
                }
            })
            .collect();
        for mask in 0..1 << count {
            let block = |n: usize| {
                if mask >> n & 1 == 1 {
                    scattered(*dtype, &[3, 4], &data[n])
                } else {
                    Tensor::from_integers(*dtype, &[3, 4], &data[n]).unwrap()
                }
            };
            let shared: Vec<Tensor> = (0..count).map(block).collect();
            assert_eq!(add(operator, shared.clone()).unwrap().to_i64s(), expected);
            for (tensor, elements) in shared.iter().zip(&data) {
                assert_eq!(tensor.to_i64s(), *elements, "a shared block stays as it is");
            }
            assert_eq!(add(operator, shared).unwrap().to_i64s(), expected);
        }
    }
    assert!(add(Operator::Sum, Vec::new()).is_none());
}

#[test]
fn a_sum_reuses_a_block_without_other_readers() {
    let a = Tensor::from_vec(&[4], vec![1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let b = Tensor::from_vec(&[4], vec![1.0f32; 4]).unwrap();
    let place = a.buffer::<f32>().as_ptr();
    let sum = add(Operator::Sum, vec![b.clone(), a]).unwrap();
    assert_eq!(sum.buffer::<f32>().as_ptr(), place);
    assert_eq!(sum.to_f64s(), [2.0, 3.0, 4.0, 5.0]);
    assert_eq!(b.to_f64s(), [1.0; 4]);
}

#[test]
fn maps_line_up_broadcast_and_transpose() {
    let einsum = Einsum { operands: vec![vec![0, 1], vec![1]], result: vec![1, 0] };
    for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::Bool) {
        let a = Tensor::from_integers(dtype, &[2, 3], &[1, 2, 3, 4, 5, 6]).unwrap();
        let b = Tensor::from_integers(dtype, &[3], &[8, 16, 24]).unwrap();
        // Rounded to the dtype, or wrapped.
        let expected = |numbers: [i64; 6]| Tensor::from_integers(dtype, &[3, 2], &numbers).unwrap().to_i64s();
        let sum = map(Function::Binary(Binary::Add), &einsum, &[&a, &b], dtype);
        assert_eq!((sum.extents(), sum.to_i64s()), (vec![3, 2], expected([9, 12, 18, 21, 27, 30])));
        let difference = map(Function::Binary(Binary::Sub), &einsum, &[&a, &b], dtype);
        assert_eq!(difference.to_i64s(), expected([-7, -4, -14, -11, -21, -18]));
    }
    let turn = Einsum { operands: vec![vec![0, 1]], result: vec![1, 0] };
    let a = Tensor::from_integers(DType::I8, &[2, 2], &[1, -2, 3, -128]).unwrap();
    let one = |function| map(function, &turn, &[&a], DType::I8).to_i64s();
    assert_eq!(one(Function::Identity), [1, 3, -2, -128]);
    assert_eq!(one(Function::Unary(Unary::Relu)), [1, 3, 0, 0]);
    assert_eq!(one(Function::Unary(Unary::Neg)), [-1, -3, 2, -128]);
    assert_eq!(one(Function::ByNumber(ByNumber::Scale, Scalar(100.0))), [100, 44, 56, 0]);
}

#[test]
fn functions_are_what_their_formulas_say() {
    let same = Einsum { operands: vec![vec![0]], result: vec![0] };
    let points = [-2.5, -1.0, 0.0, 0.5, 3.0];
    for (dtype, near) in [(DType::F64, 1e-14), (DType::F32, 1e-6), (DType::F16, 1e-3), (DType::Bf16, 8e-3)] {
        let a = Tensor::from_floats(dtype, &[5], &points).unwrap();
        let check = |function: Function, formula: &dyn Fn(f64) -> f64| {
            let found = map(function, &same, &[&a], dtype).to_f64s();
            for (x, y) in points.iter().zip(found) {
                assert!((formula(*x) - y).abs() <= near * formula(*x).abs().max(1.0), "{function} {x} {y} {dtype}");
            }
        };
        check(Function::Unary(Unary::Exp), &|x| x.exp());
        check(Function::Unary(Unary::Tanh), &|x| x.tanh());
        check(Function::Unary(Unary::Sin), &|x| x.sin());
        check(Function::Unary(Unary::Cos), &|x| x.cos());
        check(Function::Unary(Unary::Relu), &|x| x.max(0.0));
        check(Function::ByNumber(ByNumber::Shift, Scalar(0.25)), &|x| x + 0.25);
        check(Function::Unary(Unary::Gelu), &|x| {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        });
        let total: f64 = points.iter().map(|x| x.exp()).sum();
        check(Function::Softmax { dim: 0 }, &|x| x.exp() / total);
    }
    let a = Tensor::from_floats(DType::F32, &[5], &[300.7, -1.5, f64::NAN, 1e30, 2.5]).unwrap();
    assert_eq!(map(Function::Cast(DType::I8), &same, &[&a], DType::I8).to_i64s(), [127, -1, 0, 127, 2]);
    let a = Tensor::from_integers(DType::I32, &[2], &[300, -129]).unwrap();
    assert_eq!(map(Function::Cast(DType::I8), &same, &[&a], DType::I8).to_i64s(), [44, 127]);
}

#[test]
fn softmax_runs_along_the_dim_of_the_result() {
    let turn = Einsum { operands: vec![vec![0, 1]], result: vec![1, 0] };
    let a = Tensor::from_floats(DType::F64, &[2, 3], &[0.0, 1.0, 2.0, 1000.0, 1000.0, 1000.0]).unwrap();
    let soft = map(Function::Softmax { dim: 0 }, &turn, &[&a], DType::F64).to_f64s();
    let column = |n: usize| (0..3).map(|i| soft[2 * i + n]).collect::<Vec<f64>>();
    assert!((column(0).iter().sum::<f64>() - 1.0).abs() < 1e-15 && column(0)[2] > column(0)[1]);
    assert_eq!(column(1), [1.0 / 3.0; 3]);
}

/// A line of three: blocks from beyond the end are absent.
#[test]
fn absence_is_not_zero() {
    let mut schedule = Schedule::new(Mesh::of(&[("X", 3)]));
    let dtype = DType::I32;
    let array = declare(&mut schedule, "A", dtype, &[6], Dense::INPUT);
    let input = push(&mut schedule, OpKind::Input { array, sharding: sharding(1, Some(0), false) }, dtype, &[2], &[]);
    let sources = Sources::Shift { axes: X().into(), by: -1, wrap: false };
    let shifted = push(&mut schedule, OpKind::Shuffle { sources, route: Route::Hops(1) }, dtype, &[2], &[input]);
    let einsum = Einsum { operands: vec![vec![0]], result: vec![0] };
    let negated =
        push(&mut schedule, OpKind::Map { function: Function::Unary(Unary::Neg), einsum }, dtype, &[2], &[shifted]);
    let sum = push(&mut schedule, OpKind::Add { operator: Operator::Max }, dtype, &[2], &[input, negated]);
    let region = vec![Cut::At(CoordMap::shifted(X(), -1))];
    let odd = push(&mut schedule, OpKind::Slice { view: vec![2], region }, dtype, &[1], &[sum]);
    for value in [shifted, negated, sum] {
        schedule.outputs.push(Output { value, array, sharding: sharding(1, Some(0), false) });
    }
    let nothing = push(&mut schedule, OpKind::Add { operator: Operator::Sum }, dtype, &[1], &[odd, odd]);
    let data = Tensor::from_integers(dtype, &[6], &[-1, -2, 3, 4, 5, -6]).unwrap();
    let inputs = Inputs::from([(array, data)]);
    let run = run(&schedule, &inputs).unwrap();
    let read =
        |output: usize| run.blocks(output).iter().map(|block| block.as_ref().map(Tensor::to_i64s)).collect::<Vec<_>>();
    assert_eq!(read(0), [None, Some(vec![-1, -2]), Some(vec![3, 4])]);
    assert_eq!(read(1), [None, Some(vec![1, 2]), Some(vec![-3, -4])]);
    assert_eq!(read(2), [Some(vec![-1, -2]), Some(vec![3, 4]), Some(vec![5, -4])]);
    assert!(matches!(run.gather(0), Err(RunError::MissingShard { .. })));
    assert_eq!(schedule.operation(nothing).extents, [1]);
}

#[test]
fn pieces_are_assembled_and_gaps_are_named() {
    let build = |last: i64| {
        let mut schedule = Schedule::new(Mesh::of(&[("X", 4)]));
        let array = declare(&mut schedule, "A", DType::F32, &[8, 3], Dense::INPUT);
        let dtype = DType::F32;
        let mut value =
            push(&mut schedule, OpKind::Input { array, sharding: sharding(2, Some(0), false) }, dtype, &[2, 3], &[]);
        let (mut pieces, mut places) = (Vec::new(), Vec::new());
        for step in 0..4 {
            let slot = if step == 3 { last } else { -step };
            places.push(vec![Cut::At(CoordMap::rotated(X(), slot, 4)), Cut::Whole, Cut::Whole]);
            pieces.push(value);
            let sources = Sources::Shift { axes: X().into(), by: -1, wrap: true };
            value = push(&mut schedule, OpKind::Shuffle { sources, route: Route::Hops(1) }, dtype, &[2, 3], &[value]);
        }
        let value = push(
            &mut schedule,
            OpKind::Assemble { view: vec![4, 2, 3], places, zeros: false },
            dtype,
            &[8, 3],
            &pieces,
        );
        schedule.outputs.push(Output { value, array, sharding: Sharding::replicated(2) });
        schedule
    };
    let schedule = build(-3);
    let data = inputs(&schedule, 0).unwrap();
    let numerics =
        compare(&schedule, &data, &dense(&schedule, &data).unwrap(), &run(&schedule, &data).unwrap()).unwrap();
    assert!(numerics.equal);
    let problem = "its pieces leave a gap";
    assert!(matches!(run(&build(-2), &data), Err(RunError::OnDevice { problem: found, .. }) if found == problem));
    // The right slots with the wrong pieces: replicas differ, and no output is equal.
    let mut swapped = build(-3);
    let last = swapped.outputs[0].value;
    if let OpKind::Assemble { places, .. } = &mut swapped.operations[last].kind {
        places.swap(1, 2);
    }
    let ran = run(&swapped, &data).unwrap();
    assert!(!compare(&swapped, &data, &dense(&swapped, &data).unwrap(), &ran).unwrap().within);
    assert!(ran.gather(0).unwrap().replica_gap > 0.0);
}

#[test]
fn an_all_gather_concatenates_in_the_order_of_the_ranks() {
    let mesh = Mesh::of(&[("X", 2), ("Y", 3)]);
    let [x, y] = [0, 1].map(AxisId::new);
    for axes in [vec![x], vec![y], vec![x, y], vec![y, x]] {
        let mut schedule = Schedule::new(mesh.clone());
        let array = declare(&mut schedule, "A", DType::I64, &[2, 12], Dense::INPUT);
        let mut spread = Sharding::replicated(2);
        spread.dims[1] = axes.iter().copied().collect();
        let local = 12 / mesh.group_size(axes.iter().copied());
        let kind = OpKind::Input { array, sharding: spread };
        let input = push(&mut schedule, kind, DType::I64, &[2, local], &[]);
        let value = push(&mut schedule, OpKind::AllGather { axes, dim: 1 }, DType::I64, &[2, 12], &[input]);
        schedule.outputs.push(Output { value, array, sharding: Sharding::replicated(2) });
        let inputs = inputs(&schedule, 9).unwrap();
        let numerics =
            compare(&schedule, &inputs, &dense(&schedule, &inputs).unwrap(), &run(&schedule, &inputs).unwrap())
                .unwrap();
        assert!(numerics.equal);
    }
}

#[test]
fn parts_of_open_inputs_make_the_array_under_every_operator() {
    for (operator, dtype) in Operator::ALL.into_iter().cartesian_product(DType::ALL) {
        if !operator.takes(dtype) {
            continue;
        }
        let mut schedule = Schedule::new(Mesh::of(&[("X", 5)]));
        let array = declare(&mut schedule, "A", dtype, &[7], Dense::INPUT);
        let mut open = sharding(1, None, true);
        open.operator = operator;
        let value = push(&mut schedule, OpKind::Input { array, sharding: open.clone() }, dtype, &[7], &[]);
        schedule.outputs.push(Output { value, array, sharding: open });
        let inputs = inputs(&schedule, 2).unwrap();
        let numerics =
            compare(&schedule, &inputs, &dense(&schedule, &inputs).unwrap(), &run(&schedule, &inputs).unwrap())
                .unwrap();
        assert!(numerics.equal, "{operator} {dtype}");
    }
}

#[test]
fn what_is_too_large_is_refused_before_it_is_allocated() {
    for size in [1 << 20, 1 << 29] {
        let schedule = ring_matmul(8, [size, size, size], DType::F32, DType::F32);
        assert!(matches!(inputs(&schedule, 0), Err(RunError::TooLarge { .. })));
        assert!(matches!(run(&schedule, &Inputs::new()), Err(RunError::TooLarge { .. })));
        assert!(matches!(dense(&schedule, &Inputs::new()), Err(RunError::TooLarge { .. })));
    }
    let schedule = ring_matmul(8, [2048, 2048, 2048], DType::F32, DType::F32);
    assert!(need(&schedule).bytes < 1 << 30);
    // Memory within the limit, arithmetic above it.
    let schedule = ring_matmul(8, [1 << 14, 1 << 14, 1 << 14], DType::I8, DType::I32);
    assert!(need(&schedule).flops < MOST_FLOPS && need(&schedule).bytes > MOST_BYTES);
}

#[test]
fn nonsense_is_an_error_and_not_a_panic() {
    let good = ring_matmul(2, [2, 4, 2], DType::F32, DType::F32);
    let data = inputs(&good, 0).unwrap();
    assert!(matches!(run(&good, &Inputs::new()), Err(RunError::MissingInput { .. })));
    let wrong = Inputs::from([(ArrayId(0), data[&ArrayId(1)].clone()), (ArrayId(1), data[&ArrayId(0)].clone())]);
    assert!(matches!(run(&good, &wrong), Err(RunError::WrongInput { .. })));
    for (id, dim) in good.ids().cartesian_product(0..2) {
        for extent in [0, 1, 3, 1 << 50] {
            let mut broken = good.clone();
            if broken.operations[id].extents[dim] != extent {
                broken.operations[id].extents[dim] = extent;
                assert!(run(&broken, &data).is_err(), "{id:?} {dim} {extent}");
            }
        }
    }
    for id in good.ids() {
        let mut broken = good.clone();
        broken.operations[id].kind = OpKind::Slice { view: vec![3], region: vec![Cut::Range { start: 2, end: 9 }] };
        assert!(run(&broken, &data).is_err());
    }
}
