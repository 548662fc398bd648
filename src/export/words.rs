//! Lowers a plan's collectives to primitives of array languages: one exchange along one dim of the block, and local
//! operations before and after.
//!
//! The primitives of JAX and StableHLO work on one dim at a time. A gather of several dims gets an additional leading
//! dim for the pieces, which are rearranged afterwards, so that it stays one exchange.
//!
//! ```text
//! A[I_X, J_Y] -> A[I, J]     reshape (1, i, j), AllGather_XY along dim 0, (x, y, i, j) -> (x, i, y, j) -> (I, J)
//! ```

use crate::collective::Collective;
use crate::dtype::DType;
use crate::function::Function;
use crate::kernel::Local;
use crate::layout::{Layout, Sharding};
use crate::mesh::{Axes, AxisId, AxisSet, Mesh};
use crate::operator::Operator;
use crate::plan::{Plan, StepId, StepOp};
use crate::program::{Definition, Program, ValueId};
use crate::shift::{Part, Shift};
use crate::supply::{Supply, Table};
use itertools::Itertools;
use std::ops::Range;

/// A primitive. Those marked as local do not communicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Reshapes the block to `cut`, permutes its dims by `order`, and reshapes it to `extents`. Local.
    Rearrange {
        /// The extents of the block, with each dim split into one or more.
        cut: Vec<u64>,
        /// The permutation: for each new dim, the previous one.
        order: Vec<usize>,
        /// The extents of the result.
        extents: Vec<u64>,
    },
    /// Concatenates the blocks of a group along a dim, in group order.
    AllGather {
        /// The group, major first.
        axes: Axes,
        /// Dim of the block.
        dim: usize,
    },
    /// Combines the blocks of a group; each device gets its part along a dim.
    ReduceScatter {
        /// The group, major first.
        axes: Axes,
        /// Dim of the block.
        dim: usize,
        /// A fold operator.
        operator: Operator,
    },
    /// Combines the blocks of a group.
    AllReduce {
        /// The group.
        axes: Axes,
        /// A fold operator.
        operator: Operator,
    },
    /// Splits each block along one dim, sends one part to each device, and concatenates the received parts along
    /// another dim.
    AllToAll {
        /// The group, major first.
        axes: Axes,
        /// The dim that is split.
        split: usize,
        /// The dim along which the parts are concatenated.
        join: usize,
    },
    /// Sends each block to one other device.
    Permute {
        /// The group, major first.
        axes: Axes,
        /// Source and target positions in the group, sorted by target.
        pairs: Vec<(u64, u64)>,
    },
    /// Moves elements along a dim, also between devices; zeros where none comes from.
    Shift {
        /// The axes of the dim, major first.
        axes: Axes,
        /// Dim of the block.
        dim: usize,
        /// The parts of the result in order.
        parts: Vec<Rows>,
    },
    /// Keeps the device's part along a dim. Local.
    Own {
        /// The group, major first.
        axes: Axes,
        /// Dim of the block.
        dim: usize,
        /// Length of the part.
        length: u64,
    },
    /// Replaces the block by zeros on all but one device of the group. Local.
    OnlyOn {
        /// The rank of the device.
        rank: u64,
        /// The group.
        axes: Axes,
    },
    /// Squares the elements. Local.
    Square,
    /// Divides the elements by a number. Local.
    Over(u64),
    /// Reduces the first dim. Local.
    Fold(Operator),
}

/// Some rows of the result of a shift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The rows of the block that are kept or sent.
    pub rows: Range<u64>,
    /// Source and target positions in the group; `None` if the rows stay.
    pub sent: Option<Vec<(u64, u64)>>,
}

/// The reduction operators that a language supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// JAX reduces by sum, max and min (for bools: or, and), and scatters only sums.
    Jax,
    /// StableHLO supports all fold operators.
    StableHlo,
}

impl Vocabulary {
    fn scatters(self, operator: Operator) -> bool {
        match self {
            Vocabulary::Jax => operator == Operator::Sum,
            Vocabulary::StableHlo => operator.folds(),
        }
    }

    fn reduces(self, operator: Operator) -> bool {
        match self {
            Vocabulary::Jax => operator.folds() && operator != Operator::Mul,
            Vocabulary::StableHlo => operator.folds(),
        }
    }
}

