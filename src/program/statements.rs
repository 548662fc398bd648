//! Statements: inputs, results, outputs.

use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use super::expr::Operand;
use super::layouts::{RequestedDim, Written};
use super::pad::pad;
use super::{Alias, Definition, Limit, PieceCount, Program, Using, Value, ValueId, Wanted};
use crate::diag::{did_you_mean, nearest};
use crate::dtype::DType;
use crate::function::Function;
use crate::layout::{Dim, Sharding};
use crate::method::Method;
use crate::span::{LineIndex, Span};
use crate::supply::Supply;
use crate::syntax::{Brackets, Expr, ExprKind, Name, Statement, StatementKind, Target, UsingRef};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};

impl Checker {
    /// Checks one statement; after an error its name stays known, and dependent statements are skipped.
    pub(super) fn statement(&mut self, statement: &Statement) {
        match &statement.kind {
            StatementKind::Mesh { .. } | StatementKind::View { .. } | StatementKind::Dims(_) => {}
            StatementKind::Input { name, dtype, brackets, donated } => {
                if let Err(failure) = self.declaration(name, dtype.node, brackets, *donated, statement.span) {
                    self.tell(failure);
                    self.poison(name);
                }
            }
            StatementKind::Assign { target, value, by, using } => {
                let using = using.as_ref().map(|using| self.using(using)).transpose();
                let assigned = using.and_then(|using| {
                    self.using = using.unwrap_or_default();
                    self.target = target.name.as_ref().map(|name| name.node.clone());
                    self.assigned = Some(value.span);
                    let before = self.values.len();
                    self.assign(target, value, statement.span)?;
                    by.iter().try_for_each(|pin| self.pin(pin, before..self.values.len()))
                });
                if let Err(failure) = assigned {
                    self.tell(failure);
                    self.poison_uses(value, 0);
                    target.name.iter().for_each(|name| self.bind(Some(&name.node), None, name.span, false));
                }
            }
            StatementKind::Repeat { count, body } => {
                if let Err(failure) = self.repeat(count, body, statement.span) {
                    self.tell(failure);
                }
            }
            StatementKind::Def { name, parameters, body } => self.declare_function(name, parameters, body),
            StatementKind::Kernel(kernel) => self.declare_kernel(kernel),
            StatementKind::Return(value) => {
                let value = match &value.kind {
                    ExprKind::Array(_) => value.to_string(),
                    _ => "y".to_owned(),
                };
                self.diagnostics.push(&CheckError::ReturnOutside { value, at: statement.span });
            }
            StatementKind::Expect(expectation) => {
                if let Err(failure) = self.expect(expectation, statement.span) {
                    self.tell(failure);
                }
            }
            StatementKind::Link(decl) => self.link(decl, statement.span),
            StatementKind::Limit { measure, amount } => {
                let limit = Limit { measure: *measure, amount: amount.clone(), span: statement.span };
                self.limits.push(limit);
            }
            StatementKind::Output(names) => {
                for name in names {
                    match self.lookup(name, "an output must be declared or computed above") {
                        Ok(id) => self.outputs.push(id),
                        Err(failure) => self.tell(failure),
                    }
                }
            }
        }
    }

    /// How the collectives of a statement are to be done.
    fn using(&self, using: &UsingRef) -> Checked<Using> {
        // `auto` is what is done without a word.
        let method = using.method.as_ref().filter(|name| name.node != "auto");
        let method = method.map(|name| self.method_named(name)).transpose()?;
        let pieces = using.pieces.as_ref().map(|pieces| PieceCount { count: pieces.node, at: pieces.span });
        if let Some(PieceCount { count, at }) = pieces.filter(|pieces| !(1..=PieceCount::MOST).contains(&pieces.count))
        {
            return Err(CheckError::PieceCount { count, most: PieceCount::MOST, at }.into());
        }
        Ok(Using { method, pieces })
    }

