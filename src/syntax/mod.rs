//! Source text to [`Ast`]: what was written, nothing interpreted, every node with its span.
//!
//! pest reports one error and stops, so the text is cut into statements first (`split.rs`); each piece is parsed by
//! itself, and all that is wrong comes at once.

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
mod latex;
mod lenient;
mod parse;
mod print;
mod set;
mod size;
mod split;
#[cfg(test)]
mod tests;

pub use error::SyntaxError;
pub use expect::{Amount, Expectation, Measure, NamedMove, Unit};
pub(crate) use foreign::call_here;
pub use format::format;
pub use lenient::parse_lenient;
pub use set::SetError;
pub use size::{SizeExpr, SizeFlaw, SizeKind, SizeSign};

pub use parse::{LARGEST_SOURCE, LONGEST_STATEMENT, MOST_ERRORS, MOST_STATEMENTS, parse};

use crate::dtype::DType;
use crate::function::{Relation, Scalar};
use crate::link::LinkState;
use crate::mesh::Wiring;
use crate::span::{Span, Spanned};
use std::collections::{BTreeMap, BTreeSet};

/// A name as it was written.
pub type Name = Spanned<String>;

/// A program as it was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ast {
    /// The statements that could be read, in order.
    pub statements: Vec<Statement>,
    /// The words of those that could not: what they would have declared is no second mistake.
    pub lost: BTreeSet<String>,
    /// The words that stand where those name their results, and where the first of these begins: an array of that
    /// name may be another one from there on.
    pub rebound: BTreeMap<String, u32>,
    /// Whether one of those lacks the name that it declares.
    pub nameless: bool,
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// What it says.
    pub kind: StatementKind,
    /// All of it, without the comment behind it.
    pub span: Span,
}

/// What a statement says.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all statements are of the largest kind")]
pub enum StatementKind {
    /// `mesh {X: 4, Y: 2 ring} on tpu_v5e`
    Mesh {
        /// The axes in order.
        axes: Vec<AxisDecl>,
        /// The hardware named after `on`.
        hardware: Option<Name>,
    },
    /// `axis R = {Q: 4, P: 4}`
    View {
        /// The axis.
        axis: Name,
        /// Its parts, major first.
        parts: Vec<PartDecl>,
    },
    /// `dims {I: 8192, J: 4096}`
    Dims(Vec<DimDecl>),
    /// `A: bf16[I_X, J]`, `A: bf16[I_X, J] donated`, an input.
    Input {
        /// The array's name.
        name: Name,
        /// Its element type.
        dtype: Spanned<DType>,
        /// Its dims and sharding.
        brackets: Brackets,
        /// Whether its memory may be given up after its last use.
        donated: bool,
    },
    /// `C[I_X, K] = A * B`, or `A * B -> C[I_X, K]`.
    Assign {
        /// What is assigned. `None` for an arrow without a name on its right side (`AllGather_X A[I_X] -> [I]`).
        target: Target,
        /// What it is assigned.
        value: Expr,
        /// `by gather(A)`: how its product is to be done.
        by: Option<PinRef>,
        /// `using meet_in_middle_ring`: the method of its collectives.
        using: Option<Name>,
    },
    /// `output C, D`
    Output(Vec<Name>),
    /// `repeat 4 { .. }`
    Repeat {
        /// How often.
        count: SizeExpr,
        /// The statements inside.
        body: Vec<Statement>,
    },
    /// `def layer(x[B, D], W) { .. }`
    Def {
        /// The function.
        name: Name,
        /// What it is applied to.
        parameters: Vec<Target>,
        /// The statements inside.
        body: Vec<Statement>,
    },
    /// `return y`
    Return(Expr),
    /// `expect time < 500us`
    Expect(Expectation),
    /// `link (0,0)->(1,0) down`
    Link(LinkDecl),
    /// `limit memory 300MB`
    Limit {
        /// Of what.
        measure: Measure,
        /// How much.
        amount: Amount,
    },
}

