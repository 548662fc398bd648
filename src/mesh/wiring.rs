//! Rings, lines and switches, and what can be counted of one of them alone.
//!
//! The times of the book (`topology/closed_form.rs`) and the bounds (`bounds/`) both count with these.

use std::fmt;

/// How the devices along an axis are wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wiring {
    /// Neighbours are linked and the last device is linked to the first.
    Ring,
    /// Neighbours are linked, the ends are not.
    Line,
    /// Every device has one port into a switch that reaches all others.
    Switch,
}

impl Wiring {
    /// The wiring of that word.
    pub fn from_word(word: &str) -> Option<Wiring> {
        [Wiring::Ring, Wiring::Line, Wiring::Switch].into_iter().find(|wiring| wiring.to_string() == word)
    }

    /// The links out of the device that has the fewest, as many as into it; on a line it is at an end.
    pub(crate) fn fewest_links(self) -> u64 {
        match self {
            Wiring::Ring => 2,
            Wiring::Line | Wiring::Switch => 1,
        }
    }

    /// The links out of the device that has the most.
    pub(crate) fn most_links(self, size: u64) -> u64 {
        match self {
            Wiring::Line if size > 2 => 2,
            Wiring::Ring | Wiring::Line | Wiring::Switch => self.fewest_links(),
        }
    }

    /// The links out of all devices together.
    pub(crate) fn all_links(self, size: u64) -> u64 {
        match self {
            Wiring::Ring => 2 * size,
            Wiring::Line => 2 * (size - 1),
            Wiring::Switch => size,
        }
    }

    /// How many links apart the farthest devices are; a switch counts as one.
    pub(crate) fn diameter(self, size: u64) -> u64 {
        match self {
            Wiring::Ring => size / 2,
            Wiring::Line => size - 1,
            Wiring::Switch => 1,
        }
    }

    /// What the fullest link carries of an AllToAll, as a fraction of what one device has.
    ///
    /// On a ring the mean distance over two links a device, on a line what crosses its middle.
    pub(crate) fn exchange_share(self, size: u64) -> (u64, u64) {
        match self {
            Wiring::Ring => (size * size - size % 2, 8 * size),
            Wiring::Line => ((size / 2) * size.div_ceil(2), size),
            Wiring::Switch => (size - 1, size),
        }
    }
}

impl fmt::Display for Wiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Wiring::Ring => "ring",
            Wiring::Line => "line",
            Wiring::Switch => "switch",
        })
    }
}
