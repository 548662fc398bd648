//! Reassociation of product chains: `(x * A) * B` for `x * (A * B)`.

use super::super::Value;
use super::draft::Draft;
use super::{Definition, Program, Rewritten, ValueId, Wanted};
use crate::layout::Dim;
use itertools::Itertools;

/// Limit on the factors of a chain: there are 15 orders of four, and 105 of five.
const MOST_FACTORS: usize = 4;
/// Limit on the offered orders of a chain: those with the fewest operations.
const MOST_ORDERS: usize = 4;

/// An order in which factors are multiplied.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tree {
    Factor(ValueId),
    Product(Box<[Tree; 2]>),
}

/// A product and its chain of factors, with only unconstrained products in between.
pub struct Chain {
    root: ValueId,
    factors: Vec<ValueId>,
    /// The intermediate products, used by the chain alone, each after its own factors.
    between: Vec<ValueId>,
    written: Tree,
}

impl Program {
    /// The chains of three or more factors.
    pub fn chains(&self) -> Vec<Chain> {
        let users = self.users();
        let is_product = |id: ValueId| matches!(self.value(id).definition, Definition::Product { local: false, .. });
        let is_inner = |id: ValueId| {
            let value = self.value(id);
            let [user] = users[id.index()][..] else { return false };
            is_product(id)
                && is_product(user)
                && self.value(user).pin.is_none()
                && value.name.is_none()
                && self.is_free(id)
                && self.body_of(id) == self.body_of(user)
                && value.dtype == self.value(user).dtype
                && !self.aliases.iter().any(|alias| alias.value == id)
        };
        let inner: Vec<bool> = self.value_ids().map(is_inner).collect();
        let roots = self.value_ids().filter(|id| !inner[id.index()]);
        let chain = |root: ValueId| {
            let mut chain = Chain { root, factors: Vec::new(), between: Vec::new(), written: Tree::Factor(root) };
            chain.written = self.tree(root, root, &inner, &mut chain);
            let count = chain.factors.len();
            let is_short = (3..=MOST_FACTORS).contains(&count);
            let dtype = self.value(root).dtype;
            let is_plain = chain.factors.iter().all(|id| self.value(*id).dtype == dtype)
                && self.value(root).pin.is_none()
                && chain.factors.iter().all_unique();
            (is_short && is_plain && self.is_multilinear(&chain)).then_some(chain)
        };
        roots.filter_map(chain).collect()
    }

    fn tree(&self, id: ValueId, root: ValueId, inner: &[bool], chain: &mut Chain) -> Tree {
        match &self.value(id).definition {
            Definition::Product { operands, local: false } if id == root || inner[id.index()] => {
                let parts = operands.map(|operand| self.tree(operand, root, inner, chain));
                if id != root {
                    chain.between.push(id);
                }
                Tree::Product(Box::new(parts))
            }
            _ => {
                chain.factors.push(id);
                Tree::Factor(id)
            }
        }
    }

    /// Whether each dim of the factors is in the result, or summed after all factors that have it are multiplied: then all
    /// orders are equivalent.
    fn is_multilinear(&self, chain: &Chain) -> bool {
        let of = |id: ValueId| self.value(id).dims.iter().map(|dim| dim.id);
        let result: Vec<_> = of(chain.root).collect();
        let all = chain.factors.iter().flat_map(|factor| of(*factor)).unique();
        let mut summed = all.filter(|dim| !result.contains(dim));
        summed.all(|dim| chain.factors.iter().filter(|factor| of(**factor).contains(&dim)).count() > 1)
            && self.dims_between(&chain.written, chain).is_some_and(|dims| {
                // What is written between keeps what a later factor has, and no more.
                let same = |(dims, id): (&Vec<Dim>, &ValueId)| {
                    let own = &self.value(*id).dims;
                    own.len() == dims.len() && dims.iter().all(|dim| own.contains(dim))
                };
                dims.iter().zip(&chain.between).all(same)
            })
    }

    /// The dims of each product in a tree but the last: those that the result or another factor has.
    fn dims_between(&self, tree: &Tree, chain: &Chain) -> Option<Vec<Vec<Dim>>> {
        let mut found = Vec::new();
        self.dims_of(tree, chain, &mut found)?;
        found.pop();
        Some(found.into_iter().map(|(_, dims)| dims).collect())
    }

    /// The dims of a tree; those of each product in it go to `found`, factors first.
    ///
    /// `None` if two factors of a product share no dim: the product would be larger than both.
    fn dims_of(&self, tree: &Tree, chain: &Chain, found: &mut Vec<(Tree, Vec<Dim>)>) -> Option<Vec<Dim>> {
        let parts = match tree {
            Tree::Factor(id) => return Some(self.value(*id).dims.clone()),
            Tree::Product(parts) => parts,
        };
        let [left, right] = [self.dims_of(&parts[0], chain, found)?, self.dims_of(&parts[1], chain, found)?];
        if !left.iter().any(|dim| right.contains(dim)) && *tree != chain.written {
            return None;
        }
        let inside = factors(tree);
        let outside = chain.factors.iter().filter(|factor| !inside.contains(factor));
        let needed: Vec<Dim> =
            outside.chain([&chain.root]).flat_map(|id| self.value(*id).dims.iter().copied()).unique().collect();
        let dims: Vec<Dim> = left.into_iter().chain(right).unique().filter(|dim| needed.contains(dim)).collect();
        found.push((tree.clone(), dims.clone()));
        Some(dims)
    }

