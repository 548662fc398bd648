//! Expressions: arrays, numbers, elementwise operations and functions.
//!
//! The requested dims of a result are passed down: a product inside contracts the dims they lack.

use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use super::layouts::RequestedDim;
use super::pick::Pick;
use super::tables::{TABLES, is_table, misplaced};
use super::{Definition, ValueId};
use crate::diag::{did_you_mean, nearest};
use crate::dtype::DType;
use crate::function::{Binary, ByNumber, Function, Scalar, Unary};
use crate::layout::Dim;
use crate::span::Span;
use crate::syntax::{ArrayRef, BinaryOp, CollectiveName, Expr, ExprKind, Name, is_foreign};
use itertools::Itertools;
use strsim::osa_distance;

/// The value of an expression.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    /// An array.
    Array(ValueId),
    /// A number.
    Number(f64),
}

impl Operand {
    /// The array, if it is one.
    pub(super) fn array(&self) -> Option<ValueId> {
        match self {
            Operand::Array(id) => Some(*id),
            Operand::Number(_) => None,
        }
    }
}

/// The language's functions, except casts.
const FUNCTIONS: [&str; 31] = [
    "relu",
    "gelu",
    "exp",
    "tanh",
    "sin",
    "cos",
    "softmax",
    "rename",
    "sigmoid",
    "silu",
    "sqrt",
    "rsqrt",
    "abs",
    "log",
    "square",
    "recip",
    "not",
    "sum",
    "max",
    "min",
    "mean",
    "prod",
    "where",
    "and",
    "or",
    "open",
    "any",
    "all",
    "logsumexp",
    "log_softmax",
    "var",
];

/// Functions whose subscript names dims that their argument has.
const DIMS: [&str; 11] =
    ["softmax", "sum", "prod", "max", "min", "mean", "any", "all", "logsumexp", "log_softmax", "var"];

/// The number of arguments of a function.
pub(super) const ARITIES: &str =
    "`max(A, B)`, `min(A, B)`, `and(M, N)`, `or(M, N)`, `where(M, A, B)`; other functions take one array";

impl Checker {
    /// Whether a word names a function of the language.
    pub(super) fn is_function(&self, word: &str) -> bool {
        FUNCTIONS.contains(&word) || Pick::named(word).is_some() || word.parse::<DType>().is_ok()
    }

    /// Limit on the nesting of expressions.
    pub(super) const MOST_DEPTH: usize = 200;

    /// Evaluates an expression; `requested` are the dims of the result, in order, if known.
    pub(super) fn expr(&mut self, expr: &Expr, requested: Option<&[RequestedDim]>) -> Checked<Operand> {
        if self.depth >= Self::MOST_DEPTH {
            return Err(CheckError::TooDeep { at: expr.span, most: Self::MOST_DEPTH }.into());
        }
        self.depth += 1;
        let operand = self.expr_kind(expr, requested);
        self.depth -= 1;
        operand
    }

    fn expr_kind(&mut self, expr: &Expr, requested: Option<&[RequestedDim]>) -> Checked<Operand> {
        match &expr.kind {
            ExprKind::Array(array) => match array.name.as_ref().filter(|_| array.brackets.is_none()) {
                Some(name) if self.size(name).is_some() => Ok(Operand::Number(self.size(name).unwrap_or_default())),
                Some(_) | None => self.array(array).map(Operand::Array),
            },
            ExprKind::Number(Scalar(number)) => Ok(Operand::Number(*number)),
            ExprKind::Product { factors, contraction } => self.product(factors, contraction, requested, expr.span),
            ExprKind::Binary { op: BinaryOp::Power, .. } | ExprKind::Call { .. } if self.number(expr, 0).is_some() => {
                self.finite(self.number(expr, 0).unwrap_or_default(), expr.span)
            }
            ExprKind::Binary { op, left, right } => {
                let (left, right) = (self.expr(left, requested)?, self.expr(right, requested)?);
                self.binary(*op, left, right, requested, expr.span)
            }
            ExprKind::Neg(argument) => match self.expr(argument, requested)? {
                Operand::Number(number) => Ok(Operand::Number(-number)),
                Operand::Array(id) => {
                    self.map(Function::Unary(Unary::Neg), &[id], requested, expr.span).map(Operand::Array)
                }
            },
            ExprKind::Call { function, subscript, arguments } => {
                self.call(function, subscript, arguments, requested, expr.span).map(Operand::Array)
            }
            ExprKind::Collective { kind, subscript, argument } => {
                self.collective(kind, subscript, argument, None, expr.span).map(Operand::Array)
            }
        }
    }

