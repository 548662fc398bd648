//! Operations and their properties.

use super::{ArrayId, CoordMap, Region, Route, Sources};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::{Filler, Function};
use crate::fusion::Role;
use crate::kernel::Kernel;
use crate::layout::Sharding;
use crate::mesh::AxisId;
use crate::operator::Operator;
use crate::shift::Shift;
use crate::span::Span;
use crate::topology::Work;
use std::sync::Arc;

/// An operation on the whole mesh.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Its kind.
    pub kind: OpKind,
    /// Element type of the result.
    pub dtype: DType,
    /// Extents of the result block, where present.
    pub extents: Vec<u64>,
    /// Step of the plan it belongs to, from 0.
    pub step: u32,
    /// Method that generated it, if any.
    pub method: Option<&'static str>,
    /// The statement that it comes from.
    pub span: Span,
}

impl Operation {
    /// Elements of one block.
    pub fn elements(&self) -> u64 {
        self.extents.iter().product()
    }

    /// Bytes of one block.
    pub fn bytes(&self) -> u64 {
        self.dtype.bytes(self.elements())
    }
}

/// The kind of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum OpKind {
    /// The shard of an input.
    Input {
        /// The array.
        array: ArrayId,
        /// Its sharding.
        sharding: Sharding,
    },
    /// A region of the block on each device. If the region exceeds the block, or the block is absent, so is the result.
    Slice {
        /// The operand's extents, refined: some dims are split, major first.
        view: Vec<u64>,
        /// The region.
        region: Region,
    },
    /// The block of another device; absent on devices without a source.
    Shuffle {
        /// Sources.
        sources: Sources,
        /// Routes.
        route: Route,
    },
    /// Elementwise combination of the operands; absent ones are skipped, and if all are absent, so is the result.
    Add {
        /// The operator, which folds.
        operator: Operator,
    },
    /// Pieces assembled into a block; absent pieces are skipped, and the others must fill the block. If all are absent, so
    /// is the result.
    Assemble {
        /// The result's extents, refined: some dims are split, major first.
        view: Vec<u64>,
        /// The region of each operand.
        places: Vec<Region>,
        /// Whether the pieces may leave gaps: elements that are 0.
        zeros: bool,
    },
    /// The concatenated blocks of a replica group in rank order: a collective that is kept as one operation.
    AllGather {
        /// The axes of the group, major first.
        axes: Vec<AxisId>,
        /// The concatenated dim of the block.
        dim: usize,
    },
    /// The blocks of a replica group, combined by its switch: each device sends its block once and receives the result once.
    SwitchSum {
        /// The axes of the group.
        axes: Vec<AxisId>,
        /// The operator, which folds.
        operator: Operator,
    },
    /// A local product of two blocks.
    MatMul {
        /// The einsum.
        einsum: Einsum,
    },
    /// A local reduction over some dims.
    Reduce {
        /// The operator, which folds.
        operator: Operator,
        /// The remaining dims.
        einsum: Einsum,
    },
    /// A declared kernel on blocks.
    Kernel(Arc<Kernel>),
    /// An elementwise function of blocks.
    Map {
        /// The function.
        function: Function,
        /// Alignment of the operands.
        einsum: Einsum,
    },
    /// A fill of the padding lanes of one dim.
    Fill {
        /// The dim of the block.
        dim: usize,
        /// First padding lane of the whole array.
        valid: u64,
        /// The filler.
        with: Filler,
        /// The index of each device's block of the dim: its first lane is this index times the extent.
        block: CoordMap,
    },
    /// The last step of a shift along a dim: the block holds the elements that come from the distance before, and becomes 0
    /// where there are none.
    Shift {
        /// The dim and the distance.
        shift: Shift,
        /// Extent of the whole dim.
        length: u64,
        /// The index of each device's block of the dim: its first position is this index times the extent.
        block: CoordMap,
    },
    /// The block on the first device along the axes and zeros on the others: contributions to a sum equal to the block.
    Mask {
        /// The axes.
        axes: Vec<AxisId>,
    },
    /// The same elements in row-major order, in a block of other extents.
    Reshape,
}

/// The number of operands of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly this number.
    Exactly(usize),
    /// One or more.
    AtLeastOne,
}

