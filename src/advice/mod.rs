//! Verified suggestions: a change of the program is suggested only if the program checks with it. Changes with the
//! least communication come first.
//!
//! ```text
//! A: bf16[I_X, J]
//! C = relu(A[I, J])  help: write `AllGather_X(A[I_X, J]) -> A[I, J]` first (receives at least 768 B), or ..
//! ```
//!
//! The checker proposes changes because it knows the error, but not whether they fix it. Each change is applied to
//! the program text up to the statement at fault, without other statements at fault. The result is checked, and
//! planned to find its communication.

mod guess;
mod slices;
mod spell;
mod waste;
mod written;

pub use slices::unlinked;
pub use waste::wasted;
pub use written::{apply_all, spelled_apart, spelled_out, unwritten, word};

use crate::costs::CostModel;
use crate::diag::{self, Diagnostic, Diagnostics, Edit, Fix, Severity};
use crate::plan;
use crate::program::{self, Program};
use crate::recipe::Lowering;
use crate::span::Span;
use crate::syntax::{self, Ast, Statement, StatementKind};
use crate::topology::{Hardware, Topology};
use crate::units::Bytes;
use strsim::osa_distance;

/// Maximum number of errors for which changes are tried.
const MOST_ERRORS: usize = 50;
/// Maximum number of suggestions per error.
const MOST_OFFERED: usize = 3;
/// Maximum source size in bytes, because each change parses the source again.
const LONGEST_SOURCE: usize = 64 << 10;
/// Maximum number of values for which a program is planned.
const MOST_VALUES: usize = 200;

/// Maximum edit distance for spelling suggestions.
const MOST_EDITS: usize = 3;

/// A change with which the program checks.
struct Tried {
    fix: Fix,
    /// Bytes received by the busiest device for the statement, if the program could be planned.
    received: Option<Bytes>,
}

/// Codes of the checker for calls that another system may have.
const CALLS: [&str; 6] = [
    "unknown-function",
    "unknown-collective",
    "unknown-dim",
    "function-arguments",
    "function-subscript",
    "layout-mismatch",
];

/// Tries the proposed changes of all errors. Those that work are kept and become the help, cheapest first.
///
/// - `broken`: number of syntax errors of the source.
pub fn try_fixes(source: &str, ast: &Ast, broken: usize, diagnostics: &mut Diagnostics) {
    if source.len() > LONGEST_SOURCE {
        diagnostics.iter_mut().for_each(withdraw);
        return;
    }
    guess::declare_sizes(source, ast, diagnostics);
    let errors = diagnostics.iter().filter(|found| found.severity == Severity::Error);
    let faults: Vec<Span> = errors.filter_map(|found| statement_at(ast, found.span())).collect();
    for found in diagnostics.iter_mut() {
        translate(found, source, ast, broken);
        if found.fixes.is_empty() {
            found.fixes.extend(respelled(found, source));
        }
        if found.fixes.is_empty() {
            found.fixes = guess::changes(found, source, ast);
        }
    }
    let proposing = diagnostics.iter_mut().filter(|found| !found.fixes.is_empty());
    for (place, found) in proposing.enumerate() {
        if place >= MOST_ERRORS {
            withdraw(found);
            continue;
        }
        let statement = statement_at(ast, found.span());
        let Some(statement) = statement.filter(|_| !is_text(found)) else {
            let most = broken - usize::from(statement.is_none());
            let right = first_right(std::mem::take(&mut found.fixes), |fix| is_right(source, fix, most));
            if right.is_empty() {
                withdraw(found);
            } else if found.help.as_deref().is_none_or(|help| diag::meant(help).is_none()) {
                found.help = Some(lines(&right));
            }
            found.fixes = right;
            continue;
        };
        let fixes = std::mem::take(&mut found.fixes);
        let bench = Bench { source, ast, statement, faults: &faults };
        let tried = bench.ranked(fixes);
        if !tried.is_empty() {
            if found.help.as_deref().is_none_or(|help| diag::meant(help).is_none()) {
                found.help = Some(wording(found, &tried, source));
            }
            found.fixes = tried.into_iter().map(|tried| tried.fix).collect();
        }
    }
}

/// Whether the changes of an error are guesses from the text.
fn is_text(found: &Diagnostic) -> bool {
    found.code == "foreign-syntax"
}

/// Removes changes that were not tried, and the help that quotes one.
fn withdraw(found: &mut Diagnostic) {
    let quoted = found.fixes.iter().any(|fix| found.help.as_deref() == Some(format!("write `{}`", fix.text).as_str()));
    if quoted {
        found.help = None;
    }
    found.fixes.clear();
}

