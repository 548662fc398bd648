//! Measured attention kernels.
//!
//! A fused kernel computes the scores of a tile of queries with one tile of keys after the other, and keeps them on the
//! chip. The compute units of a device work in parallel, each on one tile of the queries of a head: a kernel takes as many
//! waves as it has tiles per unit. Where a query attends to the keys up to its own only (*causal*), tiles differ in
//! length; a wave takes the mean, and the kernel at least its longest tile. The fastest size of the tiles is used. A
//! kernel takes at least its memory traffic, plus its launch.

use super::quantity;
use crate::einsum::Einsum;
use crate::function::Function;
use crate::kernel::{Formula, FormulaStep, Kernel, Local};
use crate::units::{Rate, Time, TimeScale};
use serde::{Deserialize, Serialize};

/// Figures of attention kernels on 16-bit floats.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Compute units of a device.
    pub units: u32,
    /// Kernel launch time, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub start: u64,
    /// Bytes per second of memory.
    #[serde(deserialize_with = "quantity::bandwidth")]
    pub memory: Rate,
    /// Tiles; at least one.
    pub tiles: Vec<QueryTile>,
}

/// A tile of queries, and of as many keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryTile {
    /// Number of queries.
    pub rows: u32,
    /// Overhead of a tile, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub start: u64,
    /// Overhead of a tile per element of a head, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub element: u64,
    /// Operations per second of one unit.
    #[serde(deserialize_with = "quantity::flops")]
    pub flops: Rate,
}

/// The extents of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Heads {
    /// Number of heads of all sequences.
    pub heads: u64,
    /// Queries of a head.
    pub queries: u64,
    /// Keys of a head.
    pub keys: u64,
    /// Elements of a query.
    pub width: u64,
    /// Whether a query attends to the keys up to its own only, so that half of the scores are computed.
    pub is_causal: bool,
}

impl Heads {
    /// The attention that a declared kernel computes on blocks with these index lengths; `None` if its reference is not a
    /// product, its softmax, and the product of that with another operand.
    ///
    /// The longest dim that only the queries have is their sequence; others, and dims that both factors have, are heads. It
    /// is causal if the kernel declares operations, and at most three quarters of those of its products: nearer to half of
    /// them than to all.
    pub fn of(kernel: &Kernel, lengths: &[u64]) -> Option<Heads> {
        let formula = kernel.formula.as_ref()?;
        let blocks = |lengths: &[u64]| -> Option<Vec<Vec<u64>>> {
            let block = |operand: &Vec<u8>| operand.iter().map(|at| lengths.get(usize::from(*at)).copied()).collect();
            kernel.einsum.operands.iter().map(block).collect()
        };
        let heads = attention(formula, blocks(lengths)?)?;
        let (all, _) = formula.work(blocks(&kernel.lengths)?);
        let declared = u128::from(kernel.flops);
        Some(Heads { is_causal: declared > 0 && declared.saturating_mul(4) <= all.saturating_mul(3), ..heads })
    }
}

/// What a value of a formula is, on the way to attention.
#[derive(Clone, Debug)]
enum Value {
    /// Of operands, without a product.
    Plain(Vec<u64>),
    /// Scores, or with `Some` their softmax: the sides of its dims, and of which side the softmax is.
    Scores { product: Scores, sides: Vec<Side>, keys: Option<Side> },
    /// Attention.
    Attended(Heads),
    /// Anything else.
    Other,
}

/// The factors of a product that have a dim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Both,
    Left,
    Right,
}

/// The lengths of a product of queries and keys.
#[derive(Clone, Debug)]
struct Scores {
    /// The dims of the result.
    dims: Vec<(Side, u64)>,
    /// Elements that are summed.
    width: u64,
}

impl Scores {
    fn of(einsum: &Einsum, lengths: &[u64]) -> (Scores, Vec<Side>) {
        let [left, right] = einsum.operands.as_slice() else { unreachable!("a product has two operands") };
        let side = |index: &u8| match (left.contains(index), right.contains(index)) {
            (true, true) => Side::Both,
            (true, false) => Side::Left,
            (false, _) => Side::Right,
        };
        let length = |index: u8| lengths.get(usize::from(index)).copied().unwrap_or(1);
        let summed = (0..=u8::MAX).take(lengths.len()).filter(|index| !einsum.result.contains(index));
        let width = summed.map(length).fold(1, u64::saturating_mul);
        let dims = einsum.result.iter().map(|index| (side(index), length(*index))).collect();
        (Scores { dims, width }, einsum.result.iter().map(side).collect())
    }

