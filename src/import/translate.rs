//! Operations of a module to statements of a program.

use super::ImportError;
use super::dims::{Dim, Dims};
use super::module::{self, Function, Module, Operation, Type};
use super::output::{Array, ArrayId, Expr, Output, Sharding, Statement};
use super::value::{self, Factor, Position, Value};
use crate::dtype::DType;
use crate::span::Span;
use std::collections::HashMap;
use std::rc::Rc;

/// Deepest nesting of calls and loops.
const MOST_CALLS: usize = 64;
/// Most operations of a module with all its calls written out.
const MOST_OPERATIONS: usize = 1 << 18;
/// Operations in one expression, after which it gets a name.
const MOST_WEIGHT: usize = 24;
/// The values of a region by name.
type Names<'a> = HashMap<&'a str, Vec<Value>>;

/// What the calls of kernels share.
#[derive(Debug, Default)]
pub(super) struct Kernels {
    /// The dim of real and imaginary parts, once there is one.
    pub(super) parts: Option<Dim>,
    /// The dims that only results have, by operation and index.
    pub(super) made: HashMap<(String, usize), Position>,
    /// Numbers of operations by their places, the same one for those that are written alike.
    pub(super) alike: HashMap<Span, usize>,
    pub(super) written: HashMap<String, usize>,
}

/// What is known while a module is translated.
pub(super) struct Translator<'m, 'a> {
    pub(super) module: &'m Module<'a>,
    pub(super) dims: Dims,
    pub(super) arrays: Vec<Array>,
    /// Statements of the program, and of the bodies that are open.
    pub(super) statements: Vec<Vec<Statement>>,
    /// Counters of the loops that are open, and how often these run.
    pub(super) counters: Vec<(ArrayId, u64)>,
    /// Values by name: of the open functions, each with its open regions.
    scopes: Vec<Vec<Names<'a>>>,
    /// How often each name is read in the open functions.
    uses: Vec<HashMap<&'a str, usize>>,
    /// Operations so far.
    pub(super) operations: usize,
    /// Whether operations that the language cannot say become kernels.
    pub(super) is_opaque: bool,
    pub(super) kernels: Kernels,
}

/// Translates a whole module.
///
/// - `is_opaque`: declares operations that the language cannot say as kernels.
pub(super) fn translate(module: &Module<'_>, is_opaque: bool) -> Result<(Output, Dims), ImportError> {
    let mut translator = Translator {
        module,
        dims: Dims::default(),
        arrays: Vec::new(),
        statements: vec![Vec::new()],
        counters: Vec::new(),
        scopes: Vec::new(),
        uses: Vec::new(),
        operations: 0,
        is_opaque,
        kernels: Kernels::default(),
    };
    let Some(main) = module.functions.get(module.main) else { return Ok(Default::default()) };
    let mut inputs = Vec::new();
    for (number, port) in main.arguments.iter().enumerate() {
        let dtype = element(&port.element, port.span)?;
        let shape = port.element.shape.iter().map(|size| value::fresh(&mut translator.dims, *size, true)).collect();
        let hint = port.name.map_or_else(|| format!("arg{number}"), |name| short_name(name, &main.arguments));
        let array = translator.array(hint, dtype, shape);
        let sharding = port.sharding.as_deref().map(owned);
        translator.push(Statement::Input { array, sharding, is_donated: port.is_donated });
        inputs.push(translator.read(array));
    }
    let outputs = translator.call(main, inputs)?;
    let mut named = Vec::new();
    for (number, (port, value)) in main.results.iter().zip(outputs).enumerate() {
        if port.element.parts().is_some() {
            element(&port.element, port.span)?;
        }
        let full = translator.materialize(value);
        let hint = port.name.map(|name| name.trim_start_matches("result").to_owned()).filter(|name| !name.is_empty());
        let hint =
            hint.unwrap_or_else(|| if main.results.len() == 1 { "out".to_owned() } else { format!("out{number}") });
        let array = translator.array(hint, full.dtype, full.shape);
        let sharding = port.sharding.as_deref().map(owned);
        translator.push(Statement::Assign { array, expr: full.expr, sharding, place: None });
        named.push(array);
    }
    let mesh = module.mesh.iter().map(|(axis, size)| ((*axis).to_owned(), *size)).collect();
    let statements = translator.statements.pop().unwrap_or_default();
    Ok((Output { mesh, arrays: translator.arrays, statements, outputs: named }, translator.dims))
}

