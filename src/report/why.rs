//! The alternatives of a product, ranked by cost, and why each was not chosen.

use super::seconds::Seconds;
use crate::collective::{Collective, CollectiveKind};
use crate::plan::{Alternative, Choice, Limit, Plan, StepId, StepOp, Totals};
use crate::program::ValueId;
use crate::topology::Topology;
use crate::units::{Bytes, Time};
use itertools::Itertools;
use serde::Serialize;
use std::fmt::Write as _;

/// A product with its alternatives, the chosen one first.
#[derive(Clone, Debug, Serialize)]
pub struct Product {
    /// The value it computes.
    #[serde(skip)]
    pub value: ValueId,
    /// The array in whose expression it occurs: `h` for `x * W` in `h = relu(x * W)`.
    #[serde(skip)]
    pub made: String,
    result: String,
    case: u8,
    /// The chosen alternative, then the others.
    pub ways: Vec<Way>,
    /// The plan with the requested alternative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// The pin of its statement.
    #[serde(skip)]
    pub pin: Option<Pin>,
    /// The chains of its moves that the plan replaces by routed moves, as text.
    #[serde(skip)]
    routed: Vec<String>,
}

/// An alternative for a product.
#[derive(Clone, Debug, Serialize)]
pub struct Way {
    chosen: bool,
    moves: Vec<String>,
    /// Total time when run alone.
    pub time_s: Seconds,
    communication_s: Seconds,
    bytes_received_per_device: u64,
    flops_per_device: u128,
    held_bytes_per_device: u64,
    /// Whether the times are lower bounds.
    at_least: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
    #[serde(skip)]
    compute: Seconds,
}

/// A pinned alternative and the cheapest one.
#[derive(Clone, Debug, Serialize)]
pub struct Pin {
    result: String,
    pin: String,
    time_s: Seconds,
    best_time_s: Seconds,
    best_moves: Vec<String>,
}

/// The plan of the whole program with the requested alternative.
#[derive(Clone, Debug, Serialize)]
pub struct Asked {
    pin: String,
    time_s: Seconds,
    communication_s: Seconds,
    bytes_received_per_device: u64,
    peak_bytes_per_device: u64,
    /// The sums over its steps.
    #[serde(skip)]
    totals: Totals,
    /// The moves of the product.
    #[serde(skip)]
    moves: Option<String>,
}

impl Product {
    pub(super) fn new(plan: &Plan, choice: &Choice, topology: &Topology) -> Product {
        let seconds = |time| Seconds::new(time, topology);
        let chosen = choice.alternatives.first();
        let way = |(place, way): (usize, &Alternative)| Way {
            chosen: place == 0,
            moves: way.moves.clone(),
            time_s: seconds(way.time),
            communication_s: seconds(way.communication),
            compute: seconds(way.time.saturating_sub(way.communication)),
            bytes_received_per_device: way.received.0,
            flops_per_device: way.flops,
            held_bytes_per_device: way.held.0,
            at_least: way.is_bound,
            lost: chosen.filter(|_| place > 0).map(|chosen| lost(chosen, way, topology)),
        };
        let result = plan.program.name(choice.value);
        let routed = |id: &StepId| {
            let step = plan.step(*id);
            let StepOp::Collective(Collective::Reshard { by, .. }) = &step.op else { return None };
            if ![step.value, step.user].contains(&choice.value) {
                return None;
            }
            let chain = by.iter().map(Collective::kind).filter(|kind| kind.sends()).map(CollectiveKind::name);
            let (name, array, time) = (plan.op_name(*id), plan.operand_label(*id, 0), seconds(step.cost.time));
            Some(format!("in the plan, {name}({array}) replaces {}: {time}", chain.format(", ")))
        };
        Product {
            routed: plan.ids().filter_map(|id| routed(&id)).collect(),
            value: choice.value,
            made: made(plan, choice.value),
            case: choice.case,
            ways: choice.alternatives.iter().enumerate().map(way).collect(),
            asked: None,
            pin: choice.pinned.as_ref().zip(chosen).map(|(pinned, chosen)| Pin {
                result: result.clone(),
                pin: pinned.text.clone(),
                time_s: seconds(chosen.time),
                best_time_s: seconds(pinned.best.time),
                best_moves: pinned.best.moves.clone(),
            }),
            result,
        }
    }