/// `by gather(A)`
#[derive(Clone, Debug, PartialEq)]
pub struct PinRef {
    /// `gather`, as it was written.
    pub strategy: Name,
    /// The operands it is for.
    pub operands: Vec<Name>,
}

/// `X: 4 ring`
#[derive(Clone, Debug, PartialEq)]
pub struct AxisDecl {
    /// The axis.
    pub name: Name,
    /// Its size, or that of its first physical axis.
    pub size: SizeExpr,
    /// The sizes of its other physical axes: `X: 4x4` lies over two, the first of them major.
    pub more: Vec<SizeExpr>,
    /// The wiring, if it is written.
    pub wiring: Option<Spanned<Wiring>>,
    /// The network it lies over, if it is written: `over dcn`.
    pub over: Option<Name>,
}

/// `link (0,0)->(1,0) down`, `link (0,0)<->(1,0) at 50%`
#[derive(Clone, Debug, PartialEq)]
pub struct LinkDecl {
    /// The device that sends, by its coordinates.
    pub from: Spanned<Vec<u64>>,
    /// The device that receives.
    pub to: Spanned<Vec<u64>>,
    /// `<->`: the link back as well.
    pub both_ways: bool,
    /// What is wrong with it.
    pub state: LinkState,
}

/// `Q: 4`
#[derive(Clone, Debug, PartialEq)]
pub struct PartDecl {
    /// The part of an axis.
    pub name: Name,
    /// Its size.
    pub size: SizeExpr,
}

/// `I: 8192`, `N = K*M`
#[derive(Clone, Debug, PartialEq)]
pub struct DimDecl {
    /// The dim.
    pub name: Name,
    /// Its size.
    pub size: DimSize,
}

/// How long a dim is.
#[derive(Clone, Debug, PartialEq)]
pub enum DimSize {
    /// `: 8192`
    Is(SizeExpr),
    /// `= K*M`: it is these dims in one, major first.
    Parts(Vec<Name>),
}

/// The result of a statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The array; without a name it is an unnamed result, which is an output.
    pub name: Option<Name>,
    /// `C: f32[I, K] = ..`: the dtype asked for.
    pub dtype: Option<Spanned<DType>>,
    /// The layout asked for; without it the layout is free.
    pub brackets: Option<Brackets>,
    /// All of it.
    pub span: Span,
}

/// `[I_X, J]{U_Y}`, `[I, J]_?`
#[derive(Clone, Debug, PartialEq)]
pub struct Brackets {
    /// The dims in order.
    pub dims: Vec<DimRef>,
    /// `...` behind the dims: there are others, of which nothing is said.
    pub rest: Option<Span>,
    /// `_?` behind the brackets: a dim without a subscript has a hole.
    pub free: Option<Span>,
    /// The open sum, if it is written.
    pub open: Option<OpenRef>,
    /// From `[` to the last bracket or brace.
    pub span: Span,
}

impl Brackets {
    /// The place of the hole of a dim, its own or that of the brackets.
    pub fn hole(&self, dim: &DimRef) -> Option<Span> {
        match dim.subscript {
            Some(Subscript::Hole(at)) => Some(at),
            Some(Subscript::Axes(_)) => None,
            None => self.free,
        }
    }
}

/// `I_X`, `128`, `I_{data,model}`, `I_?`
#[derive(Clone, Debug, PartialEq)]
pub struct DimRef {
    /// The dim.
    pub dim: DimName,
    /// What shards it, if anything is written.
    pub subscript: Option<Subscript>,
    /// Dim and subscript.
    pub span: Span,
}

/// A dim in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DimName {
    /// By its name, primes included.
    Named(String),
    /// By its size.
    Literal(SizeExpr),
}

/// What stands after `_`.
#[derive(Clone, Debug, PartialEq)]
pub enum Subscript {
    /// Words as they were written, cut only at commas: `X`, `XY`, `data`; whether `XY` is one axis or two is the
    /// checker's question.
    Axes(Vec<Name>),
    /// `?`: left to the compiler.
    Hole(Span),
}

