//! One wrong schedule for each kind of flaw, and correct ones that resemble wrong ones.
#![allow(missing_docs)]

use crate::common::schedules::{Builder, X, axis, einsum, sharding};
use shardc::dtype::DType;
use shardc::function::{Binary, Function, Unary};
use shardc::operator::Operator;
use shardc::schedule::{CoordMap, Cut, Dense, OpId, OpKind, Route, Schedule, Sources};
use shardc::sim::proof::{Flaw, prove};

const N: (&str, u64) = ("N", 4);

fn flaw(schedule: &Schedule) -> String {
    match prove(schedule) {
        Ok(_) => "proven".to_owned(),
        Err(flaw) => {
            let code = miette::Diagnostic::code(&flaw).map(|code| code.to_string()).unwrap_or_default();
            format!("{code}: {flaw}")
        }
    }
}

fn all_reduce(b: &mut Builder, value: OpId, operator: Operator) -> OpId {
    let n = i64::try_from(b.schedule.mesh.size(axis(X))).expect("small");
    let mut pieces = vec![value];
    pieces.extend((1..n).map(|k| b.shift(value, X, k, true)));
    let extents = b.extents(value);
    b.op(OpKind::Add { operator }, &extents, &pieces)
}

/// An input that is open over X with operator `needed`, combined with operator `used`.
fn reduced(needed: Operator, used: Operator) -> Schedule {
    let mut b = Builder::new(&[("X", 3)]);
    let a = b.array("A", &[N], Dense::INPUT);
    let mut open = sharding(&[&[]], &[X]);
    open.operator = needed;
    let value = b.input(a, open);
    let result = all_reduce(&mut b, value, used);
    b.output(result, a, sharding(&[&[]], &[]));
    b.schedule
}

#[test]
fn operators_must_agree() {
    for needed in [Operator::Sum, Operator::Max, Operator::Min] {
        for used in [Operator::Sum, Operator::Max, Operator::Min] {
            let verdict = flaw(&reduced(needed, used));
            assert_eq!(verdict == "proven", needed == used, "{verdict}");
        }
    }
    let verdict = flaw(&reduced(Operator::Max, Operator::Sum));
    assert_eq!(
        verdict,
        "proof-wrong-operator: %3 on d0 (X 0): partial results of A[N 0..4] are combined with sum, expected max"
    );
}

/// A function of an open input, followed by an AllReduce.
fn function_of_open(function: Function) -> Schedule {
    let mut b = Builder::new(&[("X", 2)]);
    let a = b.array("A", &[N], Dense::INPUT);
    let dense = b.function("F", &[N], function, &[a], "a->a");
    let value = b.input(a, sharding(&[&[]], &[X]));
    let value = b.map(function, &[value], "a->a");
    let result = all_reduce(&mut b, value, Operator::Sum);
    b.output(result, dense, sharding(&[&[]], &[]));
    b.schedule
}

#[test]
fn only_linear_functions_pass_an_open_sum() {
    assert_eq!(flaw(&function_of_open(Function::Unary(Unary::Neg))), "proven");
    assert_eq!(flaw(&function_of_open(Function::Identity)), "proven");
    assert_eq!(
        flaw(&function_of_open(Function::Unary(Unary::Relu))),
        "proof-open-operand: %1 on d0 (X 0): relu of A[N 0..4] before its sum is complete: axis X 1..2 is missing"
    );
}

/// `A * B` or `A + B` with A open over X, and B open or closed.
fn two_operands(square: bool, product: bool, b_is_open: bool) -> Schedule {
    let mut b = Builder::new(&[("X", 2)]);
    let a = b.array("A", &[N], Dense::INPUT);
    let other = if square { a } else { b.array("B", &[N], Dense::INPUT) };
    let dense = if product {
        b.product("C", &[N], [a, other], "a,a->a")
    } else {
        b.function("C", &[N], Function::Binary(Binary::Add), &[a, other], "a,a->a")
    };
    let left = b.input(a, sharding(&[&[]], &[X]));
    let open: &[usize] = if b_is_open { &[X] } else { &[] };
    let right = if square { left } else { b.input(other, sharding(&[&[]], open)) };
    let value = if product {
        b.matmul(left, right, "a,a->a")
    } else {
        b.map(Function::Binary(Binary::Add), &[left, right], "a,a->a")
    };
    let result = all_reduce(&mut b, value, Operator::Sum);
    b.output(result, dense, sharding(&[&[]], &[]));
    b.schedule
}

