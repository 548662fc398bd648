//! Elementwise functions of blocks that line up by their indices.

use super::element::{Arithmetic, Element, with_dtype};
use super::product::result_extents;
use super::tensor::Tensor;
use super::view::{Line, View, row_major, walk};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::{Function, Scalar};

/// The arithmetic in which a function computes.
pub(super) trait Compute: Arithmetic {
    /// A function of one element; for [`Function::Identity`] and [`Function::Cast`] the element itself. So it is for
    /// [`Function::Fill`]: an array that is computed whole has no padding.
    fn unary(function: Function) -> Option<Box<dyn Fn(Self) -> Self>>;
    /// A number of a program.
    fn number(c: f64) -> Self;
    /// A function of two elements.
    fn binary(function: Function) -> Option<fn(Self, Self) -> Self>;
}

/// The same text for f32 and f64.
macro_rules! float {
    ($type:ident) => {
        impl Compute for $type {
            #[expect(clippy::allow_attributes, reason = "f64 keeps all of a constant")]
            #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast, reason = "constants are rounded once")]
            fn unary(function: Function) -> Option<Box<dyn Fn(Self) -> Self>> {
                Some(match function {
                    Function::Identity | Function::Cast(_) | Function::Fill { .. } => Box::new(|a| a),
                    Function::Neg => Box::new(|a| -a),
                    Function::Scale(Scalar(c)) => Box::new(move |a| c as $type * a),
                    Function::Shift(Scalar(c)) => Box::new(move |a| a + c as $type),
                    Function::Relu => Box::new(|a| if a < 0.0 { 0.0 } else { a }),
                    Function::Gelu => Box::new(|a| {
                        let root = (2.0 / std::$type::consts::PI).sqrt();
                        0.5 * a * (1.0 + (root * (a + 0.044715 * a * a * a)).tanh())
                    }),
                    Function::Exp => Box::new($type::exp),
                    Function::Tanh => Box::new($type::tanh),
                    Function::Sigmoid => Box::new(|a| 1.0 / (1.0 + (-a).exp())),
                    Function::Silu => Box::new(|a| a / (1.0 + (-a).exp())),
                    Function::Sqrt => Box::new($type::sqrt),
                    Function::Rsqrt => Box::new(|a| 1.0 / a.sqrt()),
                    Function::Abs => Box::new($type::abs),
                    Function::Log => Box::new($type::ln),
                    Function::Square => Box::new(|a| a * a),
                    Function::Recip => Box::new(|a| 1.0 / a),
                    Function::Over(n) => Box::new(move |a| a / n as $type),
                    Function::AtLeast(Scalar(c)) => Box::new(move |a| Element::largest(a, c as $type)),
                    Function::AtMost(Scalar(c)) => Box::new(move |a| Element::smallest(a, c as $type)),
                    Function::Add
                    | Function::Sub
                    | Function::Div
                    | Function::Not
                    | Function::Larger
                    | Function::Smaller
                    | Function::Where
                    | Function::Masked(_)
                    | Function::Softmax { .. } => return None,
                })
            }

            #[expect(clippy::allow_attributes, reason = "f64 keeps all of a constant")]
            #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast, reason = "constants are rounded once")]
            fn number(c: f64) -> Self {
                c as $type
            }

            fn binary(function: Function) -> Option<fn(Self, Self) -> Self> {
                Some(match function {
                    Function::Add => |a, b| a + b,
                    Function::Sub => |a, b| a - b,
                    Function::Div => |a, b| a / b,
                    Function::Larger => Element::largest,
                    Function::Smaller => Element::smallest,
                    Function::Identity
                    | Function::Neg
                    | Function::Scale(_)
                    | Function::Shift(_)
                    | Function::Relu
                    | Function::Gelu
                    | Function::Exp
                    | Function::Tanh
                    | Function::Sigmoid
                    | Function::Silu
                    | Function::Sqrt
                    | Function::Rsqrt
                    | Function::Abs
                    | Function::Log
                    | Function::Square
                    | Function::Recip
                    | Function::Not
                    | Function::Over(_)
                    | Function::AtLeast(_)
                    | Function::AtMost(_)
                    | Function::Where
                    | Function::Masked(_)
                    | Function::Softmax { .. }
                    | Function::Fill { .. }
                    | Function::Cast(_) => return None,
                })
            }
        }
    };
}

