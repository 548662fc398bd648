//! Measured products.
//!
//! A device has compute units that work in parallel, each on one tile of the result at a time: a product takes as many waves as
//! it has tiles per unit. A product with few tiles also splits its inner dim and adds the parts. The fastest tile and
//! split is used. A product takes at least its memory traffic, which is slower for small amounts, plus a kernel launch.

use super::measured::{Protocol, ProtocolDocument};
use super::quantity;
use crate::einsum::Einsum;
use crate::units::{Rate, Time, TimeScale};
use serde::{Deserialize, Serialize};

/// Figures of the products of a dtype.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Products {
    /// Compute units of a device.
    pub units: u32,
    /// Kernel launch time, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub start: u64,
    /// Overhead of each wave, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub wave: u64,
    /// Overhead of a split inner dim, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub cut: u64,
    /// Bytes per second of the partial sums, of four bytes each, of a split inner dim.
    #[serde(deserialize_with = "quantity::bandwidth")]
    pub parts: Rate,
    /// Memory rates, of which the fastest is used.
    pub memory: Vec<Protocol>,
    /// Tiles; at least one.
    pub tiles: Vec<Tile>,
}

/// A tile of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tile {
    /// Size along one side.
    pub rows: u32,
    /// Size along the other side; the faster orientation is used.
    pub columns: u32,
    /// Operations per second of one unit.
    #[serde(deserialize_with = "quantity::flops")]
    pub flops: Rate,
}

/// Possible numbers of parts of the inner dim.
const CUTS: [u64; 5] = [1, 2, 4, 8, 16];

/// The extents of a product as matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Batch size.
    pub batch: u64,
    /// Rows of the result.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// Inner dim.
    pub k: u64,
}

impl Shape {
    /// Extents of a product of blocks; `None` if they do not match.
    pub fn of(einsum: &Einsum, extents: &[Vec<u64>]) -> Option<Shape> {
        let lengths = einsum.lengths(extents)?;
        let [left, right] = einsum.operands.as_slice() else { return None };
        let mut shape = Shape { batch: 1, m: 1, n: 1, k: 1 };
        for (index, length) in (0u8..).zip(lengths) {
            let of = match (einsum.result.contains(&index), left.contains(&index), right.contains(&index)) {
                (false, ..) => &mut shape.k,
                (true, true, true) => &mut shape.batch,
                (true, true, false) => &mut shape.m,
                (true, false, _) => &mut shape.n,
            };
            *of = of.saturating_mul(length);
        }
        Some(shape)
    }
}

impl Products {
    /// All rates.
    pub fn rates(&self) -> impl Iterator<Item = Rate> {
        let memory = self.memory.iter().map(|piece| piece.one_way);
        self.tiles.iter().map(|tile| tile.flops).chain(memory).chain([self.parts])
    }

    /// Describes an inconsistency: figures above the peak rates of the profile.
    pub(super) fn flaw(&self, field: &str, peak: Rate, bandwidth: Rate) -> Option<String> {
        if self.tiles.is_empty() || self.memory.is_empty() {
            return Some("products need at least one tile and a memory rate".to_owned());
        }
        let fastest = self.tiles.iter().map(|tile| tile.flops.per_second()).max().unwrap_or(0);
        let together = fastest.saturating_mul(u64::from(self.units));
        if together > peak.per_second() {
            return Some(format!("all units together compute {together} operations per second, more than `{field}`"));
        }
        let memory = self.memory.iter().find(|piece| piece.one_way > bandwidth)?;
        Some(format!("products read {} bytes per second, more than `hbm_bandwidth`", memory.one_way.per_second()))
    }

