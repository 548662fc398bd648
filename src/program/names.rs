//! Name resolution and suggestions for unknown names.

use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use crate::diag::{Edit, Fix, did_you_mean, nearest};
use crate::layout::Dim;
use crate::mesh::AxisId;
use crate::span::Span;
use crate::syntax::{Brackets, DimName, DimRef, Name, Subscript};
use std::borrow::Cow;

impl Checker {
    /// Brackets with each dim separated from its axes: `d_model_X` is dim `d_model` over `X` if there is a dim of that name.
    /// The longest declared dim wins.
    ///
    /// Declarations guarantee a single reading ([`declarations`](super::declarations)).
    pub(super) fn resolved<'b>(&self, brackets: &'b Brackets) -> Cow<'b, Brackets> {
        let mut resolved = Cow::Borrowed(brackets);
        for (place, item) in brackets.dims.iter().enumerate() {
            if let Some(other) = self.resolved_dim(item) {
                resolved.to_mut().dims[place] = other;
            }
        }
        resolved
    }

    /// Reports a dim and an axis in each other's place, `X_I`.
    pub(super) fn swapped(&self, item: &DimRef) -> Checked<()> {
        let (DimName::Named(dim), Some(Subscript::Axes(words))) = (&item.dim, &item.subscript) else { return Ok(()) };
        let [word] = words.as_slice() else { return Ok(()) };
        let is_dim = |name: &str| self.named_dims.contains_key(name) || self.parts.contains_key(name);
        if is_dim(dim) || !is_dim(&word.node) || self.axes_named(dim).is_none() || self.axes_named(&word.node).is_some()
        {
            return Ok(());
        }
        let help = did_you_mean(&format!("{}_{dim}", word.node));
        let (label, at) = ("dim and axis are swapped", item.span);
        Err(CheckError::AxisAsDim { axis: dim.clone(), label, fixes: Vec::new(), at, help }.into())
    }

    /// Reports the second of several axes without braces, `B_X,Y`.
    pub(super) fn run_without_braces(&self, before: &DimRef, item: &DimRef) -> Checked<()> {
        let (DimName::Named(dim), Some(Subscript::Axes(words)), DimName::Named(axis), None) =
            (&before.dim, &before.subscript, &item.dim, &item.subscript)
        else {
            return Ok(());
        };
        if self.named_dims.contains_key(axis) || self.parts.contains_key(axis) || self.axes_named(axis).is_none() {
            return Ok(());
        }
        let words: Vec<&str> = words.iter().map(|word| word.node.as_str()).chain([axis.as_str()]).collect();
        let whole = format!("{dim}_{{{}}}", words.join(","));
        let fixes = vec![Fix::new(Edit::Replace(before.span.join(item.span)), whole.clone())];
        let help = format!("several axes of a dim are written in braces: `{whole}`");
        Err(CheckError::AxisAsDim { axis: axis.clone(), label: "expected a dim", fixes, at: item.span, help }.into())
    }

    fn resolved_dim(&self, item: &DimRef) -> Option<DimRef> {
        let (DimName::Named(dim), Some(Subscript::Axes(words))) = (&item.dim, &item.subscript) else { return None };
        let [word] = words.as_slice() else { return None };
        let is_in_braces = word.span.start as usize > item.span.start as usize + dim.len() + 1;
        let whole = format!("{dim}_{}", word.node);
        let is_dim = |name: &str| self.named_dims.contains_key(name) || self.parts.contains_key(name);
        if is_in_braces {
            return None;
        }
        if is_dim(&whole) {
            return Some(DimRef { dim: DimName::Named(whole), subscript: None, span: item.span });
        }
        let cuts = whole.rmatch_indices('_').map(|(at, _)| at).take_while(|at| *at > dim.len());
        let cut = cuts.into_iter().find(|at| is_dim(&whole[..*at]));
        if let Some(at) = cut {
            let start = word.span.end as usize - (whole.len() - at - 1);
            let axes = Name { node: whole[at + 1..].to_owned(), span: Span::new(start, word.span.end as usize) };
            let dim = DimName::Named(whole[..at].to_owned());
            return Some(DimRef { dim, subscript: Some(Subscript::Axes(vec![axes])), span: item.span });
        }
        // An unknown name is reported whole, without the axes at its end.
        let is_axes = self.axes_named(&word.node).is_some() || word.node.chars().count() < 3;
        let near = nearest(&word.node, self.mesh.axes().iter().map(|axis| axis.name.as_str()));
        if is_dim(dim) || is_axes || near.is_some() {
            return None;
        }
        let name = whole.rsplit_once('_').filter(|(_, end)| self.axes_named(end).is_some()).map(|(name, _)| name);
        let dim = DimName::Named(name.unwrap_or(&whole).to_owned());
        Some(DimRef { dim, subscript: None, span: item.span })
    }

    /// The axes of subscript words, in order with their places; repeats are kept.
    ///
    /// A word is an axis name or a run of single-letter axes.
    pub(super) fn axes(&mut self, words: &[Name]) -> Checked<Vec<(AxisId, Span)>> {
        let mut axes = Vec::new();
        for word in words {
            let whole = self.axes_named(&word.node);
            let run = self.axis_run(word);
            match (whole, run) {
                (Some(named), None) => axes.extend(named.into_iter().map(|axis| (axis, word.span))),
                (None, Some(run)) => axes.extend(run),
                (Some(_), Some(_)) => {
                    let letters: Vec<String> = word.node.chars().map(String::from).collect();
                    let (name, split) = (word.node.clone(), letters.join(","));
                    return Err(CheckError::AmbiguousAxis { name, split, at: word.span }.into());
                }
                (None, None) => return Err(self.unknown_axis(word)),
            }
        }
        Ok(axes)
    }

    /// The axis of a name, or the axes of a composed name.
    pub(super) fn axes_named(&self, name: &str) -> Option<Vec<AxisId>> {
        let axis = self.mesh.axis_named(name).map(|axis| vec![axis]);
        axis.or_else(|| self.views.get(name).cloned())
    }

    /// The axes of a word of two or more single-letter axes.
    fn axis_run(&self, word: &Name) -> Option<Vec<(AxisId, Span)>> {
        word.node.chars().nth(1)?;
        let exact = word.span.range().len() == word.node.len();
        let start = word.span.range().start;
        let place = |at: usize, letter: char| Span::new(start + at, start + at + letter.len_utf8());
        let mut run = Vec::new();
        for (at, letter) in word.node.char_indices() {
            let axes = self.axes_named(letter.encode_utf8(&mut [0; 4]))?;
            let place = if exact { place(at, letter) } else { word.span };
            run.extend(axes.into_iter().map(|axis| (axis, place)));
        }
        Some(run)
    }

    fn unknown_axis(&mut self, word: &Name) -> Failure {
        if self.parts_lost || self.lost.contains(&word.node) {
            return Failure::Reported;
        }
        let parts: Vec<&str> = word.node.split('_').collect();
        if parts.len() > 1 && parts.iter().all(|part| self.axes_named(part).is_some()) {
            let help = did_you_mean(&format!("{{{}}}", parts.join(",")));
            return CheckError::UnknownAxis { fixes: Vec::new(), name: word.node.clone(), at: word.span, help }.into();
        }
        if word.node == "None" {
            let help = "write a dim that is not sharded without a subscript".to_owned();
            return CheckError::UnknownAxis { fixes: Vec::new(), name: word.node.clone(), at: word.span, help }.into();
        }
        let letter = self.unknown_letter(word);
        let culprit = letter.map_or_else(|| word.node.clone(), |(letter, _)| letter.to_string());
        if !self.reported_axes.insert(culprit) {
            return Failure::Reported;
        }
        if let Some((letter, at)) = letter {
            let help = format!("the mesh is `{}`", self.mesh);
            return CheckError::UnknownAxis { fixes: Vec::new(), name: letter.to_string(), at, help }.into();
        }
        let names =
            || self.mesh.axes().iter().map(|axis| axis.name.as_str()).chain(self.views.keys().map(String::as_str));
        let near = nearest(&word.node, names());
        let fixes = match near {
            Some(_) => Vec::new(),
            None => names().map(|axis| Fix::new(Edit::Replace(word.span), axis.to_owned())).take(3).collect(),
        };
        let help = match near {
            Some(near) => did_you_mean(near),
            None => format!("the mesh is `{}`", self.mesh),
        };
        CheckError::UnknownAxis { fixes, name: word.node.clone(), at: word.span, help }.into()
    }

    /// The one letter that is not an axis in a word of single-letter axes.
    fn unknown_letter(&self, word: &Name) -> Option<(char, Span)> {
        let known = |letter: char| self.axes_named(letter.encode_utf8(&mut [0; 4])).is_some();
        let (at, letter) = word.node.char_indices().find(|(_, letter)| !known(*letter))?;
        let others = word.node.chars().filter(|letter| known(*letter)).count();
        let exact = word.span.range().len() == word.node.len();
        let start = word.span.range().start + at;
        let span = if exact { Span::new(start, start + letter.len_utf8()) } else { word.span };
        (others > 0 && others + 1 == word.node.chars().count()).then_some((letter, span))
    }

    /// `I_X` for `IX`, as text copied from a page may have it.
    fn lost_underscore(&self, name: &str) -> Option<String> {
        let is_run = |word: &str| word.chars().all(|c| self.axes_named(c.encode_utf8(&mut [0; 4])).is_some());
        let splits = name.char_indices().skip(1).map(|(at, _)| name.split_at(at));
        let fits = |(dim, axes): &(&str, &str)| {
            self.named_dims.get(*dim).is_some_and(Option::is_some) && (self.axes_named(axes).is_some() || is_run(axes))
        };
        splits.into_iter().find(fits).map(|(dim, axes)| format!("{dim}_{axes}"))
    }

    /// The dim of a name.
    pub(super) fn dim(&mut self, name: &str, at: Span) -> Checked<Dim> {
        if let Some(dim) = self.named_dims.get(name) {
            return dim.ok_or(Failure::Reported);
        }
        if self.lost.contains(name) || self.lost.contains("dims") {
            return Err(Failure::Reported);
        }
        if let Some(parts) = self.parts.get(name) {
            if parts.is_empty() {
                return Err(Failure::Reported);
            }
            let parts: Vec<String> = parts.iter().map(|dim| self.dims.name(dim.id)).collect();
            return Err(CheckError::DimOfParts { name: name.to_owned(), parts: parts.join("*"), at }.into());
        }
        if self.axes_named(name).is_some() {
            let help = format!("a dim comes first, then `_` and its axes: `I_{name}`");
            let (axis, label, fixes) = (name.to_owned(), "expected a dim", Vec::new());
            return Err(CheckError::AxisAsDim { axis, label, fixes, at, help }.into());
        }
        if name == "local" {
            let help = did_you_mean("LOCAL");
            return Err(CheckError::UnknownDim { name: name.to_owned(), at, help }.into());
        }
        if self.scope.contains_key(name) {
            let help =
                format!("`{name}` is an array; `take_V(A, {name})` reads the rows `{name}` of `A` along its dim `V`");
            return Err(CheckError::UnknownDim { name: name.to_owned(), at, help }.into());
        }
        let near = nearest(name, self.named_dims.keys().map(String::as_str));
        let help = match self.lost_underscore(name).or(near.map(str::to_owned)) {
            Some(near) => {
                format!("{} otherwise declare it with its size, as in `dims {{{name}: 1024}}`", did_you_mean(&near))
            }
            None => {
                let dims = self.named_dims.iter().filter(|(_, dim)| dim.is_some()).map(|(name, _)| format!("`{name}`"));
                let dims = dims.take(8).collect::<Vec<_>>().join(", ");
                let known = if dims.is_empty() {
                    "; the program has no `dims` yet".to_owned()
                } else {
                    format!("; the dims are {dims}")
                };
                format!("declare it with its size, as in `dims {{{name}: 1024}}`{known}")
            }
        };
        // Reported once; later uses assume this declaration.
        self.named_dims.insert(name.to_owned(), None);
        Err(CheckError::UnknownDim { name: name.to_owned(), at, help }.into())
    }
}