    fn heads(&self, keys: Side) -> Heads {
        let of = |side: Side| self.dims.iter().filter(move |(own, _)| *own == side).map(|(_, length)| *length);
        let queries = if keys == Side::Left { Side::Right } else { Side::Left };
        let product = |lengths: &mut dyn Iterator<Item = u64>| lengths.fold(1, u64::saturating_mul);
        let sequence = of(queries).max().unwrap_or(1);
        Heads {
            heads: product(&mut of(Side::Both).chain(of(queries))) / sequence.max(1),
            queries: sequence,
            keys: product(&mut of(keys)),
            width: self.width,
            is_causal: false,
        }
    }
}

/// The attention that a formula computes on operands of these extents.
fn attention(formula: &Formula, operands: Vec<Vec<u64>>) -> Option<Heads> {
    let operands = operands.into_iter().map(Value::Plain).collect();
    match formula.evaluate(operands, |step, operands| stepped(step, operands).unwrap_or(Value::Other)) {
        Value::Attended(heads) => Some(heads),
        Value::Plain(_) | Value::Scores { .. } | Value::Other => None,
    }
}

fn stepped(step: &FormulaStep, operands: &[&Value]) -> Option<Value> {
    let einsum = step.op.einsum();
    let plain = |value: &&Value| match value {
        Value::Plain(extents) => Some(extents.clone()),
        Value::Scores { .. } | Value::Attended(_) | Value::Other => None,
    };
    match (&step.op, operands) {
        (Local::Product(_), [Value::Plain(left), Value::Plain(right)]) => {
            let (product, sides) = Scores::of(einsum, &einsum.lengths(&[left.clone(), right.clone()])?);
            Some(Value::Scores { product, sides, keys: None })
        }
        (
            Local::Product(_),
            [Value::Scores { product, sides, keys: Some(keys) }, Value::Plain(_)]
            | [Value::Plain(_), Value::Scores { product, sides, keys: Some(keys) }],
        ) => {
            let weights = usize::from(matches!(operands[0], Value::Plain(_)));
            let summed = |index: &u8| !einsum.result.contains(index);
            let mut dims = einsum.operands[weights].iter().zip(sides);
            let is_over_keys = dims.all(|(index, side)| summed(index) == (side == keys));
            is_over_keys.then(|| Value::Attended(product.heads(*keys)))
        }
        (Local::Product(_), _) => None,
        (Local::Reduce(..) | Local::Map(..), _) if operands.iter().all(|value| plain(value).is_some()) => {
            let extents: Vec<Vec<u64>> = operands.iter().filter_map(plain).collect();
            let lengths = einsum.lengths(&extents)?;
            let length = |index: &u8| lengths.get(usize::from(*index)).copied();
            einsum.result.iter().map(length).collect::<Option<_>>().map(Value::Plain)
        }
        (Local::Reduce(..), _) => None,
        (Local::Map(..), [Value::Attended(heads)]) => Some(Value::Attended(*heads)),
        (Local::Map(function, _), _) => {
            // One operand are the scores; what is added to them, such as a mask, is plain.
            let place = operands.iter().position(|value| matches!(value, Value::Scores { .. }))?;
            let others = operands.iter().enumerate().filter(|(other, _)| *other != place);
            if !others.map(|(_, value)| value).all(|value| plain(value).is_some()) {
                return None;
            }
            let Value::Scores { product, sides, keys } = operands[place] else { return None };
            let own = &einsum.operands[place];
            let turned = |index: &u8| own.iter().position(|own| own == index).and_then(|dim| sides.get(dim).copied());
            let sides: Vec<Side> = einsum.result.iter().map(turned).collect::<Option<_>>()?;
            let keys = match (function, keys) {
                (Function::Softmax { dim }, None) => Some(*sides.get(usize::from(*dim))?),
                (Function::Softmax { .. }, Some(_)) => return None,
                (_, keys) => *keys,
            };
            let product = product.clone();
            (keys != Some(Side::Both)).then_some(Value::Scores { product, sides, keys })
        }
    }
}

impl Attention {
    /// All rates.
    pub fn rates(&self) -> impl Iterator<Item = Rate> {
        self.tiles.iter().map(|tile| tile.flops).chain([self.memory])
    }

