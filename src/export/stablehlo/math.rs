//! Single values as StableHLO operations, for shards and whole arrays alike.
//!
//! Functions of 16-bit floats are computed in f32 and rounded once, as in the simulator.

use super::emit::{Emitter, Number, Tensor, list, tensor};
use crate::dtype::DType;
use crate::einsum::{Einsum, Index};
use crate::escape;
use crate::export::functions;
use crate::export::words::local;
use crate::function::{ByNumber, Function, Relation, Scalar};
use crate::kernel::Kernel;
use crate::operator::Operator;
use crate::plan::StepOp;
use itertools::Itertools;

/// Emits the computation of a value; `None` if nothing is computed. `start` is the first lane of a block with a
/// padded dim.
pub(super) fn value(
    emit: &mut Emitter,
    op: &StepOp,
    operands: &[Tensor],
    dtype: DType,
    start: Option<&Tensor>,
) -> Option<Tensor> {
    match op {
        StepOp::Product { einsum } => Some(product(emit, [&operands[0], &operands[1]], einsum, dtype)),
        StepOp::Reduce { operator, einsum } => Some(reduce(emit, *operator, &operands[0], einsum, dtype)),
        StepOp::Map { function, einsum } => Some(map(emit, *function, operands, einsum, dtype, start)),
        StepOp::Kernel(kernel) => match &kernel.formula {
            Some(formula) => Some(formula.evaluate(operands.to_vec(), |step, operands| {
                let operands: Vec<Tensor> = operands.iter().map(|operand| (*operand).clone()).collect();
                value(emit, &local(&step.op), &operands, step.dtype, None).expect("a formula computes")
            })),
            None => Some(call(emit, kernel, operands, dtype)),
        },
        StepOp::Input | StepOp::Carry | StepOp::Collective(_) => None,
    }
}

/// A declared kernel: a custom call of its name.
fn call(emit: &mut Emitter, kernel: &Kernel, operands: &[Tensor], dtype: DType) -> Tensor {
    let extents: Vec<Vec<u64>> = operands.iter().map(|operand| operand.shape.clone()).collect();
    let lengths = kernel.block(&extents).unwrap_or_else(|| kernel.lengths.clone());
    let (shape, names) = (kernel.result(&lengths), operands.iter().map(|operand| &operand.name).join(", "));
    let (types, result) = (operands.iter().map(Tensor::of).join(", "), tensor(&shape, dtype));
    let target = escape::mlir_string(&kernel.name);
    let text = format!("stablehlo.custom_call @{target}({names}) : ({types}) -> {result}");
    emit.made(&text, &shape, dtype)
}

/// A product. Indices that only one operand has are summed first.
fn product(emit: &mut Emitter, operands: [&Tensor; 2], einsum: &Einsum, dtype: DType) -> Tensor {
    let mixed = operands.iter().any(|operand| operand.dtype != operands[0].dtype);
    let mut sides: Vec<(Tensor, Vec<Index>)> = Vec::new();
    for (place, operand) in operands.into_iter().enumerate() {
        let (own, other) = (&einsum.operands[place], &einsum.operands[1 - place]);
        let alone = |index: &Index| !other.contains(index) && !einsum.result.contains(index);
        let dims: Vec<usize> = own.iter().positions(alone).collect();
        // Operands that are summed, or combined with another dtype, are converted to the result's dtype first.
        let taken = if mixed || !dims.is_empty() { dtype } else { operand.dtype.in_bytes() };
        let operand = emit.convert(operand, taken);
        let left = own.iter().copied().filter(|index| !alone(index)).collect();
        sides.push((emit.reduce(Operator::Sum, &operand, &dims), left));
    }
    let [(a, a_indices), (b, b_indices)] = [sides[0].clone(), sides[1].clone()];
    // A summed operand has the result's dtype, so the other one is converted, too.
    let (a, b) = if a.dtype == b.dtype { (a, b) } else { (emit.convert(&a, dtype), emit.convert(&b, dtype)) };
    let both: Vec<Index> = a_indices.iter().copied().filter(|index| b_indices.contains(index)).collect();
    let (batch, met): (Vec<Index>, Vec<Index>) = both.iter().partition(|index| einsum.result.contains(index));
    let places = |indices: &[Index], of: &[Index]| -> Vec<usize> {
        of.iter().filter_map(|index| indices.iter().position(|other| other == index)).collect()
    };
    let free =
        |indices: &[Index]| -> Vec<Index> { indices.iter().copied().filter(|index| !both.contains(index)).collect() };
    let made: Vec<Index> = [batch.clone(), free(&a_indices), free(&b_indices)].concat();
    let length = |index: &Index| {
        let in_a = a_indices.iter().position(|other| other == index).map(|place| a.shape[place]);
        in_a.or_else(|| b_indices.iter().position(|other| other == index).map(|place| b.shape[place])).unwrap_or(1)
    };
    let shape: Vec<u64> = made.iter().map(length).collect();
    let batching =
        format!("batching_dims = {} x {}, ", list(places(&a_indices, &batch)), list(places(&b_indices, &batch)));
    let rest = format!(
        "{}contracting_dims = {} x {}",
        if batch.is_empty() { "" } else { &batching },
        list(places(&a_indices, &met)),
        list(places(&b_indices, &met))
    );
    let product = emit.typed("dot_general", &[&a, &b], &rest, (&shape, dtype));
    emit.transpose(&product, &places(&made, &einsum.result))
}