    /// Whether it computes the array of this name or a part of its expression.
    pub fn is_of(&self, name: &str) -> bool {
        self.result == name || self.made == name
    }

    /// Adds the plan with the requested alternative.
    ///
    /// - `pin`: the alternative, such as `by gather(B)`.
    /// - `totals`, `theirs`: totals and products of that plan.
    pub fn asked(self, pin: &str, totals: &Totals, theirs: &[Product], topology: &Topology) -> Product {
        let product = theirs.iter().find(|product| product.is_of(&self.result));
        let way = product.and_then(|product| product.ways.first());
        let asked = Asked {
            pin: pin.to_owned(),
            time_s: Seconds::new(totals.time(), topology),
            communication_s: Seconds::new(totals.communication, topology),
            bytes_received_per_device: totals.received().0,
            peak_bytes_per_device: totals.peak().0,
            totals: *totals,
            moves: way.map(Way::moves),
        };
        Product { asked: Some(asked), ..self }
    }

    /// Explains the choice; `chosen` are the totals of the chosen plan.
    pub fn why(&self, chosen: &Totals, topology: &Topology) -> String {
        match &self.asked {
            Some(asked) => self.beside(asked, chosen, topology),
            None => self.ranked(),
        }
    }

    /// Formats the alternatives, ranked, with the reasons against them.
    fn ranked(&self) -> String {
        let mut text = format!("`{}`, case {}: alternatives by cost\n", self.result, self.case);
        for way in &self.ways {
            text.push_str(&way.line());
            writeln!(
                text,
                "      communication {} + compute {}, receives {}, memory {}",
                way.communication_s,
                way.compute,
                Bytes(way.bytes_received_per_device),
                Bytes(way.held_bytes_per_device),
            )
            .expect("a string");
            way.lost.iter().try_for_each(|lost| writeln!(text, "      {lost}")).expect("a string");
        }
        match self.ways.len() {
            0 => writeln!(text, "  {UNRANKED}").expect("a string"),
            1 => text.push_str("  no alternatives\n"),
            _ => {}
        }
        text.extend(self.routed.iter().map(|routed| format!("  {routed}\n")));
        text
    }

    /// Compares the plan with the requested alternative and the chosen plan.
    fn beside(&self, asked: &Asked, ours: &Totals, topology: &Topology) -> String {
        let time = |time| topology.scale.show(time);
        let theirs = &asked.totals;
        let (name, pin, total) = (&self.result, &asked.pin, Seconds::new(ours.time(), topology));
        let (time_s, ratio) = (asked.time_s, asked.time_s.ratio(total));
        let mut text = format!("{name} {pin}: {time_s}, {ratio:.2}x of the chosen plan ({total})\n");
        let rows = [
            ("communication", [theirs, ours].map(|totals| time(totals.communication))),
            ("compute", [theirs, ours].map(|totals| time(totals.compute))),
            ("received", [theirs, ours].map(|totals| totals.received().to_string())),
            ("peak memory", [theirs, ours].map(|totals| totals.peak().to_string())),
        ];
        for (what, [theirs, ours]) in rows {
            writeln!(text, "  {what:<13} {theirs:>9}, chosen {ours}").expect("a string");
        }
        asked.moves.iter().try_for_each(|moves| writeln!(text, "  moves: {moves}")).expect("a string");
        text
    }

    /// Formats `case 3: a contracted dim is sharded alike in both operands`.
    pub(super) fn case(&self) -> String {
        format!("case {}: {}", self.case, CASES[usize::from(self.case - 1)])
    }

    /// Formats its pin: `` `C` is pinned by gather(A): 1.36x the best alternative, .. ``.
    pub(super) fn pinned(&self) -> Option<String> {
        self.pin.as_ref().map(|pin| format!("`{}` is {}", self.result, pin.words()))
    }

