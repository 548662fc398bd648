//! Checks of `expect` and `limit` lines.

use crate::collective::{Collective, CollectiveKind};
use crate::diag::Diagnostics;
use crate::layout::{Dim, Layout, Sharding};
use crate::mesh::{AxisSet, Mesh};
use crate::plan::{Plan, StepId, StepOp, Totals};
use crate::program::{Definition, Expectation, ExpectationKind, ExpectedMove, Program, Repeat, Value, Wanted};
use crate::span::Span;
use crate::syntax::{Amount, Measure, Unit};
use crate::topology::Topology;
use crate::units::{Bytes, Time};
use itertools::Itertools;
use std::cell::OnceCell;
use thiserror::Error;

/// A failed `expect` or `limit` line.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
pub enum Breach {
    /// A failed `expect` line.
    #[error("expected {expected}, found {found}")]
    #[diagnostic(code("expect-failed"))]
    Expectation {
        /// The expectation.
        expected: String,
        /// The figure of the plan.
        found: String,
        /// The line.
        #[label("expected here")]
        at: miette::SourceSpan,
        /// The cause of the difference.
        #[help]
        help: Option<String>,
    },
    /// A failed `limit` line.
    #[error("the plan needs {found}; the limit is {limit}")]
    #[diagnostic(code("limit-exceeded"), help("{help}"))]
    Limit {
        /// The figure of the plan.
        found: String,
        /// The limit.
        limit: String,
        /// Suggestion.
        help: String,
        /// The line.
        #[label("the limit")]
        at: miette::SourceSpan,
    },
}

/// Checks the `expect` lines of a plan's program.
///
/// - `makespan`: simulated time of the whole run; without it, that of the plan with overlap, or else the sum of the times of
///   the steps.
pub fn judge(plan: &Plan, topology: &Topology, makespan: Option<Time>) -> Diagnostics {
    let mut diagnostics = Diagnostics::default();
    let figures = Figures::new(plan, topology, makespan);
    for expectation in &plan.program.expectations {
        if let Some(breach) = breach(&figures, expectation) {
            diagnostics.push(&breach);
        }
    }
    diagnostics
}

/// Checks the `limit` lines of a plan's program.
///
/// # Errors
/// The first limit that is exceeded.
pub fn within_limits(plan: &Plan, topology: &Topology) -> Result<(), Breach> {
    let figures = Figures::new(plan, topology, None);
    for limit in &plan.program.limits {
        let (value, found) = figures.measured(limit.measure, limit.amount.unit);
        if value > allowed(&limit.amount, topology) {
            let (text, help) = (limit.amount.text.clone(), limit_help(limit.measure, limit.amount.unit, value));
            return Err(Breach::Limit { found, limit: text, help, at: limit.span.into() });
        }
    }
    Ok(())
}

/// The limit on memory that the inputs alone exceed, in every plan.
///
/// They are there at the start. Dims whose layout is free are split over all axes.
///
/// # Errors
/// The first such limit.
pub fn holds_inputs(program: &Program) -> Result<(), Breach> {
    let mesh = &program.mesh;
    let bytes = |value: &Value| {
        let shared = match &value.wanted {
            Wanted::Exact(sharding) => return sharding.local_bytes(value.dtype, &value.dims, mesh).0,
            Wanted::Partly(_) | Wanted::Free => mesh.device_count() as u64,
        };
        Sharding::replicated(value.dims.len()).local_bytes(value.dtype, &value.dims, mesh).0.div_ceil(shared)
    };
    let is_given = |value: &&Value| matches!(&value.definition, Definition::Input { supply } if supply.is_given());
    let held = program.values.iter().filter(is_given).map(bytes).fold(0, u64::saturating_add);
    for limit in program.limits.iter().filter(|limit| limit.measure == Measure::Memory) {
        if u128::from(held) > limit.amount.value {
            let found = format!("{} per device for its inputs", Bytes(held));
            let help = "shard the inputs over more axes, or raise the limit".to_owned();
            return Err(Breach::Limit { found, limit: limit.amount.text.clone(), help, at: limit.span.into() });
        }
    }
    Ok(())
}

