//! A tensor of the module as an expression of the language.
//!
//! A dim of a tensor is a list of factors, dims of the program, which makes reshapes free: `[8, 32, 4, 16]` and
//! `[8, 32, 64]` differ in how their factors are grouped. A dim of size 1 has none. A factor is absent where the tensor
//! is only repeated along it: a broadcast computes nothing, and the dim appears when another operand has it.

use super::dims::{Dim, Dims};
use super::output::{ArrayId, Expr};
use crate::dtype::DType;
use std::rc::Rc;

/// A dim of the program as a part of a dim of a tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factor {
    pub(super) dim: Dim,
    /// Whether the expression has it; else all its elements are alike.
    pub(super) is_present: bool,
}

/// The factors of one dim of a tensor, major first.
pub(super) type Position = Vec<Factor>;

/// A tensor.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) expr: Rc<Expr>,
    pub(super) dtype: DType,
    pub(super) shape: Vec<Position>,
}

impl Value {
    /// The number, if it is one everywhere.
    pub(super) fn number(&self) -> Option<f64> {
        if let Expr::Number(number) = *self.expr { Some(number) } else { None }
    }

    /// The array, if it is one as it stands.
    pub(super) fn array(&self) -> Option<ArrayId> {
        if let Expr::Array(array) = *self.expr { Some(array) } else { None }
    }
}

/// The factors of a position, those that were split since replaced by their parts.
pub(super) fn leaves(dims: &mut Dims, position: &[Factor]) -> Position {
    let each = |factor: &Factor| {
        let is_present = factor.is_present;
        dims.leaves(factor.dim).into_iter().map(move |dim| Factor { dim, is_present }).collect::<Position>()
    };
    position.iter().flat_map(each).collect()
}

/// The dims that the expression of a tensor has, in order.
pub(super) fn present(dims: &mut Dims, shape: &[Position]) -> Vec<Dim> {
    shape
        .iter()
        .flat_map(|position| leaves(dims, position))
        .filter(|factor| factor.is_present)
        .map(|factor| factor.dim)
        .collect()
}

/// A position of this size of which nothing is known.
pub(super) fn fresh(dims: &mut Dims, size: u64, is_present: bool) -> Position {
    if size == 1 { Vec::new() } else { vec![Factor { dim: dims.fresh(size), is_present }] }
}

/// The same position with nothing present.
pub(super) fn absent(position: &[Factor]) -> Position {
    position.iter().map(|factor| Factor { is_present: false, ..*factor }).collect()
}

/// Number of elements along a position.
pub(super) fn size(dims: &mut Dims, position: &[Factor]) -> u64 {
    position.iter().fold(1, |size, factor| dims.size(factor.dim).saturating_mul(size))
}

/// Cuts two positions of one size at the same places; `None` where neither size divides the other.
fn align(dims: &mut Dims, a: &[Factor], b: &[Factor]) -> Option<()> {
    loop {
        let names = |dims: &mut Dims, position: &[Factor]| -> Vec<Dim> {
            leaves(dims, position).into_iter().map(|factor| factor.dim).collect()
        };
        let (left, right) = (names(dims, a), names(dims, b));
        let sizes = |dims: &mut Dims, names: &[Dim]| -> Vec<u64> { names.iter().map(|dim| dims.size(*dim)).collect() };
        if sizes(dims, &left) == sizes(dims, &right) {
            return Some(());
        }
        dims.refine(left, right)?;
    }
}

