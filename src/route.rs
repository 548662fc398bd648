//! Sources and routes of messages.

use crate::mesh::{Axes, AxisId, DeviceId, Mesh};

/// The source of each device: a partial permutation, in gather form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// In each group that the axes span, rank r receives from rank r + `by`.
    Shift {
        /// The axes of the groups, major first: one axis, or adjacent parts of one.
        axes: Axes,
        /// Distance of the source.
        by: i64,
        /// Whether ranks wrap; otherwise devices near an end receive nothing.
        wrap: bool,
    },
    /// In each group that the axes span, rank r receives from rank `entries[r]`.
    Table {
        /// The axes of the groups, major first.
        axes: Vec<AxisId>,
        /// One entry per member of a group.
        entries: Vec<Option<u32>>,
    },
}

impl Sources {
    /// The device that a device receives from, possibly itself.
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

/// The route of the messages of a shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// This number of ranks along the axes of the shift, towards higher ones if positive: one link each, or several on a
    /// major part of an axis. Selects the direction around a ring, also for the antipode.
    Hops(i64),
    /// Axis by axis: outer networks first, then rings, lines, switches and full meshes as declared, of each the shortest axis
    /// first. On a ring the shorter way around, towards higher coordinates in case of a tie; on a switch one crossing.
    Shortest,
}
