//! Axes of size 1: `mesh {data: 1, model: 8}`.
//!
//! They shard nothing, so layouts that differ only in them are equal. Programs are planned without them, which keeps
//! the search small. The layouts of the plan get them back where a statement writes them, and in following steps as
//! far as they are preserved.

use super::layouts::unit_axes;
use super::problem::{Problem, Solve, Unplanned};
use super::search::FREE;
use super::{Plan, Step, StepId, StepOp, parts};
use crate::collective::Collective;
use crate::einsum::Einsum;
use crate::layout::{Layout, Sharding};
use crate::mesh::{Axes, AxisSet, Mesh};
use crate::operator::Operator;
use crate::program::{Definition, Program, Value, ValueId, Wanted};
use crate::sim::usage::StepUsage;

/// Plans a program without axes of size 1.
///
/// # Errors
/// If planning fails.
pub(super) fn plan(problem: Problem<'_>, solve: Solve<'_>) -> Result<Plan, Unplanned> {
    match without(problem.program) {
        Some(reduced) => Ok(labelled(problem.program, solve(Problem { program: &reduced, ..problem })?)),
        None => solve(problem),
    }
}

/// The program without axes of size 1 in its layouts; `None` if there are none, or they matter.
pub(super) fn without(program: &Program) -> Option<Program> {
    let units = unit_axes(program);
    if units.is_empty() {
        return None;
    }
    let mut reduced = program.clone();
    for value in &mut reduced.values {
        let wanted = match &value.wanted {
            Wanted::Exact(sharding) => Wanted::Exact(sharding.without(units)),
            Wanted::Partly(dims) => {
                Wanted::Partly(dims.iter().map(|axes| axes.map(|axes| axes.without(units))).collect())
            }
            Wanted::Free => Wanted::Free,
        };
        // A pin may be satisfied by such an axis alone.
        if wanted != value.wanted {
            value.pin = None;
        }
        value.wanted = wanted;
        if let Definition::Collective { collective, from, operand } = &value.definition {
            let (from, operand) = (from.without(units), *operand);
            value.definition = match narrowed(collective, units) {
                Some(collective) => Definition::Collective { collective, from, operand },
                None => Definition::Move { operand, written: true },
            };
        }
    }
    // Users of such operands need not satisfy their pins either.
    let touched: Vec<bool> = program.values.iter().zip(&reduced.values).map(|(a, b)| a.wanted != b.wanted).collect();
    for value in &mut reduced.values {
        let operands = value.definition.operands().iter();
        if value.pin.is_some() && operands.into_iter().any(|operand| touched[operand.index()]) {
            value.pin = None;
        }
    }
    Some(reduced)
}

/// A collective without some axes of size 1; `None` if it becomes empty.
fn narrowed(collective: &Collective, units: AxisSet) -> Option<Collective> {
    let narrowed = collective.mapped(&|axes| axes.without(units), &|sharding| sharding.without(units));
    Some(narrowed).filter(|narrowed| !narrowed.is_empty())
}

/// Restores the axes of size 1 in the layouts of the plan.
fn labelled(program: &Program, mut plan: Plan) -> Plan {
    // If the plan splits axes, use the mesh with split axes for the program, too.
    let mut written = match plan.program.mesh == program.mesh {
        true => program.clone(),
        false => parts::in_parts(program).expect("the plan has its axes in parts"),
    };
    let units = unit_axes(&written);
    let own = plan.own_layouts();
    for id in plan.ids() {
        let step = plan.step(id);
        let operands: Vec<Sharding> =
            plan.operands(id).iter().map(|id| plan.step(*id).layout.sharding.clone()).collect();
        let labels = Labels { mesh: &written.mesh, units, value: written.value(step.value), is_own: own.contains(&id) };
        let (op, sharding) = labels.of(step, &operands);
        let step = &mut plan.steps[id];
        (step.op, step.layout.sharding) = (op, sharding);
    }
    for filled in &mut plan.filled {
        let step = &plan.steps[filled.input];
        let wanted = &mut written.values[step.value.index()].wanted;
        filled.asked = std::mem::replace(wanted, Wanted::Exact(step.layout.sharding.clone()));
    }
    // An output that another step computes is sliced along the axes that its own statement adds.
    let added = plan.steps.node_count();
    for (place, value) in written.outputs.iter().enumerate() {
        let step = plan.outputs[place];
        plan.outputs[place] = output(&mut plan, step, *value, &written, units);
    }
    plan.program = written;
    in_bodies(plan, added)
}

