//! Brackets: parsing to dims and sharding, legality, and comparison with a value's layout.

use super::checker::{Checker, quoted};
use super::error::{CheckError, Checked, Failure};
use super::infer::one_step;
use super::pad::least_common_multiple;
use super::{ValueId, Wanted};
use crate::diag::{Edit, Fix};
use crate::layout::{Dim, DimId, Sharding};
use crate::mesh::{Axes, AxisId, AxisSet};
use crate::operator::Operator;
use crate::span::{Span, Spanned};
use crate::syntax::{Brackets, DimName, DimRef, INDEXED, Subscript};
use itertools::Itertools;

/// A requested dim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestedDim {
    /// A named dim.
    Dim(Dim),
    /// An anonymous dim of this size.
    Literal(u64),
}

/// Valid brackets.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) requested: Vec<RequestedDim>,
    pub(super) wanted: Wanted,
    pub(super) span: Span,
    /// The text, `[I_X, K]{U_Y}`.
    pub(super) text: String,
    /// The place of each dim.
    pub(super) places: Vec<Span>,
}

/// The role of brackets.
struct Use<'a> {
    array: &'a str,
    /// The result of a product.
    product: bool,
    at: Span,
}

/// Axes of each dim and of the open sum as written, repeats included.
struct Lists {
    dims: Vec<Vec<(AxisId, Span)>>,
    open: Vec<(AxisId, Span)>,
    operator: Operator,
}

impl Checker {
    /// Reads brackets of `array`; `product` marks the result of one, whose axis reuse has another explanation.
    pub(super) fn brackets(&mut self, brackets: &Brackets, array: &str, product: bool) -> Checked<Written> {
        let resolved = self.resolved(brackets);
        let brackets = &*resolved;
        if let Some(at) = brackets.rest {
            self.diagnostics.push(&CheckError::DimsLeftOut { at });
        }
        let (requested, places) = self.requested(brackets, array)?;
        let holes = brackets.dims.iter().filter(|dim| brackets.hole(dim).is_some()).count();
        if let Some(open) = brackets.open.as_ref().filter(|_| holes > 0) {
            return Err(CheckError::HoleBesideOpenSum { array: quoted(array), at: open.span }.into());
        }
        let lists = self.lists(brackets)?;
        let use_of = Use { array, product, at: brackets.span };
        self.spent_once(&lists, &requested, &use_of)?;
        let sharding = lists.sharding();
        if holes > 0 {
            let written = self.partly(brackets, &sharding)?;
            let names = requested.iter().zip(&written).map(|(request, axes)| {
                let axes = axes.map_or("_?".to_owned(), |axes| axes.subscript(&self.mesh));
                format!("{}{axes}", self.request_name(*request))
            });
            let text = format!("[{}]", names.collect::<Vec<_>>().join(", "));
            for (axes, request) in written.iter().zip(&requested) {
                if let (Some(axes), RequestedDim::Dim(dim)) = (axes, request) {
                    self.note_split(*axes, dim.id);
                }
            }
            let free = written.iter().all(Option::is_none);
            let wanted = if free { Wanted::Free } else { Wanted::Partly(written) };
            return Ok(Written { requested, wanted, span: brackets.span, text, places });
        }
        let text = self.spell(&requested, &sharding);
        for (axes, request) in sharding.dims.iter().zip(&requested) {
            if let RequestedDim::Dim(dim) = request {
                self.note_split(*axes, dim.id);
            }
        }
        Ok(Written { requested, wanted: Wanted::Exact(sharding), span: brackets.span, text, places })
    }

    /// The axes of each dim, empty for a hole; a composed dim with a hole has one in each part.
    fn partly(&mut self, brackets: &Brackets, sharding: &Sharding) -> Checked<Vec<Option<Axes>>> {
        let mut written = Vec::new();
        for item in &brackets.dims {
            let is_hole = brackets.hole(item).is_some();
            for _ in self.item_requests(&item.dim, item.span)? {
                written.push((!is_hole).then(|| sharding.dims[written.len()]));
            }
        }
        Ok(written)
    }

