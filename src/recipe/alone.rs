//! A single collective: as a schedule, and timed by each method.

use super::part::Part;
use super::{Lowering, Tuner};
use crate::collective::Collective;
use crate::layout::Layout;
use crate::method::Method;
use crate::schedule::{Array, ArrayId, Builder, Dense, Output, Schedule};
use crate::span::Span;
use crate::topology::Topology;
use crate::units::Time;
use itertools::Itertools;
use std::borrow::Cow;

/// Builds the schedule of one collective, on the part of the machine along its axes.
///
/// - `array`: the name of the array and of its dims.
/// - `method`: the requested method.
pub fn alone(
    topology: &Topology,
    lowering: Lowering,
    (collective, from): (&Collective, &Layout),
    (name, dims): (&str, Vec<String>),
    method: Option<Method>,
) -> Option<(Schedule, Topology)> {
    let part = Part::new(topology, collective.axes(&from.sharding, &topology.mesh));
    // The array is an input here, of which nothing is known.
    let from = Layout { used: None, ..part.layout(from, &topology.mesh) };
    let collective = part.collective(collective);
    let to = collective.apply(&from.sharding, &part.topology.mesh)?;
    let tuner = Tuner::new(Cow::Borrowed(&part.topology), lowering);
    // A gather kept as one operation has no method here, whatever is requested.
    let chosen = tuner.choose(&collective, &from, method).or_else(|_| tuner.choose(&collective, &from, None)).ok()?;
    let extents: Vec<u64> = from.dims.iter().map(|dim| dim.size).collect();
    let mut schedule = Schedule::new(part.topology.mesh.clone());
    schedule.arrays.push(Array {
        name: name.to_owned(),
        dtype: from.dtype,
        dims,
        valid: extents.clone(),
        extents,
        definition: Dense::INPUT,
    });
    let mut builder = Builder::new(&mut schedule, 0, Span::default());
    let input = builder.input(ArrayId(0), from.sharding.clone());
    let value = chosen.recipe.emit(&mut builder, input);
    schedule.outputs.push(Output { value, array: ArrayId(0), sharding: to });
    Some((schedule, part.topology))
}

/// A timed method of a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodTime {
    /// Methods of its stages: `balanced_meet_in_middle_ring`, `line + one_hop`.
    pub name: String,
    /// Its simulated time on idle links.
    pub time: Time,
}

/// The chosen method, and all others that use a single method, the fastest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodTimes {
    /// The requested one, or the fastest.
    pub chosen: MethodTime,
    /// All other methods.
    pub others: Vec<MethodTime>,
}

/// Times all methods for a collective; `None` if nothing is sent, or it has too many operations.
pub fn method_times(
    collective: &Collective,
    from: &Layout,
    topology: &Topology,
    lowering: Lowering,
    asked: Option<Method>,
) -> Option<MethodTimes> {
    let tuner = Tuner::new(Cow::Borrowed(topology), lowering);
    let timed = |method: Option<Method>| {
        let chosen = tuner.choose(collective, from, method).ok()?;
        let time = chosen.time.filter(|_| !chosen.methods.is_empty())?;
        Some(MethodTime { name: chosen.methods.clone(), time })
    };
    let chosen = timed(asked)?;
    let others = Method::ALL.into_iter().filter_map(|method| timed(Some(method)));
    let others = others.filter(|other| other.name != chosen.name).unique_by(|other| other.name.clone());
    Some(MethodTimes { others: others.sorted_by_key(|other| other.time).collect(), chosen })
}
