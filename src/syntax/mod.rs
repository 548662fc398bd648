//! The parser: source text to [`Ast`], without interpretation, every node with its span.
//!
//! pest reports one error and stops, so the text is first split into statements (`split.rs`). Each is parsed separately,
//! and all errors are reported together.

mod alternatives;
mod assumed;
mod build;
mod build_expr;
mod build_mesh;
mod error;
mod expect;
mod expected;
mod foreign;
mod format;
mod format_lines;
#[cfg(test)]
mod format_tests;
mod format_tokens;
mod grammar;
mod known;
mod latex;
mod lenient;
mod parse;
mod print;
mod set;
mod size;
mod slips;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use assumed::axes_of;
pub use error::SyntaxError;
pub use expect::{Amount, Expectation, Measure, NamedMove, Unit};
pub(crate) use expected::INDEXED;
pub(crate) use foreign::is_foreign;
pub use format::format;
pub use lenient::parse_lenient;
pub use set::{AxisShape, Extent, SetError};
pub use size::{SizeExpr, SizeFlaw, SizeKind, SizeSign};

pub(crate) use parse::foreign_call;
pub use parse::{LARGEST_SOURCE, LONGEST_STATEMENT, MOST_ERRORS, MOST_STATEMENTS, parse};

use crate::dtype::DType;
use crate::function::{Relation, Scalar};
use crate::link::LinkState;
use crate::mesh::Wiring;
use crate::span::{Span, Spanned};
use std::collections::{BTreeMap, BTreeSet};

/// A name and its span.
pub type Name = Spanned<String>;

/// A parsed program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ast {
    /// The statements without syntax errors, in order.
    pub statements: Vec<Statement>,
    /// The words of statements with syntax errors; they suppress follow-up errors about undeclared names.
    pub lost: BTreeSet<String>,
    /// The words in the result position of failed statements, and the start of the first: an array of that name may be
    /// another one from there on.
    pub rebound: BTreeMap<String, u32>,
    /// Whether a failed statement lacks the name that it declares.
    pub nameless: bool,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Its form.
    pub kind: StatementKind,
    /// Its span, without a trailing comment.
    pub span: Span,
}

/// The forms of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// `mesh {X: 4, Y: 2 ring} on tpu_v5e`.
    Mesh {
        /// The axes in order.
        axes: Vec<AxisDecl>,
        /// The hardware named after `on`.
        hardware: Option<Name>,
    },
    /// `axis R = {Q: 4, P: 4}`.
    View {
        /// The axis.
        axis: Name,
        /// Its parts, major first.
        parts: Vec<PartDecl>,
    },
    /// `dims {I: 8192, J: 4096}`.
    Dims(Vec<DimDecl>),
    /// An input: `A: bf16[I_X, J]`, `A: bf16[I_X, J] donated`.
    Input {
        /// The array's name.
        name: Name,
        /// The dtype.
        dtype: Spanned<DType>,
        /// The dims and sharding.
        brackets: Brackets,
        /// Whether its memory may be reused after its last use.
        donated: bool,
    },
    /// An assignment: `C[I_X, K] = A * B`, or `A * B -> C[I_X, K]`.
    Assign {
        /// The target. `None` for an arrow without a name on its right side (`AllGather_X A[I_X] -> [I]`).
        target: Target,
        /// The value.
        value: Expr,
        /// `by gather(A)`: the strategy of its product.
        by: Option<PinRef>,
        /// `using meet_in_middle_ring, pipeline(8)`: how its collectives are done.
        using: Option<UsingRef>,
    },
    /// `output C, D`.
    Output(Vec<Name>),
    /// `repeat 4 { .. }`.
    Repeat {
        /// The number of iterations.
        count: SizeExpr,
        /// The body.
        body: Vec<Statement>,
    },
    /// `def layer(x[B, D], W) { .. }`.
    Def {
        /// The function's name.
        name: Name,
        /// The parameters.
        parameters: Vec<Target>,
        /// The body.
        body: Vec<Statement>,
    },
    /// `kernel sort(x[B, D]) -> [B, D], shard B, flops 20*B*D`.
    Kernel(KernelDecl),
    /// `return y`.
    Return(Expr),
    /// `expect time < 500us`.
    Expect(Expectation),
    /// `link (0,0)->(1,0) down`.
    Link(LinkDecl),
    /// `limit memory 300MB`.
    Limit {
        /// The measure.
        measure: Measure,
        /// The amount.
        amount: Amount,
    },
}

