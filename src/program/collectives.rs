//! Written collectives: their axes, whether they fit the operand, and their result.

use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use super::infer::{appended_to, infer, one_step};
use super::layouts::Written;
use super::{Definition, Value, ValueId, Wanted};
use crate::collective::Collective;
use crate::diag::{Edit, Fix};
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, AxisSet};
use crate::span::{Span, Spanned};
use crate::syntax::{CollectiveName, Expr, Name};
use itertools::Itertools;

/// A written collective and its operand.
struct Call<'a> {
    kind: CollectiveName,
    /// The name as written, `AllGather_X`.
    text: String,
    at: Span,
    operand: ValueId,
    from: &'a Sharding,
    /// The written layout of the result.
    said: Option<&'a Sharding>,
}

impl Checker {
    /// Adds a collective; `result` is the statement's written result and its name.
    pub(super) fn collective(
        &mut self,
        kind: &Spanned<CollectiveName>,
        subscript: &[Name],
        argument: &Expr,
        result: Option<(&Written, &str)>,
        span: Span,
    ) -> Checked<ValueId> {
        let requested = result.map(|(written, _)| written.requested.as_slice());
        let operand = self.array_expr(argument, requested)?;
        let at = kind.span;
        let text = collective_text(kind.node, subscript);
        let Some(from) = self.exact(operand).cloned() else {
            let (array, what) = (self.show(operand), format!("`{text}`"));
            let help = match self.value(operand).definition {
                Definition::Product { .. } => {
                    "write its layout in brackets, or `*_LOCAL` for a product that leaves its sum open"
                }
                Definition::Input { .. }
                | Definition::Reduce { .. }
                | Definition::Map { .. }
                | Definition::Kernel { .. }
                | Definition::Move { .. }
                | Definition::Collective { .. }
                | Definition::Rename { .. } => "write its layout in brackets where it is computed",
            };
            let help = help.to_owned();
            let from = self.place(operand);
            return Err(CheckError::LayoutUnknown { array, what, at: argument.span, from, help }.into());
        };
        let said = result.and_then(|(written, _)| match &written.wanted {
            Wanted::Exact(sharding) if sharding.dims.len() == from.dims.len() => Some(sharding.clone()),
            Wanted::Exact(_) | Wanted::Partly(_) | Wanted::Free => None,
        });
        let call = Call { kind: kind.node, text, at, operand, from: &from, said: said.as_ref() };
        let collective = self.read_collective(&call, subscript)?;
        let Some(to) = collective.apply(&from, &self.mesh) else {
            return Err(self.does_not_fit(&call, &collective));
        };
        let (dims, dtype) = (self.value(operand).dims.clone(), self.value(operand).dtype);
        for (axes, dim) in to.dims.iter().zip(&dims) {
            self.note_split(*axes, dim.id);
        }
        let definition = Definition::Collective { collective, from: from.clone(), operand };
        let (text, wanted) = (call.text, Wanted::Exact(to));
        let using = self.using;
        let id =
            self.add_value(Value { name: None, dtype, dims, definition, wanted, using, pin: None, span, call: None })?;
        if let Some((written, name)) = result {
            self.collective_result(id, written, name, text, [at, span])?;
        }
        Ok(id)
    }

