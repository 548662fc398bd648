//! The chunks of a schedule: the largest pieces that none of its operations splits.
//!
//! The unit of a dim divides every block, view and range in it. The same schedule on an array with one element per
//! unit moves chunks as the original moves elements.

use super::refused::Refused;
use crate::schedule::view::groups;
use crate::schedule::{Cut, OpId, OpKind, Reach, Region, Schedule};
use crate::topology::Work;
use crate::units::gcd;

/// The schedule with chunks as elements, and the unit of each dim.
///
/// # Errors
/// If the schedule does more than move and add the blocks of one array.
pub(super) fn in_units(schedule: &Schedule) -> Result<(Schedule, Vec<u64>), Refused> {
    let [array] = schedule.arrays.as_slice() else { return Err(Refused::NotOneArray(schedule.arrays.len())) };
    let mut units = array.extents.clone();
    for id in schedule.ids() {
        for (unit, extent) in units.iter_mut().zip(&schedule.operation(id).extents) {
            *unit = gcd(*unit, *extent);
        }
        for (extents, view, region) in views(schedule, id)? {
            for (unit, place) in units.iter_mut().zip(innermost(&extents, view)) {
                let Some(place) = place else { continue };
                *unit = match &region[place] {
                    Cut::Whole => gcd(*unit, view[place]),
                    Cut::Range { start, end } => gcd(gcd(*unit, view[place]), gcd(*start, *end)),
                    Cut::At(_) => 1,
                };
            }
        }
    }
    let mut small = schedule.clone();
    let shrink = |extents: &mut [u64]| extents.iter_mut().zip(&units).for_each(|(extent, unit)| *extent /= unit);
    shrink(&mut small.arrays[0].extents);
    small.arrays[0].valid = small.arrays[0].extents.clone();
    for id in schedule.ids() {
        let operands: Vec<Vec<u64>> =
            schedule.operands(id).iter().map(|operand| schedule.operation(*operand).extents.clone()).collect();
        let operation = &mut small.operations[id];
        match &mut operation.kind {
            OpKind::Slice { view, region } => shrink_view(&operands[0], view, std::slice::from_mut(region), &units),
            OpKind::Assemble { view, places } => shrink_view(&schedule.operation(id).extents, view, places, &units),
            _ => {}
        }
        shrink(&mut operation.extents);
    }
    Ok((small, units))
}

/// A view of a block with these extents, and the region taken of it.
type View<'s> = (Vec<u64>, &'s [u64], &'s Region);

/// The views that an operation uses.
fn views(schedule: &Schedule, id: OpId) -> Result<Vec<View<'_>>, Refused> {
    let (operation, operands) = (schedule.operation(id), schedule.operands(id));
    let kind = operation.kind.properties();
    if !matches!(kind.work, None | Some(Work::Slice | Work::Shuffle | Work::Add | Work::Assemble))
        || matches!(kind.reach, Reach::Gathered(_))
    {
        return Err(Refused::Operation { id, what: kind.noun });
    }
    let whole = match &operation.kind {
        OpKind::Slice { .. } => schedule.operation(operands[0]),
        _ => operation,
    };
    let (view, regions) = kind.regions;
    Ok(regions.iter().map(|region| (whole.extents.clone(), view, region)).collect())
}

/// For each dim, the position of the innermost view dim that is longer than 1.
fn innermost(extents: &[u64], view: &[u64]) -> Vec<Option<usize>> {
    let dims = groups(view, extents).expect("the view refines the extents").into_iter();
    dims.map(|dims| dims.rev().find(|place| view[*place] > 1)).collect()
}

fn shrink_view(extents: &[u64], view: &mut [u64], regions: &mut [Region], units: &[u64]) {
    for (unit, place) in units.iter().zip(innermost(extents, view)) {
        let Some(place) = place else { continue };
        view[place] /= unit;
        for region in &mut *regions {
            if let Cut::Range { start, end } = &mut region[place] {
                *start /= unit;
                *end /= unit;
            }
        }
    }
}
