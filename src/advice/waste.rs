//! Warns of arrays that a plan gathers or reduces only to slice them again, because a statement requests an
//! unnecessary layout.

use crate::diag::Diagnostics;
use crate::mesh::AxisSet;
use crate::plan::{Plan, StepId, StepOp};
use crate::program::{Definition, Wanted};
use crate::units::Bytes;
use petgraph::Direction;
use thiserror::Error;

/// An array that is gathered or summed on all devices and then sliced.
#[derive(Debug, Error, miette::Diagnostic)]
#[error("`{array}` is gathered along `{axes}` and then sliced again, {bytes} per device")]
#[diagnostic(
    code("gathered-then-cut"),
    severity(warning),
    help("write `{free}` and let the compiler choose the layout")
)]
struct GatheredThenCut {
    array: String,
    axes: String,
    bytes: Bytes,
    free: String,
    #[label("no user needs this layout")]
    at: miette::SourceSpan,
}

/// Arrays that a written layout makes whole although each use slices them again.
pub fn wasted(plan: &Plan) -> Diagnostics {
    let (program, mesh) = (&plan.program, &plan.program.mesh);
    let mut found = Diagnostics::default();
    for id in plan.ids() {
        let value = program.value(plan.step(id).value);
        let (Wanted::Exact(wanted), Some(name)) = (&value.wanted, &value.name) else { continue };
        // A written move is intentional.
        let is_computed =
            matches!(value.definition, Definition::Product { .. } | Definition::Map { .. } | Definition::Reduce { .. });
        if !is_computed || plan.outputs.contains(&id) || plan.step(id).layout.sharding != *wanted {
            continue;
        }
        let Some(cut) = cut_by_all(plan, id) else { continue };
        let (gathered, bytes) = made_whole(plan, id, cut);
        if gathered.is_empty() {
            continue;
        }
        let dims: Vec<String> = value.dims.iter().map(|dim| program.dims.name(dim.id)).collect();
        found.push(&GatheredThenCut {
            array: plan.array(id),
            axes: gathered.names(mesh),
            bytes,
            free: format!("{name}[{}]_?", dims.join(", ")),
            at: value.span.into(),
        });
    }
    found
}

/// The axes along which all uses slice a step's result; empty if some use needs it unsliced.
fn cut_by_all(plan: &Plan, id: StepId) -> Option<AxisSet> {
    let users: Vec<StepId> = plan.steps.neighbors_directed(id, Direction::Outgoing).collect();
    let cuts = users.into_iter().map(|user| match &plan.step(user).op {
        StepOp::Collective(collective) if !collective.kind().sends() => {
            collective.axes(&plan.step(id).layout.sharding, &plan.program.mesh)
        }
        _ => AxisSet::NONE,
    });
    cuts.reduce(AxisSet::intersection).filter(|cut| !cut.is_empty())
}

/// Those of the axes along which the moves of an array up to a step have gathered or reduced it, and the bytes
/// received per device by these moves.
fn made_whole(plan: &Plan, id: StepId, cut: AxisSet) -> (AxisSet, Bytes) {
    let (mut made, mut bytes, mut at) = (AxisSet::NONE, Bytes(0), id);
    while let StepOp::Collective(collective) = &plan.step(at).op {
        let operand = plan.operands(at)[0];
        let axes = collective.axes(&plan.step(operand).layout.sharding, &plan.program.mesh).intersection(cut);
        if collective.kind().sends() && !axes.is_empty() {
            made = made.union(axes);
            let received = plan.step(at).usage.received().0.saturating_mul(plan.times(at));
            bytes = Bytes(bytes.0.saturating_add(received));
        }
        at = operand;
    }
    (made, bytes)
}
