//! User functions: `def layer(x[B, D], W) { .. return y }`.
//!
//! A call is inlined: statements are checked at each call, with the arrays passed in, and planned separately. The body
//! sees its parameters, the dims and earlier functions, but no array from outside. A dim in a parameter's brackets stands
//! for the dim passed in at this place, so one function works for several dims.

use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use super::expr::Operand;
use super::layouts::RequestedDim;
use super::{ValueId, Wanted};
use crate::diag::Severity;
use crate::function::Scalar;
use crate::layout::Dim;
use crate::span::Span;
use crate::syntax::{DimName, Expr, ExprKind, KernelDecl, Name, Statement, StatementKind, Target};
use itertools::Itertools;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A user function.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    /// Number of earlier functions; it may call these.
    place: usize,
    name: Name,
    parameters: Vec<Target>,
    body: Vec<Statement>,
    result: Expr,
    /// Number of calls.
    calls: usize,
    /// Whether an error in it was reported.
    reported: bool,
    /// For a declared kernel, its costs and its dims; it has no body.
    kernel: Option<Arc<KernelDecl>>,
}

/// The saved scope of the caller.
struct Outside {
    scope: BTreeMap<String, usize>,
    constants: BTreeMap<String, f64>,
    dims: Vec<(String, Option<Option<Dim>>)>,
    target: Option<String>,
    errors: usize,
    found: usize,
    bindings: usize,
    values: usize,
}

impl Checker {
    /// Limit on checked statements of functions, in total.
    const MOST_CALLED: usize = 10_000;

    /// Registers a function; its statements are checked at each call.
    pub(super) fn declare_function(&mut self, name: &Name, parameters: &[Target], body: &[Statement]) {
        if self.is_redeclared(name) {
            return;
        }
        let wrong = |why: &str, at: Span, help: &str| {
            let (name, why, help) = (name.node.clone(), why.to_owned(), help.to_owned());
            CheckError::FunctionBody { name, why, at, help }
        };
        let mut errors = Vec::new();
        let (inside, result) = match body.split_last() {
            Some((Statement { kind: StatementKind::Return(result), .. }, inside)) => (inside, Some(result.clone())),
            Some((last, _)) => {
                errors.push(wrong("returns nothing", last.span, "write `return y` as the last line of its body"));
                (body, None)
            }
            None => {
                errors.push(wrong("returns nothing", name.span, "write `return y` as the last line of its body"));
                (body, None)
            }
        };
        for statement in inside {
            let what = match statement.kind {
                StatementKind::Input { .. } | StatementKind::Assign { .. } | StatementKind::Repeat { .. } => continue,
                StatementKind::Return(_) => "has a `return` before its end",
                StatementKind::Def { .. } => "contains a function",
                _ => "contains a statement that is not allowed in functions",
            };
            errors.push(wrong(
                what,
                statement.span,
                "a body contains inputs, results, `repeat`, and one `return` at its end",
            ));
        }
        for error in &errors {
            self.diagnostics.push(error);
        }
        let reported = !errors.is_empty();
        // A function without an end counts as known, so that its calls are no second mistake.
        let result = result.unwrap_or(Expr { kind: ExprKind::Number(Scalar(0.0)), span: name.span });
        let (place, calls) = (self.functions.len(), 0);
        let (parameters, body) = (parameters.to_vec(), inside.to_vec());
        let kernel = None;
        let declared = Declared { place, name: name.clone(), parameters, body, result, calls, reported, kernel };
        self.functions.insert(name.node.clone(), declared);
    }

    /// Registers a declared kernel.
    pub(super) fn register(&mut self, kernel: Arc<KernelDecl>, reported: bool) {
        let name = kernel.name.clone();
        if self.is_redeclared(&name) {
            return;
        }
        let (place, parameters, calls) = (self.functions.len(), kernel.parameters.clone(), 0);
        let (body, result) = (Vec::new(), Expr { kind: ExprKind::Number(Scalar(0.0)), span: name.span });
        let key = name.node.clone();
        let kernel = Some(kernel);
        self.functions.insert(key, Declared { place, name, parameters, body, result, calls, reported, kernel });
    }

    /// Reports a name that a function or a kernel already has.
    fn is_redeclared(&mut self, name: &Name) -> bool {
        let first = self.functions.get(&name.node).map(|known| known.name.span);
        let is_known = first.is_some() || self.is_function(&name.node);
        if is_known {
            let (name, second) = (name.node.clone(), name.span);
            self.diagnostics.push(&CheckError::FunctionRedeclared { name, first, second });
        }
        is_known
    }

