//! Which ranks send what to whom.

use crate::mesh::{DeviceId, Mesh};
use crate::schedule::{Cut, OpId, OpKind, Region, Schedule};

/// The messages of a schedule, as each rank needs to know them.
#[derive(Clone, Debug)]
pub struct Messages {
    /// By operation and device: whether there is a block.
    present: Vec<Vec<bool>>,
}

/// What one device does in a shuffle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Who gets its block, perhaps itself.
    pub to: Option<DeviceId>,
    /// Whose block it gets, perhaps its own; none if that one has nothing.
    pub from: Option<DeviceId>,
}

impl Messages {
    /// Of a schedule that is right: its operands come first.
    pub fn of(schedule: &Schedule) -> Messages {
        let mut present: Vec<Vec<bool>> = Vec::with_capacity(schedule.operations.node_count());
        for id in schedule.ids() {
            let own = schedule.mesh.devices().map(|device| is_present(schedule, &present, id, device)).collect();
            present.push(own);
        }
        Messages { present }
    }

    /// Whether a device has a block of a value.
    pub fn is_present(&self, id: OpId, device: DeviceId) -> bool {
        self.present[id.index()][device.index()]
    }

    /// What a device does in a shuffle; nothing in any other operation.
    pub fn part(&self, schedule: &Schedule, id: OpId, own: DeviceId) -> Part {
        let (OpKind::Shuffle { sources, .. }, &[operand]) = (&schedule.operation(id).kind, &schedule.operands(id)[..])
        else {
            return Part::default();
        };
        let mesh = &schedule.mesh;
        let gets = |device: &DeviceId| sources.of(mesh, *device) == Some(own);
        Part {
            to: mesh.devices().find(gets).filter(|_| self.is_present(operand, own)),
            from: sources.of(mesh, own).filter(|source| self.is_present(operand, *source)),
        }
    }
}

fn is_present(schedule: &Schedule, present: &[Vec<bool>], id: OpId, device: DeviceId) -> bool {
    let mesh = &schedule.mesh;
    let operands = schedule.operands(id);
    let has = |operand: &OpId, device: DeviceId| present[operand.index()][device.index()];
    let all = || operands.iter().all(|operand| has(operand, device));
    match &schedule.operation(id).kind {
        OpKind::Input { sharding, .. } => sharding.is_on(device, mesh),
        OpKind::Slice { view, region } => all() && is_within(mesh, view, region, device),
        OpKind::Shuffle { sources, .. } => sources.of(mesh, device).is_some_and(|source| has(&operands[0], source)),
        OpKind::Add { .. } => operands.iter().any(|operand| has(operand, device)),
        OpKind::Assemble { view, places } => {
            let mut pieces = operands.iter().zip(places);
            pieces.any(|(operand, place)| has(operand, device) && is_within(mesh, view, place, device))
        }
        OpKind::AllGather { axes, .. } => {
            members(mesh, axes, device).into_iter().any(|member| has(&operands[0], member))
        }
        OpKind::MatMul { .. }
        | OpKind::Reduce { .. }
        | OpKind::Map { .. }
        | OpKind::Fill { .. }
        | OpKind::Mask { .. } => all(),
    }
}

/// The members of the group of a device, by rank.
pub fn members(mesh: &Mesh, axes: &[crate::mesh::AxisId], device: DeviceId) -> Vec<DeviceId> {
    let ranks = 0..mesh.group_size(axes.iter().copied());
    ranks.map(|rank| mesh.with_rank(device, axes.iter().copied(), rank)).collect()
}

fn is_within(mesh: &Mesh, view: &[u64], region: &Region, device: DeviceId) -> bool {
    view.iter().zip(region).all(|(length, cut)| match cut {
        Cut::Whole | Cut::Range { .. } => true,
        Cut::At(map) => map.at(mesh, device).is_some_and(|index| index < *length),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::{self, Options};
    use crate::sim::values::{self, Execution, Here};

    /// The blocks that the simulator has are those that are told, on rings, lines, trees, roots and masks.
    #[test]
    fn presence_is_what_the_simulator_finds() {
        let mut absent = 0;
        for text in PROGRAMS {
            let (program, found) = compiler::check(text);
            let program = program.unwrap_or_else(|| panic!("{found:?}\n{text}"));
            let compiled = compiler::compile(&program, &Options::default()).expect("a schedule");
            let schedule = &compiled.schedule;
            let (messages, inputs) = (Messages::of(schedule), values::inputs(schedule, 1).expect("inputs"));
            let mut execution = Execution::new(schedule, &inputs, Here::All).expect("sound");
            for id in schedule.ids() {
                execution.compute(id).expect("an operation");
                if let Some(present) = execution.present(id) {
                    assert_eq!(messages.present[id.index()], present, "%{} of\n{schedule}", id.index());
                    absent += present.iter().filter(|present| !**present).count();
                }
                for device in schedule.mesh.devices() {
                    let part = messages.part(schedule, id, device);
                    let back = part.to.map(|to| messages.part(schedule, id, to).from);
                    assert!(back.is_none_or(|from| from == Some(device)), "who sends is received from");
                }
            }
        }
        assert!(absent > 50, "{absent} absent blocks are no test");
    }

    const PROGRAMS: [&str; 5] = [
        "mesh {X: 5 line} on tpu_v5e\ndims {I: 10}\nA: i32[I_X]\nB[I] = A using line\noutput B\n",
        "mesh {X: 4 ring, Y: 2} on tpu_v5e\ndims {I: 8}\nA: i32[I]{U_XY}\nB[I_X] = A\noutput B\n",
        "mesh {X: 5 line} on tpu_v5e\ndims {I: 10}\nA: i32[I]{U_X}\nB[I] = A using chain\noutput B\n",
        "mesh {X: 8 line} on tpu_v5e\ndims {I: 64}\nA: i32[I]{ROOT_X}\nBroadcast_X(A[I]{ROOT_X}) -> A[I]\noutput A\n",
        "mesh {X: 4 ring} on tpu_v5e\ndims {I: 8, J: 8}\nA: i32[I_X, J]\nB[I, J_X] = A\noutput B\n",
    ];
}