    /// Evaluates an expression that must be an array.
    pub(super) fn array_expr(&mut self, expr: &Expr, requested: Option<&[RequestedDim]>) -> Checked<ValueId> {
        match self.expr(expr, requested)? {
            Operand::Array(id) => Ok(id),
            Operand::Number(_) => Err(CheckError::NumberResult { at: expr.span }.into()),
        }
    }

    /// A use of an array; undeclared, with brackets, it is an input.
    pub(super) fn array(&mut self, array: &ArrayRef) -> Checked<ValueId> {
        match (&array.name, &array.brackets) {
            (Some(name), Some(_)) if self.binding(&name.node).is_none() => self.implicit(array),
            (None, _) => self.implicit(array),
            (Some(name), brackets) => {
                let help = "declare it, as in `A: bf16[I_X, J]`, or write its brackets here".to_owned();
                let help = match self.calls.is_empty() {
                    _ if name.node.starts_with(super::iota::PREFIX) => {
                        let dim = &name.node[super::iota::PREFIX.len()..];
                        format!("`{dim}` is not a dim; `iota_S` holds the indices along dim `S`")
                    }
                    _ if name.node == "All" => {
                        "collectives are written in one word: `AllGather_X`, `AllReduce_X`, `AllToAll_{X,J}`".to_owned()
                    }
                    _ if matches!(name.node.as_str(), "inf" | "Inf" | "nan" | "NaN" | "True" | "False") => {
                        "use a finite number such as `-1e9`; a `bool` array needs no comparison".to_owned()
                    }
                    true => help,
                    false => format!("a function cannot use arrays from outside; make `{}` a parameter", name.node),
                };
                let id = self.lookup(name, &help)?;
                self.uses.insert(id, array.span);
                if let Some(dtype) = array.dtype.as_ref().filter(|dtype| dtype.node != self.value(id).dtype) {
                    let (has, said, from) = (self.value(id).dtype, dtype.node, self.place(id));
                    let array = name.node.clone();
                    return Err(CheckError::DTypeSaid { array, has, said, at: dtype.span, from }.into());
                }
                if let Some(brackets) = brackets {
                    self.assert_layout(id, brackets, &name.node)?;
                }
                Ok(id)
            }
        }
    }

    /// An input declared by its use.
    fn implicit(&mut self, array: &ArrayRef) -> Checked<ValueId> {
        let Some(brackets) = &array.brackets else {
            // The grammar gives an array a name or brackets.
            return Err(CheckError::NumberResult { at: array.span }.into());
        };
        let dtype = array.dtype.as_ref().map_or(DType::Bf16, |dtype| dtype.node);
        let known = array.name.as_ref().and_then(|name| {
            let known = self.scope.keys().map(String::as_str);
            // Numbered arrays, `W1` and `W2`, differ on purpose, and so do single letters.
            let letters = |name: &str| name.chars().filter(char::is_ascii_alphabetic).collect::<String>();
            let own = letters(&name.node);
            let is_slip = |known: &&str| osa_distance(known, &name.node) <= 1 && own.len() > 1 && letters(known) != own;
            nearest(&name.node, known.filter(is_slip)).map(str::to_owned)
        });
        let id = self.input(array.name.as_ref(), dtype, brackets, false, array.span)?;
        if let (Some(_), Some(binding)) = (&array.name, self.bindings.last_mut()) {
            binding.used = true;
        }
        let (shown, at) = (self.show(id), array.span);
        let name = array.name.as_ref().map(|name| name.node.clone());
        let declaration =
            name.as_ref().map(|name| format!("{name}: {dtype}{}", shown.trim_start_matches(name.as_str())));
        match (known, name, &declaration) {
            (Some(near), Some(name), Some(declaration)) => {
                let declaration = declaration.clone();
                self.diagnostics.push(&CheckError::NearName { name, near, declaration, at });
            }
            (_, name, declaration) => {
                let help = declaration.as_ref().map(|declaration| format!("or declare it: `{declaration}`"));
                // `W = bf16[D, F]`
                let bare = self.assigned == Some(array.span) && array.name.is_none() && array.dtype.is_some();
                let target = self.target.as_deref().unwrap_or("A");
                let offer = bare.then(|| format!("to declare an input, write `{target}: {dtype}{shown}`"));
                let help = help.or(offer);
                let array = name.unwrap_or(shown);
                self.diagnostics.push(&CheckError::ImplicitInput { array, dtype, at, help });
            }
        }
        Ok(id)
    }