    /// Compute time.
    pub fn computing(&self, scale: TimeScale, shape: Shape) -> Time {
        let sides = |tile: &Tile| [(tile.rows, tile.columns, tile.flops), (tile.columns, tile.rows, tile.flops)];
        let all = self.tiles.iter().flat_map(|tile| {
            let both = if tile.rows == tile.columns { 1 } else { 2 };
            sides(tile).into_iter().take(both)
        });
        let wave = scale.picoseconds(self.wave);
        let (units, cut) = (u64::from(self.units.max(1)), scale.picoseconds(self.cut));
        let elements = u128::from(shape.m).saturating_mul(u128::from(shape.n)).saturating_mul(u128::from(shape.batch));
        let times = all.flat_map(|(rows, columns, flops)| {
            let (rows, columns) = (u64::from(rows.max(1)), u64::from(columns.max(1)));
            let tiles = shape.m.div_ceil(rows).saturating_mul(shape.n.div_ceil(columns)).saturating_mul(shape.batch);
            CUTS.into_iter().filter(move |parts| *parts == 1 || (*parts <= shape.k && tiles < units)).map(
                move |parts| {
                    let waves = tiles.saturating_mul(parts).div_ceil(units);
                    let inner = u128::from(shape.k.div_ceil(parts));
                    let operations = inner.saturating_mul(2 * u128::from(rows) * u128::from(columns));
                    let computed = (wave + scale.at_rate(operations, flops)) * waves;
                    let added = elements.saturating_mul(u128::from(4 * parts));
                    if parts == 1 { computed } else { computed + cut + scale.at_rate(added, self.parts) }
                },
            )
        });
        times.min().unwrap_or_default()
    }

    /// Time of memory traffic.
    pub fn traffic(&self, scale: TimeScale, bytes: u128) -> Time {
        let by = |piece: &Protocol| scale.picoseconds(piece.latency) + scale.at_rate(bytes, piece.one_way);
        self.memory.iter().map(by).min().unwrap_or_default()
    }
}

/// A profile's entry in base units.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ProductsDocument {
    units: u32,
    start_ps: u64,
    wave_ps: u64,
    cut_ps: u64,
    /// Bytes per second of partial sums.
    parts: Rate,
    memory: Vec<ProtocolDocument>,
    tiles: Vec<TileDocument>,
}

#[derive(Clone, Debug, Serialize)]
struct TileDocument {
    rows: u32,
    columns: u32,
    /// Operations per second of one unit.
    flops: Rate,
}

impl From<&Products> for ProductsDocument {
    fn from(products: &Products) -> ProductsDocument {
        let tile = |tile: &Tile| TileDocument { rows: tile.rows, columns: tile.columns, flops: tile.flops };
        ProductsDocument {
            units: products.units,
            start_ps: products.start,
            wave_ps: products.wave,
            cut_ps: products.cut,
            parts: products.parts,
            memory: products.memory.iter().map(ProtocolDocument::from).collect(),
            tiles: products.tiles.iter().map(tile).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn products() -> Products {
        let rate = |per_second| Rate::new(per_second).expect("not zero");
        Products {
            units: 4,
            start: 3_000_000,
            wave: 1_000_000,
            cut: 2_000_000,
            parts: rate(1_000_000_000_000),
            memory: vec![Protocol { latency: 0, one_way: rate(1_000_000_000_000) }],
            tiles: vec![Tile { rows: 128, columns: 64, flops: rate(1_000_000_000_000) }],
        }
    }

    #[test]
    fn a_product_takes_whole_waves_of_tiles() {
        let scale = TimeScale::for_rates(products().rates()).expect("a tick");
        let time = |m, n, k| scale.nanoseconds(products().computing(scale, Shape { batch: 1, m, n, k }));
        // 2 * 128 * 64 * 1000 operations are 16,384 ns for a tile.
        assert_eq!(time(128, 64, 1000 * 16), 1_000 * (1 + 2) + 16_384 * 4 + 4 * 4 * 128 * 64 / 1_000);
        assert_eq!(time(256, 128, 1000), 1_000 + 16_384);
        // The tile lies either way.
        assert_eq!(time(64, 512, 1000), 1_000 + 16_384);
        assert_eq!(time(257, 128, 1000), 2 * (1_000 + 16_384));
    }
}
