//! Ast to [`Program`]: names resolved, sizes known, layouts checked.
//!
//! After this layer no user mistake is possible: every value has its dims and dtype, every written layout is legal,
//! and every operation has a meaning. What is still open is how to get there, which is the planner's.

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
mod layouts;
mod links;
mod local;
mod names;
mod number;
mod open;
mod opened;
mod pad;
mod parts;
mod pin;
mod print;
mod product;
mod reduce;
mod repeat;
mod rewrite;
mod several;
mod size;
mod softmax;
mod statements;

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
use crate::layout::{Dim, DimId, Dims, Layout, Sharding};
use crate::link::DegradedLink;
use crate::mesh::{Axes, Mesh};
use crate::method::Method;
use crate::operator::Operator;
use crate::span::{Span, Spanned};
use crate::supply::Supply;
use crate::syntax::{Ast, Name};
use std::ops::Range;

/// Checks a program: all that is wrong at once, and the program if nothing is; warnings and notes come with it.
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

/// A value of the program, by its place in [`Program::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

impl ValueId {
    /// As an index into [`Program::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A checked program: values in an order in which each comes after its operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The devices.
    pub mesh: Mesh,
    /// The last statement that declares axes: `mesh`, or `axis` below it.
    pub axes: Span,
    /// The hardware named in the `mesh` statement.
    pub hardware: Option<Name>,
    /// The networks named in the `mesh` statement, in order: `over dcn`.
    pub networks: Vec<Name>,
    /// The links that are down or slower than they should be, each where it is written.
    pub links: Vec<Spanned<DegradedLink>>,
    /// The names of the dims.
    pub dims: Dims,
    /// Every value.
    pub values: Vec<Value>,
    /// Further names of values, in order: `B = A`.
    pub aliases: Vec<Alias>,
    /// What the program is for, in order; at least one.
    pub outputs: Vec<ValueId>,
    /// The values that are made several times, in order and apart from each other.
    pub repeats: Vec<Repeat>,
    /// What it expects of its plan.
    pub expectations: Vec<Expectation>,
    /// What no plan of it may exceed.
    pub limits: Vec<Limit>,
}

/// A name that a statement gives to a value which is there without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The name.
    pub name: String,
    /// What has it from here on.
    pub value: ValueId,
    /// The statement.
    pub span: Span,
}

impl Program {
    /// One value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// The same program with more values between its own.
    ///
    /// - `renumbered`: the new number of each value.
    /// - `bodies`: the values of each repeat's body, among the new ones.
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

    /// The ids of all values, in order.
    pub fn value_ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        let count = u32::try_from(self.values.len()).expect("fewer values than bytes of source");
        (0..count).map(ValueId)
    }

    /// Whether it says by which collectives something is done: then its steps are those that it writes.
    pub fn expects_collectives(&self) -> bool {
        let is_of_steps = |kind: &ExpectationKind| matches!(kind, ExpectationKind::Collectives { .. });
        self.expectations.iter().any(|expectation| is_of_steps(&expectation.kind))
    }

    /// The repeat in whose body a value is, by its place in the list.
    pub fn body_of(&self, id: ValueId) -> Option<usize> {
        self.repeats.iter().position(|repeat| repeat.body.contains(&id.index()))
    }

    /// How often a value is made.
    pub fn times(&self, id: ValueId) -> u64 {
        self.body_of(id).map_or(1, |body| self.repeats[body].times)
    }

    /// What is handed from one iteration to the next, of all repeats.
    pub fn carried(&self) -> impl Iterator<Item = &Carried> {
        self.repeats.iter().flat_map(|repeat| &repeat.carried)
    }

    /// The value in a certain sharding.
    pub fn layout(&self, id: ValueId, sharding: Sharding) -> Layout {
        let value = self.value(id);
        Layout { dtype: value.dtype, dims: value.dims.clone(), sharding }
    }

    /// What to call a value: its own name, or that of its operand with the function before it: `relu(T)`.
    pub fn name(&self, id: ValueId) -> String {
        let value = self.value(id);
        let place = || format!("%{}", id.0);
        match (&value.name, &value.definition) {
            (Some(name), _) => name.clone(),
            (None, Definition::Map { function, operands }) if operands.len() == 1 => {
                // A chain of unnamed functions is named by its last one.
                let operand = self.value(operands[0]).name.clone().unwrap_or_else(|| "..".to_owned());
                format!("{}({operand})", function.word())
            }
            (None, Definition::Reduce { operator, operand }) => {
                let operand = self.value(*operand).name.clone().unwrap_or_else(|| "..".to_owned());
                format!("{operator}({operand})")
            }
            (None, Definition::Move { operand, .. } | Definition::Collective { operand, .. }) => {
                self.value(*operand).name.clone().unwrap_or_else(place)
            }
            (None, _) => place(),
        }
    }

    /// The einsum of a product or an elementwise function, by the dims of its operands and of its result.
    ///
    /// A rename lines its operand up by place, whatever the names.
    pub fn einsum(&self, id: ValueId) -> Einsum {
        let value = self.value(id);
        let dims = |id: ValueId| -> Vec<DimId> { self.value(id).dims.iter().map(|dim| dim.id).collect() };
        match &value.definition {
            Definition::Rename { .. } => Einsum::new(&[dims(id)], &dims(id)),
            definition => {
                let operands: Vec<Vec<DimId>> = definition.operands().iter().map(|id| dims(*id)).collect();
                Einsum::new(&operands, &dims(id))
            }
        }
    }
}

