//! Operations, and what is to be known of each kind of them.

use super::{ArrayId, CoordMap, Region, Route, Sources};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::{Filler, Function};
use crate::fusion::Role;
use crate::layout::Sharding;
use crate::mesh::AxisId;
use crate::operator::Operator;
use crate::span::Span;
use crate::topology::Work;

/// One operation of the whole mesh.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// What it does.
    pub kind: OpKind,
    /// Of the elements of its result.
    pub dtype: DType,
    /// Extents of the block that each device has after it, if it has one.
    pub extents: Vec<u64>,
    /// The step of the plan it belongs to, an index from 0.
    pub step: u32,
    /// The method that made it, where a method did.
    pub method: Option<&'static str>,
    /// The statement it comes from.
    pub span: Span,
}

impl Operation {
    /// Elements of the block of one device.
    pub fn elements(&self) -> u64 {
        self.extents.iter().product()
    }

    /// Bytes of the block of one device.
    pub fn bytes(&self) -> u64 {
        self.elements() * self.dtype.size()
    }
}

/// What an operation does.
#[derive(Clone, Debug, PartialEq)]
pub enum OpKind {
    /// The shard of an array that is given from outside.
    Input {
        /// The array.
        array: ArrayId,
        /// Spread like this.
        sharding: Sharding,
    },
    /// Each device keeps a region of its block. Outside the block, or from an absent block, the result is absent.
    Slice {
        /// The operand's extents, refined: some dims split in two or more, major first.
        view: Vec<u64>,
        /// What is kept.
        region: Region,
    },
    /// Each device receives the block of another one, or nothing: then the result is absent there.
    Shuffle {
        /// From whom.
        sources: Sources,
        /// On which way.
        route: Route,
    },
    /// Combines the operands element by element; absent ones are skipped, all absent gives absent.
    Add {
        /// With this operator, one that folds.
        operator: Operator,
    },
    /// Puts pieces into a new block; absent pieces are skipped, and the rest must fill the block. All absent gives
    /// absent.
    Assemble {
        /// The result's extents, refined: some dims split in two or more, major first.
        view: Vec<u64>,
        /// Where each operand goes.
        places: Vec<Region>,
    },
    /// The blocks of a replica group, concatenated along one dim in the order of the ranks. One operation for what
    /// a method spells out in many.
    AllGather {
        /// The axes that span the group, major first.
        axes: Vec<AxisId>,
        /// The dim of the block along which they are concatenated.
        dim: usize,
    },
    /// The blocks of a replica group, combined by the switch that joins it: each device sends its own once and receives
    /// the result once.
    SwitchSum {
        /// The axes that span the group.
        axes: Vec<AxisId>,
        /// With this operator, one that folds.
        operator: Operator,
    },
    /// A local product of two blocks.
    MatMul {
        /// How their dims meet.
        einsum: Einsum,
    },
    /// All elements of a block along some dims, combined.
    Reduce {
        /// By this operator, one that folds.
        operator: Operator,
        /// Which dims are left.
        einsum: Einsum,
    },
    /// An elementwise function of blocks.
    Map {
        /// Which.
        function: Function,
        /// How their dims line up.
        einsum: Einsum,
    },
    /// Puts a filler into the lanes of one dim that are padding.
    Fill {
        /// The dim of the block.
        dim: usize,
        /// The lanes of the whole array before this one are kept.
        valid: u64,
        /// What the others become.
        with: Filler,
        /// Which block of the dim each device has: its first lane is that many times the extent.
        block: CoordMap,
    },
    /// The first device along the axes keeps its block, the others get zeros: pieces of a sum that is the block.
    Mask {
        /// The axes.
        axes: Vec<AxisId>,
    },
}

/// How many operands an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// So many.
    Exactly(usize),
    /// One or more.
    AtLeastOne,
}

/// Whose blocks an operation needs on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reach<'a> {
    /// Nobody's: its own comes from outside.
    Given(&'a Sharding),
    /// The device's own.
    Own,
    /// That of one other device.
    Sent(&'a Sources, Route),
    /// Those of the group that these axes span.
    Gathered(&'a [AxisId]),
}

/// What is to be known of an operation without knowing what it computes.
#[derive(Clone, Copy, Debug)]
pub struct Properties<'a> {
    /// How many operands it takes.
    pub arity: Arity,
    /// Whose blocks it needs.
    pub reach: Reach<'a>,
    /// Whether there is no result where an operand is absent; else there is one where some operand is not.
    pub needs_all: bool,
    /// Whether each element of the result is one of an operand, or a constant.
    pub moves: bool,
    /// What engines have to do with it.
    pub work: Option<Work>,
    /// The view that its regions are of, and the region of each operand: what a slice keeps, where an assembly puts.
    pub regions: (&'a [u64], &'a [Region]),
    /// In a sentence: `a product`.
    pub noun: &'static str,
}

impl OpKind {
    /// What it is to fusion; none if it is no local computation.
    pub fn role(&self) -> Option<Role> {
        match self {
            OpKind::MatMul { .. } => Some(Role::Product),
            OpKind::Map { function: Function::Softmax { .. }, .. } => Some(Role::Softmax),
            OpKind::Map { .. } | OpKind::Reduce { .. } | OpKind::Fill { .. } => Some(Role::Function),
            OpKind::Input { .. }
            | OpKind::Slice { .. }
            | OpKind::Shuffle { .. }
            | OpKind::Add { .. }
            | OpKind::Assemble { .. }
            | OpKind::AllGather { .. }
            | OpKind::SwitchSum { .. }
            | OpKind::Mask { .. } => None,
        }
    }

    /// A row for each kind.
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
            OpKind::Assemble { view, places } => {
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
            OpKind::Map { function, .. } => {
                let (arity, noun) = (Exactly(function.arity()), "an elementwise function");
                Properties { moves: false, ..row(arity, noun, Some(Work::Map)) }
            }
            OpKind::Fill { .. } => row(Exactly(1), "a filler of padding", Some(Work::Fill)),
            OpKind::Mask { .. } => row(Exactly(1), "zeros for what a device has", Some(Work::Fill)),
        }
    }
}
