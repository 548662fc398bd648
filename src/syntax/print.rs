//! Prints an AST in canonical style; the text parses back to the same AST.

use super::{
    ArrayRef, Ast, BinaryOp, Brackets, CollectiveName, Contraction, DimName, DimRef, DimSize, Expr, ExprKind,
    KernelDecl, LinkDecl, Name, OpenRef, PinRef, SizeExpr, SizeKind, Statement, StatementKind, Subscript, Target,
    UsingRef,
};
use itertools::Itertools;
use std::fmt::{self, Display, Formatter};

impl Display for Ast {
    /// One statement per line.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.statements.iter().try_for_each(|statement| writeln!(f, "{statement}"))
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            StatementKind::Mesh { axes, hardware } => {
                let axes = axes.iter().map(|axis| {
                    let wiring = axis.wiring.iter().format_with("", |wiring, f| f(&format_args!(" {}", wiring.node)));
                    let over = axis.over.iter().format_with("", |name, f| f(&format_args!(" over {}", name.node)));
                    // `4x4` is as it is written; a name next to the sign would become one word with it.
                    let numbers = |size: &SizeExpr| matches!(size.kind, SizeKind::Number(_));
                    let sign = if numbers(&axis.size) && axis.more.iter().all(numbers) { "x" } else { " x " };
                    let more = axis.more.iter().format_with("", |size, f| f(&format_args!("{sign}{size}")));
                    format!("{}: {}{more}{wiring}{over}", axis.name.node, axis.size)
                });
                let on = hardware.iter().format_with("", |name, f| f(&format_args!(" on {}", name.node)));
                write!(f, "mesh {{{}}}{on}", axes.format(", "))
            }
            StatementKind::View { axis, parts } => {
                let parts = parts.iter().map(|part| format!("{}: {}", part.name.node, part.size));
                write!(f, "axis {} = {{{}}}", axis.node, parts.format(", "))
            }
            StatementKind::Dims(dims) => {
                let dims = dims.iter().map(|dim| match &dim.size {
                    DimSize::Is(size) => format!("{}: {size}", dim.name.node),
                    DimSize::Parts(parts) => {
                        format!("{} = {}", dim.name.node, parts.iter().map(|part| &part.node).join("*"))
                    }
                });
                write!(f, "dims {{{}}}", dims.format(", "))
            }
            StatementKind::Input { name, dtype, brackets, donated } => {
                write!(f, "{}: {}{brackets}{}", name.node, dtype.node, if *donated { " donated" } else { "" })
            }
            StatementKind::Assign { target, value, by, using } => {
                match (&target.name, &target.brackets) {
                    (Some(_), _) => write!(f, "{target} = {value}")?,
                    (None, Some(_)) => write!(f, "{value} -> {target}")?,
                    (None, None) => write!(f, "{value}")?,
                }
                by.iter().try_for_each(|pin| write!(f, " by {pin}"))?;
                using.iter().try_for_each(|using| write!(f, " using {using}"))
            }
            StatementKind::Output(names) => write!(f, "output {}", words(names)),
            StatementKind::Repeat { count, body } => {
                writeln!(f, "repeat {count} {{")?;
                block(f, body)
            }
            StatementKind::Def { name, parameters, body } => {
                writeln!(f, "def {}({}) {{", name.node, parameters.iter().format(", "))?;
                block(f, body)
            }
            StatementKind::Kernel(KernelDecl { name, parameters, result, sharded, flops, bytes, reference }) => {
                write!(f, "kernel {}({}) -> {result}", name.node, parameters.iter().format(", "))?;
                if !sharded.is_empty() {
                    write!(f, ", shard {}", words(sharded))?;
                }
                flops.iter().try_for_each(|flops| write!(f, ", flops {flops}"))?;
                bytes.iter().try_for_each(|bytes| write!(f, ", bytes {bytes}"))?;
                reference.iter().try_for_each(|formula| write!(f, ", reference {formula}"))
            }
            StatementKind::Return(value) => write!(f, "return {value}"),
            StatementKind::Expect(expectation) => write!(f, "expect {expectation}"),
            StatementKind::Link(LinkDecl { from, to, both_ways, state }) => {
                let arrow = if *both_ways { "<->" } else { "->" };
                let place = |place: &[u64]| place.iter().join(",");
                write!(f, "link ({}){arrow}({}) {state}", place(&from.node), place(&to.node))
            }
            StatementKind::Limit { measure, amount } => write!(f, "limit {} {}", measure.name(), amount.text),
        }
    }
}