/// A reduction over the dims that are missing in the result.
fn reduce(emit: &mut Emitter, operator: Operator, a: &Tensor, einsum: &Einsum, dtype: DType) -> Tensor {
    let (dims, left) = einsum.reduced();
    let a = emit.convert(a, dtype.in_bytes());
    let reduced = emit.reduce(operator, &a, &dims);
    let reduced = emit.convert(&reduced, dtype);
    emit.transpose(&reduced, &order(&left, &einsum.result))
}

fn order(from: &[Index], to: &[Index]) -> Vec<usize> {
    to.iter().filter_map(|index| from.iter().position(|other| other == index)).collect()
}

/// An elementwise function of aligned operands.
fn map(
    emit: &mut Emitter,
    function: Function,
    operands: &[Tensor],
    einsum: &Einsum,
    dtype: DType,
    start: Option<&Tensor>,
) -> Tensor {
    let extents: Vec<Vec<u64>> = operands.iter().map(|operand| operand.shape.clone()).collect();
    let lengths = einsum.lengths(&extents).unwrap_or_default();
    let shape: Vec<u64> = einsum.result.iter().map(|index| lengths[usize::from(*index)]).collect();
    let aligned: Vec<Tensor> = operands
        .iter()
        .zip(&einsum.operands)
        .map(|(operand, indices)| aligned(emit, operand, indices, &einsum.result, &shape))
        .collect();
    if let Function::Cast(to) = function {
        return cast(emit, &aligned[0], to);
    }
    let dtypes = aligned.iter().map(|operand| operand.dtype);
    let compared = dtypes.reduce(|left, right| left.elementwise(right).unwrap_or(left)).unwrap_or(dtype);
    let computes = match (function, dtype) {
        (Function::Is(_) | Function::IsNumber(..), _) => compared,
        (Function::Identity | Function::Fill { .. } | Function::Shift(_), _) => dtype,
        (Function::Where | Function::Masked(_), _) => dtype,
        (_, dtype) => {
            if dtype.is_narrow_float() {
                DType::F32
            } else {
                dtype.in_bytes()
            }
        }
    };
    // Masks are not converted.
    let masks = usize::from(matches!(function, Function::Where | Function::Masked(_)));
    let taken: Vec<Tensor> = aligned
        .iter()
        .enumerate()
        .map(|(place, operand)| if place < masks { operand.clone() } else { emit.convert(operand, computes) })
        .collect();
    // Sums and products wrap alike in more bits.
    let value = computed(emit, function.bounded(dtype), &taken, start);
    emit.convert(&value, dtype)
}

fn computed(emit: &mut Emitter, function: Function, operands: &[Tensor], start: Option<&Tensor>) -> Tensor {
    let a = &operands[0];
    match function {
        Function::Identity | Function::Cast(_) => a.clone(),
        Function::Unary(unary) => functions::stablehlo(emit, unary, a),
        Function::Binary(binary) => emit.same(functions::stablehlo_binary(binary), &[a, &operands[1]]),
        Function::ByNumber(by, Scalar(number)) => by_number(emit, by, a, number),
        Function::Is(relation) => emit.compare(direction(relation), a, &operands[1]),
        Function::IsNumber(relation, Scalar(number)) => {
            let number = emit.constant(Number::Is(a.dtype.saturated(number)), &a.shape, a.dtype);
            emit.compare(direction(relation), a, &number)
        }
        Function::Over(n) => {
            // Group sizes are exactly representable as floats.
            let n = emit.constant(Number::Is(n as f64), &a.shape, a.dtype);
            emit.same("divide", &[a, &n])
        }
        Function::Where => emit.select(a, &operands[1], &operands[2]),
        Function::Masked(Scalar(number)) => {
            let dtype = operands[1].dtype;
            let other = emit.constant(Number::Is(dtype.saturated(number)), &operands[1].shape, dtype);
            emit.select(a, &operands[1], &other)
        }
        Function::Shift(shift) => emit.shifted(a, shift),
        Function::Softmax { dim } => softmax(emit, a, usize::from(dim)),
        Function::Fill { dim, valid, with } => {
            let lanes = emit.iota(usize::from(dim), &a.shape);
            let lanes = match start {
                Some(start) => {
                    let start = emit.broadcast(start, &[], &a.shape);
                    emit.same("add", &[&lanes, &start])
                }
                None => lanes,
            };
            let end = emit.constant(Number::Is(valid as f64), &a.shape, DType::I64);
            let kept = emit.compare("LT", &lanes, &end);
            let filler = emit.constant(Number::of(with), &a.shape, a.dtype);
            emit.select(&kept, a, &filler)
        }
    }
}