    fn method_named(&self, name: &Name) -> Checked<Method> {
        Method::from_name(&name.node).ok_or_else(|| {
            let known = || Method::ALL.into_iter().map(Method::name);
            let pipeline = Some("pipeline(8)").filter(|_| name.node == "pipeline");
            let help = match pipeline.or_else(|| nearest(&name.node, known())) {
                Some(near) => did_you_mean(near),
                None => match known().filter(|known| known.contains(name.node.as_str())).join(", ") {
                    none if none.is_empty() => format!("methods are auto, {}", known().join(", ")),
                    similar => format!("similar methods are {similar}"),
                },
            };
            CheckError::UnknownMethod { name: name.node.clone(), at: name.span, help }.into()
        })
    }

    pub(super) fn tell(&mut self, failure: Failure) {
        match failure {
            Failure::Error(error) => self.diagnostics.push_with_fixes(&*error, error.fixes()),
            Failure::Reported => {}
        }
    }

    /// Marks an unknown name as known from here on, so that it is reported once.
    fn poison(&mut self, name: &Name) {
        if self.binding(&name.node).is_none() {
            self.bind(Some(&name.node), None, name.span, false);
        }
    }

    /// Undeclared arrays of a failed statement, which would have been inputs.
    fn poison_uses(&mut self, expr: &Expr, depth: usize) {
        if depth > Self::MOST_DEPTH {
            return;
        }
        if let ExprKind::Array(array) = &expr.kind {
            array.name.iter().for_each(|name| self.poison(name));
        }
        expr.operands().for_each(|operand| self.poison_uses(operand, depth + 1));
    }

    /// The value of a name, at a use.
    ///
    /// - `help`: the help for an unknown name without a near match.
    pub(super) fn lookup(&mut self, name: &Name, help: &str) -> Checked<ValueId> {
        if let Some(index) = self.scope.get(&name.node) {
            let binding = &mut self.bindings[*index];
            binding.used = true;
            let lost = self.rebound.get(&name.node);
            if lost.is_some_and(|lost| binding.place.start < *lost && *lost < name.span.start) {
                // It may have been moved in between, by a statement that could not be read.
                return Err(Failure::Reported);
            }
            return binding.value.ok_or(Failure::Reported);
        }
        if self.nameless || self.lost.contains(&name.node) {
            return Err(Failure::Reported);
        }
        let help = match nearest(&name.node, self.scope.keys().map(String::as_str)) {
            _ if self.bindings.iter().any(|binding| binding.local && binding.name.as_ref() == Some(&name.node)) => {
                let name = &name.node;
                format!("`{name}` is local to the body; only arrays declared before the `repeat` leave it")
            }
            Some(near) => did_you_mean(near),
            None => help.to_owned(),
        };
        self.poison(name);
        Err(CheckError::UnknownArray { name: name.node.clone(), at: name.span, help }.into())
    }

    fn declaration(
        &mut self,
        name: &Name,
        dtype: DType,
        brackets: &Brackets,
        donated: bool,
        statement: Span,
    ) -> Checked<()> {
        if let Some(first) = self.binding(&name.node) {
            if first.value.is_none() {
                return Err(Failure::Reported);
            }
            let (first, second) = (first.place, name.span);
            return Err(CheckError::ArrayRedeclared { name: name.node.clone(), first, second }.into());
        }
        // A line that is offered for the statement stands behind all of it.
        let span = if donated { statement } else { name.span.join(brackets.span) };
        self.input(Some(name), dtype, brackets, donated, span).map(|_| ())
    }

    /// Adds an input and binds its name.
    pub(super) fn input(
        &mut self,
        name: Option<&Name>,
        dtype: DType,
        brackets: &Brackets,
        donated: bool,
        span: Span,
    ) -> Checked<ValueId> {
        let array = name.map_or("", |name| &name.node);
        let written = self.brackets(brackets, array, false)?;
        let at = brackets.span;
        if let Wanted::Exact(sharding) = &written.wanted
            && !sharding.open.is_empty()
            && !sharding.operator.takes(dtype)
        {
            let operator = sharding.operator;
            return Err(CheckError::OperatorDType { operator, dtype, at }.into());
        }
        let named = |request: &RequestedDim| match request {
            RequestedDim::Dim(dim) => *dim,
            RequestedDim::Literal(size) => self.dims.add(None, *size),
        };
        let dims: Vec<Dim> = written.requested.iter().map(named).collect();
        let (text, wanted) = (name.map(|name| name.node.clone()), written.wanted);
        let supply = if donated { Supply::Donated } else { Supply::Held };
        let definition = Definition::Input { supply };
        let id = self.add_value(Value {
            name: text,
            dtype,
            dims,
            definition,
            wanted,
            using: Using::default(),
            pin: None,
            span,
            call: None,
        })?;
        self.places[id.index()] = at;
        if let Some(name) = name {
            self.bind(Some(&name.node), Some(id), name.span, true);
        }
        Ok(id)
    }

