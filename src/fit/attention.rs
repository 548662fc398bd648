//! Fits the constants of attention kernels to measured times.
//!
//! The model is that of [`Attention`]: waves of tiles of queries, memory traffic, and a start-up time. The tiles have a few
//! sizes. Their overheads and rates and the other constants are fitted.
//!
//! Measurements that are faster than causal attention at the peak rate are of something else, such as a sliding window, and
//! are left out.

use super::products::Peaks;
use super::search::{descend, loss_of};
use super::table::Attended;
use super::{Errors, below, nearest_rate, whole_rate, without_every_fifth};
use crate::topology::{Attention, QueryTile};
use crate::units::{Rate, TimeScale};
use itertools::Itertools;
use std::collections::BTreeMap;

/// Queries of the tiles.
const ROWS: [u32; 3] = [32, 64, 128];
/// Positions of the constants: start in microseconds and rate of memory in bytes per microsecond, then of each tile its
/// overhead in microseconds, that per element in nanoseconds, and its rate in operations per microsecond.
const START: usize = 0;
const MEMORY: usize = 1;
const FIRST_TILE: usize = 2;
const OF_A_TILE: usize = 3;

/// Fitted constants and their errors.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The constants.
    pub attention: Attention,
    /// Number of measurements that are faster than the peak rate, and left out.
    pub faster: usize,
    /// Errors of all other measurements, by the power of four that their tokens reach.
    pub errors: BTreeMap<u32, Errors>,
    /// Errors of every fifth measurement, with constants fitted to the others.
    pub left_out: BTreeMap<u32, Errors>,
}

/// Fits the constants; `None` if fewer than two measurements are slower than the peak rate.
pub fn fit(rows: &[Attended], peaks: Peaks) -> Option<Fit> {
    let (possible, faster): (Vec<Attended>, Vec<Attended>) = rows.iter().partition(|row| is_possible(row, peaks));
    let attention = constants(&possible.iter().collect_vec(), peaks)?;
    let [kept, out] = without_every_fifth(&possible);
    let of_kept = constants(&kept, peaks)?;
    let errors = errors(&possible, &attention);
    Some(Fit { attention, faster: faster.len(), errors, left_out: self::errors(out, &of_kept) })
}

/// Whether a kernel could compute its half of the scores at the peak rate in the measured time.
pub fn is_possible(row: &Attended, peaks: Peaks) -> bool {
    let heads = row.heads;
    let scores = heads.heads as f64 * heads.queries as f64 * heads.keys as f64 / 2.0;
    4.0 * scores * heads.width as f64 <= peaks.flops.per_second() as f64 / 1e6 * row.microseconds
}

/// The errors of predicted times, by the power of four that the tokens reach.
pub fn errors<'r>(rows: impl IntoIterator<Item = &'r Attended>, attention: &Attention) -> BTreeMap<u32, Errors> {
    let error =
        |row: &Attended| (row.heads.queries.ilog(4), (microseconds(attention, row) / row.microseconds - 1.0).abs());
    let groups = rows.into_iter().map(error).into_group_map();
    groups.into_iter().map(|(tokens, errors)| (tokens, Errors::new(errors))).collect()
}

/// Predicted time of a kernel in microseconds.
pub fn microseconds(attention: &Attention, row: &Attended) -> f64 {
    let scale = TimeScale::for_rates([]).expect("picoseconds");
    let traffic = attention.traffic(scale, u128::from(row.bytes));
    scale.seconds(attention.computing(scale, row.heads).max(traffic) + scale.picoseconds(attention.start)) * 1e6
}

fn constants(rows: &[&Attended], peaks: Peaks) -> Option<Attention> {
    let shortest = rows.iter().map(|row| row.microseconds).min_by(f64::total_cmp)?;
    let loss = |at: &[f64]| {
        let attention = attention(at, peaks, whole_rate);
        loss_of(rows.iter().map(|row| microseconds(&attention, row) / row.microseconds))
    };
    let (flops, memory) = (peaks.flops.per_second() as f64 / 1e6, peaks.memory.per_second() as f64 / 1e6);
    let unit = flops / f64::from(peaks.units.max(1));
    let starts = [0.9, 0.5].into_iter().cartesian_product([1.0, 3.0]).map(|(share, overhead)| {
        let tile = |rows: &u32| {
            let rows = f64::from(*rows) / 64.0;
            [overhead * rows, overhead * rows * 4.0, unit * share * (rows / 2.0).min(1.0)]
        };
        [shortest * 0.9, memory * 0.8].into_iter().chain(ROWS.iter().flat_map(tile)).collect_vec()
    });
    let found = starts.map(|start| descend(&start, loss)).min_by(|one, other| one.0.total_cmp(&other.0));
    Some(attention(&found?.1, peaks, nearest_rate))
}

/// The constants in the form of a profile.
///
/// - `rate`: converts units per second.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few microseconds")]
fn attention(at: &[f64], peaks: Peaks, rate: impl Fn(f64) -> Rate) -> Attention {
    // In picoseconds, in steps.
    let time = |microseconds: f64, step: f64| ((microseconds.min(1e6) * 1e6 / step).round() * step) as u64;
    let unit = peaks.flops.per_second() / u64::from(peaks.units.max(1));
    let tile = |(rows, figures): (u32, &[f64])| QueryTile {
        rows,
        start: time(figures[0], 1e4),
        element: time(figures[1] / 1e3, 1.0),
        flops: below(unit, figures[2] * 1e6, &rate),
    };
    Attention {
        units: peaks.units,
        start: time(at[START], 1e4),
        memory: below(peaks.memory.per_second(), at[MEMORY] * 1e6, &rate),
        tiles: ROWS.into_iter().zip(at[FIRST_TILE..].chunks(OF_A_TILE)).map(tile).collect(),
    }
}