    /// The requested dims with their places; a composed dim yields its parts.
    fn requested(&mut self, brackets: &Brackets, array: &str) -> Checked<(Vec<RequestedDim>, Vec<Span>)> {
        brackets.dims.iter().try_for_each(|item| self.swapped(item))?;
        brackets.dims.windows(2).try_for_each(|pair| self.run_without_braces(&pair[0], &pair[1]))?;
        let mut requested: Vec<RequestedDim> = Vec::new();
        let mut places: Vec<Span> = Vec::new();
        for item in &brackets.dims {
            for request in self.item_requests(&item.dim, item.span)? {
                if let (RequestedDim::Dim(dim), Some(first)) =
                    (request, requested.iter().position(|known| *known == request))
                {
                    let (first, second) = (places[first], item.span);
                    let (dim, array) = (self.dims.name(dim.id), quoted(array));
                    return Err(CheckError::DimRepeated { dim, array, first, second }.into());
                }
                requested.push(request);
                places.push(item.span);
            }
            if requested.len() > Self::MOST_DIMS {
                let (array, rank, most) = (quoted(array), brackets.dims.len(), Self::MOST_DIMS);
                return Err(CheckError::TooManyDims { array, rank, most, at: brackets.span }.into());
            }
        }
        Ok((requested, places))
    }

    fn item_requests(&mut self, dim: &DimName, at: Span) -> Checked<Vec<RequestedDim>> {
        let size = match dim {
            DimName::Named(name) => return Ok(self.dims_named(name, at)?.into_iter().map(RequestedDim::Dim).collect()),
            DimName::Literal(size) => size,
        };
        match size.value(&mut |_| None) {
            Ok(0) => Err(CheckError::SizeZero { what: "a dim".to_owned(), at }.into()),
            Ok(size) => Ok(vec![RequestedDim::Literal(size)]),
            Err(flaw) => Err(CheckError::size(flaw, "a size in brackets must be a number").into()),
        }
    }

    fn lists(&mut self, brackets: &Brackets) -> Checked<Lists> {
        let mut dims = Vec::new();
        for item in &brackets.dims {
            let axes = match &item.subscript {
                Some(Subscript::Axes(words)) => self.axes(words)?,
                Some(Subscript::Hole(_)) | None => Vec::new(),
            };
            match &item.dim {
                DimName::Named(name) => {
                    let parts = self.dims_named(name, item.span)?;
                    dims.extend(self.spread(name, &parts, axes)?);
                }
                DimName::Literal(_) => dims.push(axes),
            }
        }
        let Some(open) = &brackets.open else {
            return Ok(Lists { dims, open: Vec::new(), operator: Operator::Sum });
        };
        let (word, at) = (&open.operator.node, open.operator.span);
        let operator = Operator::from_word(word).ok_or(CheckError::UnknownOperator { word: word.clone(), at })?;
        let axes = self.axes(&open.axes)?;
        let operator = open.root.as_ref().map_or(Ok(operator), |root| self.root(operator, &axes, root))?;
        Ok(Lists { dims, open: axes, operator })
    }

    /// The operator with the root of `{ROOT_YX=5}`: a rank along the axes as written.
    fn root(&self, operator: Operator, axes: &[(AxisId, Span)], root: &Spanned<u64>) -> Checked<Operator> {
        let axes = axes.iter().map(|(axis, _)| *axis).unique().collect::<Axes>();
        let invalid = || {
            let names = axes.names(&self.mesh);
            let (what, help) = if operator.is_root() {
                let last = axes.group_size(&self.mesh) - 1;
                let what = format!("there is no device {} along `{names}`", root.node);
                (what, format!("the devices along `{names}` have the numbers 0 to {last}"))
            } else {
                let what = format!("an open {operator} has no root");
                let help = "remove the number; only `{ROOT_X=1}` is the block of one device";
                (what, help.replace('X', &names))
            };
            CheckError::InvalidRoot { what, at: root.span, help }.into()
        };
        operator.with_root(root.node, axes, &self.mesh).ok_or_else(invalid)
    }

    /// Checks that an axis is used once, on one dim or in the open sum.
    fn spent_once(&self, lists: &Lists, requested: &[RequestedDim], use_of: &Use<'_>) -> Checked<()> {
        let mut spent: Vec<(AxisId, Span, Option<usize>)> = Vec::new();
        let (name_only, array) = (use_of.array, quoted(use_of.array));
        for (axis, at, place) in lists.all() {
            let Some((_, first, before)) = spent.iter().find(|(known, ..)| *known == axis) else {
                spent.push((axis, at, place));
                continue;
            };
            let name = &self.mesh.axis(axis).name;
            let mut fixes = Vec::new();
            let (what, help) = match (before, place) {
                (Some(before), Some(place)) if *before != place => {
                    let keep = |dim: usize| format!("`{name_only}{}`", self.spell_without(lists, requested, axis, dim));
                    let edit = Edit::Replace(use_of.at);
                    let text = |dim: usize| self.spell_without(lists, requested, axis, dim);
                    fixes = [place, *before].map(|dim| Fix::new(edit, text(dim))).to_vec();
                    let reason = if use_of.product {
                        "each device would hold only diagonal blocks of the product; write"
                    } else {
                        "an axis can shard only one dim of an array; write"
                    };
                    let what = format!("axis `{name}` shards two dims of {array}");
                    (what, format!("{reason} {} or {}", keep(place), keep(*before)))
                }
                (Some(_), Some(_)) => {
                    (format!("axis `{name}` is used twice on one dim of {array}"), "remove one of them".to_owned())
                }
                (Some(_), None) | (None, Some(_)) => {
                    let help =
                        format!("close the sum over `{name}` before sharding a dim over `{name}`, or remove one");
                    (format!("axis `{name}` both shards a dim of {array} and is in its open sum"), help)
                }
                (None, None) => {
                    (format!("axis `{name}` is used twice in the open sum"), "remove one of them".to_owned())
                }
            };
            return Err(CheckError::AxisReused { fixes, what, first: *first, second: at, help }.into());
        }
        Ok(())
    }

