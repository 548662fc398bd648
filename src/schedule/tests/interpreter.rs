//! A naive run of a schedule on i64 numbers: the judge of the methods, sharing no code with them.

use crate::mesh::{DeviceId, Mesh};
use crate::operator::Operator;
use crate::schedule::{CoordMap, Cut, OpId, OpKind, Region, Schedule};

/// A block, or nothing.
pub(super) type Block = Option<Vec<i64>>;

/// The blocks of all devices after each operation; `given` are those of the inputs, in the order of the list.
pub(super) fn run(schedule: &Schedule, given: &[Vec<Block>]) -> Vec<Vec<Block>> {
    let mesh = &schedule.mesh;
    let mut given = given.iter();
    let mut values: Vec<Vec<Block>> = Vec::new();
    for id in schedule.ids() {
        let operands: Vec<&Vec<Block>> = schedule.operands(id).iter().map(|operand| &values[operand.index()]).collect();
        let result = match &schedule.operation(id).kind {
            OpKind::Input { .. } => given.next().expect("data for each input").clone(),
            kind => mesh.devices().map(|device| step(schedule, id, kind, &operands, device)).collect(),
        };
        for block in result.iter().flatten() {
            let extents = &schedule.operation(id).extents;
            assert_eq!(block.len() as u64, extents.iter().product::<u64>(), "%{} fills its extents", id.index());
        }
        values.push(result);
    }
    values
}

fn step(schedule: &Schedule, id: OpId, kind: &OpKind, operands: &[&Vec<Block>], device: DeviceId) -> Block {
    let mesh = &schedule.mesh;
    let here = |place: usize| operands[place][device.index()].as_ref();
    match kind {
        OpKind::Slice { view, region } => {
            let block = here(0)?;
            Some(cells(mesh, view, region, device)?.into_iter().map(|cell| block[cell]).collect())
        }
        OpKind::Shuffle { sources, .. } => operands[0][sources.of(mesh, device)?.index()].clone(),
        OpKind::Add { operator } => (0..operands.len()).filter_map(here).cloned().reduce(|left, right| {
            left.iter().zip(&right).map(|(left, right)| combine(*operator, *left, *right)).collect()
        }),
        OpKind::Assemble { view, places, zeros } => {
            let mut block: Vec<Option<i64>> = vec![None; view.iter().product::<u64>() as usize];
            for (place, region) in places.iter().enumerate() {
                let Some(piece) = here(place) else { continue };
                let Some(cells) = cells(mesh, view, region, device) else { continue };
                assert_eq!(cells.len(), piece.len());
                for (cell, number) in cells.into_iter().zip(piece) {
                    assert_eq!(block[cell].replace(*number), None, "%{} writes a cell twice", id.index());
                }
            }
            if block.iter().all(Option::is_none) {
                return None;
            }
            let filled = |cell: Option<i64>| cell.or(zeros.then_some(0)).expect("each cell is filled");
            Some(block.into_iter().map(filled).collect())
        }
        OpKind::SwitchSum { axes, operator } => {
            let group = (0..mesh.group_size(axes.iter().copied()))
                .map(|rank| mesh.with_rank(device, axes.iter().copied(), rank).index());
            let blocks: Vec<&Vec<i64>> = group.map(|member| operands[0][member].as_ref()).collect::<Option<_>>()?;
            blocks.into_iter().cloned().reduce(|left, right| {
                left.iter().zip(&right).map(|(left, right)| combine(*operator, *left, *right)).collect()
            })
        }
        OpKind::AllGather { axes, dim } => {
            let group = (0..mesh.group_size(axes.iter().copied()))
                .map(|rank| mesh.with_rank(device, axes.iter().copied(), rank).index());
            let blocks: Vec<&Vec<i64>> = group.map(|member| operands[0][member].as_ref()).collect::<Option<_>>()?;
            let extents = &schedule.operation(schedule.operands(id)[0]).extents;
            let inner = extents[*dim..].iter().product::<u64>() as usize;
            let outer = blocks[0].len() / inner;
            Some(
                (0..outer)
                    .flat_map(|row| blocks.iter().flat_map(move |block| &block[row * inner..][..inner]))
                    .copied()
                    .collect(),
            )
        }
        OpKind::Map { .. } => {
            let blocks = (0..operands.len()).map(here).collect::<Option<Vec<&Vec<i64>>>>()?;
            let sums = (0..blocks[0].len()).map(|cell| blocks.iter().map(|block| block[cell]).sum());
            Some(sums.collect())
        }
        OpKind::Reshape => here(0).cloned(),
        OpKind::Input { .. }
        | OpKind::MatMul { .. }
        | OpKind::Kernel(_)
        | OpKind::Reduce { .. }
        | OpKind::Fill { .. }
        | OpKind::Shift { .. }
        | OpKind::Mask { .. } => {
            unreachable!("no collective")
        }
    }
}

pub(super) fn combine(operator: Operator, left: i64, right: i64) -> i64 {
    match operator {
        Operator::Sum => left.wrapping_add(right),
        Operator::Max => left.max(right),
        Operator::Min => left.min(right),
        Operator::Mul => left.wrapping_mul(right),
        Operator::And | Operator::Or | Operator::Mean | Operator::SquareAdd | Operator::Root(_) => {
            unreachable!("not on integers")
        }
    }
}

/// The flat places of a region, in its own row-major order.
fn cells(mesh: &Mesh, view: &[u64], region: &Region, device: DeviceId) -> Option<Vec<usize>> {
    let mut cells = vec![0u64];
    for (extent, cut) in view.iter().zip(region) {
        let range = match cut {
            Cut::Whole => 0..*extent,
            Cut::Range { start, end } => *start..*end,
            Cut::At(map) => {
                let at = number(mesh, map, device).filter(|at| at < extent)?;
                at..at + 1
            }
        };
        cells = cells.iter().flat_map(|cell| range.clone().map(move |at| cell * extent + at)).collect();
    }
    Some(cells.into_iter().map(|cell| cell as usize).collect())
}

fn number(mesh: &Mesh, map: &CoordMap, device: DeviceId) -> Option<u64> {
    match map {
        CoordMap::Affine { terms, constant, modulo } => {
            let sum = terms.iter().fold(*constant, |sum, (axis, factor)| {
                let stride: u32 = mesh.axes()[axis.index() + 1..].iter().map(|axis| axis.size).product();
                sum + factor * i64::from(device.0 / stride % mesh.axes()[axis.index()].size)
            });
            match modulo {
                Some(modulo) => Some(sum.rem_euclid(*modulo as i64) as u64),
                None => u64::try_from(sum).ok(),
            }
        }
        CoordMap::Table { axes, entries } => entries[mesh.rank(device, axes.iter().copied()) as usize],
    }
}
