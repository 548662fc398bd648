//! Elementwise functions of blocks that are aligned by their indices.

use super::element::{Arithmetic, Element, with_arithmetic, with_dtype};
use super::pad::shifted;
use super::roles::result_extents;
use super::tensor::Tensor;
use super::unary::Functions;
use super::view::{Line, View, row_major, walk};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::{Binary, ByNumber, Function, Relation, Scalar};

/// The arithmetic in which a function is computed.
pub(super) trait Compute: Arithmetic + Functions {
    /// A binary function that is defined for this arithmetic.
    fn binary(function: Binary) -> fn(Self, Self) -> Self;
    /// A function of an element and a constant.
    fn by_number(function: ByNumber, c: f64) -> Box<dyn Fn(Self) -> Self>;
    /// A comparison of two elements that returns 1 or 0.
    fn relation(relation: Relation) -> fn(Self, Self) -> Self {
        match relation {
            Relation::Less => |a, b| Self::number(f64::from(u8::from(a < b))),
            Relation::LessOrEqual => |a, b| Self::number(f64::from(u8::from(a <= b))),
            Relation::Greater => |a, b| Self::number(f64::from(u8::from(a > b))),
            Relation::GreaterOrEqual => |a, b| Self::number(f64::from(u8::from(a >= b))),
            Relation::Equal => |a, b| Self::number(f64::from(u8::from(a == b))),
            Relation::Unequal => |a, b| Self::number(f64::from(u8::from(a != b))),
        }
    }
    /// Converts a constant of the program.
    fn number(c: f64) -> Self;
}

/// Implements f32 and f64 alike.
macro_rules! float {
    ($type:ident) => {
        #[expect(clippy::allow_attributes, reason = "f64 keeps all of a constant")]
        #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast, reason = "constants are rounded once")]
        impl Compute for $type {
            fn binary(function: Binary) -> fn(Self, Self) -> Self {
                match function {
                    Binary::Add => |a, b| a + b,
                    Binary::Sub => |a, b| a - b,
                    Binary::Mul => |a, b| a * b,
                    Binary::Div => |a, b| a / b,
                    Binary::Larger => Element::largest,
                    Binary::Smaller => Element::smallest,
                }
            }

            fn by_number(function: ByNumber, c: f64) -> Box<dyn Fn(Self) -> Self> {
                let c = c as $type;
                match function {
                    ByNumber::Scale => Box::new(move |a| c * a),
                    ByNumber::Shift => Box::new(move |a| a + c),
                    ByNumber::AtLeast => Box::new(move |a| Element::largest(a, c)),
                    ByNumber::AtMost => Box::new(move |a| Element::smallest(a, c)),
                }
            }

            fn number(c: f64) -> Self {
                c as $type
            }
        }
    };
}

float!(f32);
float!(f64);

/// The constant as an i64, if it is one.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn whole(c: f64) -> Option<i64> {
    (c.fract() == 0.0 && c.abs() < 9.0e18).then_some(c as i64)
}

/// Implements i64 and u64 alike.
macro_rules! integer {
    ($type:ident) => {
        #[expect(clippy::allow_attributes, reason = "which casts can lose something depends on the type")]
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::unnecessary_cast,
            reason = "a fraction is cut and saturates, a whole number wraps"
        )]
        impl Compute for $type {
            fn binary(function: Binary) -> fn($type, $type) -> $type {
                match function {
                    Binary::Add => $type::wrapping_add,
                    Binary::Sub => $type::wrapping_sub,
                    Binary::Mul => $type::wrapping_mul,
                    Binary::Larger => $type::max,
                    Binary::Smaller => $type::min,
                    Binary::Div => unreachable!("of floats alone"),
                }
            }

            fn by_number(function: ByNumber, c: f64) -> Box<dyn Fn($type) -> $type> {
                match (function, whole(c)) {
                    (ByNumber::Scale, Some(c)) => Box::new(move |a| a.wrapping_mul(c as $type)),
                    (ByNumber::Scale, None) => Box::new(move |a| (a as f64 * c) as $type),
                    (ByNumber::Shift, Some(c)) => Box::new(move |a| a.wrapping_add(c as $type)),
                    (ByNumber::Shift, None) => Box::new(move |a| (a as f64 + c) as $type),
                    (ByNumber::AtLeast, _) => Box::new(move |a| a.max(c as $type)),
                    (ByNumber::AtMost, _) => Box::new(move |a| a.min(c as $type)),
                }
            }

            fn number(c: f64) -> $type {
                c as $type
            }
        }
    };
}