    fn binary(
        &mut self,
        op: BinaryOp,
        left: Operand,
        right: Operand,
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<Operand> {
        use Operand::{Array, Number};
        let shift = |number: f64| Function::ByNumber(ByNumber::Shift, Scalar(number));
        let id = match (op, left, right) {
            (BinaryOp::Add, Number(a), Number(b)) => return Ok(Number(a + b)),
            (BinaryOp::Sub, Number(a), Number(b)) => return Ok(Number(a - b)),
            (BinaryOp::Mul, Number(a), Number(b)) => return Ok(Number(a * b)),
            (BinaryOp::Div, _, Number(0.0)) => {
                return Err(CheckError::BadDivision { at: span }.into());
            }
            (BinaryOp::Div, Number(a), Number(b)) => return Ok(Number(a / b)),
            (BinaryOp::Add, Array(a), Number(c)) | (BinaryOp::Add, Number(c), Array(a)) => {
                self.map(shift(c), &[a], requested, span)?
            }
            (BinaryOp::Sub, Array(a), Number(c)) => self.map(shift(-c), &[a], requested, span)?,
            (BinaryOp::Sub, Number(c), Array(a)) => {
                let negative = self.map(Function::Unary(Unary::Neg), &[a], requested, span)?;
                self.map(shift(c), &[negative], requested, span)?
            }
            (BinaryOp::Mul, Array(a), Number(c)) | (BinaryOp::Mul, Number(c), Array(a)) => {
                self.map(Function::ByNumber(ByNumber::Scale, Scalar(c)), &[a], requested, span)?
            }
            (BinaryOp::Div, Array(a), Number(c)) => {
                self.needs_float(Function::Binary(Binary::Div), a)?;
                self.map(Function::ByNumber(ByNumber::Scale, Scalar(1.0 / c)), &[a], requested, span)?
            }
            (BinaryOp::Div, Number(c), Array(a)) => {
                let inverse = self.map(Function::Unary(Unary::Recip), &[a], requested, span)?;
                if c == 1.0 {
                    inverse
                } else {
                    self.map(Function::ByNumber(ByNumber::Scale, Scalar(c)), &[inverse], requested, span)?
                }
            }
            (BinaryOp::Is(relation), Array(a), Array(b)) => {
                self.map(Function::Is(relation), &[a, b], requested, span)?
            }
            (BinaryOp::Is(relation), Array(a), Number(c)) => {
                self.map(Function::IsNumber(relation, Scalar(c)), &[a], requested, span)?
            }
            (BinaryOp::Is(relation), Number(c), Array(a)) => {
                self.map(Function::IsNumber(relation.turned(), Scalar(c)), &[a], requested, span)?
            }
            (BinaryOp::Is(_), Number(_), Number(_)) => return Err(CheckError::NumberResult { at: span }.into()),
            (BinaryOp::Power, Array(a), Number(c)) => {
                let mut id = a;
                for function in self.power(c, span)? {
                    let operands = if function.arity() == 2 { vec![id, a] } else { vec![id] };
                    id = self.map(*function, &operands, requested, span)?;
                }
                id
            }
            (BinaryOp::Power, _, _) => return Err(CheckError::UnknownPower { at: span }.into()),
            (BinaryOp::Add, Array(a), Array(b)) => self.map(Function::Binary(Binary::Add), &[a, b], requested, span)?,
            (BinaryOp::Sub, Array(a), Array(b)) => self.map(Function::Binary(Binary::Sub), &[a, b], requested, span)?,
            (BinaryOp::Mul, Array(a), Array(b)) => self.map(Function::Binary(Binary::Mul), &[a, b], requested, span)?,
            (BinaryOp::Div, Array(a), Array(b)) => self.map(Function::Binary(Binary::Div), &[a, b], requested, span)?,
        };
        Ok(Array(id))
    }

    fn needs_float(&mut self, function: Function, id: ValueId) -> Checked<()> {
        if self.value(id).dtype.is_float() {
            return Ok(());
        }
        let at = self.use_place(id);
        Err(self.no_float(id, format!("`{}`", word(function)), at))
    }

    /// Adds an elementwise function; operands align by dim, a missing dim broadcasts.
    pub(super) fn map(
        &mut self,
        function: Function,
        operands: &[ValueId],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let dtype = self.map_dtype(function, operands, span)?;
        self.check_map_open(function, operands, dtype)?;
        let union = self.union(operands);
        let dims = match requested {
            // The statement reports an unmatched request as a whole: often a dim has another name.
            Some(requested) if self.unmatched(requested, &union).is_some() && requested.len() == union.len() => {
                union.clone()
            }
            Some(requested) => self.matched(requested, &union),
            None => union.clone(),
        };
        if let Some(lost) = union.iter().find(|dim| !dims.contains(dim)) {
            let has = |id: &&ValueId| self.value(**id).dims.contains(lost);
            let id = operands.iter().find(has).copied().unwrap_or(operands[0]);
            return Err(self.dim_lost(*lost, id));
        }
        self.add(dtype, dims, Definition::Map { function, operands: operands.to_vec() }, span)
    }

    /// The union of dims: those of the first, then the new ones of each.
    pub(super) fn union(&self, operands: &[ValueId]) -> Vec<Dim> {
        let mut union: Vec<Dim> = Vec::new();
        for dim in operands.iter().flat_map(|id| &self.value(*id).dims) {
            if !union.contains(dim) {
                union.push(*dim);
            }
        }
        union
    }

    fn map_dtype(&mut self, function: Function, operands: &[ValueId], span: Span) -> Checked<DType> {
        // A mask has no part in the type of the result.
        let masks = usize::from(matches!(function, Function::Where | Function::Masked(_)));
        let first = self.value(operands[masks]).dtype;
        let mut dtype = first;
        for id in &operands[masks + 1..] {
            dtype = match dtype.elementwise(self.value(*id).dtype) {
                Some(dtype) => dtype,
                None => return Err(self.dtypes_differ("elementwise operation", [operands[masks], *id], span)),
            };
        }
        if let Function::Cast(dtype) = function {
            return Ok(dtype);
        }
        let at = self.use_place(operands[0]);
        if function == Function::Unary(Unary::Not) && dtype != DType::Bool {
            return Err(CheckError::NeedsBool { operation: "`not`".to_owned(), dtype, at }.into());
        }
        let truths = matches!(
            function,
            Function::Identity
                | Function::Shift(_)
                | Function::Unary(Unary::Not)
                | Function::Where
                | Function::Binary(Binary::Larger | Binary::Smaller)
        );
        if dtype == DType::Bool && !truths {
            return Err(CheckError::NeedsNumber { operation: format!("`{}`", word(function)), dtype, at }.into());
        }
        let fraction = function.needs_float() || function.number().is_some_and(|c| c.fract() != 0.0);
        if fraction && !dtype.is_float() {
            let operation = match function.number() {
                Some(c) => format!("the number {c}"),
                None => format!("`{}`", word(function)),
            };
            return Err(self.no_float(operands[masks], operation, at));
        }
        Ok(if function.is_truth() { DType::Bool } else { dtype })
    }

    /// Checks that dims and arrays of a call exist, before its form is reported.
    pub(super) fn exist(&mut self, along: &[Name], arguments: &[Expr]) -> Checked<()> {
        for name in along {
            self.dim(&name.node, name.span)?;
        }
        arguments.iter().try_for_each(|argument| self.arrays_exist(argument))
    }

    fn arrays_exist(&mut self, expr: &Expr) -> Checked<()> {
        match &expr.kind {
            ExprKind::Array(array) => match &array.name {
                // The axes and dims of other systems are arguments.
                Some(name) if array.brackets.is_none() => {
                    let head = name.node.split('_').next().unwrap_or_default();
                    let is_item = head.len() < name.node.len() && self.named_dims.contains_key(head);
                    let is_known = self.size(name).is_some() || self.axes_named(&name.node).is_some() || is_item;
                    if is_known { Ok(()) } else { self.array(array).map(|_| ()) }
                }
                Some(_) | None => Ok(()),
            },
            _ => expr.operands().try_for_each(|operand| self.arrays_exist(operand)),
        }
    }

    fn call(
        &mut self,
        function: &Name,
        subscript: &[Name],
        arguments: &[Expr],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        if let Some(id) = self.called(function, subscript, arguments, requested, span)? {
            return Ok(id);
        }
        if let ("scatter", [item]) = (function.node.as_str(), subscript)
            && let Some(dim) = item.node.strip_prefix("add_").filter(|_| !self.named_dims.contains_key(&item.node))
        {
            let (name, at) = (format!("scatter_{}", item.node), function.span.join(item.span));
            return Err(CheckError::UnknownFunction { name, at, help: did_you_mean(&format!("scatter_{dim}")) }.into());
        }
        // The one function with `_` in its name.
        let function = match (function.node.as_str(), subscript) {
            ("log", [item]) if item.node == "softmax" || item.node.starts_with("softmax_") => {
                let dim = item.node.strip_prefix("softmax_").map(|dim| Name { node: dim.to_owned(), span: item.span });
                let name = Name { node: "log_softmax".to_owned(), span: function.span.join(item.span) };
                let subscript: Vec<Name> = dim.into_iter().collect();
                return self.call(&name, &subscript, arguments, requested, span);
            }
            _ => function,
        };
        let (name, at) = (function.node.as_str(), function.span);
        let dtype = name.parse::<DType>().ok();
        if let Some(pick) = Pick::named(name) {
            return self.pick((pick, function), subscript, arguments, requested, span);
        }
        if is_table(name) && subscript.is_empty() {
            return Err(misplaced(name, at).into());
        }
        if dtype.is_none() && !FUNCTIONS.contains(&name) {
            let whole = subscript.iter().fold(function.node.clone(), |whole, item| format!("{whole}_{}", item.node));
            if self.nameless || self.lost.contains(&whole) {
                return Err(Failure::Reported);
            }
            return Err(unknown_function(function, subscript).into());
        }
        let argument = match (name, subscript, arguments) {
            ("max" | "min" | "where" | "and" | "or", [], many) if many.len() > 1 || !matches!(name, "max" | "min") => {
                return self.several(function, many, requested, span);
            }
            (_, _, [only]) => only,
            (_, _, many) => {
                let is_ours = DIMS.contains(&name) && !is_elsewhere(function, subscript);
                let along = if is_ours { subscript } else { &[] };
                self.exist(along, many)?;
                let (takes, count) = ("one argument".to_owned(), many.len());
                let help = self.reduced(name, subscript, many).unwrap_or_else(|| ARITIES.to_owned());
                return Err(CheckError::Arguments { name: name.to_owned(), takes, count, at, help }.into());
            }
        };
        let plain = match name {
            _ if dtype.is_some() => dtype.map(Function::Cast),
            _ => named(name),
        };
        let misfit = |help: &str| CheckError::FunctionSubscript { name: name.to_owned(), at, help: help.to_owned() };
        match (name, plain, subscript) {
            (_, Some(function), []) => {
                let id = self.array_expr(argument, requested)?;
                self.map(function, &[id], requested, span)
            }
            (_, Some(_), _) => Err(misfit("it is elementwise and takes no subscript").into()),
            ("softmax", None, [dim]) => self.softmax(dim, argument, requested, span),
            ("softmax", None, _) => {
                let id = self.array_expr(argument, requested)?;
                let last = self.value(id).dims.last().map_or("T".to_owned(), |dim| self.dims.name(dim.id));
                let operand = self.value(id).name.as_deref().unwrap_or("..");
                Err(misfit(&format!("write its dim: `softmax_{last}({operand})`")).into())
            }
            ("logsumexp" | "log_softmax" | "var", None, [_, ..]) => {
                self.composed(function, subscript, argument, requested, span)
            }
            ("any" | "all" | "logsumexp" | "log_softmax" | "var", None, []) => {
                Err(misfit(&format!("write its dims: `{name}_J(A)`, `{name}_{{J,K}}(A)`")).into())
            }
            ("and" | "or", None, [_, ..]) => {
                let whole = if name == "and" { "all" } else { "any" };
                Err(misfit(&format!("it takes two arrays; to reduce a dim write `{whole}_J(A)`")).into())
            }
            // `all_reduce(x)` is a call of another system, unless a dim has this name.
            ("all", None, [dim, ..])
                if !self.named_dims.contains_key(&dim.node) && is_elsewhere(function, subscript) =>
            {
                Err(unknown_function(function, subscript).into())
            }
            ("sum" | "prod" | "max" | "min" | "mean" | "any" | "all", None, [_, ..]) => {
                self.reduction(function, subscript, argument, requested, span)
            }
            ("sum" | "prod" | "max" | "min" | "mean", None, []) => {
                let two = if matches!(name, "max" | "min") {
                    format!(", or two arrays: `{name}(A, B)`")
                } else {
                    String::new()
                };
                let id = self.array_expr(argument, requested)?;
                let names: Vec<String> = self.value(id).dims.iter().map(|dim| self.dims.name(dim.id)).collect();
                let operand = self.value(id).name.as_deref().unwrap_or("..");
                let each = match names.as_slice() {
                    [] => format!("`{name}_J(A)`, `{name}_{{J,K}}(A)`"),
                    [one] => format!("`{name}_{one}({operand})`"),
                    [.., last] => format!("`{name}_{last}({operand})`, `{name}_{{{}}}({operand})`", names.join(",")),
                };
                Err(misfit(&format!("write its dims: {each}{two}")).into())
            }
            ("open", None, [_, ..]) => self.opened(function, subscript, argument, span),
            ("open", None, []) => Err(misfit("write its axes: `open_X(b)`").into()),
            ("rename", None, [from, to]) => self.rename([from, to], argument, requested, span),
            ("rename", None, [before @ .., from, to]) if before.len() >= 2 && before.len() % 2 == 0 => {
                let (function, subscript, arguments) = (function.clone(), before.to_vec(), vec![argument.clone()]);
                let inner = Expr { kind: ExprKind::Call { function, subscript, arguments }, span };
                self.rename([from, to], &inner, requested, span)
            }
            ("rename", None, _) => Err(misfit("write the old and the new dim: `rename_{S->T}(k)`").into()),
            (_, None, _) => Err(unknown_function(function, subscript).into()),
        }
    }

    fn softmax(
        &mut self,
        dim: &Name,
        argument: &Expr,
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let along = self.dim(&dim.node, dim.span)?;
        let id = self.array_expr(argument, requested)?;
        let own = self.value(id).dims.clone();
        if !own.contains(&along) {
            let help = format!("the operand is `{}`", self.show(id));
            let name = format!("softmax_{}", dim.node);
            return Err(CheckError::FunctionSubscript { name, at: dim.span, help }.into());
        }
        let dims = requested.map_or(own.clone(), |requested| self.matched(requested, &own));
        let place = dims.iter().position(|dim| *dim == along).unwrap_or_default();
        let place = u8::try_from(place).expect("arrays have few dims");
        self.note_diagonal(id, along, dim);
        self.map(Function::Softmax { dim: place }, &[id], requested, span)
    }

    /// Notes a softmax over a dim that both factors of a product have: attention whose keys were not renamed.
    fn note_diagonal(&mut self, id: ValueId, along: Dim, dim: &Name) {
        let (mut value, mut depth) = (id, 0);
        // Scales and masks come between the product and its softmax.
        let factors = loop {
            match &self.value(value).definition {
                Definition::Product { operands, .. } => break *operands,
                Definition::Map { operands, .. } if depth < 8 => {
                    let has =
                        |id: &&ValueId| self.value(**id).dims.contains(&along) && self.value(**id).dtype != DType::Bool;
                    let Some(next) = operands.iter().find(has) else { return };
                    (value, depth) = (*next, depth + 1);
                }
                Definition::Move { operand, .. } if depth < 8 => (value, depth) = (*operand, depth + 1),
                _ => return,
            }
        };
        let contracts = |id: ValueId| self.value(id).dims.iter().any(|dim| !self.value(value).dims.contains(dim));
        if !factors.iter().all(|id| self.value(*id).dims.contains(&along) && contracts(*id)) {
            return;
        }
        let other =
            ["T", "U", "S2", "T2"].into_iter().find(|name| *name != dim.node && !self.named_dims.contains_key(*name));
        let other = other.unwrap_or("T");
        let [left, right] = factors.map(|id| self.show(id));
        let key = self.value(factors[1]).name.clone().unwrap_or_else(|| "k".to_owned());
        let help = format!(
            "for attention scores, declare `dims {{{other}: {}}}`, rename the keys, `rename_{{{}->{other}}}({key})`, and write \
             `softmax_{other}`",
            along.size, dim.node
        );
        let product = format!("`{left} * {right}`");
        let (dim, at, made) = (dim.node.clone(), dim.span, self.value(value).span);
        self.diagnostics.push(&CheckError::SoftmaxOverBatchDim { dim, product, help, at, made });
    }

    fn rename(
        &mut self,
        names: [&Name; 2],
        argument: &Expr,
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let [from, to] = [self.dim(&names[0].node, names[0].span)?, self.dim(&names[1].node, names[1].span)?];
        let inner: Option<Vec<RequestedDim>> = requested.map(|requested| {
            let before = requested.iter().filter(|request| **request != RequestedDim::Dim(from));
            before
                .map(|request| if *request == RequestedDim::Dim(to) { RequestedDim::Dim(from) } else { *request })
                .collect()
        });
        let id = self.array_expr(argument, inner.as_deref())?;
        let (old, new) = (&names[0].node, &names[1].node);
        let error = |why: String, at: Span, help: String| CheckError::RenameDims { why, at, help }.into();
        let mut dims = self.value(id).dims.clone();
        let Some(place) = dims.iter().position(|dim| *dim == from) else {
            let help = format!("the operand is `{}`", self.show(id));
            return Err(error(format!("cannot rename dim `{old}`: the operand does not have it"), names[0].span, help));
        };
        if dims.contains(&to) {
            let help = format!("the operand is `{}`; use a new dim", self.show(id));
            return Err(error(format!("the operand already has a dim `{new}`"), names[1].span, help));
        }
        if from.size != to.size {
            let free = (2..).map(|n| format!("{old}{n}")).find(|name| !self.named_dims.contains_key(name));
            let free = free.unwrap_or_else(|| new.clone());
            let help = format!("rename it to a dim of the same size: `dims {{{free}: {}}}`", from.size);
            let why = format!("`{old}` has size {} and `{new}` has size {}", from.size, to.size);
            return Err(error(why, names[0].span.join(names[1].span), help));
        }
        dims[place] = to;
        self.share_splits(from.id, to.id);
        self.add(self.value(id).dtype, dims, Definition::Rename { operand: id }, span)
    }

    /// Adds a cast to another dtype.
    pub(super) fn cast(&mut self, id: ValueId, dtype: DType, span: Span) -> Checked<ValueId> {
        self.map(Function::Cast(dtype), &[id], None, span)
    }
}

/// The elementwise function of a word.
fn named(name: &str) -> Option<Function> {
    // A minus is written with its sign.
    let called = Unary::ALL.into_iter().filter(|unary| *unary != Unary::Neg);
    called.map(Function::Unary).find(|function| function.word() == name)
}

/// The function's word.
pub(super) fn word(function: Function) -> &'static str {
    match function {
        Function::Identity => "a transposition",
        Function::Unary(Unary::Neg) => "-",
        Function::Unary(unary) => unary.facts().word,
        Function::Binary(Binary::Add) | Function::ByNumber(ByNumber::Shift, _) => "+",
        Function::Binary(Binary::Sub) => "-",
        Function::Binary(Binary::Mul) => ".*",
        Function::Binary(Binary::Div) | Function::Over(_) => "/",
        Function::ByNumber(ByNumber::Scale, _) => "*",
        Function::Binary(Binary::Larger) | Function::ByNumber(ByNumber::AtLeast, _) => "max",
        Function::Binary(Binary::Smaller) | Function::ByNumber(ByNumber::AtMost, _) => "min",
        Function::Is(relation) | Function::IsNumber(relation, _) => relation.sign(),
        Function::Where | Function::Masked(_) => "where",
        Function::Softmax { .. } => "softmax",
        Function::Fill { .. } => "a filler",
        Function::Shift(_) => "shift",
        Function::Cast(_) => "a cast",
    }
}

