//! The text of an imported program: names for dims and arrays, and what is not needed left out.

use super::dims::{Dim, Dims};
use super::kernels::Declared;
use super::names::{identifier, is_reserved};
use super::output::{Array, ArrayId, Expr, Output, Sharding, Statement, WIDTH};
use super::{Argument, Imported, Options};
use crate::dtype::DType;
use itertools::Itertools;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::rc::Rc;

/// Names of dims, in the order in which they appear.
const LETTERS: &str = "BSDFNHKMVTEGIJLPQRUWXYZACO";

/// Writes a program, and says which arrays its arguments and results are.
pub(super) fn write(output: Output, mut dims: Dims, options: &Options) -> Imported {
    let Output { mesh, mut arrays, mut statements, mut outputs } = output;
    for output in &mut outputs {
        *output = original(&mut statements, &mut arrays, &mut dims, *output);
    }
    let mut reads = HashMap::new();
    count_reads(&statements, &mut reads);
    let mut layers = HashMap::new();
    count_layers(&statements, &mut layers);
    // A stack that nothing but one loop reads is an input of that loop's body.
    let in_body: HashSet<ArrayId> = layers
        .into_iter()
        .filter(|(stack, count)| *count == 1 && reads.get(stack).copied().unwrap_or(0) == 0)
        .map(|(stack, _)| stack)
        .collect();
    while drop_unread(&mut statements, &in_body, &outputs) {}
    let mut writer = Writer {
        arrays: &arrays,
        dims,
        in_body,
        names: HashMap::new(),
        dim_names: HashMap::new(),
        dim_order: Vec::new(),
        merged: Vec::new(),
        axes: mesh.iter().cloned().collect(),
        has_mesh: options.mesh.is_none(),
        is_open: options.is_open || mesh.is_empty(),
        stacks: HashMap::new(),
        written: Vec::new(),
        rebound: HashSet::new(),
        outputs: outputs.iter().copied().collect(),
        kernels: Declared::default(),
        ordered: HashSet::new(),
        unpadded: HashSet::new(),
    };
    writer.find_rebound(&statements);
    writer.even_renames(&statements);
    writer.find_kernels(&statements);
    writer.find_stacks(&statements);
    writer.name_arrays(&statements, &outputs);
    writer.name_dims(&statements);
    let mut body = String::new();
    writer.statements(&statements, 0, &mut body);
    let arguments = statements.iter().filter_map(|statement| match statement {
        Statement::Input { array, .. } => {
            Some(Argument { array: writer.names[array].clone(), is_per_iteration: writer.in_body.contains(array) })
        }
        _ => None,
    });
    let arguments = arguments.collect();
    let hardware = options.hardware.as_deref().unwrap_or("tpu_v5e");
    let axes = options
        .mesh
        .clone()
        .unwrap_or_else(|| mesh.iter().map(|(axis, size)| format!("{}: {size}", identifier(axis))).join(", "));
    let axes = axes.trim().trim_start_matches('{').trim_end_matches('}').replace('=', ": ");
    let mut text = format!("mesh {{{axes}}} on {hardware}\n");
    if !writer.dim_order.is_empty() {
        let sizes = writer.dim_order.clone().into_iter().map(|dim| {
            let size = writer.dims.size(dim);
            format!("{}: {size}", writer.dim_names[&dim])
        });
        let merged = writer.merged.iter().map(|(name, parts)| {
            format!("{name} = {}", parts.iter().map(|dim| writer.dim_names[dim].clone()).join("*"))
        });
        let all: Vec<String> = sizes.collect::<Vec<_>>().into_iter().chain(merged).collect();
        let _ = writeln!(text, "dims {{{}}}", all.join(", "));
    }
    text.push('\n');
    let kernels = writer.kernels.text(&mut writer.dims, &writer.dim_names);
    if !kernels.is_empty() {
        let _ = writeln!(text, "{kernels}");
    }
    text.push_str(&body);
    let results: Vec<String> = outputs.iter().map(|array| writer.names[array].clone()).collect();
    let _ = writeln!(text, "output {}", results.iter().unique().join(", "));
    Imported { text, arguments, results }
}

