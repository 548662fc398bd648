//! The checker: AST to [`Program`]. Resolves names and sizes and checks layouts.
//!
//! Later stages report no user errors about names, dims or layouts: every value has its dims and dtype, and every written
//! layout is legal. The planner chooses the remaining layouts and the collectives.

mod checker;
mod collectives;
mod composed;
mod declarations;
mod dtypes;
mod error;
mod expect;
mod expr;
mod functions;
mod grid;
mod infer;
mod iota;
mod kernels;
mod layouts;
mod links;
mod local;
mod names;
mod number;
mod open;
mod opened;
mod pad;
mod parts;
mod pick;
mod pin;
mod positions;
mod print;
mod product;
mod reduce;
mod repeat;
mod rewrite;
mod several;
mod size;
mod softmax;
mod statements;
mod tables;
mod used;

#[cfg(test)]
mod testing;

pub use expect::{Expectation, ExpectationKind, ExpectedMove, Limit};
pub use pin::{Pin, Strategy};
pub use repeat::{Carried, Repeat};
pub use rewrite::Rewritten;

use crate::collective::Collective;
use crate::diag::Diagnostics;
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::Function;
use crate::kernel::Kernel;
use crate::layout::{Dim, DimId, Dims, Layout, Sharding};
use crate::link::DegradedLink;
use crate::mesh::{Axes, Mesh};
use crate::method::Method;
use crate::operator::Operator;
use crate::span::{LineIndex, Span, Spanned};
use crate::supply::Supply;
use crate::syntax::{Ast, Name};
use itertools::Itertools;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::sync::Arc;

/// Checks a program. Returns all findings, and the program if there are no errors.
pub fn check(ast: &Ast) -> (Option<Program>, Diagnostics) {
    let mut diagnostics = Diagnostics::default();
    let Some(ground) = declarations::read(ast, &mut diagnostics) else {
        diagnostics.sort();
        return (None, diagnostics);
    };
    let mut checker = checker::Checker::new(ground, ast, diagnostics);
    checker.declare_iotas(ast);
    for statement in &ast.statements {
        checker.statement(statement);
    }
    checker.finish(ast.statements.last().map(|statement| statement.span))
}

/// A value, as an index into [`Program::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The index into [`Program::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A checked program, its values in topological order.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The device mesh.
    pub mesh: Mesh,
    /// The last statement that declares axes: `mesh`, or `axis` below it.
    pub axes: Span,
    /// The hardware named in the `mesh` statement.
    pub hardware: Option<Name>,
    /// The networks named in the `mesh` statement, in order: `over dcn`.
    pub networks: Vec<Name>,
    /// The degraded links, with their statements.
    pub links: Vec<Spanned<DegradedLink>>,
    /// The dim names.
    pub dims: Dims,
    /// All values.
    pub values: Vec<Value>,
    /// Aliases of values, in order: `B = A`.
    pub aliases: Vec<Alias>,
    /// The names under which values read arrays, where the operand is the array itself: by user and place of the operand.
    pub read_as: BTreeMap<(ValueId, usize), ValueId>,
    /// The outputs, in order; at least one.
    pub outputs: Vec<ValueId>,
    /// The `repeat` blocks, in order and disjoint.
    pub repeats: Vec<Repeat>,
    /// The `expect` lines.
    pub expectations: Vec<Expectation>,
    /// The `limit` lines.
    pub limits: Vec<Limit>,
    /// The lines of the source; values without a name are called by their line.
    pub lines: LineIndex,
}

/// An alias of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The name.
    pub name: String,
    /// The value it names from here on.
    pub value: ValueId,
    /// The statement.
    pub span: Span,
}

impl Program {
    /// A value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// Whether a value has a layout that pads one of its dims, beyond the padding that the program states.
    pub fn may_pad(&self) -> bool {
        let devices = self.mesh.device_count() as u64;
        self.values.iter().flat_map(|value| &value.dims).any(|dim| !dim.size.is_multiple_of(devices))
    }

