//! Fits the constants of exchanges with experts to measured times of dispatch and combine kernels.
//!
//! The model is that of [`Rows`]: a start-up time, and times in proportion to the width of a row, the tokens, the copies
//! of their rows, and the bytes of the copies.

use super::search::{best_of, loss_of};
use super::table::Dispatched;
use super::{Errors, nearest_rate, without_every_fifth};
use crate::topology::{Experts, Rows, Tokens};
use crate::units::TimeScale;
use std::collections::BTreeMap;

/// Number of constants: start, then per element, token, copy and byte.
const CONSTANTS: usize = 5;

/// A way of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// To the experts.
    Dispatch,
    /// Back.
    Combine,
}

impl Way {
    /// Both ways.
    pub const ALL: [Way; 2] = [Way::Dispatch, Way::Combine];

    /// The name, as in profiles.
    pub fn name(self) -> &'static str {
        match self {
            Way::Dispatch => "dispatch",
            Way::Combine => "combine",
        }
    }

    /// Its figures.
    fn of(self, experts: &Experts) -> &Rows {
        match self {
            Way::Dispatch => &experts.dispatch,
            Way::Combine => &experts.combine,
        }
    }

    /// Its measured time in microseconds.
    pub fn measured(self, row: &Dispatched) -> f64 {
        match self {
            Way::Dispatch => row.dispatch_us,
            Way::Combine => row.combine_us,
        }
    }

    /// Its predicted time in microseconds.
    pub fn predicted(self, experts: &Experts, tokens: Tokens) -> f64 {
        let scale = TimeScale::for_rates([]).expect("picoseconds");
        scale.seconds(self.of(experts).time(scale, tokens)) * 1e6
    }
}

/// Fitted constants and their errors.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The constants.
    pub experts: Experts,
    /// Errors of all measurements.
    pub errors: BTreeMap<Way, Errors>,
    /// Errors of every fifth measurement, with constants fitted to the others.
    pub left_out: BTreeMap<Way, Errors>,
}

/// Fits the constants; `None` if there are no measurements.
pub fn fit(rows: &[Dispatched]) -> Option<Fit> {
    let all: Vec<&Dispatched> = rows.iter().collect();
    let experts = constants(&all)?;
    let [kept, out] = without_every_fifth(rows);
    let left_out = constants(&kept).map(|experts| errors(&out, &experts)).unwrap_or_default();
    Some(Fit { errors: errors(&all, &experts), left_out, experts })
}

/// The errors of predicted times.
pub fn errors(rows: &[&Dispatched], experts: &Experts) -> BTreeMap<Way, Errors> {
    let of = |way: Way| {
        let error = |row: &&Dispatched| (way.predicted(experts, row.tokens) / way.measured(row) - 1.0).abs();
        (way, Errors::new(rows.iter().map(error)))
    };
    Way::ALL.into_iter().map(of).collect()
}

fn constants(rows: &[&Dispatched]) -> Option<Experts> {
    let [dispatch, combine] = Way::ALL.map(|way| constants_of(way, rows));
    Some(Experts { dispatch: dispatch?, combine: combine? })
}

fn constants_of(way: Way, rows: &[&Dispatched]) -> Option<Rows> {
    let amounts = |row: &&Dispatched| {
        let tokens = row.tokens;
        let amounts = [1, tokens.width, tokens.tokens, tokens.copies(), tokens.bytes().0].map(|amount| amount as f64);
        (amounts, way.measured(row))
    };
    let rows: Vec<([f64; CONSTANTS], f64)> = rows.iter().map(amounts).collect();
    let shortest = rows.iter().map(|(_, measured)| *measured).min_by(f64::total_cmp)?;
    let longest = rows.iter().max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    // Constants in microseconds of which each takes a share of the shortest or the longest time.
    let start = |shares: [f64; CONSTANTS]| {
        let whole = [shortest, shortest, longest.1, longest.1, longest.1];
        let each = (0..CONSTANTS).map(|place| shares[place] * whole[place] / longest.0[place].max(1.0));
        each.collect::<Vec<f64>>()
    };
    let starts = [
        start([0.9, 0.1, 0.1, 0.3, 0.6]),
        start([0.9, 0.01, 0.01, 0.03, 0.95]),
        start([0.5, 0.5, 0.3, 0.3, 0.4]),
        start([0.9, 0.1, 0.5, 0.01, 0.5]),
    ];
    let loss = |at: &[f64]| {
        let predicted =
            |amounts: &[f64; CONSTANTS]| at.iter().zip(amounts).map(|(each, count)| each * count).sum::<f64>();
        loss_of(rows.iter().map(|(amounts, measured)| predicted(amounts) / measured))
    };
    let at = best_of(&starts, loss);
    // In picoseconds; the start in steps of 10 ns.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few microseconds")]
    let time = |microseconds: f64, step: f64| ((microseconds.min(1e6) * 1e6 / step).round() * step) as u64;
    Some(Rows {
        start: time(at[0], 1e4),
        element: time(at[1], 1.0),
        token: time(at[2], 1.0),
        copy: time(at[3], 1.0),
        one_way: nearest_rate(1e6 / at[4]),
    })
}
