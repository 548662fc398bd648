//! The lines that say what a plan communicates, for programs in which nothing else may.
//!
//! ```text
//! C[I, K] = A[I, J_X] * B[J, K]     help: write  AllGather_X(A[I, J_X]) -> A'[I, J]
//!                                                C[I, K] = A' * B
//! ```
//!
//! Each step of the plan that a statement needs becomes a line, with the layout it has there. An array that is moved for
//! one user gets a new name, so that the old one keeps its meaning for others.

use super::spell::Speller;
use crate::diag::{Diagnostic, Diagnostics, Edit, Fix};
use crate::plan::{Plan, StepId};
use crate::span::Span;
use itertools::Itertools;
use std::collections::BTreeSet;
use thiserror::Error;

/// A statement that needs communication which no collective and no move says.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[error("this needs {moves}, and no line says so")]
#[diagnostic(
    code("unwritten-communication"),
    help("where only what is written communicates, write it as a collective or a move of its own")
)]
struct Unwritten {
    moves: String,
    #[label("communicates")]
    at: miette::SourceSpan,
}

/// How many statements are written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Those that communicate without saying so, and those that these change.
    Needed,
    /// All: a layout that is left out of a text may be another one in the plan of the changed program.
    All,
}

/// What each statement of a plan communicates without saying so, with the lines that would say it.
///
/// Other statements may have to change with it: a hole in a result is filled, a name that means another array by then
/// is replaced. These changes stand beside those of the finding before, or of the first.
pub fn unwritten(plan: &Plan) -> Diagnostics {
    found(plan, Extent::Needed)
}

/// The same with all other statements written anew beside it, each with the layouts that it has in the plan.
pub fn spelled_out(plan: &Plan) -> Diagnostics {
    found(plan, Extent::All)
}

fn found(plan: &Plan, extent: Extent) -> Diagnostics {
    let mut speller = Speller::new(plan);
    let statements = speller.statements();
    let needs = |speller: &Speller<'_>, statement: Span| -> Vec<StepId> {
        speller.steps(statement).iter().flat_map(|id| speller.needs(*id)).collect()
    };
    let faults: BTreeSet<Span> =
        statements.iter().copied().filter(|statement| !needs(&speller, *statement).is_empty()).collect();
    let holes: BTreeSet<Span> = faults.iter().flat_map(|statement| speller.holes(&speller.steps(*statement))).collect();
    let mut found: Vec<(Unwritten, Vec<Fix>)> = Vec::new();
    let mut ahead: Vec<Fix> = parts(plan).into_iter().collect();
    for statement in statements {
        let is_fault = faults.contains(&statement);
        speller.enter(statement);
        if !is_fault && !holes.contains(&statement) && extent == Extent::Needed && !speller.is_misled(statement) {
            speller.keep(statement);
            continue;
        }
        let mut fixes = speller.lines(statement).unwrap_or_default();
        if is_fault {
            // Lines before a block stand in the order of the statements that they come from.
            let is_before_block = |fix: &mut Fix| matches!(fix.edit, Edit::Replace(at) if at.start == at.end);
            fixes.splice(0..0, ahead.extract_if(.., is_before_block));
            fixes.append(&mut ahead);
            let moves = listed(&moves(plan, &speller, needs(&speller, statement)));
            found.push((Unwritten { moves, at: statement.into() }, fixes));
            continue;
        }
        for fix in &mut fixes {
            if fix.edit == Edit::Statement {
                fix.edit = Edit::Replace(statement);
            }
        }
        found.last_mut().map_or(&mut ahead, |(_, fixes)| fixes).append(&mut fixes);
    }
    let mut diagnostics = Diagnostics::default();
    for (error, fixes) in found {
        diagnostics.push_with_fixes(&error, fixes);
    }
    diagnostics
}

/// The lines that declare the parts of the axes that the planner has cut: other lines speak of them.
fn parts(plan: &Plan) -> Option<Fix> {
    let mesh = &plan.program.mesh;
    let part = |axis| format!("{}: {}", mesh.axis(axis).name, mesh.size(axis));
    let lines = mesh.cuts().map(|(name, parts)| format!("axis {name} = {{{}}}", parts.iter().map(part).join(", ")));
    let text = lines.collect::<Vec<_>>().join("\n");
    (!text.is_empty()).then_some(Fix { edit: Edit::Below(plan.program.axes), text })
}

/// Moves as they would be written, each once.
fn moves(plan: &Plan, speller: &Speller<'_>, needs: Vec<StepId>) -> Vec<String> {
    let mut moves: Vec<String> = Vec::new();
    for id in needs {
        let source = plan.operands(id).first().map(|operand| speller.array(*operand)).unwrap_or_default();
        let name = format!("`{}({source})`", plan.op_name(id));
        if !moves.contains(&name) {
            moves.push(name);
        }
    }
    moves
}

/// `a`, `a and b`, `a, b and c`
fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [many @ .., last] => format!("{} and {last}", many.join(", ")),
    }
}

/// A source with all changes of all findings.
pub fn apply_all(source: &str, found: &Diagnostics) -> String {
    let mut changes: Vec<(Span, &Fix)> =
        found.iter().flat_map(|found| found.fixes.iter().map(|fix| (found.span(), fix))).collect();
    let place = |(statement, fix): &(Span, &Fix)| match fix.edit {
        Edit::Before => statement.start,
        Edit::Below(span) => span.end,
        Edit::Replace(span) => span.start,
        Edit::Statement => statement.start,
    };
    changes.sort_by_key(place);
    changes.iter().rev().fold(source.to_owned(), |source, (statement, fix)| fix.apply(&source, *statement))
}

/// Words the changes of a finding as its help, each line as deep as the statement.
pub fn word(found: &mut Diagnostic, source: &str) {
    let mut help = Vec::new();
    for fix in &mut found.fixes {
        let at = match fix.edit {
            Edit::Replace(span) | Edit::Below(span) => span,
            Edit::Before | Edit::Statement => found.labels.first().map(|label| label.span).unwrap_or_default(),
        };
        let before = source.get(..at.range().start).unwrap_or_default();
        let line = before.rfind('\n').map_or(before, |newline| &before[newline + 1..]);
        let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
        let lines = fix.text.trim_end().replace('\n', "\n  ");
        let old = |at: Span| at.text(source).split_whitespace().collect::<Vec<_>>().join(" ");
        help.push(match fix.edit {
            Edit::Replace(at) if at.start == at.end => format!("write before the block\n  {lines}"),
            Edit::Replace(at) => format!("write for `{}`\n  {lines}", old(at)),
            Edit::Below(at) => format!("write below `{}`\n  {lines}", old(at)),
            Edit::Before | Edit::Statement => format!("write\n  {lines}"),
        });
        fix.text = fix.text.replace('\n', &format!("\n{indent}"));
    }
    if !help.is_empty() {
        found.help = Some(help.join("\nand ").replace("and write\n", "and here\n"));
    }
}
