//! Costs as weighted busy times of units, to find plans that are fast as a whole.
//!
//! With any overlap of steps, a plan takes at least as long as its busiest unit is busy. For any weights `w`, no plan
//! is faster than the minimum of `Σ w·load / Σ w` over all plans. If the weights favour the busiest units, the plan
//! with the minimum balances the load over them.

use super::floor::{Loads, Unit, units};
use super::{CostModel, limited};
use crate::bounds::crossing::Crossing;
use crate::collective::Collective;
use crate::fusion::Fusion;
use crate::layout::Layout;
use crate::plan::{Cost, Costs, Limit, LocalWork, Plan};
use crate::topology::Topology;
use crate::units::Time;
use std::borrow::Cow;

/// The integer that represents weight 1.
const PARTS: u64 = 1 << 10;

/// The units of a machine with their weights.
pub(crate) struct Balance<'a> {
    loads: Vec<(Loads<'a>, u64)>,
}

impl<'a> Balance<'a> {
    /// Equal weights.
    pub(crate) fn new(topology: &'a Topology) -> Balance<'a> {
        let loads = |unit: Unit| Loads::new(Cow::Borrowed(topology), CostModel::Exact, unit);
        Balance { loads: units(topology).into_iter().map(|unit| (loads(unit), PARTS)).collect() }
    }

    /// Minimum busy time of each unit in a plan.
    pub(crate) fn of(&self, plan: &Plan) -> Vec<Time> {
        self.loads.iter().map(|(loads, _)| loads.busy(plan)).collect()
    }

    /// A lower bound for all plans of a program, given the cheapest plan under these costs.
    pub(crate) fn bound(&self, plan: &Plan) -> Time {
        let weights = self.loads.iter().map(|(_, weight)| u128::from(*weight));
        let weighted =
            self.of(plan).into_iter().zip(weights.clone()).map(|(time, weight)| time.ticks().saturating_mul(weight));
        Time::from_ticks(weighted.fold(0, u128::saturating_add) / weights.sum::<u128>().max(1))
    }

    /// Shifts the weights towards the load of a plan: the busiest unit counts double, idle units are unchanged.
    #[must_use]
    pub(crate) fn shifted(mut self, plan: &Plan) -> Balance<'a> {
        let busy = self.of(plan);
        let most = busy.iter().max().map_or(0, |time| time.ticks()).max(1);
        for ((_, weight), time) in self.loads.iter_mut().zip(busy) {
            let share = u64::try_from(time.ticks().saturating_mul(u128::from(PARTS)) / most).unwrap_or(PARTS);
            *weight = weight.saturating_mul(PARTS + share) / PARTS;
        }
        let whole: u64 = self.loads.iter().map(|(_, weight)| *weight).fold(0, u64::saturating_add);
        let even = PARTS * self.loads.len() as u64;
        for (_, weight) in &mut self.loads {
            let part = u128::from(*weight) * u128::from(even) / u128::from(whole.max(1));
            *weight = u64::try_from(part).unwrap_or(u64::MAX);
        }
        self
    }

    fn summed(&self, time: impl Fn(&Loads<'a>) -> Time) -> Cost {
        let weighted = self.loads.iter().map(|(loads, weight)| time(loads).ticks().saturating_mul(u128::from(*weight)));
        limited(Time::from_ticks(weighted.fold(0, u128::saturating_add) / u128::from(PARTS)), Limit::Bandwidth)
    }
}

impl Costs for Balance<'_> {
    fn collective(&self, collective: &Collective, from: &Layout) -> Cost {
        let machine = self.loads.first().map(|(loads, _)| loads.topology());
        let crossing = machine.and_then(|machine| Crossing::of(collective, from, machine));
        self.summed(|loads| crossing.as_ref().map_or(Time::ZERO, |crossing| loads.of(crossing)))
    }

    fn product(&self, work: &LocalWork) -> Cost {
        self.summed(|loads| loads.product(work).time)
    }

    fn map(&self, work: &LocalWork) -> Cost {
        self.summed(|loads| loads.map(work).time)
    }

    fn fusion(&self) -> Fusion {
        self.loads.first().map_or(Fusion::None, |(loads, _)| loads.fusion())
    }

    fn name(&self) -> &'static str {
        "load"
    }
}

#[cfg(test)]
mod tests {
    use super::Balance;
    use crate::compiler::{self, Options};
    use crate::plan::{self, Request};
    use itertools::iproduct;

    /// For any weights, the cheapest plan bounds the time of every plan.
    #[test]
    fn no_whole_is_below_a_bound() {
        for rows in [256, 2048] {
            let source = |x: &str, h: &str| {
                format!(
                    "mesh {{X: 2, Y: 2}} on tpu_v5p\ndims {{B: {rows}, D: 1024, F: 4096}}\nx: bf16[B_XY, D]\n\
                     W: bf16[D_X, F_Y]\nV: bf16[F_Y, D_X]\nh{h} = relu(x * W)\ny{x} = h * V\noutput y\n"
                )
            };
            let layouts = iproduct!(["", "[B_XY, D]", "[B, D_X]"], ["", "[B_XY, F]", "[B_X, F_Y]"]);
            let wholes = layouts.filter_map(|(x, h)| {
                let program = compiler::check(&source(x, h)).0?;
                Some(compiler::compile(&program, &Options::default()).ok()?.plan.time())
            });
            let least = wholes.min().expect("a plan");
            let program = compiler::check(&source("", "")).0.expect("a right program");
            let topology = compiler::machine(&program, &Options::default()).expect("a machine");
            let mut balance = Balance::new(&topology);
            let mut bounds = Vec::new();
            for _ in 0..4 {
                let plan = plan::plan_as(&program, &balance, Request::default()).expect("a plan");
                bounds.push(balance.bound(&plan));
                balance = balance.shifted(&plan);
            }
            assert!(bounds.iter().all(|bound| *bound <= least), "{rows}: {bounds:?} {least:?}");
            // Shifting weights to the busiest units improves the bounds.
            assert!(bounds.iter().max() > bounds.first(), "{rows}: {bounds:?}");
        }
    }
}