    /// Describes an inconsistency: figures above the peak rates of the profile.
    pub(super) fn flaw(&self, peak: Rate, bandwidth: Rate) -> Option<String> {
        if self.tiles.is_empty() {
            return Some("attention needs at least one tile".to_owned());
        }
        let fastest = self.tiles.iter().map(|tile| tile.flops.per_second()).max().unwrap_or(0);
        let together = fastest.saturating_mul(u64::from(self.units));
        if together > peak.per_second() {
            return Some(format!(
                "all units together compute {together} operations of attention per second, more than `bf16_flops`"
            ));
        }
        let memory = self.memory.per_second();
        (self.memory > bandwidth)
            .then(|| format!("attention reads {memory} bytes per second, more than `hbm_bandwidth`"))
    }

    /// Whether kernels of this kind were measured. Those of fewer queries than the smallest tile has, and of more keys, as in
    /// decoding, split the keys over the units, and were not.
    pub fn covers(&self, heads: Heads) -> bool {
        let smallest = self.tiles.iter().map(|tile| u64::from(tile.rows)).min().unwrap_or(0);
        heads.keys <= heads.queries || heads.queries >= smallest
    }

    /// Compute time.
    pub fn computing(&self, scale: TimeScale, heads: Heads) -> Time {
        self.tiles.iter().map(|tile| tile.time(scale, heads, self.units)).min().unwrap_or_default()
    }

    /// Time of memory traffic.
    pub fn traffic(&self, scale: TimeScale, bytes: u128) -> Time {
        scale.at_rate(bytes, self.memory)
    }
}

impl QueryTile {
    fn time(&self, scale: TimeScale, heads: Heads, units: u32) -> Time {
        let rows = u64::from(self.rows.max(1));
        let (queries, keys) = (heads.queries.div_ceil(rows).max(1), heads.keys.div_ceil(rows).max(1));
        let overhead = scale.picoseconds(self.start) + scale.picoseconds(self.element.saturating_mul(heads.width));
        // Operations of the two products of a tile of queries with a tile of keys.
        let block = (4 * u128::from(rows) * u128::from(rows)).saturating_mul(u128::from(heads.width));
        let whole = block.saturating_mul(u128::from(keys));
        let mean = if heads.is_causal { block.saturating_mul(u128::from(keys) + 1).div_ceil(2) } else { whole };
        let waves = heads.heads.saturating_mul(queries).div_ceil(u64::from(units.max(1)));
        let all = overhead * waves + scale.at_rate(mean.saturating_mul(u128::from(waves)), self.flops);
        all.max(overhead + scale.at_rate(whole, self.flops))
    }
}

/// A profile's entry in base units.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AttentionDocument {
    units: u32,
    start_ps: u64,
    /// Bytes per second of memory.
    memory: Rate,
    tiles: Vec<QueryTileDocument>,
}

#[derive(Clone, Debug, Serialize)]
struct QueryTileDocument {
    rows: u32,
    /// Of a tile.
    start_ps: u64,
    /// Of a tile, per element of a head.
    element_ps: u64,
    /// Operations per second of one unit.
    flops: Rate,
}

impl From<&Attention> for AttentionDocument {
    fn from(attention: &Attention) -> AttentionDocument {
        let tile = |tile: &QueryTile| {
            let QueryTile { rows, start, element, flops } = *tile;
            QueryTileDocument { rows, start_ps: start, element_ps: element, flops }
        };
        AttentionDocument {
            units: attention.units,
            start_ps: attention.start,
            memory: attention.memory,
            tiles: attention.tiles.iter().map(tile).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two units, tiles of two queries, each with 1 ns, 1 ps per element, and an operation per picosecond.
    fn attention() -> Attention {
        let rate = |per_second| Rate::new(per_second).expect("not zero");
        let tile = QueryTile { rows: 2, start: 1_000, element: 1, flops: rate(1_000_000_000_000) };
        Attention { units: 2, start: 3_000_000, memory: rate(1_000_000_000_000), tiles: vec![tile] }
    }

    #[test]
    fn tiles_are_computed_in_waves() {
        let scale = TimeScale::for_rates(attention().rates()).expect("a tick");
        let time = |heads, queries, keys, is_causal| {
            let heads = Heads { heads, queries, keys, width: 100, is_causal };
            scale.whole_picoseconds(attention().computing(scale, heads))
        };
        let (overhead, block) = (1_000 + 100, 4 * 4 * 100);
        assert_eq!(time(1, 2, 2, false), overhead + block);
        assert_eq!(time(2, 1, 2, true), overhead + block, "one tile of keys is whole");
        assert_eq!(time(3, 2, 4, false), 2 * (overhead + 2 * block));
        // Four tiles with one to four blocks in two waves.
        assert_eq!(time(1, 8, 8, true), 2 * overhead + 5 * block);
        // The longest of two tiles at once.
        assert_eq!(time(1, 4, 4, true), overhead + 2 * block);
    }
}