/// `layers_wq` of `params['layers']['wq']`: the words of a name, without the first one where no two names get alike.
fn short_name(name: &str, all: &[module::Port<'_>]) -> String {
    let words = |name: &str| -> Vec<String> {
        let words = name.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    };
    let own = words(name);
    let rest = own.get(1..).unwrap_or_default();
    let alike = all.iter().filter_map(|port| port.name).filter(|other| {
        let other = words(other);
        other == rest || other.get(1..) == Some(rest)
    });
    let is_word = rest.first().is_some_and(|word| word.starts_with(|letter: char| letter.is_ascii_alphabetic()));
    if is_word && alike.count() == 1 { rest.join("_") } else { own.join("_") }
}

fn owned(sharding: &[Vec<&str>]) -> Sharding {
    sharding.iter().map(|axes| axes.iter().map(|axis| (*axis).to_owned()).collect()).collect()
}

/// The dtype of a tensor, if the language has it.
pub(super) fn element(kind: &Type, at: Span) -> Result<DType, ImportError> {
    kind.element.clone().map_err(|name| {
        let way_out = format!("the dtypes are {}", DType::ALL.map(DType::mlir).join(", "));
        ImportError::Dtype { name, at, way_out }
    })
}

/// How often each name is read, in a body and in all regions in it.
fn count_uses<'a>(block: &module::Block<'a>, uses: &mut HashMap<&'a str, usize>) {
    for operation in &block.operations {
        for operand in &operation.operands {
            *uses.entry(operand).or_default() += 1;
        }
        for region in &operation.regions {
            count_uses(region, uses);
        }
    }
}

impl<'m, 'a> Translator<'m, 'a> {
    // Scopes.

    /// The values that a function returns.
    fn call(&mut self, function: &'m Function<'a>, arguments: Vec<Value>) -> Result<Vec<Value>, ImportError> {
        let mut uses = HashMap::new();
        count_uses(&function.body, &mut uses);
        let mut names = Names::new();
        for (port, argument) in function.arguments.iter().zip(arguments) {
            let argument = if uses.get(port.value).is_some_and(|uses| *uses > 1) {
                self.once(argument, port.name.unwrap_or("t"), None)
            } else {
                argument
            };
            names.insert(port.value, vec![argument]);
        }
        self.scopes.push(vec![names]);
        self.uses.push(uses);
        let returned = self.block(&function.body);
        self.scopes.pop();
        self.uses.pop();
        returned
    }

    /// The values that a region returns, with its arguments bound.
    pub(super) fn region(
        &mut self,
        block: &'m module::Block<'a>,
        arguments: Vec<Value>,
    ) -> Result<Vec<Value>, ImportError> {
        let names = block.arguments.iter().copied().zip(arguments.into_iter().map(|value| vec![value])).collect();
        if let Some(scopes) = self.scopes.last_mut() {
            scopes.push(names);
        }
        let returned = self.block(block);
        if let Some(scopes) = self.scopes.last_mut() {
            scopes.pop();
        }
        returned
    }

    fn block(&mut self, block: &'m module::Block<'a>) -> Result<Vec<Value>, ImportError> {
        for operation in &block.operations {
            self.operations += 1;
            if self.operations > MOST_OPERATIONS {
                return Err(ImportError::TooLarge { most: MOST_OPERATIONS, at: operation.span });
            }
            if matches!(operation.name, "return" | "func.return" | "stablehlo.return") {
                return self.operands(operation);
            }
            let values = self.operation(operation)?;
            self.bind(operation, values)?;
        }
        Ok(Vec::new())
    }

    /// Gives the results of an operation their names.
    fn bind(&mut self, operation: &Operation<'a>, values: Vec<Value>) -> Result<(), ImportError> {
        let mut values = values.into_iter();
        for &(name, count) in &operation.results {
            let mut bound = Vec::new();
            for number in 0..count {
                let value =
                    values.next().ok_or_else(|| self.refused(operation, "it has more results than expected"))?;
                let uses = self.uses.last().map_or(0, |uses| {
                    let numbered = uses.iter().filter(|(used, _)| {
                        used.strip_prefix(name).and_then(|rest| rest.strip_prefix('#')) == Some(&number.to_string()[..])
                    });
                    if count == 1 { uses.get(name).copied().unwrap_or(0) } else { numbered.map(|(_, uses)| uses).sum() }
                });
                let value =
                    if uses > 1 { self.once(value, self.hint(operation), self.place(operation)) } else { value };
                bound.push(value);
            }
            if let Some(names) = self.scopes.last_mut().and_then(|scopes| scopes.last_mut()) {
                names.insert(name, bound);
            }
        }
        Ok(())
    }

