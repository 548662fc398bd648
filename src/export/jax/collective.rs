//! Collectives as calls of `jax.lax`.

use super::expression::combined;
use super::text;
use crate::dtype::DType;
use crate::export::words::{Rows, Word};
use crate::mesh::Mesh;
use crate::operator::Operator;
use itertools::Itertools;

/// The call for a word, applied to the block called `x`.
pub(super) fn call(word: &Word, x: &str, dtype: DType, mesh: &Mesh) -> String {
    let axes = |on| text::axes(on, mesh);
    match word {
        Word::Rearrange { cut, order, extents } => rearranged(x, cut, order, extents),
        Word::AllGather { axes: on, dim } => format!("lax.all_gather({x}, {}, axis={dim}, tiled=True)", axes(*on)),
        // JAX scatters only sums, so the vocabulary contains no other operator.
        Word::ReduceScatter { axes: on, dim, operator: _ } => {
            format!("lax.psum_scatter({x}, {}, scatter_dimension={dim}, tiled=True)", axes(*on))
        }
        Word::AllReduce { axes: on, operator } => match operator {
            Operator::Max | Operator::Or => format!("lax.pmax({x}, {})", axes(*on)),
            Operator::Min | Operator::And => format!("lax.pmin({x}, {})", axes(*on)),
            Operator::Sum | Operator::Mul | Operator::Mean | Operator::SquareAdd | Operator::Root(_) => {
                format!("lax.psum({x}, {})", axes(*on))
            }
        },
        Word::AllToAll { axes: on, split, join } => {
            format!("lax.all_to_all({x}, {}, split_axis={split}, concat_axis={join}, tiled=True)", axes(*on))
        }
        Word::Permute { axes: on, pairs } => {
            let pairs = pairs.iter().map(|(from, to)| format!("({from}, {to})")).join(", ");
            format!("lax.ppermute({x}, {}, [{pairs}])", axes(*on))
        }
        Word::Shift { axes: on, dim, parts } => {
            let part = |Rows { rows, sent }: &Rows| {
                let own = match (dim, &parts[..]) {
                    (_, [_]) => x.to_owned(),
                    (0, _) => format!("{x}[{}:{}]", rows.start, rows.end),
                    _ => format!("lax.slice_in_dim({x}, {}, {}, axis={dim})", rows.start, rows.end),
                };
                let pairs =
                    sent.as_ref().map(|pairs| pairs.iter().map(|(from, to)| format!("({from}, {to})")).join(", "));
                pairs.map_or(own.clone(), |pairs| format!("lax.ppermute({own}, {}, [{pairs}])", axes(*on)))
            };
            match &parts[..] {
                [only] => part(only),
                _ => format!("jnp.concatenate([{}], axis={dim})", parts.iter().map(part).join(", ")),
            }
        }
        Word::Own { axes: on, dim, length } => {
            let start = format!("lax.axis_index({}) * {length}", axes(*on));
            format!("lax.dynamic_slice_in_dim({x}, {start}, {length}, axis={dim})")
        }
        Word::OnlyOn { rank, axes: on } => {
            format!("jnp.where(lax.axis_index({}) == {rank}, {x}, jnp.zeros_like({x}))", axes(*on))
        }
        Word::Square => format!("jnp.square({x})"),
        Word::Over(n) => format!("{x} / {n}"),
        Word::Fold(operator) => combined(*operator, x, "0", dtype),
    }
}

/// Reshapes and transposes; steps without effect are omitted.
fn rearranged(x: &str, cut: &[u64], order: &[usize], extents: &[u64]) -> String {
    let is_in_order = order.iter().copied().eq(0..order.len());
    if is_in_order {
        return format!("{x}.reshape{}", text::tuple(extents));
    }
    let (cut, order) = (text::tuple(cut), text::tuple(order));
    format!("{x}.reshape{cut}.transpose{order}.reshape{}", text::tuple(extents))
}
