//! The problems that the stages of planning pass on.

use super::reshard::SearchOptions;
use super::{Costs, LowerBound, Plan, PlanError};
use crate::program::Program;

/// A program to plan.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) program: &'a Program,
    /// On the mesh of the program.
    pub(super) costs: &'a dyn Costs,
    pub(super) options: SearchOptions,
}

impl<'a> Problem<'a> {
    /// The problem with other options.
    pub(super) fn with(self, options: SearchOptions) -> Problem<'a> {
        Problem { options, ..self }
    }
}

/// Why a problem has no plan.
#[derive(Clone, Debug)]
pub(super) struct Unplanned {
    pub(super) error: Box<PlanError>,
    /// Lower bound over the plans that the search left out; `None` if it excluded all of them.
    pub(super) left_out: Option<LowerBound>,
}

impl From<PlanError> for Unplanned {
    fn from(error: PlanError) -> Self {
        // If there were too many layouts, nothing is known about the rest.
        let left_out = matches!(error, PlanError::TooLarge { .. } | PlanError::Holes { .. }).then(LowerBound::default);
        Unplanned { error: Box::new(error), left_out }
    }
}

/// Solves a problem by the stages that follow.
pub(super) type Solve<'a> = &'a dyn Fn(Problem<'_>) -> Result<Plan, Unplanned>;

/// Solves a problem by way of problems that the stages that follow solve.
pub(super) type Stage = fn(Problem<'_>, Solve<'_>) -> Result<Plan, Unplanned>;
