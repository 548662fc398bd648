//! The problems that the stages of planning pass on.

use super::reshard::SearchOptions;
use super::{Costs, Plan, PlanError};
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

/// Solves a problem by the stages that follow.
pub(super) type Solve<'a> = &'a dyn Fn(Problem<'_>) -> Result<Plan, PlanError>;

/// Solves a problem by way of problems that the stages that follow solve.
pub(super) type Stage = fn(Problem<'_>, Solve<'_>) -> Result<Plan, PlanError>;