/// The array that an output only repeats, which then gets its name; or the output itself.
fn original(statements: &mut Vec<Statement>, arrays: &mut [Array], dims: &mut Dims, output: ArrayId) -> ArrayId {
    let is_repeated = |statement: &Statement| match statement {
        Statement::Assign { array, expr, sharding: None, .. } if *array == output => match **expr {
            Expr::Array(original) => Some(original),
            _ => None,
        },
        _ => None,
    };
    let Some(original) = statements.iter().find_map(is_repeated) else { return output };
    let is_input = |statement: &Statement| matches!(statement, Statement::Input { array, .. } if *array == original);
    let mut order = |array: ArrayId| -> Vec<Dim> {
        arrays[array.0].shape.iter().flatten().flat_map(|dim| dims.leaves(*dim)).collect()
    };
    if statements.iter().any(is_input) || order(original) != order(output) {
        return output;
    }
    statements.retain(|statement| is_repeated(statement).is_none());
    arrays[original.0].hint = arrays[output.0].hint.clone();
    original
}

fn exprs(statement: &Statement) -> Option<&Rc<Expr>> {
    match statement {
        Statement::Assign { expr, .. } | Statement::Count { expr, .. } | Statement::Layer { expr, .. } => Some(expr),
        Statement::Input { .. } | Statement::Repeat { .. } => None,
    }
}

/// How often each array is read, other than by taking the part of an iteration.
fn count_reads(statements: &[Statement], reads: &mut HashMap<ArrayId, usize>) {
    for statement in statements {
        match statement {
            Statement::Assign { expr, .. } => expr.walk(&mut |expr| {
                if let Expr::Array(array) = expr {
                    *reads.entry(*array).or_default() += 1;
                }
            }),
            Statement::Repeat { body, .. } => count_reads(body, reads),
            Statement::Input { .. } | Statement::Layer { .. } | Statement::Count { .. } => {}
        }
    }
}

/// How many statements take the part of an iteration from each stack.
fn count_layers(statements: &[Statement], layers: &mut HashMap<ArrayId, usize>) {
    for statement in statements {
        match statement {
            Statement::Layer { stack, .. } => *layers.entry(*stack).or_default() += 1,
            Statement::Repeat { body, .. } => count_layers(body, layers),
            _ => {}
        }
    }
}

/// Takes out assignments that nothing reads; returns whether there were any.
fn drop_unread(statements: &mut Vec<Statement>, in_body: &HashSet<ArrayId>, outputs: &[ArrayId]) -> bool {
    let mut read: HashSet<ArrayId> = outputs.iter().copied().collect();
    collect_read(statements, in_body, &mut read);
    retain(statements, &read)
}

fn collect_read(statements: &[Statement], in_body: &HashSet<ArrayId>, read: &mut HashSet<ArrayId>) {
    for statement in statements {
        match statement {
            Statement::Layer { stack, .. } if in_body.contains(stack) => {}
            // What only reads itself, such as a counter, is not read.
            Statement::Assign { array, expr, .. }
            | Statement::Count { counter: array, expr }
            | Statement::Layer { array, expr, .. } => {
                expr.walk(&mut |expr| {
                    if let Expr::Array(found) = expr
                        && found != array
                    {
                        read.insert(*found);
                    }
                });
            }
            Statement::Repeat { body, .. } => collect_read(body, in_body, read),
            Statement::Input { .. } => {}
        }
    }
}

fn retain(statements: &mut Vec<Statement>, read: &HashSet<ArrayId>) -> bool {
    let before = statements.len();
    let mut dropped = false;
    statements.retain_mut(|statement| match statement {
        Statement::Assign { array, .. } | Statement::Layer { array, .. } | Statement::Count { counter: array, .. } => {
            read.contains(array)
        }
        Statement::Repeat { body, .. } => {
            dropped |= retain(body, read);
            !body.is_empty()
        }
        Statement::Input { .. } => true,
    });
    dropped || statements.len() != before
}

