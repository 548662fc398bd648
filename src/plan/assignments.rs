//! The iteration space of a local computation: the role of each mesh axis.
//!
//! An axis splits one index (in some order with the other axes on that index), stays in an open sum, or is idle. This
//! determines the layouts of the operands and of the local result; for a product the book's four cases are regions of
//! this space.

use crate::einsum::{Einsum, Index};
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, AxisSet, Mesh};
use crate::operator::Operator;

/// Roles of all axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    /// Layout of each operand at the computation.
    pub(super) operands: Vec<Sharding>,
    /// Layout of the local result.
    pub(super) result: Sharding,
}

/// A way in which axes stay in open sums: these operands are open over them, the others are not.
///
/// A product is linear in each factor separately, a sum in all its terms together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenWay {
    /// Indices of the operands.
    pub(super) operands: Vec<usize>,
    /// The axes over which all of them can be open.
    pub(super) axes: AxisSet,
    /// The operator of the open operands.
    pub(super) operator: Operator,
    /// The operator of the open result.
    pub(super) result: Operator,
}

/// The assignments to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// All of them.
    All,
    /// Those with the axes of each index in mesh order.
    InOrder,
    /// None: there are too many.
    Nothing,
}

/// Chooses the assignments of `axes` to list: at most `most`, for this number of indices.
pub(super) fn listed(indices: usize, ways: &[OpenWay], axes: AxisSet, most: usize) -> Listed {
    let others = 1 + ways.len();
    let count = |more: &dyn Fn(usize) -> usize| {
        (0..axes.len()).try_fold(1usize, |count, placed| count.checked_mul(others + more(placed))).unwrap_or(usize::MAX)
    };
    match (count(&|placed| indices + placed), count(&|_| indices)) {
        (all, _) if all <= most => Listed::All,
        (_, in_order) if in_order <= most => Listed::InOrder,
        (_, _) => Listed::Nothing,
    }
}

/// Lists the assignments of some mesh axes.
///
/// - `lengths`: global size of each index, which a split must divide.
/// - `sums`: the operator of a split contracted index.
pub(super) fn assignments(
    einsum: &Einsum,
    lengths: &[u64],
    ways: &[OpenWay],
    sums: Operator,
    (mesh, axes): (&Mesh, AxisSet),
    listed: Listed,
) -> Vec<Assignment> {
    if listed == Listed::Nothing {
        return Vec::new();
    }
    let start = Partial {
        lists: vec![Axes::NONE; lengths.len()],
        open: vec![AxisSet::NONE; einsum.operands.len()],
        passing: None,
    };
    let mut partial = vec![start];
    for axis in axes.iter() {
        partial = partial.iter().flat_map(|partial| partial.grow(axis, lengths, ways, mesh, listed)).collect();
    }
    partial.iter().filter_map(|partial| partial.finish(einsum, sums, mesh)).collect()
}

/// Axes placed so far.
#[derive(Clone)]
struct Partial {
    /// Axes of each index, major first.
    lists: Vec<Axes>,
    /// The axes over which each operand stays open.
    open: Vec<AxisSet>,
    /// The operators of the operands and of the result, if they are open.
    passing: Option<(Operator, Operator)>,
}

impl Partial {
    /// Extensions by one axis: idle, in open sums, or at any position on any index.
    fn grow(&self, axis: AxisId, lengths: &[u64], ways: &[OpenWay], mesh: &Mesh, listed: Listed) -> Vec<Partial> {
        let mut grown = vec![self.clone()];
        for way in ways.iter().filter(|way| way.axes.contains(axis)) {
            let operators = (way.operator, way.result);
            if self.passing.is_some_and(|passing| passing != operators) {
                continue;
            }
            let mut next = Partial { passing: Some(operators), ..self.clone() };
            for operand in &way.operands {
                next.open[*operand] = next.open[*operand].union(AxisSet::one(axis));
            }
            grown.push(next);
        }
        for (index, list) in self.lists.iter().enumerate() {
            if !lengths[index].is_multiple_of(list.group_size(mesh) * mesh.size(axis)) {
                continue;
            }
            let first = if listed == Listed::All { 0 } else { list.len() };
            for place in first..=list.len() {
                let mut next = self.clone();
                next.lists[index] = list.iter().take(place).chain([axis]).chain(list.iter().skip(place)).collect();
                grown.push(next);
            }
        }
        grown
    }