/// The devices whose blocks an operation needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reach<'a> {
    /// None: an input.
    Given(&'a Sharding),
    /// The device itself.
    Own,
    /// One other device.
    Sent(&'a Sources, Route),
    /// The group of these axes.
    Gathered(&'a [AxisId]),
}

/// Properties of an operation that are independent of its computation.
#[derive(Clone, Copy, Debug)]
pub struct Properties<'a> {
    /// Number of operands.
    pub arity: Arity,
    /// Devices whose blocks it needs.
    pub reach: Reach<'a>,
    /// Whether the result is absent if any operand is; otherwise, if all are.
    pub needs_all: bool,
    /// Whether each element of the result is an element of an operand, or a constant.
    pub moves: bool,
    /// The kind of work for engines.
    pub work: Option<Work>,
    /// The view and the region of each operand: the kept part of a slice, the target of an assembly.
    pub regions: (&'a [u64], &'a [Region]),
    /// A noun for messages: `a product`.
    pub noun: &'static str,
}

impl OpKind {
    /// Its role in fusion; `None` if it is not a local computation.
    pub fn role(&self) -> Option<Role> {
        match self {
            OpKind::MatMul { .. } => Some(Role::Product),
            OpKind::Map { function: Function::Softmax { .. }, .. } => Some(Role::Softmax),
            OpKind::Map { function: Function::Shift(_), .. } | OpKind::Shift { .. } => None,
            OpKind::Map { .. } | OpKind::Reduce { .. } | OpKind::Fill { .. } => Some(Role::Function),
            OpKind::Input { .. }
            | OpKind::Kernel(_)
            | OpKind::Slice { .. }
            | OpKind::Shuffle { .. }
            | OpKind::Add { .. }
            | OpKind::Assemble { .. }
            | OpKind::AllGather { .. }
            | OpKind::SwitchSum { .. }
            | OpKind::Mask { .. }
            | OpKind::Reshape => None,
        }
    }

    /// The properties of this kind.
    pub fn properties(&self) -> Properties<'_> {
        use Arity::{AtLeastOne, Exactly};
        let row = |arity, noun, work| Properties {
            arity,
            reach: Reach::Own,
            needs_all: arity != AtLeastOne,
            moves: true,
            work,
            regions: (&[], &[]),
            noun,
        };
        match self {
            OpKind::Input { sharding, .. } => {
                Properties { reach: Reach::Given(sharding), moves: false, ..row(Exactly(0), "an input", None) }
            }
            OpKind::Slice { view, region } => Properties {
                regions: (view, std::slice::from_ref(region)),
                ..row(Exactly(1), "a slice", Some(Work::Slice))
            },
            OpKind::Shuffle { sources, route } => {
                Properties { reach: Reach::Sent(sources, *route), ..row(Exactly(1), "a message", Some(Work::Shuffle)) }
            }
            OpKind::Add { .. } => Properties { moves: false, ..row(AtLeastOne, "an addition", Some(Work::Add)) },
            OpKind::Assemble { view, places, .. } => {
                let arity = Exactly(places.len().max(1));
                Properties {
                    regions: (view, places),
                    needs_all: false,
                    ..row(arity, "an assembly", Some(Work::Assemble))
                }
            }
            OpKind::AllGather { axes, .. } => {
                let noun = "an AllGather that is kept whole";
                Properties { reach: Reach::Gathered(axes), ..row(Exactly(1), noun, Some(Work::Shuffle)) }
            }
            OpKind::SwitchSum { axes, .. } => {
                let reach = Reach::Gathered(axes);
                Properties { reach, moves: false, ..row(Exactly(1), "a sum in the switch", Some(Work::Shuffle)) }
            }
            OpKind::MatMul { .. } => Properties { moves: false, ..row(Exactly(2), "a product", Some(Work::MatMul)) },
            OpKind::Reduce { .. } => {
                let noun = "a reduction over dims";
                Properties { moves: false, ..row(Exactly(1), noun, Some(Work::Reduce)) }
            }
            OpKind::Kernel(kernel) => {
                let arity = Exactly(kernel.einsum.operands.len());
                Properties { moves: false, ..row(arity, "a declared kernel", Some(Work::MatMul)) }
            }
            OpKind::Map { function, .. } => {
                let (arity, noun) = (Exactly(function.arity()), "an elementwise function");
                Properties { moves: false, ..row(arity, noun, Some(Work::Map)) }
            }
            OpKind::Fill { .. } => row(Exactly(1), "a filler of padding", Some(Work::Fill)),
            OpKind::Shift { .. } => row(Exactly(1), "a shift", Some(Work::Assemble)),
            OpKind::Mask { .. } => row(Exactly(1), "zeros for what a device has", Some(Work::Fill)),
            OpKind::Reshape => row(Exactly(1), "a reshape", None),
        }
    }
}
