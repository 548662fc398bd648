//! Constants of messages, from times of whole collectives.
//!
//! A library sends AllGathers, ReduceScatters and AllReduces around a ring, and AllToAlls directly. So with `t(b)` for a
//! message of `b` bytes, `V` bytes of an array and `n` devices
//!
//! - AllGather and ReduceScatter take `start + (n - 1) t(V/n)`, AllReduce twice as many messages,
//! - AllToAll takes `start + (n - 2) b/w + t(b)`, with `b = V/n²`: but for the last, messages wait for the port only,
//!
//! where `t(b)` is the least of `latency + b/rate` over protocols, and `w` the highest of the rates. The simulated links
//! say the same of the schedules of these methods.

use super::search::{best_of, loss_of};
use super::table::Collective;
use super::{Errors, nearest_rate};
use crate::collective::CollectiveKind;
use crate::topology::{Measured, Messages, Protocol, Traffic};
use itertools::Itertools;
use std::collections::BTreeMap;

/// So many protocols; with more, sizes between those that were measured are not met better.
const PROTOCOLS: usize = 3;

/// Constants and how well they fit.
#[derive(Clone, Debug)]
pub struct Fit {
    /// For each number of devices that was measured.
    pub measured: Vec<Measured>,
    /// Of each measurement, by its collective and its devices, with the constants of all.
    pub errors: BTreeMap<(CollectiveKind, u32), Errors>,
    /// The same with the constants that all other sizes give.
    pub left_out: BTreeMap<(CollectiveKind, u32), Errors>,
}

/// What `t(b)` stands for in a measurement, and how often.
#[derive(Clone, Copy, Debug)]
struct Term {
    /// Messages one after the other.
    messages: f64,
    /// Bytes of one.
    bytes: f64,
    /// Messages that only keep a port busy.
    waiting: f64,
    /// What was measured, in microseconds.
    measured: f64,
}

impl Term {
    fn of(row: &Collective) -> Term {
        let (n, bytes, measured) = (f64::from(row.devices), row.bytes as f64, row.microseconds);
        match row.kind {
            CollectiveKind::AllToAll => Term { messages: 1.0, bytes: bytes / n / n, waiting: n - 2.0, measured },
            CollectiveKind::AllReduce => Term { messages: 2.0 * (n - 1.0), bytes: bytes / n, waiting: 0.0, measured },
            _ => Term { messages: n - 1.0, bytes: bytes / n, waiting: 0.0, measured },
        }
    }

    /// With constants in microseconds and bytes a microsecond.
    fn predicted(self, constants: &[f64]) -> f64 {
        let (start, protocols) = constants.split_first().expect("a start");
        let (latencies, rates) = protocols.split_at(protocols.len() / 2);
        let times = latencies.iter().zip(rates).map(|(latency, rate)| latency + self.bytes / rate);
        let fastest = rates.iter().copied().fold(0.0, f64::max);
        start + self.messages * times.fold(f64::INFINITY, f64::min) + self.waiting * self.bytes / fastest
    }
}

/// The traffic that a collective is.
fn traffic(kind: CollectiveKind) -> Traffic {
    if kind == CollectiveKind::AllToAll { Traffic::Exchange } else { Traffic::Collective }
}

/// Searches for the constants of each number of devices.
///
/// Where only collectives or only exchanges were measured, the others get the same figures.
pub fn fit(rows: &[Collective]) -> Fit {
    let mut fit = Fit { measured: Vec::new(), errors: BTreeMap::new(), left_out: BTreeMap::new() };
    for devices in rows.iter().map(|row| row.devices).sorted().dedup() {
        let own = |traffic_is: Traffic| {
            let of = rows.iter().filter(|row| row.devices == devices && traffic(row.kind) == traffic_is);
            of.cloned().collect::<Vec<Collective>>()
        };
        let [collectives, exchanges] = [Traffic::Collective, Traffic::Exchange].map(own);
        for rows in [&collectives, &exchanges] {
            let Some(all) = messages(rows) else { continue };
            fit.errors.extend(errors(rows, |_| Some(all.clone())));
            // What a size says of itself is left out.
            let sizes: Vec<u64> = rows.iter().map(|row| row.bytes).sorted().dedup().collect();
            let without = |size: &u64| messages(&rows.iter().filter(|row| row.bytes != *size).cloned().collect_vec());
            let without: BTreeMap<u64, Option<Messages>> = sizes.iter().map(|size| (*size, without(size))).collect();
            fit.left_out.extend(errors(rows, |row| without[&row.bytes].clone()));
        }
        let [collectives, exchanges] = [messages(&collectives), messages(&exchanges)];
        let measured = match (collectives, exchanges) {
            (Some(collectives), Some(exchanges)) => Measured { devices, collectives, exchanges },
            (Some(one), None) | (None, Some(one)) => Measured { devices, collectives: one.clone(), exchanges: one },
            (None, None) => continue,
        };
        fit.measured.push(measured);
    }
    fit
}