/// Brings tensors of one shape together: the same dim at each place, by unification where that is possible and by
/// renaming where it is not. Returns them and the shape of what is computed from them, elementwise.
pub(super) fn combine(dims: &mut Dims, mut values: Vec<Value>) -> Option<(Vec<Value>, Vec<Position>)> {
    let rank = values.first()?.shape.len();
    if values.iter().any(|value| value.shape.len() != rank) {
        return None;
    }
    // Cutting one may cut others again.
    let mut cuts = 0;
    loop {
        for at in 0..rank {
            for pair in values.windows(2) {
                align(dims, &pair[0].shape[at], &pair[1].shape[at])?;
            }
        }
        let now = values.iter().flat_map(|value| &value.shape).map(|position| leaves(dims, position).len()).sum();
        if now == cuts {
            break;
        }
        cuts = now;
    }
    for value in &mut values {
        value.shape = value.shape.iter().map(|position| leaves(dims, position)).collect();
    }
    let mut used: Vec<Dim> = Vec::new();
    let mut shape = Vec::new();
    for at in 0..rank {
        let mut position = Vec::new();
        for part in 0..values.first()?.shape[at].len() {
            let candidates: Vec<Dim> = values
                .iter()
                .map(|value| value.shape[at][part])
                .filter(|factor| factor.is_present)
                .map(|factor| factor.dim)
                .collect();
            let Some(&first) = candidates.first() else {
                position.push(values.first()?.shape[at][part]);
                continue;
            };
            used = used.iter().map(|dim| dims.leaves(*dim)[0]).collect();
            let candidates: Vec<Dim> = candidates.iter().map(|dim| dims.leaves(*dim)[0]).collect();
            let free = candidates.iter().copied().find(|dim| !used.contains(dim));
            let target = free.unwrap_or_else(|| dims.twin(first, &used));
            used.push(target);
            dims.together(&used);
            for candidate in candidates {
                let (target, candidate) = (dims.leaves(target)[0], dims.leaves(candidate)[0]);
                if !used.contains(&candidate) || candidate == target {
                    dims.unify(target, candidate);
                }
            }
            position.push(Factor { dim: target, is_present: true });
        }
        shape.push(position);
    }
    let values = values.into_iter().map(|value| retarget(dims, value, &shape)).collect();
    Some((values, shape))
}

/// The same tensor with the dims of `shape` where it has any; both are cut at the same places.
fn retarget(dims: &mut Dims, value: Value, shape: &[Position]) -> Value {
    let mut pairs = Vec::new();
    let mut placed = Vec::new();
    for (have, want) in value.shape.iter().zip(shape) {
        let mut position = Vec::new();
        for (have, want) in have.iter().zip(want) {
            let (from, to) = (dims.leaves(have.dim)[0], dims.leaves(want.dim)[0]);
            if have.is_present && from != to {
                pairs.push((from, to));
            }
            position.push(Factor { dim: if have.is_present { to } else { have.dim }, ..*have });
        }
        placed.push(position);
    }
    if pairs.is_empty() || matches!(*value.expr, Expr::Number(_)) {
        return Value { shape: placed, ..value };
    }
    // One after the other: a name has to be free when it is taken.
    let mut taken = present(dims, &value.shape);
    let mut steps = Vec::new();
    while !pairs.is_empty() {
        if let Some(at) = pairs.iter().position(|(_, to)| !taken.contains(to)) {
            let (from, to) = pairs.remove(at);
            taken.retain(|dim| *dim != from);
            taken.push(to);
            steps.push((from, to));
        } else {
            let (from, to) = pairs.remove(0);
            let mut others = taken.clone();
            others.extend(pairs.iter().map(|(_, to)| *to));
            others.push(to);
            let between = dims.twin(from, &others);
            taken.retain(|dim| *dim != from);
            taken.push(between);
            steps.push((from, between));
            pairs.push((between, to));
        }
    }
    Value { expr: Rc::new(Expr::Rename(steps, value.expr)), shape: placed, ..value }
}

/// Groups factors anew, for a reshape to these sizes; `None` where a size cuts through a factor that it does not divide.
pub(super) fn reshape(dims: &mut Dims, shape: &[Position], sizes: &[u64]) -> Option<Vec<Position>> {
    let mut rest: Position = shape.iter().flat_map(|position| leaves(dims, position)).collect();
    let mut positions = Vec::new();
    for &wanted in sizes.iter().rev() {
        let mut position = Vec::new();
        let mut left = wanted;
        while left > 1 {
            let factor = rest.pop()?;
            let size = dims.size(factor.dim);
            if left.is_multiple_of(size) {
                left /= size;
                position.push(factor);
            } else if size.is_multiple_of(left) {
                let (major, minor) = dims.split(factor.dim, left);
                // The same dim may stand further on.
                rest = leaves(dims, &rest);
                rest.push(Factor { dim: major, ..factor });
                position.push(Factor { dim: minor, ..factor });
                left = 1;
            } else {
                return None;
            }
        }
        position.reverse();
        positions.push(position);
    }
    positions.reverse();
    rest.is_empty().then_some(positions)
}
