//! Why a product is done as it is: what else could be done, ranked, and what each would lose.

use crate::plan::{Alternative, Choice, Limit, Plan};
use crate::program::ValueId;
use crate::topology::Topology;
use crate::units::{Bytes, Time};
use serde::Serialize;
use std::fmt::Write as _;

/// A way that was asked for, as the plan of the whole program that has it.
#[derive(Debug)]
pub struct Asked {
    /// `by gather(B)`
    pub text: String,
    /// That plan.
    pub plan: Plan,
}

/// The products that make the array of this name, those in the middle of its expression with them.
pub fn choices<'p>(plan: &'p Plan, name: &str) -> Vec<&'p Choice> {
    let is_meant = |choice: &&Choice| plan.program.name(choice.value) == name || made(plan, choice.value) == name;
    plan.choices.iter().filter(is_meant).collect()
}

/// The names of what products make, each once.
pub fn products(plan: &Plan) -> Vec<String> {
    let mut names: Vec<String> = plan.choices.iter().map(|choice| made(plan, choice.value)).collect();
    names.dedup();
    names
}

/// The name of the array in whose expression a product stands: `h` of `x * W` in `h = relu(x * W)`.
fn made(plan: &Plan, product: ValueId) -> String {
    let program = &plan.program;
    let mut value = product;
    while program.value(value).name.is_none() {
        let is_user = |user: &ValueId| program.value(*user).definition.operands().contains(&value);
        let Some(user) = program.value_ids().find(is_user) else { break };
        value = user;
    }
    program.name(value)
}

/// One product: the way that was chosen, then the others with what they lose.
pub fn text(plan: &Plan, choice: &Choice, topology: &Topology) -> String {
    let Some((chosen, others)) = choice.alternatives.split_first() else { return String::new() };
    let mut text = format!("why {}, case {}\n", plan.program.name(choice.value), choice.case);
    text.push_str(&way("chosen", chosen, topology));
    for other in others {
        text.push_str(&way("instead", other, topology));
        writeln!(text, "      {}", lost(chosen, other, topology)).expect("a string");
    }
    if others.is_empty() {
        text.push_str("  there is no other way\n");
    }
    text
}

/// The plan with the way that was asked for, beside the plan that was chosen.
pub fn asked(plan: &Plan, choice: &Choice, asked: &Asked, topology: &Topology) -> String {
    let show = |time| topology.scale.show(time);
    let (ours, theirs) = (plan.totals(), asked.plan.totals());
    let name = plan.program.name(choice.value);
    let (time, than) = (show(theirs.time()), show(ours.time()));
    let ratio = theirs.time().ratio(ours.time());
    let mut text = format!("{name} {}: the plan takes {time}, {ratio:.2}x of {than}\n", asked.text);
    let rows = [
        ("communication", show(theirs.communication), show(ours.communication)),
        ("compute", show(theirs.compute), show(ours.compute)),
        ("received", theirs.received().to_string(), ours.received().to_string()),
        ("held", theirs.peak().to_string(), ours.peak().to_string()),
    ];
    for (what, theirs, ours) in rows {
        writeln!(text, "  {what:<13} {theirs:>9}, chosen {ours}").expect("a string");
    }
    if let Some(way) = choices(&asked.plan, &name).first().and_then(|choice| choice.alternatives.first()) {
        writeln!(text, "  it goes {}", moves(way)).expect("a string");
    }
    text
}

fn moves(way: &Alternative) -> String {
    if way.moves.is_empty() { "no move".to_owned() } else { way.moves.join(", ") }
}

fn way(sign: &str, way: &Alternative, topology: &Topology) -> String {
    let show = |time| topology.scale.show(time);
    let bound = if way.is_bound { ">= " } else { "" };
    let compute = Time::from_ticks(way.time.ticks().saturating_sub(way.communication.ticks()));
    format!(
        "  {sign:<7} {:>9}  {}\n      communication {} + compute {}, receives {}, holds {} for one step\n",
        format!("{bound}{}", show(way.time)),
        moves(way),
        show(way.communication),
        show(compute),
        way.received,
        way.held,
    )
}

