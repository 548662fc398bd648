//! Expressions: arrays, numbers, elementwise operations and functions.
//!
//! The dims of a result are passed down as wishes: a product inside contracts what they lack.

use super::checker::Checker;
use super::error::{CheckError, Checked};
use super::layouts::Wish;
use super::names::nearest;
use super::{Definition, ValueId};
use crate::dtype::DType;
use crate::function::{Binary, ByNumber, Function, Scalar, Unary};
use crate::layout::Dim;
use crate::span::Span;
use crate::syntax::{ArrayRef, BinaryOp, CollectiveName, Expr, ExprKind, Name, call_here};
use strsim::osa_distance;

/// What an expression stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    /// An array.
    Array(ValueId),
    /// A number.
    Number(f64),
}

/// The functions that a program can name, besides the casts.
const FUNCTIONS: [&str; 28] = [
    "relu",
    "gelu",
    "exp",
    "tanh",
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

/// How many arguments functions take.
pub(super) const ARITIES: &str =
    "`max(A, B)`, `min(A, B)`, `and(M, N)`, `or(M, N)`, `where(M, A, B)`; all other functions take one array";

impl Checker {
    /// Whether a word is that of a function of the language.
    pub(super) fn is_function(&self, word: &str) -> bool {
        FUNCTIONS.contains(&word) || word.parse::<DType>().is_ok()
    }

    /// Expressions are nested at most this deep.
    pub(super) const MOST_DEPTH: usize = 200;

    /// What an expression stands for; `wishes` are the dims of the result, in order, if they are known.
    pub(super) fn expr(&mut self, expr: &Expr, wishes: Option<&[Wish]>) -> Checked<Operand> {
        if self.depth >= Self::MOST_DEPTH {
            return Err(CheckError::TooDeep { at: expr.span, most: Self::MOST_DEPTH }.into());
        }
        self.depth += 1;
        let operand = self.expr_kind(expr, wishes);
        self.depth -= 1;
        operand
    }

    fn expr_kind(&mut self, expr: &Expr, wishes: Option<&[Wish]>) -> Checked<Operand> {
        match &expr.kind {
            ExprKind::Array(array) => match array.name.as_ref().filter(|_| array.brackets.is_none()) {
                Some(name) if self.size(name).is_some() => Ok(Operand::Number(self.size(name).unwrap_or_default())),
                Some(_) | None => self.array(array).map(Operand::Array),
            },
            ExprKind::Number(Scalar(number)) => Ok(Operand::Number(*number)),
            ExprKind::Product { factors, contraction } => self.product(factors, contraction, wishes, expr.span),
            ExprKind::Binary { op: BinaryOp::Power, .. } | ExprKind::Call { .. } if self.number(expr, 0).is_some() => {
                self.finite(self.number(expr, 0).unwrap_or_default(), expr.span)
            }
            ExprKind::Binary { op, left, right } => {
                let (left, right) = (self.expr(left, wishes)?, self.expr(right, wishes)?);
                self.binary(*op, left, right, wishes, expr.span)
            }
            ExprKind::Neg(argument) => match self.expr(argument, wishes)? {
                Operand::Number(number) => Ok(Operand::Number(-number)),
                Operand::Array(id) => {
                    self.map(Function::Unary(Unary::Neg), &[id], wishes, expr.span).map(Operand::Array)
                }
            },
            ExprKind::Call { function, subscript, arguments } => {
                self.call(function, subscript, arguments, wishes, expr.span).map(Operand::Array)
            }
            ExprKind::Collective { kind, subscript, argument } => {
                self.collective(kind, subscript, argument, None, expr.span).map(Operand::Array)
            }
        }
    }

    /// An expression that has to be an array.
    pub(super) fn array_expr(&mut self, expr: &Expr, wishes: Option<&[Wish]>) -> Checked<ValueId> {
        match self.expr(expr, wishes)? {
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
                let help = format!("declare it, `{0}: bf16[..]`, or write its brackets here, `{0}[..]`", name.node);
                let help = match self.calls.is_empty() {
                    _ if name.node.starts_with(super::iota::PREFIX) => {
                        let dim = &name.node[super::iota::PREFIX.len()..];
                        format!("`{dim}` is no dim here: `iota_S` holds the places along a dim `S`")
                    }
                    _ if matches!(name.node.as_str(), "inf" | "Inf" | "nan" | "NaN" | "True" | "False") => {
                        "numbers are finite, such as `-1e9`; a `bool` array is a condition by itself".to_owned()
                    }
                    true => help,
                    false => format!("a function knows no arrays from outside: make `{}` a parameter", name.node),
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

    /// An input that is declared by its use.
    fn implicit(&mut self, array: &ArrayRef) -> Checked<ValueId> {
        let Some(brackets) = &array.brackets else {
            // The grammar gives an array a name or brackets.
            return Err(CheckError::NumberResult { at: array.span }.into());
        };
        let dtype = array.dtype.as_ref().map_or(DType::Bf16, |dtype| dtype.node);
        let known = array.name.as_ref().and_then(|name| {
            let known = self.scope.keys().map(String::as_str);
            nearest(&name.node, known.filter(|known| osa_distance(known, &name.node) <= 1)).map(str::to_owned)
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
        wishes: Option<&[Wish]>,
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
                self.map(shift(c), &[a], wishes, span)?
            }
            (BinaryOp::Sub, Array(a), Number(c)) => self.map(shift(-c), &[a], wishes, span)?,
            (BinaryOp::Sub, Number(c), Array(a)) => {
                let negative = self.map(Function::Unary(Unary::Neg), &[a], wishes, span)?;
                self.map(shift(c), &[negative], wishes, span)?
            }
            (BinaryOp::Mul, Array(a), Number(c)) | (BinaryOp::Mul, Number(c), Array(a)) => {
                self.map(Function::ByNumber(ByNumber::Scale, Scalar(c)), &[a], wishes, span)?
            }
            (BinaryOp::Div, Array(a), Number(c)) => {
                self.needs_float(Function::Binary(Binary::Div), a)?;
                self.map(Function::ByNumber(ByNumber::Scale, Scalar(1.0 / c)), &[a], wishes, span)?
            }
            (BinaryOp::Div, Number(c), Array(a)) => {
                let inverse = self.map(Function::Unary(Unary::Recip), &[a], wishes, span)?;
                if c == 1.0 {
                    inverse
                } else {
                    self.map(Function::ByNumber(ByNumber::Scale, Scalar(c)), &[inverse], wishes, span)?
                }
            }
            (BinaryOp::Is(relation), Array(a), Array(b)) => self.map(Function::Is(relation), &[a, b], wishes, span)?,
            (BinaryOp::Is(relation), Array(a), Number(c)) => {
                self.map(Function::IsNumber(relation, Scalar(c)), &[a], wishes, span)?
            }
            (BinaryOp::Is(relation), Number(c), Array(a)) => {
                self.map(Function::IsNumber(relation.turned(), Scalar(c)), &[a], wishes, span)?
            }
            (BinaryOp::Is(_), Number(_), Number(_)) => return Err(CheckError::NumberResult { at: span }.into()),
            (BinaryOp::Power, Array(a), Number(c)) => {
                let mut id = a;
                for function in self.power(c, span)? {
                    let operands = if function.arity() == 2 { vec![id, a] } else { vec![id] };
                    id = self.map(*function, &operands, wishes, span)?;
                }
                id
            }
            (BinaryOp::Power, _, _) => return Err(CheckError::UnknownPower { at: span }.into()),
            (BinaryOp::Add, Array(a), Array(b)) => self.map(Function::Binary(Binary::Add), &[a, b], wishes, span)?,
            (BinaryOp::Sub, Array(a), Array(b)) => self.map(Function::Binary(Binary::Sub), &[a, b], wishes, span)?,
            (BinaryOp::Mul, Array(a), Array(b)) => self.map(Function::Binary(Binary::Mul), &[a, b], wishes, span)?,
            (BinaryOp::Div, Array(a), Array(b)) => self.map(Function::Binary(Binary::Div), &[a, b], wishes, span)?,
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

    /// Adds an elementwise function; the operands line up by dim, a missing dim broadcasts.
    pub(super) fn map(
        &mut self,
        function: Function,
        operands: &[ValueId],
        wishes: Option<&[Wish]>,
        span: Span,
    ) -> Checked<ValueId> {
        let dtype = self.map_dtype(function, operands, span)?;
        self.check_map_open(function, operands, dtype)?;
        let union = self.union(operands);
        let dims = match wishes {
            // A wish that nothing fulfils is told of the statement as a whole; a dim under another name is often why.
            Some(wishes) if self.unfulfilled(wishes, &union).is_some() && wishes.len() == union.len() => union.clone(),
            Some(wishes) => self.granted(wishes, &union),
            None => union.clone(),
        };
        if let Some(lost) = union.iter().find(|dim| !dims.contains(dim)) {
            let has = |id: &&ValueId| self.value(**id).dims.contains(lost);
            let id = operands.iter().find(has).copied().unwrap_or(operands[0]);
            return Err(self.dim_lost(*lost, id));
        }
        self.add(dtype, dims, Definition::Map { function, operands: operands.to_vec() }, span)
    }

    /// The dims of all of them: those of the first, then the new ones of each.
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

    fn call(
        &mut self,
        function: &Name,
        subscript: &[Name],
        arguments: &[Expr],
        wishes: Option<&[Wish]>,
        span: Span,
    ) -> Checked<ValueId> {
        if let Some(id) = self.called(function, subscript, arguments, wishes, span)? {
            return Ok(id);
        }
        // The one function with `_` in its name.
        let function = match (function.node.as_str(), subscript) {
            ("log", [item]) if item.node == "softmax" || item.node.starts_with("softmax_") => {
                let dim = item.node.strip_prefix("softmax_").map(|dim| Name { node: dim.to_owned(), span: item.span });
                let name = Name { node: "log_softmax".to_owned(), span: function.span.join(item.span) };
                let subscript: Vec<Name> = dim.into_iter().collect();
                return self.call(&name, &subscript, arguments, wishes, span);
            }
            _ => function,
        };
        let (name, at) = (function.node.as_str(), function.span);
        let dtype = name.parse::<DType>().ok();
        if dtype.is_none() && !FUNCTIONS.contains(&name) {
            return Err(unknown_function(function, subscript, arguments).into());
        }
        let argument = match (name, subscript, arguments) {
            ("max" | "min" | "where" | "and" | "or", [], many) if many.len() > 1 || !matches!(name, "max" | "min") => {
                return self.several(function, many, wishes, span);
            }
            (_, _, [only]) => only,
            (_, _, many) => {
                let (takes, count) = ("one argument".to_owned(), many.len());
                return Err(CheckError::Arguments {
                    name: name.to_owned(),
                    takes,
                    count,
                    at,
                    help: ARITIES.to_owned(),
                }
                .into());
            }
        };
        let plain = match name {
            _ if dtype.is_some() => dtype.map(Function::Cast),
            _ => named(name),
        };
        let misfit = |help: &str| CheckError::FunctionSubscript { name: name.to_owned(), at, help: help.to_owned() };
        match (name, plain, subscript) {
            (_, Some(function), []) => {
                let id = self.array_expr(argument, wishes)?;
                self.map(function, &[id], wishes, span)
            }
            (_, Some(_), _) => Err(misfit("it works on each element and has no subscript").into()),
            ("softmax", None, [dim]) => self.softmax(dim, argument, wishes, span),
            ("softmax", None, _) => Err(misfit("write the one dim it runs over: `softmax_T(S)`").into()),
            ("logsumexp" | "log_softmax" | "var", None, [_, ..]) => {
                self.composed(function, subscript, argument, wishes, span)
            }
            ("any" | "all" | "logsumexp" | "log_softmax" | "var", None, []) => {
                Err(misfit(&format!("write the dims it runs over: `{name}_J(A)`, `{name}_{{J,K}}(A)`")).into())
            }
            ("and" | "or", None, [_, ..]) => {
                let whole = if name == "and" { "all" } else { "any" };
                Err(misfit(&format!("it takes two arrays; over a dim write `{whole}_J(A)`")).into())
            }
            // `all_reduce(x)` is a word of another system, unless a dim is called so.
            ("all", None, [dim]) if !self.named_dims.contains_key(&dim.node) && is_elsewhere(function, subscript) => {
                Err(unknown_function(function, subscript, arguments).into())
            }
            ("sum" | "max" | "min" | "mean" | "any" | "all", None, [_, ..]) => {
                self.reduction(function, subscript, argument, wishes, span)
            }
            ("sum" | "max" | "min" | "mean", None, []) => {
                let two = if matches!(name, "max" | "min") {
                    format!(", or two arrays: `{name}(A, B)`")
                } else {
                    String::new()
                };
                Err(misfit(&format!("write the dims it runs over: `{name}_J(A)`, `{name}_{{J,K}}(A)`{two}")).into())
            }
            ("open", None, [_, ..]) => self.opened(function, subscript, argument, span),
            ("open", None, []) => Err(misfit("write the axes that it is opened over: `open_X(b)`").into()),
            ("rename", None, [from, to]) => self.rename([from, to], argument, wishes, span),
            ("rename", None, [before @ .., from, to]) if before.len() >= 2 && before.len() % 2 == 0 => {
                let (function, subscript, arguments) = (function.clone(), before.to_vec(), vec![argument.clone()]);
                let inner = Expr { kind: ExprKind::Call { function, subscript, arguments }, span };
                self.rename([from, to], &inner, wishes, span)
            }
            ("rename", None, _) => Err(misfit("write the old and the new dim: `rename_{S->T}(k)`").into()),
            (_, None, _) => Err(unknown_function(function, subscript, arguments).into()),
        }
    }

    fn softmax(&mut self, dim: &Name, argument: &Expr, wishes: Option<&[Wish]>, span: Span) -> Checked<ValueId> {
        let along = self.dim(&dim.node, dim.span)?;
        let id = self.array_expr(argument, wishes)?;
        let own = self.value(id).dims.clone();
        if !own.contains(&along) {
            let help = format!("its operand is `{}`", self.show(id));
            let name = format!("softmax_{}", dim.node);
            return Err(CheckError::FunctionSubscript { name, at: dim.span, help }.into());
        }
        let dims = wishes.map_or(own.clone(), |wishes| self.granted(wishes, &own));
        let place = dims.iter().position(|dim| *dim == along).unwrap_or_default();
        let place = u8::try_from(place).expect("arrays have few dims");
        self.map(Function::Softmax { dim: place }, &[id], wishes, span)
    }

    fn rename(&mut self, names: [&Name; 2], argument: &Expr, wishes: Option<&[Wish]>, span: Span) -> Checked<ValueId> {
        let [from, to] = [self.dim(&names[0].node, names[0].span)?, self.dim(&names[1].node, names[1].span)?];
        let inner: Option<Vec<Wish>> = wishes.map(|wishes| {
            let before = wishes.iter().filter(|wish| **wish != Wish::Dim(from));
            before.map(|wish| if *wish == Wish::Dim(to) { Wish::Dim(from) } else { *wish }).collect()
        });
        let id = self.array_expr(argument, inner.as_deref())?;
        let (old, new) = (&names[0].node, &names[1].node);
        let error = |why: String, at: Span, help: String| CheckError::RenameDims { why, at, help }.into();
        let mut dims = self.value(id).dims.clone();
        let Some(place) = dims.iter().position(|dim| *dim == from) else {
            let help = format!("the operand is `{}`", self.show(id));
            return Err(error(format!("there is no dim `{old}` to rename"), names[0].span, help));
        };
        if dims.contains(&to) {
            let help = format!("the operand is `{}`; use a dim it does not have", self.show(id));
            return Err(error(format!("the operand has a dim `{new}` already"), names[1].span, help));
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

    /// Adds a cast of a value to another element type.
    pub(super) fn cast(&mut self, id: ValueId, dtype: DType, span: Span) -> Checked<ValueId> {
        self.map(Function::Cast(dtype), &[id], None, span)
    }
}

/// The elementwise function that a program calls by this word.
fn named(name: &str) -> Option<Function> {
    // A minus is written with its sign.
    let called = Unary::ALL.into_iter().filter(|unary| *unary != Unary::Neg);
    called.map(Function::Unary).find(|function| function.word() == name)
}

/// The function as a program writes it.
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
        Function::Cast(_) => "a cast",
    }
}

/// Whether another system has a function of this name.
fn is_elsewhere(function: &Name, subscript: &[Name]) -> bool {
    let whole = subscript.iter().fold(function.node.clone(), |whole, item| format!("{whole}_{}", item.node));
    call_here(&whole, &["x".to_owned()]).is_some()
}

fn unknown_function(function: &Name, subscript: &[Name], arguments: &[Expr]) -> CheckError {
    let name = &function.node;
    // `all_reduce(x)` reads as `all` with a subscript.
    let whole = subscript.iter().fold(name.clone(), |whole, item| format!("{whole}_{}", item.node));
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let collective = nearest(name, CollectiveName::ALL.iter().map(|word| word.word()));
    let here = call_here(&whole, &arguments).or_else(|| call_here(name, &arguments));
    let items: Vec<&str> = subscript.iter().map(|item| item.node.as_str()).collect();
    let script = match items.as_slice() {
        [] => String::new(),
        [only] => format!("_{only}"),
        many => format!("_{{{}}}", many.join(",")),
    };
    let here = collective.map(|near| format!("did you mean `{near}{script}`?")).or(here);
    let casts = DType::ALL.iter().map(|dtype| dtype.to_string()).collect::<Vec<_>>();
    let known = FUNCTIONS.into_iter().chain(casts.iter().map(String::as_str));
    let help = match (name.as_str(), nearest(name, known)) {
        (_, _) if here.is_some() => here.unwrap_or_default(),
        ("neg", _) => "write `-A`".to_owned(),
        (_, Some(near)) => format!("did you mean `{near}`?"),
        (_, None) => format!("the functions are {} and casts such as `f32`", FUNCTIONS.join(", ")),
    };
    CheckError::UnknownFunction { name: name.clone(), at: function.span, help }
}
