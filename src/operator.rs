//! Operators that combine the partial results of open sums.

use crate::dtype::DType;
use crate::mesh::{Axes, AxisSet, DeviceId, Mesh};
use itertools::Itertools;
use std::fmt;

/// The operator of an open sum.
///
/// An `Add` and a reduction over dims combine pairwise and need an operator that [folds](Operator::folds). The others
/// consist of a map, a fold, and a final step: see [`Operator::combiner`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// The sum; integers wrap. Written `U`.
    #[default]
    Sum,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
    /// The product; integers wrap.
    Mul,
    /// Logical and.
    And,
    /// Logical or.
    Or,
    /// The sum, divided by the size of the group.
    Mean,
    /// The sum of squares: each contribution is squared once; partial sums are added.
    SquareAdd,
    /// The block of one device of the group, absent on the others. A broadcast closes it.
    ///
    /// Of the device, only the coordinates along the axes of the sum count; the others are 0, so that equal sums compare
    /// equal.
    Root(DeviceId),
}

impl Operator {
    /// All operators; the root is the first device.
    pub const ALL: [Operator; 9] = [
        Operator::Sum,
        Operator::Max,
        Operator::Min,
        Operator::Mul,
        Operator::And,
        Operator::Or,
        Operator::Mean,
        Operator::SquareAdd,
        Operator::Root(DeviceId(0)),
    ];

