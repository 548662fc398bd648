//! Runs one operation on every device.

use super::combine::{add, assemble, concatenate};
use super::error::RunError;
use super::input::{Inputs, given, shards};
use super::kernel;
use super::map::map;
use super::pad::{filled, zeroed_but, zeros};
use super::parallel::{Here, on_devices};
use super::product::product;
use super::reduce::reduce;
use super::tensor::Tensor;
use super::view::{region_at, sizes};
use crate::mesh::{DeviceId, Mesh};
use crate::schedule::presence::Presence;
use crate::schedule::{OpId, OpKind, Operation, Region, Schedule, Verified};

/// The block of each device; `None` if absent.
pub type Blocks = Vec<Option<Tensor>>;

/// The blocks after one operation. Operands are consumed, so that unshared buffers can be overwritten.
pub(super) fn step(
    schedule: Verified<'_>,
    inputs: &Inputs,
    here: Here,
    id: OpId,
    operands: Vec<Blocks>,
) -> Result<Blocks, RunError> {
    let presence = Presence::of(schedule, id);
    let has = |place: usize, device: DeviceId| operands[place][device.index()].is_some();
    let present = schedule.mesh.devices().map(|device| presence.at(device, has)).collect();
    compute(&schedule, inputs, here, id, operands, present)
}

/// The blocks on the devices where the result is `present`.
pub(super) fn compute(
    schedule: &Schedule,
    inputs: &Inputs,
    here: Here,
    id: OpId,
    mut operands: Vec<Blocks>,
    present: Vec<bool>,
) -> Result<Blocks, RunError> {
    let (mesh, operation) = (&schedule.mesh, schedule.operation(id));
    let size = work(schedule, id);
    let extents = sizes(&operation.extents);
    let here_present = |device: DeviceId| present[device.index()] && here.has(device);
    let each = |operands: Vec<Blocks>, compute: &(dyn Fn(DeviceId, Vec<Tensor>) -> Result<Tensor, RunError> + Sync)| {
        let blocks = on_devices(here, by_device(mesh, operands), size, |device, blocks| {
            here_present(device).then(|| compute(device, blocks.into_iter().flatten().collect())).transpose()
        });
        blocks.into_iter().collect::<Result<Blocks, RunError>>()
    };
    let blocks = match &operation.kind {
        OpKind::Input { array, sharding } => {
            let shards = shards(schedule.array(*array), given(schedule, inputs, *array)?, sharding, mesh)?;
            mesh.devices().zip(shards).map(|(device, shard)| here_present(device).then_some(shard)).collect()
        }
        OpKind::Slice { view, region } => {
            let slice = |(device, block): (DeviceId, Option<Tensor>)| {
                let (block, ranges) = (block?, region_at(region, view, mesh, device)?);
                let refined = block.view().reshaped(&sizes(view)).expect("its view refines the block");
                Some(block.with_view(refined.cut(&ranges)).reshaped(&extents))
            };
            mesh.devices().zip(operands.remove(0)).map(slice).collect()
        }
        OpKind::Shuffle { sources, route: _ } => {
            let receive = |device| operands[0][sources.of(mesh, device)?.index()].clone();
            mesh.devices().map(receive).collect()
        }
        OpKind::Add { operator } => each(operands, &|_, blocks| Ok(add(*operator, blocks).expect("one is there")))?,
        OpKind::Assemble { .. } => {
            let put = |device, blocks| put_together(schedule, id, device, blocks);
            let assembled = on_devices(here, by_device(mesh, operands), size, put);
            assembled.into_iter().collect::<Result<Blocks, RunError>>()?
        }
        OpKind::AllGather { axes, dim } => {
            // Members of a group share the gathered block.
            let mut gathered: Blocks = vec![None; present.len()];
            for first in mesh.devices().filter(|device| mesh.rank(*device, axes.iter().copied()) == 0) {
                let blocks = mesh.group(first, axes).map(|member| operands[0][member.index()].clone());
                if let Some(blocks) = blocks.collect::<Option<Vec<Tensor>>>() {
                    let whole = concatenate(&blocks, *dim);
                    mesh.group(first, axes).for_each(|member| gathered[member.index()] = Some(whole.clone()));
                }
            }
            gathered
        }
        OpKind::SwitchSum { axes, operator } => {
            let mut sums: Blocks = vec![None; present.len()];
            for first in mesh.devices().filter(|device| mesh.rank(*device, axes.iter().copied()) == 0) {
                let blocks = mesh.group(first, axes).map(|member| operands[0][member.index()].clone());
                if let Some(blocks) = blocks.collect::<Option<Vec<Tensor>>>() {
                    let sum = add(*operator, blocks).expect("a group has members");
                    mesh.group(first, axes).for_each(|member| sums[member.index()] = Some(sum.clone()));
                }
            }
            sums
        }
        OpKind::MatMul { einsum } => {
            each(operands, &|_, blocks| Ok(product(einsum, &blocks[0], &blocks[1], operation.dtype)))?
        }
        OpKind::Fill { dim, valid, with, block: place } => each(operands, &|device, blocks| {
            let start = place.at(mesh, device).and_then(|place| place.checked_mul(operation.extents[*dim]));
            let start = start.ok_or(RunError::OnDevice { op: id, device, problem: "a filler has no position" })?;
            Ok(filled(&blocks[0], *dim, valid.saturating_sub(start), *with))
        })?,
        OpKind::Shift { shift, length, block: place } => each(operands, &|device, blocks| {
            let rows = place.at(mesh, device);
            let rows = rows.and_then(|block| shift.sourced(block, operation.extents[shift.dim()], *length));
            let rows = rows.ok_or(RunError::OnDevice { op: id, device, problem: "a shift has no position" })?;
            Ok(zeroed_but(&blocks[0], shift.dim(), &rows))
        })?,
        OpKind::Mask { axes } => each(operands, &|device, mut blocks| {
            let first = mesh.rank(device, axes.iter().copied()) == 0;
            Ok(if first { blocks.remove(0) } else { zeros(&blocks[0]) })
        })?,
        OpKind::Reshape => {
            let extents = sizes(&operation.extents);
            each(operands, &|_, blocks| Ok(blocks[0].reshaped(&extents)))?
        }
        OpKind::Reduce { operator, einsum } => {
            each(operands, &|_, blocks| Ok(reduce(*operator, einsum, &blocks[0], operation.dtype)))?
        }
        OpKind::Kernel(kernel) => each(operands, &|_, blocks| kernel::evaluate(kernel, blocks))?,
        OpKind::Map { function, einsum } => each(operands, &|_, blocks| {
            Ok(map(*function, einsum, &blocks.iter().collect::<Vec<_>>(), operation.dtype))
        })?,
    };
    debug_assert!(fit(operation, &blocks), "%{} makes what it says", id.index());
    Ok(blocks)
}

