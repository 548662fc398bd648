//! Fits the constants of local products to measured times of matrix products.
//!
//! The model is that of [`Products`]: waves of tiles, memory traffic, and a start-up time. The tile is one of a few
//! sizes. Its rate and the other constants are fitted.

use super::search::{descend, loss_of};
use super::table::Product;
use super::{Errors, below, nearest_rate, whole_rate, without_every_fifth};
use crate::topology::{Products, Protocol, Shape, Tile};
use crate::units::{Rate, TimeScale};
use itertools::Itertools;
use std::collections::BTreeMap;

/// Sides of the tiles.
const TILES: [(u32, u32); 5] = [(256, 128), (128, 128), (128, 64), (64, 64), (128, 32)];
/// Positions of the constants: start, wave and cut in microseconds, then rates in units per microsecond.
const START: usize = 0;
const WAVE: usize = 1;
const CUT: usize = 2;
const PARTS: usize = 3;
const LATER: usize = 4;
const SLOW: usize = 5;
const FAST: usize = 6;
const FIRST_TILE: usize = 7;
/// Maximum number of measurements used; larger tables are sampled evenly.
const MOST: usize = 800;

/// Fitted constants and their errors.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The constants.
    pub products: Products,
    /// Errors of all measurements, keyed by the base-2 logarithm of their rows, rounded down.
    pub errors: BTreeMap<u32, Errors>,
    /// Errors of every fifth measurement, with constants fitted to the others.
    pub left_out: BTreeMap<u32, Errors>,
}

/// Upper bounds from a profile; fitted rates do not exceed them.
#[derive(Clone, Copy, Debug)]
pub struct Peaks {
    /// Operations per second of a device.
    pub flops: Rate,
    /// Bytes per second of its memory.
    pub memory: Rate,
    /// Units that compute in parallel.
    pub units: u32,
}

/// Fits the constants; `None` if there are no measurements.
pub fn fit(rows: &[Product], peaks: Peaks) -> Option<Fit> {
    let products = constants(&rows.iter().collect_vec(), peaks)?;
    let [kept, out] = without_every_fifth(rows);
    let of_kept = constants(&kept, peaks)?;
    let errors = errors(rows, &products);
    Some(Fit { products, errors, left_out: self::errors(out, &of_kept) })
}

/// The errors of predicted times, keyed by the base-2 logarithm of the rows, rounded down.
pub fn errors<'r>(rows: impl IntoIterator<Item = &'r Product>, products: &Products) -> BTreeMap<u32, Errors> {
    let scale = TimeScale::for_rates([]).expect("picoseconds");
    let error = |row: &Product| (row.m.ilog2(), (microseconds(products, scale, row) / row.microseconds - 1.0).abs());
    let groups = rows.into_iter().map(error).into_group_map();
    groups.into_iter().map(|(rows, errors)| (rows, Errors::new(errors))).collect()
}

/// Predicted time of a product in microseconds.
pub fn microseconds(products: &Products, scale: TimeScale, row: &Product) -> f64 {
    let (m, n, k) = (row.m, row.n, row.k);
    let shape = Shape { batch: 1, m, n, k };
    let bytes = u128::from(row.element) * u128::from(m * k + k * n) + u128::from(row.result) * u128::from(m * n);
    let time = products.computing(scale, shape).max(products.traffic(scale, bytes)) + scale.picoseconds(products.start);
    scale.seconds(time) * 1e6
}

fn constants(rows: &[&Product], peaks: Peaks) -> Option<Products> {
    let every = rows.len().div_ceil(MOST).max(1);
    let few: Vec<&Product> = rows.iter().step_by(every).copied().collect();
    let scale = TimeScale::for_rates([]).expect("picoseconds");
    let shortest = few.iter().map(|row| row.microseconds).min_by(f64::total_cmp)?;
    let loss = |at: &[f64]| {
        let products = products(at, peaks, whole_rate);
        loss_of(few.iter().map(|row| microseconds(&products, scale, row) / row.microseconds))
    };
    let (flops, memory) = (peaks.flops.per_second() as f64 / 1e6, peaks.memory.per_second() as f64 / 1e6);
    let unit = flops / f64::from(peaks.units.max(1));
    let starts = [0.5, 0.9].into_iter().cartesian_product([0.05, 0.3]).cartesian_product([0.9, 0.75]);
    let starts = starts.map(|((share, wave), narrower)| {
        let tiles = (0..).zip(TILES).map(|(place, _)| unit * 0.9 * f64::powi(narrower, place));
        let rest = [shortest * share, shortest * wave, 2.0, memory, shortest, memory * 0.6, memory * 0.9];
        rest.into_iter().chain(tiles).collect::<Vec<f64>>()
    });
    let found = starts.map(|start| descend(&start, loss)).min_by(|one, other| one.0.total_cmp(&other.0));
    Some(products(&found?.1, peaks, nearest_rate))
}

/// The constants in the form of a profile.
///
/// - `rate`: converts units per second.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few microseconds")]
fn products(at: &[f64], peaks: Peaks, rate: impl Fn(f64) -> Rate) -> Products {
    let time = |microseconds: f64| (microseconds.min(1e6) * 100.0).round() as u64 * 10_000;
    let unit = peaks.flops.per_second() / u64::from(peaks.units.max(1));
    let memory = |found: f64| below(peaks.memory.per_second(), found * 1e6, &rate);
    let flops = |found: f64| below(unit, found * 1e6, &rate);
    let tile = |((rows, columns), found): ((u32, u32), &f64)| Tile { rows, columns, flops: flops(*found) };
    let (slow, fast) = (memory(at[SLOW]), memory(at[FAST]));
    let slow = (slow < fast).then_some(Protocol { latency: 0, one_way: slow });
    let latency = if slow.is_some() { time(at[LATER]) } else { 0 };
    Products {
        units: peaks.units,
        start: time(at[START]),
        wave: time(at[WAVE]),
        cut: time(at[CUT]),
        parts: rate(at[PARTS] * 1e6),
        memory: slow.into_iter().chain([Protocol { latency, one_way: fast }]).collect(),
        tiles: TILES.into_iter().zip(&at[FIRST_TILE..]).map(tile).collect(),
    }
}