    /// Multiplications of one order, over all devices.
    fn work(&self, tree: &Tree, chain: &Chain) -> Option<u128> {
        let mut found = Vec::new();
        self.dims_of(tree, chain, &mut found)?;
        let size = |dims: Vec<Dim>| dims.iter().fold(1u128, |size, dim| size.saturating_mul(u128::from(dim.size)));
        let dims = |tree: &Tree| match tree {
            Tree::Factor(id) => self.value(*id).dims.clone(),
            Tree::Product(_) => {
                found.iter().find(|(known, _)| known == tree).map(|(_, dims)| dims.clone()).unwrap_or_default()
            }
        };
        let work = found.iter().map(|(tree, _)| match tree {
            Tree::Product(parts) => size(dims(&parts[0]).into_iter().chain(dims(&parts[1])).unique().collect()),
            Tree::Factor(_) => 0,
        });
        Some(work.fold(0, u128::saturating_add))
    }

    /// The program with a chain in other orders, those with the fewest operations first.
    pub fn with_chain_reordered(&self, chain: &Chain) -> Vec<Rewritten> {
        let trees = trees(&chain.factors).into_iter().filter(|tree| !is_same(tree, &chain.written));
        let by_work = trees.filter_map(|tree| Some((self.work(&tree, chain)?, tree))).sorted_by_key(|(work, _)| *work);
        by_work.take(MOST_ORDERS).map(|(_, tree)| self.reordered(chain, &tree)).collect()
    }

    fn reordered(&self, chain: &Chain, tree: &Tree) -> Rewritten {
        let mut draft = Draft::new(self);
        let mut dims = Vec::new();
        self.dims_of(tree, chain, &mut dims);
        let mut made: Vec<(Tree, ValueId)> = Vec::new();
        let body = self.body_of(chain.root);
        let root = self.value(chain.root);
        let count = dims.len();
        for (at, (tree, dims)) in dims.into_iter().enumerate() {
            let Tree::Product(parts) = &tree else { continue };
            let operand = |part: &Tree| match part {
                Tree::Factor(id) => *id,
                Tree::Product(_) => made.iter().find(|(known, _)| known == part).expect("factors come first").1,
            };
            let definition = Definition::Product { operands: [operand(&parts[0]), operand(&parts[1])], local: false };
            let value = match at + 1 == count {
                true => Value { definition, ..root.clone() },
                false => Value { name: None, dims, definition, wanted: Wanted::Free, ..root.clone() },
            };
            let id = draft.add(value, body);
            made.push((tree, id));
        }
        let new: Vec<ValueId> = made.iter().map(|(_, id)| *id).collect();
        draft.replace_by(chain.root, &new);
        draft.order.retain(|id| !chain.between.contains(id));
        let summary = format!("`{}` is computed as `{}`", self.shown(&chain.written, true), self.shown(tree, true));
        Rewritten { program: draft.finish(), summary }
    }

    fn shown(&self, tree: &Tree, outermost: bool) -> String {
        match tree {
            Tree::Factor(id) => self.factor(*id),
            Tree::Product(parts) => {
                let text = parts.iter().map(|part| self.shown(part, false)).join(" * ");
                if outermost { text } else { format!("({text})") }
            }
        }
    }
}

fn factors(tree: &Tree) -> Vec<ValueId> {
    match tree {
        Tree::Factor(id) => vec![*id],
        Tree::Product(parts) => parts.iter().flat_map(factors).collect(),
    }
}

/// Whether two orders differ only in which factor of a product is on the left.
fn is_same(one: &Tree, other: &Tree) -> bool {
    match (one, other) {
        (Tree::Factor(one), Tree::Factor(other)) => one == other,
        (Tree::Product(one), Tree::Product(other)) => {
            is_same(&one[0], &other[0]) && is_same(&one[1], &other[1])
                || is_same(&one[0], &other[1]) && is_same(&one[1], &other[0])
        }
        (Tree::Factor(_), Tree::Product(_)) | (Tree::Product(_), Tree::Factor(_)) => false,
    }
}

/// All orders of some factors: each split in two, recursively. The first factor stays left.
fn trees(factors: &[ValueId]) -> Vec<Tree> {
    if let [one] = factors {
        return vec![Tree::Factor(*one)];
    }
    let Some((first, others)) = factors.split_first() else { return Vec::new() };
    let sides = others.iter().copied().powerset().filter(|right| !right.is_empty());
    let both = sides.flat_map(|right| {
        let rest = others.iter().copied().filter(|factor| !right.contains(factor));
        let left: Vec<ValueId> = [*first].into_iter().chain(rest).collect();
        let (left, right) = (trees(&left), trees(&right));
        left.into_iter()
            .cartesian_product(right)
            .map(|(left, right)| Tree::Product(Box::new([left, right])))
            .collect_vec()
    });
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (2n - 3)!! of n.
    #[test]
    fn orders_count() {
        let factors: Vec<ValueId> = (0..4).map(ValueId).collect();
        assert_eq!([1, 2, 3, 4].map(|count| trees(&factors[..count]).len()), [1, 1, 3, 15]);
        let all = trees(&factors);
        assert!(all.iter().array_combinations().all(|[one, other]| !is_same(one, other)));
    }
}
