//! Schedules: a DAG of operations, each written once for the whole mesh.
//!
//! A *value* is the result of one operation: on every device a row-major block of the same extents, or [absent](CoordMap)
//! (which differs from zero). Differences between devices are maps of the mesh coordinates, so the size of a regular
//! schedule depends on the lengths of the axes and not on the number of devices.
//!
//! A schedule includes the computation that it implements ([`Array`] and its [`Dense`] definition), so it can be proven,
//! timed and run on its own.

mod builder;
mod detours;
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
pub use detours::{Detours, Path, WeakLink};
pub use document::{DocumentError, MOST_TEXT, SCHEMA, from_json, to_json};
pub use operation::{Arity, OpKind, Operation, Properties, Reach};
pub use symmetry::Turn;
pub use text::{OperationPlace, Places, Unread, Written, from_text, is_schedule};
pub use verify::{Flaw, MOST_DIMS, MOST_ELEMENTS, Malformed, Place, Verified, verify};

use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::{Filler, Function};
use crate::fusion::{self, Access, Makes};
use crate::kernel::Kernel;
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, DeviceId, Mesh};
use crate::operator::Operator;
pub use crate::route::{Route, Sources};
use crate::supply::Supply;
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An operation and its value; ids are in list order.
pub type OpId = NodeIndex<u32>;

/// An array of the dense computation, as an index into [`Schedule::arrays`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArrayId(pub u32);

impl ArrayId {
    /// The array as an index into [`Schedule::arrays`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A schedule for the whole mesh.
///
/// A hand-made schedule may be malformed. [`verify`] rejects it, and so do proof, values and clock; printing it may
/// panic.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The mesh.
    pub mesh: Mesh,
    /// The dense computation on whole arrays, operands first.
    pub arrays: Vec<Array>,
    /// The operations. Node order is list order: operands come first, and each link serves messages in this order. An edge
    /// runs from an operand to its user and carries the operand's index, from 0.
    pub operations: DiGraph<Operation, u32>,
    /// Kernels of local computations, each with at least two, operands first. Values inside a kernel are neither written to
    /// memory nor read from it; the first member that needs a value from outside reads it.
    pub kernels: Vec<Vec<OpId>>,
    /// The outputs.
    pub outputs: Vec<Output>,
    /// Values on the way to the outputs, and the arrays that they must equal. The proof checks them too, and takes them as
    /// given afterwards; nothing else depends on them.
    pub assertions: Vec<Output>,
}

/// An array of the dense computation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Its name in the program, or a generated one.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Names of its dims.
    pub dims: Vec<String>,
    /// Global extents, including padding.
    pub extents: Vec<u64>,
    /// The unpadded size of each dim. The padding of an input is 0; that of other arrays follows from their definition and
    /// never affects other elements.
    pub valid: Vec<u64>,
    /// Its definition.
    pub definition: Dense,
}

/// The definition of an array, independent of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dense {
    /// An input.
    Input {
        /// Origin of the data.
        supply: Supply,
    },
    /// The product of two arrays.
    Product {
        /// The factors.
        operands: [ArrayId; 2],
        /// The einsum.
        einsum: Einsum,
    },
    /// A reduction over some dims.
    Reduce {
        /// The operator, which folds.
        operator: Operator,
        /// The array.
        operand: ArrayId,
        /// The remaining dims.
        einsum: Einsum,
    },
    /// A declared kernel, whose elements are unknown functions of its operands.
    Kernel {
        /// Its dims and costs.
        kernel: Arc<Kernel>,
        /// Its operands.
        operands: Vec<ArrayId>,
    },
    /// An elementwise function. Renaming or transposing is the identity.
    Map {
        /// The function.
        function: Function,
        /// Its operands.
        operands: Vec<ArrayId>,
        /// Alignment of their dims.
        einsum: Einsum,
    },
}

impl Dense {
    /// An input that is held to the end.
    pub const INPUT: Dense = Dense::Input { supply: Supply::Held };

    /// Whether the caller provides it.
    pub fn is_given(&self) -> bool {
        matches!(self, Dense::Input { supply } if supply.is_given())
    }

    /// Whether it is available from the start.
    pub fn is_input(&self) -> bool {
        matches!(self, Dense::Input { .. })
    }

    /// The operands in order.
    pub fn operands(&self) -> &[ArrayId] {
        match self {
            Dense::Input { .. } => &[],
            Dense::Product { operands, .. } => operands,
            Dense::Reduce { operand, .. } => std::slice::from_ref(operand),
            Dense::Map { operands, .. } | Dense::Kernel { operands, .. } => operands,
        }
    }
}