/// A call that the checker does not know, but another system does, is reported as such. Where the checker knows the
/// function but not its arguments, an equivalent has to check.
fn translate(found: &mut Diagnostic, source: &str, ast: &Ast, broken: usize) {
    if !CALLS.contains(&found.code.as_str()) || found.severity != Severity::Error {
        return;
    }
    let Some(statement) = innermost(&ast.statements, found.span()) else { return };
    // An index stands for a dim behind its bracket.
    let at = match source[..found.span().range().start].rfind('[') {
        Some(open) if found.code == "unknown-dim" => Span::new(open, open + 1),
        Some(_) | None => found.span(),
    };
    let Some((error, fixes)) = syntax::foreign_call(source, statement, at) else { return };
    let is_unknown = found.code.starts_with("unknown");
    if is_unknown || fixes.iter().any(|fix| is_right(source, fix, broken)) {
        *found = Diagnostic { fixes, ..Diagnostic::new(&error) };
    }
}

/// The changes that work; some count only if all before them fail.
fn first_right(fixes: Vec<Fix>, works: impl Fn(&Fix) -> bool) -> Vec<Fix> {
    fixes.into_iter().fold(Vec::new(), |mut right, fix| {
        if (right.is_empty() || !fix.otherwise) && works(&fix) {
            right.push(fix);
        }
        right
    })
}

/// The help for changes of whole statements: `write .., or ..`.
fn lines(fixes: &[Fix]) -> String {
    let said = |fix: &Fix| fix.said.clone().unwrap_or_else(|| format!("`{}`", fix.text));
    match fixes {
        [removed] if removed.text.is_empty() => {
            format!("remove {}", removed.said.as_deref().unwrap_or("the line"))
        }
        fixes => format!("write {}", fixes.iter().map(said).collect::<Vec<_>>().join(", or ")),
    }
}

/// The innermost statement at a position.
fn innermost(statements: &[Statement], place: Span) -> Option<Span> {
    let around = statements.iter().find(|one| one.span.start <= place.start && place.start < one.span.end)?;
    match &around.kind {
        StatementKind::Repeat { body, .. } | StatementKind::Def { body, .. } => innermost(body, place),
        _ => Some(around.span),
    }
}

/// The source with the change of the first error that has exactly one; `None` if there is no such error.
pub fn apply_one(source: &str, found: &Diagnostics) -> Option<String> {
    let (ast, _) = syntax::parse(source);
    let sole = |found: &&Diagnostic| found.severity == Severity::Error && found.fixes.len() == 1;
    // A statement that does not parse is replaced as a whole.
    let statement = |found: &Diagnostic| statement_at(&ast, found.span()).unwrap_or(found.span());
    found.iter().find(sole).map(|found| found.fixes[0].apply(source, statement(found)))
}

/// Whether a text that replaces a statement has no error of its own, and leaves at most a number of syntax errors.
fn is_right(source: &str, fix: &Fix, most: usize) -> bool {
    let Edit::Replace(at) = fix.edit else { return false };
    let changed = fix.apply(source, at);
    let (ast, unread) = syntax::parse(&changed);
    if unread.count(Severity::Error) > most {
        return false;
    }
    let start = at.range().start;
    let line = start..start + fix.text.len();
    let (_, unchecked) = program::check(&ast);
    let is_wrong = |found: &Diagnostic| {
        let is_error = found.severity == Severity::Error && found.code != "no-result";
        is_error && line.contains(&found.span().range().start)
    };
    !unread.iter().chain(unchecked.iter()).any(is_wrong)
}

/// Proposes a known word that is similar to the misspelled one.
fn respelled(found: &Diagnostic, source: &str) -> Option<Fix> {
    let near = diag::meant(found.help.as_deref()?)?;
    let labelled = found.span().text(source);
    // The label of a dim includes its subscript, which is kept.
    let ends = std::iter::once(labelled.len()).chain(labelled.match_indices('_').map(|(end, _)| end));
    let edits = |end: &usize| osa_distance(&labelled[..*end].to_lowercase(), &near.to_lowercase());
    let end = ends.min_by_key(edits).filter(|end| edits(end) <= MOST_EDITS)?;
    let start = found.span().range().start;
    Some(Fix::new(Edit::Replace(Span::new(start, start + end)), near.to_owned()))
}

/// The statement that contains a position.
fn statement_at(ast: &Ast, place: Span) -> Option<Span> {
    let mut spans = ast.statements.iter().map(|statement| statement.span);
    spans.find(|span| span.start <= place.start && place.start < span.end.max(span.start + 1))
}

/// Context for trying the changes of one statement.
struct Bench<'a> {
    source: &'a str,
    ast: &'a Ast,
    statement: Span,
    /// The statements with errors.
    faults: &'a [Span],
}

