//! Snapshot files: the lowered form of a program as text, to read, compare and commit.
//!
//! ```text
//! # snapshot of `mlp.shard`; update with `shardc snapshot --accept`
//! machine     8 devices on tpu_v5e: Y is a ring of 8 (45.0 GB/s each way)
//! time        4323634 ps
//! collective  AllReduce_Y: Out[B, D]{U_Y} -> Out[B, D], 57344 bytes, broadcast
//!
//! mesh {Y: 8 ring}
//! ..
//! ```
//!
//! The schedule follows the head, in the form that `shardc prove` reads.

use super::{Findings, text};
use crate::compiler::Compiled;
use crate::escape;
use crate::sim::clock::Timing;
use crate::units::{Time, show_seconds};
use similar::{ChangeTag, TextDiff};
use std::fmt::Write as _;

/// Suffix of a snapshot file, after the name of the program file.
pub const SUFFIX: &str = ".snapshot";

/// Picoseconds per second.
const PICOSECONDS: f64 = 1e12;

/// Formats the snapshot of a program.
///
/// - `name`: the program file, without its folder.
/// - `options`: the command-line options, such as `--costs book`.
pub fn snapshot(name: &str, options: &str, compiled: &Compiled, timing: &Timing) -> String {
    let Compiled { topology, plan, schedule, .. } = compiled;
    let findings = Findings::new(plan, topology);
    let (name, options) = (escape::line(name), escape::line(options));
    let mut text = format!("# snapshot of `{name}`; update with `shardc snapshot --accept`\n");
    for line in text::machine(topology, false).lines() {
        writeln!(text, "machine     {line}").expect("a string");
    }
    if !options.is_empty() {
        writeln!(text, "options     {options}").expect("a string");
    }
    if timing.makespan > Time::ZERO {
        writeln!(text, "time        {} ps", topology.scale.whole_picoseconds(timing.makespan)).expect("a string");
    }
    for step in findings.steps.iter().filter(|step| plan.communicates(step.id)) {
        // Not the labels, which have lines of the source.
        let layouts = format!("{} -> {}", step.operands.join(", "), step.result);
        let (name, bytes, how) = (&step.name, step.bytes_received().0, &step.how);
        writeln!(text, "collective  {name}: {layouts}, {bytes} bytes, {how}").expect("a string");
    }
    format!("{text}\n{schedule}")
}

/// The differences between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Removed and added lines of the head, without the time.
    pub head: Vec<(Side, String)>,
    /// Time before and after in picoseconds, if known.
    pub time: (Option<u64>, Option<u64>),
    /// Numbers of removed and added lines of the schedule.
    pub schedule: (usize, usize),
}

/// The snapshot that has a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Only in the old snapshot.
    Went,
    /// Only in the new one.
    Came,
}

/// Compares two snapshots; `None` if they are equal up to line endings.
pub fn compare(before: &str, after: &str) -> Option<Change> {
    let [before, after] = [before, after].map(|text| text.replace("\r\n", "\n"));
    if before == after {
        return None;
    }
    let (old, new) = (Parts::of(&before), Parts::of(&after));
    let mut schedule = (0, 0);
    for (side, _) in differences(&old.schedule, &new.schedule) {
        match side {
            Side::Went => schedule.0 += 1,
            Side::Came => schedule.1 += 1,
        }
    }
    Some(Change { head: differences(&old.head, &new.head), time: (old.time, new.time), schedule })
}

/// The parts of a snapshot.
struct Parts<'a> {
    head: Vec<&'a str>,
    time: Option<u64>,
    schedule: Vec<&'a str>,
}

impl Parts<'_> {
    fn of(text: &str) -> Parts<'_> {
        let (head, schedule) = text.split_once("\n\n").unwrap_or((text, ""));
        let (time, head): (Vec<&str>, Vec<&str>) = head.lines().partition(|line| line.starts_with("time "));
        let picoseconds = |line: &&str| line.strip_prefix("time ")?.trim().strip_suffix(" ps")?.parse().ok();
        Parts { time: time.first().and_then(picoseconds), head, schedule: schedule.lines().collect() }
    }
}

fn differences(old: &[&str], new: &[&str]) -> Vec<(Side, String)> {
    let changes = TextDiff::from_slices(old, new);
    let side = |tag| match tag {
        ChangeTag::Equal => None,
        ChangeTag::Delete => Some(Side::Went),
        ChangeTag::Insert => Some(Side::Came),
    };
    changes.iter_all_changes().filter_map(|change| Some((side(change.tag())?, change.value().to_owned()))).collect()
}

impl Change {
    /// Formats the differences, indented.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (side, line) in &self.head {
            let sign = match side {
                Side::Went => '-',
                Side::Came => '+',
            };
            writeln!(text, "  {sign} {line}").expect("a string");
        }
        let show =
            |time: Option<u64>| time.map_or_else(|| "none".to_owned(), |time| show_seconds(time as f64 / PICOSECONDS));
        let (before, after) = (show(self.time.0), show(self.time.1));
        match self.time {
            (Some(old), Some(new)) if old == new => writeln!(text, "    time        {after}, unchanged"),
            (Some(old), Some(new)) if old > 0 => {
                writeln!(text, "    time        {before} -> {after} ({:.2}x)", new as f64 / old as f64)
            }
            _ => writeln!(text, "    time        {before} -> {after}"),
        }
        .expect("a string");
        match self.schedule {
            (0, 0) => writeln!(text, "    schedule    unchanged"),
            (went, came) => writeln!(text, "    schedule    +{came} -{went} lines"),
        }
        .expect("a string");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "# a\nmachine     m\ntime        2000000 ps\ncollective  AllReduce_X: A\n\nmesh\n%0\n%1\n";

    #[test]
    fn changes_are_formatted() {
        let new = OLD.replace("AllReduce_X", "ReduceScatter_X").replace("2000000", "3000000").replace("%1", "%1\n%2");
        let change = compare(OLD, &new).expect("another one");
        assert_eq!(
            change.text(),
            "  - collective  AllReduce_X: A\n  + collective  ReduceScatter_X: A\n    \
             time        2.00 us -> 3.00 us (1.50x)\n    schedule    +1 -0 lines\n"
        );
    }

    /// Every change of a snapshot is noticed, except of line endings.
    #[test]
    fn every_change_is_seen() {
        assert_eq!(compare(OLD, OLD), None);
        assert_eq!(compare(&OLD.replace('\n', "\r\n"), OLD), None);
        for (at, _) in OLD.char_indices() {
            for text in [format!("{}{}", &OLD[..at], &OLD[at + 1..]), format!("{}z{}", &OLD[..at], &OLD[at..])] {
                let change = compare(&text, OLD).unwrap_or_else(|| panic!("{text}"));
                assert!(change.text().contains("time"), "{text}");
            }
        }
        assert!(compare("", OLD).is_some_and(|change| change.time.0.is_none()));
        assert!(compare("time 99999999999999999999 ps", OLD).is_some());
    }
}
