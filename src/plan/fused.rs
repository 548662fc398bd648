//! Kernels of a program if nothing were communicated, and kernels of a plan.
//!
//! A kernel of a plan is a part of a kernel of the program: communicated values leave it.

use super::{Budget, Plan, Step, StepId, StepOp, operands};
use crate::collective::Collective;
use crate::dtype::DType;
use crate::function::Function;
use crate::fusion::{self, Access, Fusion, Makes, Node, Role, Writes};
use crate::program::{Carried, Definition, Program, ValueId, Wanted};
use crate::supply::Supply;
use itertools::Itertools;
use petgraph::Direction;
use petgraph::algo::bridges::bridges;
use petgraph::graph::{DiGraph, UnGraph};
use petgraph::unionfind::UnionFind;
use petgraph::visit::EdgeRef;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

/// The role of a function in fusion. A shift, which needs other devices if its dim is sharded, is a pass of its own.
fn role(function: Function) -> Option<Role> {
    match function {
        Function::Shift(_) => None,
        Function::Softmax { .. } => Some(Role::Softmax),
        _ => Some(Role::Function),
    }
}

/// Number of elements of a value.
fn elements(program: &Program, id: ValueId) -> u64 {
    program.value(id).dims.iter().map(|dim| dim.size).fold(1, u64::saturating_mul)
}

/// The array that is written in place of the result of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Replaced {
    /// An array of the same dims: its dtype, and that of the product.
    Alike([DType; 2]),
    /// An array of other dims; a block of the product has at most these bytes.
    Other(u64),
}

/// The kernels of a program without communication.
pub(super) struct Structure {
    /// The kernel of each value, by its first value.
    kernels: Vec<Option<usize>>,
    /// Memory traffic of each value.
    access: Vec<Access>,
    /// The values of the same kernel that lead to each value.
    before: Vec<BTreeSet<usize>>,
    /// Number of uses of each value.
    uses: Vec<usize>,
    /// Pairs of a value and a user in its kernel that pays for reading it from elsewhere.
    readers: BTreeSet<(usize, usize)>,
    /// Pairs of a value and a user that only this use holds together in one kernel.
    bridges: BTreeSet<(usize, usize)>,
    /// For a product whose write is replaced by a later result: how.
    replaced: Vec<Option<Replaced>>,
    /// The operand of each value that decides whether a row is looked up: the one-hot factor of a product, and what it is
    /// computed from up to the comparison.
    hot: Vec<Option<usize>>,
    /// Whether each value is renamed or moved, which may leave it in place.
    is_relabelled: Vec<bool>,
}

/// See [`Structure::hot`].
fn hot_operands(nodes: &[Node], access: &[Access]) -> Vec<Option<usize>> {
    let mut hot: Vec<Option<usize>> = access.iter().map(|access| Some(access.lookup?.factor)).collect();
    for product in (0..nodes.len()).filter(|at| access[*at].lookup.is_some()) {
        let mut at = hot[product].map(|factor| nodes[product].operands[factor]);
        while let Some(own) = at.filter(|at| matches!(nodes[*at].makes, Makes::Same(_) | Makes::Filled)) {
            hot[own] = Some(0);
            at = nodes[own].operands.first().copied();
        }
    }
    hot
}

/// A number for each body, and for each section of the program between two bodies. No kernel spans a loop: values
/// after a loop depend on all values carried into it, over several iterations, and the values of a single body do not
/// show this.
fn stretch(program: &Program, id: ValueId) -> usize {
    let begun = program.repeats.iter().filter(|repeat| repeat.body.start <= id.index()).count();
    2 * begun - usize::from(program.body_of(id).is_some())
}