    /// The name in open-sum braces: `{U_X}`, `{MAX_X}`.
    pub fn word(self) -> &'static str {
        match self {
            Operator::Sum => "U",
            Operator::Max => "MAX",
            Operator::Min => "MIN",
            Operator::Mul => "MUL",
            Operator::And => "AND",
            Operator::Or => "OR",
            Operator::Mean => "MEAN",
            Operator::SquareAdd => "SQUARE_ADD",
            Operator::Root(_) => "ROOT",
        }
    }

    /// Parses the name, with the first device as the root; `LOGICAL_AND` and `LOGICAL_OR` are `AND` and `OR`, `ADD` is `U`.
    pub fn from_word(word: &str) -> Option<Operator> {
        let word = word.strip_prefix("LOGICAL_").filter(|rest| matches!(*rest, "AND" | "OR")).unwrap_or(word);
        let word = if word == "ADD" { "U" } else { word };
        Operator::ALL.into_iter().find(|operator| operator.word() == word)
    }

    /// Parses the displayed name.
    pub fn from_name(name: &str) -> Option<Operator> {
        Operator::ALL.into_iter().find(|operator| operator.name() == name)
    }

    /// The displayed name.
    pub fn name(self) -> &'static str {
        match self {
            Operator::Sum => "sum",
            Operator::Max => "max",
            Operator::Min => "min",
            Operator::Mul => "mul",
            Operator::And => "and",
            Operator::Or => "or",
            Operator::Mean => "mean",
            Operator::SquareAdd => "square_add",
            Operator::Root(_) => "root",
        }
    }

    /// The root with this rank along the axes, the first of them major; `None` for other operators, and if there is no
    /// such rank.
    pub fn with_root(self, rank: u64, axes: Axes, mesh: &Mesh) -> Option<Operator> {
        let has = self.is_root() && rank < axes.group_size(mesh);
        has.then(|| Operator::Root(mesh.with_rank(DeviceId(0), axes.iter(), rank)))
    }

    /// The operator of the same sum over these axes only, on which the root of a [`Operator::Root`] depends.
    pub fn within(self, open: AxisSet, mesh: &Mesh) -> Operator {
        match self {
            Operator::Root(root) => {
                Operator::Root(mesh.with_rank(DeviceId(0), open.iter(), mesh.rank(root, open.iter())))
            }
            operator => operator,
        }
    }

    /// The axes along which two sums over these axes are the same: for two roots, those with the same coordinate.
    pub fn common(self, other: Operator, open: AxisSet, mesh: &Mesh) -> AxisSet {
        match (self, other) {
            (Operator::Root(one), Operator::Root(other)) => {
                open.iter().filter(|axis| mesh.coordinate(one, *axis) == mesh.coordinate(other, *axis)).collect()
            }
            (one, other) if one == other => open,
            _ => AxisSet::NONE,
        }
    }

    /// The operators of some open sums, once each and in order. Roots that are the same along the axes that they share are one, over all
    /// axes of both.
    pub fn of_sums(sums: impl IntoIterator<Item = (Operator, AxisSet)>, mesh: &Mesh) -> Vec<Operator> {
        let mut found: Vec<(Operator, AxisSet)> = Vec::new();
        for (operator, open) in sums {
            let same = |(known, axes): &&mut (Operator, AxisSet)| {
                let shared = axes.intersection(open);
                let are_roots = known.is_root() && operator.is_root();
                *known == operator || are_roots && known.common(operator, shared, mesh) == shared
            };
            match (found.iter_mut().find(same), operator) {
                (Some((Operator::Root(known), axes)), Operator::Root(root)) => {
                    let coordinate = |axis| mesh.coordinate(root, axis);
                    *known =
                        open.iter().fold(*known, |known, axis| mesh.with_coordinate(known, axis, coordinate(axis)));
                    *axes = axes.union(open);
                }
                (Some(_), _) => {}
                (None, _) => found.push((operator, open)),
            }
        }
        found.into_iter().map(|(operator, _)| operator).sorted().collect()
    }

    /// Whether only one device of the group has a block.
    pub fn is_root(self) -> bool {
        matches!(self, Operator::Root(_))
    }

    /// Whether it is idempotent.
    pub fn is_idempotent(self) -> bool {
        match self {
            Operator::Max | Operator::Min | Operator::And | Operator::Or | Operator::Root(_) => true,
            Operator::Sum | Operator::Mul | Operator::Mean | Operator::SquareAdd => false,
        }
    }

    /// Whether it combines pairwise in any order, without a map or a final step.
    pub fn folds(self) -> bool {
        self.combiner() == self && !self.is_root()
    }

    /// The operator that combines mapped contributions.
    pub fn combiner(self) -> Operator {
        match self {
            Operator::Mean | Operator::SquareAdd => Operator::Sum,
            Operator::Sum
            | Operator::Max
            | Operator::Min
            | Operator::Mul
            | Operator::And
            | Operator::Or
            | Operator::Root(_) => self,
        }
    }

    /// The operator of the remaining open sum after a part of the axes is reduced: squares are squared once.
    pub fn after_part(self) -> Operator {
        match self {
            Operator::SquareAdd => Operator::Sum,
            Operator::Sum
            | Operator::Max
            | Operator::Min
            | Operator::Mul
            | Operator::And
            | Operator::Or
            | Operator::Mean
            | Operator::Root(_) => self,
        }
    }

    /// The dtype of a reduction: sums of 8-bit numbers are widened, like their products.
    pub fn reduced(self, dtype: DType) -> DType {
        if self == Operator::Sum { dtype.widened() } else { dtype }
    }

    /// Whether it supports this dtype.
    pub fn takes(self, dtype: DType) -> bool {
        match self {
            Operator::And | Operator::Or => dtype == DType::Bool,
            Operator::Mean => dtype.is_float(),
            Operator::Root(_) => true,
            Operator::Sum | Operator::Max | Operator::Min | Operator::Mul | Operator::SquareAdd => dtype != DType::Bool,
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::AxisId;

    #[test]
    fn words_and_types() {
        for operator in Operator::ALL {
            assert_eq!(Operator::from_word(operator.word()), Some(operator));
            assert_eq!(Operator::from_name(operator.name()), Some(operator));
        }
        assert_eq!(Operator::from_word("LOGICAL_AND"), Some(Operator::And));
        assert_eq!(Operator::from_word("LOGICAL_OR"), Some(Operator::Or));
        assert_eq!(Operator::from_word("LOGICAL_MAX"), None);
        let takes = |dtype| Operator::ALL.into_iter().filter(|operator| operator.takes(dtype)).count();
        let counts = DType::ALL.map(takes);
        assert_eq!(counts, [3, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7]);
    }

    /// Roots that agree along the axes of both are one; others, and other operators, stay apart.
    #[test]
    fn roots_of_several_sums() {
        let mesh = Mesh::of(&[("X", 3), ("Y", 4)]);
        let [x, y] = [0, 1].map(AxisId::new);
        let both = Axes::one(x).with(y);
        let root = |rank, axes: Axes| {
            let operator = Operator::Root(DeviceId(0)).with_root(rank, axes, &mesh);
            (operator.expect("a rank"), axes.set())
        };
        let of = |sums: &[(Operator, AxisSet)]| Operator::of_sums(sums.iter().copied(), &mesh);
        let (two, one, all) = (root(2, Axes::one(x)), root(1, Axes::one(y)), root(9, both));
        assert_eq!(of(&[two, one]), [all.0]);
        assert_eq!(of(&[all, two, one]), [all.0]);
        assert_eq!(of(&[two, root(1, Axes::one(x))]).len(), 2);
        assert_eq!(of(&[two, (Operator::Sum, AxisSet::one(y))]), [Operator::Sum, two.0]);
        assert_eq!(all.0.within(AxisSet::one(y), &mesh), one.0);
        assert_eq!(all.0.common(root(8, both).0, both.set(), &mesh), AxisSet::one(x));
        assert_eq!(Operator::Root(DeviceId(0)).with_root(12, both, &mesh), None);
        assert_eq!(Operator::Max.with_root(0, both, &mesh), None);
    }
}