impl StatementKind {
    /// The word it begins with; empty for inputs and assignments.
    pub(crate) fn keyword(&self) -> &'static str {
        match self {
            StatementKind::Input { .. } | StatementKind::Assign { .. } => "",
            StatementKind::Mesh { .. } => "mesh",
            StatementKind::View { .. } => "axis",
            StatementKind::Dims(_) => "dims",
            StatementKind::Repeat { .. } => "repeat",
            StatementKind::Def { .. } => "def",
            StatementKind::Kernel(_) => "kernel",
            StatementKind::Return(_) => "return",
            StatementKind::Output(_) => "output",
            StatementKind::Expect(_) => "expect",
            StatementKind::Limit { .. } => "limit",
            StatementKind::Link(_) => "link",
        }
    }

    /// Its expressions, without those of the statements in its body.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let expression = match self {
            StatementKind::Assign { value, .. } | StatementKind::Return(value) => Some(value),
            StatementKind::Kernel(kernel) => kernel.reference.as_ref(),
            StatementKind::Input { .. }
            | StatementKind::Repeat { .. }
            | StatementKind::Def { .. }
            | StatementKind::Mesh { .. }
            | StatementKind::View { .. }
            | StatementKind::Dims(_)
            | StatementKind::Output(_)
            | StatementKind::Expect(_)
            | StatementKind::Link(_)
            | StatementKind::Limit { .. } => None,
        };
        expression.into_iter()
    }

    /// The statements in its body.
    pub(crate) fn body(&self) -> &[Statement] {
        match self {
            StatementKind::Repeat { body, .. } | StatementKind::Def { body, .. } => body,
            _ => &[],
        }
    }
}

/// A declared kernel, `kernel sort(x[B, D]) -> [B, D], shard B, flops 20*B*D`.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelDecl {
    /// The kernel's name.
    pub name: Name,
    /// The parameters.
    pub parameters: Vec<Target>,
    /// Dims and dtype of the result.
    pub result: Target,
    /// The dims that may be sharded.
    pub sharded: Vec<Name>,
    /// Operations on whole arrays.
    pub flops: Option<SizeExpr>,
    /// Bytes read and written on whole arrays.
    pub bytes: Option<SizeExpr>,
    /// What it computes.
    pub reference: Option<Expr>,
}

/// A strategy, `by gather(A)`.
#[derive(Clone, Debug, PartialEq)]
pub struct PinRef {
    /// The keyword `gather`, as written.
    pub strategy: Name,
    /// The operands.
    pub operands: Vec<Name>,
}

/// How the collectives of a statement are done: `using meet_in_middle_ring, pipeline(8)`. At least one is written.
#[derive(Clone, Debug, PartialEq)]
pub struct UsingRef {
    /// The method.
    pub method: Option<Name>,
    /// The number of pieces.
    pub pieces: Option<Spanned<u64>>,
}

impl UsingRef {
    /// The place of its first part.
    pub fn span(&self) -> Span {
        let method = self.method.as_ref().map(|method| method.span);
        method.or(self.pieces.as_ref().map(|pieces| pieces.span)).unwrap_or_default()
    }
}

/// A mesh axis, `X: 4 ring`.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisDecl {
    /// The axis.
    pub name: Name,
    /// Its size, or that of its first physical axis.
    pub size: SizeExpr,
    /// The sizes of its other physical axes: `X: 4x4` covers two, the first of them major.
    pub more: Vec<SizeExpr>,
    /// The wiring, if written.
    pub wiring: Option<Spanned<Wiring>>,
    /// The network, if written: `over dcn`.
    pub over: Option<Name>,
}