/// One value: what it is, and what is known of its layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The user's name; `None` for the inside of an expression and for unnamed arrays.
    pub name: Option<String>,
    /// Of its elements.
    pub dtype: DType,
    /// Its dims in order, each once.
    pub dims: Vec<Dim>,
    /// How it comes about.
    pub definition: Definition,
    /// The layout that is asked for.
    pub wanted: Wanted,
    /// The method that its collectives are to be scheduled by.
    pub method: Option<Method>,
    /// How a product is to be done, where that is not left to the plan.
    pub pin: Option<Pin>,
    /// The statement or expression it comes from.
    pub span: Span,
}

/// The layout that the program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Exactly this one.
    Exact(Sharding),
    /// One with these axes on the dims that have no hole; an output is closed all the same.
    Partly(Vec<Option<Axes>>),
    /// Any; an output is closed all the same.
    Free,
}

impl Wanted {
    /// Whether this is a layout that is asked for.
    pub fn allows(&self, sharding: &Sharding) -> bool {
        match self {
            Wanted::Exact(exact) => exact == sharding,
            Wanted::Partly(dims) => {
                dims.iter().zip(&sharding.dims).all(|(asked, axes)| asked.is_none_or(|asked| asked == *axes))
            }
            Wanted::Free => true,
        }
    }

    /// The axes that are written for a dim, if they are.
    pub fn axes(&self, dim: usize) -> Option<Axes> {
        match self {
            Wanted::Exact(sharding) => sharding.dims.get(dim).copied(),
            Wanted::Partly(dims) => dims.get(dim).copied().flatten(),
            Wanted::Free => None,
        }
    }

    /// Whether the compiler chooses anything of the layout.
    pub fn is_open(&self) -> bool {
        match self {
            Wanted::Exact(_) => false,
            Wanted::Partly(_) | Wanted::Free => true,
        }
    }
}

/// How a value comes about.
#[derive(Clone, Debug, PartialEq)]
pub enum Definition {
    /// There from the start; where the layout is free, in one that the planner chooses.
    Input {
        /// Where its data come from.
        supply: Supply,
    },
    /// An einsum of two operands: dims that the result lacks are contracted.
    Product {
        /// The factors.
        operands: [ValueId; 2],
        /// `_LOCAL`: nothing may be moved before, and the sum stays open as the exact layout says.
        local: bool,
    },
    /// All elements along the dims that the result lacks, combined.
    Reduce {
        /// By this operator, one that folds.
        operator: Operator,
        /// What is reduced.
        operand: ValueId,
    },
    /// An elementwise function; operands line up by dim, a missing dim broadcasts.
    Map {
        /// Which.
        function: Function,
        /// As many as it takes.
        operands: Vec<ValueId>,
    },
    /// The same array in the exact layout; the order of dims may differ.
    Move {
        /// What is moved.
        operand: ValueId,
        /// A statement says so and nothing else: `C[I, K_X] = A`, `A[I_X, J] -> A[I, J]`.
        written: bool,
    },
    /// A collective written by hand.
    Collective {
        /// Which.
        collective: Collective,
        /// The layout that the operand has.
        from: Sharding,
        /// What it is applied to.
        operand: ValueId,
    },
    /// The same array, its dims renamed by place.
    Rename {
        /// What is renamed.
        operand: ValueId,
    },
}

impl Definition {
    /// Whether it is given from outside.
    pub fn is_input(&self) -> bool {
        matches!(self, Definition::Input { .. })
    }

    /// Whether it is a collective or a move that a statement or an expression writes.
    pub fn is_written_move(&self) -> bool {
        match self {
            Definition::Collective { .. } | Definition::Move { written: true, .. } => true,
            Definition::Input { .. }
            | Definition::Product { .. }
            | Definition::Reduce { .. }
            | Definition::Map { .. }
            | Definition::Move { written: false, .. }
            | Definition::Rename { .. } => false,
        }
    }

    /// The operands, to be given other numbers.
    fn operands_mut(&mut self) -> &mut [ValueId] {
        match self {
            Definition::Input { .. } => &mut [],
            Definition::Product { operands, .. } => operands,
            Definition::Map { operands, .. } => operands,
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
            Definition::Map { operands, .. } => operands,
            Definition::Reduce { operand, .. }
            | Definition::Move { operand, .. }
            | Definition::Collective { operand, .. }
            | Definition::Rename { operand } => std::slice::from_ref(operand),
        }
    }
}