    fn collective_result(
        &self,
        id: ValueId,
        written: &Written,
        name: &str,
        text: String,
        [from, span]: [Span; 2],
    ) -> Checked<()> {
        let value = self.value(id);
        let same_dims =
            self.matched(&written.requested, &value.dims) == value.dims && written.requested.len() == value.dims.len();
        if same_dims && self.exact(id).is_some_and(|gives| written.wanted.allows(gives)) {
            return Ok(());
        }
        let (gives, said) = (self.show_as(id, name), format!("{name}{}", written.text));
        let brackets = value.brackets(&self.mesh, &self.dims);
        let mut fixes = vec![Fix::new(Edit::Replace(written.span), brackets)];
        if let Definition::Collective { operand, from: layout, .. } = &value.definition {
            // Another collective leads to the written layout.
            if let Wanted::Exact(to) = &written.wanted
                && to.dims.len() == layout.dims.len()
            {
                let dim_name = |dim: usize| self.dims.name(value.dims[dim].id);
                let step = one_step(layout, to, &self.mesh).map(|step| step.name(layout, &self.mesh, dim_name));
                fixes.extend(step.map(|text| Fix::new(Edit::Replace(from), text)));
            }
            // Without its head the statement is a bare move.
            fixes.push(Fix::new(Edit::Replace(span), self.show(*operand)));
        }
        Err(CheckError::CollectiveResult {
            fixes,
            collective: format!("`{text}`"),
            gives,
            said,
            at: written.span,
            from,
        }
        .into())
    }

    fn read_collective(&mut self, call: &Call<'_>, subscript: &[Name]) -> Checked<Collective> {
        let (dim, words) = self.destination(call, subscript)?;
        let (before, words) = self.earlier_dims(call, words);
        let mut dims = vec![Axes::NONE; call.from.dims.len()];
        for (place, words) in before {
            for axis in self.fresh_axes(call, words, &dims, dim)? {
                dims[place] = dims[place].with(axis);
            }
        }
        let last = self.fresh_axes(call, words, &dims, dim)?;
        let axes: Axes = last.into_iter().collect();
        if dims.iter().any(|axes| !axes.is_empty()) {
            let dim = self.target_dim(call, dim, axes)?;
            dims[dim] = dims[dim].then(axes);
            return Ok(Collective::ReduceScatter { dims });
        }
        if axes.is_empty() {
            return self.inferred(call, dim);
        }
        match call.kind {
            CollectiveName::AllGather => Ok(Collective::AllGather { axes: axes.set() }),
            CollectiveName::AllReduce => Ok(Collective::AllReduce { axes: axes.set() }),
            CollectiveName::Broadcast => Ok(Collective::Broadcast { axes: axes.set() }),
            CollectiveName::ReduceScatter => {
                // Without a dim the written result says which ones get them.
                let spread = call.said.filter(|_| dim.is_none()).and_then(|said| appended_to(call.from, said));
                let same =
                    |dims: &Vec<Axes>| dims.iter().flat_map(|axes| axes.iter()).sorted().eq(axes.iter().sorted());
                if let Some(dims) = spread.filter(same) {
                    return Ok(Collective::ReduceScatter { dims });
                }
                let dim = self.target_dim(call, dim, axes)?;
                Ok(Collective::reduce_scatter(axes, dim, call.from.dims.len()))
            }
            CollectiveName::AllToAll => {
                let to = self.target_dim(call, dim, axes)?;
                let first = axes.iter().next();
                let Some(from) = first.and_then(|axis| call.from.dim_of(axis)) else {
                    // No dim has the axis: a mismatch of layouts, reported for the first dim.
                    let from = usize::from(to == 0);
                    return Err(self.does_not_fit(call, &Collective::AllToAll { axes, from, to }));
                };
                Ok(Collective::AllToAll { axes, from, to })
            }
        }
    }

