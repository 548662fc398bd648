//! Fits the constants of exchanges with experts to measured times of dispatch and combine kernels.
//!
//! The model is that of [`Rows`]: a start-up time, and times in proportion to the width of a row, the tokens, the copies
//! of their rows, and the bytes of the copies.

use super::search::{best_of, loss_of};
use super::table::Dispatched;
use super::{Errors, nearest_rate};
use crate::topology::{Experts, Rows, Tokens};
use crate::units::{Rate, TimeScale};
use std::collections::BTreeMap;

/// Both ways, by the column of their times.
pub const WAYS: [&str; 2] = ["dispatch", "combine"];
/// Number of constants: start, then per element, token, copy and byte.
const CONSTANTS: usize = 5;

/// Fitted constants and their errors.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The constants.
    pub experts: Experts,
    /// Errors of all measurements, by the place in [`WAYS`].
    pub errors: BTreeMap<usize, Errors>,
    /// Errors of every fifth measurement, with constants fitted to the others.
    pub left_out: BTreeMap<usize, Errors>,
}

/// Fits the constants; `None` if there are no measurements.
pub fn fit(rows: &[Dispatched]) -> Option<Fit> {
    let all: Vec<&Dispatched> = rows.iter().collect();
    let experts = constants(&all)?;
    let (kept, out): (Vec<(usize, &Dispatched)>, Vec<_>) =
        rows.iter().enumerate().partition(|(place, _)| place % 5 != 0);
    let [kept, out] = [kept, out].map(|rows| rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>());
    let left_out = constants(&kept).map(|experts| errors(&out, &experts)).unwrap_or_default();
    Some(Fit { errors: errors(&all, &experts), left_out, experts })
}

/// The errors of predicted times, by the place in [`WAYS`].
pub fn errors(rows: &[&Dispatched], experts: &Experts) -> BTreeMap<usize, Errors> {
    let of = |way: usize| {
        let error = |row: &&Dispatched| (microseconds(experts, row.tokens)[way] / row.microseconds[way] - 1.0).abs();
        (way, Errors::new(rows.iter().map(error)))
    };
    (0..WAYS.len()).map(of).collect()
}

/// Predicted times of dispatch and combine in microseconds.
pub fn microseconds(experts: &Experts, tokens: Tokens) -> [f64; 2] {
    let scale = TimeScale::for_rates([]).expect("picoseconds");
    [experts.dispatch, experts.combine].map(|rows| scale.seconds(rows.time(scale, tokens)) * 1e6)
}

fn constants(rows: &[&Dispatched]) -> Option<Experts> {
    let [dispatch, combine] = [0, 1].map(|way| one_way(rows, way));
    Some(Experts { dispatch: dispatch?, combine: combine? })
}

/// The constants of one way.
fn one_way(rows: &[&Dispatched], way: usize) -> Option<Rows> {
    let amounts = |row: &&Dispatched| {
        let tokens = row.tokens;
        let amounts = [1, tokens.width, tokens.tokens, tokens.copies(), tokens.bytes().0].map(|amount| amount as f64);
        (amounts, row.microseconds[way])
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
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few microseconds")]
    let time = |microseconds: f64, unit: f64| ((microseconds.min(1e6) * 1e6 / unit).round() * unit) as u64;
    let one_way: Rate = nearest_rate(1e6 / at[4]);
    Some(Rows {
        start: time(at[0], 1e4),
        element: time(at[1], 1.0),
        token: time(at[2], 1.0),
        copy: time(at[3], 1.0),
        one_way,
    })
}