/// An output, or an assertion: a value that is an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The value.
    pub value: OpId,
    /// The array it must equal.
    pub array: ArrayId,
    /// Its sharding. The block of a device is its shard in row-major order.
    pub sharding: Sharding,
}

/// A box in a refined view of a block: one cut per dim.
pub type Region = Vec<Cut>;

/// The part of one dim of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The whole dim.
    Whole,
    /// The same range on every device.
    Range {
        /// The first.
        start: u64,
        /// One past the last.
        end: u64,
    },
    /// One index per device; absent where the map has none or the index exceeds the dim.
    At(CoordMap),
}

/// One number per device, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordMap {
    /// `constant + sum of factor * coordinate`, optionally modulo `modulo`; a negative value means none.
    Affine {
        /// Axes and factors.
        terms: Vec<(AxisId, i64)>,
        /// Constant.
        constant: i64,
        /// Modulus, at least 1.
        modulo: Option<u64>,
    },
    /// One entry per rank in the group of the axes, major first.
    Table {
        /// The axes.
        axes: Vec<AxisId>,
        /// One entry per member of the group.
        entries: Vec<Option<u64>>,
    },
}

impl CoordMap {
    /// The map `(coordinate + shift) mod n`.
    pub fn rotated(axis: AxisId, shift: i64, n: u64) -> CoordMap {
        CoordMap::Affine { terms: vec![(axis, 1)], constant: shift, modulo: Some(n) }
    }

    /// The map `coordinate + shift`, none below 0.
    pub fn shifted(axis: AxisId, shift: i64) -> CoordMap {
        CoordMap::Affine { terms: vec![(axis, 1)], constant: shift, modulo: None }
    }

    /// The map `(rank + shift) mod n`, with the rank in the groups of n of the axes, major first; without `wrap`
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

    /// A constant map.
    pub fn constant(value: i64) -> CoordMap {
        CoordMap::Affine { terms: Vec::new(), constant: value, modulo: None }
    }

    /// The rank of a device in the group of the axes, major first.
    pub fn rank(mesh: &Mesh, axes: &[AxisId]) -> CoordMap {
        CoordMap::along(mesh, axes.iter().copied().collect(), 0, false)
    }

    /// The value of the map on a device.
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
    /// An empty schedule. Its text form names split axes as the mesh declares them.
    pub fn new(mesh: Mesh) -> Schedule {
        Schedule {
            mesh: mesh.spelled_out(),
            arrays: Vec::new(),
            operations: DiGraph::new(),
            kernels: Vec::new(),
            outputs: Vec::new(),
            assertions: Vec::new(),
        }
    }

    /// Appends an operation.
    ///
    /// # Panics
    /// If an operand does not exist.
    pub fn push(&mut self, operation: Operation, operands: &[OpId]) -> OpId {
        let id = self.operations.add_node(operation);
        for (place, operand) in (0..).zip(operands) {
            self.operations.add_edge(*operand, id, place);
        }
        id
    }

    /// Asserts that a value is an array in a sharding, if it has the extents of its shards.
    pub(crate) fn assert(&mut self, value: OpId, array: ArrayId, sharding: Sharding) {
        let assertion = Output { value, array, sharding };
        if verify::check_output(self, &assertion).is_ok() {
            self.assertions.push(assertion);
        }
    }

    /// The operation with this id.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn operation(&self, id: OpId) -> &Operation {
        &self.operations[id]
    }

    /// All operations in list order.
    pub fn ids(&self) -> impl Iterator<Item = OpId> + use<> {
        self.operations.node_indices()
    }

    /// The operands of an operation, by index.
    pub fn operands(&self, id: OpId) -> Vec<OpId> {
        let edges = self.operations.edges_directed(id, Direction::Incoming);
        let mut operands: Vec<(u32, OpId)> = edges.map(|edge| (*edge.weight(), edge.source())).collect();
        operands.sort_unstable();
        operands.into_iter().map(|(_, operand)| operand).collect()
    }

    /// Number of uses of each value, by operations and outputs.
    pub(crate) fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.operations.node_count()];
        let operands = self.ids().flat_map(|id| self.operands(id));
        for used in operands.chain(self.outputs.iter().map(|output| output.value)) {
            uses[used.index()] += 1;
        }
        uses
    }

    /// Memory traffic of the members of kernels. Other operations read and write all their data.
    ///
    /// # Panics
    /// If a kernel has an operation that does not exist.
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

    /// The operations as nodes for fusion.
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
            elements: self.operation(id).elements(),
        };
        self.ids().map(node).collect()
    }

    /// The array with this id.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn array(&self, id: ArrayId) -> &Array {
        &self.arrays[id.index()]
    }
}
