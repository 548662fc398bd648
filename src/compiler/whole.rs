//! The choice among plans by the time of their whole schedules.
//!
//! The search adds up the times of steps. As a whole, with overlap, another plan may take less time: one whose busiest unit
//! is busy for less time, or one in which a product is computed in another way. Such plans are timed on the clock, too.

use super::{Options, Overlapping, Resharding, machine_as_planned};
use crate::advice;
use crate::costs::Balance;
use crate::diag::Diagnostics;
use crate::expect;
use crate::lower;
use crate::overlap;
use crate::plan::{self, Budget, Costs, Objective, Plan, Request, Stop, unroll};
use crate::program::{Definition, Pin, Program, ValueId};
use crate::recipe::{self, Tuner};
use crate::schedule::Schedule;
use crate::sim::proof::Proof;
use crate::topology::Topology;
use crate::units::Time;
use itertools::Itertools;
use std::borrow::Cow;

/// A plan that was taken.
pub(super) struct Taken {
    pub(super) plan: Plan,
    /// The schedule of the unrolled plan, and its proof, if they had to be made to take it.
    pub(super) made: Option<(Schedule, Option<Proof>)>,
}

impl From<Plan> for Taken {
    fn from(plan: Plan) -> Taken {
        Taken { plan, made: None }
    }
}

/// The plan of a program, with what had to be made for it.
///
/// # Errors
/// As for [`super::plan()`].
pub(super) fn taken(program: &Program, topology: &Topology, options: &Options) -> Result<Taken, Diagnostics> {
    let requested = program.values.iter().filter_map(|value| value.using.method);
    let costs = options.costs.with_methods(requested, topology, options.lowering);
    let request = Request {
        written: false,
        // What is to be written for a program is said of its own steps.
        rewrites: !options.as_written && !options.strict,
        alternatives: options.alternatives,
        budget: options.budget,
    };
    let chooser = Chooser { topology, options, costs: costs.as_ref(), request };
    let ordinary = || plan::plan_as(program, costs.as_ref(), request).map_err(|error| Diagnostics::of(&error));
    let whole = |plan: Plan| chooser.whole(plan, Budget::WHOLE_EFFORT);
    if !options.strict {
        return Ok(chooser.fastest(whole(ordinary()?)?));
    }
    let taken = match plan::plan_as(program, costs.as_ref(), Request { written: true, ..request }).map(whole) {
        Ok(Ok(taken)) => taken,
        failed => {
            let plan = ordinary()?;
            let unwritten = advice::unwritten(&plan);
            let found = whole(plan);
            match failed {
                // What communicates may be within a limit that nothing else keeps.
                Ok(Err(exceeded)) if found.is_err() => return Err(exceeded),
                _ if unwritten.is_empty() => found?,
                _ => return Err(unwritten),
            }
        }
    };
    Ok(chooser.improved(taken))
}

/// Operations and operands of all collectives of a plan.
fn work(plan: &Plan) -> u64 {
    let work = |id| match &plan.step(id).recipe {
        Some(Ok(chosen)) => u64::try_from(chosen.work).unwrap_or(u64::MAX).saturating_mul(plan.times(id)),
        Some(Err(_)) | None => 0,
    };
    plan.ids().map(work).fold(0u64, u64::saturating_add)
}

/// The operations of a plan exceed the limit of the proof.
struct TooLarge;

/// The schedule of an unrolled plan that may exceed the limit of the proof; `None` for smaller plans, which are not lowered.
fn made_if_large(plan: &Plan) -> Result<Option<(Schedule, Option<Proof>)>, TooLarge> {
    let devices = plan.program.mesh.device_count() as u64;
    if work(plan).saturating_mul(devices) <= recipe::MOST_WORK as u64 {
        return Ok(None);
    }
    let (unrolled, is_whole) = match unroll::unroll(plan) {
        Ok(unrolled) => (unrolled, true),
        Err(_) => (unroll::once(plan), false),
    };
    let Ok(schedule) = lower::lower(&unrolled) else { return Ok(None) };
    let proof = recipe::proven_if_large(&schedule).map_err(|_| TooLarge)?;
    Ok(is_whole.then_some((schedule, proof)))
}

/// The time of a plan as a whole without this part of it.
fn shorter(plan: &Plan, least_saving: u128) -> Time {
    Time::from_ticks(plan.time().ticks() - plan.time().ticks() / least_saving)
}

/// Chooses among the plans of a program.
#[derive(Clone, Copy)]
struct Chooser<'a> {
    topology: &'a Topology,
    options: &'a Options,
    costs: &'a dyn Costs,
    request: Request,
}

impl<'a> Chooser<'a> {
    /// Whether plans are chosen by simulated time.
    fn is_by_time(&self) -> bool {
        self.costs.is_by_clock() && self.costs.objective() == Objective::Time
    }