    /// The brackets with `axis` on the dim `keep` only.
    fn spell_without(&self, lists: &Lists, requested: &[RequestedDim], axis: AxisId, keep: usize) -> String {
        let kept = |place: usize, list: &[(AxisId, Span)]| -> Axes {
            let mut axes = Axes::NONE;
            for (other, _) in list {
                // Other axes may be written twice as well: each is shown once.
                if (*other != axis || place == keep) && !axes.contains(*other) {
                    axes = axes.with(*other);
                }
            }
            axes
        };
        let dims: Vec<Axes> = lists.dims.iter().enumerate().map(|(place, list)| kept(place, list)).collect();
        let open = lists.open.iter().map(|(axis, _)| *axis).collect::<AxisSet>().without(AxisSet::one(axis));
        self.spell(requested, &Sharding { dims, open, operator: lists.operator })
    }

    /// The brackets as written.
    pub(super) fn spell(&self, requested: &[RequestedDim], sharding: &Sharding) -> String {
        let items = requested.iter().zip(&sharding.dims);
        let items: Vec<String> = items
            .map(|(request, axes)| format!("{}{}", self.request_name(*request), axes.subscript(&self.mesh)))
            .collect();
        format!("[{}]{}", items.join(", "), sharding.open_sum(&self.mesh))
    }

    fn request_name(&self, request: RequestedDim) -> String {
        match request {
            RequestedDim::Dim(dim) => self.dims.name(dim.id),
            RequestedDim::Literal(size) => size.to_string(),
        }
    }

    /// Records that a layout splits a dim by these axes.
    pub(super) fn note_split(&mut self, axes: Axes, dim: DimId) {
        let split = self.splits.entry(dim).or_insert(1);
        *split = least_common_multiple(*split, axes.group_size(&self.mesh));
    }

    /// The index into `dims` of each requested dim; unmatched requests are left out.
    pub(super) fn matched(&self, requested: &[RequestedDim], dims: &[Dim]) -> Vec<Dim> {
        let mut matched: Vec<Dim> = Vec::new();
        for request in requested {
            let fits = |dim: &&Dim| match request {
                RequestedDim::Dim(wanted) => dim.id == wanted.id,
                RequestedDim::Literal(size) => {
                    dim.size == *size && self.dims.is_literal(dim.id) && !matched.contains(dim)
                }
            };
            matched.extend(dims.iter().find(fits).copied());
        }
        matched
    }

    /// The first request without a matching dim.
    pub(super) fn unmatched(&self, requested: &[RequestedDim], dims: &[Dim]) -> Option<usize> {
        (0..requested.len()).find(|place| self.matched(&requested[..=*place], dims).len() <= *place)
    }

