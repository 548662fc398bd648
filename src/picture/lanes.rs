//! A timeline as text: a lane for each resource, a letter for each step.
//!
//! ```text
//!           0 s                           2.16 us                    4.32 us  busy
//! compute   aaaab··························································    8 %
//! Y up      ·····ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc   92 %
//!
//! a product T, b relu(T), c AllReduce_Y Out
//! ```

use super::terminal::{Paint, colored};
use super::timeline::{Bar, Scope, Timeline};
use crate::units::{Time, TimeScale};
use itertools::Itertools;
use std::fmt::Write as _;

/// Letters of the steps; the last one stands for all further steps.
const SIGNS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789#";
/// Marks idle time.
const IDLE: char = '·';

/// Draws a timeline `width` columns wide. Each column shows the step that takes most of its time.
pub fn lanes(timeline: &Timeline, scale: TimeScale, paint: Paint, width: usize) -> String {
    if timeline.lanes.is_empty() || timeline.makespan == Time::ZERO {
        return "nothing takes any time\n".to_owned();
    }
    let used = timeline.used();
    let colors = timeline.colors();
    let sign = |step: u32| used.iter().position(|known| *known == step).unwrap_or(usize::MAX).min(SIGNS.len() - 1);
    let label = timeline.lanes.iter().map(|lane| lane.kind.chars().count()).max().unwrap_or(0);
    let columns = width.saturating_sub(label + 8).max(10);
    let mut text = format!("{:label$} {}  busy\n", "", ruler(timeline.makespan, columns, scale));
    for lane in &timeline.lanes {
        write!(text, "{:<label$} ", lane.kind).expect("a string");
        let cells = cells(&lane.bars, timeline.makespan, columns);
        for (cell, run) in &cells.iter().chunk_by(|cell| **cell) {
            let length = run.count();
            text.push_str(&match cell {
                None => IDLE.to_string().repeat(length),
                Some(step) => {
                    let signs = char::from(SIGNS[sign(step)]).to_string().repeat(length);
                    colored(&signs, colors[step as usize], paint)
                }
            });
        }
        writeln!(text, " {:>4.0} %", 100.0 * lane.busy.ratio(timeline.makespan)).expect("a string");
    }
    text + "\n" + &legend(timeline, &used, width) + &note(timeline)
}

/// The times at the start, the middle and the end.
fn ruler(makespan: Time, columns: usize, scale: TimeScale) -> String {
    let (middle, end) = (scale.show(Time::from_ticks(makespan.ticks() / 2)), scale.show(makespan));
    let half = columns / 2 - middle.len() / 2;
    let rest = columns - half - middle.len();
    format!("{:<half$}{middle}{end:>rest$}", "0 s")
}

/// The step that takes most of each column; the earlier one of two.
fn cells(bars: &[Bar], makespan: Time, columns: usize) -> Vec<Option<u32>> {
    let (width, total) = (columns as u128, makespan.ticks());
    // Ticks times columns fit: a makespan is far below 2^120 ticks.
    let edge = |column: u128| column.saturating_mul(total) / width;
    let mut cells = vec![None; columns];
    let mut most = vec![0u128; columns];
    for bar in bars {
        let (start, finish) = (bar.start.ticks(), bar.finish.ticks());
        let first = usize::try_from(start.saturating_mul(width) / total).unwrap_or(0).min(columns - 1);
        for column in first..columns {
            let (left, right) = (edge(column as u128), edge(column as u128 + 1));
            if left >= finish {
                break;
            }
            let busy = right.min(finish).saturating_sub(left.max(start));
            if busy > most[column] {
                (most[column], cells[column]) = (busy, Some(bar.step));
            }
        }
    }
    cells
}

/// The letters and the names of their steps.
fn legend(timeline: &Timeline, used: &[u32], width: usize) -> String {
    let entry = |(place, step): (usize, &u32)| format!("{} {}", char::from(SIGNS[place]), timeline.step(*step));
    let named = used.iter().take(SIGNS.len() - 1).enumerate().map(entry);
    let others = used.len().saturating_sub(SIGNS.len() - 1);
    let others = (others > 0).then(|| format!("# {others} others"));
    let mut lines = vec![String::new()];
    for entry in named.chain(others) {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(&entry);
        } else if line.chars().count() + entry.chars().count() + 3 <= width {
            line.push_str(&format!(", {entry}"));
        } else {
            line.push(',');
            lines.push(entry);
        }
    }
    lines.into_iter().map(|line| clipped(&line, width) + "\n").collect()
}

/// A line clipped to `width` columns.
fn clipped(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    line.chars().take(width - 1).chain(['…']).collect()
}

/// A note on the lanes that are drawn.
fn note(timeline: &Timeline) -> String {
    match timeline.scope {
        Scope::Kinds if timeline.lanes.iter().any(|lane| lane.alike > 1) => {
            "each lane is the busiest of its kind\n".to_owned()
        }
        Scope::Kinds | Scope::All => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::OpId;

    /// Bars and columns of all kinds: each column has the step that a count tick by tick finds.
    #[test]
    fn columns_show_what_takes_most_of_them() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..500 {
            let (mut at, mut bars) = (0u128, Vec::new());
            for step in 0..random.u32(1..6) {
                let start = at + random.u128(0..9);
                at = start + random.u128(1..20);
                let [from, to] = [start, at].map(Time::from_ticks);
                bars.push(Bar { operation: OpId::new(0), step, start: from, finish: to });
            }
            let (total, columns) = (at + random.u128(0..9), random.usize(1..12));
            let found = cells(&bars, Time::from_ticks(total), columns);
            for (column, cell) in (0u128..).zip(found) {
                let edge = |column: u128| column * total / columns as u128;
                let ticks = edge(column)..edge(column + 1);
                let busy = |bar: &&Bar| {
                    ticks.clone().filter(|tick| (bar.start.ticks()..bar.finish.ticks()).contains(tick)).count()
                };
                let most =
                    bars.iter().filter(|bar| busy(bar) > 0).max_by_key(|bar| (busy(bar), std::cmp::Reverse(bar.step)));
                assert_eq!(cell, most.map(|bar| bar.step));
            }
        }
    }
}