/// How tightly an expression binds: what stands inside another one may need parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Comparison,
    Sum,
    Term,
    Sign,
    Atom,
}

struct Writer<'o> {
    arrays: &'o [Array],
    dims: Dims,
    /// Stacked inputs that are declared in the body of their loop.
    in_body: HashSet<ArrayId>,
    /// The statement that declares a stacked input, by that input.
    stacks: HashMap<ArrayId, Statement>,
    names: HashMap<ArrayId, String>,
    dim_names: HashMap<Dim, String>,
    dim_order: Vec<Dim>,
    merged: Vec<(String, Vec<Dim>)>,
    axes: HashMap<String, u64>,
    /// Right sides that are written already and what they are called: one list for each body that is open.
    written: Vec<HashMap<String, String>>,
    /// Arrays that are assigned more than once.
    rebound: HashSet<ArrayId>,
    outputs: HashSet<ArrayId>,
    kernels: Declared,
    /// Operands of kernels, whose dims are declared in order.
    ordered: HashSet<ArrayId>,
    /// Dims of which a kernel would read padding.
    unpadded: HashSet<Dim>,
    /// Whether the axes of shardings are those of the program.
    has_mesh: bool,
    is_open: bool,
}

impl Writer<'_> {
    /// Cuts both sides of each rename at the same places.
    fn even_renames(&mut self, statements: &[Statement]) {
        loop {
            let mut changed = false;
            let mut visit = |dims: &mut Dims, expr: &Expr| {
                if let Expr::Rename(pairs, _) = expr {
                    for (from, to) in pairs {
                        let (one, other) = (dims.leaves(*from), dims.leaves(*to));
                        if one.len() != other.len() {
                            changed |= dims.refine(one, other).is_some();
                        }
                    }
                }
            };
            each_expr(statements, &mut |expr| expr.walk(&mut |expr| visit(&mut self.dims, expr)));
            if !changed {
                break;
            }
        }
    }

    fn find_kernels(&mut self, statements: &[Statement]) {
        each_expr(statements, &mut |expr| {
            self.kernels.add(expr, &mut self.dims);
            if let Expr::Kernel(kernel, operands) = expr {
                for dim in kernel.parameters.iter().flatten() {
                    if !(kernel.sharded.contains(dim) && kernel.result.contains(dim)) {
                        self.unpadded.extend(self.dims.leaves(*dim));
                    }
                }
                for operand in operands {
                    operand.walk(&mut |expr| {
                        if let Expr::Array(array) = expr {
                            self.ordered.insert(*array);
                        }
                    });
                }
            }
        });
    }

    fn find_rebound(&mut self, statements: &[Statement]) {
        let mut assigned = HashSet::new();
        each_statement(statements, &mut |statement| {
            if let Statement::Assign { array, .. } | Statement::Count { counter: array, .. } = statement
                && !assigned.insert(*array)
            {
                self.rebound.insert(*array);
            }
        });
    }

    /// Whether an assignment computes what stands above it already; its array is then called like that one.
    fn is_written(&mut self, array: ArrayId, expr: &Rc<Expr>, right: &str) -> bool {
        let mut is_fixed = !self.rebound.contains(&array);
        expr.walk(&mut |expr| is_fixed &= !matches!(expr, Expr::Array(found) if self.rebound.contains(found)));
        if !is_fixed {
            return false;
        }
        if !self.outputs.contains(&array)
            && let Some(name) = self.written.iter().find_map(|written| written.get(right)).cloned()
        {
            self.names.insert(array, name);
            return true;
        }
        let name = self.names[&array].clone();
        if let Some(written) = self.written.last_mut() {
            written.insert(right.to_owned(), name);
        }
        false
    }

    fn find_stacks(&mut self, statements: &[Statement]) {
        for statement in statements {
            if let Statement::Input { array, .. } = statement
                && self.in_body.contains(array)
            {
                self.stacks.insert(*array, statement.clone());
            }
        }
    }

    fn name_arrays(&mut self, statements: &[Statement], outputs: &[ArrayId]) {
        let mut taken: HashSet<String> = self.kernels.names().map(str::to_owned).collect();
        // Below this number, all names of this kind are taken.
        let mut next: HashMap<String, usize> = HashMap::new();
        let mut order: Vec<ArrayId> = Vec::new();
        let mut inputs = Vec::new();
        each_statement(statements, &mut |statement| match statement {
            Statement::Input { array, .. } => inputs.push(*array),
            Statement::Assign { array, .. }
            | Statement::Count { counter: array, .. }
            | Statement::Layer { array, .. } => {
                order.push(*array);
            }
            Statement::Repeat { .. } => {}
        });
        let all = inputs.iter().copied().chain(outputs.iter().copied()).chain(order);
        for array in all.unique() {
            let mut name = identifier(&self.arrays[array.0].hint);
            if is_reserved(&name) {
                name = format!("v_{name}");
            }
            let next = next.entry(name.clone()).or_insert(1);
            let free = loop {
                let free = if *next == 1 { name.clone() } else { format!("{name}_{next}") };
                *next += 1;
                if taken.insert(free.clone()) {
                    break free;
                }
            };
            self.names.insert(array, free);
        }
        // The part of a stack is called like the stack, which is not declared itself.
        each_statement(statements, &mut |statement| {
            if let Statement::Layer { array, stack, .. } = statement
                && self.in_body.contains(stack)
                && let Some(name) = self.names.get(stack).cloned()
            {
                self.names.insert(*array, name);
            }
        });
    }

    fn name_dims(&mut self, statements: &[Statement]) {
        let mut found: Vec<Dim> = Vec::new();
        let in_body = self.in_body.clone();
        let mut tables: Vec<Dim> = Vec::new();
        each_statement(statements, &mut |statement| {
            let array = match statement {
                Statement::Input { array, .. } if in_body.contains(array) => None,
                Statement::Input { array, .. } | Statement::Assign { array, .. } | Statement::Layer { array, .. } => {
                    Some(*array)
                }
                Statement::Count { .. } | Statement::Repeat { .. } => None,
            };
            // Results first: their dims are those of the model, batch first.
            if !matches!(statement, Statement::Input { .. }) {
                found.extend(array.iter().flat_map(|array| self.arrays[array.0].shape.iter().flatten()).copied());
            }
            let is_in_body = matches!(statement, Statement::Layer { stack, .. } if in_body.contains(stack));
            if let Some(expr) = exprs(statement).filter(|_| !is_in_body) {
                expr.walk(&mut |expr| match expr {
                    Expr::Iota(dim) => tables.push(*dim),
                    Expr::Product(_, _, dims) | Expr::Reduce(_, dims, _) => tables.extend(dims),
                    Expr::Rename(pairs, _) => tables.extend(pairs.iter().flat_map(|(from, to)| [*from, *to])),
                    Expr::Kernel(kernel, _) => tables.extend(kernel.parameters.iter().flatten().chain(&kernel.counted)),
                    _ => {}
                });
            }
        });
        each_statement(statements, &mut |statement| {
            if let Statement::Input { array, .. } = statement
                && !in_body.contains(array)
            {
                tables.extend(self.arrays[array.0].shape.iter().flatten());
            }
        });
        let all: Vec<Dim> = found.into_iter().chain(tables).collect();
        let mut letters = LETTERS.chars();
        let mut number = 1;
        for dim in all {
            for leaf in self.dims.leaves(dim) {
                if self.dim_names.contains_key(&leaf) {
                    continue;
                }
                let name = letters.next().map_or_else(
                    || {
                        number += 1;
                        let at = (number - 2) % LETTERS.len();
                        format!("{}{}", &LETTERS[at..=at], 2 + (number - 2) / LETTERS.len())
                    },
                    String::from,
                );
                self.dim_names.insert(leaf, name);
                self.dim_order.push(leaf);
            }
        }
    }

    fn statements(&mut self, statements: &[Statement], depth: usize, text: &mut String) {
        let indent = "    ".repeat(depth);
        let mut last_place = None;
        self.written.push(HashMap::new());
        for statement in statements {
            let mut line = indent.clone();
            match statement {
                Statement::Input { array, sharding, is_donated } => {
                    if self.in_body.contains(array) {
                        continue;
                    }
                    let shape = self.arrays[array.0].shape.clone();
                    let layout = self.declared(&shape, sharding.as_ref());
                    let Array { dtype, .. } = &self.arrays[array.0];
                    let _ = write!(line, "{}: {dtype}{layout}", self.names[array]);
                    line.push_str(if *is_donated { " donated" } else { "" });
                }
                Statement::Layer { array, stack, .. } if self.in_body.contains(stack) => {
                    let shape = self.arrays[array.0].shape.clone();
                    let sharding = match self.stacks.get(stack) {
                        Some(Statement::Input { sharding, .. }) => sharding.clone(),
                        _ => None,
                    };
                    let sharding = sharding.map(|sharding| sharding.into_iter().skip(1).collect::<Sharding>());
                    let layout = self.declared(shape.get(1..).unwrap_or_default(), sharding.as_ref());
                    let _ = write!(line, "{}: {}{layout}", self.names[array], self.arrays[array.0].dtype);
                }
                Statement::Layer { array, expr, .. } => line.push_str(&self.assignment(*array, expr, None)),
                Statement::Count { counter, expr } => {
                    let value = self.expr(expr, Level::Comparison);
                    let _ = write!(line, "{} = {value}", self.names[counter]);
                }
                Statement::Assign { array, expr, sharding, place } => {
                    let assignment = self.assignment(*array, expr, sharding.as_ref());
                    let right = assignment.strip_prefix(self.names[array].as_str()).unwrap_or_default().to_owned();
                    if self.is_written(*array, expr, &right) {
                        continue;
                    }
                    line.push_str(&assignment);
                    if let Some((file, number)) = place
                        && last_place != Some((file, number))
                    {
                        let comment = format!("# {file}:{number}");
                        if line.len() > WIDTH {
                            let _ = writeln!(text, "{indent}{comment}");
                        } else {
                            let _ = write!(line, "  {comment}");
                        }
                        last_place = Some((file, number));
                    }
                }
                Statement::Repeat { count, body } => {
                    let _ = writeln!(text, "{indent}repeat {count} {{");
                    self.statements(body, depth + 1, text);
                    line.push('}');
                }
            }
            text.push_str(&line);
            text.push('\n');
        }
        self.written.pop();
    }

    /// `y[B, D]_? = x * W`, `y[B_data, D] = x`, `y = relu(x)`
    fn assignment(&mut self, array: ArrayId, expr: &Rc<Expr>, sharding: Option<&Sharding>) -> String {
        let Array { dtype, shape, .. } = &self.arrays[array.0];
        let (dtype, shape) = (*dtype, shape.clone());
        let name = self.names[&array].clone();
        let typed =
            if self.dtype(expr).is_some_and(|found| found != dtype) { format!(": {dtype}") } else { String::new() };
        let value = match &**expr {
            // The dims of the result say what is summed.
            Expr::Product(a, b, _) => format!("{} * {}", self.expr(a, Level::Term), self.expr(b, Level::Sign)),
            _ => self.expr(expr, Level::Comparison),
        };
        let layout = match sharding {
            Some(sharding) if self.has_mesh => self.layout(&shape, sharding),
            _ => self.open(&shape),
        };
        let is_named = sharding.is_some()
            || self.outputs.contains(&array)
            || !typed.is_empty()
            || self.ordered.contains(&array)
            || matches!(**expr, Expr::Product(..));
        if is_named { format!("{name}{typed}{layout} = {value}") } else { format!("{name} = {value}") }
    }

    /// `[B, S]_?`: dims, and nothing about how they are cut.
    fn open(&mut self, shape: &[Vec<Dim>]) -> String {
        let names: Vec<String> = shape.iter().flatten().flat_map(|dim| self.leaf_names(*dim)).collect();
        if names.is_empty() { "[]".to_owned() } else { format!("[{}]_?", names.join(", ")) }
    }

    fn leaf_names(&mut self, dim: Dim) -> Vec<String> {
        self.dims.leaves(dim).into_iter().map(|leaf| self.dim_names[&leaf].clone()).collect()
    }

    /// Brackets of an input: a dim of the tensor is one dim, of parts where it has several.
    fn declared(&mut self, shape: &[Vec<Dim>], sharding: Option<&Sharding>) -> String {
        let Some(sharding) = sharding.filter(|_| self.has_mesh) else {
            let shape: Vec<Vec<Dim>> = shape.to_vec();
            let names: Vec<String> =
                shape.iter().map(|dims| self.one_name(dims)).filter(|name| !name.is_empty()).collect();
            let open = if self.is_open || !self.has_mesh { "_?" } else { "" };
            return if names.is_empty() { "[]".to_owned() } else { format!("[{}]{open}", names.join(", ")) };
        };
        let mut parts = Vec::new();
        for (at, dims) in shape.iter().enumerate() {
            let axes = sharding.get(at).cloned().unwrap_or_default();
            let leaves: Vec<Dim> = dims.iter().flat_map(|dim| self.dims.leaves(*dim)).collect();
            // One dim where its parts can be cut so.
            let fits = self.cut(&leaves, &axes).is_some();
            let name = self.one_name(dims);
            if !name.is_empty() {
                parts.push(if fits { format!("{name}{}", subscript(&axes)) } else { format!("{name}_?") });
            }
        }
        format!("[{}]", parts.join(", "))
    }

    /// The name of a dim of a tensor, which may be made of several.
    fn one_name(&mut self, dims: &[Dim]) -> String {
        let leaves: Vec<Dim> = dims.iter().flat_map(|dim| self.dims.leaves(*dim)).collect();
        if let [leaf] = leaves[..] {
            return self.dim_names[&leaf].clone();
        }
        if leaves.is_empty() {
            return String::new();
        }
        if let Some((name, _)) = self.merged.iter().find(|(_, parts)| *parts == leaves) {
            return name.clone();
        }
        let joined: String = leaves.iter().map(|leaf| self.dim_names[leaf].as_str()).collect();
        let free = |name: &String| {
            !self.dim_names.values().any(|taken| taken == name) && !self.merged.iter().any(|(taken, _)| taken == name)
        };
        let name = std::iter::once(joined.clone())
            .chain((2..).map(|number| format!("{joined}{number}")))
            .find(free)
            .unwrap_or(joined);
        self.merged.push((name.clone(), leaves));
        name
    }

    /// Brackets with the axes on each dim; a hole where they would cut across parts.
    fn layout(&mut self, shape: &[Vec<Dim>], sharding: &Sharding) -> String {
        let mut parts = Vec::new();
        for (at, dims) in shape.iter().enumerate() {
            let leaves: Vec<Dim> = dims.iter().flat_map(|dim| self.dims.leaves(*dim)).collect();
            let axes = sharding.get(at).cloned().unwrap_or_default();
            let cuts = self.cut(&leaves, &axes);
            for (place, leaf) in leaves.iter().enumerate() {
                let name = &self.dim_names[leaf];
                parts.push(match &cuts {
                    Some(cuts) => format!("{name}{}", subscript(&cuts[place])),
                    None => format!("{name}_?"),
                });
            }
        }
        format!("[{}]", parts.join(", "))
    }

    /// Which axes cut each part of a dim, the major ones first; `None` where an axis would cut across two.
    fn cut(&mut self, leaves: &[Dim], axes: &[String]) -> Option<Vec<Vec<String>>> {
        let mut cuts = vec![Vec::new(); leaves.len()];
        if axes == ["?"] {
            return Some(vec![vec!["?".to_owned()]; leaves.len()]);
        }
        let mut at = 0;
        let mut left = leaves.first().map(|leaf| self.dims.size(*leaf));
        for axis in axes {
            let size = *self.axes.get(axis)?;
            if size == 1 {
                continue;
            }
            while left == Some(1) {
                at += 1;
                left = leaves.get(at).map(|leaf| self.dims.size(*leaf));
            }
            let now = left?;
            let is_unpadded = leaves.get(at).is_some_and(|leaf| self.unpadded.contains(leaf));
            if now % size != 0 && (leaves.len() > 1 || now < size || is_unpadded) {
                return None;
            }
            left = Some(now.div_ceil(size));
            cuts.get_mut(at)?.push(axis.clone());
        }
        Some(cuts)
    }

    fn dtype(&self, expr: &Expr) -> Option<DType> {
        match expr {
            Expr::Array(array) => Some(self.arrays[array.0].dtype),
            Expr::Number(_) => None,
            Expr::Iota(_) => Some(DType::I32),
            Expr::Call(word, operands) => match *word {
                "and" | "or" | "not" => Some(DType::Bool),
                "where" => operands.iter().skip(1).find_map(|operand| self.dtype(operand)),
                word => word.parse().ok().or_else(|| operands.iter().find_map(|operand| self.dtype(operand))),
            },
            Expr::Infix("<" | "<=" | ">" | ">=" | "==" | "!=", ..) => Some(DType::Bool),
            Expr::Infix(_, a, b) => self.dtype(a).or_else(|| self.dtype(b)),
            Expr::Reduce("sum", _, a) => self.dtype(a).map(DType::widened),
            Expr::Power(a, _) | Expr::Negative(a) | Expr::Rename(_, a) | Expr::Reduce(_, _, a) => self.dtype(a),
            Expr::Product(a, b, _) => self.dtype(a)?.product(self.dtype(b)?),
            Expr::Kernel(kernel, _) => Some(kernel.dtype),
        }
    }

    fn expr(&mut self, expr: &Expr, outside: Level) -> String {
        let (level, text) = match expr {
            Expr::Array(array) => (Level::Atom, self.names[array].clone()),
            Expr::Number(value) => (if *value < 0.0 { Level::Sign } else { Level::Atom }, number(*value)),
            Expr::Iota(dim) => {
                let mut stride: u64 = 1;
                let mut terms = Vec::new();
                for leaf in self.dims.leaves(*dim).into_iter().rev() {
                    let name = self.dim_names[&leaf].clone();
                    terms.push(if stride == 1 { format!("iota_{name}") } else { format!("{stride} * iota_{name}") });
                    stride = stride.saturating_mul(self.dims.size(leaf));
                }
                terms.reverse();
                (if terms.len() == 1 { Level::Atom } else { Level::Sum }, terms.join(" + "))
            }
            Expr::Call(word, operands) => {
                let operands = operands.iter().map(|operand| self.expr(operand, Level::Comparison)).join(", ");
                (Level::Atom, format!("{word}({operands})"))
            }
            Expr::Kernel(kernel, operands) => {
                let name = self.kernels.name(kernel, &mut self.dims);
                let operands = operands.iter().map(|operand| self.expr(operand, Level::Comparison)).join(", ");
                (Level::Atom, format!("{name}({operands})"))
            }
            Expr::Infix(sign @ ("+" | "-"), a, b) => {
                let (sign, b) = match (*sign, &**b) {
                    ("+", Expr::Number(value)) if *value < 0.0 => ("-", number(-*value)),
                    (sign, b) => (sign, self.expr(b, Level::Term)),
                };
                (Level::Sum, format!("{} {sign} {b}", self.expr(a, Level::Sum)))
            }
            Expr::Infix(sign @ (".*" | "/"), a, b) => {
                let has_number = [a, b].iter().any(|side| matches!(***side, Expr::Number(_)));
                let sign = if *sign == ".*" && has_number { "*" } else { sign };
                (Level::Term, format!("{} {sign} {}", self.expr(a, Level::Term), self.expr(b, Level::Sign)))
            }
            Expr::Infix(sign, a, b) => {
                (Level::Comparison, format!("{} {sign} {}", self.expr(a, Level::Sum), self.expr(b, Level::Sum)))
            }
            Expr::Power(a, exponent) => {
                (Level::Sign, format!("{} ** {}", self.expr(a, Level::Atom), number(*exponent)))
            }
            Expr::Negative(a) => (Level::Sign, format!("-{}", self.expr(a, Level::Sign))),
            Expr::Product(a, b, dims) => {
                let over = self.dims_list(dims);
                (Level::Term, format!("{} *_{over} {}", self.expr(a, Level::Term), self.expr(b, Level::Sign)))
            }
            Expr::Reduce(word, dims, a) => {
                let over = self.dims_list(dims);
                (Level::Atom, format!("{word}_{over}({})", self.expr(a, Level::Comparison)))
            }
            Expr::Rename(pairs, a) => {
                let mut names = Vec::new();
                for (from, to) in pairs {
                    let (from, to) = (self.leaf_names(*from), self.leaf_names(*to));
                    names.extend(
                        from.into_iter()
                            .zip(to)
                            .filter(|(from, to)| from != to)
                            .map(|(from, to)| format!("{from}->{to}")),
                    );
                }
                let inside = self.expr(a, Level::Comparison);
                (
                    Level::Atom,
                    if names.is_empty() {
                        format!("({inside})")
                    } else {
                        format!("rename_{{{}}}({inside})", names.join(", "))
                    },
                )
            }
        };
        if level < outside { format!("({text})") } else { text }
    }

    /// `S`, `{N,H}`
    fn dims_list(&mut self, dims: &[Dim]) -> String {
        let names: Vec<String> = dims.iter().flat_map(|dim| self.leaf_names(*dim)).collect();
        if let [name] = &names[..] { name.clone() } else { format!("{{{}}}", names.join(",")) }
    }
}