float!(f32);
float!(f64);

/// A constant that is a whole number of 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn whole(c: f64) -> Option<i64> {
    (c.fract() == 0.0 && c.abs() < 9.0e18).then_some(c as i64)
}

impl Compute for i64 {
    #[expect(clippy::cast_possible_truncation, reason = "saturates, as a cast does")]
    fn unary(function: Function) -> Option<Box<dyn Fn(i64) -> i64>> {
        Some(match function {
            Function::Identity | Function::Cast(_) | Function::Fill { .. } => Box::new(|a| a),
            Function::Neg => Box::new(i64::wrapping_neg),
            Function::Scale(Scalar(c)) => match whole(c) {
                Some(c) => Box::new(move |a| a.wrapping_mul(c)),
                None => Box::new(move |a| (a as f64 * c) as i64),
            },
            Function::Shift(Scalar(c)) => match whole(c) {
                Some(c) => Box::new(move |a| a.wrapping_add(c)),
                None => Box::new(move |a| (a as f64 + c) as i64),
            },
            Function::Relu => Box::new(|a| a.max(0)),
            Function::Abs => Box::new(i64::wrapping_abs),
            Function::Square => Box::new(|a| a.wrapping_mul(a)),
            // Of a bool, which is read as 0 or 1.
            Function::Not => Box::new(|a| i64::from(a == 0)),
            Function::AtLeast(Scalar(c)) => Box::new(move |a| a.max(c as i64)),
            Function::AtMost(Scalar(c)) => Box::new(move |a| a.min(c as i64)),
            Function::Add
            | Function::Sub
            | Function::Div
            | Function::Gelu
            | Function::Exp
            | Function::Tanh
            | Function::Sigmoid
            | Function::Silu
            | Function::Sqrt
            | Function::Rsqrt
            | Function::Log
            | Function::Recip
            | Function::Over(_)
            | Function::Larger
            | Function::Smaller
            | Function::Where
            | Function::Masked(_)
            | Function::Softmax { .. } => return None,
        })
    }

    #[expect(clippy::cast_possible_truncation, reason = "saturates, as a cast does")]
    fn number(c: f64) -> i64 {
        c as i64
    }

    fn binary(function: Function) -> Option<fn(i64, i64) -> i64> {
        Some(match function {
            Function::Add => i64::wrapping_add,
            Function::Sub => i64::wrapping_sub,
            Function::Larger => i64::max,
            Function::Smaller => i64::min,
            Function::Div
            | Function::Identity
            | Function::Neg
            | Function::Scale(_)
            | Function::Shift(_)
            | Function::Relu
            | Function::Gelu
            | Function::Exp
            | Function::Tanh
            | Function::Sigmoid
            | Function::Silu
            | Function::Sqrt
            | Function::Rsqrt
            | Function::Abs
            | Function::Log
            | Function::Square
            | Function::Recip
            | Function::Not
            | Function::Over(_)
            | Function::AtLeast(_)
            | Function::AtMost(_)
            | Function::Where
            | Function::Masked(_)
            | Function::Softmax { .. }
            | Function::Fill { .. }
            | Function::Cast(_) => return None,
        })
    }
}