    /// The fastest of the cheapest plan in sequence, which is given as a whole, and of others.
    fn fastest(&self, Taken { plan, made }: Taken) -> Taken {
        if self.options.overlap == Overlapping::None || !self.is_by_time() {
            return self.improved(Taken { plan, made });
        }
        let whole = |other| self.whole(other, Budget::WHOLE_EFFORT).ok().map(|taken| taken.plan);
        let balanced = self.balanced(&plan).into_iter().filter_map(whole);
        let plan = plan.unless_faster(balanced.collect(), Budget::LEAST_SAVING);
        let varied = self.varied(&plan).into_iter().filter_map(whole);
        let varied = varied.map(|other| self.improved(other.into()).plan).collect_vec();
        let made = made.filter(|_| plan.instead.is_none());
        let Taken { plan, made } = self.improved(Taken { plan, made });
        let plan = plan.unless_faster(varied, Budget::LEAST_SAVING_OF_A_VARIATION);
        let made = made.filter(|_| plan.instead.is_none());
        Taken { plan, made }
    }

    /// A request for one of several other plans.
    ///
    /// - `moves`: that the search keeps.
    /// - `share`: of the work limit.
    fn other(&self, moves: usize, share: u64) -> Request {
        let budget = self.request.budget.within_moves(moves).divided_by(share);
        Request { alternatives: false, rewrites: false, budget, ..self.request }
    }

    /// Whether links and devices of a plan that is not too long could work at the same time.
    fn may_overlap(&self, whole: &Plan) -> bool {
        let totals = whole.totals();
        // To try layouts under a limit on memory takes long enough.
        let is_tried = whole.has_tried_layouts();
        let is_mixed = totals.compute > Time::ZERO && totals.communication > Time::ZERO;
        let is_long = whole.steps.node_count() > Budget::MOST_SHIFTED_STEPS;
        is_mixed && !is_long && !is_tried && whole.program.mesh == self.topology.mesh
    }

    /// Plans whose busiest unit is busy for less time than the given plan takes as a whole, sorted by the load of that unit.
    fn balanced(&self, whole: &Plan) -> Vec<Plan> {
        if !self.may_overlap(whole) {
            return Vec::new();
        }
        let most = shorter(whole, Budget::LEAST_SAVING);
        let (program, mut balance) = (whole.unfilled(), Balance::new(self.topology));
        let request = self.other(Budget::MOST_SHIFTED_MOVES, Budget::SHARE_OF_A_SHIFT);
        let mut found: Vec<(Time, Plan)> = Vec::new();
        let mut restricted = 0;
        for _ in 0..Budget::MOST_SHIFTS {
            let Ok(plan) = plan::plan_as(&program, &balance, request) else { break };
            if balance.bound(&plan) >= most {
                break;
            }
            let busiest = balance.of(&plan).into_iter().max().unwrap_or_default();
            if busiest < most && !plan.is_alike(whole) && !found.iter().any(|(_, known)| known.is_alike(&plan)) {
                found.push((busiest, plan.clone()));
            }
            restricted += usize::from(plan.stop == Stop::Memory);
            if restricted == Budget::MOST_RESTRICTED_SHIFTS {
                break;
            }
            balance = balance.shifted(&plan);
        }
        found.sort_by_key(|(busiest, _)| *busiest);
        found.into_iter().take(Budget::MOST_WHOLE).map(|(_, plan)| plan.priced_by(self.costs)).collect()
    }

    /// Plans in which one product is computed in another way: those that take least as a whole after a short search.
    fn varied(&self, whole: &Plan) -> Vec<Plan> {
        let options = &Options { reshard: Resharding::Chains, ..self.options.clone() };
        let quick = |plan: &Plan| {
            let taken =
                Chooser { options, ..*self }.whole(plan.clone(), Budget::WHOLE_EFFORT / Budget::SHARE_OF_A_VARIATION);
            taken.ok().map(|taken| taken.plan.time()).filter(|time| *time < whole.time())
        };
        let timed = self.variations(whole).into_iter().filter_map(|plan| Some((quick(&plan)?, plan)));
        let timed = timed.sorted_by_key(|(time, _)| *time).take(Budget::MOST_WHOLE);
        timed.map(|(_, plan)| plan).collect()
    }

    /// Plans in which one product is computed in another way, and whose busiest unit is busy for less time than the given
    /// plan takes as a whole: those that take least in sequence.
    fn variations(&self, whole: &Plan) -> Vec<Plan> {
        let program = whole.unfilled();
        let is_free = |id: &ValueId| {
            let value = program.value(*id);
            matches!(value.definition, Definition::Product { .. }) && value.pin.is_none()
        };
        let products: Vec<ValueId> = program.value_ids().filter(is_free).collect();
        let axes = self.topology.mesh.axis_ids().filter(|axis| self.topology.mesh.size(*axis) > 1).count();
        let steps = whole.ids().map(|id| whole.times(id)).fold(0, u64::saturating_add);
        let is_long = axes > Budget::MOST_VARIED_AXES || steps > Budget::MOST_VARIED_STEPS;
        if !self.may_overlap(whole) || is_long {
            return Vec::new();
        }
        let most = shorter(whole, Budget::LEAST_SAVING_OF_A_VARIATION);
        let balance = Balance::new(self.topology);
        let request = self.other(Budget::MOST_VARIED_MOVES, Budget::SHARE_OF_A_VARIED_SEARCH);
        let mut found: Vec<Plan> = Vec::new();
        for (product, pin) in products.into_iter().cartesian_product(Pin::all()) {
            if request.budget.is_over() {
                break;
            }
            let mut pinned = program.clone();
            pinned.values[product.index()].pin = Some(pin);
            let Ok(plan) = plan::plan_as(&pinned, self.costs, request) else { continue };
            let busiest = balance.of(&plan).into_iter().max().unwrap_or_default();
            if busiest < most && !plan.is_alike(whole) && !found.iter().any(|known| known.is_alike(&plan)) {
                found.push(plan.unpinned(product));
            }
        }
        found.into_iter().sorted_by_key(|plan| plan.totals().time()).take(Budget::MOST_VARIATIONS).collect()
    }