    /// The axes of some words that were not written before.
    ///
    /// - `to`: the dim that gets them, if named.
    fn fresh_axes(
        &mut self,
        call: &Call<'_>,
        words: &[Name],
        before: &[Axes],
        to: Option<usize>,
    ) -> Checked<Vec<AxisId>> {
        let mut fresh: Vec<AxisId> = Vec::new();
        let dims = &self.value(call.operand).dims;
        let is_dim = |word: &&Name| {
            dims.iter().any(|dim| self.dims.name(dim.id) == word.node) && self.axes_named(&word.node).is_none()
        };
        let onto = matches!(call.kind, CollectiveName::AllToAll | CollectiveName::ReduceScatter);
        if let Some(word) = words.first().filter(|word| onto && is_dim(word)) {
            let why = format!("`{}` is a dim, not an axis", word.node);
            // With two dims, the first one is where the axes are, the second one where they go.
            let place = dims.iter().position(|dim| self.dims.name(dim.id) == word.node);
            let own = place.map(|place| call.from.dims[place]).filter(|axes| !axes.is_empty());
            let help = match (to, own) {
                (Some(to), Some(axes)) => {
                    let (kind, axes, to) = (kind_text(call.kind), axes.names(&self.mesh), self.dims.name(dims[to].id));
                    format!("`{axes}` shards `{}`; to move it to `{to}` write `{kind}_{{{axes},{to}}}`", word.node)
                }
                _ => format!(
                    "the axis comes first, then the dim to shard: `{}_{{X,{}}}`",
                    kind_text(call.kind),
                    word.node
                ),
            };
            return Err(self.axis_error(call, why, help, word.span));
        }
        for (axis, at) in self.axes(words)? {
            if fresh.contains(&axis) || before.iter().any(|axes| axes.contains(axis)) {
                let why = format!("`{}` is used twice", self.mesh.axis(axis).name);
                return Err(self.axis_error(call, why, "remove one of them".to_owned(), at));
            }
            fresh.push(axis);
        }
        Ok(fresh)
    }