/// Help for an exceeded limit. The search respects limits on memory and operations.
fn limit_help(measure: Measure, unit: Unit, value: u128) -> String {
    let kept = match unit {
        Unit::Bytes => format!("{value}B"),
        Unit::Operations => value.to_string(),
        Unit::Picoseconds => String::new(),
    };
    match measure {
        Measure::Memory | Measure::Flops => format!(
            "no plan within the limit was found; raise it to `limit {} {kept}`, or write layouts that shard more",
            measure.name()
        ),
        Measure::Time | Measure::Communication => {
            "this limit does not guide the search; write other layouts or raise it".to_owned()
        }
    }
}

fn breach(figures: &Figures<'_>, expectation: &Expectation) -> Option<Breach> {
    let Figures { plan, topology, .. } = figures;
    let (found, help) = match &expectation.kind {
        ExpectationKind::Bound { measure, strict, amount } => {
            let (value, found) = figures.measured(*measure, amount.unit);
            let most = allowed(amount, topology);
            if value < most || value == most && !strict {
                return None;
            }
            (found, None)
        }
        ExpectationKind::NoCommunication => {
            let moves: Vec<StepId> = plan.ids().filter(|id| plan.communicates(*id)).collect();
            let first = moves.first()?;
            let help = format!("the first is `{}` of `{}`", plan.op_name(*first), source(plan, *first));
            (counted(moves.len()), Some(help))
        }
        ExpectationKind::Collectives { statements, moves, .. } => {
            let contain = |span: Span| statements.iter().any(|own| own.start <= span.start && span.end <= own.end);
            // Bodies of functions belong to the statements that call them.
            let belongs = |id: StepId| {
                let user = plan.step(id).user;
                // What is moved for the first iteration belongs to the body, whatever name it comes under.
                let carries = |repeat: &Repeat| {
                    let carried = repeat.carried.iter().find(|own| own.first == user || own.last == user)?;
                    let mut made = plan.program.value(carried.last).definition.operands().iter();
                    Some((made.any(|made| repeat.body.contains(&made.index())), carried.last))
                };
                let value = match plan.program.repeats.iter().find_map(carries) {
                    // What is made before the body is carried in another layout.
                    Some((false, _)) => return false,
                    Some((true, last)) => plan.program.value(last),
                    None => plan.program.value(user),
                };
                contain(value.span) || value.call.is_some_and(contain)
            };
            let found: Vec<StepId> = plan.ids().filter(|id| plan.communicates(*id) && belongs(*id)).collect();
            // Along axes of one device nothing is sent.
            let mesh = &plan.program.mesh;
            let moves: Vec<_> =
                moves.iter().filter(|expected| expected.axes.is_none_or(|axes| axes.group_size(mesh) > 1)).collect();
            if are_moves(plan, &found, &moves) {
                return None;
            }
            (format!("[{}]", found.iter().map(|id| plan.op_name(*id)).join(", ")), None)
        }
    };
    Some(Breach::Expectation { expected: expectation.text.clone(), found, at: expectation.span.into(), help })
}

/// The figures of a plan that lines may bound.
struct Figures<'a> {
    plan: &'a Plan,
    topology: &'a Topology,
    makespan: Option<Time>,
    /// Counted once, for the first line that needs them.
    totals: OnceCell<Totals>,
}