    /// A tuner on a machine.
    fn tuner<'t>(&self, machine: &'t Topology) -> Tuner<'t> {
        Tuner::new(Cow::Borrowed(machine), self.options.lowering).by(self.costs.objective())
    }

    /// As [`Chooser::tuner`], with the routes that the costs know.
    fn knowing_tuner<'t>(&self, machine: &'t Topology) -> Tuner<'t> {
        match self.costs.tuner() {
            Some(other) => self.tuner(machine).sharing(other),
            None => self.tuner(machine),
        }
    }

    /// A plan with its overlap improved, if it is a short one.
    fn improved(&self, Taken { plan, made }: Taken) -> Taken {
        let is_long = plan.steps.node_count() > Budget::MOST_SHIFTED_STEPS;
        if self.options.overlap == Overlapping::None || is_long {
            return Taken { plan, made };
        }
        let machine = machine_as_planned(&plan, self.topology);
        let first = self.knowing_tuner(&machine);
        let tuner = |pieces| self.tuner(&machine).sharing(&first).repeated(pieces);
        let better = overlap::improved(plan.clone(), tuner, &machine, Budget::WHOLE_EFFORT / 2);
        let plan = if expect::within_limits(&better, self.topology).is_ok() { better } else { plan };
        let made = made.filter(|_| plan.overlap.is_none());
        Taken { plan, made }
    }

    /// A plan with recipes and with its steps overlapped on the clock.
    ///
    /// - `effort`: as for [`overlap::overlapped`].
    fn whole(&self, plan: Plan, effort: usize) -> Result<Taken, Diagnostics> {
        let Chooser { topology, options, costs, .. } = *self;
        let machine = machine_as_planned(&plan, topology);
        let by_clock = costs.is_by_clock();
        let tuner = || self.tuner(&machine);
        let fastest = match costs.tuner() {
            Some(tuner) if machine.mesh == topology.mesh => plan.with_recipes(tuner, by_clock),
            Some(_) | None => plan.with_recipes(&tuner(), by_clock),
        };
        let fastest = match work(&fastest) > Budget::MOST_WORK_IN_CHUNKS {
            false => fastest,
            true => fastest.with_recipes(&tuner().few_chunks(), by_clock),
        };
        let (plan, made) = match made_if_large(&fastest) {
            Ok(made) => (fastest, made),
            Err(TooLarge) => (fastest.with_recipes(&tuner().fewest_operations(), by_clock), None),
        };
        expect::within_limits(&plan, topology).map_err(|breach| Diagnostics::of(&breach))?;
        let first = self.knowing_tuner(&machine);
        let overlapped = |plan: Plan, in_sequence: Option<&Schedule>| match options.overlap {
            Overlapping::None => Ok(plan),
            Overlapping::Auto => {
                let tuner = |pieces| tuner().sharing(&first).repeated(pieces);
                let whole = overlap::overlapped(plan.clone(), in_sequence, tuner, &machine, effort);
                // A bundle may receive more bytes than its collectives.
                let plan = if expect::within_limits(&whole, topology).is_ok() { whole } else { plan };
                overlap::unmet(&plan).map_or(Ok(plan), |unmet| Err(Diagnostics::of(&unmet)))
            }
        };
        let resharded = match options.reshard {
            Resharding::Auto if self.is_by_time() && !options.strict => plan.with_reshards(&first),
            Resharding::Auto | Resharding::Chains => None,
        };
        // Each iteration of a body repeats the many messages of a routed move.
        let resharded = resharded.filter(|other| work(other) <= Budget::MOST_WORK_IN_CHUNKS.max(work(&plan)));
        let resharded = resharded.filter(|plan| expect::within_limits(plan, topology).is_ok());
        let resharded = resharded.and_then(|plan| overlapped(plan, None).ok());
        let plan = overlapped(plan, made.as_ref().map(|(schedule, _)| schedule))?;
        Ok(match resharded.filter(|other| other.time() < plan.time()) {
            Some(plan) => plan.into(),
            None => {
                let made = made.filter(|_| plan.overlap.is_none());
                Taken { plan, made }
            }
        })
    }
}
