//! Detours: the paths of messages over weak links.

use super::Sources;
use crate::mesh::{Axes, AxisId, DeviceId, Mesh};

/// Links that are down or slow, and the paths among which a schedule splits their messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detours {
    /// The axes of a group; its devices are numbered by rank, major first.
    pub axes: Axes,
    /// The links.
    pub links: Vec<WeakLink>,
}

/// A one-way link between neighbours, and its paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeakLink {
    /// The sending device.
    pub from: u32,
    /// The receiving device.
    pub to: u32,
    /// The paths, at least one.
    pub paths: Vec<Path>,
}

/// A path from one end of a link to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The devices after the first, each next to the one before.
    pub stops: Vec<u32>,
    /// Its share of each message, relative to the other paths.
    pub weight: u64,
}

impl Detours {
    /// The detours with renumbered axes.
    #[must_use]
    pub fn renumbered(&self, axis: &dyn Fn(AxisId) -> AxisId) -> Detours {
        Detours { axes: self.axes.iter().map(axis).collect(), links: self.links.clone() }
    }

    /// The source of each device of a group.
    pub(super) fn entries(&self, mesh: &Mesh, sources: &Sources) -> Vec<Option<u32>> {
        let source = |rank: u64| {
            let device = mesh.with_rank(DeviceId(0), self.axes.iter(), rank);
            let source = sources.of(mesh, device)?;
            u32::try_from(mesh.rank(source, self.axes.iter())).ok()
        };
        (0..self.axes.group_size(mesh)).map(source).collect()
    }
}