integer!(i64);
integer!(u64);

/// A function of blocks, rounded once to `dtype`.
///
/// It is computed in f32 for floats of up to 32 bits, in f64 for f64, in i64 or u64 for integers. A cast uses the arithmetic of
/// its operand. An integer times or plus a fraction is truncated towards zero.
pub(super) fn map(function: Function, einsum: &Einsum, operands: &[&Tensor], dtype: DType) -> Tensor {
    let extents: Vec<&[usize]> = operands.iter().map(|operand| &operand.view().extents[..]).collect();
    let (_, result) = result_extents(einsum, &extents);
    let lined_up: Vec<Tensor> = operands
        .iter()
        .zip(&einsum.operands)
        .map(|(operand, indices)| operand.with_view(lined_up(operand.view(), indices, einsum, &result)))
        .collect();
    let arithmetic = match function {
        Function::Is(_) | Function::IsNumber(..) => {
            let dtypes = lined_up.iter().map(Tensor::dtype);
            dtypes.reduce(|left, right| left.elementwise(right).unwrap_or(left)).unwrap_or(dtype)
        }
        Function::Cast(_) | Function::Identity | Function::Fill { .. } | Function::Shift(_) => lined_up[0].dtype(),
        Function::Unary(_)
        | Function::Binary(_)
        | Function::ByNumber(..)
        | Function::Over(_)
        | Function::Where
        | Function::Masked(_)
        | Function::Softmax { .. } => dtype,
    };
    with_arithmetic!(arithmetic, C => through::<C>(function, &lined_up, dtype))
}

/// An operand with the dims of the result; missing dims repeat.
pub(super) fn lined_up(view: &View, indices: &[u8], einsum: &Einsum, extents: &[usize]) -> View {
    let stride = |index: &u8| -> usize {
        let places = indices.iter().zip(&view.strides);
        places.filter(|(other, _)| *other == index).map(|(_, stride)| stride).sum()
    };
    View { offset: view.offset, extents: extents.to_vec(), strides: einsum.result.iter().map(stride).collect() }
}

fn through<C: Compute>(function: Function, operands: &[Tensor], dtype: DType) -> Tensor {
    let a = &operands[0];
    match function {
        // An array that is computed whole has no padding to fill.
        Function::Identity | Function::Cast(_) | Function::Fill { .. } if a.dtype() == dtype => a.clone(),
        Function::Identity | Function::Cast(_) | Function::Fill { .. } => each::<C>(a, dtype, |a| a),
        Function::Shift(shift) => shifted(a, shift),
        Function::Softmax { dim } => softmax(a, usize::from(dim), dtype),
        Function::Where => choose::<C>(a, &operands[1], &operands[2], dtype),
        Function::Masked(Scalar(c)) => {
            let extents = a.view().extents.clone();
            let everywhere = View { strides: vec![0; extents.len()], offset: 0, extents };
            let no = Tensor::owned(&[1], vec![C::number(dtype.saturated(c))]).with_view(everywhere);
            choose::<C>(a, &operands[1], &no, dtype)
        }
        Function::Unary(unary) => each::<C>(a, dtype, C::unary(unary)),
        Function::ByNumber(by, Scalar(c)) => each::<C>(a, dtype, C::by_number(by, constant(by, c, dtype))),
        Function::Over(n) => each::<C>(a, dtype, |a| C::binary(Binary::Div)(a, C::number(n as f64))),
        Function::Binary(binary) => pairs::<C>(a, &operands[1], dtype, C::binary(binary)),
        Function::Is(relation) => pairs::<C>(a, &operands[1], dtype, C::relation(relation)),
        Function::IsNumber(relation, Scalar(c)) => {
            // A constant has the dtype of the element that it is compared with.
            let c: f64 = with_dtype!(a.dtype(), S => C::read(<S as Element>::from_f64(c)).to_f64());
            let relation = C::relation(relation);
            each::<C>(a, dtype, |a| relation(a, C::number(c)))
        }
    }
}