    /// The layouts; `None` if the result would be open with two operators.
    fn finish(&self, einsum: &Einsum, sums: Operator, mesh: &Mesh) -> Option<Assignment> {
        let sharding = |indices: &[Index], open: AxisSet, operator: Operator| {
            let dims = indices.iter().map(|index| self.lists[usize::from(*index)]).collect();
            let mut sharding = Sharding { dims, open, operator: operator.within(open, mesh) };
            sharding.set_open(open);
            sharding
        };
        let contracted = einsum.contracted().into_iter().map(|index| self.lists[usize::from(index)].set());
        let made = contracted.fold(AxisSet::NONE, AxisSet::union);
        let (passing, result) = self.passing.unwrap_or((sums, sums));
        if !made.is_empty() && result != sums {
            return None;
        }
        let open = self.open.iter().copied().fold(made, AxisSet::union);
        let operands = einsum.operands.iter().zip(&self.open);
        Some(Assignment {
            operands: operands.map(|(indices, open)| sharding(indices, *open, passing)).collect(),
            result: sharding(&einsum.result, open, result),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::DimId;

    fn matmul() -> Einsum {
        let [i, j, k] = [0, 1, 2].map(DimId);
        Einsum::new(&[vec![i, j], vec![j, k]], &[i, k])
    }

    fn all(mesh: &Mesh) -> (&Mesh, AxisSet) {
        (mesh, mesh.axis_ids().collect())
    }

    /// A[I, J] * B[J, K] on one axis: idle, on I, on J, on K; and open on one side where possible.
    #[test]
    fn one_axis_does_one_thing() {
        let mesh = Mesh::of(&[("X", 4)]);
        assert_eq!(assignments(&matmul(), &[8, 8, 8], &[], Operator::Sum, all(&mesh), Listed::All).len(), 4);
        assert_eq!(assignments(&matmul(), &[8, 6, 8], &[], Operator::Sum, all(&mesh), Listed::All).len(), 3);
        let (operator, result) = (Operator::Sum, Operator::Sum);
        let left = OpenWay { operands: vec![0], axes: AxisSet::one(AxisId::new(0)), operator, result };
        assert_eq!(assignments(&matmul(), &[8, 8, 8], &[left], Operator::Sum, all(&mesh), Listed::All).len(), 5);
    }

    /// In mesh order, two axes have 16 assignments; the computed number counts all orders.
    #[test]
    fn many_are_listed_in_order() {
        let mesh = Mesh::of(&[("X", 2), ("Y", 2)]);
        let count = |listed| assignments(&matmul(), &[8, 8, 8], &[], Operator::Sum, all(&mesh), listed).len();
        assert_eq!([Listed::All, Listed::InOrder, Listed::Nothing].map(count), [19, 16, 0]);
        let of = |axes: usize| Mesh::of(&["A", "B", "C", "D", "E", "F", "G", "H"].map(|name| (name, 2))[..axes]);
        let listed = [5, 6, 8].map(|axes| listed(8, &[], all(&of(axes)).1, 400_000));
        assert_eq!(listed, [Listed::All, Listed::Nothing, Listed::Nothing]);
        assert_eq!(super::listed(5, &[], all(&of(7)).1, 400_000), Listed::InOrder);
    }

    /// Two axes: each on one of 3 indices or idle is 16, and the 3 pairs on one index come in two orders.
    #[test]
    fn orders_count() {
        let mesh = Mesh::of(&[("X", 2), ("Y", 2)]);
        assert_eq!(assignments(&matmul(), &[8, 8, 8], &[], Operator::Sum, all(&mesh), Listed::All).len(), 19);
    }
}