    fn assign(&mut self, target: &Target, expr: &Expr, span: Span) -> Checked<()> {
        let name = target.name.as_ref().map_or("", |name| &name.node);
        let product = matches!(expr.kind, ExprKind::Product { .. });
        let mut written =
            target.brackets.as_ref().map(|brackets| self.brackets(brackets, name, product)).transpose()?;
        if let ExprKind::Call { function, subscript, arguments } = &expr.kind
            && subscript.is_empty()
            && self.makes_table(function)
        {
            return self.tabled(target, written.as_ref(), function, arguments, span);
        }
        let before = self.values.len();
        let id = match &expr.kind {
            ExprKind::Collective { kind, subscript, argument } => {
                self.collective(kind, subscript, argument, written.as_ref().map(|written| (written, name)), expr.span)?
            }
            ExprKind::Array(_)
            | ExprKind::Number(_)
            | ExprKind::Product { .. }
            | ExprKind::Binary { .. }
            | ExprKind::Neg(_)
            | ExprKind::Call { .. } => {
                let requested = written.as_ref().map(|written| written.requested.as_slice());
                match self.expr(expr, requested)? {
                    Operand::Array(id) => id,
                    Operand::Number(number) => match (&mut written, &target.dtype) {
                        (Some(written), Some(dtype)) => {
                            // Brackets without axes say nothing about where its elements are: each device computes those
                            // that it needs.
                            if written.wanted == Wanted::Exact(Sharding::replicated(written.requested.len())) {
                                written.wanted = Wanted::Free;
                            }
                            self.filled(number, dtype.node, &written.requested, expr.span)?
                        }
                        (Some(_), None) | (None, _) => return self.constant(target, number, expr.span),
                    },
                }
            }
        };
        let cast = target.dtype.as_ref().is_some_and(|asked| asked.node != self.value(id).dtype);
        let moves = matches!(expr.kind, ExprKind::Array(_)) && !cast;
        let id = self.cast_result(id, before, target)?;
        let id = match &written {
            Some(written) => {
                if product {
                    self.check_local(id, written, name)?;
                }
                self.laid_out(id, before, written, moves, span)?
            }
            None => id,
        };
        self.rebound(id, target)?;
        if self.is_own(id, before) {
            let value = &mut self.values[id.index()];
            value.name = target.name.as_ref().map(|name| name.node.clone());
            value.span = span;
        } else if let Some(name) = &target.name {
            self.aliases.push(Alias { name: name.node.clone(), value: id, span });
        }
        let place = target.name.as_ref().map_or(target.span, |name| name.span);
        self.bind(target.name.as_ref().map(|name| name.node.as_str()), Some(id), place, false);
        Ok(())
    }

    /// A named number, which no iteration redefines.
    fn constant(&mut self, target: &Target, number: f64, at: Span) -> Checked<()> {
        match &target.name {
            Some(name) if target.brackets.is_none() && target.dtype.is_none() && self.bodies == 0 => {
                self.constants.insert(name.node.clone(), number);
                Ok(())
            }
            Some(_) | None => Err(CheckError::NumberResult { at }.into()),
        }
    }

    /// Whether a statement computed the value itself, with `before` existing values at its start.
    fn is_own(&self, id: ValueId, before: usize) -> bool {
        id.index() >= before && !self.value(id).definition.is_input()
    }

    /// The result in the requested dtype: products round to it, everything else is cast.
    fn cast_result(&mut self, id: ValueId, before: usize, target: &Target) -> Checked<ValueId> {
        let Some(asked) = target.dtype.as_ref() else { return Ok(id) };
        let value = self.value(id);
        if value.dtype == asked.node {
            return Ok(id);
        }
        // A function may return an array that it names or uses elsewhere, which keeps its dtype.
        let is_used = self.values[before..].iter().any(|user| user.definition.operands().contains(&id));
        let is_fresh = self.is_own(id, before) && value.name.is_none() && !is_used;
        let product = is_fresh && matches!(value.definition, Definition::Product { .. });
        if product && value.dtype.is_float() == asked.node.is_float() && asked.node != DType::Bool {
            self.values[id.index()].dtype = asked.node;
            return Ok(id);
        }
        self.cast(id, asked.node, asked.span)
    }