    /// The dims before the last that a ReduceScatter scatters to, each with its axes, and the words after them: `I` with `X` in
    /// `{X,I,Y,K}`. A word that names an axis is not a dim.
    fn earlier_dims<'b>(&self, call: &Call<'_>, words: &'b [Name]) -> (Vec<(usize, &'b [Name])>, &'b [Name]) {
        let (mut found, mut rest) = (Vec::new(), words);
        if call.kind != CollectiveName::ReduceScatter {
            return (found, rest);
        }
        let dims = &self.value(call.operand).dims;
        let named = |word: &Name| dims.iter().position(|dim| self.dims.name(dim.id) == word.node);
        // Behind it there are axes for the dims after it.
        while let Some((at, dim)) = (1..rest.len().saturating_sub(1))
            .filter(|at| self.axes_named(&rest[*at].node).is_none())
            .find_map(|at| Some((at, named(&rest[at])?)))
        {
            found.push((dim, &rest[..at]));
            rest = &rest[at + 1..];
        }
        (found, rest)
    }

    /// The destination dim of a ReduceScatter or AllToAll, if the last item names one, and the words before it.
    fn destination<'b>(&mut self, call: &Call<'_>, subscript: &'b [Name]) -> Checked<(Option<usize>, &'b [Name])> {
        let [words @ .., last] = subscript else { return Ok((None, subscript)) };
        match call.kind {
            CollectiveName::AllGather | CollectiveName::AllReduce | CollectiveName::Broadcast => {
                return Ok((None, subscript));
            }
            CollectiveName::ReduceScatter | CollectiveName::AllToAll if words.is_empty() => {
                return Ok((None, subscript));
            }
            CollectiveName::ReduceScatter | CollectiveName::AllToAll => {}
        }
        let dims = &self.value(call.operand).dims;
        if let Some(place) = dims.iter().position(|dim| self.dims.name(dim.id) == last.node) {
            return Ok((Some(place), words));
        }
        if let Some(place) = self.part_to_cut(&last.node, dims, call.from) {
            return Ok((Some(place), words));
        }
        let only_axes = self.axes_named(&last.node).is_some() && call.said.is_some();
        if only_axes {
            return Ok((None, subscript));
        }
        let help = format!("the operand is `{}`; the last subscript is the dim to shard", self.show(call.operand));
        let help = match words {
            // The axis and the dim in each other's place, or two dims.
            [first] if dims.iter().any(|dim| self.dims.name(dim.id) == first.node) => {
                format!(
                    "the axis comes first, then the dim to shard: `{}_{{X,{}}}`; {help}",
                    kind_text(call.kind),
                    first.node
                )
            }
            _ => help,
        };
        let collective = format!("`{}`", call.text);
        let label = "not a dim of the operand";
        Err(CheckError::CollectiveDim { fixes: Vec::new(), collective, label, at: last.span, help }.into())
    }

    /// The dim that gets the axes: the written one, the one that has them in the written result, or the only one.
    fn target_dim(&self, call: &Call<'_>, dim: Option<usize>, axes: Axes) -> Checked<usize> {
        let gains = |said: &Sharding| {
            (0..said.dims.len()).find(|place| {
                let new = said.dims[*place].set().without(call.from.dims[*place].set());
                !new.intersection(axes.set()).is_empty()
            })
        };
        let only = (call.from.dims.len() == 1).then_some(0);
        dim.or_else(|| call.said.and_then(gains)).or(only).ok_or_else(|| self.no_dim(call, axes.names(&self.mesh)))
    }

    fn no_dim(&self, call: &Call<'_>, axes: String) -> Failure {
        let value = self.value(call.operand);
        // An AllToAll shards another dim than the one that has the axes.
        let whole =
            call.from.dims.iter().position(|axes| axes.is_empty()).filter(|_| call.kind == CollectiveName::AllToAll);
        let name = whole.map_or_else(|| self.first_dim(call), |place| self.dims.name(value.dims[place].id));
        let kind = kind_text(call.kind);
        let help = format!("write it after the axes: `{kind}_{{{},{name}}}`", axes.trim_matches(['{', '}']));
        let names = value.dims.iter().map(|dim| self.dims.name(dim.id));
        let heads = names.map(|dim| format!("{kind}_{{{},{dim}}}", axes.trim_matches(['{', '}'])));
        let fixes = heads.map(|head| Fix::new(Edit::Replace(call.at), head)).collect();
        let (collective, label) = (format!("`{}`", call.text), "expected axes and a dim");
        CheckError::CollectiveDim { fixes, collective, label, at: call.at, help }.into()
    }

    /// The axes without a subscript: those that lead to the written result, or all possible ones.
    fn inferred(&self, call: &Call<'_>, dim: Option<usize>) -> Checked<Collective> {
        let found = match call.said {
            Some(said) => infer(call.kind, call.from, said),
            None => match call.kind {
                CollectiveName::AllGather => Some(Collective::AllGather { axes: call.from.dim_axes() }),
                CollectiveName::AllReduce => Some(Collective::AllReduce { axes: call.from.open }),
                CollectiveName::Broadcast => Some(Collective::Broadcast { axes: call.from.open }),
                CollectiveName::ReduceScatter => {
                    let dim = self.target_dim(call, dim, call.from.open.in_order())?;
                    Some(Collective::reduce_scatter(call.from.open.in_order(), dim, call.from.dims.len()))
                }
                CollectiveName::AllToAll => None,
            },
        };
        let why = || "its axes are missing".to_owned();
        let items = match call.kind {
            CollectiveName::ReduceScatter | CollectiveName::AllToAll => {
                let dim = self.value(call.operand).dims.last().map_or("J".to_owned(), |dim| self.dims.name(dim.id));
                format!("{{X,{dim}}}")
            }
            CollectiveName::AllGather | CollectiveName::AllReduce | CollectiveName::Broadcast => "X".to_owned(),
        };
        let help = || format!("write them: `{}_{items}`", kind_text(call.kind));
        found.ok_or_else(|| self.axis_error(call, why(), help(), call.at))
    }

    /// The first dim of the operand.
    fn first_dim(&self, call: &Call<'_>) -> String {
        let dims = &self.value(call.operand).dims;
        dims.first().map_or_else(|| "I".to_owned(), |dim| self.dims.name(dim.id))
    }

    fn axis_error(&self, call: &Call<'_>, why: String, help: String, at: Span) -> Failure {
        let (collective, operand) = (format!("`{}`", call.text), self.show(call.operand));
        let (fixes, from) = (self.other_axes(call), self.place(call.operand));
        CheckError::CollectiveAxis { fixes, collective, operand, why, at, from, help }.into()
    }

    /// The collective over the axes that the operand has: an AllGather of the dims, an AllReduce of the open sum.
    fn other_axes(&self, call: &Call<'_>) -> Vec<Fix> {
        let (dims, open) = (call.from.dim_axes(), call.from.open);
        let gathers =
            call.kind == CollectiveName::AllGather || call.kind == CollectiveName::AllReduce && open.is_empty();
        let heads = [(gathers, "AllGather", dims), (call.kind == CollectiveName::AllReduce, "AllReduce", open)];
        let heads =
            heads.into_iter().filter(|(fits, _, axes)| *fits && !axes.is_empty() && !call.from.operator.is_root());
        heads
            .map(|(_, word, axes)| Fix::new(Edit::Replace(call.at), format!("{word}_{}", axes.names(&self.mesh))))
            .collect()
    }

    /// Why a collective does not apply to its operand.
    fn does_not_fit(&self, call: &Call<'_>, collective: &Collective) -> Failure {
        let from = call.from;
        let used = format!("its layout is `{}`", self.show(call.operand));
        let fail = |why: String, help: String| self.axis_error(call, why, help, call.at);
        let (axes, wanted) = match collective {
            Collective::AllGather { axes } => (*axes, from.dim_axes()),
            Collective::AllReduce { axes } | Collective::Broadcast { axes } => (*axes, from.open),
            Collective::ReduceScatter { .. } => (collective.axes(from, &self.mesh), from.open),
            Collective::AllToAll { axes, .. } => (axes.set(), from.dim_axes()),
            Collective::Permute { .. }
            | Collective::Reshard { .. }
            | Collective::Shift(_)
            | Collective::Slice { .. }
            | Collective::Open { .. } => (AxisSet::NONE, AxisSet::NONE),
        };
        if axes.is_empty() {
            return fail("it has no effect".to_owned(), used);
        }
        if let Some(axis) = axes.without(wanted).iter().next() {
            let name = &self.mesh.axis(axis).name;
            return match (from.open.contains(axis), from.dim_of(axis)) {
                (true, _) if from.operator.is_root() => {
                    fail(format!("only one device along `{name}` holds it"), format!("use `Broadcast_{name}`"))
                }
                (true, _) => fail(
                    format!("`{name}` is in the open sum"),
                    format!(
                        "close it with `AllReduce_{name}`, or with `ReduceScatter_{{{name},{}}}`, which also shards `{0}`",
                        self.first_dim(call)
                    ),
                ),
                (false, Some(place)) => {
                    let dim = self.dims.name(self.value(call.operand).dims[place].id);
                    let why = format!("`{name}` shards `{dim}`, and no sum is open over `{name}`");
                    fail(why, format!("use `AllGather_{name}` to unshard `{dim}`"))
                }
                (false, None) => {
                    let closes = matches!(collective, Collective::AllReduce { .. } | Collective::ReduceScatter { .. });
                    let others = from.open.names(&self.mesh);
                    let help = match self.value(call.operand).definition {
                        _ if !closes => used,
                        _ if matches!(collective, Collective::AllReduce { .. }) && !from.open.is_empty() => {
                            format!("the sum is open over `{others}`; write `AllReduce_{others}`")
                        }
                        Definition::Collective {
                            collective: Collective::AllReduce { axes } | Collective::AllGather { axes },
                            ..
                        } if axes.contains(axis) => {
                            format!("the sum over `{name}` is already closed; remove this collective; {used}")
                        }
                        _ => format!("no sum is open over `{name}`; {used}"),
                    };
                    fail(format!("`{name}` is not in its layout"), help)
                }
            };
        }
        let root = from.operator.is_root() && !from.open.is_empty();
        match collective {
            Collective::AllReduce { .. } | Collective::ReduceScatter { .. } if root => fail(
                format!("only one device along `{}` holds it, so there are no partial results", axes.names(&self.mesh)),
                format!("use `Broadcast_{}`", axes.names(&self.mesh)),
            ),
            Collective::Broadcast { .. } if !root => fail(
                format!("its partial results are not combined yet, by {}", from.operator),
                format!("use `AllReduce_{}`", axes.names(&self.mesh)),
            ),
            Collective::AllGather { axes } => self.gather_major(call, *axes),
            Collective::AllToAll { axes, from: source, to } => self.all_to_all_misfit(call, *axes, *source, *to),
            Collective::AllReduce { .. }
            | Collective::ReduceScatter { .. }
            | Collective::Permute { .. }
            | Collective::Reshard { .. }
            | Collective::Shift(_)
            | Collective::Broadcast { .. }
            | Collective::Slice { .. }
            | Collective::Open { .. } => fail("it does not apply".to_owned(), used),
        }
    }

    /// The move that replaces a gather of axes that are not minor-most.
    fn gather_major(&self, call: &Call<'_>, axes: AxisSet) -> Failure {
        let value = self.value(call.operand);
        let mut to = call.from.clone();
        let mut dim = String::new();
        for (place, list) in to.dims.iter_mut().enumerate() {
            let gathered: Axes = list.iter().filter(|axis| axes.contains(*axis)).collect();
            if list.strip_suffix(gathered).is_none() && dim.is_empty() {
                dim = format!("{}{}", self.dims.name(value.dims[place].id), list.subscript(&self.mesh));
            }
            *list = list.iter().filter(|axis| !axes.contains(*axis)).collect();
        }
        let name = value.name.clone().unwrap_or_default();
        let after = Value { wanted: Wanted::Exact(to), ..value.clone() }.brackets(&self.mesh, &self.dims);
        let help_move = format!("{} -> {name}{after}", self.show(call.operand));
        // A statement of its own can be the move; inside an expression the move has no form.
        let fixes = match (self.depth, &self.target) {
            (0, target) => {
                let target = target.as_deref().unwrap_or(&name);
                vec![Fix::new(Edit::Statement, format!("{} -> {target}{after}", self.show(call.operand)))]
            }
            (_, _) => Vec::new(),
        };
        CheckError::GatherMajor { fixes, axes: axes.names(&self.mesh), dim, help_move, at: call.at }.into()
    }

    fn all_to_all_misfit(&self, call: &Call<'_>, axes: Axes, source: usize, to: usize) -> Failure {
        let name = |place: usize| self.dims.name(self.value(call.operand).dims[place].id);
        let shown = self.show(call.operand);
        if source == to {
            let why = format!("it already shards `{}`", name(to));
            return self.axis_error(call, why, "name the dim to shard".to_owned(), call.at);
        }
        let mut after = call.from.clone();
        after.dims[source] = after.dims[source].iter().filter(|axis| !axes.contains(*axis)).collect();
        after.dims[to] = after.dims[to].then(axes);
        let text = axes.names(&self.mesh);
        let why = format!("`{text}` is not the minor-most part of the axes of `{}`", name(source));
        let value = self.value(call.operand);
        let brackets = Value { wanted: Wanted::Exact(after), ..value.clone() }.brackets(&self.mesh, &self.dims);
        let help = format!("write the move: `{shown} -> {}{brackets}`", value.name.as_deref().unwrap_or_default());
        self.axis_error(call, why, help, call.at)
    }
}

fn kind_text(kind: CollectiveName) -> &'static str {
    match kind {
        CollectiveName::AllGather => "AllGather",
        CollectiveName::ReduceScatter => "ReduceScatter",
        CollectiveName::AllReduce => "AllReduce",
        CollectiveName::AllToAll => "AllToAll",
        CollectiveName::Broadcast => "Broadcast",
    }
}

/// Formats `AllGather_X`, `ReduceScatter_{X,K}`.
fn collective_text(kind: CollectiveName, subscript: &[Name]) -> String {
    let words: Vec<&str> = subscript.iter().map(|word| word.node.as_str()).collect();
    match words.as_slice() {
        [] => kind_text(kind).to_owned(),
        [one] => format!("{}_{one}", kind_text(kind)),
        many => format!("{}_{{{}}}", kind_text(kind), many.join(",")),
    }
}
