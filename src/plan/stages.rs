//! The stages of planning: each restates a problem, has the following stages solve it, and chooses among their plans.
//!
//! The last stage hands each problem to [`lazy`], which searches the values with one set of prices after the other.

use super::problem::{Problem, Stage, Unplanned};
use super::{Plan, Request, holes, lazy, limits, names, openings, parts, rewrites, splits, unit_axes, written};

/// The stages for a request, the outermost first.
pub(super) fn of(request: Request) -> Vec<Stage> {
    let Request { written, rewrites, .. } = request;
    let table: [(bool, Stage); 9] = [
        // Equivalent programs.
        (rewrites && !written, rewrites::plan),
        // Softmaxes in steps, of which the reductions are written nowhere.
        (!written, splits::plan),
        // Programs without axes of size 1.
        (true, unit_axes::plan),
        // Programs that read each array under one name.
        (true, if written { names::plan_as_written } else { names::plan }),
        // Plans whose communication is written.
        (written, written::plan),
        // Meshes whose axes are split.
        (true, parts::plan),
        // Layouts of inputs.
        (true, holes::plan),
        // Options under which plans keep to the limits of the program.
        (true, limits::plan),
        // Sums of which more terms are opened.
        (true, openings::plan),
    ];
    table.into_iter().filter(|(applies, _)| *applies).map(|(_, stage)| stage).collect()
}

/// The stages that neither change the program nor split axes.
pub(super) const ON_WHOLE_AXES: [Stage; 5] = [unit_axes::plan, names::plan, holes::plan, limits::plan, openings::plan];

/// Solves a problem by these stages.
///
/// # Errors
/// If planning fails.
pub(super) fn solve(stages: &[Stage], problem: Problem<'_>) -> Result<Plan, Unplanned> {
    match stages {
        [first, rest @ ..] => first(problem, &|problem| solve(rest, problem)),
        [] => lazy::solve(problem),
    }
}