    /// The program with additional values.
    ///
    /// - `renumbered`: the new id of each value.
    /// - `bodies`: the new ids of the values of each repeat's body.
    pub(super) fn with_values(self, values: Vec<Value>, renumbered: &[ValueId], bodies: &[Range<usize>]) -> Program {
        let new = |id: ValueId| renumbered[id.index()];
        let aliases = self.aliases.iter().map(|alias| Alias { value: new(alias.value), ..alias.clone() }).collect();
        let outputs = self.outputs.iter().map(|output| new(*output)).collect();
        let repeats = self.repeats.iter().zip(bodies).map(|(repeat, body)| {
            let carried = repeat.carried.iter().map(|carried| Carried {
                entry: new(carried.entry),
                first: new(carried.first),
                last: new(carried.last),
            });
            Repeat { body: body.clone(), carried: carried.collect(), ..repeat.clone() }
        });
        let repeats = repeats.collect();
        Program { values, aliases, outputs, repeats, ..self }
    }

    /// All value ids, in order.
    pub fn value_ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        let count = u32::try_from(self.values.len()).expect("fewer values than bytes of source");
        (0..count).map(ValueId)
    }

    /// The repeat whose body has the value, by index.
    pub fn body_of(&self, id: ValueId) -> Option<usize> {
        self.repeats.iter().position(|repeat| repeat.body.contains(&id.index()))
    }

    /// The number of times a value is computed.
    pub fn times(&self, id: ValueId) -> u64 {
        self.body_of(id).map_or(1, |body| self.repeats[body].times)
    }

    /// The carried names of all repeats.
    pub fn carried(&self) -> impl Iterator<Item = &Carried> {
        self.repeats.iter().flat_map(|repeat| &repeat.carried)
    }

    /// The layout of a value with this sharding.
    pub fn layout(&self, id: ValueId, sharding: Sharding) -> Layout {
        let value = self.value(id);
        Layout { dtype: value.dtype, dims: value.dims.clone(), sharding, used: self.used(id) }
    }

    /// The display name of a value: its own name, or that of its operand with the function before it: `relu(T)`.
    ///
    /// It does not depend on the lines of the source, so that snapshots do not.
    pub fn name(&self, id: ValueId) -> String {
        let value = self.value(id);
        let named = |id: &ValueId| self.value(*id).name.as_deref().unwrap_or("..");
        match (&value.name, &value.definition) {
            (Some(name), _) => name.clone(),
            (None, Definition::Map { function, operands }) => {
                format!(
                    "{}({})",
                    function.shown_word(value.dtype),
                    operands.iter().map(named).collect::<Vec<_>>().join(", ")
                )
            }
            (None, Definition::Product { operands: [left, right], .. }) => {
                format!("({}*{})", named(left), named(right))
            }
            (None, Definition::Kernel { kernel, operands }) => {
                format!("{}({})", kernel.name, operands.iter().map(named).collect::<Vec<_>>().join(", "))
            }
            (None, Definition::Reduce { operator, operand }) => format!("{operator}({})", named(operand)),
            (None, Definition::Move { operand, .. } | Definition::Collective { operand, .. }) => self.name(*operand),
            (None, Definition::Rename { operand }) => self.name(*operand),
            (None, Definition::Input { .. }) => format!("%{}", id.0),
        }
    }

    /// The name of a value in messages and tables: as [`Program::name`], but an operation on values without names is called
    /// by the line of its statement, `line 12`, and by its function if the statement has several, `line 12 (exp)`.
    pub fn label(&self, id: ValueId) -> String {
        if self.has_label(id) {
            return self.name(id);
        }
        let value = self.value(id);
        if let Some(operand) = value.definition.moved() {
            return self.label(operand);
        }
        let statement = |value: &Value| value.call.unwrap_or(value.span);
        let line = self.lines.line(statement(value).start);
        let word = match &value.definition {
            Definition::Map { function, .. } => function.shown_word(value.dtype),
            Definition::Product { .. } => "product",
            Definition::Reduce { operator, .. } => operator.name(),
            Definition::Kernel { kernel, .. } => &kernel.name,
            Definition::Input { .. }
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => return format!("line {line}"),
        };
        // The values of a statement follow each other.
        let is_alike = |other: &ValueId| statement(self.value(*other)) == statement(value);
        let before = (0..id.0).rev().map(ValueId).take_while(is_alike);
        let behind = self.value_ids().skip(id.index() + 1).take_while(is_alike);
        let is_nameless = |other: ValueId| self.value(other).definition.moved().is_none() && !self.has_label(other);
        if before.chain(behind).any(is_nameless) { format!("line {line} ({word})") } else { format!("line {line}") }
    }

    /// Whether a value has a name, or one by the names of its operands.
    fn has_label(&self, id: ValueId) -> bool {
        let value = self.value(id);
        let is_named = |id: &ValueId| self.value(*id).name.is_some();
        let computes = !value.definition.is_input() && value.definition.moved().is_none();
        value.name.is_some() || computes && value.definition.operands().iter().all(is_named)
    }

    /// The einsum of a product or an elementwise function, by the dims of operands and result.
    ///
    /// A rename matches dims by position, whatever their names.
    pub fn einsum(&self, id: ValueId) -> Einsum {
        einsum(&self.values, id)
    }
}

