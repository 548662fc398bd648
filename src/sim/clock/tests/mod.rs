//! Times hand-built schedules and compares them with independently derived figures.

mod arrival;
mod closed_forms;
mod degraded;
mod engines;
mod fabrics;
mod golden;
mod methods;
mod networks;
mod oracle;
mod orbit;
mod rules;

use super::{Timing, run};
use crate::dtype::DType;
use crate::layout::Sharding;
use crate::mesh::{Axis, AxisId, Mesh, Wiring};
use crate::operator::Operator;
use crate::schedule::{Array, ArrayId, CoordMap, Cut, Dense, OpId, OpKind, Operation, Route, Schedule, Sources};
use crate::span::Span;
use crate::topology::{Hardware, Topology};
use crate::units::Time;

pub(super) const X: usize = 0;

/// A mesh with the same wiring on all axes.
pub(super) fn wired(hardware: Hardware, sizes: &[u32], wiring: Option<Wiring>) -> Topology {
    let axis = |(name, size): (&str, &u32)| Axis { name: name.to_owned(), size: *size, wiring, over: None };
    let mesh = Mesh::new(["X", "Y", "Z"].into_iter().zip(sizes).map(axis).collect()).expect("a small mesh");
    Topology::new(mesh, hardware).expect("a common tick")
}

/// A schedule under construction. All elements are bytes.
pub(super) struct Builder {
    pub(super) schedule: Schedule,
}

impl Builder {
    pub(super) fn new(topology: &Topology) -> Builder {
        Builder { schedule: Schedule::new(topology.mesh.clone()) }
    }

    pub(super) fn push(&mut self, kind: OpKind, extents: &[u64], operands: &[OpId]) -> OpId {
        let operation = Operation {
            kind,
            dtype: DType::I8,
            extents: extents.to_vec(),
            step: 0,
            method: None,
            span: Span::default(),
        };
        self.schedule.push(operation, operands)
    }

    pub(super) fn input(&mut self, extents: &[u64]) -> OpId {
        let array = ArrayId(u32::try_from(self.schedule.arrays.len()).expect("few"));
        self.schedule.arrays.push(Array {
            name: "A".to_owned(),
            dtype: DType::I8,
            dims: vec![String::new(); extents.len()],
            extents: extents.to_vec(),
            valid: extents.to_vec(),
            definition: Dense::INPUT,
        });
        self.push(OpKind::Input { array, sharding: Sharding::replicated(extents.len()) }, extents, &[])
    }

    pub(super) fn bytes(&self, id: OpId) -> Vec<u64> {
        self.schedule.operation(id).extents.clone()
    }

    /// Sends the block of the device at c + `by` to the device at c, along an axis.
    pub(super) fn shift(&mut self, operand: OpId, axis: usize, by: i64, wrap: bool, route: Route) -> OpId {
        let extents = self.bytes(operand);
        let sources = Sources::Shift { axes: AxisId::new(axis).into(), by, wrap };
        self.push(OpKind::Shuffle { sources, route }, &extents, &[operand])
    }

    /// One step up: from the next lower coordinate.
    pub(super) fn up(&mut self, operand: OpId, axis: usize, wrap: bool) -> OpId {
        self.shift(operand, axis, -1, wrap, Route::Hops(1))
    }

    /// One step down: from the next higher coordinate.
    pub(super) fn down(&mut self, operand: OpId, axis: usize, wrap: bool) -> OpId {
        self.shift(operand, axis, 1, wrap, Route::Hops(-1))
    }

    /// An equal part of a block in one dim.
    pub(super) fn part(&mut self, operand: OpId, parts: u64, index: CoordMap) -> OpId {
        let bytes = self.bytes(operand)[0];
        let kind = OpKind::Slice { view: vec![parts, bytes / parts], region: vec![Cut::At(index), Cut::Whole] };
        self.push(kind, &[bytes / parts], &[operand])
    }

    pub(super) fn add(&mut self, operands: &[OpId]) -> OpId {
        let extents = self.bytes(operands[0]);
        self.push(OpKind::Add { operator: Operator::Sum }, &extents, operands)
    }

    pub(super) fn time(&self, topology: &Topology) -> Timing {
        run(&self.schedule, topology).expect("a sound schedule")
    }
}

/// Gathers `shard` bytes from each device along an axis, `up` steps one way and `down` the other.
pub(super) fn ring_gather(builder: &mut Builder, operand: OpId, axis: usize, up: u64, down: u64) {
    let mut last = operand;
    for _ in 0..up {
        last = builder.up(last, axis, true);
    }
    last = operand;
    for _ in 0..down {
        last = builder.down(last, axis, true);
    }
}

/// Gathers along a line: blocks from one end are forwarded to the other.
pub(super) fn line_gather(builder: &mut Builder, operand: OpId, axis: usize, size: u64) {
    let (mut up, mut down) = (operand, operand);
    for _ in 1..size {
        up = builder.up(up, axis, false);
        down = builder.down(down, axis, false);
    }
}

/// Time of `bytes` on one link, in one direction.
pub(super) fn at_link(topology: &Topology, bytes: u64) -> Time {
    topology.scale.at_rate(u128::from(bytes), topology.hardware.network.one_way)
}

/// A number of microseconds.
pub(super) fn us(topology: &Topology, microseconds: u64) -> Time {
    topology.scale.picoseconds(microseconds * 1_000_000)
}
