//! Lines of a page that show alternatives, read leniently: an array in another layout is another array.
//!
//! ```text
//! C[I, K] = A * B       C[I, K] = A * B
//! C[I_X, K] = A * B     C_2[I_X, K] = A * B
//! ```

use super::{ArrayRef, Brackets, DimName, DimSize, Name, Statement, StatementKind, Subscript};
use std::collections::{BTreeMap, BTreeSet};

/// Names that stand for several: dims that are products of dims, and axes that have parts.
#[derive(Default)]
pub(super) struct Composed {
    dims: BTreeMap<String, Vec<String>>,
    axes: BTreeMap<String, Vec<String>>,
}

/// A layout with all names in parts. Dims that some name merges have all their axes on the first.
#[derive(Clone, PartialEq, Eq)]
struct Spelled {
    dims: Vec<(String, Vec<String>)>,
    open: Option<(String, BTreeSet<String>)>,
}

impl Composed {
    /// The names that a statement declares.
    pub(super) fn know(&mut self, statement: &Statement) {
        match &statement.kind {
            StatementKind::Mesh { axes, .. } => {
                for axis in axes.iter().filter(|axis| !axis.more.is_empty()) {
                    let name = &axis.name.node;
                    let parts = (1..=axis.more.len() + 1).map(|part| format!("{name}{part}"));
                    self.axes.insert(name.clone(), parts.collect());
                }
            }
            StatementKind::View { axis, parts } => {
                let parts = parts.iter().map(|part| part.name.node.clone());
                self.axes.insert(axis.node.clone(), parts.collect());
            }
            StatementKind::Dims(dims) => {
                for dim in dims {
                    if let DimSize::Parts(parts) = &dim.size {
                        self.dims.insert(dim.name.node.clone(), parts.iter().map(|part| part.node.clone()).collect());
                    }
                }
            }
            _ => {}
        }
    }

    /// The layout of brackets; `None` if a hole leaves it open.
    fn layout(&self, brackets: &Brackets) -> Option<Spelled> {
        let mut dims = Vec::new();
        for item in &brackets.dims {
            if brackets.hole(item).is_some() || brackets.rest.is_some() {
                return None;
            }
            let axes = match &item.subscript {
                Some(Subscript::Axes(words)) => self.axes(words),
                Some(Subscript::Hole(_)) | None => Vec::new(),
            };
            let name = match &item.dim {
                DimName::Named(name) => name.clone(),
                DimName::Literal(size) => size.to_string(),
            };
            let mut parts = self.dims.get(&name).cloned().unwrap_or_else(|| vec![name]).into_iter();
            dims.extend(parts.next().map(|first| (first, axes)));
            dims.extend(parts.map(|part| (part, Vec::new())));
        }
        for parts in self.dims.values() {
            for at in 0..(dims.len() + 1).saturating_sub(parts.len()) {
                let run = &mut dims[at..at + parts.len()];
                if run.iter().map(|(name, _)| name).eq(parts) {
                    let axes = run.iter_mut().flat_map(|(_, axes)| std::mem::take(axes)).collect();
                    run[0].1 = axes;
                }
            }
        }
        let open = brackets.open.as_ref();
        let open = open.map(|open| (open.operator.node.clone(), self.axes(&open.axes).into_iter().collect()));
        Some(Spelled { dims, open })
    }

    /// The axes of words: parts of axes, axes, and runs of single letters.
    fn axes(&self, words: &[Name]) -> Vec<String> {
        let parts = |name: &str| self.axes.get(name).cloned();
        let run = |word: &str| -> Vec<String> {
            let letters = word.chars().map(|letter| letter.to_string());
            letters.flat_map(|letter| parts(&letter).unwrap_or_else(|| vec![letter])).collect()
        };
        let is_run = |word: &str| word.chars().all(|letter| letter.is_ascii_uppercase());
        let of = |word: &Name| match parts(&word.node) {
            Some(parts) => parts,
            None if is_run(&word.node) => run(&word.node),
            None => vec![word.node.clone()],
        };
        words.iter().flat_map(of).collect()
    }
}