impl<'a> Figures<'a> {
    fn new(plan: &'a Plan, topology: &'a Topology, makespan: Option<Time>) -> Figures<'a> {
        Figures { plan, topology, makespan, totals: OnceCell::new() }
    }

    /// A measure in ticks, bytes or operations, and as text.
    fn measured(&self, measure: Measure, unit: Unit) -> (u128, String) {
        let Figures { plan, topology, .. } = self;
        let totals = self.totals.get_or_init(|| plan.totals());
        let bytes = |bytes: Bytes| (u128::from(bytes.0), format!("{bytes} per device"));
        let time = |time: Time, what: &str| (time.ticks(), format!("{} {what}", topology.scale.show(time)));
        match (measure, unit) {
            (Measure::Time, _) => match self.makespan.or(plan.overlap.whole.map(|whole| whole.time)) {
                Some(makespan) => time(makespan, "simulated"),
                None => time(totals.time(), &format!("with {} costs, steps in sequence", plan.costs)),
            },
            (Measure::Memory, _) => bytes(totals.peak()),
            (Measure::Communication, Unit::Picoseconds) => time(totals.communication, "of communication"),
            (Measure::Communication, Unit::Bytes | Unit::Operations) => bytes(totals.received()),
            (Measure::Flops, _) => (totals.flops, format!("{:.4e} operations per device", totals.flops as f64)),
        }
    }
}

/// An amount in ticks, bytes or operations.
fn allowed(amount: &Amount, topology: &Topology) -> u128 {
    match amount.unit {
        Unit::Picoseconds => {
            u64::try_from(amount.value).map_or(u128::MAX, |time| topology.scale.picoseconds(time).ticks())
        }
        Unit::Bytes | Unit::Operations => amount.value,
    }
}

fn counted(moves: usize) -> String {
    if moves == 1 { "1 collective".to_owned() } else { format!("{moves} collectives") }
}

fn source(plan: &Plan, id: StepId) -> String {
    plan.operands(id).first().map(|operand| plan.array_label(*operand)).unwrap_or_default()
}

/// Whether these steps are the expected collectives, in order. A `Reshard` is also the chain of collectives that it
/// replaces, so an expectation holds with and without it.
fn are_moves(plan: &Plan, found: &[StepId], expected: &[&ExpectedMove]) -> bool {
    let Some((id, rest)) = found.split_first() else { return expected.is_empty() };
    let StepOp::Collective(collective) = &plan.step(*id).op else { return false };
    // By the dims of the result: the operand may have been renamed on the way.
    let (mesh, to): (_, &Layout) = (&plan.program.mesh, &plan.step(*id).layout);
    let from = &plan.step(plan.operands(*id)[0]).layout.sharding;
    let is_move = |collective: &Collective, before: &Sharding, after: &Sharding, expected: &ExpectedMove| {
        matches_move(mesh, collective, &to.dims, [before, after], expected)
    };
    if let Some((first, others)) = expected.split_first()
        && is_move(collective, from, &to.sharding, first)
        && are_moves(plan, rest, others)
    {
        return true;
    }
    let Collective::Reshard { by, .. } = collective else { return false };
    let (mut before, mut left) = (from.clone(), expected);
    for step in by {
        let Some(after) = step.apply(&before, mesh) else { return false };
        if step.kind() != CollectiveKind::Slice {
            let Some((first, others)) = left.split_first() else { return false };
            if !is_move(step, &before, &after, first) {
                return false;
            }
            left = others;
        }
        before = after;
    }
    are_moves(plan, rest, left)
}

