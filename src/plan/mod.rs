//! Program to [`Plan`]: which local computation each device does, and which collectives stand between.
//!
//! A product is a choice of what each mesh axis does in its iteration space; resharding is a shortest path between
//! shardings. What a move costs is asked through one trait, [`Costs`].

use crate::collective::Collective;
use crate::einsum::Einsum;
use crate::layout::Layout;
use crate::mesh::Mesh;
use crate::program::{Program, ValueId};
use crate::span::Span;
use crate::units::{Bytes, Time};
use petgraph::graph::{DiGraph, NodeIndex};

/// What a plan asks of a cost model. Times are isolated: nothing else runs meanwhile.
pub trait Costs {
    /// The time of one collective, and what limits it.
    fn collective(&self, collective: &Collective, from: &Layout, mesh: &Mesh) -> Cost;

    /// The time of a local product.
    fn product(&self, work: &LocalWork) -> Cost;

    /// The time of an elementwise function.
    fn map(&self, work: &LocalWork) -> Cost;

    /// The name it has on the command line.
    fn name(&self) -> &'static str;
}

/// What one device has to do in a local computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalWork {
    /// The dtype of the narrowest operand, which picks the arithmetic unit.
    pub dtype: crate::dtype::DType,
    /// Floating-point operations.
    pub flops: u128,
    /// Bytes read and written.
    pub traffic: Bytes,
}

/// A time and what it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The time.
    pub time: Time,
    /// What would have to be faster for it to be less.
    pub limit: Limit,
}

/// What limits a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing: it takes no time.
    Free,
    /// Hops that take their least time.
    Latency,
    /// Bytes over links.
    Bandwidth,
    /// Floating-point operations.
    Compute,
    /// Bytes from and to memory.
    Memory,
}

impl Limit {
    /// For people and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Free => "free",
            Limit::Latency => "latency",
            Limit::Bandwidth => "bandwidth",
            Limit::Compute => "compute",
            Limit::Memory => "memory",
        }
    }
}

/// A step of a plan and the value it makes; the order of the ids is the order of the steps.
pub type StepId = NodeIndex<u32>;

/// What is done, in which order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program it is for.
    pub program: Program,
    /// Steps; node order is program order. An edge runs from an operand to its user and carries the operand's place.
    pub steps: DiGraph<Step, u32>,
    /// The step that makes each output of the program, in the order of [`Program::outputs`].
    pub outputs: Vec<StepId>,
    /// What was chosen for each product, and instead of what.
    pub choices: Vec<Choice>,
    /// The name of the cost model.
    pub costs: &'static str,
}

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// What is done.
    pub op: StepOp,
    /// The value of the program that it makes or moves.
    pub value: ValueId,
    /// The layout of the result.
    pub layout: Layout,
    /// Its isolated time.
    pub cost: Cost,
    /// Bytes that the fullest device receives under the ideal collective.
    pub received: Bytes,
    /// Floating-point operations of one device.
    pub flops: u128,
    /// The statement that needs it.
    pub span: Span,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOp {
    /// An array given from outside.
    Input,
    /// A move between layouts.
    Collective(Collective),
    /// A local product.
    Product {
        /// How the local blocks meet.
        einsum: Einsum,
    },
    /// An elementwise function, a transposition or a new name.
    Map {
        /// Which.
        function: crate::function::Function,
        /// How the local blocks line up.
        einsum: Einsum,
    },
}

/// What was chosen for one product, and instead of what.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The product.
    pub value: ValueId,
    /// The book's case, 1 to 4, from the layouts that the operands had.
    pub case: u8,
    /// The ways to do it, cheapest first; the first was chosen.
    pub alternatives: Vec<Alternative>,
}

/// One way to do a product.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// The moves in order, as the book writes them; `no communication` if there are none.
    pub moves: Vec<String>,
    /// Isolated time of all of it.
    pub time: Time,
    /// Of that, the communication.
    pub communication: Time,
}
