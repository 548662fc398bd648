//! Totals of a plan and its distance from the optimum.

use super::findings::Findings;
use super::run;
use super::why::Product;
use crate::costs::Unit;
use crate::plan::{Filled, Rewriting, StepId, StepOp, Stop};
use crate::units::{Bytes, Time};
use itertools::Itertools;
use std::cmp::Reverse;
use std::fmt::Write as _;

impl Findings<'_> {
    /// Formats the totals, then the claims about them.
    pub(super) fn totals_text(&self) -> String {
        let (totals, costs) = (&self.totals, self.plan.costs);
        let usage = run::usage(&totals.usage);
        if totals.time() == Time::ZERO {
            return format!("{usage}\n");
        }
        let time = self.seconds(totals.time());
        let parts = match (totals.communication, totals.compute) {
            (communication, Time::ZERO) if communication > Time::ZERO => ", all communication".to_owned(),
            (Time::ZERO, _) => ", all compute".to_owned(),
            (communication, compute) => {
                format!(": communication {} + compute {}", self.seconds(communication), self.seconds(compute))
            }
        };
        let mut text = format!("total {time}{parts}, steps in sequence ({costs} costs)\n");
        if let Some(whole) = self.plan.overlap.whole {
            let time = self.seconds(whole.time);
            writeln!(text, "with overlap {time} simulated (see `shardc time`)").expect("a string");
        }
        text.push_str(&super::text::bundles(self));
        text.push_str(&self.by_the_clock());
        writeln!(text, "{usage}\n{}", self.optimality()).expect("a string");
        text + &self.lower_bound()
    }

    /// Formats the rewritings of the program and the chosen layouts of inputs, one line each.
    pub(super) fn advice(&self) -> Vec<String> {
        let layout = |filled: &Filled| {
            let name = self.plan.program.name(self.plan.step(filled.input).value);
            format!("input `{name}`: chosen layout `{}`", self.plan.array(filled.input))
        };
        self.rewritings().into_iter().chain(self.plan.filled.iter().map(layout)).collect()
    }

    /// Formats the chosen layouts, the rewritings and the pins, at most one line each.
    pub(super) fn brief_advice(&self) -> Vec<String> {
        const MOST_LAYOUTS: usize = 4;
        let filled = &self.plan.filled;
        let shown =
            filled.iter().take(MOST_LAYOUTS).map(|filled| format!("`{}`", self.plan.array(filled.input))).join(", ");
        let layouts = (!filled.is_empty())
            .then(|| format!("chosen input layouts: {shown}{}", and_more(filled.len().saturating_sub(MOST_LAYOUTS))));
        let first = |lines: Vec<String>| {
            let more = and_more(lines.len().saturating_sub(1));
            lines.into_iter().next().map(|line| line + &more)
        };
        let pins = self.products.iter().filter_map(Product::pinned);
        layouts.into_iter().chain(first(self.rewritings())).chain(first(pins.collect())).collect()
    }

    /// Formats the rewritings, each with the figure that it improves.
    fn rewritings(&self) -> Vec<String> {
        let split = self.plan.split.iter().map(|name| format!("softmax `{name}` is split into max, exp and sum"));
        let rewritten = self.plan.rewritten.iter().map(|Rewriting { summary, time, received }| {
            let [before, after] = match self.plan.costs {
                "bytes" => received.map(|bytes| format!("{bytes} received")),
                _ => time.map(|time| self.seconds(time).to_string()),
            };
            format!("{summary}: {after} instead of {before}")
        });
        split.chain(rewritten).collect()
    }

    /// Formats whether a cheaper plan exists.
    fn optimality(&self) -> String {
        let plan = self.plan;
        if plan.is_optimal() {
            let searched = self.searched();
            let received = plan.with_split_axes.map_or(Bytes(0), |bound| bound.received);
            return match plan.costs {
                "bytes" if received.0 > 0 => {
                    format!("optimal: no plan receives fewer bytes ({searched}; with split axes at least {received})")
                }
                "bytes" => format!("optimal: no plan receives fewer bytes ({searched})"),
                "book" => format!("optimal in sequence: no plan is faster by the book's formulas ({searched})"),
                _ => format!("optimal in sequence: no plan has a smaller total under this cost model ({searched})"),
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
            Stop::Operations => "collectives have fewer operations than the fastest ones, as the schedule is long",
            Stop::Limits => "no cheaper plan was found within the limits",
            Stop::Memory => "only some moves between layouts were searched, as all need too much memory",
            Stop::Time => "the search stopped at `--time-limit`",
            Stop::Work => "the search stopped at its work limit, which `--effort 10` raises tenfold",
            Stop::Gap | Stop::Optimal | Stop::Reshards | Stop::Whole => "no cheaper plan was found",
        };
        let least = plan.with_split_axes.unwrap_or(plan.lower_bound);
        let (bound, received) = (self.seconds(least.time), least.received);
        if received.0 > 0 {
            let ratio = plan.received().0 as f64 / received.0 as f64;
            return format!(
                "not proven optimal: every plan receives at least {received}, this plan {ratio:.2}x; {why}"
            );
        }
        if plan.costs == "bytes" || bound.is_negligible() {
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
        // An optimal plan has just been compared with those that were searched.
        let (plans, searched) = match self.plan.is_optimal() {
            true => ("these plans", String::new()),
            false => ("all plans", format!("; {}", self.searched())),
        };
        format!("lower bound over {plans} with perfect overlap {time} ({busy}{searched}), this plan {ratio:.2}x\n")
    }

    /// Formats the plans that were searched.
    ///
    /// Routed moves, other parts of axes, and padding that the program does not state may give better plans.
    fn searched(&self) -> String {
        let axes = if self.plan.in_parts { "whole and split" } else { "whole" };
        let padding = if self.plan.program.may_pad() { ", padding as written" } else { "" };
        format!("collectives on {axes} axes{padding}")
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

/// Formats ` and 2 more`; empty for none.
fn and_more(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" and {count} more") }
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

    /// A plan is compared with those that were searched: padding is mentioned where a dim does not divide.
    #[test]
    fn the_searched_plans_are_named() {
        for (mesh, named) in [
            ("X: 8", "(collectives on whole axes)\nlower bound over these plans with perfect overlap "),
            ("X: 6", "(collectives on whole axes, padding as written)\nlower bound over these plans"),
        ] {
            let source = format!("mesh {{{mesh}}} on tpu_v5e\nA: bf16[49152_X, 1024]\nC = AllGather_X(A)\n");
            let program = compiler::check(&source).0.expect("a right program");
            let compiled = compiler::preview(&program, &Options::default()).expect("a plan");
            let text = Findings::new(&compiled.plan, &compiled.topology).totals_text();
            assert!(text.contains(named), "{text}");
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
            compiled.plan.lower_bound.time = bound;
            let text = Findings::new(&compiled.plan, &compiled.topology).totals_text();
            let line = "lower bound unknown; no cheaper plan was found\n";
            assert!(text.contains(line) && !text.contains("0.00 ns"), "{text}");
        }
        compiled.plan.lower_bound.time = compiled.plan.totals().time();
        let text = Findings::new(&compiled.plan, &compiled.topology).totals_text();
        assert!(text.contains("this plan 1.00x; no cheaper plan"), "{text}");
    }
}
