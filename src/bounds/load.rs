//! Pieces over capacity: an exact fraction, converted to time at the end.

use crate::units::{Rate, Time, TimeScale};
use std::cmp::Ordering;

/// Pieces that must cross links of a capacity.
///
/// Both are small integers in the units of one collective ([`Units`]), so products of two of them fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Number of pieces.
    pub pieces: u128,
    /// Capacity of the links, in units of rate.
    pub capacity: u128,
}

impl Load {
    /// The empty load.
    pub(super) const NONE: Load = Load { pieces: 0, capacity: 1 };

    /// Pieces over capacity; zero pieces need no links.
    pub(super) fn new(pieces: u128, capacity: u128) -> Load {
        if pieces == 0 { Load::NONE } else { Load { pieces, capacity } }
    }

    /// The time, rounded down to a tick to stay a lower bound.
    pub(super) fn time(self, units: Units, scale: TimeScale) -> Time {
        let second = scale.at_rate(1, Rate::new(1).expect("one")).ticks();
        // If the denominator saturates at 128 bits, the quotient is too small, so the result is still a lower bound.
        let below = units.divisor.saturating_mul(self.capacity).saturating_mul(units.rate);
        let above = self.pieces.saturating_mul(units.bytes).saturating_mul(second);
        above.checked_div(below).map_or(Time::MAX, Time::from_ticks)
    }
}

impl PartialEq for Load {
    fn eq(&self, other: &Load) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Load {}

impl PartialOrd for Load {
    fn partial_cmp(&self, other: &Load) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Load {
    /// Compares as fractions; zero capacity is the largest.
    fn cmp(&self, other: &Load) -> Ordering {
        self.pieces.saturating_mul(other.capacity).cmp(&other.pieces.saturating_mul(self.capacity))
    }
}

/// A set of nodes and the traffic that must enter it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Membership of each node, switches included.
    pub inside: Vec<bool>,
    /// Pieces that must enter, over the capacity of the links into the set.
    pub load: Load,
}

/// The units of a [`Load`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Units {
    /// Numerator of the piece size: a piece has `bytes / divisor` bytes.
    pub bytes: u128,
    /// Denominator of the piece size.
    pub divisor: u128,
    /// Bytes per second of one capacity unit.
    pub rate: u128,
}
