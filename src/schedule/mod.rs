//! What every device does: a DAG of operations, each written once for the whole mesh.
//!
//! A *value* is the result of one operation: on every device a block of the same extents, row-major, or nothing at
//! all ([absent](CoordMap), which is not zero). What differs between devices is said by maps of the mesh
//! coordinates, so a regular schedule grows with the lengths of the axes and not with the number of devices.
//!
//! A schedule carries what it claims to compute ([`Array`] and its [`Dense`] definition), so that it can be proven,
//! timed and run by somebody who has nothing but the schedule.

mod builder;
mod display;
mod document;
pub mod methods;
mod operation;
pub mod presence;
mod symmetry;
#[cfg(test)]
mod tests;
mod text;
mod verify;
pub mod view;
mod words;

pub use builder::Builder;
pub use document::{DocumentError, MOST_TEXT, SCHEMA, from_json, to_json};
pub use operation::{Arity, OpKind, Operation, Properties, Reach};
pub use symmetry::Turn;
pub use text::{OperationPlace, Places, Unread, Written, from_text, is_schedule};
pub use verify::{Flaw, MOST_DIMS, MOST_ELEMENTS, Malformed, Place, Verified, verify};

use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::{Filler, Function};
use crate::fusion::{self, Access, Makes};
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, DeviceId, Mesh};
use crate::operator::Operator;
pub use crate::route::{Route, Sources};
use crate::supply::Supply;
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use std::collections::BTreeMap;

/// An operation and the value it makes; the order of the ids is the order of the list.
pub type OpId = NodeIndex<u32>;

/// An array of the dense computation, by its place in [`Schedule::arrays`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArrayId(pub u32);

impl ArrayId {
    /// As an index into [`Schedule::arrays`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A schedule for the whole mesh.
///
/// One that is put together by hand may speak of what it has not. [`verify`] refuses it, and with it the proof, the values
/// and the clock; to print such a schedule may panic.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The devices.
    pub mesh: Mesh,
    /// What is computed, on whole arrays: each after its operands.
    pub arrays: Vec<Array>,
    /// What the devices do. Node order is list order: operands come first, and each link serves messages in this
    /// order. An edge runs from an operand to its user and carries the operand's place, from 0.
    pub operations: DiGraph<Operation, u32>,
    /// The local computations that run as one kernel: those of each with at least two, in order. What is passed on inside
    /// a kernel is neither written to memory nor read from it.
    pub kernels: Vec<Vec<OpId>>,
    /// The values that the program is for.
    pub outputs: Vec<Output>,
}

/// An array of the dense computation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// The user's name, or one made for it.
    pub name: String,
    /// Of its elements.
    pub dtype: DType,
    /// Names of its dims, for people.
    pub dims: Vec<String>,
    /// Its global extents, padding included.
    pub extents: Vec<u64>,
    /// How much of each dim is not padding. The padding of an input is 0; that of other arrays is what their
    /// definition makes of it, and never reaches the rest.
    pub valid: Vec<u64>,
    /// How it is defined.
    pub definition: Dense,
}

/// What an array is, said without any mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dense {
    /// There from the start.
    Input {
        /// Where its data come from.
        supply: Supply,
    },
    /// The product of two arrays.
    Product {
        /// The factors.
        operands: [ArrayId; 2],
        /// How their dims meet.
        einsum: Einsum,
    },
    /// All elements along some dims, combined.
    Reduce {
        /// By this operator, one that folds.
        operator: Operator,
        /// The array.
        operand: ArrayId,
        /// Which dims are left.
        einsum: Einsum,
    },
    /// An elementwise function. A change of names or of the order of dims is the identity.
    Map {
        /// Which.
        function: Function,
        /// As many as it takes.
        operands: Vec<ArrayId>,
        /// How their dims line up.
        einsum: Einsum,
    },
}

impl Dense {
    /// An input that is held to the end.
    pub const INPUT: Dense = Dense::Input { supply: Supply::Held };

    /// Whether a caller hands it in.
    pub fn is_given(&self) -> bool {
        matches!(self, Dense::Input { supply } if supply.is_given())
    }

    /// Whether it is there from the start.
    pub fn is_input(&self) -> bool {
        matches!(self, Dense::Input { .. })
    }

    /// The operands in order.
    pub fn operands(&self) -> &[ArrayId] {
        match self {
            Dense::Input { .. } => &[],
            Dense::Product { operands, .. } => operands,
            Dense::Reduce { operand, .. } => std::slice::from_ref(operand),
            Dense::Map { operands, .. } => operands,
        }
    }
}

/// A value that the program is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The value.
    pub value: OpId,
    /// The array that it must be.
    pub array: ArrayId,
    /// Spread like this. The block of a device is its shard in row-major order.
    pub sharding: Sharding,
}

/// A box in a refined view of a block: a cut for each dim.
pub type Region = Vec<Cut>;

/// What is taken of one dim of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All of it.
    Whole,
    /// The same range on every device.
    Range {
        /// The first.
        start: u64,
        /// One past the last.
        end: u64,
    },
    /// One index, another on each device; where the map has none, or it is past the dim, there is nothing.
    At(CoordMap),
}

/// A number for each device, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordMap {
    /// `constant + sum of factor * coordinate`, modulo `modulo` where that is given; a negative value is none.
    Affine {
        /// Axis and factor.
        terms: Vec<(AxisId, i64)>,
        /// Added to it.
        constant: i64,
        /// At least 1.
        modulo: Option<u64>,
    },
    /// An entry for each rank in the group that the axes span, major first.
    Table {
        /// The axes on which it depends.
        axes: Vec<AxisId>,
        /// As many as the group has members.
        entries: Vec<Option<u64>>,
    },
}