/// The statements of a block and its end.
fn block(f: &mut Formatter<'_>, body: &[Statement]) -> fmt::Result {
    for line in body.iter().flat_map(|statement| {
        let lines: Vec<String> = statement.to_string().lines().map(str::to_owned).collect();
        lines
    }) {
        writeln!(f, "    {line}")?;
    }
    f.write_str("}")
}

impl Display for UsingRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let method = self.method.iter().map(|method| method.node.clone());
        let pieces = self.pieces.iter().map(|pieces| format!("pipeline({})", pieces.node));
        write!(f, "{}", method.chain(pieces).format(", "))
    }
}

impl Display for PinRef {
    /// `gather(A)`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.strategy.node)?;
        if self.operands.is_empty() { Ok(()) } else { write!(f, "({})", words(&self.operands)) }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (&self.name, &self.dtype) {
            (Some(name), Some(dtype)) => write!(f, "{}: {}", name.node, dtype.node)?,
            (Some(name), None) => f.write_str(&name.node)?,
            (None, Some(dtype)) => write!(f, "{}", dtype.node)?,
            (None, None) => {}
        }
        self.brackets.iter().try_for_each(|brackets| write!(f, "{brackets}"))
    }
}

impl Display for Brackets {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rest = if self.rest.is_some() { ", ..." } else { "" };
        let free = if self.free.is_some() { "_?" } else { "" };
        write!(f, "[{}{rest}]{free}", self.dims.iter().format(", "))?;
        self.open.iter().try_for_each(|open| write!(f, "{open}"))
    }
}

impl Display for DimRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.dim {
            DimName::Named(name) => f.write_str(name)?,
            DimName::Literal(size) => write!(f, "{size}")?,
        }
        match &self.subscript {
            None => Ok(()),
            Some(Subscript::Hole(_)) => f.write_str("_?"),
            Some(Subscript::Axes(axes)) => match (&self.dim, axes.as_slice()) {
                // Without braces, a name with `_` may end elsewhere.
                (DimName::Named(name), [only]) if name.contains('_') => write!(f, "_{{{}}}", only.node),
                _ => f.write_str(&subscript(axes, ",")),
            },
        }
    }
}

impl Display for OpenRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}{}", self.operator.node, subscript(&self.axes, ","))?;
        self.root.iter().try_for_each(|root| write!(f, "={}", root.node))?;
        f.write_str("}")
    }
}

impl Display for ArrayRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (&self.name, &self.dtype) {
            (Some(name), _) => f.write_str(&name.node)?,
            (None, Some(dtype)) => write!(f, "{}", dtype.node)?,
            (None, None) => {}
        }
        self.brackets.iter().try_for_each(|brackets| write!(f, "{brackets}"))
    }
}

