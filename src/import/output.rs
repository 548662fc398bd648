//! The program that an import makes, before its dims and arrays have names.

use super::dims::Dim;
use crate::dtype::DType;
use std::rc::Rc;

/// Widest line before a comment begins on one of its own.
pub(super) const WIDTH: usize = 100;

/// An array of the program, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ArrayId(pub usize);

/// An expression of the language.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    Array(ArrayId),
    Number(f64),
    /// `iota_S`
    Iota(Dim),
    /// `relu(a)`, `where(m, a, b)`, `f32(a)`
    Call(&'static str, Vec<Rc<Expr>>),
    /// `a + b`, `a .* b`, `a < b`
    Infix(&'static str, Rc<Expr>, Rc<Expr>),
    /// `a ** 2`
    Power(Rc<Expr>, f64),
    /// `-a`
    Negative(Rc<Expr>),
    /// `a *_{J} b`
    Product(Rc<Expr>, Rc<Expr>, Vec<Dim>),
    /// `sum_{I,J}(a)`
    Reduce(&'static str, Vec<Dim>, Rc<Expr>),
    /// `rename_{S->T}(a)`
    Rename(Vec<(Dim, Dim)>, Rc<Expr>),
    /// `sort(a)`, where `sort` is declared
    Kernel(Rc<Kernel>, Vec<Rc<Expr>>),
}

/// A declared kernel as one call of it has it.
#[derive(Debug)]
pub(super) struct Kernel {
    /// What it would be called if no other kernel were.
    pub(super) word: String,
    /// Equal for operations that compute the same.
    pub(super) identity: String,
    /// What a reader has to know, for a comment.
    pub(super) notes: Vec<String>,
    /// The dims of its operands and of its result.
    pub(super) parameters: Vec<Vec<Dim>>,
    pub(super) result: Vec<Dim>,
    pub(super) dtype: DType,
    /// The dims that may be sharded.
    pub(super) sharded: Vec<Dim>,
    /// Operations: a factor times the sizes of these dims.
    pub(super) factor: u64,
    pub(super) counted: Vec<Dim>,
}

impl Expr {
    /// The expressions that it is made of.
    pub(super) fn operands(&self) -> Vec<&Rc<Expr>> {
        match self {
            Expr::Array(_) | Expr::Number(_) | Expr::Iota(_) => Vec::new(),
            Expr::Call(_, operands) | Expr::Kernel(_, operands) => operands.iter().collect(),
            Expr::Infix(_, a, b) | Expr::Product(a, b, _) => vec![a, b],
            Expr::Power(a, _) | Expr::Negative(a) | Expr::Reduce(_, _, a) | Expr::Rename(_, a) => vec![a],
        }
    }

    /// Calls `visit` with it and with all that it is made of.
    pub(super) fn walk(&self, visit: &mut impl FnMut(&Expr)) {
        visit(self);
        for operand in self.operands() {
            operand.walk(visit);
        }
    }

    /// Whether it reads this array.
    pub(super) fn reads(&self, array: ArrayId) -> bool {
        let mut found = false;
        self.walk(&mut |expr| found |= matches!(expr, Expr::Array(id) if *id == array));
        found
    }

    /// Number of operations in it.
    pub(super) fn weight(&self) -> usize {
        1 + self.operands().into_iter().map(|operand| operand.weight()).sum::<usize>()
    }

    /// Whether writing it twice costs nothing.
    pub(super) fn is_atomic(&self) -> bool {
        match self {
            Expr::Array(_) | Expr::Number(_) | Expr::Iota(_) => true,
            // A cast counter or a renamed array is not computed again.
            Expr::Rename(_, operand) => operand.is_atomic(),
            Expr::Call(_, operands) => matches!(operands[..], [ref one] if matches!(**one, Expr::Iota(_))),
            _ => false,
        }
    }
}

/// Axes on each dim of a tensor.
pub(super) type Sharding = Vec<Vec<String>>;

/// An array that has a name.
#[derive(Clone, Debug)]
pub(super) struct Array {
    /// What it would be called if no other array were.
    pub(super) hint: String,
    pub(super) dtype: DType,
    /// The dims of each dim of the tensor, broadcast ones left out.
    pub(super) shape: Vec<Vec<Dim>>,
}

/// A line of the program.
#[derive(Clone, Debug)]
pub(super) enum Statement {
    /// `x: bf16[B_data, D]`
    Input { array: ArrayId, sharding: Option<Sharding>, is_donated: bool },
    /// `y = relu(x)`
    Assign { array: ArrayId, expr: Rc<Expr>, sharding: Option<Sharding>, place: Option<(String, String)> },
    /// The part of a stacked array for one iteration: an input of the body if nothing else reads the stack.
    Layer { array: ArrayId, stack: ArrayId, expr: Rc<Expr> },
    /// `i = 0` before a loop, and `i = i + 1` at the end of its body, where something reads it.
    Count { counter: ArrayId, expr: Rc<Expr> },
    /// `repeat 32 {`
    Repeat { count: u64, body: Vec<Statement> },
}

/// A whole program.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) mesh: Vec<(String, u64)>,
    pub(super) arrays: Vec<Array>,
    pub(super) statements: Vec<Statement>,
    pub(super) outputs: Vec<ArrayId>,
}