/// The words for a collective applied to a block of this layout.
///
/// If the language scatters only sums, a scattered maximum becomes an AllToAll and a local fold. A product over all
/// blocks becomes a gather and a fold. A broadcast becomes the sum of one block and zeros.
pub fn words(collective: &Collective, from: &Layout, mesh: &Mesh, vocabulary: Vocabulary) -> Vec<Word> {
    let sentence = Sentence { from, mesh, extents: from.local_extents(mesh), words: Vec::new() };
    sentence.of(collective, vocabulary)
}

/// The axes of an open sum. Its pieces form a leading dim of arrays that are passed in or out; if only one
/// device holds the array, there is one piece.
pub(super) fn pieces(layout: &Layout) -> Option<Axes> {
    let is_sum = !layout.sharding.open.is_empty() && !layout.sharding.operator.is_root();
    is_sum.then(|| layout.sharding.open.in_order())
}

/// The inputs that the caller passes, in order.
pub(super) fn given(plan: &Plan) -> Vec<StepId> {
    plan.ids()
        .filter(|id| plan.step(*id).op == StepOp::Input && generated(&plan.program, plan.step(*id).value).is_none())
        .collect()
}

/// An array that each device makes by itself.
pub(super) enum Generated<'a> {
    /// The positions along its dim, of this length.
    Places(u64),
    /// These elements.
    Table(&'a Table),
}

/// The array of a value that each device makes by itself, without padding.
pub(super) fn generated(program: &Program, id: ValueId) -> Option<Generated<'_>> {
    let value = program.value(id);
    match &value.definition {
        Definition::Input { supply: Supply::Counted } => Some(Generated::Places(program.dims.size(value.dims[0].id))),
        Definition::Input { supply: Supply::Table(table) } => Some(Generated::Table(table)),
        _ => None,
    }
}

/// The operation of a value on whole arrays: moves and renamings are identities, and there is no padding to fill.
pub(super) fn of_whole(program: &Program, id: ValueId) -> StepOp {
    let einsum = || program.einsum(id);
    match &program.value(id).definition {
        Definition::Input { .. } => StepOp::Input,
        Definition::Product { .. } => StepOp::Product { einsum: einsum() },
        Definition::Kernel { kernel, .. } => StepOp::Kernel(kernel.clone()),
        Definition::Reduce { operator, .. } => StepOp::Reduce { operator: *operator, einsum: einsum() },
        Definition::Map { function: Function::Fill { .. }, .. }
        | Definition::Move { .. }
        | Definition::Collective { .. }
        | Definition::Rename { .. } => StepOp::Map { function: Function::Identity, einsum: einsum() },
        Definition::Map { function, .. } => StepOp::Map { function: *function, einsum: einsum() },
    }
}

/// A step of a formula as a step of a plan.
pub(super) fn local(op: &Local) -> StepOp {
    match op.clone() {
        Local::Product(einsum) => StepOp::Product { einsum },
        Local::Reduce(operator, einsum) => StepOp::Reduce { operator, einsum },
        Local::Map(function, einsum) => StepOp::Map { function, einsum },
    }
}

/// The axes of a filler's padded dim, and its length per device; these determine where its lanes begin in the whole
/// array. `None` if the dim is whole.
pub(super) fn filled(plan: &Plan, id: StepId) -> Option<(Axes, u64)> {
    let StepOp::Map { function: Function::Fill { dim, .. }, .. } = plan.step(id).op else { return None };
    let (layout, dim) = (&plan.step(id).layout, usize::from(dim));
    let axes = layout.sharding.dims[dim];
    (!axes.is_empty()).then(|| (axes, layout.local_extents(&plan.program.mesh)[dim]))
}

/// The extents of an array as passed in or out: the pieces of an open sum first, without padding.
pub(super) fn declared(plan: &Plan, layout: &Layout) -> Vec<u64> {
    in_front(plan, layout).chain(layout.dims.iter().map(|dim| plan.program.dims.size(dim.id))).collect()
}

/// As [`declared`], with the padding that the layouts need.
pub(super) fn padded(plan: &Plan, layout: &Layout) -> Vec<u64> {
    in_front(plan, layout).chain(layout.dims.iter().map(|dim| dim.size)).collect()
}

fn in_front(plan: &Plan, layout: &Layout) -> impl Iterator<Item = u64> {
    pieces(layout).map(|axes| axes.group_size(&plan.program.mesh)).into_iter()
}

struct Sentence<'a> {
    from: &'a Layout,
    mesh: &'a Mesh,
    /// Extents of the current block.
    extents: Vec<u64>,
    words: Vec<Word>,
}

