//! A single value as a jax.numpy expression, for shards and whole arrays alike.

use super::text;
use crate::dtype::DType;
use crate::einsum::{Einsum, Index, letter};
use crate::escape;
use crate::export::functions;
use crate::export::words::local;
use crate::function::{ByNumber, Filler, Function, Scalar};
use crate::kernel::Kernel;
use crate::operator::Operator;
use crate::plan::StepOp;
use crate::shift::Shift;
use itertools::Itertools;
use std::fmt::Write as _;
use std::sync::Arc;

/// Name and dtype of an operand.
pub(super) type Operand = (String, DType);

/// A declared kernel and the dtypes that it is called with.
pub(super) type Called = (Arc<Kernel>, Vec<DType>);

/// The expression of a value; `None` if nothing is computed.
///
/// - `names`: the dims of each operand.
/// - `kernels`: the declared kernels of the program.
pub(super) fn value(
    op: &StepOp,
    operands: &[Operand],
    names: &[Vec<String>],
    dtype: DType,
    lanes: &Lanes,
    kernels: &[Called],
) -> Option<String> {
    match op {
        StepOp::Product { einsum } => Some(product(operands, names, einsum, dtype)),
        StepOp::Reduce { operator, einsum } => Some(reduce(*operator, &operands[0].0, einsum, dtype)),
        StepOp::Map { function, einsum } => Some(map(*function, operands, einsum, dtype, lanes)),
        StepOp::Kernel(kernel) => {
            let arguments = operands.iter().map(|(name, _)| name).join(", ");
            let dtypes: Vec<DType> = operands.iter().map(|(_, dtype)| *dtype).collect();
            Some(format!("{}({arguments})", kernel_name(kernel, &dtypes, kernels)))
        }
        StepOp::Input | StepOp::Carry | StepOp::Collective(_) => None,
    }
}

/// The function of a kernel: that of its reference, or the one that the caller has set.
fn kernel_name(kernel: &Kernel, dtypes: &[DType], kernels: &[Called]) -> String {
    let place = kernels.iter().position(|(known, of)| known.as_ref() == kernel && of == dtypes);
    match (&kernel.formula, place) {
        // No array has a name that begins so.
        (Some(_), Some(place)) => format!("_kernel_{}", place + 1),
        _ => format!("KERNELS[{}]", escape::python_string(&kernel.name)),
    }
}

/// The functions of kernels with a reference, and a table for the others.
pub(super) fn kernels(kernels: &[Called]) -> String {
    let mut text = String::new();
    if kernels.iter().any(|(kernel, _)| kernel.formula.is_none()) {
        text += "\n# Set the function of each declared kernel before use: of blocks, in the order of its parameters.\nKERNELS = {}\n";
    }
    for (kernel, dtypes) in kernels {
        let Some(formula) = &kernel.formula else { continue };
        let names: Vec<String> = (0..kernel.einsum.operands.len()).map(|place| format!("x{place}")).collect();
        let name = kernel_name(kernel, dtypes, kernels);
        writeln!(text, "\n\ndef {name}({}):\n    # {}", names.join(", "), escape::line(&kernel.name))
            .expect("a string");
        let mut next = names.len();
        let operands = names.iter().cloned().zip(dtypes.iter().copied()).collect();
        let (result, _) = formula.evaluate(operands, |step, operands| {
            let operands: Vec<Operand> = operands.iter().map(|operand| (*operand).clone()).collect();
            let lanes = Lanes { start: None, rank: step.op.einsum().result.len() };
            let value = value(&local(&step.op), &operands, &[], step.dtype, &lanes, &[]).expect("a formula computes");
            let name = format!("x{next}");
            next += 1;
            writeln!(text, "    {name} = {value}").expect("a string");
            (name, step.dtype)
        });
        writeln!(text, "    return {result}").expect("a string");
    }
    text
}

/// A letter for each index of an einsum: one of the name of its dim if it is free, else the next one.
fn letters(einsum: &Einsum, names: &[Vec<String>]) -> Vec<char> {
    let mut found: Vec<(Index, char)> = Vec::new();
    for (indices, names) in einsum.operands.iter().zip(names) {
        for (index, name) in indices.iter().zip(names) {
            let is_free = |letter: &char| found.iter().all(|(_, taken)| taken != letter);
            if found.iter().all(|(known, _)| known != index) {
                let own = name.chars().filter(char::is_ascii_alphabetic).map(|letter| letter.to_ascii_lowercase());
                let letter = own.chain((0..).map(letter)).find(is_free).unwrap_or('?');
                found.push((*index, letter));
            }
        }
    }
    let count = einsum.operands.iter().flatten().max().map_or(0, |most| usize::from(*most) + 1);
    let of =
        |index: usize| found.iter().find(|(known, _)| usize::from(*known) == index).map_or('?', |(_, letter)| *letter);
    (0..count).map(of).collect()
}

