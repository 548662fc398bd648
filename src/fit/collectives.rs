//! Fits the constants of messages to measured times of whole collectives.
//!
//! The model assumes that a library runs AllGathers, ReduceScatters and AllReduces around a ring, and AllToAlls
//! directly. With `t(b)` for a message of `b` bytes, `V` bytes of an array and `n` devices:
//!
//! - AllGather and ReduceScatter take `start + (n - 1) t(V/n)`; AllReduce sends twice as many messages.
//! - AllToAll takes `start + (n - 2) b/w + t(b)`, with `b = V/n²`: all messages but the last only occupy the port.
//! - AllReduce of floats may take `start + t(V)` instead, with separate protocols, if the switch reduces.
//!
//! `t(b)` is the minimum of `latency + b/rate` over the protocols, and `w` is the highest rate. The simulated links
//! give the same times for the schedules of these methods.

use super::search::{best_of, loss_of};
use super::table::Collective;
use super::{Errors, nearest_rate};
use crate::collective::CollectiveKind;
use crate::topology::{Measured, Messages, Protocol, Traffic};
use itertools::Itertools;
use std::collections::BTreeMap;

/// Number of protocols. More do not improve predictions for sizes between the measured ones.
const PROTOCOLS: usize = 3;

/// Fitted constants and their errors.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Constants for each measured number of devices.
    pub measured: Vec<Measured>,
    /// Errors of all measurements, by collective and devices.
    pub errors: BTreeMap<(CollectiveKind, u32), Errors>,
    /// The same errors when each size is predicted with constants fitted to the other sizes.
    pub left_out: BTreeMap<(CollectiveKind, u32), Errors>,
}

/// How `t(b)` enters a measured time.
#[derive(Clone, Copy, Debug)]
struct Term {
    /// Number of sequential messages.
    messages: f64,
    /// Bytes per message.
    bytes: f64,
    /// Number of messages that only occupy a port.
    waiting: f64,
    /// Measured time in microseconds.
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

    /// The term of a reduction in the switch.
    fn in_switch(row: &Collective) -> Term {
        Term { messages: 1.0, bytes: row.bytes as f64, waiting: 0.0, measured: row.microseconds }
    }

    /// The predicted time, with constants in microseconds and bytes per microsecond.
    fn predicted(self, constants: &[f64]) -> f64 {
        let (start, protocols) = constants.split_first().expect("a start");
        let (latencies, rates) = protocols.split_at(protocols.len() / 2);
        let times = latencies.iter().zip(rates).map(|(latency, rate)| latency + self.bytes / rate);
        let fastest = rates.iter().copied().fold(0.0, f64::max);
        start + self.messages * times.fold(f64::INFINITY, f64::min) + self.waiting * self.bytes / fastest
    }
}

/// The traffic kind of a collective.
fn traffic(kind: CollectiveKind) -> Traffic {
    if kind == CollectiveKind::AllToAll { Traffic::Exchange } else { Traffic::Collective }
}

/// The switch is taken to reduce if the largest AllReduce of floats takes at most this fraction of the time for
/// integers, which no switch reduces.
const ADDS: f64 = 0.9;

/// Fits the constants for each number of devices.
///
/// If only collectives, or only exchanges, were measured, both get the same constants.
pub fn fit(rows: &[Collective]) -> Fit {
    let mut fit = Fit { measured: Vec::new(), errors: BTreeMap::new(), left_out: BTreeMap::new() };
    for devices in rows.iter().map(|row| row.devices).sorted().dedup() {
        let own = rows.iter().filter(|row| row.devices == devices).cloned().collect_vec();
        let Some(measured) = constants(devices, &own) else { continue };
        let sizes = own.iter().map(|row| (traffic(row.kind) == Traffic::Exchange, row.bytes)).sorted().dedup();
        let mut left_out: BTreeMap<CollectiveKind, Vec<f64>> = BTreeMap::new();
        for (is_exchange, bytes) in sizes {
            let is_it =
                |row: &&Collective| row.bytes == bytes && (traffic(row.kind) == Traffic::Exchange) == is_exchange;
            let others = own.iter().filter(|row| !is_it(row)).cloned().collect_vec();
            let Some(others) = constants(devices, &others) else { continue };
            for row in own.iter().filter(is_it) {
                left_out.entry(row.kind).or_default().push(error(&others, row));
            }
        }
        fit.left_out.extend(left_out.into_iter().map(|(kind, errors)| ((kind, devices), Errors::new(errors))));
        fit.measured.push(measured);
    }
    fit.errors = errors_of(rows, &fit.measured);
    fit
}

