//! Numbers of pieces that statements request with `using pipeline(8)`.

use crate::plan::{Division, Overlap, Pipeline, Plan, Run, StepId, windows};
use crate::program::PieceCount;
use crate::span::Span;
use itertools::Itertools;
use miette::SourceSpan;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// A statement whose collectives are requested in pieces.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// Its collectives, in the plan with bodies done once.
    steps: BTreeSet<StepId>,
    pieces: PieceCount,
}

impl Request {
    /// Number of pieces; with one, the collectives stay whole.
    pub(super) fn count(&self) -> u64 {
        self.pieces.count
    }

    fn has_step_of(&self, run: &Run) -> bool {
        run.steps().any(|id| self.steps.contains(&id))
    }

    /// Whether a run has a collective that is to be split.
    pub(super) fn allows(&self, run: &Run) -> bool {
        self.count() > 1 && self.has_step_of(run)
    }

    /// Whether a run has a collective that is to stay whole.
    pub(super) fn keeps_whole(&self, run: &Run) -> bool {
        self.count() == 1 && self.has_step_of(run)
    }

    fn is_requested(&self, division: Division) -> bool {
        division.halvings() == (0, 0) && division.equal() == self.count()
    }

    /// Whether a run may be divided like this: it has no collective that is to be divided in another way.
    pub(super) fn permits(&self, run: &Run, division: Division) -> bool {
        !self.has_step_of(run) || self.is_requested(division)
    }

    /// Whether a pipeline has a collective of the statement in as many pieces as requested.
    pub(super) fn is_met_by(&self, pipeline: &Pipeline) -> bool {
        self.is_requested(pipeline.division) && pipeline.steps.keys().any(|id| self.steps.contains(id))
    }

    /// The requested division of a run: its pieces are of equal length, or else of nearly equal length; `None` if its shards
    /// do not divide into them.
    pub(super) fn division(&self, run: &Run, plan: &Plan) -> Option<Division> {
        division(self.count(), run, plan)
    }

    fn is_met(&self, overlap: &Overlap) -> bool {
        self.count() == 1 || overlap.pipelines.iter().any(|pipeline| self.is_met_by(pipeline))
    }
}

fn division(pieces: u64, run: &Run, plan: &Plan) -> Option<Division> {
    let (length, _) = run.shards(plan)?;
    Division::nearly_even(pieces, length).filter(|division| run.divides(plan, *division))
}

/// The requests of a plan, of statements that communicate.
pub(super) fn requests(plan: &Plan) -> Vec<Request> {
    // A function that is called twice has its statements twice.
    let mut steps: BTreeMap<(PieceCount, Option<Span>), BTreeSet<StepId>> = BTreeMap::new();
    for id in plan.ids().filter(|id| plan.communicates(*id)) {
        let value = plan.program.value(plan.step(id).user);
        if let Some(pieces) = value.using.pieces {
            steps.entry((pieces, value.call)).or_default().insert(id);
        }
    }
    steps.into_iter().map(|((pieces, _), steps)| Request { steps, pieces }).collect()
}

/// Collectives that are not done in as many pieces as a statement requests.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[error("{collective} cannot be done in {count} pieces{why}")]
#[diagnostic(code("pipeline-impossible"), help("{help}"))]
pub struct PipelineImpossible {
    collective: String,
    count: u64,
    why: &'static str,
    help: String,
    #[label("requested here")]
    at: SourceSpan,
}

/// The first request that a plan with overlap does not meet; where a requested method does not apply, that is the reason.
pub fn unmet(plan: &Plan) -> Option<PipelineImpossible> {
    let is_done = |id: &StepId| !matches!(plan.step(*id).recipe, Some(Err(_)));
    let mut requests = requests(plan).into_iter().filter(|request| request.steps.iter().all(is_done));
    let request = requests.find(|request| !request.is_met(&plan.overlap))?;
    let runs = windows(plan).into_iter().filter(|run| request.allows(run)).collect_vec();
    let divides = |count: u64| runs.iter().any(|run| division(count, run, plan).is_some());
    let (why, help) = if runs.is_empty() {
        (
            ", as no product and no other collective keeps a dim that it keeps",
            "without `pipeline`, it is done as a whole".to_owned(),
        )
    } else if divides(request.count()) {
        (
            ": the schedule is not within the limits of the program, or has too many operations to prove",
            "request fewer pieces, or raise the limit".to_owned(),
        )
    } else {
        let counts = (2..=PieceCount::MOST).filter(|count| divides(*count)).join(", ");
        let help = match counts.is_empty() {
            true => "no number of pieces divides its shards".to_owned(),
            false => format!("numbers of pieces that divide its shards: {counts}"),
        };
        (", as its shards do not divide into them", help)
    };
    let first = request.steps.first()?;
    let collective = plan.op_name(*first);
    let PieceCount { count, at } = request.pieces;
    Some(PipelineImpossible { collective, count, why, help, at: at.into() })
}
