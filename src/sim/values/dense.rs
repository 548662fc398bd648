//! The same computation without any mesh.

use super::error::RunError;
use super::guard;
use super::input::{Inputs, given};
use super::map::map;
use super::product::product;
use super::reduce::reduce;
use super::tensor::Tensor;
use crate::schedule::{Array, ArrayId, Dense, Schedule};

/// The arrays of a schedule, computed whole and without padding: what the devices must arrive at. As many as [`Schedule::arrays`].
///
/// # Errors
/// Inputs that are missing or of another type, a definition without meaning, or a computation too large.
pub fn dense(schedule: &Schedule, inputs: &Inputs) -> Result<Vec<Tensor>, RunError> {
    guard::check(schedule)?;
    let mut arrays: Vec<Tensor> = Vec::with_capacity(schedule.arrays.len());
    for (id, array) in (0..).map(ArrayId).zip(&schedule.arrays) {
        let tensor = match &array.definition {
            Dense::Input => Ok(given(schedule, inputs, id)?.clone()),
            Dense::Product { operands, einsum } => operand(&arrays, operands[0])
                .and_then(|a| product(einsum, a, operand(&arrays, operands[1])?, array.dtype)),
            Dense::Reduce { operator, operand: of, einsum } => {
                operand(&arrays, *of).and_then(|of| reduce(*operator, einsum, of, array.dtype))
            }
            Dense::Map { function, operands, einsum } => {
                let operands: Result<Vec<&Tensor>, String> = operands.iter().map(|id| operand(&arrays, *id)).collect();
                operands.and_then(|operands| map(*function, einsum, &operands, array.dtype))
            }
        };
        arrays.push(
            tensor.and_then(|tensor| agrees(tensor, array)).map_err(|problem| RunError::array(&array.name, problem))?,
        );
    }
    Ok(arrays)
}

fn operand(arrays: &[Tensor], id: ArrayId) -> Result<&Tensor, String> {
    arrays.get(id.index()).ok_or_else(|| "it stands before its operands".to_owned())
}

fn agrees(tensor: Tensor, array: &Array) -> Result<Tensor, String> {
    if tensor.extents() == array.valid {
        return Ok(tensor);
    }
    Err(format!("its extents are {:?}, its definition gives {:?}", array.valid, tensor.extents()))
}