/// Whether another system has a function of this name.
fn is_elsewhere(function: &Name, subscript: &[Name]) -> bool {
    let whole = subscript.iter().fold(function.node.clone(), |whole, item| format!("{whole}_{}", item.node));
    is_foreign(&whole) || collective_in_lower_case(&whole).is_some()
}

/// `AllGather_X` for `all_gather_X`.
fn collective_in_lower_case(whole: &str) -> Option<String> {
    let squeezed: String = whole.chars().filter(|c| *c != '_').collect();
    CollectiveName::ALL.into_iter().find_map(|kind| {
        let axes = squeezed.get(kind.word().len()..).filter(|axes| !axes.is_empty())?;
        let is_word = squeezed.get(..kind.word().len())?.eq_ignore_ascii_case(kind.word());
        let fits = is_word && whole.contains('_') && !whole.starts_with(kind.word());
        fits.then(|| format!("{}_{axes}", kind.word()))
    })
}

/// Help for words of collectives and statements that are no functions here.
fn elsewhere(name: &str) -> Option<&'static str> {
    Some(match name {
        "Scatter" | "Slice" | "Shard" => "a slice needs no collective: write the layout of the result, `C[I_X, J] = A`",
        "Reduce" => "collectives that reduce are `AllReduce_X` and `ReduceScatter_{X,I}`",
        "Permute" | "Shift" | "Send" | "Recv" | "SendRecv" => {
            "`shift_I(A, 1)` moves each element one place along a dim; a move is written as a layout, `C[J, I_X] = A`"
        }
        "Gather" => "the collective that gathers is `AllGather_X`",
        _ => return None,
    })
}