/// Moves the steps from `added` on into the body that they belong to; a body is a contiguous range.
fn in_bodies(plan: Plan, added: usize) -> Plan {
    let place = |id: &StepId| {
        let is_of_body = |other: &StepId| other.index() < added && plan.body(*other) == plan.body(*id);
        let moves = id.index() >= added && plan.body(*id).is_some();
        let last = plan.ids().filter(|other| moves && is_of_body(other)).last();
        (last.unwrap_or(*id), *id)
    };
    let mut order: Vec<StepId> = plan.ids().collect();
    order.sort_by_key(place);
    plan.rearranged(&order, |plan, id| (plan.step(id).clone(), plan.operands(id)))
}

/// The original value of a step.
struct Labels<'a> {
    mesh: &'a Mesh,
    units: AxisSet,
    value: &'a Value,
    /// Whether the step has the layout in which its value leaves its statement.
    is_own: bool,
}

impl Labels<'_> {
    /// Operation and result sharding of a step, with axes of size 1.
    fn of(&self, step: &Step, operands: &[Sharding]) -> (StepOp, Sharding) {
        let bare = &step.layout.sharding;
        let same = |sharding: &Sharding| sharding.without(self.units) == *bare;
        let (op, passed) = match &step.op {
            StepOp::Input => (StepOp::Input, bare.clone()),
            StepOp::Carry => (StepOp::Carry, operands[0].clone()),
            StepOp::Collective(collective) => {
                let from = &operands[0];
                let wider = widened(collective, from, (bare, self.open()), self.units);
                let mut candidates = self.written(collective).into_iter().chain([wider]);
                let applied = candidates.find_map(|wider| Some((wider.apply(from, self.mesh).filter(same)?, wider)));
                match applied {
                    Some((to, wider)) => (StepOp::Collective(wider), to),
                    None => (step.op.clone(), bare.clone()),
                }
            }
            // New dims of its result have no axes.
            StepOp::Kernel(_) => (step.op.clone(), bare.clone()),
            StepOp::Product { einsum } | StepOp::Reduce { einsum, .. } | StepOp::Map { einsum, .. } => {
                let mut sharding = passed(einsum, operands, bare, self.units);
                let operator = if bare.open.is_empty() { self.operator() } else { bare.operator };
                if operator == self.operator() {
                    sharding.operator = operator;
                    sharding.set_open(sharding.open.union(self.open()));
                }
                (step.op.clone(), sharding)
            }
        };
        let asked = match &self.value.wanted {
            _ if !self.is_own => None,
            Wanted::Exact(sharding) => Some(sharding.clone()),
            Wanted::Partly(dims) => {
                let dims = dims.iter().zip(&passed.dims).map(|(asked, axes)| asked.unwrap_or(*axes)).collect();
                Some(Sharding { dims, ..passed.clone() })
            }
            Wanted::Free => None,
        };
        let fits = |sharding: &Sharding| same(sharding) && spends_once(sharding);
        let passed = if fits(&passed) { passed } else { bare.clone() };
        (op, asked.filter(fits).unwrap_or(passed))
    }

    /// The collective of the statement, if the step is its remainder.
    fn written(&self, collective: &Collective) -> Option<Collective> {
        match &self.value.definition {
            Definition::Collective { collective: written, .. } if self.is_own => {
                Some(written.clone()).filter(|written| narrowed(written, self.units).as_ref() == Some(collective))
            }
            _ => None,
        }
    }

    /// The axes of size 1 over which the value stays open, and their operator.
    fn open(&self) -> AxisSet {
        match &self.value.wanted {
            Wanted::Exact(sharding) => sharding.open.intersection(self.units),
            Wanted::Partly(_) | Wanted::Free => AxisSet::NONE,
        }
    }

    fn operator(&self) -> Operator {
        match &self.value.wanted {
            Wanted::Exact(sharding) => sharding.operator,
            Wanted::Partly(_) | Wanted::Free => Operator::Sum,
        }
    }
}

fn spends_once(sharding: &Sharding) -> bool {
    let spent = sharding.dims.iter().map(|axes| axes.len()).sum::<usize>() + sharding.open.len();
    spent == sharding.used().len()
}

