//! Presence: the devices that hold a block of a value. Elsewhere the value is absent.

use super::{CoordMap, Cut, OpId, Properties, Reach, Region, Verified};
use crate::mesh::{DeviceId, Mesh};
use petgraph::Direction;

/// The presence rule of an operation.
pub struct Presence<'a> {
    mesh: &'a Mesh,
    kind: Properties<'a>,
    operands: usize,
    /// For each region of the operation, the cuts that miss the block on some devices, with the lengths of their dims.
    cuts: Vec<Vec<(&'a CoordMap, u64)>>,
}

impl<'a> Presence<'a> {
    /// The rule of one operation.
    pub fn of(schedule: Verified<'a>, id: OpId) -> Presence<'a> {
        let schedule = schedule.schedule();
        let kind = schedule.operation(id).kind.properties();
        let (view, regions) = kind.regions;
        let cuts = regions.iter().map(|region| cuts(view, region)).collect();
        let operands = schedule.operations.neighbors_directed(id, Direction::Incoming).count();
        Presence { mesh: &schedule.mesh, kind, operands, cuts }
    }

    /// Whether a device holds a block of the result; `has` returns whether a device holds an operand, by index.
    pub fn at(&self, device: DeviceId, has: impl Fn(usize, DeviceId) -> bool) -> bool {
        let own = |place: usize| has(place, device) && self.is_within(place, device);
        match self.kind.reach {
            Reach::Given(sharding) => sharding.is_on(device, self.mesh),
            Reach::Sent(sources, _) => sources.of(self.mesh, device).is_some_and(|source| has(0, source)),
            Reach::Gathered(axes) => self.mesh.group(device, axes).all(|member| has(0, member)),
            Reach::Own if self.kind.needs_all => (0..self.operands).all(own),
            Reach::Own => (0..self.operands).any(own),
        }
    }

    /// Whether the region of an operand lies in the block on a device.
    fn is_within(&self, place: usize, device: DeviceId) -> bool {
        let index = |map: &CoordMap| map.at(self.mesh, device);
        let mut cuts = self.cuts.get(place).into_iter().flatten();
        cuts.all(|(map, length)| index(map).is_some_and(|index| index < *length))
    }
}

fn cuts<'a>(view: &[u64], region: &'a Region) -> Vec<(&'a CoordMap, u64)> {
    let cuts = view.iter().zip(region).filter_map(|(length, cut)| match cut {
        Cut::Whole | Cut::Range { .. } => None,
        Cut::At(map) => Some((map, *length)),
    });
    cuts.collect()
}

/// Whether each device holds a block, by operation and device.
pub fn presence(schedule: Verified<'_>) -> Vec<Vec<bool>> {
    let mut present: Vec<Vec<bool>> = Vec::with_capacity(schedule.operations.node_count());
    for id in schedule.ids() {
        let (operands, own) = (schedule.operands(id), Presence::of(schedule, id));
        let has = |place: usize, device: DeviceId| present[operands[place].index()][device.index()];
        present.push(schedule.mesh.devices().map(|device| own.at(device, has)).collect());
    }
    present
}
