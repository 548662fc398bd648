//! Collectives written by hand: what they are over, whether they fit their operand, and what they give.

use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use super::infer::{appended_to, infer};
use super::layouts::Written;
use super::{Definition, Value, ValueId, Wanted};
use crate::collective::Collective;
use crate::diag::{Edit, Fix};
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, AxisSet};
use crate::operator::Operator;
use crate::span::{Span, Spanned};
use crate::syntax::{CollectiveName, Expr, Name};
use itertools::Itertools;

/// A collective as it is written, with the operand it is applied to.
struct Call<'a> {
    kind: CollectiveName,
    /// `AllGather_X`, as it reads.
    text: String,
    at: Span,
    operand: ValueId,
    from: &'a Sharding,
    /// The layout that the result is written with.
    said: Option<&'a Sharding>,
}

impl Checker {
    /// Adds a collective; `result` is what the statement writes as its result, with its name.
    pub(super) fn collective(
        &mut self,
        kind: &Spanned<CollectiveName>,
        subscript: &[Name],
        argument: &Expr,
        result: Option<(&Written, &str)>,
        span: Span,
    ) -> Checked<ValueId> {
        let wishes = result.map(|(written, _)| written.wishes.as_slice());
        let operand = self.array_expr(argument, wishes)?;
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
                | Definition::Move { .. }
                | Definition::Collective { .. }
                | Definition::Rename { .. } => "write its layout in brackets where it is made",
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
        let method = self.method;
        let id = self.add_value(Value { name: None, dtype, dims, definition, wanted, method, pin: None, span })?;
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
            self.granted(&written.wishes, &value.dims) == value.dims && written.wishes.len() == value.dims.len();
        if same_dims && self.exact(id).is_some_and(|gives| written.wanted.allows(gives)) {
            return Ok(());
        }
        let (gives, said) = (self.show_as(id, name), format!("{name}{}", written.text));
        let brackets = value.brackets(&self.mesh, &self.dims);
        let mut fixes = vec![Fix { edit: Edit::Replace(written.span), text: brackets }];
        if let Definition::Collective { operand, .. } = &value.definition {
            // Without its head the statement is a bare move.
            fixes.push(Fix { edit: Edit::Replace(span), text: self.show(*operand) });
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
        for (dim, words) in before {
            for axis in self.fresh_axes(call, words, &dims)? {
                dims[dim] = dims[dim].with(axis);
            }
        }
        let last = self.fresh_axes(call, words, &dims)?;
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
                    // No dim has the axis: told as a misfit, from whichever dim.
                    let from = usize::from(to == 0);
                    return Err(self.does_not_fit(call, &Collective::AllToAll { axes, from, to }));
                };
                Ok(Collective::AllToAll { axes, from, to })
            }
        }
    }

    /// The axes of some words, none of which was written before.
    fn fresh_axes(&mut self, call: &Call<'_>, words: &[Name], before: &[Axes]) -> Checked<Vec<AxisId>> {
        let mut fresh: Vec<AxisId> = Vec::new();
        for (axis, at) in self.axes(words)? {
            if fresh.contains(&axis) || before.iter().any(|axes| axes.contains(axis)) {
                let why = format!("`{}` is written twice", self.mesh.axis(axis).name);
                return Err(self.axis_error(call, why, "drop one of the two".to_owned(), at));
            }
            fresh.push(axis);
        }
        Ok(fresh)
    }

    /// The dims before the last that a ReduceScatter goes to, each with its axes, and the words after them: in
    /// `{X,I,Y,K}` they are `I`, with `X`. A word that is an axis is none of them.
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
        let help =
            format!("its operand is `{}`; the last item is the dim that is sharded then", self.show(call.operand));
        let collective = format!("`{}`", call.text);
        Err(CheckError::CollectiveDim { collective, at: last.span, help }.into())
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
        let name = self.first_dim(call);
        let kind = kind_text(call.kind);
        let help = format!("write it behind the axes: `{kind}_{{{},{name}}}`", axes.trim_matches(['{', '}']));
        CheckError::CollectiveDim { collective: format!("`{}`", call.text), at: call.at, help }.into()
    }

    /// Without a subscript: what leads to the written result, or all that there is to do.
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
        let why = || "nothing says which axes it is over".to_owned();
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
        CheckError::CollectiveAxis { collective, operand, why, at, from: self.place(call.operand), help }.into()
    }

    /// Why a collective cannot be applied to its operand.
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
            | Collective::Slice { .. }
            | Collective::Open { .. } => (AxisSet::NONE, AxisSet::NONE),
        };
        if axes.is_empty() {
            return fail("there is nothing to do".to_owned(), used);
        }
        if let Some(axis) = axes.without(wanted).iter().next() {
            let name = &self.mesh.axis(axis).name;
            return match (from.open.contains(axis), from.dim_of(axis)) {
                (true, _) if from.operator == Operator::Root => fail(
                    format!("only the first device along `{name}` has it"),
                    format!("`Broadcast_{name}` gives it to the others"),
                ),
                (true, _) => fail(
                    format!("`{name}` is in the open sum"),
                    format!(
                        "`AllReduce_{name}` closes it, `ReduceScatter_{{{name},{}}}` shards `{0}` as well",
                        self.first_dim(call)
                    ),
                ),
                (false, Some(place)) => {
                    let dim = self.dims.name(self.value(call.operand).dims[place].id);
                    let why = format!("`{name}` shards `{dim}` and no sum is open over it");
                    fail(why, format!("`AllGather_{name}` makes `{dim}` whole"))
                }
                (false, None) => fail(format!("`{name}` is not in its layout"), used),
            };
        }
        let root = from.operator == Operator::Root && !from.open.is_empty();
        match collective {
            Collective::AllReduce { .. } | Collective::ReduceScatter { .. } if root => fail(
                format!(
                    "only the first device along `{}` has it, and there is nothing to combine",
                    axes.names(&self.mesh)
                ),
                format!("`Broadcast_{}` gives it to the others", axes.names(&self.mesh)),
            ),
            Collective::Broadcast { .. } if !root => fail(
                format!("its pieces are still to be combined, by {}", from.operator),
                format!("`AllReduce_{}` closes it", axes.names(&self.mesh)),
            ),
            Collective::AllGather { axes } => self.gather_major(call, *axes),
            Collective::AllToAll { axes, from: source, to } => self.all_to_all_misfit(call, *axes, *source, *to),
            Collective::AllReduce { .. }
            | Collective::ReduceScatter { .. }
            | Collective::Permute { .. }
            | Collective::Reshard { .. }
            | Collective::Broadcast { .. }
            | Collective::Slice { .. }
            | Collective::Open { .. } => fail("it cannot be applied there".to_owned(), used),
        }
    }

    /// A gather of axes that are not the minor-most ones: the move that does it instead.
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
                vec![Fix { edit: Edit::Statement, text: format!("{} -> {target}{after}", self.show(call.operand)) }]
            }
            (_, _) => Vec::new(),
        };
        CheckError::GatherMajor { fixes, axes: axes.names(&self.mesh), dim, help_move, at: call.at }.into()
    }

    fn all_to_all_misfit(&self, call: &Call<'_>, axes: Axes, source: usize, to: usize) -> Failure {
        let name = |place: usize| self.dims.name(self.value(call.operand).dims[place].id);
        let shown = self.show(call.operand);
        if source == to {
            let why = format!("`{}` is sharded by it already", name(to));
            return self.axis_error(call, why, "name the dim that is to be sharded then".to_owned(), call.at);
        }
        let mut after = call.from.clone();
        after.dims[source] = after.dims[source].iter().filter(|axis| !axes.contains(*axis)).collect();
        after.dims[to] = after.dims[to].then(axes);
        let text = axes.names(&self.mesh);
        let why = format!("`{text}` is not the minor-most part of what shards `{}`", name(source));
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

/// As it reads: `AllGather_X`, `ReduceScatter_{X,K}`.
fn collective_text(kind: CollectiveName, subscript: &[Name]) -> String {
    let words: Vec<&str> = subscript.iter().map(|word| word.node.as_str()).collect();
    match words.as_slice() {
        [] => kind_text(kind).to_owned(),
        [one] => format!("{}_{one}", kind_text(kind)),
        many => format!("{}_{{{}}}", kind_text(kind), many.join(",")),
    }
}
