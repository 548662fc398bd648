//! One operation on every device.

use super::combine::{add, assemble, concatenate};
use super::error::RunError;
use super::input::{Inputs, given, shards};
use super::map::map;
use super::pad::{filled, zeros};
use super::parallel::{Here, on_devices};
use super::product::product;
use super::reduce::reduce;
use super::tensor::Tensor;
use super::view::{addressable, fits, refines, region_at};
use crate::mesh::{AxisId, DeviceId, Mesh};
use crate::schedule::{OpId, OpKind, Operation, Region, Schedule, Sources};

/// The block of each device, or none.
pub type Blocks = Vec<Option<Tensor>>;

/// The blocks after one operation; the operands are consumed, so that what nobody else holds can be overwritten.
pub(super) fn step(
    schedule: &Schedule,
    inputs: &Inputs,
    here: Here,
    id: OpId,
    mut operands: Vec<Blocks>,
) -> Result<Blocks, RunError> {
    let operation = schedule.operation(id);
    check_operands(schedule, id)?;
    let wrong = |problem: String| RunError::operation(id, problem);
    let mesh = &schedule.mesh;
    let size = work(schedule, id);
    let blocks: Result<Blocks, RunError> = match &operation.kind {
        OpKind::Input { array, sharding } => {
            let declared = schedule.arrays.get(array.index()).ok_or_else(|| wrong("there is no such array".into()))?;
            let whole = given(schedule, inputs, *array)?;
            let shards = mesh.devices().zip(shards(declared, whole, sharding, mesh)?);
            Ok(shards
                .map(|(device, shard)| (sharding.is_on(device, mesh) && here.has(device)).then_some(shard))
                .collect())
        }
        OpKind::Slice { view, region } => slice(mesh, operation, view, region, operands.remove(0)).map_err(wrong),
        OpKind::Shuffle { sources, route: _ } => Ok(shuffle(mesh, sources, &operands[0])),
        OpKind::Add { operator } => {
            let operands = by_device(mesh, operands);
            Ok(on_devices(here, operands, size, |_, blocks| add(*operator, blocks.into_iter().flatten().collect())))
        }
        OpKind::Assemble { view, places } => {
            let places = check_places(operation, view, places).map_err(wrong)?;
            let assembled = on_devices(here, by_device(mesh, operands), size, |device, blocks| {
                put_together(id, operation, &places, mesh, device, blocks)
            });
            assembled.into_iter().collect()
        }
        OpKind::AllGather { axes, dim } => all_gather(id, mesh, axes, *dim, &operands[0]),
        OpKind::MatMul { einsum } => {
            let products = on_devices(here, by_device(mesh, operands), size, |_, blocks| match &blocks[..] {
                [Some(a), Some(b)] => product(einsum, a, b, operation.dtype).map(Some).map_err(wrong),
                _ => Ok(None),
            });
            products.into_iter().collect()
        }
        OpKind::Fill { dim, valid, with, block: place } => {
            let filled = on_devices(here, by_device(mesh, operands), size, |device, mut blocks| {
                let Some(block) = blocks.pop().flatten() else { return Ok(None) };
                let length = operation.extents.get(*dim).ok_or_else(|| wrong("there is no such dim".into()))?;
                let start = place.at(mesh, device).and_then(|place| place.checked_mul(*length));
                let start = start.ok_or_else(|| wrong("a filler has no place".into()))?;
                Ok(Some(filled(&block, *dim, valid.saturating_sub(start), *with)))
            });
            filled.into_iter().collect()
        }
        OpKind::Mask { axes } => Ok(on_devices(here, by_device(mesh, operands), size, |device, mut blocks| {
            let block = blocks.pop().flatten()?;
            let first = mesh.rank(device, axes.iter().copied()) == 0;
            Some(if first { block } else { zeros(&block) })
        })),
        OpKind::Reduce { operator, einsum } => {
            let reduced = on_devices(here, by_device(mesh, operands), size, |_, blocks| match &blocks[..] {
                [Some(of)] => reduce(*operator, einsum, of, operation.dtype).map(Some).map_err(wrong),
                _ => Ok(None),
            });
            reduced.into_iter().collect()
        }
        OpKind::Map { function, einsum } => {
            let mapped = on_devices(here, by_device(mesh, operands), size, |_, blocks| {
                let blocks: Option<Vec<Tensor>> = blocks.into_iter().collect();
                let Some(blocks) = blocks else { return Ok(None) };
                let blocks: Vec<&Tensor> = blocks.iter().collect();
                map(*function, einsum, &blocks, operation.dtype).map(Some).map_err(wrong)
            });
            mapped.into_iter().collect()
        }
    };
    let blocks = blocks?;
    check_blocks(id, operation, &blocks)?;
    Ok(blocks)
}