    /// Checks the brackets on a use against the value's layout; a free layout becomes exact.
    pub(super) fn assert_layout(&mut self, id: ValueId, brackets: &Brackets, name: &str) -> Checked<()> {
        let is_number = |item: &DimRef| matches!(item.dim, DimName::Literal(_));
        if brackets.dims.iter().any(is_number) && !self.value(id).dims.iter().any(|dim| self.dims.is_literal(dim.id)) {
            let (said, has) = (format!("{name}{brackets}"), self.show_as(id, name));
            let (at, from) = (brackets.span, self.place(id));
            let help = INDEXED.to_owned();
            return Err(CheckError::LayoutMismatch { fixes: Vec::new(), said, has, at, from, help }.into());
        }
        let written = self.brackets(brackets, name, false)?;
        let value = &self.values[id.index()];
        let same_dims =
            self.matched(&written.requested, &value.dims) == value.dims && written.requested.len() == value.dims.len();
        let at = written.span;
        match (&written.wanted, &value.wanted) {
            (Wanted::Free, _) if same_dims => Ok(()),
            (Wanted::Exact(_) | Wanted::Partly(_), Wanted::Exact(has)) if same_dims && written.wanted.allows(has) => {
                Ok(())
            }
            (Wanted::Partly(said), Wanted::Partly(has)) if same_dims && says_less(said, has) => Ok(()),
            (Wanted::Partly(_), Wanted::Partly(_) | Wanted::Free) if same_dims => {
                Err(CheckError::HoleInUse { array: quoted(name), at }.into())
            }
            (Wanted::Exact(said), asked @ (Wanted::Free | Wanted::Partly(_))) if same_dims && asked.allows(said) => {
                let said = said.clone();
                self.check_open(id, &said, at)?;
                self.values[id.index()].wanted = Wanted::Exact(said);
                self.places[id.index()] = at;
                Ok(())
            }
            (
                Wanted::Exact(_) | Wanted::Partly(_) | Wanted::Free,
                Wanted::Exact(_) | Wanted::Partly(_) | Wanted::Free,
            ) => {
                let said = format!("{name}{}", written.text);
                if !self.reported_layouts.insert((id, said.clone())) {
                    // The same contradiction again: one place is wrong, and it was shown.
                    return Err(Failure::Reported);
                }
                let has = self.show_as(id, name);
                let help = self.mismatch_help(id, &written, same_dims, name);
                let fixes = self.mismatch_fixes(id, &written, name);
                Err(CheckError::LayoutMismatch { fixes, said, has, at, from: self.place(id), help }.into())
            }
        }
    }

    /// The fixes for brackets on a use: a line before it, or the actual layout.
    fn mismatch_fixes(&self, id: ValueId, written: &Written, name: &str) -> Vec<Fix> {
        let (has, said) = (self.show_as(id, name), format!("{name}{}", written.text));
        let before = |text: String| Fix::new(Edit::Before, text);
        let mut fixes = Vec::new();
        if let (Wanted::Exact(from), Wanted::Exact(to)) = (&self.value(id).wanted, &written.wanted) {
            let dim_name = |dim: usize| self.dims.name(self.value(id).dims[dim].id);
            let step = one_step(from, to, &self.mesh).filter(|_| from.dims.len() == to.dims.len());
            let step = step.map(|collective| collective.name(from, &self.mesh, dim_name));
            fixes.extend(step.map(|collective| before(format!("{collective}({has}) -> {said}"))));
            fixes.push(before(format!("{has} -> {said}")));
        }
        fixes.push(Fix::new(Edit::Replace(self.use_place(id)), has));
        fixes
    }

    /// The line that makes the brackets on a use true.
    fn mismatch_help(&self, id: ValueId, written: &Written, same_dims: bool, name: &str) -> String {
        let value = &self.values[id.index()];
        let (has, said) = (self.show_as(id, name), format!("{name}{}", written.text));
        let (Wanted::Exact(from), Wanted::Exact(to)) = (&value.wanted, &written.wanted) else {
            return format!("write `{has}` here");
        };
        let same_set = written.requested.len() == value.dims.len()
            && self.matched(&written.requested, &value.dims).len() == value.dims.len();
        let opens = !to.open.is_subset(from.open) || (!to.open.is_empty() && to.operator != from.operator);
        if !same_set || opens {
            return format!("write `{has}` here");
        }
        match one_step(from, to, &self.mesh).filter(|_| same_dims) {
            Some(collective) => {
                let dim_name = |dim: usize| self.dims.name(value.dims[dim].id);
                let collective = collective.name(from, &self.mesh, dim_name);
                format!("write `{collective}({has}) -> {said}` first")
            }
            None => format!("write `{has} -> {said}` first"),
        }
    }
}

/// Whether all stated dims match the actual ones.
fn says_less(said: &[Option<Axes>], has: &[Option<Axes>]) -> bool {
    said.iter().zip(has).all(|(said, has)| said.is_none() || said == has)
}

impl Lists {
    /// Every axis with its place and dim, `None` for the open sum.
    fn all(&self) -> impl Iterator<Item = (AxisId, Span, Option<usize>)> {
        let dims = self.dims.iter().enumerate();
        let on_dims = dims.flat_map(|(place, list)| list.iter().map(move |(axis, at)| (*axis, *at, Some(place))));
        on_dims.chain(self.open.iter().map(|(axis, at)| (*axis, *at, None)))
    }

    /// The sharding, with each axis once.
    fn sharding(&self) -> Sharding {
        let list = |list: &Vec<(AxisId, Span)>| list.iter().map(|(axis, _)| *axis).collect::<Axes>();
        let mut sharding =
            Sharding { dims: self.dims.iter().map(list).collect(), open: AxisSet::NONE, operator: self.operator };
        sharding.set_open(self.open.iter().map(|(axis, _)| *axis).collect());
        sharding
    }
}
