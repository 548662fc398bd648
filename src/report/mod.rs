//! What people and scripts read: text for a terminal, JSON for everything else.
//!
//! Reads every stage; nothing reads it.

pub mod document;
pub mod given;
pub mod html;
pub mod measured;
pub mod snapshot;
pub mod text;
pub mod why;

use crate::bounds::{self, Bound, Reason};
use crate::function::Function;
use crate::plan::{Plan, StepId, StepOp};
use crate::recipe::{Lowering, MethodTimes, method_times};
use crate::topology::{Topology, Work};
use crate::units::Time;

/// The bound of one step: what no schedule of it can beat.
pub fn step_bound(plan: &Plan, id: StepId, topology: &Topology) -> Bound {
    match &plan.step(id).op {
        StepOp::Collective(collective) => {
            bounds::certificate(collective, &plan.step(plan.operands(id)[0]).layout, topology).bound
        }
        StepOp::Input | StepOp::Carry => Bound::default(),
        StepOp::Product { .. } | StepOp::Reduce { .. } | StepOp::Map { .. } => {
            Bound { latency: Time::ZERO, bandwidth: plan.step(id).cost.time }
        }
    }
}

/// What the bound of a collective counts, in words; none for other steps. A bound that may not be the highest says so.
pub fn step_reason(plan: &Plan, id: StepId, topology: &Topology) -> Option<String> {
    let StepOp::Collective(collective) = &plan.step(id).op else {
        return None;
    };
    let certificate = bounds::certificate(collective, &plan.step(plan.operands(id)[0]).layout, topology);
    match certificate.reason {
        Reason::Nothing => None,
        reason if certificate.largest => Some(reason.to_string()),
        reason => Some(format!("{reason}; the bound could be higher")),
    }
}

/// What no schedule of the plan can beat: the computation of one engine of a device, or the slowest collective, however
/// well they overlap.
pub fn plan_bound(plan: &Plan, topology: &Topology) -> Time {
    let collectives = plan.ids().filter(|id| matches!(plan.step(*id).op, StepOp::Collective(_)));
    let slowest = collectives.map(|id| step_bound(plan, id, topology).time()).max();
    busiest_engine(plan, topology).max(slowest.unwrap_or_default())
}

/// The computation of the engine that has most to do, on one device.
fn busiest_engine(plan: &Plan, topology: &Topology) -> Time {
    let engines = &topology.hardware.engines;
    let mut busy = vec![Time::ZERO; engines.names().len()];
    for id in plan.ids() {
        let step = plan.step(id);
        let work = match &step.op {
            StepOp::Product { .. } => Work::MatMul,
            StepOp::Reduce { .. } => Work::Reduce,
            StepOp::Map { function: Function::Fill { .. }, .. } => Work::Fill,
            StepOp::Map { .. } => Work::Map,
            StepOp::Input | StepOp::Carry | StepOp::Collective(_) => continue,
        };
        if let Some(engine) = engines.of(work) {
            busy[engine.index()] += step.cost.time * plan.times(id);
        }
    }
    busy.into_iter().max().unwrap_or_default()
}

/// The ways in which the collective of a step can be done; `None` for other steps, and where nothing is sent.
pub fn step_method_times(plan: &Plan, id: StepId, topology: &Topology, lowering: Lowering) -> Option<MethodTimes> {
    let step = plan.step(id);
    let StepOp::Collective(collective) = &step.op else { return None };
    let from = &plan.step(plan.operands(id)[0]).layout;
    method_times(collective, from, topology, lowering, plan.program.value(step.user).method)
}