/// What each device has of the operands.
pub(super) fn by_device(mesh: &Mesh, operands: Vec<Blocks>) -> Vec<Vec<Option<Tensor>>> {
    let mut devices: Vec<Vec<Option<Tensor>>> = mesh.devices().map(|_| Vec::with_capacity(operands.len())).collect();
    for blocks in operands {
        for (device, block) in devices.iter_mut().zip(blocks) {
            device.push(block);
        }
    }
    devices
}

/// Elements, or multiplications of a product, that all devices together have to do.
pub(super) fn work(schedule: &Schedule, id: OpId) -> u64 {
    let operation = schedule.operation(id);
    let operands = schedule.operands(id).into_iter().map(|operand| schedule.operation(operand));
    let own = match &operation.kind {
        OpKind::MatMul { einsum } => {
            let extents: Vec<Vec<u64>> = operands.map(|operand| operand.extents.clone()).collect();
            u64::try_from(einsum.flops(&extents)).unwrap_or(u64::MAX)
        }
        OpKind::Reduce { .. } => operands.map(Operation::elements).sum(),
        OpKind::Input { .. }
        | OpKind::Slice { .. }
        | OpKind::Shuffle { .. }
        | OpKind::Add { .. }
        | OpKind::Assemble { .. }
        | OpKind::AllGather { .. }
        | OpKind::Map { .. }
        | OpKind::Fill { .. }
        | OpKind::Mask { .. } => operation.elements(),
    };
    own.saturating_mul(schedule.mesh.device_count() as u64)
}

/// Refuses a wrong number of operands, and operands whose dtype or extents the operation cannot take.
pub(super) fn check_operands(schedule: &Schedule, id: OpId) -> Result<(), RunError> {
    let operation = schedule.operation(id);
    let operands: Vec<&Operation> =
        schedule.operands(id).into_iter().map(|operand| schedule.operation(operand)).collect();
    let wanted = match &operation.kind {
        OpKind::Input { .. } => Some(0),
        OpKind::Slice { .. }
        | OpKind::Shuffle { .. }
        | OpKind::AllGather { .. }
        | OpKind::Reduce { .. }
        | OpKind::Fill { .. }
        | OpKind::Mask { .. } => Some(1),
        OpKind::MatMul { .. } => Some(2),
        OpKind::Map { function, .. } => Some(function.arity()),
        OpKind::Assemble { places, .. } => Some(places.len()),
        OpKind::Add { .. } => None,
    };
    if wanted.is_some_and(|wanted| wanted != operands.len()) {
        return Err(RunError::operation(id, format!("it has {} operands", operands.len())));
    }
    let same_dtype = operands.iter().all(|operand| operand.dtype == operation.dtype);
    let same_extents = operands.iter().all(|operand| operand.extents == operation.extents);
    let fine = match &operation.kind {
        OpKind::Input { .. } | OpKind::MatMul { .. } | OpKind::Reduce { .. } | OpKind::Map { .. } => true,
        OpKind::Slice { .. } | OpKind::AllGather { .. } | OpKind::Assemble { .. } => same_dtype,
        OpKind::Shuffle { .. } | OpKind::Add { .. } | OpKind::Fill { .. } | OpKind::Mask { .. } => {
            same_dtype && same_extents
        }
    };
    if fine { Ok(()) } else { Err(RunError::operation(id, "its operands have another dtype or other extents")) }
}

/// Refuses blocks that are not what the operation says they are.
pub(super) fn check_blocks(id: OpId, operation: &Operation, blocks: &Blocks) -> Result<(), RunError> {
    let fine = |block: &Tensor| block.dtype() == operation.dtype && block.extents() == operation.extents;
    match blocks.iter().flatten().find(|block| !fine(block)) {
        None => Ok(()),
        Some(block) => Err(RunError::operation(
            id,
            format!(
                "it says {}{:?}, it makes {}{:?}",
                operation.dtype,
                operation.extents,
                block.dtype(),
                block.extents()
            ),
        )),
    }
}