#[test]
fn open_sums_meet_each_other() {
    let code = |square, product, open| flaw(&two_operands(square, product, open)).split(':').next().map(str::to_owned);
    // Sums of open values are sums of their pieces; the square of a sum is not the sum of squares.
    assert_eq!(code(false, false, true).as_deref(), Some("proven"));
    assert_eq!(code(true, false, true).as_deref(), Some("proven"));
    assert_eq!(code(false, true, false).as_deref(), Some("proven"));
    assert_eq!(code(true, true, true).as_deref(), Some("proof-missing-contribution"));
    assert_eq!(code(false, true, true).as_deref(), Some("proof-missing-contribution"));
    // A closed bias would be added once per device.
    assert_eq!(code(false, false, false).as_deref(), Some("proof-counted-twice"));
}

#[test]
fn flaws_name_the_first_wrong_slot() {
    let mut b = Builder::new(&[("X", 2), ("Y", 2)]);
    let a = b.array("A", &[("I", 4), ("J", 6)], Dense::INPUT);
    let value = b.input(a, sharding(&[&[X], &[]], &[]));
    b.output(value, a, sharding(&[&[1], &[]], &[]));
    assert_eq!(
        flaw(&b.schedule),
        "proof-wrong-place: %0 on d1 (X 0, Y 1): expected A[I 2..4, J 0..6], found A[I 0..2, J 0..6]"
    );
    b.schedule.outputs.clear();
    let moved = b.shift(value, X, 1, false);
    b.output(moved, a, sharding(&[&[X], &[]], &[]));
    assert_eq!(
        flaw(&b.schedule),
        "proof-wrong-place: %1 on d0 (X 0, Y 0): expected A[I 0..2, J 0..6], found A[I 2..4, J 0..6]"
    );
    b.schedule.outputs.clear();
    let whole = b.assemble(&[value, moved], 0, 2, vec![CoordMap::shifted(axis(X), 0), CoordMap::shifted(axis(X), 1)]);
    b.output(whole, a, sharding(&[&[], &[]], &[]));
    assert_eq!(flaw(&b.schedule), "proof-unfilled: %2 on d2 (X 1, Y 0): the block has a gap at [0..1, 0..2, 0..6]");
}

#[test]
fn softmax_needs_its_dim() {
    for (along, good) in [(0, false), (1, true)] {
        let mut b = Builder::new(&[("X", 2)]);
        let a = b.array("A", &[N, ("M", 4)], Dense::INPUT);
        let function = Function::Softmax { dim: along };
        let dense = b.function("S", &[N, ("M", 4)], function, &[a], "ab->ab");
        let split = sharding(&[&[X], &[]], &[]);
        let value = b.input(a, split.clone());
        let value = b.map(function, &[value], "ab->ab");
        b.output(value, dense, split);
        b.schedule.arrays.iter_mut().for_each(|array| array.dtype = DType::F32);
        b.schedule.operations.node_weights_mut().for_each(|operation| operation.dtype = DType::F32);
        assert_eq!(prove(&b.schedule).is_ok(), good);
    }
}

#[test]
fn renames_are_free_and_transpositions_compose() {
    let mut b = Builder::new(&[("X", 2)]);
    let a = b.array("A", &[N, ("M", 6)], Dense::INPUT);
    let renamed = b.function("R", &[("P", 4), ("Q", 6)], Function::Identity, &[a], "ab->ab");
    let turned = b.function("T", &[("Q", 6), ("P", 4)], Function::Identity, &[renamed], "ab->ba");
    let back = b.function("U", &[("P", 4), ("Q", 6)], Function::Identity, &[turned], "ab->ba");
    let value = b.input(a, sharding(&[&[X], &[]], &[]));
    b.output(value, renamed, sharding(&[&[X], &[]], &[]));
    b.output(value, back, sharding(&[&[X], &[]], &[]));
    let value = b.map(Function::Identity, &[value], "ab->ba");
    b.output(value, turned, sharding(&[&[], &[X]], &[]));
    assert_eq!(flaw(&b.schedule), "proven");
}