/// Arrays as the lines so far have them.
///
/// A page shows several alternatives one below the other: `A[I, J]`, then `A[I_X, J]`. An array that was not declared and
/// that a line has in another layout, or a result that no line has used before it is computed again, is another one.
#[derive(Clone, Default)]
pub(super) struct Alternatives {
    arrays: BTreeMap<String, Shown>,
}

/// An array under its name on the page.
#[derive(Clone)]
struct Shown {
    /// Its name in the program.
    name: String,
    /// Its last layout; `None` if it is not known.
    layout: Option<Spelled>,
    /// Whether a line has used it since it was computed.
    is_used: bool,
}

impl Alternatives {
    /// Declared arrays keep their names.
    pub(super) fn declare(&mut self, name: &Name) {
        self.set(&name.node, name.node.clone(), None, true);
    }

    /// A use, which gets the name of its array in the program; returns the new text if that is another one.
    pub(super) fn using(&mut self, array: &mut ArrayRef, names: &Composed) -> Option<String> {
        let said = array.brackets.as_ref().and_then(|brackets| names.layout(brackets));
        let name = array.name.as_mut()?;
        let name_on_page = name.node.clone();
        let other = match self.arrays.get_mut(&name_on_page) {
            Some(shown) => {
                shown.is_used = true;
                match (&shown.layout, &said) {
                    (Some(known), Some(said)) if known != said => self.fresh(&name_on_page),
                    _ => shown.name.clone(),
                }
            }
            None => name_on_page.clone(),
        };
        if said.is_some() {
            let is_declared = self.arrays.get(&name_on_page).is_some_and(|shown| shown.layout.is_none());
            let layout = said.filter(|_| !is_declared);
            self.set(&name_on_page, other.clone(), layout, true);
        }
        name.node = other;
        (name.node != name_on_page).then(|| array.to_string())
    }

    /// A result, as [`Alternatives::using`].
    pub(super) fn result(&mut self, name: &mut Name, brackets: Option<&Brackets>, names: &Composed) -> bool {
        let name_on_page = name.node.clone();
        let is_other = self.arrays.get(&name_on_page).is_some_and(|shown| !shown.is_used);
        let current = self.arrays.get(&name_on_page).map(|shown| shown.name.clone());
        let other = if is_other { self.fresh(&name_on_page) } else { current.unwrap_or_else(|| name_on_page.clone()) };
        self.set(&name_on_page, other.clone(), brackets.and_then(|brackets| names.layout(brackets)), false);
        name.node = other;
        name.node != name_on_page
    }

    /// The arrays as the body of a `repeat` has them: computing one from outside again carries it.
    pub(super) fn in_body(&self) -> Alternatives {
        let mut inside = self.clone();
        inside.arrays.values_mut().for_each(|shown| shown.is_used = true);
        inside
    }

    /// Leaves a body: its own names are forgotten.
    pub(super) fn leave(&mut self, body: &Alternatives) {
        for (name, shown) in &mut self.arrays {
            if let Some(inside) = body.arrays.get(name).filter(|inside| inside.name == shown.name) {
                *shown = inside.clone();
            }
        }
    }

    fn set(&mut self, name_on_page: &str, name: String, layout: Option<Spelled>, is_used: bool) {
        self.arrays.insert(name_on_page.to_owned(), Shown { name, layout, is_used });
    }

    /// The next name for an array, `A_2`, `A_3`.
    fn fresh(&self, name: &str) -> String {
        let last =
            self.arrays.get(name).and_then(|shown| shown.name.strip_prefix(name)?.strip_prefix('_')?.parse().ok());
        let last: u32 = last.unwrap_or(1);
        let names = (last + 1..).map(|number| format!("{name}_{number}"));
        names.into_iter().find(|fresh| !self.arrays.contains_key(fresh)).unwrap_or_default()
    }
}
