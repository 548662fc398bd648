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
use crate::plan::Plan;
use crate::span::Span;
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

/// What each statement of a plan communicates without saying so, with the lines that would say it.
pub fn unwritten(plan: &Plan) -> Diagnostics {
    let mut speller = Speller::new(plan);
    let mut diagnostics = Diagnostics::default();
    for statement in speller.statements() {
        let steps: Vec<_> = plan.ids().filter(|id| speller.statement(*id) == Some(statement)).collect();
        let needs: Vec<_> = steps.iter().flat_map(|id| speller.needs(*id)).collect();
        if needs.is_empty() {
            continue;
        }
        let mut moves: Vec<String> = Vec::new();
        for id in needs {
            let source = plan.operands(id).first().map(|operand| speller.array(*operand)).unwrap_or_default();
            let name = format!("`{}({source})`", plan.op_name(id));
            if !moves.contains(&name) {
                moves.push(name);
            }
        }
        let fixes = speller.lines(statement, &steps).unwrap_or_default();
        let error = Unwritten { moves: listed(&moves), at: statement.into() };
        diagnostics.push_with_fixes(&error, fixes);
    }
    diagnostics
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
            Edit::Replace(span) => span,
            Edit::Before | Edit::Statement => found.labels.first().map(|label| label.span).unwrap_or_default(),
        };
        let before = source.get(..at.range().start).unwrap_or_default();
        let line = before.rfind('\n').map_or(before, |newline| &before[newline + 1..]);
        let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
        let lines = fix.text.trim_end().replace('\n', "\n  ");
        help.push(match fix.edit {
            Edit::Replace(_) => format!("write before the block\n  {lines}"),
            Edit::Before | Edit::Statement => format!("write\n  {lines}"),
        });
        fix.text = fix.text.replace('\n', &format!("\n{indent}"));
    }
    if !help.is_empty() {
        found.help = Some(help.join("\nand ").replace("and write\n", "and here\n"));
    }
}