/// A degraded link: `link (0,0)->(1,0) down`, `link (0,0)<->(1,0) at 50%`.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkDecl {
    /// The sending device, by coordinates.
    pub from: Spanned<Vec<u64>>,
    /// The receiving device.
    pub to: Spanned<Vec<u64>>,
    /// `<->`: both directions.
    pub both_ways: bool,
    /// The state of the link.
    pub state: LinkState,
}

/// A part of an axis, `Q: 4`.
#[derive(Clone, Debug, PartialEq)]
pub struct PartDecl {
    /// The name.
    pub name: Name,
    /// Its size.
    pub size: SizeExpr,
}

/// A dim declaration: `I: 8192`, `N = K*M`.
#[derive(Clone, Debug, PartialEq)]
pub struct DimDecl {
    /// The dim.
    pub name: Name,
    /// Its size.
    pub size: DimSize,
}

/// The size of a dim.
#[derive(Clone, Debug, PartialEq)]
pub enum DimSize {
    /// `: 8192`.
    Is(SizeExpr),
    /// `= K*M`: the product of these dims, major first.
    Parts(Vec<Name>),
}

/// The target of a statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The array; `None` for an unnamed result, which is an output.
    pub name: Option<Name>,
    /// The requested dtype, `C: f32[I, K] = ..`.
    pub dtype: Option<Spanned<DType>>,
    /// The requested layout; `None` leaves it free.
    pub brackets: Option<Brackets>,
    /// Source span.
    pub span: Span,
}

/// Brackets: `[I_X, J]{U_Y}`, `[I, J]_?`.
#[derive(Clone, Debug, PartialEq)]
pub struct Brackets {
    /// The dims in order.
    pub dims: Vec<DimRef>,
    /// Whether `...` follows the dims: further dims exist.
    pub rest: Option<Span>,
    /// Whether `_?` follows the brackets: every dim without a subscript has a hole.
    pub free: Option<Span>,
    /// The open sum, if written.
    pub open: Option<OpenRef>,
    /// From `[` to the last bracket or brace.
    pub span: Span,
}

impl Brackets {
    /// The span of a dim's hole, its own or that of the brackets.
    pub fn hole(&self, dim: &DimRef) -> Option<Span> {
        match dim.subscript {
            Some(Subscript::Hole(at)) => Some(at),
            Some(Subscript::Axes(_)) => None,
            None => self.free,
        }
    }
}

/// A dim in brackets: `I_X`, `128`, `I_{data,model}`, `I_?`.
#[derive(Clone, Debug, PartialEq)]
pub struct DimRef {
    /// The dim.
    pub dim: DimName,
    /// Its subscript, if written.
    pub subscript: Option<Subscript>,
    /// Dim and subscript.
    pub span: Span,
}

/// The name of a dim in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DimName {
    /// By name, primes included.
    Named(String),
    /// By size.
    Literal(SizeExpr),
}

/// A subscript, after `_`.
#[derive(Clone, Debug, PartialEq)]
pub enum Subscript {
    /// Words as written, split only at commas: `X`, `XY`, `data`. The checker decides whether `XY` is one axis or two.
    Axes(Vec<Name>),
    /// `?`: left to the compiler.
    Hole(Span),
}

/// An open sum: `{U_X}`, `{MAX_{X,Y}}`.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRef {
    /// The operator as written: `U`, `MAX`, ...
    pub operator: Name,
    /// Words as written, split only at commas.
    pub axes: Vec<Name>,
    /// The rank of the root along the axes: 5 in `{ROOT_XY=5}`.
    pub root: Option<Spanned<u64>>,
    /// The span including the braces.
    pub span: Span,
}

/// A use of an array, with or without brackets.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayRef {
    /// The name; `None` for an unnamed array, which has only brackets.
    pub name: Option<Name>,
    /// A dtype before the brackets of an undeclared array: `int8[128, 2048]`.
    pub dtype: Option<Spanned<DType>>,
    /// The asserted layout.
    pub brackets: Option<Brackets>,
    /// Source span.
    pub span: Span,
}