impl Structure {
    pub(super) fn new(program: &Program, fusion: Fusion) -> Structure {
        let read = program.read();
        let is_handed_on = |carried: &&Carried| program.is_handed_on(carried.first, &read);
        let handed_on: BTreeSet<ValueId> = program.carried().filter(is_handed_on).map(|carried| carried.last).collect();
        let leaves = |id: ValueId| program.outputs.contains(&id) || handed_on.contains(&id);
        let carries: BTreeSet<ValueId> = program.carried().flat_map(|carried| [carried.first, carried.last]).collect();
        let node = |id: ValueId| {
            let value = program.value(id);
            let role = match &value.definition {
                Definition::Product { .. } => Some(Role::Product),
                Definition::Reduce { .. } => Some(Role::Function),
                Definition::Map { function, .. } => role(*function),
                Definition::Input { .. }
                | Definition::Kernel { .. }
                | Definition::Move { .. }
                | Definition::Collective { .. }
                | Definition::Rename { .. } => None,
            };
            Node {
                // A value with layout holes is moved to one layout for all its users, so it cannot be fused.
                role: role.filter(|_| !matches!(value.wanted, Wanted::Partly(_))),
                operands: match carries.contains(&id) && !read.contains(&id) {
                    true => Vec::new(),
                    false => value.definition.operands().iter().map(|operand| operand.index()).collect(),
                },
                leaves: leaves(id),
                mark: stretch(program, id),
                elements: elements(program, id),
                makes: match &value.definition {
                    Definition::Input { supply: Supply::Counted } => Makes::Places,
                    Definition::Product { .. } => Makes::Product(program.einsum(id)),
                    Definition::Map { function, .. } => Makes::of(*function, || program.einsum(id)),
                    Definition::Input { .. }
                    | Definition::Reduce { .. }
                    | Definition::Kernel { .. }
                    | Definition::Move { .. }
                    | Definition::Collective { .. }
                    | Definition::Rename { .. } => Makes::Other,
                },
            }
        };
        let nodes: Vec<Node> = program.value_ids().map(node).collect();
        let found = fusion::kernels(&nodes, fusion);
        // An array and the same with renamed dims are one block in memory, which a kernel reads once. So is what moves may
        // leave in place.
        let same = |at: usize| match &program.values[at].definition {
            Definition::Rename { operand } => Some(operand.index()),
            Definition::Move { operand, .. } => {
                let is_transposed = program.values[at].dims != program.value(*operand).dims;
                (!is_transposed).then(|| operand.index())
            }
            Definition::Collective { collective, from, operand } => {
                collective.is_idle(from, &program.mesh).then(|| operand.index())
            }
            Definition::Input { .. }
            | Definition::Product { .. }
            | Definition::Reduce { .. }
            | Definition::Map { .. }
            | Definition::Kernel { .. } => None,
        };
        let block = |at: &usize| successors(Some(*at), |at| same(*at)).last().unwrap_or(*at);
        // What is only renamed and moved, and never used, need not be written.
        let mut is_used: Vec<bool> = nodes.iter().map(|node| node.leaves).collect();
        for (at, node) in nodes.iter().enumerate().rev() {
            if is_used[at] || same(at).is_none() {
                node.operands.iter().for_each(|operand| is_used[*operand] = true);
            }
        }
        let in_memory = |(at, node): (usize, &Node)| {
            let reads = is_used[at] || same(at).is_none();
            let operands = node.operands.iter().filter(|_| reads).map(block).collect();
            Node { operands, ..node.clone() }
        };
        let access = fusion::accesses(&nodes.iter().enumerate().map(in_memory).collect::<Vec<Node>>(), &found);
        let mut kernels = vec![None; nodes.len()];
        for kernel in &found {
            kernel.iter().for_each(|member| kernels[*member] = kernel.first().copied());
        }
        let mut before: Vec<BTreeSet<usize>> = Vec::with_capacity(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            let own = |operand: &&usize| kernels[at].is_some() && kernels[**operand] == kernels[at];
            let operands = node.operands.iter().filter(own);
            before.push(operands.flat_map(|operand| before[*operand].iter().copied().chain([*operand])).collect());
        }
        let mut uses = vec![0; nodes.len()];
        let unread = program.unread_names();
        let reading = nodes.iter().zip(&unread).filter(|(_, is_unread)| !**is_unread);
        reading.flat_map(|(node, _)| &node.operands).for_each(|operand| uses[*operand] += 1);
        let mut replaced = vec![None; nodes.len()];
        for (id, access) in program.value_ids().zip(&access) {
            if let Writes::Beyond(product) = access.writes {
                let (own, other) = (program.value(id), &program.values[product]);
                let is_alike = own.dims.len() == other.dims.len()
                    && own.dims.iter().all(|dim| other.dims.iter().any(|other| other.id == dim.id));
                replaced[product] = Some(match is_alike {
                    true => Replaced::Alike([own.dtype, other.dtype]),
                    false => Replaced::Other(other.dtype.bytes(nodes[product].elements)),
                });
            }
        }
        let mut inside: BTreeSet<(usize, usize)> = BTreeSet::new();
        for (user, node) in nodes.iter().enumerate().filter(|(user, _)| kernels[*user].is_some()) {
            let own = node.operands.iter().filter(|operand| kernels[**operand] == kernels[user]);
            inside.extend(own.map(|operand| (*operand, user)));
        }
        let readers = readers_of(&found, &inside, &before);
        let bridges = bridges_of(&inside);
        let hot = hot_operands(&nodes, &access);
        let mut is_relabelled = vec![false; nodes.len()];
        (0..nodes.len()).filter_map(same).for_each(|operand| is_relabelled[operand] = true);
        Structure { kernels, access, before, uses, readers, bridges, replaced, hot, is_relabelled }
    }

