//! Which dims of all tensors are the same dim: a union-find whose members can also be split into parts.
//!
//! A tensor of a module has sizes; an array of a program has named dims, each at most once. Operations say which sizes
//! mean the same dim: the factors of a product, the operands of an addition, the two sides of a reshape. Dims that
//! stand in one array stay different whatever an operation says; the operation then gets a `rename`.

use std::collections::BTreeSet;

/// A dim, or what became of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Dim(usize);

#[derive(Clone, Debug)]
enum State {
    /// A dim of this size, and those that stand in an array with it.
    Whole(u64, BTreeSet<Dim>),
    /// The same as another.
    Same(Dim),
    /// Two others, the first one major.
    Parts(Dim, Dim),
}

/// All dims of a module.
#[derive(Debug, Default)]
pub(super) struct Dims {
    states: Vec<State>,
    /// What a dim is called where it stands twice in one array.
    twins: Vec<Vec<Dim>>,
}

impl Dims {
    /// A new dim of this size.
    pub(super) fn fresh(&mut self, size: u64) -> Dim {
        self.states.push(State::Whole(size, BTreeSet::new()));
        self.twins.push(Vec::new());
        Dim(self.states.len() - 1)
    }

    /// The parts of a dim that are dims now, major first.
    pub(super) fn leaves(&mut self, dim: Dim) -> Vec<Dim> {
        let mut leaves = Vec::new();
        let mut open = vec![dim];
        while let Some(dim) = open.pop() {
            match self.states[dim.0] {
                State::Whole(..) => leaves.push(dim),
                State::Same(other) => open.push(self.root(other)),
                State::Parts(major, minor) => open.extend([minor, major]),
            }
        }
        leaves
    }

    /// The dim that stands for all that are the same as this one.
    fn root(&mut self, dim: Dim) -> Dim {
        let mut root = dim;
        while let State::Same(other) = self.states[root.0] {
            root = other;
        }
        let mut at = dim;
        while let State::Same(other) = self.states[at.0] {
            self.states[at.0] = State::Same(root);
            at = other;
        }
        root
    }

    /// Its size.
    pub(super) fn size(&mut self, dim: Dim) -> u64 {
        let mut size: u64 = 1;
        for leaf in self.leaves(dim) {
            if let State::Whole(part, _) = self.states[leaf.0] {
                size = size.saturating_mul(part);
            }
        }
        size
    }

    /// Splits a leaf into two dims, the minor one of this size, which divides the leaf's.
    pub(super) fn split(&mut self, dim: Dim, minor: u64) -> (Dim, Dim) {
        let State::Whole(size, beside) = self.states[dim.0].clone() else { unreachable!("leaves are split") };
        let parts = (self.fresh(size / minor), self.fresh(minor));
        self.states[dim.0] = State::Parts(parts.0, parts.1);
        for other in beside {
            for other in self.leaves(other) {
                self.keep_apart(parts.0, other);
                self.keep_apart(parts.1, other);
            }
        }
        self.keep_apart(parts.0, parts.1);
        parts
    }

    fn keep_apart(&mut self, a: Dim, b: Dim) {
        for (one, other) in [(a, b), (b, a)] {
            if let State::Whole(_, beside) = &mut self.states[one.0]
                && one != other
            {
                beside.insert(other);
            }
        }
    }

    /// Says that these leaves stand in one array.
    pub(super) fn together(&mut self, leaves: &[Dim]) {
        for (at, &a) in leaves.iter().enumerate() {
            for &b in leaves.iter().skip(at + 1) {
                self.keep_apart(a, b);
            }
        }
    }

    /// Whether two leaves stand in one array somewhere.
    pub(super) fn are_apart(&mut self, a: Dim, b: Dim) -> bool {
        let State::Whole(_, beside) = self.states[a.0].clone() else { return false };
        beside.into_iter().any(|other| self.leaves(other).contains(&b))
    }

    /// Makes two leaves of one size the same dim, unless they stand in one array. Returns whether they are the same now.
    pub(super) fn unify(&mut self, a: Dim, b: Dim) -> bool {
        if a == b {
            return true;
        }
        if self.are_apart(a, b) || self.are_apart(b, a) {
            return false;
        }
        // The older one stays: dims of inputs come first.
        let (stays, goes) = if a < b { (a, b) } else { (b, a) };
        if let State::Whole(_, beside) = std::mem::replace(&mut self.states[goes.0], State::Same(stays)) {
            for other in beside {
                for other in self.leaves(other) {
                    // Entries of dims that are gone would add up over a long module.
                    if let State::Whole(_, beside) = &mut self.states[other.0] {
                        beside.remove(&goes);
                    }
                    self.keep_apart(stays, other);
                }
            }
        }
        let twins = std::mem::take(&mut self.twins[goes.0]);
        self.twins[stays.0].extend(twins);
        true
    }

    /// Another dim of the same size that is none of `taken`: the one that was used before where there is one.
    pub(super) fn twin(&mut self, dim: Dim, taken: &[Dim]) -> Dim {
        for twin in self.twins[dim.0].clone() {
            if let [leaf] = self.leaves(twin)[..]
                && leaf != dim
                && !taken.contains(&leaf)
                && self.size(leaf) == self.size(dim)
            {
                return leaf;
            }
        }
        let size = self.size(dim);
        let twin = self.fresh(size);
        self.twins[dim.0].push(twin);
        twin
    }

    /// Splits leaves of two lists until both are cut at the same places; `None` where no size divides the other.
    /// Both lists have the same number of elements in all.
    pub(super) fn refine(&mut self, a: Vec<Dim>, b: Vec<Dim>) -> Option<Vec<(Dim, Dim)>> {
        // From the minor end, the last ones first.
        let (mut a, mut b) = (a, b);
        let mut pairs = Vec::new();
        loop {
            match (a.pop(), b.pop()) {
                (None, None) => break,
                (Some(one), Some(other)) => {
                    let (m, n) = (self.size(one), self.size(other));
                    if m == n {
                        pairs.push((one, other));
                    } else if m > n && m.is_multiple_of(n) {
                        let (major, minor) = self.split(one, n);
                        a.push(major);
                        pairs.push((minor, other));
                        // What is split may stand in the other list too.
                        b = b.into_iter().flat_map(|dim| self.leaves(dim)).collect();
                    } else if n > m && n.is_multiple_of(m) {
                        let (major, minor) = self.split(other, m);
                        b.push(major);
                        pairs.push((one, minor));
                        a = a.into_iter().flat_map(|dim| self.leaves(dim)).collect();
                    } else {
                        return None;
                    }
                }
                _ => return None,
            }
        }
        pairs.reverse();
        Some(pairs)
    }
}
