//! From whom devices receive, and on which way.

use crate::mesh::{Axes, AxisId, DeviceId, Mesh};

/// From whom each device receives: a partial permutation, in gather form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// In each group that the axes span, rank r receives from rank r + `by`.
    Shift {
        /// The axes that span the groups, major first: one, or neighbouring parts of one.
        axes: Axes,
        /// How far away the source is.
        by: i64,
        /// Whether ranks wrap; without, devices near an end receive nothing.
        wrap: bool,
    },
    /// In each group that the axes span, rank r receives from rank `entries[r]`.
    Table {
        /// The axes that span the groups, major first.
        axes: Vec<AxisId>,
        /// As many as a group has members.
        entries: Vec<Option<u32>>,
    },
}

impl Sources {
    /// From whom the device receives, perhaps itself.
    pub fn of(&self, mesh: &Mesh, device: DeviceId) -> Option<DeviceId> {
        match self {
            Sources::Shift { axes, by, wrap } => {
                let n = i64::try_from(axes.group_size(mesh)).ok()?;
                let source = i64::try_from(mesh.rank(device, axes.iter())).ok()?.checked_add(*by)?;
                let source = if *wrap { source.rem_euclid(n) } else { source };
                let source = u64::try_from(source).ok().filter(|_| source < n)?;
                Some(mesh.with_rank(device, axes.iter(), source))
            }
            Sources::Table { axes, entries } => {
                let rank = usize::try_from(mesh.rank(device, axes.iter().copied())).ok()?;
                let source = entries.get(rank).copied().flatten()?;
                Some(mesh.with_rank(device, axes.iter().copied(), u64::from(source)))
            }
        }
    }
}

/// The way of the messages of a shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Every message goes past this many ranks along the shift's axes, towards higher ones if positive: a link each,
    /// or several on a major part of an axis. Says which way round a ring, also for the antipode.
    Hops(i64),
    /// Axis after axis in the order of the mesh, each the shorter way round, towards higher coordinates if both are
    /// equal. On a switch: one crossing.
    Shortest,
}
