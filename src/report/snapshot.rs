//! What a program is lowered to, kept beside it: a text to be read, compared and committed.
//!
//! ```text
//! # what `mlp.shard` is lowered to; `shardc snapshot --accept` takes what it has become
//! machine     8 devices on tpu_v5e: Y is a ring of 8 (45.0 GB/s each way)
//! time        4323634 ps
//! collective  AllReduce_Y: Out[B, D]{U_Y} -> Out[B, D], 57344 bytes, broadcast
//!
//! mesh {Y: 8 ring}
//! ..
//! ```
//!
//! The schedule stands below the head, in the form that `shardc prove` reads.

use super::{Findings, text};
use crate::compiler::Compiled;
use crate::escape;
use crate::sim::clock::Timing;
use crate::units::show_seconds;
use similar::{ChangeTag, TextDiff};
use std::fmt::Write as _;

/// Added to the name of a program's file.
pub const SUFFIX: &str = ".snapshot";

/// Picoseconds of a second.
const PICOSECONDS: f64 = 1e12;

/// The snapshot of a program.
///
/// - `name`: the file of the program, without its folder.
/// - `options`: what was asked for beside the program, such as `--costs book`.
pub fn snapshot(name: &str, options: &str, compiled: &Compiled, timing: &Timing) -> String {
    let Compiled { topology, plan, schedule, .. } = compiled;
    let findings = Findings::new(plan, topology);
    let (name, options) = (escape::line(name), escape::line(options));
    let mut text = format!("# what `{name}` is lowered to; `shardc snapshot --accept` takes what it has become\n");
    for line in text::machine(topology, false).lines() {
        writeln!(text, "machine     {line}").expect("a string");
    }
    if !options.is_empty() {
        writeln!(text, "options     {options}").expect("a string");
    }
    writeln!(text, "time        {} ps", topology.scale.whole_picoseconds(timing.makespan)).expect("a string");
    for step in findings.steps.iter().filter(|step| plan.communicates(step.id)) {
        let (name, layouts, bytes, how) = (&step.name, &step.layouts, step.bytes_received().0, &step.how);
        writeln!(text, "collective  {name}: {layouts}, {bytes} bytes, {how}").expect("a string");
    }
    format!("{text}\n{schedule}")
}

/// What is different in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Lines of the head, the time left out: what went, and what came.
    pub head: Vec<(Side, String)>,
    /// Picoseconds before, if that is known, and after.
    pub time: (Option<u64>, Option<u64>),
    /// How many lines of the schedule went, and how many came.
    pub schedule: (usize, usize),
}

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Only in the old snapshot.
    Went,
    /// Only in the new one.
    Came,
}

/// Compares two snapshots; `None` if they say the same. How lines end plays no role.
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
    /// For people, indented: what went, what came, and the time before and after.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (side, line) in &self.head {
            let sign = match side {
                Side::Went => '-',
                Side::Came => '+',
            };
            writeln!(text, "  {sign} {line}").expect("a string");
        }
        let show = |time: Option<u64>| {
            time.map_or_else(|| "unknown".to_owned(), |time| show_seconds(time as f64 / PICOSECONDS))
        };
        let (before, after) = (show(self.time.0), show(self.time.1));
        match self.time {
            (Some(old), Some(new)) if old == new => writeln!(text, "    time        {after}, as before"),
            (Some(old), Some(new)) if old > 0 => {
                writeln!(text, "    time        {before} before, {after} now: {:.2}x", new as f64 / old as f64)
            }
            _ => writeln!(text, "    time        {before} before, {after} now"),
        }
        .expect("a string");
        match self.schedule {
            (0, 0) => writeln!(text, "    schedule    as before"),
            (went, came) => writeln!(text, "    schedule    {went} lines went, {came} came"),
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
    fn what_went_and_what_came() {
        let new = OLD.replace("AllReduce_X", "ReduceScatter_X").replace("2000000", "3000000").replace("%1", "%1\n%2");
        let change = compare(OLD, &new).expect("another one");
        assert_eq!(
            change.text(),
            "  - collective  AllReduce_X: A\n  + collective  ReduceScatter_X: A\n    \
             time        2.00 us before, 3.00 us now: 1.50x\n    schedule    0 lines went, 1 came\n"
        );
    }

    /// Whatever is written into a snapshot is noticed, but for how its lines end.
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
