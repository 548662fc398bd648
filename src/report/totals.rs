//! What a plan comes to as a whole, and how far it may be from the best, a sentence each.

use super::findings::Findings;
use super::run;
use crate::costs::Unit;
use crate::plan::{Rewriting, StepId, StepOp, Stop};
use crate::units::Time;
use std::cmp::Reverse;
use std::fmt::Write as _;

impl Findings<'_> {
    /// The sums over all steps, then what is claimed of them.
    pub(super) fn totals_text(&self) -> String {
        let (totals, costs) = (&self.totals, self.plan.costs);
        let time = self.seconds(totals.time());
        let (communication, compute) = (self.seconds(totals.communication), self.seconds(totals.compute));
        let mut text = format!(
            "total {time}: communication {communication} + compute {compute}, one step after the other ({costs} costs)\n"
        );
        if let Some(whole) = self.plan.overlap.whole {
            let time = self.seconds(whole.time);
            writeln!(text, "overlapped {time} on the simulated links, as `shardc time` has it").expect("a string");
        }
        text.push_str(&self.by_the_clock());
        for name in &self.plan.split {
            writeln!(text, "softmax `{name}` is computed in parts: its largest element, its powers and their sum")
                .expect("a string");
        }
        for Rewriting { told, time, received } in &self.plan.rewritten {
            let [before, after] = match costs {
                "bytes" => received.map(|bytes| format!("{bytes} received")),
                _ => time.map(|time| self.seconds(time).to_string()),
            };
            writeln!(text, "{told}: {after} instead of {before}").expect("a string");
        }
        writeln!(text, "{}\n{}", run::usage(&totals.usage), self.optimality()).expect("a string");
        text + &self.whatever_the_plan()
    }

    /// Whether a cheaper plan exists.
    fn optimality(&self) -> String {
        let plan = self.plan;
        if plan.is_optimal() {
            let axes = if plan.in_parts { "axes in parts included" } else { "on whole axes" };
            return match plan.costs {
                "bytes" => format!("no plan of these moves, {axes}, receives fewer bytes"),
                "book" => format!("no plan of these moves, {axes}, is faster by the book's formulas"),
                _ => format!("no plan of these moves, {axes}, takes less simulated time step by step"),
            };
        }
        if let Some((sum, whole)) = plan.instead {
            let [sum, whole] = [sum, whole].map(|time| self.seconds(time));
            return format!("the cheapest plan step by step takes {sum}, and {whole} as a whole: this one is faster");
        }
        if plan.stop == Stop::Reshards {
            let layouts = "the layouts are those of the best plan that was found with chains of collectives";
            return format!("{layouts}; each `Reshard` does such a chain as one");
        }
        let why = match plan.stop {
            Stop::Pins => "products were done as they were pinned",
            Stop::Methods => "collectives are done by the methods that are asked for",
            Stop::Limits => "within the limits no cheaper one was found",
            Stop::Memory => "only some moves were searched, as `--max-memory` bounds the search",
            Stop::Time => "the search ended at its time limit, which `--time-limit` sets",
            Stop::Work => "the search ended at its limit on work",
            Stop::Gap | Stop::Optimal | Stop::Reshards | Stop::Whole => "no cheaper one was found",
        };
        let bound = self.seconds(plan.lower_bound);
        if bound.is_next_to_nothing() {
            return format!("no lower bound is known; {why}");
        }
        let ratio = self.totals.time().ratio(bound.time);
        format!("no plan takes less than {bound}, this one {ratio:.2}x of that; {why}")
    }

    /// What no plan beats; nothing where that is next to nothing.
    fn whatever_the_plan(&self) -> String {
        let Some(floor) = self.floor() else { return String::new() };
        let (time, unit) = (self.seconds(floor.time), floor.unit.name(self.topology));
        if time.is_next_to_nothing() {
            return String::new();
        }
        let busy = match floor.unit {
            Unit::Engine(_) if self.topology.hardware.engines.names().len() == 1 => {
                "each device computes for".to_owned()
            }
            Unit::Engine(_) => format!("the engine `{unit}` of each device is busy for"),
            Unit::Links(_) => format!("the {unit} are busy for"),
        };
        let ratio = self.totals.time().ratio(floor.time);
        // Where axes in parts are not thought of, they may do with less.
        let axes = if self.plan.in_parts { "" } else { " on whole axes" };
        format!("whatever the plan{axes}, {busy} {time}; the total is {ratio:.2}x of that\n")
    }

    /// Where the simulated times of steps differ from those that they were planned with: by how much, and which step most.
    fn by_the_clock(&self) -> String {
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
            "simulated, communication takes {}: {} takes {} by the book, {} on these links; by the book memory is free\n",
            self.seconds(together),
            step.name,
            step.time_s,
            self.seconds(simulated(step.id)),
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

    /// By the book an AllReduce of little is eight hops; the fastest method takes four. The default says nothing of it.
    #[test]
    fn another_time_than_the_books_is_reported() {
        let source = "mesh {Y: 8 ring} on tpu_v5e\nA: f32[64]{U_Y}\nC[64] = A\n";
        let program = compiler::check(source).0.expect("a right program");
        for (costs, reported) in [(CostModel::Book, true), (CostModel::Exact, false), (CostModel::Bytes, false)] {
            let options = Options { costs, ..Options::default() };
            let compiled = compiler::preview(&program, &options).expect("a plan");
            let text = Findings::new(&compiled.plan, &compiled.topology).totals_text();
            let line = "AllReduce_Y takes 8.00 us by the book, 4.00 us on these links";
            assert_eq!(text.contains(line), reported, "{text}");
            assert_eq!(text.contains("by the book"), reported, "{text}");
        }
    }

    #[test]
    fn a_bound_of_next_to_nothing_is_not_told() {
        let (program, found) = compiler::check("mesh {X: 2} on tpu_v5e\nA: f32[4_X]\nC = AllGather_X(A)\n");
        let program = program.unwrap_or_else(|| panic!("{found:?}"));
        let mut compiled = compiler::preview(&program, &Options::default()).expect("a plan");
        compiled.plan.stop = Stop::Gap;
        // A tick of the machine is far below what is shown.
        for bound in [Time::ZERO, Time::from_ticks(1)] {
            compiled.plan.lower_bound = bound;
            let text = Findings::new(&compiled.plan, &compiled.topology).totals_text();
            let line = "no lower bound is known; no cheaper one was found\n";
            assert!(text.contains(line) && !text.contains("0.00 ns"), "{text}");
        }
        compiled.plan.lower_bound = compiled.plan.totals().time();
        let text = Findings::new(&compiled.plan, &compiled.topology).totals_text();
        assert!(text.contains("this one 1.00x of that; no cheaper one"), "{text}");
    }
}
