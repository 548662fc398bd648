//! The same computation without a mesh.

use super::error::RunError;
use super::guard;
use super::input::{Inputs, whole};
use super::kernel;
use super::map::map;
use super::product::product;
use super::reduce::reduce;
use super::tensor::Tensor;
use crate::schedule::{ArrayId, Dense, Schedule};

/// The arrays of a schedule, computed whole and without padding: the reference for the devices' results. Returns one
/// array for each of [`Schedule::arrays`].
///
/// # Errors
/// If inputs are missing or have another type, the schedule is malformed, or the computation is too large.
pub fn dense(schedule: &Schedule, inputs: &Inputs) -> Result<Vec<Tensor>, RunError> {
    let schedule = guard::check(schedule)?;
    let mut arrays: Vec<Tensor> = Vec::with_capacity(schedule.arrays.len());
    for (id, array) in (0..).map(ArrayId).zip(&schedule.arrays) {
        let operand = |id: &ArrayId| &arrays[id.index()];
        arrays.push(match &array.definition {
            Dense::Input { .. } => whole(&schedule, inputs, id)?,
            Dense::Product { operands: [a, b], einsum } => product(einsum, operand(a), operand(b), array.dtype),
            Dense::Reduce { operator, operand: of, einsum } => reduce(*operator, einsum, operand(of), array.dtype),
            Dense::Kernel { kernel, operands } => {
                kernel::evaluate(kernel, operands.iter().map(|id| operand(id).clone()))?
            }
            Dense::Map { function, operands, einsum } => {
                map(*function, einsum, &operands.iter().map(operand).collect::<Vec<_>>(), array.dtype)
            }
        });
    }
    Ok(arrays)
}