/// `{U_X}`, `{MAX_{X,Y}}`
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRef {
    /// `U`, `MAX`, .. as it was written.
    pub operator: Name,
    /// Words as they were written, cut only at commas.
    pub axes: Vec<Name>,
    /// With its braces.
    pub span: Span,
}

/// A use of an array, with or without brackets.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayRef {
    /// Its name; an unnamed array has only brackets.
    pub name: Option<Name>,
    /// A dtype before the brackets of an undeclared array: `int8[128, 2048]`.
    pub dtype: Option<Spanned<DType>>,
    /// What the reader says its layout is.
    pub brackets: Option<Brackets>,
    /// All of it.
    pub span: Span,
}

/// How a product names its contraction.
#[derive(Clone, Debug, PartialEq)]
pub enum Contraction {
    /// `*`: what the result's dims imply.
    Implied,
    /// `*_LOCAL`: local shards are multiplied, the sum stays open.
    Local(Span),
    /// `*_J`, `*_{N,H}`: exactly these dims.
    Named(Vec<Name>),
}

/// The kinds of hand-written collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveName {
    /// `AllGather`
    AllGather,
    /// `ReduceScatter`
    ReduceScatter,
    /// `AllReduce`
    AllReduce,
    /// `AllToAll`
    AllToAll,
    /// `Broadcast`
    Broadcast,
}

impl CollectiveName {
    /// All of them.
    pub const ALL: [CollectiveName; 5] = [
        CollectiveName::AllGather,
        CollectiveName::ReduceScatter,
        CollectiveName::AllReduce,
        CollectiveName::AllToAll,
        CollectiveName::Broadcast,
    ];

    /// The word itself.
    pub(crate) fn word(self) -> &'static str {
        match self {
            CollectiveName::AllGather => "AllGather",
            CollectiveName::ReduceScatter => "ReduceScatter",
            CollectiveName::AllReduce => "AllReduce",
            CollectiveName::AllToAll => "AllToAll",
            CollectiveName::Broadcast => "Broadcast",
        }
    }

    /// The kind that a word begins with, and the rest of it: `AllGatherX`.
    fn begins(word: &str) -> Option<(CollectiveName, &str)> {
        CollectiveName::ALL.into_iter().find_map(|kind| Some((kind, word.strip_prefix(kind.word())?)))
    }
}

/// `+`, `-`, `.*`, `/`, `**` or `<`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `.*`: element by element
    Mul,
    /// `/`
    Div,
    /// `**`, by a number
    Power,
    /// `<`, `==`
    Is(Relation),
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// All of it.
    pub span: Span,
}

/// The forms of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `A`, `A[I_X, J]`
    Array(ArrayRef),
    /// `0.5`
    Number(Scalar),
    /// `A * B * C`: one einsum. A chain with named contractions nests to the left instead.
    Product {
        /// Two or more.
        factors: Vec<Expr>,
        /// How the contraction is named.
        contraction: Contraction,
    },
    /// `A + B`, `A - B`, `A .* B`, `A / B`, `A ** 2`, `A < B`
    Binary {
        /// Which.
        op: BinaryOp,
        /// On the left.
        left: Box<Expr>,
        /// On the right.
        right: Box<Expr>,
    },
    /// `-A`
    Neg(Box<Expr>),
    /// `relu(A)`, `softmax_T(S)`, `rename_{S->T}(k)`, `max(A, B)`: a function by its name.
    Call {
        /// As written, without subscript.
        function: Name,
        /// The items after `_`, cut at commas and arrows: `T`; `S`, `T`.
        subscript: Vec<Name>,
        /// What stands in the parentheses, one or more.
        arguments: Vec<Expr>,
    },
    /// `AllGather_X(A[I_X, J])`, `ReduceScatter_{X,K}(C[I,K]{U_X})`
    Collective {
        /// Which; its span has the subscript too.
        kind: Spanned<CollectiveName>,
        /// The items after `_`, cut at commas and arrows.
        subscript: Vec<Name>,
        /// What it is applied to.
        argument: Box<Expr>,
    },
}
