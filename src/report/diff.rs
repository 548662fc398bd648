//! Comparison of two plans: figures, layouts and communication.

use super::{Findings, table};
use crate::plan::Plan;
use crate::sweep::{Figures, figures};
use crate::topology::Topology;
use crate::units::show_seconds;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One of two plans.
struct Side {
    name: String,
    figures: Figures,
    /// Arrays with layouts, by name: `x[B_X, D]`.
    arrays: BTreeMap<String, String>,
    /// Communication steps and their counts: `AllGather_X x[B_X, D] -> x[B, D]`.
    moves: BTreeMap<String, usize>,
}

impl Side {
    fn new(name: &str, plan: &Plan, topology: &Topology) -> Side {
        let findings = Findings::new(plan, topology);
        let mut moves = BTreeMap::new();
        for step in findings.steps.iter().filter(|step| plan.communicates(step.id)) {
            *moves.entry(format!("{} {}", step.name, step.layouts)).or_default() += 1;
        }
        let own = plan.own_layouts();
        let inputs = plan.ids().filter(|id| plan.step(*id).op == crate::plan::StepOp::Input);
        let arrays = own.iter().copied().chain(inputs);
        let arrays = arrays.map(|id| (plan.program.name(plan.step(id).value), plan.array(id))).collect();
        Side { name: name.to_owned(), figures: figures(plan, topology), arrays, moves }
    }
}

/// Two plans, compared.
pub struct Difference {
    sides: [Side; 2],
}

/// A figure of both plans.
#[derive(Debug, Serialize)]
struct Row {
    what: &'static str,
    values: [f64; 2],
    #[serde(skip)]
    shown: [String; 2],
}

impl Difference {
    /// Compares two plans, each given with its name and its topology.
    pub fn new(first: (&str, &Plan, &Topology), second: (&str, &Plan, &Topology)) -> Difference {
        Difference { sides: [first, second].map(|(name, plan, topology)| Side::new(name, plan, topology)) }
    }

    fn rows(&self) -> Vec<Row> {
        let [first, second] = &self.sides;
        let both = [&first.figures, &second.figures];
        let of = |what, value: fn(&Figures) -> f64, show: fn(f64) -> String| {
            let values = both.map(value);
            Row { what, values, shown: values.map(show) }
        };
        let bytes = |value: f64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "converted from a number of bytes"
            )]
            crate::units::Bytes(value as u64).to_string()
        };
        vec![
            of("devices", |figures| figures.devices as f64, |value| value.to_string()),
            of("time", |figures| figures.time, show_seconds),
            of("exposed", |figures| figures.exposed, show_seconds),
            of("compute", |figures| figures.compute, show_seconds),
            of("communication", |figures| figures.communication, show_seconds),
            of("received", |figures| figures.received.0 as f64, bytes),
            of("held", |figures| figures.held.0 as f64, bytes),
            of("utilised", |figures| figures.utilisation, |value| format!("{:.1} %", 100.0 * value)),
        ]
    }

    /// The arrays whose layouts differ.
    fn arrays(&self) -> impl Iterator<Item = [&str; 2]> {
        let [first, second] = &self.sides;
        let both = first.arrays.iter().filter_map(|(name, array)| Some([array.as_str(), second.arrays.get(name)?]));
        both.filter(|[first, second]| first != second)
    }

    /// Communication steps that one plan has more often than the other.
    fn moves(&self, side: usize) -> Vec<(&str, usize)> {
        let (own, other) = (&self.sides[side].moves, &self.sides[1 - side].moves);
        let more = |(name, count): (&'_ String, &usize)| count.saturating_sub(*other.get(name).unwrap_or(&0));
        own.iter().map(|entry| (entry.0.as_str(), more(entry))).filter(|(_, count)| *count > 0).collect()
    }

    /// Formats the comparison as text.
    pub fn text(&self) -> String {
        let mut table = table::new(["", &self.sides[0].name, &self.sides[1].name, ""], 1..4);
        // Figures that are zero in both plans say nothing.
        let rows = self.rows().into_iter().filter(|row| row.values != [0.0; 2]);
        for Row { what, values: [first, second], shown: [left, right] } in rows {
            let ratio = if first == second || first == 0.0 { String::new() } else { format!("{:.2}x", second / first) };
            table.add_row([label(what).to_owned(), left, right, ratio]);
        }
        let mut text = table::lines(&table);
        for (place, [first, second]) in self.arrays().enumerate() {
            let head = if place == 0 { "\ndifferent layouts\n" } else { "" };
            writeln!(text, "{head}  {first} -> {second}").expect("a string");
        }
        for (side, sign) in [(0, '-'), (1, '+')] {
            for (place, (name, count)) in self.moves(side).into_iter().enumerate() {
                let head = format!("\ncommunication only in {}\n", self.sides[side].name);
                let head = if place == 0 { head.as_str() } else { "" };
                let often = if count > 1 { format!(" (x {count})") } else { String::new() };
                writeln!(text, "{head}{sign} {name}{often}").expect("a string");
            }
        }
        if self.arrays().next().is_none() && (0..2).all(|side| self.moves(side).is_empty()) {
            text.push_str("\nsame layouts, same communication\n");
        }
        text
    }

    /// Converts the comparison to JSON.
    pub fn document(&self) -> DifferenceDocument<'_> {
        let [first, second] = &self.sides;
        let moves = |side| self.moves(side).into_iter().map(|(name, count)| MoveDocument { name, count }).collect();
        DifferenceDocument {
            schema: "shardc.diff/1",
            files: [&first.name, &second.name],
            figures: self.rows(),
            arrays: self.arrays().collect(),
            went: moves(0),
            came: moves(1),
        }
    }
}

/// The name of a figure in the text form.
fn label(what: &'static str) -> &'static str {
    match what {
        "held" => "peak memory",
        "utilised" => "utilisation",
        other => other,
    }
}

/// JSON document `shardc.diff/1`.
#[derive(Debug, Serialize)]
pub struct DifferenceDocument<'a> {
    schema: &'static str,
    files: [&'a str; 2],
    figures: Vec<Row>,
    arrays: Vec<[&'a str; 2]>,
    went: Vec<MoveDocument<'a>>,
    came: Vec<MoveDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct MoveDocument<'a> {
    name: &'a str,
    count: usize,
}