/// A product.
fn product(operands: &[Operand], names: &[Vec<String>], einsum: &Einsum, dtype: DType) -> String {
    // Two integer operands are widened implicitly; an integer operand beside a float is converted first.
    let taken = |of: DType| if dtype.is_float() && !of.is_float() { dtype } else { of.in_bytes() };
    let cast = |(name, of): &Operand| as_dtype(name, *of, taken(*of));
    let arguments = operands.iter().map(cast).join(", ");
    let subscripts = match names {
        [] => einsum.to_string(),
        names => {
            let letters = letters(einsum, names);
            einsum.spelled(|index| letters[usize::from(index)])
        }
    };
    format!("jnp.einsum(\"{subscripts}\", {arguments}, preferred_element_type={})", text::dtype(dtype))
}

/// A reduction over the dims that are missing in the result.
fn reduce(operator: Operator, operand: &str, einsum: &Einsum, dtype: DType) -> String {
    let (dims, left) = einsum.reduced();
    transposed(&combined(operator, operand, &text::tuple(dims), dtype), &left, &einsum.result)
}

/// A reduction over some dims: `jnp.sum(x, axis=(0,), dtype=jnp.float32)`.
pub(super) fn combined(operator: Operator, operand: &str, dims: &str, dtype: DType) -> String {
    if dtype != dtype.in_bytes() && !operator.is_root() {
        let wide = cast(operand, dtype.in_bytes());
        return cast(&combined(operator, &wide, dims, dtype.in_bytes()), dtype);
    }
    let dtype = text::dtype(dtype);
    match operator {
        Operator::Sum => format!("jnp.sum({operand}, axis={dims}, dtype={dtype})"),
        Operator::Mul => format!("jnp.prod({operand}, axis={dims}, dtype={dtype})"),
        Operator::Mean => format!("jnp.mean({operand}, axis={dims}, dtype={dtype})"),
        Operator::SquareAdd => format!("jnp.sum({operand} * {operand}, axis={dims}, dtype={dtype})"),
        Operator::Max => format!("jnp.max({operand}, axis={dims})"),
        Operator::Min => format!("jnp.min({operand}, axis={dims})"),
        Operator::And => format!("jnp.all({operand}, axis={dims})"),
        Operator::Or => format!("jnp.any({operand}, axis={dims})"),
        Operator::Root(_) => format!("{operand}[0]"),
    }
}

/// Start of a block's lanes in the whole array, for example `lax.axis_index("X") * 4`, and the block's rank.
pub(super) struct Lanes {
    /// The first lane; `None` if it is 0.
    pub(super) start: Option<String>,
    /// Rank of the block.
    pub(super) rank: usize,
}

/// An elementwise function of aligned operands.
fn map(function: Function, operands: &[Operand], einsum: &Einsum, dtype: DType, lanes: &Lanes) -> String {
    if dtype != dtype.in_bytes()
        && let Function::Unary(_) | Function::Binary(_) | Function::ByNumber(..) = function
    {
        return in_bytes(function, operands, einsum, dtype, lanes);
    }
    let aligned: Vec<Operand> = operands
        .iter()
        .zip(&einsum.operands)
        .map(|((name, of), indices)| (aligned(name, indices, &einsum.result), *of))
        .collect();
    // A constant of another dtype is converted to the result's dtype.
    let taken = |place: usize| aligned.get(place).map(|(name, of)| as_dtype(name, *of, dtype)).unwrap_or_default();
    let (a, b, c) = (taken(0), taken(1), taken(2));
    // The compared operands, converted to a common dtype.
    let dtypes = operands.iter().map(|(_, of)| *of);
    let compared = dtypes.reduce(|left, right| left.elementwise(right).unwrap_or(left)).unwrap_or(dtype);
    let side = |place: usize| aligned.get(place).map(|(name, of)| as_dtype(name, *of, compared)).unwrap_or_default();
    let mask = aligned.first().map(|(name, _)| name.clone()).unwrap_or_default();
    match function {
        Function::Identity => a,
        Function::Unary(unary) => functions::jax(unary, &a),
        Function::Binary(binary) => functions::jax_binary(binary, &a, &b),
        Function::ByNumber(by, Scalar(number)) => by_number(by, &a, number, dtype),
        Function::Over(n) => format!("{a} / {n}"),
        Function::Is(relation) => format!("{} {} {}", side(0), relation.sign(), side(1)),
        Function::IsNumber(relation, Scalar(number)) => {
            format!("{} {} {}", side(0), relation.sign(), constant(number, compared))
        }
        Function::Where => format!("jnp.where({mask}, {b}, {c})"),
        Function::Masked(Scalar(number)) => format!("jnp.where({mask}, {b}, {})", constant(number, dtype)),
        Function::Shift(Shift { dim, by, wraps: true }) => format!("jnp.roll({a}, {by}, axis={dim})"),
        Function::Shift(Shift { dim, by, wraps: false }) => {
            let edges = |place: usize| match place == usize::from(dim) {
                true => format!("({by}, {}, 0)", -by),
                false => "(0, 0, 0)".to_owned(),
            };
            let edges = (0..einsum.result.len()).map(edges).join(", ");
            format!("lax.pad({a}, jnp.zeros((), {}), [{edges}])", text::dtype(dtype))
        }
        Function::Softmax { dim } => format!("jax.nn.softmax({a}, axis={dim})"),
        Function::Fill { dim, valid, with } => filled(&a, dim, valid, with, dtype, lanes),
        Function::Cast(to) => match operands.first() {
            Some((name, of)) if saturates(*of, to) => {
                format!("to_integer({}, {})", aligned_first(name, einsum), text::dtype(to))
            }
            Some((name, _)) => cast(&aligned_first(name, einsum), to),
            None => a,
        },
    }
}