    /// The operand that must be in the kernel of a value for rows to be looked up.
    pub(super) fn hot_operand(&self, id: ValueId) -> Option<usize> {
        self.hot[id.index()]
    }

    /// The kernel of a value, by its first value.
    pub(super) fn kernel(&self, id: ValueId) -> Option<usize> {
        self.kernels[id.index()]
    }

    /// Whether a value is fused into one of its users.
    pub(super) fn is_passed_on(&self, from: ValueId, to: ValueId) -> bool {
        self.kernel(from).is_some() && self.kernel(from) == self.kernel(to)
    }

    /// Whether a value leads to another one within their kernel.
    pub(super) fn is_before(&self, first: ValueId, second: ValueId) -> bool {
        self.before[second.index()].contains(&first.index())
    }

    /// Memory traffic of a value.
    pub(super) fn access(&self, id: ValueId) -> &Access {
        &self.access[id.index()]
    }

    /// Whether a value has one user.
    pub(super) fn is_used_once(&self, id: ValueId) -> bool {
        self.uses[id.index()] == 1
    }

    /// Whether a value is never in memory if all its users compute with it where it is made.
    pub(super) fn is_never_written(&self, id: ValueId) -> bool {
        self.access(id).is_inside && !self.is_relabelled[id.index()]
    }

    /// Whether a user pays for reading a value of its kernel from elsewhere.
    pub(super) fn pays_for_reading(&self, from: ValueId, to: ValueId) -> bool {
        self.readers.contains(&(from.index(), to.index()))
    }

    /// Whether the kernel falls into two if the user takes the value from elsewhere.
    pub(super) fn is_split_between(&self, from: ValueId, to: ValueId) -> bool {
        self.bridges.contains(&(from.index(), to.index()))
    }

    /// What replaces the write of a product.
    pub(super) fn replaced_by(&self, product: usize) -> Option<Replaced> {
        self.replaced[product]
    }

    /// The part of a result that replaces the write of a product, at most the product's own bytes.
    ///
    /// - `elements`: of the block of the result, which has `bytes`.
    pub(super) fn paid(&self, product: usize, elements: u64, bytes: u64) -> u64 {
        match self.replaced[product] {
            Some(Replaced::Alike([_, own])) => own.bytes(elements),
            Some(Replaced::Other(most)) => bytes.min(most),
            None => bytes,
        }
    }

    /// The bytes of a product that pay for the write of a later result.
    pub(super) fn written_apart(&self, product: ValueId, bytes: u64) -> u64 {
        match self.replaced[product.index()] {
            // A product has whole bytes.
            Some(Replaced::Alike([result, own])) => result.bytes(bytes / own.bytes(1)).min(bytes),
            Some(Replaced::Other(_)) | None => 0,
        }
    }
}

/// The users that pay for reading a value of their kernel from elsewhere, as pairs with the value.
///
/// Users that are connected without the value may still be one kernel behind a break, which reads it once. Of these only one
/// pays, which is most likely behind a break: the last one that depends on another user, or else the last one.
///
/// - `before`: the values of its kernel that lead to each value.
fn readers_of(
    kernels: &[Vec<usize>],
    inside: &BTreeSet<(usize, usize)>,
    before: &[BTreeSet<usize>],
) -> BTreeSet<(usize, usize)> {
    let mut readers = BTreeSet::new();
    for kernel in kernels {
        let place = |member: usize| kernel.binary_search(&member).expect("edges stay in their kernel");
        let from = |member: &usize| inside.range((*member, 0)..=(*member, usize::MAX)).copied();
        for value in kernel {
            let users: Vec<usize> = from(value).map(|(_, user)| user).collect();
            if users.len() < 2 || kernel.len() > Budget::MOST_MEMBERS {
                readers.extend(users.last().map(|user| (*value, *user)));
                continue;
            }
            let mut parts = UnionFind::<usize>::new(kernel.len());
            for (operand, user) in kernel.iter().filter(|member| *member != value).flat_map(from) {
                parts.union(place(operand), place(user));
            }
            let depends = |user: usize| users.iter().any(|other| before[user].contains(other));
            let ranked = users.iter().map(|user| (parts.find(place(*user)), (depends(*user), *user)));
            let last_of_parts: BTreeMap<usize, (bool, usize)> = ranked.sorted().collect();
            readers.extend(last_of_parts.into_values().map(|(_, user)| (*value, user)));
        }
    }
    readers
}

