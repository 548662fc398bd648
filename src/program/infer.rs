//! Infers the collective that leads from one sharding to another.

use crate::collective::Collective;
use crate::layout::Sharding;
use crate::mesh::{Axes, Mesh};
use crate::syntax::CollectiveName;

/// The collective of this kind that may lead from one sharding to another. The caller applies it and compares the
/// results.
pub(super) fn infer(kind: CollectiveName, from: &Sharding, to: &Sharding) -> Option<Collective> {
    let gains = || {
        let mut pairs = from.dims.iter().zip(&to.dims).enumerate();
        pairs.find_map(|(place, (before, after))| {
            Some((place, appended(*before, *after).filter(|axes| !axes.is_empty())?))
        })
    };
    match kind {
        CollectiveName::AllGather => Some(Collective::AllGather { axes: from.dim_axes().without(to.dim_axes()) }),
        CollectiveName::AllReduce => Some(Collective::AllReduce { axes: from.open.without(to.open) }),
        CollectiveName::Broadcast => Some(Collective::Broadcast { axes: from.open.without(to.open) }),
        CollectiveName::ReduceScatter => appended_to(from, to).map(|dims| Collective::ReduceScatter { dims }),
        CollectiveName::AllToAll => {
            let (to, axes) = gains()?;
            let source = axes.iter().next().and_then(|axis| from.dim_of(axis))?;
            Some(Collective::AllToAll { axes, from: source, to })
        }
    }
}

/// The appended axes, if the only change is an append.
fn appended(before: Axes, after: Axes) -> Option<Axes> {
    let new: Axes = after.iter().skip(before.len()).collect();
    (before.then(new) == after).then_some(new)
}

/// The appended axes of each dim, if the only changes are appends.
pub(super) fn appended_to(from: &Sharding, to: &Sharding) -> Option<Vec<Axes>> {
    from.dims.iter().zip(&to.dims).map(|(before, after)| appended(*before, *after)).collect()
}

/// The single collective that leads from one sharding to another, if any.
pub(super) fn one_step(from: &Sharding, to: &Sharding, mesh: &Mesh) -> Option<Collective> {
    CollectiveName::ALL
        .into_iter()
        .filter_map(|kind| infer(kind, from, to))
        .find(|collective| collective.apply(from, mesh).as_ref() == Some(to))
}