fn slice(mesh: &Mesh, operation: &Operation, view: &[u64], region: &Region, blocks: Blocks) -> Result<Blocks, String> {
    let view = addressable(view).ok_or("its view is not addressable")?;
    let extents = addressable(&operation.extents).ok_or("its extents are not addressable")?;
    if !fits(region, &view) {
        return Err("its region does not fit its view".to_owned());
    }
    let cut = |(device, block): (DeviceId, Option<Tensor>)| {
        let Some(block) = block else { return Ok(None) };
        let refined = if refines(&view, &block.view().extents) { block.view().reshaped(&view) } else { None };
        let refined = refined.ok_or_else(|| format!("its view {view:?} does not refine {:?}", block.view().extents))?;
        let Some(ranges) = region_at(region, &view, mesh, device) else { return Ok(None) };
        let part = refined.cut(&ranges);
        if part.elements() != extents.iter().product::<usize>() {
            return Err(format!("its region has {} elements", part.elements()));
        }
        Ok(Some(block.with_view(part).reshaped(&extents)))
    };
    mesh.devices().zip(blocks).map(cut).collect()
}

fn shuffle(mesh: &Mesh, sources: &Sources, blocks: &Blocks) -> Blocks {
    let receive = |device| blocks.get(sources.of(mesh, device)?.index())?.clone();
    mesh.devices().map(receive).collect()
}

/// The view and the places of an assemble that has a meaning.
pub(super) fn check_places<'a>(
    operation: &Operation,
    view: &[u64],
    places: &'a [Region],
) -> Result<(Vec<usize>, &'a [Region]), String> {
    let extents = addressable(&operation.extents).ok_or("its extents are not addressable")?;
    let view = addressable(view).ok_or("its view is not addressable")?;
    if !refines(&view, &extents) {
        return Err(format!("its view {view:?} does not refine {extents:?}"));
    }
    match places.iter().position(|place| !fits(place, &view)) {
        Some(place) => Err(format!("place {place} does not fit its view")),
        None => Ok((view, places)),
    }
}

/// The block of one device from its pieces.
pub(super) fn put_together(
    id: OpId,
    operation: &Operation,
    (view, places): &(Vec<usize>, &[Region]),
    mesh: &Mesh,
    device: DeviceId,
    operands: Vec<Option<Tensor>>,
) -> Result<Option<Tensor>, RunError> {
    let wrong = |problem| RunError::OnDevice { op: id, device, problem };
    let mut pieces = Vec::with_capacity(operands.len());
    for (place, operand) in places.iter().zip(operands) {
        if let (Some(ranges), Some(piece)) = (region_at(place, view, mesh, device), operand) {
            if ranges.iter().map(ExactSizeIterator::len).product::<usize>() != piece.view().elements() {
                return Err(wrong("a piece does not fit its place"));
            }
            pieces.push((ranges, piece));
        }
    }
    if pieces.is_empty() {
        return Ok(None);
    }
    let block = assemble(operation.dtype, view, &pieces).ok_or_else(|| wrong("its pieces leave a gap"))?;
    let extents = addressable(&operation.extents).expect("checked before");
    Ok(Some(block.reshaped(&extents)))
}

/// Gathers once per group: its members share the block.
fn all_gather(id: OpId, mesh: &Mesh, axes: &[AxisId], dim: usize, blocks: &Blocks) -> Result<Blocks, RunError> {
    let mut gathered: Blocks = vec![None; blocks.len()];
    let count = mesh.group_size(axes.iter().copied());
    for device in mesh.devices().filter(|device| mesh.rank(*device, axes.iter().copied()) == 0) {
        let members: Vec<DeviceId> =
            (0..count).map(|rank| mesh.with_rank(device, axes.iter().copied(), rank)).collect();
        let present: Vec<Tensor> = members.iter().filter_map(|member| blocks[member.index()].clone()).collect();
        if present.is_empty() {
            continue;
        }
        if present.len() < members.len() {
            return Err(RunError::OnDevice { op: id, device, problem: "a member of its group has nothing to gather" });
        }
        let whole =
            concatenate(&present, dim).ok_or_else(|| RunError::operation(id, format!("there is no dim {dim}")))?;
        members.iter().for_each(|member| gathered[member.index()] = Some(whole.clone()));
    }
    Ok(gathered)
}