/// A function of blocks, rounded once to `dtype`.
///
/// It computes in f32 for bf16, f16 and f32, in f64 for f64, in i64 for integers; a cast in the arithmetic of what is
/// cast. An integer times, or plus, a fraction is cut towards zero.
///
/// # Errors
/// What is wrong, in words: operands that do not fit, or a function without meaning for the dtype.
pub(super) fn map(function: Function, einsum: &Einsum, operands: &[&Tensor], dtype: DType) -> Result<Tensor, String> {
    let extents: Vec<&[usize]> = operands.iter().map(|operand| &operand.view().extents[..]).collect();
    let (_, result) = result_extents(einsum, &extents)?;
    if let Some(index) = einsum.contracted().iter().find(|index| einsum.operands.iter().any(|all| all.contains(index)))
    {
        return Err(format!("an elementwise function cannot sum index {index} of `{einsum}`"));
    }
    let lined_up: Vec<Tensor> = operands
        .iter()
        .zip(&einsum.operands)
        .map(|(operand, indices)| operand.with_view(lined_up(operand.view(), indices, einsum, &result)))
        .collect();
    let arithmetic = match function {
        Function::Cast(_) | Function::Identity | Function::Fill { .. } => lined_up.first().map_or(dtype, Tensor::dtype),
        Function::Add
        | Function::Sub
        | Function::Div
        | Function::Neg
        | Function::Scale(_)
        | Function::Shift(_)
        | Function::Relu
        | Function::Gelu
        | Function::Exp
        | Function::Tanh
        | Function::Sigmoid
        | Function::Silu
        | Function::Sqrt
        | Function::Rsqrt
        | Function::Abs
        | Function::Log
        | Function::Square
        | Function::Recip
        | Function::Not
        | Function::Over(_)
        | Function::Larger
        | Function::Smaller
        | Function::AtLeast(_)
        | Function::AtMost(_)
        | Function::Where
        | Function::Masked(_)
        | Function::Softmax { .. } => dtype,
    };
    let done = match arithmetic {
        DType::Bf16 | DType::F16 | DType::F32 => through::<f32>(function, &lined_up, dtype),
        DType::F64 => through::<f64>(function, &lined_up, dtype),
        DType::Bool | DType::I8 | DType::I32 | DType::I64 => through::<i64>(function, &lined_up, dtype),
    };
    done.ok_or_else(|| format!("`{function}` of {} operands has no meaning in {dtype}", operands.len()))
}

/// An operand with the dims of the result: a missing one repeats.
fn lined_up(view: &View, indices: &[u8], einsum: &Einsum, extents: &[usize]) -> View {
    let stride = |index: &u8| -> usize {
        let places = indices.iter().zip(&view.strides);
        places.filter(|(other, _)| *other == index).map(|(_, stride)| stride).sum()
    };
    View { offset: view.offset, extents: extents.to_vec(), strides: einsum.result.iter().map(stride).collect() }
}

fn through<C: Compute>(function: Function, operands: &[Tensor], dtype: DType) -> Option<Tensor> {
    let (float, extents) = (C::DTYPE.is_float(), operands.first()?.view().extents.clone());
    match (function, operands) {
        (Function::Identity | Function::Cast(_) | Function::Fill { .. }, [a]) if a.dtype() == dtype => Some(a.clone()),
        (Function::Softmax { dim }, [a]) if float => softmax::<C>(a, usize::from(dim), dtype),
        (Function::Where, [mask, yes, no]) => Some(choose::<C>(mask, yes, no, dtype)),
        (Function::Masked(Scalar(c)), [mask, yes]) => {
            let number = C::number(c);
            let no = Tensor::owned(&[1], vec![number]).with_view(View {
                strides: vec![0; extents.len()],
                offset: 0,
                extents,
            });
            Some(choose::<C>(mask, yes, &no, dtype))
        }
        (_, [a]) => {
            let compute = C::unary(function)?;
            Some(with_dtype!(a.dtype(), S => with_dtype!(dtype, T => {
                Tensor::owned(&extents, a.collect(|element: S| compute(C::read(element)).write::<T>()))
            })))
        }
        (_, [a, b]) => {
            let compute = C::binary(function)?;
            let ((left, a), (right, b)) = (a.read_as::<C>(), b.read_as::<C>());
            Some(with_dtype!(dtype, T => {
                let mut elements: Vec<T> = Vec::with_capacity(a.elements());
                let strides = [&a.strides[..], &b.strides[..]];
                walk(&extents, [a.offset, b.offset], strides, |Line { starts: [i, j], steps, length }| {
                    let pairs = (0..length).map(|n| (left[i + n * steps[0]], right[j + n * steps[1]]));
                    elements.extend(pairs.map(|(x, y)| compute(x, y).write::<T>()));
                });
                Tensor::owned(&extents, elements)
            }))
        }
        _ => None,
    }
}

/// The elements of one where the mask is true, of the other where it is not.
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

/// Shifted by the largest of each line, so that no power overflows; in f64, rounded once.
fn softmax<C: Compute>(a: &Tensor, dim: usize, dtype: DType) -> Option<Tensor> {
    let extents = a.view().extents.clone();
    let (length, step) = (*extents.get(dim)?, row_major(&extents)[dim]);
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
    Some(with_dtype!(dtype, T => Tensor::owned(&extents, elements.into_iter().map(<T as Element>::from_f64).collect())))
}