/// The errors of predictions, by collective and devices.
///
/// - `measured`: constants, such as those of a profile.
pub fn errors_of(rows: &[Collective], measured: &[Measured]) -> BTreeMap<(CollectiveKind, u32), Errors> {
    let of = |row: &Collective| {
        let measured = Measured::of(measured, u64::from(row.devices))?;
        Some(((row.kind, row.devices), error(measured, row)))
    };
    let found = rows.iter().filter_map(of).into_group_map();
    found.into_iter().map(|(key, errors)| (key, Errors::new(errors))).collect()
}

fn error(measured: &Measured, row: &Collective) -> f64 {
    (microseconds(measured, row) / row.microseconds - 1.0).abs()
}

/// Predicted time of a collective in microseconds.
fn microseconds(measured: &Measured, row: &Collective) -> f64 {
    let by_messages = Term::of(row).predicted(&numbers(measured.messages(traffic(row.kind))));
    let sums = measured.sums.as_ref().filter(|_| may_be_sum(row));
    sums.map_or(by_messages, |sums| by_messages.min(Term::in_switch(row).predicted(&numbers(sums))))
}

fn may_be_sum(row: &Collective) -> bool {
    row.kind == CollectiveKind::AllReduce && row.is_float
}

/// Fits the constants for one number of devices.
fn constants(devices: u32, rows: &[Collective]) -> Option<Measured> {
    let own = |wanted: Traffic| rows.iter().filter(move |row| traffic(row.kind) == wanted);
    let fitted = |rows: Vec<&Collective>| messages(&rows.into_iter().map(Term::of).collect_vec(), |_| f64::INFINITY);
    let exchanges = fitted(own(Traffic::Exchange).collect());
    let all = fitted(own(Traffic::Collective).collect());
    let both = |collectives: Option<Messages>, sums: Option<Messages>| {
        let measured = |collectives: Messages, exchanges: Messages| Measured { devices, collectives, exchanges, sums };
        match (collectives, exchanges.clone()) {
            (Some(collectives), Some(exchanges)) => Some(measured(collectives, exchanges)),
            (Some(one), None) | (None, Some(one)) => Some(measured(one.clone(), one)),
            (None, None) => None,
        }
    };
    if !adds(rows) {
        return both(all, None);
    }
    let sums: Vec<&Collective> = rows.iter().filter(|row| may_be_sum(row)).collect();
    let others = fitted(own(Traffic::Collective).filter(|row| !may_be_sum(row)).collect())?;
    let around: Vec<f64> = sums.iter().map(|row| Term::of(row).predicted(&numbers(&others))).collect();
    let in_switch = messages(&sums.iter().map(|row| Term::in_switch(row)).collect_vec(), |place| around[place]);
    both(Some(others), in_switch)
}

/// Whether the switch reduces floats.
fn adds(rows: &[Collective]) -> bool {
    let sums = || rows.iter().filter(|row| row.kind == CollectiveKind::AllReduce);
    let pairs = sums().filter(|row| row.is_float).cartesian_product(sums().filter(|row| !row.is_float));
    let largest = pairs.filter(|(float, other)| float.bytes == other.bytes).max_by_key(|(float, _)| float.bytes);
    largest.is_some_and(|(float, other)| float.microseconds < ADDS * other.microseconds)
}

