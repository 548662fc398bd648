//! The simulated time of a collective by each method: the chosen one and those that lost.

use super::part::Part;
use crate::collective::Collective;
use crate::layout::Layout;
use crate::lower::{Lowerer, Lowering, Memory, idle_runs, simulate};
use crate::method::Method;
use crate::topology::Topology;
use crate::units::Time;
use itertools::Itertools;
use std::cell::Cell;

/// A way of doing a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodTime {
    /// The methods of its stages: `balanced_meet_in_middle_ring`, `line + one_hop`.
    pub name: String,
    /// Its time on the simulated links, nothing else being on them.
    pub time: Time,
}

/// The way that is taken, and all others by a single method, the fastest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodTimes {
    /// The one asked for, or the fastest.
    pub chosen: MethodTime,
    /// Those that are not taken.
    pub others: Vec<MethodTime>,
}

/// Tries all methods on a collective; `None` where nothing is sent, or its operations are too many to be tried.
pub fn method_times(
    collective: &Collective,
    from: &Layout,
    topology: &Topology,
    lowering: Lowering,
    asked: Option<Method>,
) -> Option<MethodTimes> {
    if matches!(collective, Collective::Slice { .. }) {
        return None;
    }
    let axes = collective.axes(&from.sharding, &topology.mesh);
    // One method borrows the axes that hold copies.
    let idle = idle_runs(&topology.mesh, &from.sharding).into_iter().flat_map(|run| run.iter());
    let borrows = matches!(collective, Collective::AllGather { .. });
    let part = Part::new(topology, axes.union(idle.filter(|_| borrows).collect()));
    let (collective, from) = (part.collective(collective), part.layout(from, &topology.mesh));
    let extents = from.local_extents(&part.topology.mesh);
    let memory = Cell::new(Memory::default());
    let timed = |method: Option<Method>| {
        let mut lowerer = Lowerer::with(&part.topology, lowering, memory.take());
        let mut name = String::new();
        let trial = simulate(&part.topology, from.dtype, &extents, |builder, input| {
            lowerer.collective(builder, &collective, &from, input, method);
            name = builder.methods().into_iter().unique().join(" + ");
        });
        let applies = lowerer.applies();
        memory.set(lowerer.into_memory());
        trial.filter(|_| applies && !name.is_empty()).map(|trial| MethodTime { name, time: trial.time })
    };
    let chosen = timed(asked)?;
    let others = Method::ALL.into_iter().filter_map(|method| timed(Some(method)));
    let others = others.filter(|other| other.name != chosen.name).unique_by(|other| other.name.clone());
    Some(MethodTimes { others: others.sorted_by_key(|other| other.time).collect(), chosen })
}