impl Sentence<'_> {
    fn of(mut self, collective: &Collective, vocabulary: Vocabulary) -> Vec<Word> {
        let mesh = self.mesh;
        let sharding = &self.from.sharding;
        let operator = sharding.operator;
        match collective {
            Collective::AllGather { axes } => {
                let on = |dim: &Axes| -> Axes { dim.iter().filter(|axis| axes.contains(*axis)).collect() };
                self.gather(&sharding.dims.iter().map(on).collect::<Vec<_>>());
            }
            Collective::ReduceScatter { dims } => {
                let group = dims.iter().fold(Axes::NONE, |group, axes| group.then(*axes));
                self.around(operator, group, |sentence, operator| sentence.scatter(dims, operator, vocabulary));
            }
            Collective::AllReduce { axes } => {
                let group = axes.in_order();
                self.around(operator, group, |sentence, operator| sentence.reduce(group, operator, vocabulary));
            }
            Collective::AllToAll { axes, from, to } => self.exchange(*axes, *from, *to),
            Collective::Permute { to } => self.permute(collective, to),
            Collective::Shift(shift) => self.shift(*shift),
            // Reshards without a primitive are lowered step by step.
            Collective::Reshard { by, .. } => {
                // Axes of size 1 may differ between the iterations of a repeat.
                let units: AxisSet = mesh.axis_ids().filter(|axis| mesh.size(*axis) == 1).collect();
                let bare = |sharding: &Sharding| {
                    let dims = sharding.dims.iter().map(|axes| axes.without(units)).collect();
                    Sharding { dims, ..sharding.clone() }
                };
                let mut from = Layout { sharding: bare(sharding), ..self.from.clone() };
                for step in by {
                    let step = step.mapped(&|axes| axes.without(units), &bare);
                    // Without them, a step may do nothing.
                    if let Some(to) = step.apply(&from.sharding, mesh) {
                        self.words.extend(words(&step, &from, mesh, vocabulary));
                        from.sharding = to;
                    }
                }
            }
            Collective::Broadcast { axes } => {
                let axes = axes.in_order();
                let rank = sharding.root_along(axes, mesh).unwrap_or_default();
                self.words.push(Word::OnlyOn { rank, axes });
                // Bools have no sum.
                let operator = if self.from.dtype == DType::Bool { Operator::Or } else { Operator::Sum };
                self.words.push(Word::AllReduce { axes, operator });
            }
            Collective::Slice { axes, dim } => {
                let length = self.extents[*dim] / axes.group_size(mesh);
                self.words.push(Word::Own { axes: *axes, dim: *dim, length });
            }
            Collective::Open { axes } => self.words.push(Word::OnlyOn { rank: 0, axes: axes.in_order() }),
        }
        self.words
    }

    /// Adds the operator's function before and after a fold.
    fn around(&mut self, operator: Operator, group: Axes, combine: impl FnOnce(&mut Self, Operator)) {
        if operator == Operator::SquareAdd {
            self.words.push(Word::Square);
        }
        combine(self, operator.combiner());
        let size = group.group_size(self.mesh);
        if operator == Operator::Mean && size > 1 {
            self.words.push(Word::Over(size));
        }
    }

    /// `on`: the axes that each dim loses, a suffix of its own.
    fn gather(&mut self, on: &[Axes]) {
        if let Some((dim, axes)) = only(on) {
            self.words.push(Word::AllGather { axes, dim });
            return;
        }
        let axes = on.iter().fold(Axes::NONE, |all, axes| all.then(*axes));
        let pieces: Vec<u64> = on.iter().map(|axes| axes.group_size(self.mesh)).collect();
        self.front();
        self.words.push(Word::AllGather { axes, dim: 0 });
        // (x, y, i, j) -> (x, i, y, j)
        let rank = self.extents.len();
        let order = (0..rank).flat_map(|dim| [dim, rank + dim]).collect();
        let cut = pieces.iter().chain(&self.extents).copied().collect();
        let extents = pieces.iter().zip(&self.extents).map(|(pieces, extent)| pieces * extent).collect();
        self.words.push(Word::Rearrange { cut, order, extents });
    }

    /// `on`: the axes that each dim gets.
    fn scatter(&mut self, on: &[Axes], operator: Operator, vocabulary: Vocabulary) {
        let scatters = vocabulary.scatters(operator);
        if let Some((dim, axes)) = only(on).filter(|_| scatters) {
            self.words.push(Word::ReduceScatter { axes, dim, operator });
            return;
        }
        let axes = on.iter().fold(Axes::NONE, |all, axes| all.then(*axes));
        let pieces: Vec<u64> = on.iter().map(|axes| axes.group_size(self.mesh)).collect();
        let parts: Vec<u64> = pieces.iter().zip(&self.extents).map(|(pieces, extent)| extent / pieces).collect();
        // (x, i, y, j) -> (x, y, i, j) -> (x * y, i, j)
        let rank = parts.len();
        let cut = pieces.iter().copied().interleave(parts.iter().copied()).collect();
        let order = (0..rank).map(|dim| 2 * dim).chain((0..rank).map(|dim| 2 * dim + 1)).collect();
        let size = axes.group_size(self.mesh);
        self.words.push(Word::Rearrange { cut, order, extents: [vec![size], parts.clone()].concat() });
        if scatters {
            self.words.push(Word::ReduceScatter { axes, dim: 0, operator });
            let cut = [vec![1], parts.clone()].concat();
            self.words.push(Word::Rearrange { order: (0..cut.len()).collect(), cut, extents: parts });
        } else {
            self.words.push(Word::AllToAll { axes, split: 0, join: 0 });
            self.words.push(Word::Fold(operator));
        }
    }

    fn reduce(&mut self, axes: Axes, operator: Operator, vocabulary: Vocabulary) {
        if vocabulary.reduces(operator) {
            self.words.push(Word::AllReduce { axes, operator });
            return;
        }
        self.front();
        self.words.push(Word::AllGather { axes, dim: 0 });
        self.words.push(Word::Fold(operator));
    }

    /// Adds a leading dim of length 1.
    fn front(&mut self) {
        let order = (0..self.extents.len()).collect();
        let extents = [vec![1], self.extents.clone()].concat();
        self.words.push(Word::Rearrange { cut: self.extents.clone(), order, extents });
    }

    /// Parts arrive in the order of the dim that gets the axes, and are reordered for the dim that loses them.
    fn exchange(&mut self, axes: Axes, from: usize, to: usize) {
        self.words.push(Word::AllToAll { axes, split: to, join: from });
        let lost: Vec<AxisId> = self.from.sharding.dims[from].iter().filter(|axis| axes.contains(*axis)).collect();
        let got: Vec<AxisId> = axes.iter().collect();
        if lost == got {
            return;
        }
        let size = |axis: &AxisId| self.mesh.size(*axis);
        let extents = self.extents.iter().enumerate().map(|(dim, extent)| match dim {
            _ if dim == from => extent * axes.group_size(self.mesh),
            _ if dim == to => extent / axes.group_size(self.mesh),
            _ => *extent,
        });
        let extents: Vec<u64> = extents.collect();
        // Only the dim that loses the axes is split: by the axes, then by the part of one device.
        let cut_from: Vec<u64> = got.iter().map(size).chain([self.extents[from]]).collect();
        let cut = [&extents[..from], &cut_from, &extents[from + 1..]].concat();
        let places = lost.iter().map(|axis| from + got.iter().position(|other| other == axis).unwrap_or_default());
        let order = (0..from).chain(places).chain(from + got.len()..cut.len()).collect();
        self.words.push(Word::Rearrange { cut, order, extents });
    }

    fn shift(&mut self, shift: Shift) {
        let dim = shift.dim();
        let axes = self.from.sharding.dims[dim];
        let n = axes.group_size(self.mesh);
        let rows = |part: Part| {
            let stays = part.blocks == 0 || shift.wraps && part.blocks.is_multiple_of(n);
            Rows { rows: part.from, sent: (!stays).then(|| shift.pairs(part.blocks, n)) }
        };
        let parts = shift.parts(self.extents[dim]).sorted_by_key(|part| part.to.start).map(rows).collect();
        self.words.push(Word::Shift { axes, dim, parts });
    }

    fn permute(&mut self, collective: &Collective, to: &Sharding) {
        let sharding = &self.from.sharding;
        let moved: Vec<AxisId> = collective.axes(sharding, self.mesh).iter().collect();
        let sources = crate::recipe::sources(sharding, to, &moved, self.mesh);
        let pairs = sources.into_iter().zip(0..).filter_map(|(source, place)| Some((u64::from(source?), place)));
        self.words.push(Word::Permute { axes: moved.iter().copied().collect(), pairs: pairs.collect() });
    }
}

/// The only dim with axes.
fn only(on: &[Axes]) -> Option<(usize, Axes)> {
    let with = on.iter().copied().enumerate().filter(|(_, axes)| !axes.is_empty());
    with.exactly_one().ok()
}
