//! Axes of one device: `mesh {data: 1, model: 8}`.
//!
//! They shard nothing, so layouts that differ in them alone are the same. Programs are planned without them, which also
//! keeps the search small, and the layouts of the plan get back those that the program writes: where a statement writes
//! one, and from there as far as it passes through the following steps.

use super::search::FREE;
use super::{Plan, PlanError, Step, StepId, StepOp, parts};
use crate::collective::Collective;
use crate::einsum::Einsum;
use crate::layout::{Layout, Sharding};
use crate::mesh::{Axes, AxisSet, Mesh};
use crate::operator::Operator;
use crate::program::{Definition, Program, Value, ValueId, Wanted};
use crate::units::Bytes;

/// Plans a program with `solve`, which meets no axes of one device.
///
/// # Errors
/// Those of `solve`.
pub(super) fn plan_without(
    program: &Program,
    solve: impl FnOnce(&Program) -> Result<Plan, PlanError>,
) -> Result<Plan, PlanError> {
    match without(program) {
        Some(reduced) => Ok(labelled(program, solve(&reduced)?)),
        None => solve(program),
    }
}

/// The axes of one device.
fn unit_axes(mesh: &Mesh) -> AxisSet {
    mesh.axis_ids().filter(|axis| mesh.size(*axis) == 1).collect()
}

/// The program with no axis of one device in its layouts; `None` if the mesh has none, or they matter.
pub(super) fn without(program: &Program) -> Option<Program> {
    let units = unit_axes(&program.mesh);
    if units.is_empty() || program.values.iter().any(|value| squares(value, units)) {
        return None;
    }
    let mut reduced = program.clone();
    for value in &mut reduced.values {
        let wanted = match &value.wanted {
            Wanted::Exact(sharding) => Wanted::Exact(stripped(sharding, units)),
            Wanted::Partly(dims) => {
                Wanted::Partly(dims.iter().map(|axes| axes.map(|axes| axes.without(units))).collect())
            }
            Wanted::Free => Wanted::Free,
        };
        // What a pin asks for may be done by such an axis alone.
        if wanted != value.wanted {
            value.pin = None;
        }
        value.wanted = wanted;
        if let Definition::Collective { collective, from, operand } = &value.definition {
            let (from, operand) = (stripped(from, units), *operand);
            value.definition = match narrowed(collective, units).filter(|moved| !sends_nothing(moved, &from, program)) {
                Some(collective) => Definition::Collective { collective, from, operand },
                None => Definition::Move { operand, written: true },
            };
        }
    }
    // Nor do the users of such operands have to obey theirs.
    let touched: Vec<bool> = program.values.iter().zip(&reduced.values).map(|(a, b)| a.wanted != b.wanted).collect();
    for value in &mut reduced.values {
        let operands = value.definition.operands().iter();
        if value.pin.is_some() && operands.into_iter().any(|operand| touched[operand.index()]) {
            value.pin = None;
        }
    }
    Some(reduced)
}

/// Whether a collective leaves the layout as it is.
fn sends_nothing(collective: &Collective, from: &Sharding, program: &Program) -> bool {
    collective.apply(from, &program.mesh).is_some_and(|to| to == *from)
}

/// A sharding without some axes of one device.
fn stripped(sharding: &Sharding, units: AxisSet) -> Sharding {
    let dims = sharding.dims.iter().map(|axes| axes.without(units)).collect();
    let mut left = Sharding { dims, ..sharding.clone() };
    left.set_open(sharding.open.without(units));
    left
}

/// Whether an array is open over such axes by sums of squares: closing these changes it, by however many devices.
fn squares(value: &Value, units: AxisSet) -> bool {
    let is_open =
        |sharding: &Sharding| sharding.operator == Operator::SquareAdd && !sharding.open.intersection(units).is_empty();
    let from = match &value.definition {
        Definition::Collective { from, .. } => Some(from),
        _ => None,
    };
    matches!(&value.wanted, Wanted::Exact(sharding) if is_open(sharding)) || from.is_some_and(is_open)
}

/// A collective without some axes of one device; `None` if nothing is left of it.
fn narrowed(collective: &Collective, units: AxisSet) -> Option<Collective> {
    let of_set = |axes: AxisSet| Some(axes.without(units)).filter(|axes| !axes.is_empty());
    let of_list = |axes: Axes| Some(axes.without(units)).filter(|axes| !axes.is_empty());
    Some(match collective {
        Collective::AllGather { axes } => Collective::AllGather { axes: of_set(*axes)? },
        Collective::Broadcast { axes } => Collective::Broadcast { axes: of_set(*axes)? },
        Collective::Open { axes } => Collective::Open { axes: of_set(*axes)? },
        Collective::AllReduce { axes } => Collective::AllReduce { axes: of_set(*axes)? },
        Collective::ReduceScatter { dims } => {
            let dims: Vec<Axes> = dims.iter().map(|axes| axes.without(units)).collect();
            Some(Collective::ReduceScatter { dims: dims.clone() })
                .filter(|_| dims.iter().any(|axes| !axes.is_empty()))?
        }
        Collective::AllToAll { axes, from, to } => Collective::AllToAll { axes: of_list(*axes)?, from: *from, to: *to },
        Collective::Slice { axes, dim } => Collective::Slice { axes: of_list(*axes)?, dim: *dim },
        Collective::Permute { to } => Collective::Permute { to: stripped(to, units) },
    })
}