/// Whether a collective between two layouts of an array is the expected one.
fn matches_move(
    mesh: &Mesh,
    collective: &Collective,
    all: &[Dim],
    [from, to]: [&Sharding; 2],
    expected: &ExpectedMove,
) -> bool {
    let several = |axes: AxisSet| -> AxisSet { axes.iter().filter(|axis| mesh.size(*axis) > 1).collect() };
    let gains = |place: usize| to.dims[place].set().without(from.dims[place].set());
    let gained = |(axes, dims): &(AxisSet, Vec<_>)| {
        let places = (0..to.dims.len()).filter(|place| dims.contains(&all[*place].id));
        several(places.map(gains).fold(AxisSet::NONE, AxisSet::union)) == several(*axes)
    };
    collective.kind().name() == expected.kind
        && expected.axes.is_none_or(|axes| several(axes) == several(collective.axes(from, mesh)))
        && expected.onto.iter().all(gained)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::{self, Options};

    /// Diagnostics of failing lines, for an FSDP product on four devices.
    fn breaches(lines: &str) -> Vec<(String, String)> {
        let source = format!(
            "mesh {{X: 4}} on tpu_v5e\ndims {{B: 16, D: 32, F: 64}}\n\
             C[B_X, F] = A[B_X, D] * W[D_X, F]\n{lines}\noutput C\n"
        );
        let (program, diagnostics) = compiler::check(&source);
        let program = program.unwrap_or_else(|| panic!("{diagnostics:?}"));
        let options = Options::default();
        let topology = compiler::machine(&program, &options).expect("a machine");
        let found = match compiler::plan(&program, &topology, &options) {
            Ok(plan) => judge(&plan, &topology, None),
            Err(found) => found,
        };
        found.iter().map(|found| (found.code.clone(), found.message.clone())).collect()
    }

    #[test]
    fn what_holds_is_quiet() {
        // D * F = 2048 elements of two bytes; three quarters of them are received, the whole is held.
        for line in [
            "expect collectives C = [AllGather_X]",
            "expect collectives C = [AllGather]",
            "expect communication <= 3072B",
            "expect communication < 1.001ms",
            "expect time < 1ms",
            "expect memory <= 1MiB",
            "limit memory 1MiB",
            "limit flops 4e12",
            "limit communication 3.072kB",
        ] {
            assert_eq!(breaches(line), [], "{line}");
        }
    }

    #[test]
    fn what_does_not_hold_is_told_with_its_numbers() {
        let gather = "[AllGather_X]";
        for (line, code, message) in [
            ("expect no communication", "expect-failed", "expected no communication, found 1 collective"),
            (
                "expect communication < 3072B",
                "expect-failed",
                "expected communication < 3072B, found 3.07 kB per device",
            ),
            ("expect collectives C = []", "expect-failed", &format!("expected collectives C = [], found {gather}")),
            (
                "expect collectives C = [ReduceScatter_{X,F}]",
                "expect-failed",
                &format!("expected collectives C = [ReduceScatter_{{X,F}}], found {gather}"),
            ),
            ("limit communication 3071B", "limit-exceeded", "the plan needs 3.07 kB per device; the limit is 3071B"),
        ] {
            assert_eq!(breaches(line), [(code.to_owned(), message.to_owned())], "{line}");
        }
    }

    /// The suggested limit holds, and no lower one does.
    #[test]
    fn the_limit_that_is_offered_is_kept() {
        let planned = |limit: &str| {
            let source = format!(
                "mesh {{X: 4}} on tpu_v5e\ndims {{I: 64, J: 64, K: 64}}\n\
                 A: bf16[I_?, J_?]\nB: bf16[J_?, K_?]\nC[I, K] = A * B\n{limit}\noutput C\n"
            );
            let program = compiler::check(&source).0.expect("a program");
            let options = Options::default();
            let topology = compiler::machine(&program, &options).expect("a machine");
            compiler::plan(&program, &topology, &options)
        };
        for line in ["limit memory 1kB", "limit flops 10"] {
            let found = planned(line).expect_err("too little");
            let help = found.iter().next().and_then(|found| found.help.clone()).expect("a help");
            let offered = help.split('`').nth(1).expect("a limit");
            assert!(planned(offered).is_ok(), "{help}");
            let digits: u64 =
                offered.chars().filter(char::is_ascii_digit).collect::<String>().parse().expect("a number");
            let lower = offered.replace(&digits.to_string(), &(digits - 1).to_string());
            assert!(planned(&lower).is_err(), "{lower}");
        }
    }
}