    /// Formats its case, its alternatives and its pin.
    pub(super) fn alternatives(&self) -> String {
        let mut text = format!("{} is {}\n", self.result, self.case());
        text.extend(self.ways.iter().map(Way::line));
        text.extend(self.routed.iter().map(|routed| format!("  {routed}\n")));
        self.pin.iter().try_for_each(|pin| writeln!(text, "  {}", pin.words())).expect("a string");
        text
    }
}

/// Why a plan that was chosen for its time with overlap lists no alternatives.
pub const UNRANKED: &str =
    "alternatives are ranked by their time in sequence: `--overlap none` lists those of the plan without overlap";

/// The book's cases.
const CASES: [&str; 4] = [
    "local shards are multiplied without communication",
    "a shared dim is sharded in one operand only",
    "a contracted dim is sharded alike in both operands",
    "one axis shards different result dims in the two operands",
];

impl Way {
    fn line(&self) -> String {
        let sign = if self.chosen { "chosen" } else { "other" };
        format!("  {sign:<7} {:>9}  {}\n", self.time(), self.moves())
    }

    /// Formats its moves.
    pub(super) fn moves(&self) -> String {
        moves(&self.moves)
    }

    /// Formats its time: `>= 3.00 us` if it is a lower bound.
    pub(super) fn time(&self) -> String {
        format!("{}{}", if self.at_least { ">= " } else { "" }, self.time_s)
    }
}

impl Pin {
    /// Formats its cost: `pinned by gather(A): 1.90x the best alternative, 4.00 us with AllGather_X(B[J_X, K])`.
    pub(super) fn words(&self) -> String {
        let (best, moves) = (self.best_time_s, moves(&self.best_moves));
        let beside = if self.time_s.time <= best.time {
            "no alternative is faster".to_owned()
        } else if best.is_negligible() {
            format!("the best alternative takes no time, with {moves}")
        } else {
            format!("{:.2}x the best alternative, {best} with {moves}", self.time_s.ratio(best))
        };
        format!("pinned {}: {beside}", self.pin)
    }
}

fn moves(moves: &[String]) -> String {
    if moves.is_empty() { "no moves".to_owned() } else { moves.join(", ") }
}

/// The array in whose expression a product occurs.
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

/// Explains the largest disadvantage of an alternative against the chosen one.
fn lost(chosen: &Alternative, other: &Alternative, topology: &Topology) -> String {
    let show = |time| topology.scale.show(time);
    let compute = |way: &Alternative| way.time.saturating_sub(way.communication);
    let communication = other.communication.saturating_sub(chosen.communication);
    let computing = compute(other).saturating_sub(compute(chosen));
    if communication == Time::ZERO && computing == Time::ZERO {
        return if other.received > chosen.received {
            format!("receives {} more", Bytes(other.received.0 - chosen.received.0))
        } else {
            "as fast by itself, but the rest of the program is slower".to_owned()
        };
    }
    if computing > communication {
        let times = other.flops as f64 / (chosen.flops.max(1)) as f64;
        return format!("compute {} slower, {times:.2}x the operations", show(computing));
    }
    // Moves of the chosen alternative are no disadvantage.
    let own = || other.moves.iter().zip(&other.costs).filter(|(name, _)| !chosen.moves.contains(name));
    let all = || other.moves.iter().zip(&other.costs);
    let slowest = own().max_by_key(|(_, cost)| cost.time).or_else(|| all().max_by_key(|(_, cost)| cost.time));
    let slowest = slowest.map_or_else(String::new, |(name, cost)| {
        let limit = match cost.limit {
            Limit::Latency => " (latency-bound)",
            Limit::Bandwidth => " (bandwidth-bound)",
            Limit::Free | Limit::Compute | Limit::Memory => "",
        };
        format!("; {name} takes {}{limit}", show(cost.time))
    });
    format!("communication {} slower{slowest}", show(communication))
}