    pub(super) fn operands(&self, operation: &Operation<'a>) -> Result<Vec<Value>, ImportError> {
        operation.operands.iter().map(|name| self.value(name, operation)).collect()
    }

    pub(super) fn value(&self, name: &str, operation: &Operation<'a>) -> Result<Value, ImportError> {
        let (base, number) = match name.split_once('#') {
            Some((base, number)) => (base, number.parse().unwrap_or(usize::MAX)),
            None => (name, 0),
        };
        let scopes = self.scopes.last().map(Vec::as_slice).unwrap_or_default();
        let found = scopes.iter().rev().find_map(|names| names.get(base));
        let is_one = |values: &&Vec<Value>| values.len() == 1 || base != name;
        let found = found.filter(is_one).and_then(|values| values.get(number));
        found
            .cloned()
            .ok_or_else(|| ImportError::Unreadable { why: format!("`%{name}` is not defined"), at: operation.span })
    }

    // Arrays and statements.

    pub(super) fn push(&mut self, statement: Statement) {
        if let Some(statements) = self.statements.last_mut() {
            statements.push(statement);
        }
    }

    /// A new array with the dims that are present.
    pub(super) fn array(&mut self, hint: String, dtype: DType, shape: Vec<Position>) -> ArrayId {
        let kept =
            |position: &Position| position.iter().filter(|factor| factor.is_present).map(|factor| factor.dim).collect();
        self.arrays.push(Array { hint, dtype, shape: shape.iter().map(kept).collect() });
        let dims = value::present(&mut self.dims, &shape);
        self.dims.together(&dims);
        ArrayId(self.arrays.len() - 1)
    }

    /// An array as it is where it is read.
    pub(super) fn read(&self, array: ArrayId) -> Value {
        let Array { dtype, shape, .. } = &self.arrays[array.0];
        let whole = |dims: &Vec<Dim>| dims.iter().map(|dim| Factor { dim: *dim, is_present: true }).collect();
        Value { expr: Rc::new(Expr::Array(array)), dtype: *dtype, shape: shape.iter().map(whole).collect() }
    }

    /// The value, written once: what is read several times gets a name.
    pub(super) fn once(&mut self, value: Value, hint: &str, place: Option<(String, String)>) -> Value {
        if value.expr.is_atomic() { value } else { self.named(value, hint, None, place) }
    }

    /// The value under a name of its own.
    pub(super) fn named(
        &mut self,
        value: Value,
        hint: &str,
        sharding: Option<Sharding>,
        place: Option<(String, String)>,
    ) -> Value {
        let array = self.array(hint.to_owned(), value.dtype, value.shape.clone());
        self.push(Statement::Assign { array, expr: value.expr, sharding, place });
        Value { expr: Rc::new(Expr::Array(array)), ..value }
    }

    /// What a result would be called: by the scope that it was traced in, or by what it is.
    pub(super) fn hint(&self, operation: &Operation<'a>) -> &'a str {
        let scope = self.module.name(&operation.location).and_then(|name| {
            let (path, _) = name.rsplit_once('/')?;
            path.rsplit('/').find(|word| {
                !word.contains('(')
                    && !matches!(*word, "while" | "body" | "cond" | "closed_call" | "eval_jaxpr" | "checkpoint")
            })
        });
        scope.unwrap_or_else(|| match operation.name.rsplit('.').next().unwrap_or_default() {
            "dot_general" => "product",
            "reduce" => "reduced",
            "convert" | "broadcast_in_dim" | "reshape" | "transpose" => "t",
            "exponential" => "exp",
            "add" | "subtract" => "sum",
            "multiply" | "divide" => "t",
            "compare" => "mask",
            "call" => {
                let called =
                    operation.trees.iter().filter_map(|tree| tree.word()).find_map(|word| word.strip_prefix('@'));
                called
                    .map_or("t", |name| name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '_'))
            }
            other => other,
        })
    }

    /// File and line of an operation.
    pub(super) fn place(&self, operation: &Operation<'a>) -> Option<(String, String)> {
        let (file, line) = self.module.place(&operation.location)?;
        let file = file.rsplit('/').next().unwrap_or(file);
        Some((file.to_owned(), line.to_owned()))
    }

    // Values.

    pub(super) fn refused(&self, operation: &Operation<'a>, why: &str) -> ImportError {
        ImportError::Operation {
            name: operation.name.to_owned(),
            why: why.to_owned(),
            at: operation.span,
            way_out: None,
        }
    }

