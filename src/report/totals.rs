//! Totals of a plan and its distance from the optimum.

use super::findings::Findings;
use super::run;
use crate::costs::Unit;
use crate::plan::{Rewriting, StepId, StepOp, Stop};
use crate::units::Time;
use std::cmp::Reverse;
use std::fmt::Write as _;

impl Findings<'_> {
    /// Formats the totals, then the claims about them.
    pub(super) fn totals_text(&self) -> String {
        let (totals, costs) = (&self.totals, self.plan.costs);
        let time = self.seconds(totals.time());
        let (communication, compute) = (self.seconds(totals.communication), self.seconds(totals.compute));
        let mut text = format!(
            "total {time}: communication {communication} + compute {compute}, steps in sequence ({costs} costs)\n"
        );
        if let Some(whole) = self.plan.overlap.whole {
            let time = self.seconds(whole.time);
            writeln!(text, "with overlap {time} simulated (see `shardc time`)").expect("a string");
        }
        text.push_str(&self.by_the_clock());
        for name in &self.plan.split {
            writeln!(text, "softmax `{name}` is split into max, exp and sum").expect("a string");
        }
        for Rewriting { summary, time, received } in &self.plan.rewritten {
            let [before, after] = match costs {
                "bytes" => received.map(|bytes| format!("{bytes} received")),
                _ => time.map(|time| self.seconds(time).to_string()),
            };
            writeln!(text, "{summary}: {after} instead of {before}").expect("a string");
        }
        writeln!(text, "{}\n{}", run::usage(&totals.usage), self.optimality()).expect("a string");
        text + &self.lower_bound()
    }

    /// Formats whether a cheaper plan exists.
    fn optimality(&self) -> String {
        let plan = self.plan;
        if plan.is_optimal() {
            let axes = if plan.in_parts { "whole and split axes" } else { "whole axes" };
            return match plan.costs {
                "bytes" => format!("optimal: no plan receives fewer bytes ({axes})"),
                "book" => format!("optimal in sequence: no plan is faster by the book's formulas ({axes})"),
                _ => format!("optimal in sequence: no cheaper plan exists under this cost model ({axes})"),
            };
        }
        if let Some((sum, whole)) = plan.instead {
            let [sum, whole] = [sum, whole].map(|time| self.seconds(time));
            return format!(
                "chosen for its time with overlap: the cheapest plan in sequence takes {sum}, with overlap {whole}"
            );
        }
        if plan.stop == Stop::Reshards {
            let layouts = "not proven optimal: layouts are those of the best plan with chains of collectives";
            return format!("{layouts}; each `Reshard` replaces one chain");
        }
        let why = match plan.stop {
            Stop::Pins => "products are pinned",
            Stop::Methods => "methods are prescribed with `using`",
            Stop::Limits => "no cheaper plan was found within the limits",
            Stop::Memory => "restricted move set because of `--max-memory`",
            Stop::Time => "the search stopped at `--time-limit`",
            Stop::Work => "the search stopped at its work limit",
            Stop::Gap | Stop::Optimal | Stop::Reshards | Stop::Whole => "no cheaper plan was found",
        };
        let bound = self.seconds(plan.lower_bound);
        if bound.is_negligible() {
            return format!("not proven optimal: lower bound unknown; {why}");
        }
        let ratio = self.totals.time().ratio(bound.time);
        format!("not proven optimal: lower bound in sequence {bound}, this plan {ratio:.2}x; {why}")
    }

    /// Formats the lower bound over all plans, if it is not negligible.
    fn lower_bound(&self) -> String {
        let Some(floor) = self.floor() else { return String::new() };
        let (time, unit) = (self.seconds(floor.time), floor.unit.name(self.topology));
        if time.is_negligible() {
            return String::new();
        }
        let busy = match floor.unit {
            Unit::Engine(_) if self.topology.hardware.engines.names().len() == 1 => "compute".to_owned(),
            Unit::Engine(_) => format!("engine `{unit}`"),
            Unit::Links(_) => unit,
        };
        let ratio = self.plan.time().ratio(floor.time);
        // Plans with split axes may beat a bound over whole axes.
        let axes = if self.plan.in_parts { "" } else { ", whole axes" };
        format!("lower bound with any overlap {time} ({busy}{axes}), this plan {ratio:.2}x\n")
    }

    /// Formats the difference between simulated and planned communication times, and the step that differs most.
    pub(super) fn by_the_clock(&self) -> String {
        let plan = self.plan;
        let planned = |id: StepId| plan.step(id).cost.time;
        let simulated = |id: StepId| match &plan.step(id).recipe {
            Some(Ok(chosen)) => chosen.time.unwrap_or(planned(id)),
            Some(Err(_)) | None => planned(id),
        };
        let off = |id: StepId| simulated(id).ticks().abs_diff(planned(id).ticks()) * u128::from(plan.times(id));
        let differing = self.steps.iter().filter(|step| off(step.id) > 0);
        let Some(step) = differing.max_by_key(|step| (off(step.id), Reverse(step.id))) else { return String::new() };
        let collectives = plan.ids().filter(|id| matches!(plan.step(*id).op, StepOp::Collective(_)));
        let together: Time = collectives.map(|id| simulated(id) * plan.times(id)).sum();
        format!(
            "simulated communication {}; largest difference: {} takes {} by the book, {} simulated by {}\n",
            self.seconds(together),
            step.name,
            step.time_s,
            self.seconds(simulated(step.id)),
            step.how,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Findings;
    use crate::compiler::{self, Options};
    use crate::costs::CostModel;
    use crate::plan::Stop;
    use crate::units::Time;

    /// A small AllReduce is eight hops by the book; the fastest method takes four. Exact costs print no difference.
    #[test]
    fn another_time_than_the_books_is_reported() {
        let source = "mesh {Y: 8 ring} on tpu_v5e\nA: f32[64]{U_Y}\nC[64] = A\n";
        let program = compiler::check(source).0.expect("a right program");
        for (costs, reported) in [(CostModel::Book, true), (CostModel::Exact, false), (CostModel::Bytes, false)] {
            let options = Options { costs, ..Options::default() };
            let compiled = compiler::preview(&program, &options).expect("a plan");
            let text = Findings::new(&compiled.plan, &compiled.topology).totals_text();
            let line = "AllReduce_Y takes 8.00 us by the book, 4.00 us simulated";
            assert_eq!(text.contains(line), reported, "{text}");
            assert_eq!(text.contains("by the book"), reported, "{text}");
        }
    }

    #[test]
    fn a_negligible_bound_is_not_printed() {
        let (program, found) = compiler::check("mesh {X: 2} on tpu_v5e\nA: f32[4_X]\nC = AllGather_X(A)\n");
        let program = program.unwrap_or_else(|| panic!("{found:?}"));
        let mut compiled = compiler::preview(&program, &Options::default()).expect("a plan");
        compiled.plan.stop = Stop::Gap;
        // A tick of the machine is far below the printed precision.
        for bound in [Time::ZERO, Time::from_ticks(1)] {
            compiled.plan.lower_bound = bound;
            let text = Findings::new(&compiled.plan, &compiled.topology).totals_text();
            let line = "lower bound unknown; no cheaper plan was found\n";
            assert!(text.contains(line) && !text.contains("0.00 ns"), "{text}");
        }
        compiled.plan.lower_bound = compiled.plan.totals().time();
        let text = Findings::new(&compiled.plan, &compiled.topology).totals_text();
        assert!(text.contains("this plan 1.00x; no cheaper plan"), "{text}");
    }
}
