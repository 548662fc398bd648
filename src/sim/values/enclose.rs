//! Error bounds of whole computations: of the dense one, and of a schedule on every device.
//!
//! In exact arithmetic a proven schedule and the dense computation give the same result. So corresponding elements
//! differ by at most the sum of their bounds.

use super::bound::{Bounded, added, exact, mapped, multiplied, reduced};
use super::combine::close;
use super::error::RunError;
use super::guard::{most_bytes, need};
use super::input::{Inputs, given, shard_bounds};
use super::kernel;
use super::parallel::{Here, on_devices};
use super::step::{Blocks, by_device, compute, step, work};
use super::tensor::Tensor;
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::{Filler, Function, Unary};
use crate::mesh::{DeviceId, Mesh};
use crate::operator::Operator;
use crate::schedule::{Dense, OpId, OpKind, Schedule, Verified};

/// The error bounds of the arrays of a dense computation.
///
/// - `dense`: the computed arrays, one for each array of the schedule.
pub(super) fn of_dense(schedule: &Schedule, dense: &[Tensor]) -> Vec<Tensor> {
    let mut bounds: Vec<Tensor> = Vec::with_capacity(dense.len());
    for (array, value) in schedule.arrays.iter().zip(dense) {
        let operand = |id: crate::schedule::ArrayId| Bounded { value: &dense[id.index()], bound: &bounds[id.index()] };
        let bound = match &array.definition {
            Dense::Input { .. } => exact(&value.view().extents),
            Dense::Product { operands, einsum } => multiplied(einsum, operands.map(operand), value),
            Dense::Reduce { operator, operand: of, einsum } => reduced(*operator, einsum, operand(*of), value),
            Dense::Kernel { kernel, operands } => {
                kernel::enclosed(kernel, &operands.iter().map(|id| operand(*id)).collect::<Vec<_>>())
            }
            Dense::Map { function, operands, einsum } => {
                let operands: Vec<Bounded<'_>> = operands.iter().map(|id| operand(*id)).collect();
                mapped(*function, einsum, &operands, value)
            }
        };
        bounds.push(bound);
    }
    bounds
}

/// The operands of one device, and their bounds.
type Operands = (Vec<Option<Tensor>>, Vec<Option<Tensor>>);

/// A value on all devices, and its bounds.
#[derive(Clone)]
struct Enclosed {
    values: Blocks,
    bounds: Blocks,
}

/// The bounds of each shard of each output of a run, with open sums combined, in the order of
/// [`Run::closed`](super::run::Run). `None` if they need more memory than a run may use.
///
/// # Errors
/// As for a run.
pub(super) fn of_run(schedule: Verified<'_>, inputs: &Inputs) -> Result<Option<Vec<Vec<Tensor>>>, RunError> {
    let bounding = bounding(&schedule);
    if need(&bounding).bytes > most_bytes() {
        return Ok(None);
    }
    let mut uses = schedule.uses();
    let mut enclosed: Vec<Option<Enclosed>> = vec![None; schedule.operations.node_count()];
    for id in schedule.ids() {
        let operands = schedule.operands(id).into_iter().map(|operand| {
            let (uses, enclosed) = (&mut uses[operand.index()], &mut enclosed[operand.index()]);
            *uses -= 1;
            if *uses == 0 { enclosed.take() } else { enclosed.clone() }.expect("operands come first and are kept")
        });
        let own = operation(schedule, &bounding, inputs, id, operands.collect())?;
        if uses[id.index()] > 0 {
            enclosed[id.index()] = Some(own);
        }
    }
    let outputs = schedule.outputs.iter().enumerate().map(|(place, output)| {
        let own = enclosed[output.value.index()].as_ref().expect("outputs are kept");
        closed(&schedule, place, own)
    });
    Ok(Some(outputs.collect::<Result<_, _>>()?))
}

/// The schedule that moves bounds: all values are f64, and fillers are exact.
fn bounding(schedule: &Schedule) -> Schedule {
    let mut bounding = schedule.clone();
    bounding.arrays.iter_mut().for_each(|array| array.dtype = DType::F64);
    for operation in bounding.operations.node_weights_mut() {
        operation.dtype = DType::F64;
        if let OpKind::Fill { with, .. } = &mut operation.kind {
            *with = Filler::Zero;
        }
    }
    bounding
}

fn operation(
    schedule: Verified<'_>,
    bounding: &Schedule,
    inputs: &Inputs,
    id: OpId,
    operands: Vec<Enclosed>,
) -> Result<Enclosed, RunError> {
    let (mesh, kind) = (&schedule.mesh, &schedule.operation(id).kind);
    let (values, bounds): (Vec<Blocks>, Vec<Blocks>) =
        operands.into_iter().map(|operand| (operand.values, operand.bounds)).unzip();
    let moves = kind.properties().moves;
    let before = if moves { Vec::new() } else { values.clone() };
    let values = step(schedule, inputs, Here::All, id, values)?;
    let bounds = match kind {
        OpKind::Input { array, sharding } => {
            let bounds = shard_bounds(schedule.array(*array), given(&schedule, inputs, *array)?, sharding, mesh)?;
            values.iter().zip(bounds).map(|(value, bound)| value.as_ref().map(|_| bound)).collect()
        }
        _ if moves => {
            let present = values.iter().map(Option::is_some).collect();
            compute(bounding, inputs, Here::All, id, bounds, present)?
        }
        kind => {
            let fused = schedule.operands(id).iter().map(|operand| fused(&schedule, *operand)).sum();
            let own = operands_of(kind, mesh, before).into_iter().zip(operands_of(kind, mesh, bounds));
            let own = own.zip(&values).collect();
            let bound = |_, ((operands, bounds), value): (Operands, &Option<Tensor>)| {
                let value = value.as_ref()?;
                let pairs = operands.iter().zip(&bounds);
                let pairs =
                    pairs.filter_map(|(value, bound)| Some(Bounded { value: value.as_ref()?, bound: bound.as_ref()? }));
                Some(computed(kind, &pairs.collect::<Vec<_>>(), value, fused))
            };
            on_devices(Here::All, own, work(&schedule, id), bound)
        }
    };
    Ok(Enclosed { values, bounds })
}

