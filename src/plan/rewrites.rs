//! Equivalent programs, if they give a cheaper plan.
//!
//! A program is planned as written, and then with one rewrite after the other (`program/rewrite`); each improvement is
//! kept. Bounds refer to the final program.

use super::goal::Goal;
use super::problem::{Problem, Solve, Unplanned};
use super::reshard::SearchOptions;
use super::{Budget, Costs, Plan, Step, StepId, StepOp, Stop, parts};
use crate::mesh::AxisSet;
use crate::program::{Program, Rewritten, ValueId, Wanted};
use crate::span::Span;
use crate::units::{Bytes, Time};
use std::rc::Rc;

/// A rewrite that the plan uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewriting {
    /// Description, with names and expressions quoted.
    pub summary: String,
    /// Time of all steps in sequence, before and after.
    pub time: [Time; 2],
    /// Bytes received by the device that receives the most, before and after.
    pub received: [Bytes; 2],
}

/// Plans a program, rewritten where that is cheaper.
///
/// # Errors
/// If planning fails.
pub(super) fn plan(problem: Problem<'_>, solve: Solve<'_>) -> Result<Plan, Unplanned> {
    let Problem { program, costs, options } = problem;
    let plan = solve(problem)?;
    // The work of a search that did not end is not repeated for each rewrite.
    let options = match plan.stop {
        Stop::Work => SearchOptions { budget: options.budget.divided_by(Budget::SHARE_OF_A_REWRITE), ..options },
        _ => options,
    };
    let mut best = Best { program: program.clone(), plan, costs, options, solve, tried: 0 };
    if !best.takes(best.program.with_equals_merged(false)) {
        best.takes(best.program.with_equals_merged(true));
    }
    best.takes(best.program.with_invariants_brought_out());
    for place in 0.. {
        let chains = best.program.chains();
        let Some(chain) = chains.get(place) else { break };
        best.takes(best.program.with_chain_reordered(chain));
    }
    let mut looked_at = Vec::new();
    while let Some(product) = best.dearest_shared(&looked_at) {
        looked_at.push(best.program.value(product).span);
        best.takes([best.program.with_computed_anew(product)]);
    }
    Ok(best.plan)
}

/// The cheapest program so far.
struct Best<'a> {
    program: Program,
    plan: Plan,
    costs: &'a dyn Costs,
    options: SearchOptions,
    solve: Solve<'a>,
    tried: usize,
}

impl Best<'_> {
    /// Plans some equivalent programs and keeps the cheapest one, if it beats the best so far.
    fn takes(&mut self, others: impl IntoIterator<Item = Rewritten>) -> bool {
        let before = self.plan.clone();
        let mut taken = false;
        for Rewritten { program, summary } in others {
            let most_tried = Budget::MOST_REWRITES.min(Budget::MOST_REWRITTEN_VALUES / program.values.len().max(1));
            if self.tried >= most_tried || self.options.budget.is_over() {
                break;
            }
            self.tried += 1;
            let goal = Goal::beyond(&self.plan, self.costs.objective());
            let solved = |program: &Program, costs: &dyn Costs| {
                let problem = Problem { program, costs, options: goal.bounding(self.options) };
                (self.solve)(problem).ok().filter(|found| goal.is_met_by(found))
            };
            // If input layouts are tried one by one, a rewrite must also be better with the layouts of the best plan.
            let is_worse = |(program, costs): (Program, Option<Rc<dyn Costs + '_>>)| {
                solved(&program, costs.as_deref().unwrap_or(self.costs)).is_none()
            };
            if self.plan.has_tried_layouts() && self.laid_out(&program).is_some_and(is_worse) {
                continue;
            }
            if let Some(found) = solved(&program, self.costs) {
                let [old, new] = [&before, &found].map(Plan::totals);
                let (time, received) = ([old.time(), new.time()], [old.received(), new.received()]);
                let mut rewritten = before.rewritten.clone();
                rewritten.push(Rewriting { summary, time, received });
                (self.plan, self.program, taken) = (Plan { rewritten, ..found }, program, true);
            }
        }
        taken
    }

    /// A rewritten program with the input layouts of the best plan, and its costs if that plan splits axes. `None` if
    /// the mesh of the best plan has neither the axes of the program nor their parts.
    fn laid_out(&self, program: &Program) -> Option<(Program, Option<Rc<dyn Costs + '_>>)> {
        let mesh = &self.plan.program.mesh;
        let (mut program, costs) = if program.mesh == *mesh {
            (program.clone(), None)
        } else {
            (parts::in_parts(program).filter(|program| program.mesh == *mesh)?, Some(self.costs.seen_as(mesh)?))
        };
        for filled in &self.plan.filled {
            let Step { value, layout, .. } = self.plan.step(filled.input);
            let span = self.plan.program.value(*value).span;
            let same = program.values.iter_mut().filter(|other| other.definition.is_input() && other.span == span);
            same.for_each(|input| input.wanted = Wanted::Exact(layout.sharding.clone()));
        }
        Some((program, costs))
    }

    /// Whether no two devices do the same work in a step.
    fn is_spread(&self, id: StepId) -> bool {
        let mesh = &self.plan.program.mesh;
        let operands = self.plan.operands(id).into_iter().map(|operand| self.plan.step(operand).layout.sharding.used());
        let used = operands.fold(AxisSet::NONE, AxisSet::union);
        mesh.axis_ids().all(|axis| mesh.size(axis) == 1 || used.contains(axis))
    }

    /// Among the products with several users that are moved, or computed redundantly, the one whose computation and
    /// moves take the longest.
    ///
    /// - `but`: excluded statements.
    fn dearest_shared(&self, but: &[Span]) -> Option<ValueId> {
        let plan = &self.plan;
        let spent = |product: &ValueId| {
            // A plan may number values differently, for example if a softmax is split.
            let span = self.program.value(*product).span;
            let own = plan.ids().filter(|id| plan.program.value(plan.step(*id).value).span == span);
            let (moves, made): (Vec<_>, Vec<_>) =
                own.partition(|id| matches!(plan.step(*id).op, StepOp::Collective(_)));
            let time = |ids: &[StepId]| ids.iter().map(|id| plan.step(*id).cost.time * plan.times(*id)).sum::<Time>();
            let may_save = !moves.is_empty() || made.iter().any(|id| !self.is_spread(*id));
            may_save.then(|| time(&moves) + time(&made))
        };
        let products = self.program.shared_products().into_iter();
        let others = products.filter(|product| !but.contains(&self.program.value(*product).span));
        // A search that does not end is worth the effort only where there is enough to save.
        let is_worth = |spent: Time| {
            let parts = spent.ticks().saturating_mul(Budget::LEAST_SAVING);
            plan.stop != Stop::Work || parts >= plan.totals().time().ticks()
        };
        let dearest = others.filter_map(|product| Some((spent(&product)?, product))).max();
        dearest.filter(|(spent, _)| is_worth(*spent)).map(|(_, product)| product)
    }
}