/// Adds axes of size 1 to a collective: those after its axes, as only suffixes leave a dim, and the last ones of an
/// open sum that it closes.
///
/// - `bare`: the resulting sharding without these axes, and the axes that stay open.
fn widened(collective: &Collective, from: &Sharding, (bare, kept): (&Sharding, AxisSet), units: AxisSet) -> Collective {
    let last = if bare.open.is_empty() { from.open.intersection(units) } else { AxisSet::NONE };
    let closed = last.without(kept);
    let behind = |dim: &Axes, axes: AxisSet| -> AxisSet {
        let first = dim.iter().position(|axis| axes.contains(axis)).unwrap_or(dim.len());
        dim.iter().skip(first).filter(|axis| units.contains(*axis)).collect()
    };
    match collective {
        Collective::AllGather { axes } => {
            let more = from.dims.iter().map(|dim| behind(dim, *axes)).fold(*axes, AxisSet::union);
            Collective::AllGather { axes: more }
        }
        Collective::AllToAll { axes, from: source, to } => {
            let more = from.dims.get(*source).map(|dim| behind(dim, axes.set())).unwrap_or_default();
            Collective::AllToAll { axes: axes.then(more.in_order()), from: *source, to: *to }
        }
        Collective::AllReduce { axes } => Collective::AllReduce { axes: axes.union(closed) },
        Collective::Broadcast { axes } => Collective::Broadcast { axes: axes.union(closed) },
        Collective::ReduceScatter { dims } => {
            let mut dims = dims.clone();
            if let Some(dim) = dims.iter_mut().find(|axes| !axes.is_empty()) {
                *dim = dim.then(closed.in_order());
            }
            Collective::ReduceScatter { dims }
        }
        Collective::Permute { to } => {
            // A permute closes no sum.
            let mut to = to.clone();
            if to.open.is_empty() {
                to.operator = from.operator;
            }
            to.set_open(to.open.union(from.open.intersection(units)));
            if spends_once(&to) { Collective::Permute { to } } else { collective.clone() }
        }
        Collective::Reshard { .. } | Collective::Shift(_) => collective.clone(),
        Collective::Slice { .. } | Collective::Open { .. } => collective.clone(),
    }
}

/// The sharding of a local result: each dim as in the first operand that has it, as long as no axis is used twice.
fn passed(einsum: &Einsum, operands: &[Sharding], bare: &Sharding, units: AxisSet) -> Sharding {
    let mut sharding = bare.clone();
    for (place, index) in einsum.result.iter().enumerate() {
        let of = |(indices, operand): (&Vec<_>, &Sharding)| {
            let at = indices.iter().position(|other| other == index)?;
            operand.dims.get(at).copied()
        };
        let axes =
            einsum.operands.iter().zip(operands).filter_map(of).find(|axes| axes.without(units) == bare.dims[place]);
        let mut next = sharding.clone();
        next.dims[place] = axes.unwrap_or(bare.dims[place]);
        if spends_once(&next) {
            sharding = next;
        }
    }
    sharding
}

/// The step of an output in its written layout: closed, and sliced by the axes that only its own statement has.
fn output(plan: &mut Plan, step: StepId, value: ValueId, written: &Program, units: AxisSet) -> StepId {
    let made = plan.step(step).clone();
    let (mut step, mut from) = (step, made.layout.sharding.clone());
    let asked = match &written.value(value).wanted {
        Wanted::Exact(sharding) => sharding.clone(),
        Wanted::Partly(_) | Wanted::Free => from.clone().closed(),
    };
    let open = from.open.intersection(units).without(asked.open);
    let closing = match from.operator {
        _ if open.is_empty() => None,
        Operator::Root(_) => Some(Collective::Broadcast { axes: open }),
        _ => Some(Collective::AllReduce { axes: open }),
    };
    let slice = |(dim, (to, from)): (usize, (&Axes, &Axes))| {
        let axes = to.strip_prefix(*from).filter(|axes| !axes.is_empty() && axes.set().is_subset(units))?;
        Some(Collective::Slice { axes, dim })
    };
    let slices: Vec<Collective> = asked.dims.iter().zip(&from.dims).enumerate().filter_map(slice).collect();
    for collective in closing.into_iter().chain(slices) {
        let Some(to) = collective.apply(&from, &written.mesh) else { continue };
        from = to;
        let layout = Layout { sharding: from.clone(), ..made.layout.clone() };
        let op = StepOp::Collective(collective);
        let next = Step {
            op,
            value: made.value,
            user: value,
            layout,
            cost: FREE,
            usage: StepUsage::none(),
            flops: 0,
            recipe: None,
        };
        let id = plan.steps.add_node(next);
        plan.steps.add_edge(step, id, 0);
        step = id;
    }
    step
}
