//! Why a product is done as it is: what else could be done, ranked, and what each would lose.

use super::seconds::Seconds;
use crate::plan::{Alternative, Choice, Limit, Plan, Totals};
use crate::program::ValueId;
use crate::topology::Topology;
use crate::units::{Bytes, Time};
use serde::Serialize;
use std::fmt::Write as _;

/// A product with the ways to do it, the chosen one first.
#[derive(Clone, Debug, Serialize)]
pub struct Product {
    /// What it makes.
    #[serde(skip)]
    pub value: ValueId,
    /// The name of the array in whose expression it stands: `h` of `x * W` in `h = relu(x * W)`.
    #[serde(skip)]
    pub made: String,
    result: String,
    case: u8,
    /// The chosen one, then the others.
    pub ways: Vec<Way>,
    /// The plan of a way that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// What its statement asks for.
    #[serde(skip)]
    pub pin: Option<Pin>,
}

/// A way to do a product.
#[derive(Clone, Debug, Serialize)]
pub struct Way {
    chosen: bool,
    moves: Vec<String>,
    /// Of all of it, by itself.
    pub time_s: Seconds,
    communication_s: Seconds,
    bytes_received_per_device: u64,
    flops_per_device: u128,
    held_bytes_per_device: u64,
    /// Whether the times are bounds.
    at_least: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
    #[serde(skip)]
    compute: Seconds,
}

/// What a statement asks for, beside the cheapest way that there would be.
#[derive(Clone, Debug, Serialize)]
pub struct Pin {
    result: String,
    pin: String,
    time_s: Seconds,
    best_time_s: Seconds,
    best_moves: Vec<String>,
}

/// The plan of the whole program in which a product is done in the way that is asked for.
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
    /// What moves for the product.
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
        Product {
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

    /// Whether it makes the array of this name, or stands in the middle of its expression.
    pub fn is_of(&self, name: &str) -> bool {
        self.result == name || self.made == name
    }

    /// The same with the plan of a way that is asked for.
    ///
    /// - `pin`: `by gather(B)`
    /// - `totals`, `theirs`: of that plan, and its products
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

    /// Why it is done so, beside the plan that was chosen with its totals.
    pub fn why(&self, chosen: &Totals, topology: &Topology) -> String {
        match &self.asked {
            Some(asked) => self.beside(asked, chosen, topology),
            None => self.ranked(),
        }
    }

    /// The way that was chosen, then the others with what they lose.
    fn ranked(&self) -> String {
        let mut text = format!("why {}, case {}\n", self.result, self.case);
        for way in &self.ways {
            text.push_str(&way.line());
            writeln!(
                text,
                "      communication {} + compute {}, receives {}, holds {} for one step",
                way.communication_s,
                way.compute,
                Bytes(way.bytes_received_per_device),
                Bytes(way.held_bytes_per_device),
            )
            .expect("a string");
            way.lost.iter().try_for_each(|lost| writeln!(text, "      {lost}")).expect("a string");
        }
        if self.ways.len() == 1 {
            text.push_str("  there is no other way\n");
        }
        text
    }

    /// The plan with the way that was asked for, beside the plan that was chosen.
    fn beside(&self, asked: &Asked, ours: &Totals, topology: &Topology) -> String {
        let time = |time| topology.scale.show(time);
        let theirs = &asked.totals;
        let (name, pin, total) = (&self.result, &asked.pin, Seconds::new(ours.time(), topology));
        let (time_s, ratio) = (asked.time_s, asked.time_s.ratio(total));
        let mut text = format!("{name} {pin}: the plan takes {time_s}, {ratio:.2}x of {total}\n");
        let rows = [
            ("communication", [theirs, ours].map(|totals| time(totals.communication))),
            ("compute", [theirs, ours].map(|totals| time(totals.compute))),
            ("received", [theirs, ours].map(|totals| totals.received().to_string())),
            ("held", [theirs, ours].map(|totals| totals.peak().to_string())),
        ];
        for (what, [theirs, ours]) in rows {
            writeln!(text, "  {what:<13} {theirs:>9}, chosen {ours}").expect("a string");
        }
        asked.moves.iter().try_for_each(|moves| writeln!(text, "  it goes {moves}")).expect("a string");
        text
    }

    /// `case 3: a contracted dim is sharded alike in both`
    pub(super) fn case(&self) -> String {
        format!("case {}: {}", self.case, CASES[usize::from(self.case - 1)])
    }

    /// Its case and its ways, a line each, and what a pin costs.
    pub(super) fn alternatives(&self) -> String {
        let mut text = format!("{} is {}\n", self.result, self.case());
        text.extend(self.ways.iter().map(Way::line));
        self.pin.iter().try_for_each(|pin| writeln!(text, "  {}", pin.words())).expect("a string");
        text
    }
}

/// The book's cases in a line each.
const CASES: [&str; 4] = [
    "local blocks can be multiplied as they are",
    "a dim on which the operands meet is sharded in one of them only",
    "a contracted dim is sharded alike in both",
    "an axis shards different dims of the result in both operands",
];

impl Way {
    fn line(&self) -> String {
        let sign = if self.chosen { "chosen" } else { "instead" };
        format!("  {sign:<7} {:>9}  {}\n", self.time(), self.moves())
    }

    /// What moves, for people.
    pub(super) fn moves(&self) -> String {
        moves(&self.moves)
    }

    /// Its time, for people: `>= 3.00 us` where that is a bound.
    pub(super) fn time(&self) -> String {
        format!("{}{}", if self.at_least { ">= " } else { "" }, self.time_s)
    }
}

impl Pin {
    /// What it costs: `pinned by gather(A): 1.90x of the best, which is 4.00 us with AllGather_X(B[J_X, K])`.
    pub(super) fn words(&self) -> String {
        let (best, moves) = (self.best_time_s, moves(&self.best_moves));
        let beside = if self.time_s.time <= best.time {
            "no other way is faster".to_owned()
        } else if best.is_next_to_nothing() {
            format!("the best takes no time, with {moves}")
        } else {
            format!("{:.2}x of the best, which is {best} with {moves}", self.time_s.ratio(best))
        };
        format!("pinned {}: {beside}", self.pin)
    }
}

fn moves(moves: &[String]) -> String {
    if moves.is_empty() { "no move".to_owned() } else { moves.join(", ") }
}

/// The name of the array in whose expression a product stands.
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

/// The term in which a way is worst against the chosen one, and what limits it there.
fn lost(chosen: &Alternative, other: &Alternative, topology: &Topology) -> String {
    let show = |time| topology.scale.show(time);
    let compute = |way: &Alternative| way.time.saturating_sub(way.communication);
    let communication = other.communication.saturating_sub(chosen.communication);
    let computing = compute(other).saturating_sub(compute(chosen));
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