    /// The value of a call of a user function; `None` for other calls.
    pub(super) fn called(
        &mut self,
        function: &Name,
        subscript: &[Name],
        arguments: &[Expr],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<Option<ValueId>> {
        // The subscript of a call begins at the first `_`, which the name of a function may have.
        let whole = subscript.iter().fold(function.node.clone(), |whole, item| format!("{whole}_{}", item.node));
        let Some(declared) = self.functions.get(&whole) else { return Ok(None) };
        if self.calls.iter().any(|outer| *outer <= declared.place) {
            let (name, why) = (whole, "is recursive".to_owned());
            let help = "a function may call earlier functions only; use `repeat 4 { .. }` for iteration".to_owned();
            return Err(CheckError::FunctionBody { name, why, at: span, help }.into());
        }
        let declared = declared.clone();
        if declared.parameters.len() != arguments.len() {
            self.exist(&[], arguments)?;
            let takes = match declared.parameters.len() {
                1 => "one argument".to_owned(),
                many => format!("{many} arguments"),
            };
            let (count, at) = (arguments.len(), function.span);
            let word = if declared.kernel.is_some() { "kernel" } else { "def" };
            let help = format!("declared as `{word} {whole}({})`", declared.parameters.iter().join(", "));
            return Err(CheckError::Arguments { name: whole, takes, count, at, help }.into());
        }
        let mut given = Vec::new();
        for argument in arguments {
            given.push(self.expr(argument, None)?);
        }
        self.called += declared.body.len() + 1;
        if self.called > Self::MOST_CALLED {
            let why =
                format!("is called too often: all calls together expand to more than {} statements", Self::MOST_CALLED);
            let help = "use `repeat`, whose body is planned once".to_owned();
            return Err(CheckError::FunctionBody { name: whole, why, at: span, help }.into());
        }
        let outside = self.enter(&declared);
        let mut each = declared.parameters.iter().zip(&given).zip(arguments);
        let bound = each.try_for_each(|((parameter, operand), argument)| {
            self.parameter(&declared, parameter, *operand, argument.span)
        });
        let fits = bound.is_ok();
        let operands = || given.iter().filter_map(|operand| operand.array()).collect();
        let computed = bound.and_then(|()| match &declared.kernel {
            Some(kernel) => self.opaque(kernel, operands(), span),
            None => self.inside(&declared, requested),
        });
        let result = computed.map_err(|failure| {
            self.tell(failure);
            Failure::Reported
        });
        self.leave(&whole, outside, fits.then_some(span));
        if declared.reported { Err(Failure::Reported) } else { result.map(Some) }
    }

    /// Saves and clears the caller's scope.
    fn enter(&mut self, declared: &Declared) -> Outside {
        let counted = |name: &String| name.starts_with(super::iota::PREFIX);
        let kept =
            self.scope.iter().filter(|(name, _)| counted(name)).map(|(name, place)| (name.clone(), *place)).collect();
        self.calls.push(declared.place);
        Outside {
            scope: std::mem::replace(&mut self.scope, kept),
            constants: std::mem::take(&mut self.constants),
            dims: Vec::new(),
            target: self.target.take(),
            errors: self.diagnostics.count(Severity::Error),
            found: self.diagnostics.iter().count(),
            bindings: self.bindings.len(),
            values: self.values.len(),
        }
        .with_dims(self, declared)
    }

    /// Checks the statements and returns the result.
    fn inside(&mut self, declared: &Declared, requested: Option<&[RequestedDim]>) -> Checked<ValueId> {
        let dims: Vec<String> = dims_of(self, declared);
        self.declare_iotas_of(&declared.body, &declared.result, &dims);
        for statement in &declared.body {
            match &statement.kind {
                // Inside of a body it is written out.
                StatementKind::Repeat { .. } if self.bodies > 0 => self.body_statement(statement),
                _ => self.statement(statement),
            }
        }
        self.array_expr(&declared.result, requested)
    }

    /// Binds a parameter to its argument.
    fn parameter(&mut self, declared: &Declared, parameter: &Target, operand: Operand, at: Span) -> Checked<()> {
        let Some(name) = &parameter.name else { return Ok(()) };
        let id = match operand {
            Operand::Number(number) if parameter.brackets.is_none() => {
                self.constants.insert(name.node.clone(), number);
                return Ok(());
            }
            Operand::Number(_) => return Err(CheckError::NumberResult { at }.into()),
            Operand::Array(id) => id,
        };
        let argument = self.show(id);
        let misfit = |why: String| {
            let (parameter, function) = (parameter.to_string(), declared.name.node.clone());
            CheckError::ParameterMismatch { parameter, function, argument: argument.clone(), why, at, from: name.span }
        };
        if let Some(dtype) = parameter.dtype.as_ref().filter(|dtype| dtype.node != self.value(id).dtype) {
            return Err(misfit(format!("expected {}, found {}", dtype.node, self.value(id).dtype)).into());
        }
        if let Some(brackets) = &parameter.brackets {
            let dims = self.value(id).dims.clone();
            if brackets.rest.is_none() && brackets.dims.len() != dims.len() {
                return Err(misfit(format!("expected {} dims, found {}", brackets.dims.len(), dims.len())).into());
            }
            let resolved = self.resolved(brackets).into_owned();
            for (item, dim) in resolved.dims.iter().zip(&dims) {
                let DimName::Named(written) = &item.dim else { continue };
                match self.named_dims.get(written) {
                    // The first place of a name says what it stands for.
                    Some(None) | None => drop(self.named_dims.insert(written.clone(), Some(*dim))),
                    Some(Some(known)) if known == dim => {}
                    Some(Some(known)) => {
                        let (known, found) = (self.dims.name(known.id), self.dims.name(dim.id));
                        return Err(misfit(format!("`{written}` is both `{known}` and `{found}`")).into());
                    }
                }
            }
            let is_layout = resolved.open.is_some() || resolved.dims.iter().any(|item| item.subscript.is_some());
            if is_layout && let Wanted::Exact(_) | Wanted::Partly(_) = self.value(id).wanted {
                self.assert_layout(id, &resolved, &name.node)?;
            }
        }
        self.bind(Some(&name.node), Some(id), name.span, true);
        if let (Some(_), Some(binding)) = (&declared.kernel, self.bindings.last_mut()) {
            binding.used = true;
        }
        Ok(())
    }

    /// Restores the caller's scope.
    ///
    /// - `call`: the place of the call, if its arguments fit.
    fn leave(&mut self, name: &str, outside: Outside, call: Option<Span>) {
        self.calls.pop();
        let locals: Vec<usize> = self.scope.values().copied().filter(|place| *place >= outside.bindings).collect();
        for place in locals {
            (self.bindings[place].shadowed, self.bindings[place].local) = (true, true);
        }
        self.scope = outside.scope;
        self.constants = outside.constants;
        self.target = outside.target;
        for (name, dim) in outside.dims {
            match dim {
                Some(dim) => drop(self.named_dims.insert(name, dim)),
                None => drop(self.named_dims.remove(&name)),
            }
        }
        let Some(declared) = self.functions.get_mut(name) else { return };
        declared.calls += 1;
        let calls = declared.calls;
        let has_errors = self.diagnostics.count(Severity::Error) > outside.errors;
        match call {
            // An error that is reported for one call is not reported for the next.
            Some(_) if declared.reported || calls > 1 && !has_errors => self.diagnostics.truncate(outside.found),
            Some(at) if has_errors => {
                declared.reported = true;
                self.diagnostics.push(&CheckError::InCall { function: name.to_owned(), at });
            }
            Some(_) | None => {}
        }
        // Arrays of several calls have names of their own.
        for value in &mut self.values[outside.values..] {
            value.call = call.or(value.call);
            let inner = value.name.take_if(|inner| !inner.contains('.'));
            value.name = value.name.take().or_else(|| {
                inner
                    .map(|inner| if calls == 1 { format!("{name}.{inner}") } else { format!("{name}.{calls}.{inner}") })
            });
        }
    }

    /// Functions without a call.
    pub(super) fn warn_uncalled(&mut self) {
        for declared in self.functions.values().filter(|declared| declared.calls == 0 && !declared.reported) {
            let (name, at) = (declared.name.node.clone(), declared.name.span);
            self.diagnostics.push(&CheckError::UnusedFunction { name, at });
        }
    }
}

/// The dim names of the parameters.
fn dims_of(checker: &Checker, declared: &Declared) -> Vec<String> {
    let brackets = declared.parameters.iter().filter_map(|parameter| parameter.brackets.as_ref());
    let named = brackets.flat_map(|brackets| checker.resolved(brackets).into_owned().dims);
    let names = named.filter_map(|item| match item.dim {
        DimName::Named(name) => Some(name),
        DimName::Literal(_) => None,
    });
    names.unique().collect()
}

impl Outside {
    /// Hides dims with the same names as those of the parameters.
    fn with_dims(mut self, checker: &mut Checker, declared: &Declared) -> Outside {
        for name in dims_of(checker, declared) {
            let hidden = checker.named_dims.remove(&name);
            self.dims.push((name, hidden));
        }
        self
    }
}
