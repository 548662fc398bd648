//! What a partitioned module communicates beside a plan, line by line of the model's source.

use super::table;
use crate::audit::{Paid, Place};
use crate::units::{Bytes, show_seconds};
use serde::Serialize;
use std::collections::BTreeMap;

/// Most columns of the description of a move; longer ones are cut.
const WIDEST: usize = 64;

/// Both sides of one line.
#[derive(Default)]
struct Line<'a> {
    module: Vec<&'a Paid>,
    plan: Vec<&'a Paid>,
}

/// A module beside a plan, or alone.
pub struct Audit<'a> {
    /// Lines of the source, those first on which the module receives most.
    lines: Vec<(Option<&'a Place>, Line<'a>)>,
    module: &'a [Paid],
    plan: Option<&'a [Paid]>,
}

impl<'a> Audit<'a> {
    /// - `plan`: the collectives of the plan; `None` if there is only the module.
    pub fn new(module: &'a [Paid], plan: Option<&'a [Paid]>) -> Audit<'a> {
        let mut by_place: BTreeMap<Option<&Place>, Line<'_>> = BTreeMap::new();
        for paid in module {
            by_place.entry(paid.place.as_ref()).or_default().module.push(paid);
        }
        for paid in plan.unwrap_or_default() {
            by_place.entry(paid.place.as_ref()).or_default().plan.push(paid);
        }
        let mut lines: Vec<_> = by_place.into_iter().collect();
        for (_, line) in &mut lines {
            line.module.sort_by_key(|paid| std::cmp::Reverse(paid.received));
            line.plan.sort_by_key(|paid| std::cmp::Reverse(paid.received));
        }
        let of = |line: &Line<'_>| [total(line.module.iter().copied()).0, total(line.plan.iter().copied()).0];
        lines.sort_by_key(|(_, line)| std::cmp::Reverse(of(line)));
        Audit { lines, module, plan }
    }

    /// Bytes of the module over bytes of the plan; infinite if the plan receives nothing.
    pub fn factor(&self) -> Option<f64> {
        let (module, plan) = (total(self.module).0.0, total(self.plan?).0.0);
        Some(match (module, plan) {
            (0, 0) => 1.0,
            (_, 0) => f64::INFINITY,
            (module, plan) => module as f64 / plan as f64,
        })
    }

    /// Formats both sides as a table.
    pub fn text(&self) -> String {
        let mut header = vec!["source", "XLA", "received", "time"];
        header.extend(self.plan.iter().flat_map(|_| ["plan", "received", "time"]));
        let mut table = table::new(header, [2, 3, 5, 6]);
        for (place, line) in &self.lines {
            for row in 0..line.module.len().max(line.plan.len()) {
                let head = place.map_or("-".to_owned(), ToString::to_string);
                let mut cells = vec![if row == 0 { head } else { String::new() }];
                cells.extend(shown(line.module.get(row).copied()));
                cells.extend(self.plan.iter().flat_map(|_| shown(line.plan.get(row).copied())));
                table.add_row(cells);
            }
        }
        let sum = |paid: &[Paid]| {
            let (received, seconds) = total(paid);
            [String::new(), received.to_string(), show_seconds(seconds)]
        };
        let mut totals = vec!["total".to_owned()];
        totals.extend(sum(self.module));
        totals.extend(self.plan.iter().flat_map(|plan| sum(plan)));
        table.add_row(totals);
        let mut text = table::lines(&table);
        let unknown = self.module.iter().filter(|paid| paid.seconds.is_none()).count();
        if unknown > 0 {
            text.push_str(&format!("\n{unknown} without a time: groups that are not those of mesh axes\n"));
        }
        if let Some(factor) = self.factor() {
            let factor = match factor.is_finite() {
                true => format!("{factor:.2}x the bytes of the plan"),
                false => "bytes that the plan does not need".to_owned(),
            };
            text.push_str(&format!("\nby XLA, a device receives {factor}\n"));
        }
        text
    }

    /// Converts both sides to JSON.
    pub fn document(&self, file: &'a str, program: Option<&'a str>) -> AuditDocument<'a> {
        let side = |paid: &'a [Paid]| {
            let (received, time_s) = total(paid);
            SideDocument {
                bytes_received_per_device: received.0,
                time_s,
                collectives: paid.iter().map(moved).collect(),
            }
        };
        AuditDocument {
            schema: "shardc.audit/1",
            file,
            program,
            module: side(self.module),
            plan: self.plan.map(side),
            factor: self.factor().filter(|factor| factor.is_finite()),
        }
    }
}

/// Bytes and seconds of some collectives.
fn total<'p>(paid: impl IntoIterator<Item = &'p Paid>) -> (Bytes, f64) {
    let mut sum = (0u64, 0.0);
    for one in paid {
        sum = (sum.0.saturating_add(one.received.0), sum.1 + one.seconds.unwrap_or_default());
    }
    (Bytes(sum.0), sum.1)
}

/// The cells of a collective.
fn shown(paid: Option<&Paid>) -> [String; 3] {
    let Some(paid) = paid else { return Default::default() };
    let often = if paid.times > 1 { format!(" x {}", paid.times) } else { String::new() };
    let mut name = format!("{}{often}  {}", paid.name, paid.what);
    if let Some((end, _)) = name.char_indices().nth(WIDEST) {
        name.truncate(end);
        name.push_str("..");
    }
    [name, paid.received.to_string(), paid.seconds.map_or("-".to_owned(), show_seconds)]
}

/// An audit as a JSON document.
#[derive(Debug, Serialize)]
pub struct AuditDocument<'a> {
    schema: &'static str,
    file: &'a str,
    program: Option<&'a str>,
    module: SideDocument<'a>,
    plan: Option<SideDocument<'a>>,
    /// Bytes of the module over bytes of the plan; `None` without a plan, and if it receives nothing.
    factor: Option<f64>,
}

#[derive(Debug, Serialize)]
struct SideDocument<'a> {
    bytes_received_per_device: u64,
    time_s: f64,
    collectives: Vec<MovedDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct MovedDocument<'a> {
    name: &'a str,
    what: &'a str,
    times: u64,
    bytes_received_per_device: u64,
    time_s: Option<f64>,
    /// `model.py:12`
    source: Option<String>,
}

fn moved(paid: &Paid) -> MovedDocument<'_> {
    MovedDocument {
        name: &paid.name,
        what: &paid.what,
        times: paid.times,
        bytes_received_per_device: paid.received.0,
        time_s: paid.seconds,
        source: paid.place.as_ref().map(ToString::to_string),
    }
}