/// How far measurements are off, by collective and devices.
///
/// - `measured`: constants, such as those of a profile.
pub fn errors_of(rows: &[Collective], measured: &[Measured]) -> BTreeMap<(CollectiveKind, u32), Errors> {
    let of =
        |row: &Collective| Some(Measured::of(measured, u64::from(row.devices))?.messages(traffic(row.kind)).clone());
    errors(rows, of)
}

fn errors(
    rows: &[Collective],
    constants: impl Fn(&Collective) -> Option<Messages>,
) -> BTreeMap<(CollectiveKind, u32), Errors> {
    let mut found: BTreeMap<(CollectiveKind, u32), Vec<f64>> = BTreeMap::new();
    for row in rows {
        let Some(constants) = constants(row) else { continue };
        let predicted = Term::of(row).predicted(&numbers(&constants));
        found.entry((row.kind, row.devices)).or_default().push((predicted / row.microseconds - 1.0).abs());
    }
    found.into_iter().map(|(key, errors)| (key, Errors::new(errors))).collect()
}

/// The constants that fit best; none if there are no measurements.
fn messages(rows: &[Collective]) -> Option<Messages> {
    let terms: Vec<Term> = rows.iter().map(Term::of).collect();
    let shortest = terms.iter().map(|term| term.measured).min_by(f64::total_cmp)?;
    let moved = |term: &Term| term.bytes * (term.messages + term.waiting) / term.measured;
    let fastest = terms.iter().map(moved).max_by(f64::total_cmp)?;
    let loss = |constants: &[f64]| loss_of(terms.iter().map(|term| term.predicted(constants) / term.measured));
    let starts: Vec<Vec<f64>> = [0.3, 0.6, 0.9]
        .into_iter()
        .cartesian_product([(0.01, 0.1), (0.03, 0.5), (0.3, 0.7)])
        .cartesian_product([1.5, 4.0])
        .map(|((share, (slow, middle)), growth)| {
            let latency = shortest * 0.15;
            let latencies = [latency, latency * growth, latency * growth * growth];
            let rates = [fastest * slow, fastest * middle, fastest * 1.05];
            [&[shortest * share], &latencies[..PROTOCOLS], &rates[..PROTOCOLS]].concat()
        })
        .collect();
    let found = best_of(&starts, loss);
    Some(rounded(&found))
}

/// In base units, without protocols that no message takes.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few microseconds")]
fn rounded(constants: &[f64]) -> Messages {
    let nanoseconds = |microseconds: f64| (microseconds * 100.0).round() as u64 * 10_000;
    let (latencies, rates) = constants[1..].split_at(constants.len() / 2);
    let all = latencies
        .iter()
        .zip(rates)
        .map(|(latency, rate)| Protocol { latency: nanoseconds(*latency), one_way: nearest_rate(rate * 1e6) });
    // Of those with more latency only what is faster is ever taken.
    let mut protocols: Vec<Protocol> = Vec::new();
    for protocol in all.sorted_by_key(|protocol| (protocol.latency, std::cmp::Reverse(protocol.one_way))) {
        if protocols.last().is_none_or(|last| last.one_way < protocol.one_way) {
            protocols.push(protocol);
        }
    }
    Messages { start: nanoseconds(constants[0]), protocols }
}

/// The other way round.
fn numbers(messages: &Messages) -> Vec<f64> {
    let latencies = messages.protocols.iter().map(|protocol| protocol.latency as f64 / 1e6);
    let rates = messages.protocols.iter().map(|protocol| protocol.one_way.per_second() as f64 / 1e6);
    std::iter::once(messages.start as f64 / 1e6).chain(latencies).chain(rates).collect()
}