/// The einsum of one of these values; see [`Program::einsum`].
fn einsum(values: &[Value], id: ValueId) -> Einsum {
    let dims = |id: ValueId| -> Vec<DimId> { values[id.index()].dims.iter().map(|dim| dim.id).collect() };
    match &values[id.index()].definition {
        Definition::Rename { .. } => Einsum::new(&[dims(id)], &dims(id)),
        Definition::Kernel { kernel, .. } => kernel.einsum.clone(),
        definition => {
            let operands: Vec<Vec<DimId>> = definition.operands().iter().map(|id| dims(*id)).collect();
            Einsum::new(&operands, &dims(id))
        }
    }
}

/// A value: its operation, and the constraints on its layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The user's name; `None` for subexpressions and unnamed arrays.
    pub name: Option<String>,
    /// The dtype.
    pub dtype: DType,
    /// The dims in order, each once.
    pub dims: Vec<Dim>,
    /// The operation.
    pub definition: Definition,
    /// The requested layout.
    pub wanted: Wanted,
    /// How its collectives are to be done (`using`).
    pub using: Using,
    /// The requested strategy of a product (`by`).
    pub pin: Option<Pin>,
    /// The statement or expression.
    pub span: Span,
    /// The outermost call that it is in the body of.
    pub call: Option<Span>,
}

/// How the collectives of a statement are to be done (`using`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Using {
    /// Their method.
    pub method: Option<Method>,
    /// In how many pieces.
    pub pieces: Option<PieceCount>,
}

impl Display for Using {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let method = self.method.map(|method| method.name().to_owned());
        let pieces = self.pieces.map(|pieces| format!("pipeline({})", pieces.count));
        write!(f, "{}", method.into_iter().chain(pieces).format(", "))
    }
}

/// A requested number of pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PieceCount {
    /// The number.
    pub count: u64,
    /// Where it is written.
    pub at: Span,
}

impl PieceCount {
    /// Most pieces of a run.
    pub const MOST: u64 = 64;
}

/// The requested layout of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This exact layout.
    Exact(Sharding),
    /// These axes on the dims without a hole; an output is also closed.
    Partly(Vec<Option<Axes>>),
    /// Any layout; an output is closed.
    Free,
}

impl Wanted {
    /// Whether a layout satisfies the request.
    pub fn allows(&self, sharding: &Sharding) -> bool {
        match self {
            Wanted::Exact(exact) => exact == sharding,
            Wanted::Partly(dims) => {
                dims.iter().zip(&sharding.dims).all(|(asked, axes)| asked.is_none_or(|asked| asked == *axes))
            }
            Wanted::Free => true,
        }
    }