    /// The value in the layout of the target's brackets.
    pub(super) fn laid_out(
        &mut self,
        id: ValueId,
        before: usize,
        written: &Written,
        moves: bool,
        span: Span,
    ) -> Checked<ValueId> {
        self.same_dims(id, written)?;
        let (fresh, value) = (self.is_own(id, before), self.value(id));
        let dims = self.matched(&written.requested, &value.dims);
        let (dtype, in_order) = (value.dtype, value.dims == dims);
        match &written.wanted {
            Wanted::Free if in_order => Ok(id),
            Wanted::Free => self.map(Function::Identity, &[id], Some(&written.requested), span),
            Wanted::Exact(_) | Wanted::Partly(_) => {
                if let Wanted::Exact(sharding) = &written.wanted {
                    self.check_open(id, sharding, written.span)?;
                }
                let known = self.exact(id).is_some();
                // A function may return an array whose layout it states itself.
                let agrees = match self.exact(id) {
                    Some(gives) => written.wanted.allows(gives),
                    None => value.wanted == Wanted::Free,
                };
                // A function may also read it, in another layout.
                let read = || self.values[id.index() + 1..].iter().any(|user| user.definition.operands().contains(&id));
                let settled = match &value.definition {
                    _ if !known && value.name.is_some() && read() => false,
                    Definition::Product { .. }
                    | Definition::Reduce { .. }
                    | Definition::Map { .. }
                    | Definition::Kernel { .. }
                    | Definition::Rename { .. } => fresh && in_order && agrees,
                    Definition::Collective { .. } => fresh && in_order && agrees && known,
                    Definition::Input { .. } | Definition::Move { .. } => false,
                };
                let wanted = written.wanted.clone();
                let id = if settled {
                    // What a collective or a local product gives is known, whatever is left open.
                    if !known {
                        self.values[id.index()].wanted = wanted;
                    }
                    id
                } else {
                    let definition = Definition::Move { operand: id, written: moves };
                    let using = self.using;
                    self.add_value(Value {
                        name: None,
                        dtype,
                        dims,
                        definition,
                        wanted,
                        using,
                        pin: None,
                        span,
                        call: None,
                    })?
                };
                self.places[id.index()] = written.span;
                Ok(id)
            }
        }
    }

    /// Checks that a result has exactly the dims of its value.
    fn same_dims(&self, id: ValueId, written: &Written) -> Checked<()> {
        let value = self.value(id);
        if let Some(place) = self.unmatched(&written.requested, &value.dims) {
            let (dim, help) = match written.requested[place] {
                RequestedDim::Dim(dim) => {
                    let same = value.dims.iter().find(|own| {
                        own.size == dim.size
                            && !self.dims.is_literal(own.id)
                            && !written.requested.contains(&RequestedDim::Dim(**own))
                    });
                    let name = self.dims.name(dim.id);
                    let help = match same.map(|own| self.dims.name(own.id)) {
                        Some(own) => {
                            format!("remove `{name}`, or rename `{own}`: `rename_{{{own}->{name}}}(..)`")
                        }
                        None => format!("remove `{name}`, or use an operand that has it"),
                    };
                    (name, help)
                }
                RequestedDim::Literal(size) => {
                    let help = "an unnamed dim matches no other dim; name it in `dims {..}`".to_owned();
                    (size.to_string(), help)
                }
            };
            return Err(
                CheckError::DimMissing { dim, at: written.places[place], value: self.use_place(id), help }.into()
            );
        }
        let matched = self.matched(&written.requested, &value.dims);
        match value.dims.iter().find(|dim| !matched.contains(dim)) {
            Some(lost) => Err(self.dim_lost(*lost, id)),
            None => Ok(()),
        }
    }