/// The plan with the layouts that its program writes, where they differ in axes of one device.
fn labelled(program: &Program, mut plan: Plan) -> Plan {
    // Where the plan has axes in parts, so has the program.
    let mut written = match plan.program.mesh == program.mesh {
        true => program.clone(),
        false => parts::in_parts(program).expect("the plan has its axes in parts"),
    };
    let units = unit_axes(&written.mesh);
    let own = plan.own_layouts();
    for id in plan.ids() {
        let step = plan.step(id);
        let operands: Vec<Sharding> =
            plan.operands(id).iter().map(|id| plan.step(*id).layout.sharding.clone()).collect();
        let asked = Some(&written.value(step.value).wanted).filter(|_| own.contains(&id));
        let (op, sharding) = labels(step, &operands, asked, &written.mesh, units);
        let step = &mut plan.steps[id];
        (step.op, step.layout.sharding) = (op, sharding);
    }
    for id in &plan.filled {
        let step = plan.step(*id);
        written.values[step.value.index()].wanted = Wanted::Exact(step.layout.sharding.clone());
    }
    // An output that another step makes is sliced by the axes that its own statement adds.
    for (place, value) in written.outputs.iter().enumerate() {
        let step = plan.outputs[place];
        plan.outputs[place] = output(&mut plan, step, *value, &written, units);
    }
    plan.program = written;
    plan
}

/// What a step does and the sharding of its result, with axes of one device.
fn labels(
    step: &Step,
    operands: &[Sharding],
    asked: Option<&Wanted>,
    mesh: &Mesh,
    units: AxisSet,
) -> (StepOp, Sharding) {
    let bare = &step.layout.sharding;
    let same = |sharding: &Sharding| stripped(sharding, units) == *bare;
    let (op, passed) = match &step.op {
        StepOp::Input => (StepOp::Input, bare.clone()),
        StepOp::Carry => (StepOp::Carry, operands[0].clone()),
        StepOp::Collective(collective) => {
            let widened = widened(collective, &operands[0], units);
            match widened.apply(&operands[0], mesh).filter(same) {
                Some(mut to) => {
                    to.set_open(bare.open);
                    (StepOp::Collective(widened), to)
                }
                None => (step.op.clone(), bare.clone()),
            }
        }
        StepOp::Product { einsum } | StepOp::Reduce { einsum, .. } | StepOp::Map { einsum, .. } => {
            (step.op.clone(), passed(einsum, operands, bare, units))
        }
    };
    let asked = match asked {
        Some(Wanted::Exact(sharding)) => Some(sharding.clone()),
        Some(Wanted::Partly(dims)) => {
            let dims = dims.iter().zip(&passed.dims).map(|(asked, axes)| asked.unwrap_or(*axes)).collect();
            Some(Sharding { dims, ..passed.clone() })
        }
        Some(Wanted::Free) | None => None,
    };
    let fits = |sharding: &Sharding| same(sharding) && spends_once(sharding);
    (op, asked.filter(fits).unwrap_or(passed))
}

fn spends_once(sharding: &Sharding) -> bool {
    let spent = sharding.dims.iter().map(|axes| axes.len()).sum::<usize>() + sharding.open.len();
    spent == sharding.used().len()
}

/// A collective that takes along what stands behind its axes: only suffixes of a dim leave it.
fn widened(collective: &Collective, from: &Sharding, units: AxisSet) -> Collective {
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
        Collective::ReduceScatter { .. }
        | Collective::AllReduce { .. }
        | Collective::Permute { .. }
        | Collective::Broadcast { .. }
        | Collective::Slice { .. }
        | Collective::Open { .. } => collective.clone(),
    }
}

/// The sharding of a local result: each dim as the first operand has it that has the dim, as far as no axis is spent
/// twice.
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

/// The step of an output in the layout that is written for it: closed, and sliced by the axes that only its own
/// statement has.
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
        Operator::Root => Some(Collective::Broadcast { axes: open }),
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
        let next = Step { op, value: made.value, user: value, layout, cost: FREE, received: Bytes(0), flops: 0 };
        let id = plan.steps.add_node(next);
        plan.steps.add_edge(step, id, 0);
        step = id;
    }
    step
}
