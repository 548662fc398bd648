//! Proves that a schedule is correct for all data, by symbolic execution.
//!
//! The proof relies only on the definitions of the arrays and on the schedule being well-formed ([`Verified`]). `run`
//! tracks, for each device, *which elements of which array* each box of a block holds and *which contributions* of
//! their sums. At the end, each device must hold exactly the output elements that the output's sharding assigns to
//! it, with every contribution exactly once. The cost depends on the numbers of devices, operations and pieces, not
//! on array sizes. Along an axis where all devices perform the same operations up to their position, one device is
//! followed. The blocks of the other devices are its blocks, rotated. Layers that do the same are followed once, if the
//! schedule asserts what lies between them.
//!
//! ```text
//! padding   checks that padding reaches no result
//! terms     arrays of the dense computation; equal computations share one term
//! parts     the contributions that a value holds
//! block     pieces of a block: box, elements, contributions
//! cut       regions of blocks
//! strided   the positions of a dim that a computation takes: a range, or ranges in equal steps
//! zeros     elements that are 0 by definition
//! ways      checks that every message uses existing links
//! symmetry  axes along which one device represents all
//! claims    justifies that symmetry, operation by operation
//! turn      blocks of the devices that are not followed
//! digits    the digits of an index that rotate with an axis
//! holdings  what devices hold at each step, for display
//! run       runs the operations in order
//! compute   products and functions
//! outputs   checks the outputs
//! segments  divides a schedule at the values that it asserts; equal parts are followed once
//! ```

mod block;
mod boxes;
mod claims;
mod compute;
mod cut;
mod digits;
mod flaw;
mod holdings;
mod outputs;
mod padding;
mod parts;
mod run;
mod segments;
mod strided;
mod symmetry;
mod terms;
mod turn;
mod volume;
mod ways;
mod zeros;

pub use flaw::{Flaw, Site};
pub use holdings::{Contributions, Held, Holdings, holdings};
pub use terms::Slot;
pub use ways::ways;

use crate::mesh::AxisSet;
use crate::schedule::{Schedule, Verified, verify};

/// A successful proof, and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Number of operations followed.
    pub operations: usize,
    /// Number of devices for which the proof holds.
    pub devices: usize,
    /// Number of devices followed, the most of all segments. The others do the same, translated along the mesh.
    pub followed: usize,
    /// Axes along which one device represents all, in all segments.
    pub collapsed: AxisSet,
    /// Number of block pieces followed, summed over operations and devices of different segments.
    pub pieces: usize,
    /// Number of different segments between assertions; 0 if the schedule was followed as a whole.
    pub segments: usize,
    /// Names of the declared kernels, whose sharding rules are taken as declared.
    pub kernels: Vec<String>,
}

/// Proves that the schedule computes its outputs for any input data.
///
/// Arithmetic is taken as exact: sums may be reassociated and reordered.
///
/// # Errors
/// The first flaw, in this order: malformed schedules, operations in list order (lowest device first), each with what is
/// asserted of its value, outputs. [`Flaw::TooLarge`] means only that the schedule is too large to prove.
pub fn prove(schedule: &Schedule) -> Result<Proof, Flaw> {
    let verified = sound(schedule)?;
    segments::run(verified).map_or_else(|| run::run(verified), Ok)
}

/// As [`prove`], but follows all operations on all devices, without using symmetry.
///
/// # Errors
/// As [`prove`].
pub fn prove_uncollapsed(schedule: &Schedule) -> Result<Proof, Flaw> {
    run::run_uncollapsed(sound(schedule)?)
}

/// Estimates the operations and operands that a proof in segments would follow, times devices; `None` if there are no
/// segments.
pub fn work_in_segments(schedule: Verified<'_>) -> Option<usize> {
    segments::work(schedule)
}

/// Estimates the number of devices that a proof without segments would follow.
pub fn followed(schedule: Verified<'_>) -> usize {
    symmetry::Symmetry::new(schedule, symmetry::candidates(schedule)).orbits.representatives().len()
}

/// Checks that the schedule is well-formed and that no padding reaches a result.
fn sound(schedule: &Schedule) -> Result<Verified<'_>, Flaw> {
    let verified = verify(schedule)?;
    padding::check(verified).map_err(|(place, what)| {
        let array = schedule.arrays[place].name.clone();
        Flaw::MalformedArray { array, what }
    })?;
    Ok(verified)
}