/// `_data`, `_{data,model}`, nothing.
fn subscript(axes: &[String]) -> String {
    match axes {
        [] => String::new(),
        [axis] if axis == "?" => "_?".to_owned(),
        [axis] => format!("_{}", identifier(axis)),
        axes => format!("_{{{}}}", axes.iter().map(|axis| identifier(axis)).join(",")),
    }
}

/// A number as the language reads it: no infinity, and as few digits as say it.
#[expect(clippy::cast_possible_truncation, reason = "compared with what it was")]
fn number(value: f64) -> String {
    let value = value.clamp(-3e38, 3e38);
    if value.fract() == 0.0 && value.abs() < 1e7 {
        return format!("{value:.0}");
    }
    let is_single = (f64::from(value as f32) - value).abs() == 0.0;
    let is_plain = (1e-3..1e7).contains(&value.abs());
    match (is_single, is_plain) {
        (true, true) => format!("{}", value as f32),
        (true, false) => format!("{:e}", value as f32),
        (false, true) => format!("{value}"),
        (false, false) => format!("{value:e}"),
    }
}

fn each_statement<'s>(statements: &'s [Statement], visit: &mut impl FnMut(&'s Statement)) {
    for statement in statements {
        visit(statement);
        if let Statement::Repeat { body, .. } = statement {
            each_statement(body, visit);
        }
    }
}

fn each_expr<'s>(statements: &'s [Statement], visit: &mut impl FnMut(&'s Expr)) {
    each_statement(statements, &mut |statement| {
        if let Some(expr) = exprs(statement) {
            visit(expr);
        }
    });
}
