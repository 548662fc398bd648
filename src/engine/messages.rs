//! The messages between ranks.

use crate::mesh::DeviceId;
use crate::schedule::presence::presence;
use crate::schedule::{OpId, OpKind, Schedule, Verified};

/// The messages of a schedule, from the view of each rank.
#[derive(Clone, Debug)]
pub struct Messages {
    /// By operation and device: whether the device has a block.
    present: Vec<Vec<bool>>,
}

/// A device's part in a shuffle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The receiver of its block, possibly itself.
    pub to: Option<DeviceId>,
    /// The sender of the block it receives, possibly itself; `None` if that device has no block.
    pub from: Option<DeviceId>,
}

impl Messages {
    /// The messages of a schedule.
    pub fn of(schedule: Verified<'_>) -> Messages {
        Messages { present: presence(schedule) }
    }

    /// Whether a device has a block of a value.
    pub fn is_present(&self, id: OpId, device: DeviceId) -> bool {
        self.present[id.index()][device.index()]
    }

    /// A device's part in a shuffle; empty for other operations.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::{self, Options};
    use crate::schedule::verify;
    use crate::sim::values::{self, Execution, Here};

    /// Presence equals that of the simulator, on rings, lines, trees, roots and masks.
    #[test]
    fn presence_is_what_the_simulator_finds() {
        let mut absent = 0;
        for text in PROGRAMS {
            let (program, found) = compiler::check(text);
            let program = program.unwrap_or_else(|| panic!("{found:?}\n{text}"));
            let compiled = compiler::compile(&program, &Options::default()).expect("a schedule");
            let schedule = &compiled.schedule;
            let (messages, inputs) =
                (Messages::of(verify(schedule).expect("a schedule")), values::inputs(schedule, 1).expect("inputs"));
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
