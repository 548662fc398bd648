//! Suggests the missing lines of communication, for programs in which implicit communication is forbidden.
//!
//! ```text
//! C[I, K] = A[I, J_X] * B[J, K]  help: write  AllGather_X(A[I, J_X]) -> A'[I, J]
//!                                             C[I, K] = A' * B
//! ```
//!
//! Each step of the plan that a statement needs becomes a line, with the step's layout. An array that is moved for
//! one user gets a new name, so that its old name stays valid for others.

use super::spell::Speller;
use crate::diag::{Diagnostic, Diagnostics, Edit, Fix};
use crate::plan::{Plan, StepId};
use crate::span::Span;
use itertools::Itertools;
use std::collections::BTreeSet;
use thiserror::Error;

/// A statement that needs communication for which no collective or move is written.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[error("implicit communication: {moves}")]
#[diagnostic(
    code("unwritten-communication"),
    help("`--strict` forbids implicit communication; write it as a collective or a move")
)]
struct Unwritten {
    moves: String,
    #[label("communicates")]
    at: miette::SourceSpan,
}

/// Which statements are rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Statements with implicit communication, and those affected by their rewriting.
    Needed,
    /// All statements, because a layout omitted in the text may differ in the plan of the changed program.
    All,
    /// As `All`, with a name of its own for the array of each step, because a name of the program may denote another
    /// array where a step is used.
    Apart,
}

/// The implicit communication of each statement of a plan, with the lines that make it explicit.
///
/// Other statements may have to change, too: holes in results are filled, and names that denote another array by then
/// are replaced. These changes are attached to the previous finding, or to the first.
pub fn unwritten(plan: &Plan) -> Diagnostics {
    found(plan, Extent::Needed)
}

/// As [`unwritten`], but rewrites all other statements as well, with their layouts in the plan.
pub fn spelled_out(plan: &Plan) -> Diagnostics {
    found(plan, Extent::All)
}

/// As [`spelled_out`], with a name of its own for the array of each step.
pub fn spelled_apart(plan: &Plan) -> Diagnostics {
    found(plan, Extent::Apart)
}

fn found(plan: &Plan, extent: Extent) -> Diagnostics {
    let mut speller = Speller::new(plan, extent == Extent::Apart);
    let statements = speller.statements();
    let needs = |speller: &Speller<'_>, statement: Span| -> Vec<StepId> {
        speller.steps(statement).iter().flat_map(|id| speller.needs(*id)).collect()
    };
    let faults: BTreeSet<Span> =
        statements.iter().copied().filter(|statement| !needs(&speller, *statement).is_empty()).collect();
    let holes: BTreeSet<Span> = faults.iter().flat_map(|statement| speller.holes(&speller.steps(*statement))).collect();
    let mut rewritten: BTreeSet<Span> = faults.union(&holes).copied().collect();
    // A written move whose intermediate array is used in new lines is written in lines as well.
    for statement in statements.iter().rev() {
        if rewritten.contains(statement) {
            rewritten.extend(speller.sources(&speller.steps(*statement)));
        }
    }
    let mut found: Vec<(Unwritten, Vec<Fix>)> = Vec::new();
    let mut ahead: Vec<Fix> = parts(plan).into_iter().collect();
    for statement in statements {
        let is_fault = faults.contains(&statement);
        speller.enter(statement);
        if !rewritten.contains(&statement) && extent == Extent::Needed && !speller.is_misled(statement) {
            speller.keep(statement);
            continue;
        }
        let mut fixes = speller.lines(statement).unwrap_or_default();
        if is_fault {
            // Lines before a block keep the order of their statements.
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
    let lines = found.iter().flat_map(|(_, fixes)| fixes).map(|fix| fix.text.as_str());
    let twins = twins(plan, &lines.collect::<Vec<_>>());
    if let Some((_, fixes)) = found.first_mut() {
        fixes.splice(0..0, twins);
    }
    let mut diagnostics = Diagnostics::default();
    for (error, fixes) in found {
        diagnostics.push_with_fixes(&error, fixes);
    }
    diagnostics
}

/// Lines that declare the axis parts that the planner has introduced, as other lines refer to them.
fn parts(plan: &Plan) -> Option<Fix> {
    let mesh = &plan.program.mesh;
    let part = |axis| format!("{}: {}", mesh.axis(axis).name, mesh.size(axis));
    let lines = mesh.cuts().map(|(name, parts)| format!("axis {name} = {{{}}}", parts.iter().map(part).join(", ")));
    let text = lines.collect::<Vec<_>>().join("\n");
    (!text.is_empty()).then_some(Fix::new(Edit::Below(plan.program.axes), text))
}

/// The line that declares the second dims, `I'` for `I`, which these lines name: those of `shift_I` and the like.
fn twins(plan: &Plan, lines: &[&str]) -> Option<Fix> {
    let dims = &plan.program.dims;
    let is_in_name = |letter: char| letter.is_alphanumeric() || letter == '\'';
    let words: BTreeSet<&str> = lines.iter().flat_map(|line| line.split(|letter| !is_in_name(letter))).collect();
    let is_twin = |name: &&str| {
        let first = name.strip_suffix('\'').and_then(|first| dims.named(first));
        first.is_some() && first.map(|dim| dim.size) == dims.named(name).map(|dim| dim.size)
    };
    let twins = dims.names().filter(|name| words.contains(name)).filter(is_twin);
    let text = twins.filter_map(|name| Some(format!("{name}: {}", dims.named(name)?.size))).join(", ");
    (!text.is_empty()).then(|| Fix::new(Edit::Below(plan.program.axes), format!("dims {{{text}}}")))
}

/// The moves in notation, without duplicates.
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

/// Formats a list: `a`, `a and b`, `a, b and c`.
fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [many @ .., last] => format!("{} and {last}", many.join(", ")),
    }
}