/// What the result of each device is computed from: its own blocks, or those of its group where a switch adds them.
fn operands_of(kind: &OpKind, mesh: &Mesh, mut operands: Vec<Blocks>) -> Vec<Vec<Option<Tensor>>> {
    let OpKind::SwitchSum { axes, .. } = kind else { return by_device(mesh, operands) };
    let blocks = operands.remove(0);
    mesh.devices()
        .map(|device| mesh.group(device, axes).map(|member| blocks[member.index()].clone()).collect())
        .collect()
}

/// The bounds of a device's result, computed from the operands that it has.
fn computed(kind: &OpKind, operands: &[Bounded<'_>], value: &Tensor, fused: f64) -> Tensor {
    match (kind, operands) {
        (OpKind::Add { operator } | OpKind::SwitchSum { operator, .. }, operands) => {
            added(*operator, operands, value, fused)
        }
        (OpKind::MatMul { einsum }, [a, b]) => multiplied(einsum, [*a, *b], value),
        (OpKind::Reduce { operator, einsum }, [of]) => reduced(*operator, einsum, *of, value),
        (OpKind::Kernel(kernel), operands) => kernel::enclosed(kernel, operands),
        (OpKind::Map { function, einsum }, operands) => mapped(*function, einsum, operands, value),
        _ => unreachable!("all else moves its elements"),
    }
}

/// Number of roundings of an addition for an operand that is a slice of a product, as the product may be accumulated
/// onto the sum.
fn fused(schedule: &Schedule, id: OpId) -> f64 {
    match &schedule.operation(id).kind {
        OpKind::Slice { .. } => schedule.operands(id).first().map_or(0.0, |operand| fused(schedule, *operand)),
        OpKind::MatMul { einsum } => {
            let extents = schedule.operands(id).into_iter().map(|operand| schedule.operation(operand).extents.clone());
            let lengths = einsum.lengths(&extents.collect::<Vec<_>>()).unwrap_or_default();
            einsum.contracted().iter().filter_map(|index| lengths.get(usize::from(*index))).map(|n| *n as f64).product()
        }
        _ => 0.0,
    }
}

/// The bounds of the shards of an output.
fn closed(schedule: &Schedule, place: usize, own: &Enclosed) -> Result<Vec<Tensor>, RunError> {
    let (mesh, output) = (&schedule.mesh, &schedule.outputs[place]);
    let open: Vec<_> = output.sharding.open.iter().collect();
    let operator = output.sharding.operator;
    let root = output.sharding.root(mesh);
    let ranks = root.map_or(0..mesh.group_size(open.iter().copied()), |root| root..root + 1);
    let array = &schedule.array(output.array).name;
    let firsts = mesh.devices().filter(|device| mesh.rank(*device, open.iter().copied()) == 0);
    let shard = |device: DeviceId| {
        let members = ranks.clone().map(|rank| mesh.with_rank(device, open.iter().copied(), rank));
        let parts = members.map(|member| {
            let part = own.values[member.index()].as_ref().zip(own.bounds[member.index()].as_ref());
            part.ok_or_else(|| RunError::MissingShard { array: array.clone(), device: member })
        });
        let parts: Vec<Bounded<'_>> =
            parts.map(|part| part.map(|(value, bound)| Bounded { value, bound })).collect::<Result<_, _>>()?;
        Ok(combined(operator, &parts))
    };
    firsts.map(shard).collect()
}

/// The bounds of the result of [`close`].
fn combined(operator: Operator, parts: &[Bounded<'_>]) -> Tensor {
    let values = |parts: &[Bounded<'_>]| parts.iter().map(|part| part.value.clone()).collect::<Vec<Tensor>>();
    let one = parts[0];
    let indices: Vec<u8> = (0..).take(one.value.view().extents.len()).collect();
    let same = Einsum { operands: vec![indices.clone()], result: indices };
    match operator {
        Operator::Root(_) => one.bound.clone(),
        Operator::SquareAdd => {
            let square = |part: &Bounded<'_>| {
                let square = close(Operator::SquareAdd, vec![part.value.clone()]);
                let bound = mapped(Function::Unary(Unary::Square), &same, &[*part], &square);
                [square, bound]
            };
            let squares: Vec<[Tensor; 2]> = parts.iter().map(square).collect();
            combined(Operator::Sum, &squares.iter().map(|[value, bound]| Bounded { value, bound }).collect::<Vec<_>>())
        }
        Operator::Mean => {
            let sum = close(Operator::Sum, values(parts));
            let bound = added(Operator::Sum, parts, &sum, 0.0);
            let mean = close(Operator::Mean, values(parts));
            let function = Function::Over(parts.len() as u64);
            mapped(function, &same, &[Bounded { value: &sum, bound: &bound }], &mean)
        }
        Operator::Sum | Operator::Max | Operator::Min | Operator::Mul | Operator::And | Operator::Or => {
            added(operator, parts, &close(operator, values(parts)), 0.0)
        }
    }
}
