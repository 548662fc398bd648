//! How long local products take on a device, as it was measured.
//!
//! A device has units that work side by side, and each computes a tile of the result after the other: a product takes as
//! many waves as it has tiles for each unit, and one that has few tiles cuts its inner dim as well and adds up the parts.
//! Of all tiles and cuts it takes the fastest. It takes no less than its memory traffic, of which small amounts go slower
//! than large ones, and its kernel has to start.

use super::measured::{Protocol, ProtocolDocument};
use super::{Topology, quantity};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::units::{Rate, Time, TimeScale};
use serde::{Deserialize, Serialize};

/// What is known of the products of some type.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Products {
    /// Units of a device.
    pub units: u32,
    /// From when the operands are there until something is computed, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub start: u64,
    /// Of each wave besides its operations, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub wave: u64,
    /// More where the inner dim is cut, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub cut: u64,
    /// Bytes a second of the parts of sums, of four bytes each, where the inner dim is cut.
    #[serde(deserialize_with = "quantity::bandwidth")]
    pub parts: Rate,
    /// Memory traffic takes the fastest of these.
    pub memory: Vec<Protocol>,
    /// One at least.
    pub tiles: Vec<Tile>,
}

/// A part of a result that a unit computes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tile {
    /// Of one side.
    pub rows: u32,
    /// Of the other: whichever way round it is faster.
    pub columns: u32,
    /// Operations a second of one unit.
    #[serde(deserialize_with = "quantity::flops")]
    pub flops: Rate,
}

/// In how many parts the inner dim may be cut.
const CUTS: [u64; 5] = [1, 2, 4, 8, 16];

/// The extents of a product as matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// So many products of their own.
    pub batch: u64,
    /// Rows of the result.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// What is summed over.
    pub k: u64,
}

impl Shape {
    /// Of a product of blocks with these extents; none if they do not fit.
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
    /// All rates that are counted with.
    pub fn rates(&self) -> impl Iterator<Item = Rate> {
        let memory = self.memory.iter().map(|piece| piece.one_way);
        self.tiles.iter().map(|tile| tile.flops).chain(memory).chain([self.parts])
    }

    /// What cannot be, in words: figures above the peak rates of the profile, which are said never to be beaten.
    pub(super) fn flaw(&self, field: &str, peak: Rate, bandwidth: Rate) -> Option<String> {
        if self.tiles.is_empty() || self.memory.is_empty() {
            return Some("products need a tile and a rate of memory, one at least".to_owned());
        }
        let fastest = self.tiles.iter().map(|tile| tile.flops.per_second()).max().unwrap_or(0);
        let together = fastest.saturating_mul(u64::from(self.units));
        if together > peak.per_second() {
            return Some(format!("all units compute {together} operations a second, more than `{field}`"));
        }
        let memory = self.memory.iter().find(|piece| piece.one_way > bandwidth)?;
        Some(format!("products read {} bytes a second, more than `hbm_bandwidth`", memory.one_way.per_second()))
    }

    /// The time of computing alone.
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

    /// The time of so many bytes of memory traffic.
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
    /// Bytes a second of the parts of sums.
    parts: Rate,
    memory: Vec<ProtocolDocument>,
    tiles: Vec<TileDocument>,
}

#[derive(Clone, Debug, Serialize)]
struct TileDocument {
    rows: u32,
    columns: u32,
    /// Operations a second of one unit.
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

/// What one device has to do for a product.
#[derive(Clone, Copy, Debug)]
pub struct ProductWork {
    /// The dtype that picks the unit of arithmetic.
    pub dtype: DType,
    /// Operations.
    pub flops: u128,
    /// Its extents; none where rows are only looked up.
    pub shape: Option<Shape>,
    /// Bytes from and to memory.
    pub traffic: u128,
    /// Whether a kernel starts with it.
    pub starts: bool,
}

/// How long some work takes, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkTime {
    /// The operations alone.
    pub computing: Time,
    /// The memory traffic alone.
    pub traffic: Time,
    /// The start of its kernel, before both.
    pub start: Time,
}

impl WorkTime {
    /// All together.
    pub fn time(self) -> Time {
        self.start + self.computing.max(self.traffic)
    }
}

impl Topology {
    /// How long a product takes: by what was measured, or else operations and bytes at their rates.
    pub fn product_time(&self, work: ProductWork) -> WorkTime {
        let (scale, hardware) = (self.scale, &self.hardware);
        let measured = hardware.products.of(work.dtype);
        match (measured, work.shape) {
            (Some(products), Some(shape)) => WorkTime {
                computing: products.computing(scale, shape),
                traffic: products.traffic(scale, work.traffic),
                start: scale.picoseconds(if work.starts { products.start } else { 0 }),
            },
            _ => {
                let rate = hardware.flops(work.dtype);
                WorkTime { computing: scale.at_rate(work.flops, rate), ..self.memory_time(work.traffic, work.starts) }
            }
        }
    }

    /// How long it takes to read and write so many bytes.
    pub fn memory_time(&self, bytes: u128, starts: bool) -> WorkTime {
        WorkTime {
            computing: Time::ZERO,
            traffic: self.scale.at_rate(bytes, self.hardware.hbm_bandwidth),
            start: self.scale.picoseconds(if starts { self.hardware.kernel_start } else { 0 }),
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