    /// A value whose dims stand in one array from now on.
    pub(super) fn made(&mut self, expr: Expr, dtype: DType, shape: Vec<Position>) -> Value {
        let dims = value::present(&mut self.dims, &shape);
        self.dims.together(&dims);
        Value { expr: Rc::new(expr), dtype, shape }
    }

    /// The same number everywhere.
    pub(super) fn constant(&mut self, number: f64, dtype: DType, sizes: &[u64]) -> Value {
        let shape = sizes.iter().map(|size| value::fresh(&mut self.dims, *size, false)).collect();
        Value { expr: Rc::new(Expr::Number(number)), dtype, shape }
    }

    /// `iota` along a position, of this dtype.
    pub(super) fn iota(&mut self, position: &[Factor], dtype: DType) -> Rc<Expr> {
        let mut whole: Option<Rc<Expr>> = None;
        let mut stride: u64 = 1;
        for factor in value::leaves(&mut self.dims, position).iter().rev() {
            let count = Rc::new(Expr::Iota(factor.dim));
            #[expect(clippy::cast_precision_loss, reason = "sizes of tensors are far below 2^53")]
            let term = if stride == 1 { count } else { infix(".*", count, Rc::new(Expr::Number(stride as f64))) };
            whole = Some(match whole {
                None => term,
                Some(minor) => infix("+", term, minor),
            });
            stride = stride.saturating_mul(self.dims.size(factor.dim));
        }
        cast(whole.unwrap_or_else(|| Rc::new(Expr::Number(0.0))), DType::I32, dtype)
    }

    /// The value with all its dims present: an array, whatever it was.
    pub(super) fn materialize(&mut self, value: Value) -> Value {
        let mut full = self.filled_where(value, |_| true);
        if let Expr::Number(_) = *full.expr {
            // The least of 0 and 1 is an array without dims.
            let dim = self.dims.fresh(2);
            let least = Rc::new(Expr::Reduce("min", vec![dim], Rc::new(Expr::Iota(dim))));
            full.expr = spread(full.expr, least, full.dtype);
        }
        full
    }

    /// The value with the dims at these places present.
    pub(super) fn filled_where(&mut self, value: Value, is_filled: impl Fn(usize) -> bool) -> Value {
        let mut expr = value.expr;
        let mut shape = value.shape;
        for (_, position) in shape.iter_mut().enumerate().filter(|(at, _)| is_filled(*at)) {
            *position = value::leaves(&mut self.dims, position);
            for factor in position.iter_mut().filter(|factor| !factor.is_present) {
                expr = spread(expr, Rc::new(Expr::Iota(factor.dim)), value.dtype);
                factor.is_present = true;
            }
        }
        let dims = value::present(&mut self.dims, &shape);
        self.dims.together(&dims);
        Value { expr, dtype: value.dtype, shape }
    }

    /// Tensors of one shape with the same dims at each place.
    pub(super) fn combine(
        &mut self,
        values: Vec<Value>,
        operation: &Operation<'a>,
    ) -> Result<(Vec<Value>, Vec<Position>), ImportError> {
        value::combine(&mut self.dims, values).ok_or_else(|| {
            self.refused(operation, "its operands come from reshapes that cut one dim at different places")
        })
    }

    /// An elementwise result of tensors of one shape.
    pub(super) fn map(
        &mut self,
        values: Vec<Value>,
        dtype: DType,
        operation: &Operation<'a>,
        make: impl FnOnce(&[Rc<Expr>]) -> Rc<Expr>,
    ) -> Result<Value, ImportError> {
        let (values, shape) = self.combine(values, operation)?;
        let exprs: Vec<Rc<Expr>> = values.into_iter().map(|value| value.expr).collect();
        let expr = make(&exprs);
        let dims = value::present(&mut self.dims, &shape);
        self.dims.together(&dims);
        let value = Value { expr, dtype, shape };
        if value.expr.weight() > MOST_WEIGHT {
            let (hint, place) = (self.hint(operation), self.place(operation));
            return Ok(self.once(value, hint, place));
        }
        Ok(value)
    }