/// An elementwise function of 4-bit integers, computed in 8 bits.
fn in_bytes(function: Function, operands: &[Operand], einsum: &Einsum, dtype: DType, lanes: &Lanes) -> String {
    let wide: Vec<Operand> =
        operands.iter().map(|(name, of)| (as_dtype(name, *of, of.in_bytes()), of.in_bytes())).collect();
    // Sums and products wrap alike in more bits.
    let value = map(function.bounded(dtype), &wide, einsum, dtype.in_bytes(), lanes);
    cast(&format!("({value})"), dtype)
}

/// Whether a cast is one by `to_integer`.
pub(super) fn saturates(from: DType, to: DType) -> bool {
    from.is_float() && !to.is_float() && to != DType::Bool
}

fn aligned_first(name: &str, einsum: &Einsum) -> String {
    einsum.operands.first().map_or_else(|| name.to_owned(), |indices| aligned(name, indices, &einsum.result))
}

fn cast(name: &str, to: DType) -> String {
    format!("{name}.astype({})", text::dtype(to))
}

pub(super) fn as_dtype(name: &str, of: DType, to: DType) -> String {
    if of == to || of == DType::Bool { name.to_owned() } else { cast(name, to) }
}

fn constant(number: f64, dtype: DType) -> String {
    format!("{}({})", text::dtype(dtype), text::number(dtype.saturated(number), dtype))
}

fn by_number(by: ByNumber, a: &str, number: f64, dtype: DType) -> String {
    let number = match by {
        ByNumber::AtLeast | ByNumber::AtMost => dtype.saturated(number),
        ByNumber::Scale | ByNumber::Shift if number.fract() == 0.0 => dtype.wrapped(number),
        ByNumber::Scale | ByNumber::Shift => number,
    };
    let c = text::number(number, dtype);
    let value = match by {
        ByNumber::Scale => format!("{c} * {a}"),
        ByNumber::Shift => format!("{a} + {c}"),
        ByNumber::AtLeast => format!("jnp.maximum({a}, {c})"),
        ByNumber::AtMost => format!("jnp.minimum({a}, {c})"),
    };
    // Integers multiplied by a fraction.
    if dtype.is_float() || number.fract() == 0.0 { value } else { format!("({value}).astype({})", text::dtype(dtype)) }
}

/// The block with a filler in its padding lanes.
fn filled(a: &str, dim: u8, valid: u64, with: Filler, dtype: DType, lanes: &Lanes) -> String {
    let around: Vec<&str> = (0..lanes.rank).map(|place| if place == usize::from(dim) { ":" } else { "None" }).collect();
    let start = lanes.start.as_ref().map(|start| format!("{start} + ")).unwrap_or_default();
    let lane = format!("({start}jnp.arange({a}.shape[{dim}]))[{}]", around.join(", "));
    let filler = match (with, dtype) {
        (Filler::Zero, _) => text::number(0.0, dtype),
        (Filler::One, _) => text::number(1.0, dtype),
        (Filler::Least, DType::Bool) => "False".to_owned(),
        (Filler::Greatest, DType::Bool) => "True".to_owned(),
        (Filler::Least, dtype) if dtype.is_float() => text::number(dtype.ends()[0], dtype),
        (Filler::Greatest, dtype) if dtype.is_float() => text::number(dtype.ends()[1], dtype),
        (Filler::Least, dtype) => format!("jnp.iinfo({}).min", text::dtype(dtype)),
        (Filler::Greatest, dtype) => format!("jnp.iinfo({}).max", text::dtype(dtype)),
    };
    format!("jnp.where({lane} < {valid}, {a}, {filler})")
}

/// An operand with its dims in result order, and a dim of length 1 for each missing one.
fn aligned(name: &str, indices: &[Index], result: &[Index]) -> String {
    let there: Vec<Index> = result.iter().copied().filter(|index| indices.contains(index)).collect();
    let name = transposed(name, indices, &there);
    // Missing leading dims broadcast implicitly.
    let first = result.iter().position(|index| indices.contains(index)).unwrap_or(result.len());
    let places: Vec<&str> =
        result[first..].iter().map(|index| if indices.contains(index) { ":" } else { "None" }).collect();
    if places.contains(&"None") { format!("{name}[{}]", places.join(", ")) } else { name }
}

pub(super) fn transposed(name: &str, from: &[Index], to: &[Index]) -> String {
    if from == to {
        return name.to_owned();
    }
    let order = to.iter().map(|index| from.iter().position(|other| other == index).unwrap_or_default());
    format!("{name}.transpose{}", text::tuple(order))
}