/// The edges without which the values that they join are not connected; each leads to a later value.
fn bridges_of(edges: &BTreeSet<(usize, usize)>) -> BTreeSet<(usize, usize)> {
    let graph = UnGraph::<(), (), usize>::from_edges(edges.iter().copied());
    let pair = |from: usize, to: usize| (from.min(to), from.max(to));
    bridges(&graph).map(|edge| pair(edge.source().index(), edge.target().index())).collect()
}

/// The kernels of the steps of a plan, and the memory traffic of each step.
///
/// - `carried`: as [`Plan::carried`].
pub(super) fn kernels(
    steps: &DiGraph<Step, u32>,
    (outputs, carried): (&[StepId], &[(StepId, StepId)]),
    mark: impl Fn(ValueId) -> Option<usize>,
    fusion: Fusion,
    program: &Program,
) -> (Vec<Vec<StepId>>, Vec<Access>) {
    let nodes = nodes(steps, (outputs, carried), mark, program);
    let found = fusion::kernels(&nodes, fusion);
    let access = fusion::accesses(&nodes, &found);
    let ids = |kernel: Vec<usize>| kernel.into_iter().map(StepId::new).collect();
    (found.into_iter().map(ids).collect(), access)
}

fn nodes(
    steps: &DiGraph<Step, u32>,
    (outputs, carried): (&[StepId], &[(StepId, StepId)]),
    mark: impl Fn(ValueId) -> Option<usize>,
    program: &Program,
) -> Vec<Node> {
    let mesh = &program.mesh;
    let is_counted = |id| program.value(id).definition == Definition::Input { supply: Supply::Counted };
    // A collective that is idle leaves the block in place, so its readers read the block of its operand.
    let is_idle = |id: StepId| {
        let from = || &steps[operands(steps, id)[0]].layout.sharding;
        steps[id].op.collective().is_some_and(|collective| collective.is_idle(from(), mesh))
    };
    let read = program.read();
    let is_handed_on = |first: StepId| program.is_handed_on(steps[first].value, &read);
    let handed_on = carried.iter().filter(|(first, _)| is_handed_on(*first)).map(|(_, last)| *last);
    let leaving: BTreeSet<StepId> = outputs.iter().copied().chain(handed_on).collect();
    let mut blocks: Vec<StepId> = Vec::new();
    let mut leaves: Vec<bool> = Vec::new();
    for id in steps.node_indices() {
        let block = if is_idle(id) { blocks[operands(steps, id)[0].index()] } else { id };
        blocks.push(block);
        // Where the block is left in place, it leaves, too.
        let is_leaving = leaving.contains(&id);
        leaves.push(is_leaving);
        leaves[block.index()] |= is_leaving;
    }
    let node = |id: StepId| {
        let step = &steps[id];
        let role = match &step.op {
            StepOp::Product { .. } => Some(Role::Product),
            StepOp::Reduce { .. } => Some(Role::Function),
            StepOp::Map { function, .. } => role(*function),
            StepOp::Input | StepOp::Carry | StepOp::Collective(_) | StepOp::Kernel(_) => None,
        };
        let mark = mark(step.value);
        // A collective that leaves the block in place reads nothing.
        let reads = blocks[id.index()] == id && (step.op != StepOp::Carry || read.contains(&step.value));
        let read = if reads { operands(steps, id) } else { Vec::new() };
        Node {
            role: role.filter(|_| mark.is_some()),
            operands: read.into_iter().map(|operand| blocks[operand.index()].index()).collect(),
            leaves: leaves[id.index()],
            mark: mark.unwrap_or_default(),
            elements: elements(program, step.value),
            makes: match &step.op {
                StepOp::Input if is_counted(step.value) => Makes::Places,
                StepOp::Collective(Collective::Slice { .. }) => Makes::Part,
                StepOp::Product { einsum } => Makes::Product(einsum.clone()),
                StepOp::Map { function, einsum } => Makes::of(*function, || einsum.clone()),
                StepOp::Input | StepOp::Carry | StepOp::Collective(_) | StepOp::Reduce { .. } | StepOp::Kernel(_) => {
                    Makes::Other
                }
            },
        }
    };
    steps.node_indices().map(node).collect()
}

