//! Tree reductions: sums that flow up a tree and back down, chunk by chunk.
//!
//! Source of the binary trees: Sanders, Speck and Träff, "Two-Tree Algorithms for Full Bandwidth Broadcast, Reduction
//! and Scan" (2009), as NCCL numbers them.

use super::super::builder::split;
use super::super::{Builder, Cut, OpId};
use super::Method;
use super::pipelined::{Course, PipelinedTree, Tree, Window, flow};
use super::place::{Part, halves, range_region};
use crate::mesh::{Axes, AxisId};
use crate::method::{Family, Trees};
use crate::operator::Operator;

/// The trees of a method: one for the array, or one for each half; `None` for other methods.
fn trees(method: Method, n: usize) -> Vec<Tree> {
    let binary = || Tree::new((0..n).map(|at| binary_parent(at, n)).collect());
    let Family::Trees(way) = method.family() else { return Vec::new() };
    match way {
        Trees::Binary => vec![binary()],
        Trees::DoubleBinary if n.is_multiple_of(2) => vec![binary(), binary().renamed(|at| n - 1 - at)],
        Trees::DoubleBinary => vec![binary(), binary().renamed(|at| (at + 1) % n)],
        Trees::Chain => {
            let middle = n / 2;
            let parent = |at: usize| (at != middle).then_some(if at < middle { at + 1 } else { at.wrapping_sub(1) });
            vec![Tree::new((0..n).map(parent).collect())]
        }
    }
}

/// The binary tree: odd devices are leaves; a device 2^k·odd is the parent of those 2^(k-1) away.
fn binary_parent(at: usize, n: usize) -> Option<usize> {
    if at == 0 {
        return None;
    }
    let bit = at & at.wrapping_neg();
    let up = (at ^ bit) | (bit << 1);
    Some(if up < n { up } else { at ^ bit })
}

/// A sum by trees, each for a part of the value, in up to `chunks` chunks: as many as divide some dim.
///
/// `None` for a method without trees.
pub(super) fn all_reduce(
    builder: &mut Builder<'_>,
    method: Method,
    axes: Axes,
    value: OpId,
    operator: Operator,
    chunks: u64,
) -> Option<OpId> {
    let n = usize::try_from(axes.group_size(builder.mesh())).ok()?;
    let trees = trees(method, n);
    let extents = builder.extents(value).to_vec();
    let parts: Vec<Option<Part>> = match (trees.len(), halves(&extents)) {
        (0, _) => return None,
        (2, Some(parts)) => parts.map(Some).to_vec(),
        _ => vec![None],
    };
    let axes: Vec<AxisId> = axes.iter().collect();
    let (mut pipelines, mut windows) = (Vec::new(), Vec::new());
    for (tree, part) in trees.iter().zip(&parts) {
        let value = match part {
            Some(part) => builder.slice_range(value, part.dim, part.range.clone()),
            None => value,
        };
        let window = window(builder.extents(value), chunks);
        pipelines.push(PipelinedTree::new(
            (tree, &axes),
            Course::RiseAndFall(operator),
            value,
            window.clone(),
            window.clone(),
        ));
        windows.push((builder.extents(value).to_vec(), window.view));
    }
    let mut pieces = Vec::new();
    for ((found, part), (of_part, view)) in flow(builder, pipelines).into_iter().zip(&parts).zip(windows) {
        let whole = builder.assemble(of_part, view, found);
        match part {
            Some(part) => pieces.push((whole, range_region(extents.len(), part))),
            None => return Some(whole),
        }
    }
    Some(builder.assemble(extents.clone(), extents, pieces))
}

/// The whole block, in this many chunks along the first dim that divides; else in one.
fn window(extents: &[u64], chunks: u64) -> Window {
    let dim = extents.iter().position(|extent| extent.is_multiple_of(chunks));
    let (chunk, chunks) = dim.map_or((0, 1), |dim| (dim, chunks));
    let view = split(extents, chunk, chunks);
    Window { region: vec![Cut::Whole; view.len()], view, chunk }
}