/// The contraction of a product.
#[derive(Clone, Debug, PartialEq)]
pub enum Contraction {
    /// `*`: implied by the result's dims.
    Implied,
    /// `*_LOCAL`: local shards are multiplied, the sum stays open.
    Local(Span),
    /// `*_J`, `*_{N,H}`: exactly these dims.
    Named(Vec<Name>),
}

/// The kinds of written collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveName {
    /// `AllGather`.
    AllGather,
    /// `ReduceScatter`.
    ReduceScatter,
    /// `AllReduce`.
    AllReduce,
    /// `AllToAll`.
    AllToAll,
    /// `Broadcast`.
    Broadcast,
}

impl CollectiveName {
    /// All kinds.
    pub const ALL: [CollectiveName; 5] = [
        CollectiveName::AllGather,
        CollectiveName::ReduceScatter,
        CollectiveName::AllReduce,
        CollectiveName::AllToAll,
        CollectiveName::Broadcast,
    ];

    /// The keyword.
    pub(crate) fn word(self) -> &'static str {
        match self {
            CollectiveName::AllGather => "AllGather",
            CollectiveName::ReduceScatter => "ReduceScatter",
            CollectiveName::AllReduce => "AllReduce",
            CollectiveName::AllToAll => "AllToAll",
            CollectiveName::Broadcast => "Broadcast",
        }
    }

    /// The kind whose keyword starts a word, and the rest of the word: `AllGatherX`.
    fn begins(word: &str) -> Option<(CollectiveName, &str)> {
        CollectiveName::ALL.into_iter().find_map(|kind| Some((kind, word.strip_prefix(kind.word())?)))
    }
}

/// Binary operators: `+`, `-`, `.*`, `/`, `**` or `<`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `+`.
    Add,
    /// `-`.
    Sub,
    /// `.*`: elementwise.
    Mul,
    /// `/`.
    Div,
    /// `**`, by a number.
    Power,
    /// `<`, `==`.
    Is(Relation),
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Its form.
    pub kind: ExprKind,
    /// Source span.
    pub span: Span,
}

/// The forms of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `A`, `A[I_X, J]`.
    Array(ArrayRef),
    /// `0.5`.
    Number(Scalar),
    /// `A * B * C`: one einsum. A chain with named contractions nests to the left instead.
    Product {
        /// Two or more.
        factors: Vec<Expr>,
        /// The contraction.
        contraction: Contraction,
    },
    /// `A + B`, `A - B`, `A .* B`, `A / B`, `A ** 2`, `A < B`.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// The left operand.
        left: Box<Expr>,
        /// The right operand.
        right: Box<Expr>,
    },
    /// `-A`.
    Neg(Box<Expr>),
    /// A function call by name: `relu(A)`, `softmax_T(S)`, `rename_{S->T}(k)`, `max(A, B)`.
    Call {
        /// The name as written, without subscript.
        function: Name,
        /// The items after `_`, split at commas and arrows: `T`; `S`, `T`.
        subscript: Vec<Name>,
        /// The arguments, one or more.
        arguments: Vec<Expr>,
    },
    /// `AllGather_X(A[I_X, J])`, `ReduceScatter_{X,K}(C[I,K]{U_X})`.
    Collective {
        /// The kind; its span includes the subscript.
        kind: Spanned<CollectiveName>,
        /// The items after `_`, split at commas and arrows.
        subscript: Vec<Name>,
        /// The operand.
        argument: Box<Expr>,
    },
}

impl Expr {
    /// The expressions that it is made of, in the order of the text.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &Expr> {
        let (single, list): ([Option<&Expr>; 2], &[Expr]) = match &self.kind {
            ExprKind::Array(_) | ExprKind::Number(_) => ([None, None], &[]),
            ExprKind::Neg(argument) | ExprKind::Collective { argument, .. } => ([Some(argument), None], &[]),
            ExprKind::Binary { left, right, .. } => ([Some(left), Some(right)], &[]),
            ExprKind::Product { factors, .. } => ([None, None], factors),
            ExprKind::Call { arguments, .. } => ([None, None], arguments),
        };
        single.into_iter().flatten().chain(list)
    }
}