    /// The written axes of a dim, if any.
    pub fn axes(&self, dim: usize) -> Option<Axes> {
        match self {
            Wanted::Exact(sharding) => sharding.dims.get(dim).copied(),
            Wanted::Partly(dims) => dims.get(dim).copied().flatten(),
            Wanted::Free => None,
        }
    }

    /// Whether the compiler chooses any part of the layout.
    pub fn is_open(&self) -> bool {
        match self {
            Wanted::Exact(_) => false,
            Wanted::Partly(_) | Wanted::Free => true,
        }
    }
}

/// The operation of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Definition {
    /// An input; the planner chooses a free layout.
    Input {
        /// The source of its data.
        supply: Supply,
    },
    /// An einsum of two operands: dims that the result lacks are contracted.
    Product {
        /// The factors.
        operands: [ValueId; 2],
        /// `_LOCAL`: no communication before it, and the sum stays open as the exact layout states.
        local: bool,
    },
    /// A reduction over the dims that the result lacks.
    Reduce {
        /// The operator, which must be foldable.
        operator: Operator,
        /// The operand.
        operand: ValueId,
    },
    /// An elementwise function; operands align by dim, a missing dim broadcasts.
    Map {
        /// The function.
        function: Function,
        /// The operands.
        operands: Vec<ValueId>,
    },
    /// A declared kernel.
    Kernel {
        /// Its dims and costs.
        kernel: Arc<Kernel>,
        /// The operands.
        operands: Vec<ValueId>,
    },
    /// The same array in the exact layout; the order of dims may differ.
    Move {
        /// The operand.
        operand: ValueId,
        /// Whether a statement consists of this move: `C[I, K_X] = A`, `A[I_X, J] -> A[I, J]`.
        written: bool,
    },
    /// A written collective.
    Collective {
        /// The collective.
        collective: Collective,
        /// The operand's layout.
        from: Sharding,
        /// The operand.
        operand: ValueId,
    },
    /// The same array with dims renamed by position.
    Rename {
        /// The operand.
        operand: ValueId,
    },
}

impl Definition {
    /// Whether it is an input.
    pub fn is_input(&self) -> bool {
        matches!(self, Definition::Input { .. })
    }

    /// The array whose elements it has, if it computes none: that of a move, a collective or a renaming.
    pub fn moved(&self) -> Option<ValueId> {
        match self {
            Definition::Move { operand, .. }
            | Definition::Collective { operand, .. }
            | Definition::Rename { operand } => Some(*operand),
            Definition::Input { .. }
            | Definition::Product { .. }
            | Definition::Reduce { .. }
            | Definition::Map { .. }
            | Definition::Kernel { .. } => None,
        }
    }

    /// Whether it is a written collective or move.
    pub fn is_written_move(&self) -> bool {
        match self {
            Definition::Collective { .. } | Definition::Move { written: true, .. } => true,
            Definition::Input { .. }
            | Definition::Product { .. }
            | Definition::Reduce { .. }
            | Definition::Map { .. }
            | Definition::Kernel { .. }
            | Definition::Move { written: false, .. }
            | Definition::Rename { .. } => false,
        }
    }

    /// The operands, mutable for renumbering.
    fn operands_mut(&mut self) -> &mut [ValueId] {
        match self {
            Definition::Input { .. } => &mut [],
            Definition::Product { operands, .. } => operands,
            Definition::Map { operands, .. } | Definition::Kernel { operands, .. } => operands,
            Definition::Reduce { operand, .. }
            | Definition::Move { operand, .. }
            | Definition::Collective { operand, .. }
            | Definition::Rename { operand } => std::slice::from_mut(operand),
        }
    }

    /// The operands in order.
    pub fn operands(&self) -> &[ValueId] {
        match self {
            Definition::Input { .. } => &[],
            Definition::Product { operands, .. } => operands,
            Definition::Map { operands, .. } | Definition::Kernel { operands, .. } => operands,
            Definition::Reduce { operand, .. }
            | Definition::Move { operand, .. }
            | Definition::Collective { operand, .. }
            | Definition::Rename { operand } => std::slice::from_ref(operand),
        }
    }
}
