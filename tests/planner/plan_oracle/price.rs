//! Costs of moves and products in both cost models, as integers.

use super::moves::{Kind, Move};
use std::ops::Add;

/// Ticks per second, such that a byte over up to three axes, and an operation, take an integer number of ticks.
pub const TICKS: u128 = 197 * 27 * 1_000_000_000_000;
/// Bytes per second of one axis, both directions together.
const W: u128 = 90_000_000_000;
/// Operations per second in bf16.
const FLOPS: u128 = 197_000_000_000_000;
/// Minimum time of a hop.
const HOP: u128 = TICKS / 1_000_000;

/// The objective, and its tie breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Price(pub u128, pub u128);

impl Add for Price {
    type Output = Price;
    fn add(self, other: Price) -> Price {
        Price(self.0 + other.0, self.1 + other.1)
    }
}

/// The cost model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Time in ticks, then received bytes.
    Book,
    /// Received bytes, then operations.
    Bytes,
}

impl Model {
    /// Cost of a move of an array with `local` bytes per device before it.
    pub fn of_move(self, step: &Move, local: u64, mesh: &[u64]) -> Price {
        let (time, bytes) = (time(step, local, mesh), received(step, local, mesh));
        match self {
            Model::Book => Price(time, bytes),
            Model::Bytes => Price(bytes, 0),
        }
    }

    /// Cost of a local product with this number of operations.
    pub fn of_product(self, flops: u64) -> Price {
        let flops = u128::from(flops);
        match self {
            Model::Book => Price(flops * (TICKS / FLOPS), 0),
            Model::Bytes => Price(0, flops),
        }
    }
}

fn group(step: &Move, mesh: &[u64]) -> u128 {
    step.axes.iter().map(|axis| u128::from(mesh[*axis])).product()
}

/// The book's closed form on rings: the maximum of latency and bandwidth terms.
fn time(step: &Move, local: u64, mesh: &[u64]) -> u128 {
    let sizes = || step.axes.iter().map(|axis| u128::from(mesh[*axis]));
    let (local, axes) = (u128::from(local), step.axes.len() as u128);
    let hops = HOP * sizes().sum::<u128>() / 2;
    let per_byte = TICKS / W;
    let over_all_axes = |full: u128| (full * TICKS / (W * axes)).max(hops);
    match step.kind {
        Kind::AllGather => over_all_axes(local * group(step, mesh)),
        Kind::ReduceScatter => over_all_axes(local),
        Kind::AllReduce => 2 * over_all_axes(local),
        Kind::AllToAll => (local * sizes().max().unwrap_or(1) * per_byte / 4).max(hops),
        Kind::Permute => (2 * local * per_byte).max(hops),
        Kind::Slice => 0,
    }
}

/// Bytes that a device receives.
fn received(step: &Move, local: u64, mesh: &[u64]) -> u128 {
    let (local, n) = (u128::from(local), group(step, mesh));
    match step.kind {
        Kind::AllGather => local * (n - 1),
        Kind::ReduceScatter | Kind::AllToAll => local / n * (n - 1),
        Kind::AllReduce => 2 * (local / n) * (n - 1),
        Kind::Permute => local,
        Kind::Slice => 0,
    }
}