/// The constant of a function. A bound of integers saturates to their range.
fn constant(by: ByNumber, c: f64, dtype: DType) -> f64 {
    match by {
        ByNumber::AtLeast | ByNumber::AtMost => dtype.saturated(c),
        ByNumber::Scale | ByNumber::Shift => c,
    }
}

/// Applies a function to each element, rounded once.
fn each<C: Compute>(a: &Tensor, dtype: DType, compute: impl Fn(C) -> C) -> Tensor {
    let extents = &a.view().extents;
    let (buffer, view) = a.read_as::<C>();
    with_dtype!(dtype, T => {
        let mut elements: Vec<T> = Vec::with_capacity(view.elements());
        walk(extents, [view.offset], [&view.strides], |Line { starts: [start], steps, length }| {
            elements.extend((0..length).map(|n| compute(buffer[start + n * steps[0]]).write::<T>()));
        });
        Tensor::owned(extents, elements)
    })
}

/// Applies a function to pairs of elements at equal positions, rounded once.
fn pairs<C: Compute>(a: &Tensor, b: &Tensor, dtype: DType, compute: fn(C, C) -> C) -> Tensor {
    let extents = a.view().extents.clone();
    let ((left, a), (right, b)) = (a.read_as::<C>(), b.read_as::<C>());
    with_dtype!(dtype, T => {
        let mut elements: Vec<T> = Vec::with_capacity(a.elements());
        let strides = [&a.strides[..], &b.strides[..]];
        walk(&extents, [a.offset, b.offset], strides, |Line { starts: [i, j], steps, length }| {
            let pairs = (0..length).map(|n| (left[i + n * steps[0]], right[j + n * steps[1]]));
            elements.extend(pairs.map(|(x, y)| compute(x, y).write::<T>()));
        });
        Tensor::owned(&extents, elements)
    })
}

/// Selects elements of `yes` where the mask is true, of `no` otherwise.
fn choose<C: Compute>(mask: &Tensor, yes: &Tensor, no: &Tensor, dtype: DType) -> Tensor {
    let extents = mask.view().extents.clone();
    let (mask, (left, a), (right, b)) = (mask.to_f64s(), yes.read_as::<C>(), no.read_as::<C>());
    with_dtype!(dtype, T => {
        let mut elements: Vec<T> = Vec::with_capacity(mask.len());
        walk(&extents, [a.offset, b.offset], [&a.strides[..], &b.strides[..]], |Line { starts: [i, j], steps, length }| {
            let done = elements.len();
            let pairs = (0..length).map(|n| (mask[done + n] != 0.0, left[i + n * steps[0]], right[j + n * steps[1]]));
            elements.extend(pairs.map(|(chosen, x, y)| if chosen { x } else { y }.write::<T>()));
        });
        Tensor::owned(&extents, elements)
    })
}

/// Softmax along a dim. The largest element of each line is subtracted so that no power overflows. Computed in f64,
/// rounded once.
fn softmax(a: &Tensor, dim: usize, dtype: DType) -> Tensor {
    let extents = a.view().extents.clone();
    let (length, step) = (extents[dim], row_major(&extents)[dim]);
    let mut elements: Vec<f64> = a.to_f64s();
    let starts = (0..elements.len()).filter(|place| place / step % length == 0);
    for start in starts {
        let places = (0..length).map(|n| start + n * step);
        let largest = places.clone().map(|place| elements[place]).fold(f64::NEG_INFINITY, Element::largest);
        let mut sum = 0.0;
        for place in places.clone() {
            elements[place] = (elements[place] - largest).exp();
            sum += elements[place];
        }
        places.for_each(|place| elements[place] /= sum);
    }
    with_dtype!(dtype, T => Tensor::owned(&extents, elements.into_iter().map(<T as Element>::from_f64).collect()))
}
