//! Proves a schedule right for all data, by running it on symbols.
//!
//! Nothing in the schedule is believed but the definitions of its arrays, and that it has the form of one
//! ([`Verified`]). `run` follows, for each device, *which elements of which array* each box of a block holds and
//! *which contributions* of their sums; at the end each output must be, on each device, the elements that its
//! sharding gives to the device, with every contribution once. The cost depends on the numbers of devices,
//! operations and pieces, never on the sizes of arrays. Along an axis where every operation does the same on all
//! devices but for their place, one of them is followed, and the blocks of the others are its own, turned.
//!
//! ```text
//! padding that padding reaches no result
//! terms   arrays of the dense computation, equal computations as one
//! parts   the contributions that a value holds
//! block   pieces of a block: box, elements, contributions      cut   regions of blocks
//! strided the places of a dim that a computation takes: a range, or ranges in equal steps
//! ways    every message on links that are there
//! symmetry  along which axes one device stands for all      claims  why, operation by operation
//! holdings  what devices hold on the way, for those who want to see it
//! turn    the blocks of the others      digits  what turns in a dim
//! run     one operation after another      compute   products and functions      outputs   the end
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
mod strided;
mod symmetry;
mod terms;
mod turn;
mod volume;
mod ways;

pub use flaw::{Flaw, Site};
pub use holdings::{Contributions, Held, Holdings, holdings};
pub use terms::Slot;
pub use ways::ways;

use crate::mesh::AxisSet;
use crate::schedule::{Schedule, Verified, verify};

/// That a schedule computes what it declares, and how large the proof was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Operations that were followed.
    pub operations: usize,
    /// The devices for which it holds.
    pub devices: usize,
    /// Devices on which they were followed: those of the others do the same, translated along the mesh.
    pub followed: usize,
    /// The axes along which one device stands for all.
    pub collapsed: AxisSet,
    /// Pieces of blocks that were followed, over all operations and devices.
    pub pieces: usize,
}

/// Proves that the schedule computes its outputs, whatever its inputs hold.
///
/// Arithmetic is taken as exact: a sum may be taken apart and put together in any order.
///
/// # Errors
/// The first flaw in list order: what is malformed comes first, then what an operation does wrong on the first
/// device, then what the outputs lack. [`Flaw::TooLarge`] says nothing of the schedule but its size.
pub fn prove(schedule: &Schedule) -> Result<Proof, Flaw> {
    run::run(sound(schedule)?)
}

/// The same, all operations followed on all devices, whatever looks alike.
///
/// # Errors
/// As [`prove`].
pub fn prove_uncollapsed(schedule: &Schedule) -> Result<Proof, Flaw> {
    run::run_uncollapsed(sound(schedule)?)
}

/// On how many devices a schedule would be followed, as far as can be told before.
pub fn followed(schedule: Verified<'_>) -> usize {
    symmetry::Symmetry::new(schedule, symmetry::candidates(schedule)).orbits.representatives().len()
}

/// The form of a schedule is right, and no padding reaches a result.
fn sound(schedule: &Schedule) -> Result<Verified<'_>, Flaw> {
    let verified = verify(schedule)?;
    padding::check(verified).map_err(|(place, what)| {
        let array = schedule.arrays[place].name.clone();
        Flaw::MalformedArray { array, what }
    })?;
    Ok(verified)
}