/// The source with the changes of all findings. Changes inside a replaced range are dropped.
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
    let replaced: Vec<Span> = changes.iter().filter_map(|(_, fix)| replaced(fix)).collect();
    let is_inside = |span: Span| {
        let is_around = |other: &Span| *other != span && other.start <= span.start && span.end <= other.end;
        replaced.iter().any(is_around)
    };
    changes.retain(|(_, fix)| !self::replaced(fix).is_some_and(is_inside));
    changes.iter().rev().fold(source.to_owned(), |source, (statement, fix)| fix.apply(&source, *statement))
}

fn replaced(fix: &Fix) -> Option<Span> {
    match fix.edit {
        Edit::Replace(span) => Some(span),
        Edit::Before | Edit::Below(_) | Edit::Statement => None,
    }
}

/// Formats the changes of a finding as its help, indented like the statement.
pub fn word(found: &mut Diagnostic, source: &str) {
    let mut help = Vec::new();
    // A statement whose arrays have changed may read as before.
    let old = |at: Span| at.text(source).split_whitespace().collect::<Vec<_>>().join(" ");
    found.fixes.retain(|fix| !matches!(fix.edit, Edit::Replace(at) if at.start < at.end && old(at) == fix.text));
    for fix in &mut found.fixes {
        let at = match fix.edit {
            Edit::Replace(span) | Edit::Below(span) => span,
            Edit::Before | Edit::Statement => found.labels.first().map(|label| label.span).unwrap_or_default(),
        };
        let before = source.get(..at.range().start).unwrap_or_default();
        let line = before.rfind('\n').map_or(before, |newline| &before[newline + 1..]);
        let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
        let lines = fix.text.trim_end().replace('\n', "\n  ");
        help.push(match fix.edit {
            Edit::Replace(at) if at.start == at.end => format!("write before the block\n  {lines}"),
            Edit::Replace(at) => format!("replace `{}` by\n  {lines}", old(at)),
            Edit::Below(at) => format!("write below `{}`\n  {lines}", old(at)),
            Edit::Before | Edit::Statement => format!("write\n  {lines}"),
        });
        fix.text = fix.text.replace('\n', &format!("\n{indent}"));
    }
    if !help.is_empty() {
        found.help = Some(help.join("\nand "));
    }
}
