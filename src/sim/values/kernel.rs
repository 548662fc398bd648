//! Numbers of declared kernels, by their reference formulas.

use super::bound::{Bounded, mapped, multiplied, reduced};
use super::error::RunError;
use super::map::map;
use super::product::product;
use super::reduce::reduce;
use super::tensor::Tensor;
use crate::kernel::{FormulaStep, Kernel, Local};

/// The result of a kernel on these blocks.
///
/// # Errors
/// If it has no formula.
pub(super) fn evaluate(kernel: &Kernel, operands: impl IntoIterator<Item = Tensor>) -> Result<Tensor, RunError> {
    let formula = kernel.formula.as_ref().ok_or_else(|| RunError::NoNumbers { kernel: kernel.name.clone() })?;
    Ok(formula.evaluate(operands.into_iter().collect(), step))
}

/// The error bounds of the result of a kernel.
///
/// # Panics
/// If it has no formula.
pub(super) fn enclosed(kernel: &Kernel, operands: &[Bounded<'_>]) -> Tensor {
    let formula = kernel.formula.as_ref().expect("a schedule with unknown numbers is not run");
    let pairs = operands.iter().map(|operand| (operand.value.clone(), operand.bound.clone())).collect();
    let (_, bound) = formula.evaluate(pairs, |own, pairs| {
        let value = step(own, &pairs.iter().map(|(value, _)| value).collect::<Vec<_>>());
        let bounded: Vec<Bounded<'_>> = pairs.iter().map(|(value, bound)| Bounded { value, bound }).collect();
        let bound = match (&own.op, bounded.as_slice()) {
            (Local::Product(einsum), [a, b]) => multiplied(einsum, [*a, *b], &value),
            (Local::Reduce(operator, einsum), [of]) => reduced(*operator, einsum, *of, &value),
            (Local::Map(function, einsum), operands) => mapped(*function, einsum, operands, &value),
            _ => unreachable!("a verified formula has the operands that it needs"),
        };
        (value, bound)
    });
    bound
}

fn step(step: &FormulaStep, operands: &[&Tensor]) -> Tensor {
    match (&step.op, operands) {
        (Local::Product(einsum), [a, b]) => product(einsum, a, b, step.dtype),
        (Local::Reduce(operator, einsum), [of]) => reduce(*operator, einsum, of, step.dtype),
        (Local::Map(function, einsum), operands) => map(*function, einsum, operands, step.dtype),
        _ => unreachable!("a verified formula has the operands that it needs"),
    }
}