/// The best constants; `None` if there are no measurements.
///
/// - `otherwise`: the time that a measurement (given by index) takes without these messages; the minimum of both
///   counts.
fn messages(terms: &[Term], otherwise: impl Fn(usize) -> f64) -> Option<Messages> {
    let shortest = terms.iter().map(|term| term.measured).min_by(f64::total_cmp)?;
    let moved = |term: &Term| term.bytes * (term.messages + term.waiting) / term.measured;
    let fastest = terms.iter().map(moved).max_by(f64::total_cmp)?;
    let loss = |constants: &[f64]| {
        let ratio = |(place, term): (usize, &Term)| term.predicted(constants).min(otherwise(place)) / term.measured;
        loss_of(terms.iter().enumerate().map(ratio))
    };
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

/// The constants in base units, without protocols that no message uses.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few microseconds")]
fn rounded(constants: &[f64]) -> Messages {
    let nanoseconds = |microseconds: f64| (microseconds * 100.0).round() as u64 * 10_000;
    let (latencies, rates) = constants[1..].split_at(constants.len() / 2);
    let all = latencies
        .iter()
        .zip(rates)
        .map(|(latency, rate)| Protocol { latency: nanoseconds(*latency), one_way: nearest_rate(rate * 1e6) });
    // A protocol with more latency is used only if it has a higher rate.
    let mut protocols: Vec<Protocol> = Vec::new();
    for protocol in all.sorted_by_key(|protocol| (protocol.latency, std::cmp::Reverse(protocol.one_way))) {
        if protocols.last().is_none_or(|last| last.one_way < protocol.one_way) {
            protocols.push(protocol);
        }
    }
    Messages { start: nanoseconds(constants[0]), protocols }
}

/// The inverse of [`rounded`].
fn numbers(messages: &Messages) -> Vec<f64> {
    let latencies = messages.protocols.iter().map(|protocol| protocol.latency as f64 / 1e6);
    let rates = messages.protocols.iter().map(|protocol| protocol.one_way.per_second() as f64 / 1e6);
    std::iter::once(messages.start as f64 / 1e6).chain(latencies).chain(rates).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times predicted by the model for random constants.
    fn made(random: &mut fastrand::Rng) -> (Measured, Vec<Collective>) {
        let mut messages = || {
            let (latency, fastest) = (random.u64(40..200) * 10_000, 10f64.powf(9.0 + 2.5 * random.f64()));
            let protocol = |latency, rate: f64| Protocol { latency, one_way: nearest_rate(rate) };
            let protocols = vec![protocol(latency, fastest * 0.1), protocol(latency * 6, fastest)];
            Messages { start: random.u64(200..900) * 10_000, protocols }
        };
        let measured = Measured { devices: 4, collectives: messages(), exchanges: messages(), sums: None };
        let kinds = [CollectiveKind::AllGather, CollectiveKind::AllReduce, CollectiveKind::AllToAll];
        let row = |(kind, power): (CollectiveKind, u32)| {
            let row = Collective { kind, devices: 4, is_float: false, bytes: 1 << power, microseconds: 1.0 };
            Collective { microseconds: microseconds(&measured, &row), ..row }
        };
        let rows = kinds.into_iter().cartesian_product((9..30).step_by(2)).map(row).collect();
        (measured, rows)
    }

    #[test]
    fn what_the_model_makes_is_fitted() {
        let mut random = fastrand::Rng::with_seed(3);
        for case in 0..6 {
            let (measured, rows) = made(&mut random);
            let fit = fit(&rows);
            let errors = Errors::of_all(fit.errors.values());
            assert_eq!(fit.measured.len(), 1);
            assert!(
                errors.percentile(50) < 0.03 && errors.worst() < 0.2,
                "case {case}: {errors:?}\n{measured:?}\n{fit:?}"
            );
        }
    }

    /// Measuring one kind of collective is sufficient for a profile.
    #[test]
    fn what_was_not_measured_is_taken_to_be_alike() {
        let (_, rows) = made(&mut fastrand::Rng::with_seed(5));
        let gathers: Vec<Collective> =
            rows.iter().filter(|row| row.kind == CollectiveKind::AllGather).cloned().collect();
        let measured = &fit(&gathers).measured[0];
        assert_eq!(measured.collectives, measured.exchanges);
        assert!(fit(&[]).measured.is_empty());
    }

    /// If floats take much less time than integers, the switch is found to reduce.
    #[test]
    fn sums_in_the_switch_are_seen() {
        let (_, rows) = made(&mut fastrand::Rng::with_seed(7));
        let sums = rows.iter().filter(|row| row.kind == CollectiveKind::AllReduce);
        let faster =
            |row: &Collective| Collective { is_float: true, microseconds: row.microseconds * 0.5, ..row.clone() };
        let both: Vec<Collective> = sums.map(faster).chain(rows.iter().cloned()).collect();
        assert!(fit(&both).measured[0].sums.is_some());
        assert!(fit(&rows).measured[0].sums.is_none());
    }
}