impl CoordMap {
    /// `(coordinate + shift) mod n`
    pub fn rotated(axis: AxisId, shift: i64, n: u64) -> CoordMap {
        CoordMap::Affine { terms: vec![(axis, 1)], constant: shift, modulo: Some(n) }
    }

    /// `coordinate + shift`, none below 0
    pub fn shifted(axis: AxisId, shift: i64) -> CoordMap {
        CoordMap::Affine { terms: vec![(axis, 1)], constant: shift, modulo: None }
    }

    /// `(rank + shift) mod n`, with the rank in the groups of n that the axes span, major first; without `wrap`
    /// `rank + shift`, none below 0.
    pub fn along(mesh: &Mesh, axes: Axes, shift: i64, wrap: bool) -> CoordMap {
        let mut factor = 1;
        let mut terms = Vec::new();
        for axis in axes.iter().rev() {
            terms.push((axis, factor));
            factor *= i64::from(mesh.axis(axis).size);
        }
        terms.reverse();
        CoordMap::Affine { terms, constant: shift, modulo: wrap.then(|| axes.group_size(mesh)) }
    }

    /// The same for all.
    pub fn constant(value: i64) -> CoordMap {
        CoordMap::Affine { terms: Vec::new(), constant: value, modulo: None }
    }

    /// The rank of a device in the group that the axes span, major first.
    pub fn rank(mesh: &Mesh, axes: &[AxisId]) -> CoordMap {
        CoordMap::along(mesh, axes.iter().copied().collect(), 0, false)
    }

    /// The number of one device.
    pub fn at(&self, mesh: &Mesh, device: DeviceId) -> Option<u64> {
        match self {
            CoordMap::Affine { terms, constant, modulo } => {
                let value = terms.iter().try_fold(*constant, |sum, (axis, factor)| {
                    sum.checked_add(factor.checked_mul(i64::from(mesh.coordinate(device, *axis)))?)
                })?;
                match modulo {
                    Some(modulo) => u64::try_from(value.rem_euclid(i64::try_from(*modulo).ok()?)).ok(),
                    None => u64::try_from(value).ok(),
                }
            }
            CoordMap::Table { axes, entries } => {
                let rank = usize::try_from(mesh.rank(device, axes.iter().copied())).ok()?;
                entries.get(rank).copied().flatten()
            }
        }
    }
}

impl Schedule {
    /// A schedule without operations. Its texts name the parts of axes as its mesh declares them.
    pub fn new(mesh: Mesh) -> Schedule {
        Schedule {
            mesh: mesh.spelled_out(),
            arrays: Vec::new(),
            operations: DiGraph::new(),
            kernels: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// Adds an operation at the end of the list.
    ///
    /// # Panics
    /// If an operand is no operation of the schedule.
    pub fn push(&mut self, operation: Operation, operands: &[OpId]) -> OpId {
        let id = self.operations.add_node(operation);
        for (place, operand) in (0..).zip(operands) {
            self.operations.add_edge(*operand, id, place);
        }
        id
    }

    /// One operation.
    ///
    /// # Panics
    /// If the schedule has no such operation.
    pub fn operation(&self, id: OpId) -> &Operation {
        &self.operations[id]
    }

    /// All operations in list order.
    pub fn ids(&self) -> impl Iterator<Item = OpId> + use<> {
        self.operations.node_indices()
    }

    /// The operands of an operation, by their place.
    pub fn operands(&self, id: OpId) -> Vec<OpId> {
        let edges = self.operations.edges_directed(id, Direction::Incoming);
        let mut operands: Vec<(u32, OpId)> = edges.map(|edge| (*edge.weight(), edge.source())).collect();
        operands.sort_unstable();
        operands.into_iter().map(|(_, operand)| operand).collect()
    }

    /// What each member of a kernel has to do with memory. All other operations read and write all they have.
    ///
    /// # Panics
    /// If a kernel has what is no operation of the schedule.
    pub fn accesses(&self) -> BTreeMap<OpId, Access> {
        if self.kernels.is_empty() {
            return BTreeMap::new();
        }
        let kernels: Vec<Vec<usize>> =
            self.kernels.iter().map(|kernel| kernel.iter().map(|id| id.index()).collect()).collect();
        let mut accesses = fusion::accesses(&self.fusion_nodes(), &kernels);
        let mut access = |id: OpId| std::mem::replace(&mut accesses[id.index()], Access::alone(0));
        self.kernels.iter().flatten().map(|id| (*id, access(*id))).collect()
    }

    /// The operations as fusion sees them.
    fn fusion_nodes(&self) -> Vec<fusion::Node> {
        let node = |id: OpId| fusion::Node {
            role: self.operation(id).kind.role(),
            operands: self.operands(id).iter().map(|operand| operand.index()).collect(),
            leaves: self.outputs.iter().any(|output| output.value == id),
            mark: 0,
            makes: match &self.operation(id).kind {
                OpKind::Input { array, .. } => match self.array(*array).definition {
                    Dense::Input { supply: Supply::Counted } => Makes::Places,
                    _ => Makes::Other,
                },
                OpKind::Slice { .. } => Makes::Part,
                OpKind::Fill { with: Filler::Zero, .. } => Makes::Filled,
                OpKind::MatMul { einsum } => Makes::Product(einsum.clone()),
                OpKind::Map { function, einsum } => Makes::of(*function, || einsum.clone()),
                _ => Makes::Other,
            },
        };
        self.ids().map(node).collect()
    }

    /// One array.
    ///
    /// # Panics
    /// If the schedule has no such array.
    pub fn array(&self, id: ArrayId) -> &Array {
        &self.arrays[id.index()]
    }
}