    pub(super) fn dim_lost(&self, dim: Dim, id: ValueId) -> Failure {
        let array = self.show(id);
        let name = self.dims.name(dim.id);
        let help = format!("keep `{name}` in the result, or sum over it: `sum_{name}(..)`");
        CheckError::DimLost { dim: name, array, at: self.use_place(id), help }.into()
    }

    /// Checks that a rebound name keeps its dims and dtype. Dims that are numbers keep their places and sizes.
    fn rebound(&self, id: ValueId, target: &Target) -> Checked<()> {
        let Some(name) = &target.name else { return Ok(()) };
        let Some(binding) = self.binding(&name.node) else { return Ok(()) };
        let before = binding.value.ok_or(Failure::Reported)?;
        let (old, new) = (self.value(before), self.value(id));
        let is_alike = |(old, new): (&Dim, &Dim)| {
            self.dims.is_literal(old.id) && self.dims.is_literal(new.id) && old.size == new.size
        };
        let is_kept = |(place, old): (usize, &Dim)| new.dims.contains(old) || is_alike((old, &new.dims[place]));
        let same =
            old.dtype == new.dtype && old.dims.len() == new.dims.len() && old.dims.iter().enumerate().all(is_kept);
        if same {
            return Ok(());
        }
        let show = |value: &Value| format!("{}{}", value.dtype, value.brackets(&self.mesh, &self.dims));
        let (before, after, first, second) = (show(old), show(new), binding.place, name.span);
        Err(CheckError::RebindMismatch { name: name.node.clone(), before, after, first, second }.into())
    }

    /// The program, once all statements are checked.
    pub(super) fn finish(mut self, last: Option<Span>) -> (Option<Program>, crate::diag::Diagnostics) {
        if !self.diagnostics.has_errors() {
            self.pick_outputs();
            if self.outputs.is_empty() && self.lost.is_empty() {
                self.diagnostics.push(&CheckError::NoResult { at: last });
            } else if self.lost.is_empty() {
                self.warn_unused();
                self.warn_uncalled();
            }
        }
        if let Err(failure) = self.bring_out() {
            self.tell(failure);
        }
        self.diagnostics.dedup();
        self.diagnostics.sort();
        if self.diagnostics.has_errors() {
            return (None, self.diagnostics);
        }
        let Checker { mesh, axes, hardware, networks, links, dims, values, outputs, places, .. } = self;
        let (repeats, expectations, limits) = (self.repeats, self.expectations, self.limits);
        let mut diagnostics = self.diagnostics;
        let aliases = self.aliases;
        let program = Program {
            mesh,
            axes,
            hardware,
            networks,
            links,
            dims,
            values,
            aliases,
            read_as: BTreeMap::new(),
            outputs,
            repeats,
            expectations,
            limits,
            lines: LineIndex::default(),
        };
        let program = pad(program.without_unread(), &places, &mut diagnostics);
        diagnostics.sort();
        ((!diagnostics.has_errors()).then_some(program), diagnostics)
    }

    /// The outputs without an `output` line: the results without uses, or the last one.
    fn pick_outputs(&mut self) {
        if !self.outputs.is_empty() {
            self.outputs = self.outputs.iter().copied().unique().collect();
            return;
        }
        let results = || self.bindings.iter().filter(|binding| !binding.input && !binding.shadowed);
        let unused = results().filter(|binding| !binding.used);
        let mut outputs: Vec<ValueId> = unused.filter_map(|binding| binding.value).unique().collect();
        if outputs.is_empty() {
            outputs.extend(results().filter_map(|binding| binding.value).next_back());
        }
        self.outputs = outputs;
    }

    fn warn_unused(&mut self) {
        let outputs: BTreeSet<ValueId> = self.outputs.iter().copied().collect();
        for binding in self.bindings.iter().filter(|binding| !binding.carried) {
            let output = binding.value.is_some_and(|id| outputs.contains(&id));
            if let (false, false, Some(name)) = (binding.used, output, &binding.name) {
                let help = match binding.local {
                    true => "remove it; it is local to the body".to_owned(),
                    false => format!("remove it, or declare it as a result: `output {name}`"),
                };
                self.diagnostics.push(&CheckError::UnusedArray { name: name.clone(), at: binding.place, help });
            }
        }
    }
}