    /// The sum over `over` of the product of two tensors: each has all positions, those that it lacks absent.
    pub(super) fn product(
        &mut self,
        a: Value,
        b: Value,
        over: &[usize],
        dtype: DType,
        operation: &Operation<'a>,
    ) -> Result<Value, ImportError> {
        let (values, shape) = self.combine(vec![a, b], operation)?;
        let [a, b] =
            <[Value; 2]>::try_from(values).map_err(|_| self.refused(operation, "it has other than two factors"))?;
        let mut shared = Vec::new();
        let mut of_one: [Vec<Dim>; 2] = Default::default();
        let mut repeats: u64 = 1;
        for &at in over {
            let sides = [&a, &b].map(|value| value::leaves(&mut self.dims, &value.shape[at]));
            for (one, other) in sides[0].iter().zip(&sides[1]) {
                match (one.is_present, other.is_present) {
                    (true, true) => shared.push(one.dim),
                    (true, false) => of_one[0].push(one.dim),
                    (false, true) => of_one[1].push(other.dim),
                    (false, false) => repeats = repeats.saturating_mul(self.dims.size(one.dim)),
                }
            }
        }
        let kept: Vec<Position> =
            shape.into_iter().enumerate().filter(|(at, _)| !over.contains(at)).map(|(_, position)| position).collect();
        let [one, other] = [(a, &of_one[0]), (b, &of_one[1])].map(|(value, dims)| {
            if dims.is_empty() { value.expr } else { Rc::new(Expr::Reduce("sum", dims.clone(), value.expr)) }
        });
        let expr = if shared.is_empty() { fold(".*", one, other) } else { Rc::new(Expr::Product(one, other, shared)) };
        #[expect(clippy::cast_precision_loss, reason = "sizes of tensors are far below 2^53")]
        let expr = if repeats == 1 { expr } else { fold(".*", expr, Rc::new(Expr::Number(repeats as f64))) };
        Ok(self.made(Rc::unwrap_or_clone(expr), dtype, kept))
    }

    /// A function that is called, or what stands for a composite operation.
    pub(super) fn inlined(&mut self, operation: &'m Operation<'a>, name: &str) -> Result<Vec<Value>, ImportError> {
        let Some(function) = self.module.functions.get(name) else {
            return Err(self.refused(operation, "the function that it calls is not in the module"));
        };
        if self.scopes.len() >= MOST_CALLS {
            return Err(self.refused(operation, "calls are nested too deep"));
        }
        let arguments = self.operands(operation)?;
        self.call(function, arguments)
    }
}

/// The same for each number that `counted` counts, which are at least 0.
pub(super) fn spread(expr: Rc<Expr>, counted: Rc<Expr>, dtype: DType) -> Rc<Expr> {
    let zero = || Rc::new(Expr::Number(0.0));
    match (dtype, &*expr) {
        (DType::Bool, Expr::Number(number)) => infix(if *number == 0.0 { "<" } else { ">=" }, counted, zero()),
        (DType::Bool, _) => Rc::new(Expr::Call("or", vec![expr, infix("<", counted, zero())])),
        _ => fold("+", infix(".*", cast(counted, DType::I32, dtype), zero()), expr),
    }
}

pub(super) fn infix(sign: &'static str, a: Rc<Expr>, b: Rc<Expr>) -> Rc<Expr> {
    Rc::new(Expr::Infix(sign, a, b))
}

/// `f32(a)`, or `a` where it has that dtype.
pub(super) fn cast(expr: Rc<Expr>, from: DType, to: DType) -> Rc<Expr> {
    if from == to {
        return expr;
    }
    match (to, &*expr) {
        (DType::Bool, _) => infix("!=", expr, Rc::new(Expr::Number(0.0))),
        (_, Expr::Number(_)) => expr,
        _ => Rc::new(Expr::Call(to.name(), vec![expr])),
    }
}

/// `a + b` and so on, without what changes nothing: `a + 0`, `a * 1`.
pub(super) fn fold(sign: &'static str, a: Rc<Expr>, b: Rc<Expr>) -> Rc<Expr> {
    let number = |expr: &Rc<Expr>| if let Expr::Number(number) = **expr { Some(number) } else { None };
    match (sign, number(&a), number(&b)) {
        ("+", Some(a), Some(b)) => Rc::new(Expr::Number(a + b)),
        ("-", Some(a), Some(b)) => Rc::new(Expr::Number(a - b)),
        (".*", Some(a), Some(b)) => Rc::new(Expr::Number(a * b)),
        ("+", Some(0.0), _) | (".*", Some(1.0), _) => b,
        ("+" | "-", _, Some(0.0)) | (".*" | "/", _, Some(1.0)) => a,
        ("-", Some(0.0), _) => Rc::new(Expr::Negative(b)),
        _ => infix(sign, a, b),
    }
}