/// The comparison direction in StableHLO.
fn direction(relation: Relation) -> &'static str {
    match relation {
        Relation::Less => "LT",
        Relation::LessOrEqual => "LE",
        Relation::Greater => "GT",
        Relation::GreaterOrEqual => "GE",
        Relation::Equal => "EQ",
        Relation::Unequal => "NE",
    }
}

fn by_number(emit: &mut Emitter, by: ByNumber, a: &Tensor, number: f64) -> Tensor {
    let operation = match by {
        ByNumber::Scale => "multiply",
        ByNumber::Shift => "add",
        ByNumber::AtLeast => "maximum",
        ByNumber::AtMost => "minimum",
    };
    // Integers multiplied by a fraction.
    let computes = if a.dtype.is_float() || number.fract() == 0.0 { a.dtype } else { DType::F64 };
    let taken = emit.convert(a, computes);
    let number = match by {
        ByNumber::AtLeast | ByNumber::AtMost => a.dtype.saturated(number),
        ByNumber::Scale | ByNumber::Shift => number,
    };
    let number = emit.constant(Number::Is(number), &a.shape, computes);
    let value = emit.same(operation, &[&taken, &number]);
    cast(emit, &value, a.dtype)
}

fn softmax(emit: &mut Emitter, a: &Tensor, dim: usize) -> Tensor {
    let others: Vec<usize> = (0..a.shape.len()).filter(|place| *place != dim).collect();
    let most = emit.reduce(Operator::Max, a, &[dim]);
    let most = emit.broadcast(&most, &others, &a.shape);
    let below = emit.same("subtract", &[a, &most]);
    let powers = emit.same("exponential", &[&below]);
    let sum = emit.reduce(Operator::Sum, &powers, &[dim]);
    let sum = emit.broadcast(&sum, &others, &a.shape);
    emit.same("divide", &[&powers, &sum])
}

/// Converts to another dtype. Floats saturate to the integer range, and NaN becomes 0.
fn cast(emit: &mut Emitter, a: &Tensor, to: DType) -> Tensor {
    if !a.dtype.is_float() || to.is_float() || to == DType::Bool {
        return emit.convert(a, to);
    }
    // The ends of the range are not numbers of fp8.
    let wide = if a.dtype.bits() == 8 { emit.convert(a, DType::F32) } else { a.clone() };
    let a = &wide;
    let [least, greatest] = to.finite_ends();
    let mut value = emit.convert(a, to);
    for (number, bound, how) in [(Number::Greatest, greatest, "GE"), (Number::Least, least, "LE")] {
        let bound = emit.constant(Number::Is(bound), &a.shape, a.dtype);
        let beyond = emit.compare(how, a, &bound);
        let end = emit.constant(number, &a.shape, to);
        value = emit.select(&beyond, &end, &value);
    }
    let is_number = emit.compare("EQ", a, a);
    let zero = emit.constant(Number::Is(0.0), &a.shape, to);
    emit.select(&is_number, &value, &zero)
}

/// An operand with its dims in result order, broadcast along missing dims.
fn aligned(emit: &mut Emitter, a: &Tensor, indices: &[Index], result: &[Index], shape: &[u64]) -> Tensor {
    let there: Vec<Index> = result.iter().copied().filter(|index| indices.contains(index)).collect();
    let a = emit.transpose(a, &order(indices, &there));
    let places: Vec<usize> = result.iter().positions(|index| indices.contains(index)).collect();
    emit.broadcast(&a, &places, shape)
}

/// Combines the pieces of an open sum, which are the first dim.
pub(super) fn combined(emit: &mut Emitter, pieces: &Tensor, operator: Operator) -> Tensor {
    let is_squared = operator == Operator::SquareAdd;
    let squared = if is_squared { emit.same("multiply", &[pieces, pieces]) } else { pieces.clone() };
    let sum = emit.reduce(operator.combiner(), &squared, &[0]);
    if operator != Operator::Mean {
        return sum;
    }
    let n = emit.constant(Number::Is(pieces.shape[0] as f64), &sum.shape, sum.dtype);
    emit.same("divide", &[&sum, &n])
}
