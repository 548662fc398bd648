//! The collective that a schedule implements, and the order of its ranks.

use super::Kind;
use super::refused::Refused;
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisSet, DeviceId, Mesh};
use crate::operator::Operator;
use crate::schedule::{OpKind, Reach, Schedule};
use crate::topology::Work;

/// The collective, and the order of its ranks.
pub(in crate::export) struct Collective {
    /// What it does.
    pub(in crate::export) kind: Kind,
    /// Axes in the order in which they number the ranks.
    order: Axes,
    /// The dims of input and output along which the buffers are ordered by rank.
    pub(super) parted: [Option<usize>; 2],
    /// Sharding of the input.
    pub(super) from: Sharding,
    /// Sharding of the output.
    pub(super) to: Sharding,
}

impl Collective {
    /// The collective that a schedule implements.
    ///
    /// # Errors
    /// If the schedule does more than move and add the blocks of one array, or implements another collective.
    pub(in crate::export) fn of(schedule: &Schedule) -> Result<Collective, Refused> {
        if schedule.arrays.len() != 1 {
            return Err(Refused::NotOneArray(schedule.arrays.len()));
        }
        for id in schedule.ids() {
            let kind = schedule.operation(id).kind.properties();
            let moves_or_adds =
                matches!(kind.work, None | Some(Work::Slice | Work::Shuffle | Work::Add | Work::Assemble));
            let has_other_cells =
                matches!(schedule.operation(id).kind, OpKind::Reshape | OpKind::Assemble { zeros: true, .. });
            if !moves_or_adds || has_other_cells || matches!(kind.reach, Reach::Gathered(_)) {
                return Err(Refused::Operation { id, what: kind.noun });
            }
        }
        let inputs: Vec<&Sharding> = schedule
            .ids()
            .filter_map(|id| match &schedule.operation(id).kind {
                OpKind::Input { sharding, .. } => Some(sharding),
                _ => None,
            })
            .collect();
        let ([from], [output]) = (inputs.as_slice(), schedule.outputs.as_slice()) else {
            return Err(Refused::NotOneValue { inputs: inputs.len(), outputs: schedule.outputs.len() });
        };
        Collective::between(schedule, from, &output.sharding)
    }

    /// The rank of a device: ranks are numbered in shard order.
    pub(in crate::export) fn rank(&self, mesh: &Mesh, device: DeviceId) -> usize {
        usize::try_from(mesh.rank(device, self.order.iter())).unwrap_or(usize::MAX)
    }

    fn between(schedule: &Schedule, from: &Sharding, to: &Sharding) -> Result<Collective, Refused> {
        let mesh = &schedule.mesh;
        let all: AxisSet = mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1).collect();
        let long = |axes: Axes| -> Axes { axes.iter().filter(|axis| all.contains(*axis)).collect() };
        // The dim that all axes cut, if any.
        let whole = |sharding: &Sharding| {
            let dims = sharding.dims.iter().map(|axes| long(*axes));
            dims.enumerate().find(|(_, axes)| axes.set() == all && !all.is_empty())
        };
        let closed = |sharding: &Sharding| sharding.open.intersection(all).is_empty();
        let uncut = |sharding: &Sharding| sharding.dim_axes().intersection(all).is_empty();
        let is_open = |operator: Operator| from.open.intersection(all) == all && from.operator == operator;
        let (kind, order, parted) = match (whole(from), whole(to)) {
            (Some((dim, axes)), None) if closed(from) && closed(to) && uncut(to) => {
                (Kind::AllGather, axes, [None, Some(dim)])
            }
            (Some((dim, axes)), Some((target, after)))
                if closed(from) && closed(to) && axes == after && dim != target =>
            {
                (Kind::AllToAll, axes, [Some(target), Some(dim)])
            }
            (None, Some((dim, axes))) if is_open(Operator::Sum) && closed(to) => {
                (Kind::ReduceScatter, axes, [Some(dim), None])
            }
            (None, None) if is_open(Operator::Sum) && closed(to) && uncut(to) => {
                (Kind::AllReduce, all.in_order(), [None, None])
            }
            (None, None) if is_open(Operator::Root(DeviceId(0))) && closed(to) && uncut(to) => {
                (Kind::Broadcast, all.in_order(), [None, None])
            }
            _ if !closed(from) && !matches!(from.operator, Operator::Sum | Operator::Root(_)) => {
                return Err(Refused::Operator(from.operator));
            }
            _ => {
                let show = |sharding: &Sharding| {
                    let array = &schedule.arrays[0];
                    let dims = array.dims.iter().zip(&sharding.dims);
                    let dims: Vec<String> =
                        dims.map(|(name, axes)| format!("{name}{}", axes.subscript(mesh))).collect();
                    format!("[{}]{}", dims.join(", "), sharding.open_sum(mesh))
                };
                return Err(Refused::Layouts { from: show(from), to: show(to) });
            }
        };
        Ok(Collective { kind, order, parted, from: from.clone(), to: to.clone() })
    }

    /// Whether the buffers are in memory order: no dim before the cut one is longer than a chunk.
    pub(super) fn contiguous(&self, extents: &[u64]) -> bool {
        let first = |dim: &Option<usize>| dim.is_none_or(|dim| extents[..dim].iter().all(|extent| *extent == 1));
        self.parted.iter().all(first)
    }
}
