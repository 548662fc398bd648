//! Pieces over capacity: an exact fraction, turned into time at the end.

use crate::units::{Rate, Time, TimeScale};
use std::cmp::Ordering;

/// So many pieces have to cross links of so much capacity.
///
/// Both are small whole numbers, of the pieces and of the rates of one collective ([`Units`]); products of two of
/// them fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// How many pieces.
    pub pieces: u128,
    /// Capacity of the links that could carry them, in units of rate.
    pub capacity: u128,
}

impl Load {
    /// Nothing to carry.
    pub(super) const NONE: Load = Load { pieces: 0, capacity: 1 };

    /// Pieces over capacity; nothing needs no links.
    pub(super) fn new(pieces: u128, capacity: u128) -> Load {
        if pieces == 0 { Load::NONE } else { Load { pieces, capacity } }
    }

    /// The time, rounded down to a tick: a bound must not be above the truth.
    pub(super) fn time(self, units: Units, scale: TimeScale) -> Time {
        let second = scale.at_rate(1, Rate::new(1).expect("one")).ticks();
        // A product beyond 128 bits saturates below the line only if the bytes do not: which keeps the bound true.
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
    /// As fractions; links of no capacity are above all.
    fn cmp(&self, other: &Load) -> Ordering {
        self.pieces.saturating_mul(other.capacity).cmp(&other.pieces.saturating_mul(self.capacity))
    }
}

/// What the numbers of a [`Load`] count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Units {
    /// A piece is `bytes / divisor` bytes.
    pub bytes: u128,
    /// See `bytes`.
    pub divisor: u128,
    /// Bytes a second of one unit of capacity.
    pub rate: u128,
}