/// The term in which a way is worst against the chosen one, and what limits it there.
fn lost(chosen: &Alternative, other: &Alternative, topology: &Topology) -> String {
    let show = |time| topology.scale.show(time);
    let more = |a: Time, b: Time| Time::from_ticks(a.ticks().saturating_sub(b.ticks()));
    let compute = |way: &Alternative| more(way.time, way.communication);
    let (communication, computing) =
        (more(other.communication, chosen.communication), more(compute(other), compute(chosen)));
    if communication == Time::ZERO && computing == Time::ZERO {
        return if other.received > chosen.received {
            format!("loses by bytes: {} more are received", Bytes(other.received.0 - chosen.received.0))
        } else {
            "takes no longer by itself; it is the rest of the program that is cheaper so".to_owned()
        };
    }
    if computing > communication {
        let times = other.flops as f64 / (chosen.flops.max(1)) as f64;
        return format!("loses by compute: {} more, with {times:.2}x the operations", show(computing));
    }
    // What the chosen way does as well is not why this one loses.
    let own = || other.moves.iter().zip(&other.costs).filter(|(name, _)| !chosen.moves.contains(name));
    let all = || other.moves.iter().zip(&other.costs);
    let slowest = own().max_by_key(|(_, cost)| cost.time).or_else(|| all().max_by_key(|(_, cost)| cost.time));
    let slowest = slowest.map_or_else(String::new, |(name, cost)| {
        let limit = match cost.limit {
            Limit::Latency => ", bound by latency",
            Limit::Bandwidth => ", bound by bandwidth",
            Limit::Free | Limit::Compute | Limit::Memory => "",
        };
        format!("; {name} takes {}{limit}", show(cost.time))
    });
    format!("loses by communication: {} more{slowest}", show(communication))
}

/// A product with its ways, for scripts.
#[derive(Debug, Serialize)]
pub struct WhyDocument {
    result: String,
    case: u8,
    ways: Vec<WayDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<AskedDocument>,
}

#[derive(Debug, Serialize)]
struct WayDocument {
    chosen: bool,
    moves: Vec<String>,
    time_s: f64,
    communication_s: f64,
    bytes_received_per_device: u64,
    flops_per_device: u128,
    held_bytes_per_device: u64,
    /// Whether the times are bounds.
    at_least: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
}

#[derive(Debug, Serialize)]
struct AskedDocument {
    pin: String,
    time_s: f64,
    communication_s: f64,
    bytes_received_per_device: u64,
    peak_bytes_per_device: u64,
}

/// The same as [`text`] and [`asked`].
pub fn document(plan: &Plan, choice: &Choice, other: Option<&Asked>, topology: &Topology) -> WhyDocument {
    let seconds = |time| topology.scale.seconds(time);
    let first = choice.alternatives.first();
    let ways = choice.alternatives.iter().enumerate().map(|(place, way)| WayDocument {
        chosen: place == 0,
        moves: way.moves.clone(),
        time_s: seconds(way.time),
        communication_s: seconds(way.communication),
        bytes_received_per_device: way.received.0,
        flops_per_device: way.flops,
        held_bytes_per_device: way.held.0,
        at_least: way.is_bound,
        lost: first.filter(|_| place > 0).map(|chosen| lost(chosen, way, topology)),
    });
    let asked = other.map(|other| {
        let totals = other.plan.totals();
        AskedDocument {
            pin: other.text.clone(),
            time_s: seconds(totals.time()),
            communication_s: seconds(totals.communication),
            bytes_received_per_device: totals.received().0,
            peak_bytes_per_device: totals.peak().0,
        }
    });
    WhyDocument { result: plan.program.name(choice.value), case: choice.case, ways: ways.collect(), asked }
}