#[test]
fn malformed_schedules_are_refused() {
    let mut b = Builder::new(&[("X", 4)]);
    let a = b.array("A", &[N], Dense::INPUT);
    let value = b.input(a, sharding(&[&[]], &[]));
    let good = b.schedule.clone();
    let mut refuse = |kind: OpKind, extents: &[u64], operands: &[OpId]| {
        b.schedule = good.clone();
        b.op(kind, extents, operands);
        assert!(matches!(prove(&b.schedule), Err(Flaw::Malformed(_))), "{}", flaw(&b.schedule));
    };
    let shift = |by, wrap| Sources::Shift { axes: axis(X).into(), by, wrap };
    let table = |entries: &[Option<u32>]| Sources::Table { axes: vec![axis(X)], entries: entries.to_vec() };
    let shuffle = |sources, route| OpKind::Shuffle { sources, route };
    refuse(shuffle(shift(1, false), Route::Hops(3)), &[4], &[value]);
    refuse(shuffle(shift(1, true), Route::Hops(1)), &[4], &[value]);
    refuse(shuffle(shift(i64::MAX, true), Route::Hops(i64::MAX)), &[4], &[value]);
    refuse(shuffle(table(&[Some(0), Some(0), None, None]), Route::Shortest), &[4], &[value]);
    refuse(shuffle(table(&[Some(0), Some(4), None, None]), Route::Shortest), &[4], &[value]);
    refuse(shuffle(table(&[Some(0)]), Route::Shortest), &[4], &[value]);
    refuse(shuffle(shift(0, true), Route::Shortest), &[5], &[value]);
    refuse(OpKind::Add { operator: Operator::Sum }, &[4], &[]);
    refuse(OpKind::AllGather { axes: vec![axis(X)], dim: 1 }, &[16], &[value]);
    refuse(OpKind::AllGather { axes: vec![axis(X), axis(X)], dim: 0 }, &[64], &[value]);
    refuse(OpKind::AllGather { axes: vec![axis(3)], dim: 0 }, &[16], &[value]);
    refuse(OpKind::MatMul { einsum: einsum("a,b->ab") }, &[4], &[value, value]);
    refuse(OpKind::MatMul { einsum: einsum("a,a->b") }, &[4], &[value, value]);
    refuse(OpKind::Map { function: Function::Unary(Unary::Neg), einsum: einsum("a->") }, &[], &[value]);
    refuse(OpKind::Map { function: Function::Cast(DType::I8), einsum: einsum("a->a") }, &[4], &[value]);
    let slice = |view: &[u64], cut: Cut| OpKind::Slice { view: view.to_vec(), region: vec![cut] };
    refuse(slice(&[3], Cut::Whole), &[3], &[value]);
    refuse(slice(&[4], Cut::Range { start: 2, end: 2 }), &[1], &[value]);
    refuse(slice(&[4], Cut::Range { start: 2, end: 5 }), &[3], &[value]);
    refuse(slice(&[4], Cut::Range { start: 0, end: 2 }), &[3], &[value]);
    let map = CoordMap::Affine { terms: Vec::new(), constant: 0, modulo: Some(0) };
    refuse(slice(&[4], Cut::At(map)), &[1], &[value]);
    refuse(
        OpKind::Assemble { view: vec![u64::MAX, 2], places: vec![vec![Cut::Whole; 2]], zeros: false },
        &[4],
        &[value],
    );
}

#[test]
fn the_cost_does_not_grow_with_the_arrays() {
    let mut b = Builder::new(&[("X", 32), ("Y", 4)]);
    let a = b.array("A", &[("I", 1 << 30), ("J", 1 << 30)], Dense::INPUT);
    let value = b.input(a, sharding(&[&[], &[]], &[X]));
    let scattered = b.reduce_scatter(value, X, 1);
    let result = b.ring_gather(scattered, X, 1);
    b.output(result, a, sharding(&[&[], &[]], &[]));
    let proof = prove(&b.schedule).expect("a ring all-reduce");
    assert!(proof.pieces < 1 << 16, "{proof:?}");
    let mut huge = Builder::new(&[("X", 1 << 20)]);
    let a = huge.array("A", &[("I", 1 << 20)], Dense::INPUT);
    let value = huge.input(a, sharding(&[&[X]], &[]));
    let mut last = value;
    for _ in 0..32 {
        last = huge.shift(last, X, 1, false);
    }
    assert!(matches!(prove(&huge.schedule), Err(Flaw::TooLarge { .. })));
}