/// The operands of each device.
pub(super) fn by_device(mesh: &Mesh, operands: Vec<Blocks>) -> Vec<Vec<Option<Tensor>>> {
    let mut devices: Vec<Vec<Option<Tensor>>> = mesh.devices().map(|_| Vec::with_capacity(operands.len())).collect();
    for blocks in operands {
        for (device, block) in devices.iter_mut().zip(blocks) {
            device.push(block);
        }
    }
    devices
}

/// Work of all devices in elements, or in multiplications for a product.
pub(super) fn work(schedule: &Schedule, id: OpId) -> u64 {
    let operation = schedule.operation(id);
    let operands = schedule.operands(id).into_iter().map(|operand| schedule.operation(operand));
    let own = match &operation.kind {
        OpKind::MatMul { einsum } => {
            let extents: Vec<Vec<u64>> = operands.map(|operand| operand.extents.clone()).collect();
            u64::try_from(einsum.flops(&extents)).unwrap_or(u64::MAX)
        }
        OpKind::Reduce { .. } => operands.map(Operation::elements).sum(),
        _ => operation.elements(),
    };
    own.saturating_mul(schedule.mesh.device_count() as u64)
}

/// Whether the blocks match the operation's declaration.
pub(super) fn fit(operation: &Operation, blocks: &Blocks) -> bool {
    let fits = |block: &Tensor| block.dtype() == operation.dtype && block.extents() == operation.extents;
    blocks.iter().flatten().all(fits)
}

/// Assembles the block of one device from its pieces.
pub(super) fn put_together(
    schedule: &Schedule,
    id: OpId,
    device: DeviceId,
    operands: Vec<Option<Tensor>>,
) -> Result<Option<Tensor>, RunError> {
    let operation = schedule.operation(id);
    let (view, places) = operation.kind.properties().regions;
    let placed =
        |(place, operand): (&Region, Option<Tensor>)| Some((region_at(place, view, &schedule.mesh, device)?, operand?));
    let pieces: Vec<_> = places.iter().zip(operands).filter_map(placed).collect();
    if pieces.is_empty() {
        return Ok(None);
    }
    let zeros = matches!(operation.kind, OpKind::Assemble { zeros: true, .. });
    let block = assemble(operation.dtype, &sizes(view), &pieces, zeros);
    let block = block.ok_or(RunError::OnDevice { op: id, device, problem: "its pieces leave a gap" })?;
    Ok(Some(block.reshaped(&sizes(&operation.extents))))
}
