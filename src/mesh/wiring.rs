//! Rings, lines, switches and full meshes, and their link counts.
//!
//! Used by the book's times (`topology/closed_form.rs`) and by the bounds (`bounds/`).

use std::fmt;

/// The wiring of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wiring {
    /// Neighbours are linked, including the last and the first device.
    Ring,
    /// Neighbours are linked, but not the ends.
    Line,
    /// Every device has one port into a switch that reaches all others.
    Switch,
    /// Every two devices have a link of their own.
    Full,
    /// The links that a profile lists.
    Fabric,
}

impl Wiring {
    /// The wirings that a program can give to an axis.
    pub const ALL: [Wiring; 4] = [Wiring::Ring, Wiring::Line, Wiring::Switch, Wiring::Full];

    /// Parses a wiring.
    pub fn from_word(word: &str) -> Option<Wiring> {
        Wiring::ALL.into_iter().find(|wiring| wiring.to_string() == word)
    }

    /// Noun for prose: `a ring of 8`, `a full mesh of 8`.
    pub fn noun(self) -> &'static str {
        match self {
            Wiring::Ring => "ring",
            Wiring::Line => "line",
            Wiring::Switch => "switch",
            Wiring::Full => "full mesh",
            Wiring::Fabric => "fabric",
        }
    }

    /// Whether every two devices have one route, whatever their distance along the axis.
    pub(crate) fn is_one_hop(self) -> bool {
        match self {
            Wiring::Switch | Wiring::Full | Wiring::Fabric => true,
            Wiring::Ring | Wiring::Line => false,
        }
    }

    /// Rows of links: the links out of or into a device, including those that the ends of a line lack. Those of a fabric are
    /// counted once for all axes.
    pub(crate) fn rows(self, size: u32) -> u32 {
        match self {
            Wiring::Ring | Wiring::Line | Wiring::Switch => 2,
            Wiring::Full => size - 1,
            Wiring::Fabric => 0,
        }
    }

    /// Fewest links out of a device, which equals the links into it; on a line at an end.
    pub(crate) fn fewest_links(self, size: u64) -> u64 {
        match self {
            Wiring::Ring => 2,
            Wiring::Line | Wiring::Switch | Wiring::Fabric => 1,
            Wiring::Full => size - 1,
        }
    }

    /// Most links out of a device.
    pub(crate) fn most_links(self, size: u64) -> u64 {
        match self {
            Wiring::Line if size > 2 => 2,
            Wiring::Ring | Wiring::Line | Wiring::Switch | Wiring::Full | Wiring::Fabric => self.fewest_links(size),
        }
    }

    /// Links out of all devices together.
    pub(crate) fn all_links(self, size: u64) -> u64 {
        match self {
            Wiring::Ring => 2 * size,
            Wiring::Line => 2 * (size - 1),
            Wiring::Switch | Wiring::Fabric => size,
            Wiring::Full => size * (size - 1),
        }
    }

    /// Diameter in links; a switch counts as one.
    pub(crate) fn diameter(self, size: u64) -> u64 {
        match self {
            Wiring::Ring => size / 2,
            Wiring::Line => size - 1,
            Wiring::Switch | Wiring::Full | Wiring::Fabric => 1,
        }
    }

    /// Sum of the distances from a device to all others in links, as a fraction; on a line the mean over all devices.
    pub(crate) fn distances(self, size: u64) -> (u64, u64) {
        match self {
            Wiring::Ring => (size * size / 4, 1),
            Wiring::Line => (size * size - 1, 3),
            Wiring::Switch | Wiring::Full | Wiring::Fabric => (size - 1, 1),
        }
    }

    /// Load of the busiest link in an AllToAll, as a fraction of a device's block.
    ///
    /// On a ring the mean distance over two links per device, on a line the traffic across its middle, in a full mesh the
    /// part for one device.
    pub(crate) fn exchange_share(self, size: u64) -> (u64, u64) {
        match self {
            Wiring::Ring => (self.distances(size).0, 2 * size),
            Wiring::Line => ((size / 2) * size.div_ceil(2), size),
            Wiring::Switch | Wiring::Fabric => (size - 1, size),
            Wiring::Full => (1, size),
        }
    }
}

impl fmt::Display for Wiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Wiring::Ring => "ring",
            Wiring::Line => "line",
            Wiring::Switch => "switch",
            Wiring::Full => "full",
            Wiring::Fabric => "fabric",
        })
    }
}