impl Bench<'_> {
    /// The changes that work, sorted by communication. If the same collective is possible in two places, the first is
    /// kept.
    fn ranked(&self, fixes: Vec<Fix>) -> Vec<Tried> {
        let mut tried: Vec<Tried> = Vec::new();
        for fix in fixes {
            let again = |known: &Tried| known.fix.text.split(" -> ").next() == Some(fix.text.as_str());
            let collective = matches!(fix.edit, Edit::Replace(_)) && fix.text.contains('(');
            if collective && tried.iter().any(again) {
                continue;
            }
            tried.extend(self.attempt(&fix).map(|received| Tried { fix, received }));
        }
        tried.sort_by_key(|tried| tried.received);
        // A named collective is preferred to a bare move with the same bytes.
        let mut named: Vec<Tried> = Vec::new();
        for one in tried {
            let same = |known: &Tried| {
                known.received == one.received
                    && known.fix.edit == Edit::Before
                    && one.fix.edit == Edit::Before
                    && known.fix.text.ends_with(&target(&one.fix.text))
            };
            if !named.iter().any(same) {
                named.push(one);
            }
        }
        named.truncate(MOST_OFFERED);
        named
    }

    /// Applies a change. `None` if the program then fails to check; otherwise the bytes received by the statement, if
    /// known.
    fn attempt(&self, fix: &Fix) -> Option<Option<Bytes>> {
        let changed = fix.apply(&self.prefix(), self.statement);
        let (ast, diagnostics) = syntax::parse(&changed);
        if diagnostics.has_errors() {
            return None;
        }
        match program::check(&ast) {
            (Some(program), _) => Some(self.received(&program)),
            // Inputs alone compute nothing, so the following statement is measured.
            (None, found)
                if found.iter().all(|found| found.severity != Severity::Error || found.code == "no-result") =>
            {
                Some(None)
            }
            (None, _) => None,
        }
    }

    /// The source up to the end of the statement. Other statements at fault are blanked. Of the rest, declarations of
    /// dims and the mesh are kept.
    fn prefix(&self) -> String {
        let mut text = self.source.to_owned();
        for statement in &self.ast.statements {
            let span = statement.span;
            let declares = matches!(
                statement.kind,
                StatementKind::Dims(_) | StatementKind::Mesh { .. } | StatementKind::View { .. }
            );
            let later = span.start >= self.statement.end && !declares;
            if span != self.statement && (later || self.faults.contains(&span)) {
                let blank = " ".repeat(span.range().len());
                text.replace_range(span.range(), &blank);
            }
        }
        text
    }

    /// Minimum bytes that a device receives for the steps from the statement on, under the book's costs. Methods are
    /// not searched here.
    fn received(&self, program: &Program) -> Option<Bytes> {
        let default = || Hardware::named(Hardware::DEFAULT);
        let named = program.hardware.as_ref().map(|name| Hardware::named(&name.node));
        let hardware = named.unwrap_or_else(default)?;
        if program.values.len() > MOST_VALUES {
            return None;
        }
        let topology = Topology::new(program.mesh.clone(), hardware).ok()?;
        let costs = CostModel::Book.on(&topology, Lowering::default());
        let plan = plan::plan(program, costs.as_ref()).ok()?;
        let here = plan.ids().filter(|id| plan.span(*id).start >= self.statement.start);
        Some(here.map(|id| plan.step(id).usage.received()).sum())
    }
}

/// The text after the arrow.
fn target(text: &str) -> String {
    text.split_once(" -> ").map_or_else(String::new, |(_, target)| format!(" -> {target}"))
}

/// The help text: `write .. first (receives at least 24.6 kB), or .. instead of ..`.
fn wording(found: &Diagnostic, tried: &[Tried], source: &str) -> String {
    let offers: Vec<String> = tried.iter().map(|tried| offer(tried, source)).collect();
    let lead = found.help.as_deref().and_then(|help| help.split_once("; write ")).map(|(lead, _)| lead);
    let lead = lead.map_or_else(String::new, |lead| format!("{lead}; "));
    format!("{lead}write {}", offers.join(", or "))
}

fn offer(tried: &Tried, source: &str) -> String {
    let cost = match tried.received {
        Some(Bytes(0)) => " (receives nothing)".to_owned(),
        Some(bytes) => format!(" (receives {bytes})"),
        None => String::new(),
    };
    let text = &tried.fix.text;
    if let Some(said) = &tried.fix.said {
        return format!("{said}{cost}");
    }
    match tried.fix.edit {
        Edit::Before => format!("`{text}` first{cost}"),
        Edit::Below(above) => format!("`{text}` below `{}`{cost}", above.text(source)),
        Edit::Statement => format!("`{text}`{cost}"),
        Edit::Replace(span) => {
            // Includes the name before the brackets.
            let before = source.get(..span.range().start).unwrap_or_default();
            let head = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '\'').len();
            let name = if text.starts_with('[') { &before[head..] } else { "" };
            format!("`{name}{text}` for `{name}{}`{cost}", span.text(source))
        }
    }
}