impl Plan {
    /// Memory traffic of each step, by its kernel.
    pub fn accesses(&self) -> Vec<Access> {
        let nodes = nodes(&self.steps, (&self.outputs, &self.carried), |_| Some(0), &self.program);
        let places = |kernel: &Vec<StepId>| kernel.iter().map(|id| id.index()).collect();
        let kernels: Vec<Vec<usize>> = self.kernels.iter().map(places).collect();
        fusion::accesses(&nodes, &kernels)
    }

    /// The first step of the kernel of a step, if the kernel has several.
    pub fn kernel(&self, id: StepId) -> Option<StepId> {
        self.kernels.iter().find(|kernel| kernel.contains(&id)).and_then(|kernel| kernel.first().copied())
    }

    /// Repetitions of a step at its cost in a body. The first iteration may begin with an array that its kernel reads
    /// anyway. Only the last iteration writes a result that is read after the repeat only, and all but the last one write
    /// a result that is read by the next iteration only.
    pub fn times_at_the_least(&self, id: StepId) -> u64 {
        let alone = vec![id];
        let kernel = self.kernels.iter().find(|kernel| kernel.contains(&id)).unwrap_or(&alone);
        let times = self.times(id);
        let is_last_cheaper = kernel.len() > 1 && kernel.iter().any(|id| self.is_written_for_an_iteration(*id, kernel));
        let begins_with = |id: &StepId| match self.step(*id).op {
            StepOp::Carry => self.operands(*id)[0],
            _ => *id,
        };
        let read: BTreeSet<StepId> = kernel.iter().flat_map(|id| self.operands(*id)).collect();
        let is_first_cheaper =
            kernel.len() > 1 && read.iter().map(begins_with).collect::<BTreeSet<StepId>>().len() < read.len();
        let is_for_later = |id: &StepId| !self.is_read_in_its_body(*id) || self.is_written_for_later(*id, kernel);
        let (full, has_first) =
            if kernel.iter().any(is_for_later) { (times.min(1), times == 1) } else { (times, true) };
        full.saturating_sub(u64::from(is_first_cheaper && has_first) + u64::from(is_last_cheaper))
    }

    /// Whether what is computed and read in a kernel is read outside of it after the repeat only.
    fn is_written_for_later(&self, id: StepId, kernel: &[StepId]) -> bool {
        if self.body(id).is_none() {
            return false;
        }
        let hands_on = |first: StepId| self.times(first) > 1 && self.is_read_in_its_body(first);
        let is_outside = |user: StepId| !kernel.contains(&user) && self.body(user) == self.body(id);
        !self.carried.iter().any(|(first, last)| *last == id && hands_on(*first))
            && !self.steps.neighbors(id).any(is_outside)
            && (self.outputs.contains(&id) || self.steps.neighbors(id).any(|user| self.body(user) != self.body(id)))
    }

    /// Whether what is computed and read in a kernel is read outside of it by the next iteration only.
    fn is_written_for_an_iteration(&self, id: StepId, kernel: &[StepId]) -> bool {
        if !self.carried.iter().any(|(_, last)| *last == id) {
            return false;
        }
        // A repeat after this one may carry a value that it does not read.
        let read = self.program.read();
        let is_read = |user: StepId| self.step(user).op != StepOp::Carry || read.contains(&self.step(user).value);
        !self.outputs.contains(&id)
            && self.steps.neighbors(id).any(|user| kernel.contains(&user))
            && !self.steps.neighbors(id).any(|user| !kernel.contains(&user) && is_read(user))
    }

    /// Whether a result is read in its own iteration or in a later one.
    fn is_read_in_its_body(&self, id: StepId) -> bool {
        let mut handed_on = vec![id];
        let mut next = 0;
        while let Some(id) = handed_on.get(next).copied() {
            let mut users = self.steps.neighbors_directed(id, Direction::Outgoing);
            if users.any(|user| self.body(user) == self.body(id)) {
                return true;
            }
            for (first, last) in &self.carried {
                if *last == id && !handed_on.contains(first) {
                    handed_on.push(*first);
                }
            }
            next += 1;
        }
        false
    }

    /// For each step, the last step of its kernel; itself without a kernel.
    pub(super) fn ends(&self) -> Vec<StepId> {
        let mut ends: Vec<StepId> = self.ids().collect();
        for kernel in &self.kernels {
            kernel.iter().for_each(|id| ends[id.index()] = *kernel.last().unwrap_or(id));
        }
        ends
    }
}