impl Display for CollectiveName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Array(array) => write!(f, "{array}"),
            // `{}` writes 1e300 with all its zeros.
            ExprKind::Number(number) if (1e-5..1e16).contains(&number.0) || number.0 == 0.0 => {
                write!(f, "{}", number.0)
            }
            ExprKind::Number(number) => write!(f, "{:e}", number.0),
            ExprKind::Product { factors, contraction } => write_product(f, factors, contraction),
            ExprKind::Binary { op, left, right } => {
                let (sign, least) = match op {
                    BinaryOp::Add => ("+", Strength::Sum),
                    BinaryOp::Sub => ("-", Strength::Sum),
                    BinaryOp::Mul => (".*", Strength::Term),
                    BinaryOp::Div => ("/", Strength::Term),
                    BinaryOp::Power => ("**", Strength::Atom),
                    BinaryOp::Is(relation) => (relation.sign(), Strength::Sum),
                };
                let right_least = match op {
                    BinaryOp::Is(_) => Strength::Sum,
                    BinaryOp::Add | BinaryOp::Sub => Strength::Term,
                    BinaryOp::Mul | BinaryOp::Div | BinaryOp::Power => Strength::Factor,
                };
                write!(f, "{} {sign} {}", At(least, left), At(right_least, right))
            }
            ExprKind::Neg(value) => write!(f, "-{}", At(Strength::Factor, value)),
            ExprKind::Call { function, subscript: items, arguments } => {
                let separator = match function.node.as_str() {
                    "rename" | "slice" | "pad" | "top" | "argtop" => "->",
                    _ => ",",
                };
                // In `log_soft_S` the subscript would begin at the first `_`.
                let items = match items.as_slice() {
                    [item] if function.node.contains('_') => format!("_{{{}}}", item.node),
                    [from @ .., to] if function.node == "concat" && !from.is_empty() => {
                        format!("_{{{}->{}}}", from.iter().map(|item| &item.node).join(","), to.node)
                    }
                    items => subscript(items, separator),
                };
                write!(f, "{}{items}({})", function.node, arguments.iter().join(", "))
            }
            ExprKind::Collective { kind, subscript: items, argument } => {
                write!(f, "{}{}({argument})", kind.node, subscript(items, ","))
            }
        }
    }
}

fn write_product(f: &mut Formatter<'_>, factors: &[Expr], contraction: &Contraction) -> fmt::Result {
    let sign = match contraction {
        Contraction::Implied => "*".to_owned(),
        Contraction::Local(_) => "*_LOCAL".to_owned(),
        Contraction::Named(names) => format!("*{}", subscript(names, ",")),
    };
    for (place, factor) in factors.iter().enumerate() {
        if place > 0 {
            write!(f, " {sign} ")?;
        }
        let is_chain = |expr: &Expr| matches!(expr.kind, ExprKind::Product { contraction: Contraction::Implied, .. });
        // A chain that begins with a chain would read as one longer chain.
        let apart = place > 0 || *contraction == Contraction::Implied && is_chain(factor);
        write!(f, "{}", At(if apart { Strength::Factor } else { Strength::Term }, factor))?;
    }
    Ok(())
}

/// The precedence of an expression.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Relation,
    Sum,
    Term,
    Factor,
    Atom,
}

/// An expression in a context of this precedence, parenthesised if weaker.
struct At<'a>(Strength, &'a Expr);

impl Display for At<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let strength = match &self.1.kind {
            ExprKind::Binary { op: BinaryOp::Is(_), .. } => Strength::Relation,
            ExprKind::Binary { op: BinaryOp::Add | BinaryOp::Sub, .. } => Strength::Sum,
            ExprKind::Binary { op: BinaryOp::Mul | BinaryOp::Div, .. } | ExprKind::Product { .. } => Strength::Term,
            ExprKind::Binary { op: BinaryOp::Power, .. } | ExprKind::Neg(_) => Strength::Factor,
            ExprKind::Array(_) | ExprKind::Number(_) | ExprKind::Call { .. } | ExprKind::Collective { .. } => {
                Strength::Atom
            }
        };
        if strength < self.0 { write!(f, "({})", self.1) } else { write!(f, "{}", self.1) }
    }
}

/// `_X`, `_{X,J}`, `_{S->T}`
fn subscript(names: &[Name], separator: &str) -> String {
    match names {
        [] => String::new(),
        [only] => format!("_{}", only.node),
        names => format!("_{{{}}}", names.iter().map(|name| &name.node).join(separator)),
    }
}

fn words(names: &[Name]) -> String {
    names.iter().map(|name| &name.node).join(", ")
}