fn unknown_function(function: &Name, subscript: &[Name]) -> CheckError {
    let name = &function.node;
    // `all_reduce(x)` reads as `all` with a subscript.
    let whole = subscript.iter().fold(name.clone(), |whole, item| format!("{whole}_{}", item.node));
    let collective = nearest(name, CollectiveName::ALL.iter().map(|word| word.word()));
    let around = subscript.last().map_or(function.span, |item| function.span.join(item.span));
    if let Some(near) = collective_in_lower_case(&whole).filter(|_| collective.is_none()) {
        return CheckError::UnknownFunction { name: whole, at: around, help: did_you_mean(&near) };
    }
    if let Some(help) = elsewhere(name) {
        return CheckError::UnknownFunction { name: name.clone(), at: function.span, help: help.to_owned() };
    }
    if let Some(near) = collective {
        return CheckError::UnknownMove { name: name.clone(), at: function.span, help: did_you_mean(near) };
    }
    let casts = DType::ALL.iter().map(|dtype| dtype.to_string()).collect::<Vec<_>>();
    let words = || FUNCTIONS.into_iter().chain(Pick::words()).chain(TABLES);
    let known = words().chain(casts.iter().map(String::as_str));
    let help = match (name.as_str(), nearest(name, known)) {
        ("neg", _) => "write `-A`".to_owned(),
        (_, Some(near)) => did_you_mean(near),
        (_, None) => {
            format!("functions are {} and casts such as `f32`", words().join(", "))
        }
    };
    // `layer_norm(x)` is a name; `sofmax_D(x)` a name and a dim.
    let is_word = |item: &str| item.len() > 1 && item.chars().all(|letter| letter.is_ascii_lowercase());
    let is_whole = subscript.iter().all(|item| is_word(&item.node)) && nearest(name, FUNCTIONS.into_iter()).is_none();
    let (name, at) = if is_whole { (whole, around) } else { (name.clone(), function.span) };
    CheckError::UnknownFunction { name, at, help }
}
