//! Checks that padding reaches no result. Looks only at the arrays.
//!
//! The rest of the proof treats padding like other elements: inputs are padded with 0, and the padding of other arrays
//! follows from their definitions. An output is correct if none of its elements depends on the padding of an array. A
//! sum over a dim depends on padding unless all factors are 0 there. A softmax or maximum depends on it unless the
//! padding is the lowest number, a minimum unless it is the greatest. All other functions work lane by lane.
//!
//! A filled dim says nothing about lanes that are also padding of another dim, if that other padding is unknown.

use crate::einsum::{Einsum, Index};
use crate::function::{Filler, Function};
use crate::schedule::{Array, Dense, Verified};

/// What is known of the padding in one dim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lanes {
    /// The dim has no padding.
    None,
    /// The padding has this value.
    Filled(Filler),
    /// The padding may have any value.
    Any,
}

const ZERO: Lanes = Lanes::Filled(Filler::Zero);

/// Checks all arrays. Dims that are combined, and results, must be padded equally.
///
/// # Errors
/// The position of the first wrong array, and a description of the error.
pub(super) fn check(schedule: Verified<'_>) -> Result<(), (usize, String)> {
    let mut known: Vec<Vec<Lanes>> = Vec::with_capacity(schedule.arrays.len());
    for (place, array) in schedule.arrays.iter().enumerate() {
        let lanes = lanes(array, &known).map_err(|what| (place, what))?;
        let padded = array.valid.iter().zip(&array.extents).map(|(valid, extent)| valid < extent);
        known.push(
            lanes.into_iter().zip(padded).map(|(lanes, padded)| if padded { lanes } else { Lanes::None }).collect(),
        );
    }
    Ok(())
}

fn lanes(array: &Array, known: &[Vec<Lanes>]) -> Result<Vec<Lanes>, String> {
    let operands = array.definition.operands();
    let own: Vec<&[Lanes]> = operands.iter().map(|id| known[id.index()].as_slice()).collect();
    match &array.definition {
        Dense::Input { .. } => Ok(vec![ZERO; array.extents.len()]),
        Dense::Product { einsum, .. } => {
            for index in einsum.contracted() {
                if of(einsum, &own, index).any(|lanes| !matches!(lanes, Lanes::None | ZERO)) {
                    return Err("a sum includes padding that is not 0".to_owned());
                }
            }
            // The other factor may be infinite, and 0 times infinity is not 0.
            let product =
                |index: &Index| if of(einsum, &own, *index).all(|lanes| lanes == ZERO) { ZERO } else { Lanes::Any };
            Ok(einsum.result.iter().map(product).collect())
        }
        Dense::Reduce { operator, einsum, .. } => {
            let wanted = Filler::neutral(*operator);
            for index in einsum.contracted() {
                if of(einsum, &own, index).any(|lanes| !matches!(lanes, Lanes::None) && lanes != Lanes::Filled(wanted))
                {
                    return Err(format!("the {operator} includes padding that is not {}", wanted.word()));
                }
            }
            // Every reduction of zeros yields 0.
            let reduced =
                |index: &Index| if of(einsum, &own, *index).all(|lanes| lanes == ZERO) { ZERO } else { Lanes::Any };
            Ok(einsum.result.iter().map(reduced).collect())
        }
        Dense::Kernel { kernel, .. } => {
            let einsum = &kernel.einsum;
            let mut indices = (0..).zip(&kernel.sharded);
            let reads = |(index, sharded): (Index, &bool)| {
                let is_kept = *sharded && einsum.result.contains(&index);
                !is_kept && of(einsum, &own, index).any(|lanes| lanes != Lanes::None)
            };
            match indices.any(reads) {
                true => Err(format!("the kernel {} reads padding", kernel.name)),
                false => Ok(vec![Lanes::Any; array.extents.len()]),
            }
        }
        Dense::Map { function, einsum, .. } => {
            let all = |index: &Index, wanted: Lanes| {
                let has = einsum.operands.iter().all(|indices| indices.contains(index));
                has && of(einsum, &own, *index).all(|lanes| lanes == wanted)
            };
            mapped(*function, array, einsum, all)
        }
    }
}

/// The padding of an elementwise function's result. `all` tests whether all operands have the dim padded with this
/// filler.
fn mapped(
    function: Function,
    array: &Array,
    einsum: &Einsum,
    all: impl Fn(&Index, Lanes) -> bool,
) -> Result<Vec<Lanes>, String> {
    let least = Lanes::Filled(Filler::Least);
    let each = |lanes: &dyn Fn(usize, &Index) -> Lanes| {
        einsum.result.iter().enumerate().map(|(dim, index)| lanes(dim, index)).collect::<Vec<Lanes>>()
    };
    let zero_stays = |index: &Index| if all(index, ZERO) { ZERO } else { Lanes::Any };
    let is_padded = |dim: usize| array.valid[dim] < array.extents[dim];
    Ok(match function {
        Function::Identity => each(&|_, index| if all(index, least) { least } else { zero_stays(index) }),
        Function::Softmax { dim } => {
            let along = usize::from(dim);
            if is_padded(along) && !all(&einsum.result[along], least) {
                return Err("a softmax includes padding that is not the least number".to_owned());
            }
            each(&|dim, _| if dim == along { ZERO } else { Lanes::Any })
        }
        Function::Fill { dim, valid, with } => {
            let along = usize::from(dim);
            if array.valid[along] != valid {
                return Err(format!("a filler starts at {valid}, the padding at {}", array.valid[along]));
            }
            // Where the padding of two dims overlaps, the filler applies to both.
            let own = Lanes::Filled(with);
            each(&|dim, index| if dim == along || all(index, own) { own } else { Lanes::Any })
        }
        Function::Shift(shift) => {
            let along = shift.dim();
            if is_padded(along) && shift.wraps {
                return Err("a roll moves padding into the array".to_owned());
            }
            if is_padded(along) && shift.by < 0 && !all(&einsum.result[along], ZERO) {
                return Err("a shift moves padding that is not 0 into the array".to_owned());
            }
            // Upwards the last elements move into the padding.
            each(&|dim, index| if dim == along && shift.by > 0 { Lanes::Any } else { zero_stays(index) })
        }
        _ if function.facts().keeps_zero => each(&|_, index| zero_stays(index)),
        _ => each(&|_, _| Lanes::Any),
    })
}

/// What is known of the padding in each operand that uses the index.
fn of<'a>(einsum: &'a Einsum, own: &'a [&[Lanes]], index: Index) -> impl Iterator<Item = Lanes> + 'a {
    einsum.operands.iter().zip(own).filter_map(move |(indices, lanes)| {
        let dim = indices.iter().position(|known| *known == index)?;
        lanes.get(dim).copied()
    })
}
