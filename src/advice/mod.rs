//! Help that was tried: a change of the program is offered only if the program checks with it, the one that
//! communicates least before the others.
//!
//! ```text
//! A: bf16[I_X, J]
//! C = relu(A[I, J])     help: write `AllGather_X(A[I_X, J]) -> A[I, J]` first (receives at least 768 B), or ..
//! ```
//!
//! The checker proposes changes, because it knows what is wrong; it does not know whether they help. Each is made
//! in the text of the program up to the statement at fault, other statements at fault left out, and that text goes
//! through the checker and, for the bytes, through the planner.

mod spell;
mod waste;
mod written;

pub use waste::wasted;
pub use written::{apply_all, spelled_out, unwritten, word};

use crate::costs::CostModel;
use crate::diag::{Diagnostic, Diagnostics, Edit, Fix, Severity};
use crate::plan;
use crate::program::{self, Program};
use crate::recipe::Lowering;
use crate::span::Span;
use crate::syntax::{self, Ast, StatementKind};
use crate::topology::{Hardware, Topology};
use crate::units::Bytes;

/// So many errors are thought about.
const MOST_ERRORS: usize = 50;
/// So many changes are offered for one error.
const MOST_OFFERED: usize = 3;
/// In a longer source nothing is tried, in bytes: each change reads it anew.
const LONGEST_SOURCE: usize = 64 << 10;
/// A program with more values is not planned for the sake of a help.
const MOST_VALUES: usize = 200;

/// A change with which the program checks.
struct Tried {
    fix: Fix,
    /// What the fullest device receives for the statement, if the program could be planned.
    received: Option<Bytes>,
}

/// Tries the changes that the findings propose; those that help stay, and become the help, the cheapest first.
pub fn try_fixes(source: &str, ast: &Ast, diagnostics: &mut Diagnostics) {
    if source.len() > LONGEST_SOURCE {
        diagnostics.iter_mut().for_each(|found| found.fixes.clear());
        return;
    }
    let errors = diagnostics.iter().filter(|found| found.severity == Severity::Error);
    let faults: Vec<Span> = errors.filter_map(|found| statement_at(ast, found.span())).collect();
    let proposing = diagnostics.iter_mut().filter(|found| !found.fixes.is_empty());
    for (place, found) in proposing.enumerate() {
        let fixes = std::mem::take(&mut found.fixes);
        let Some(statement) = statement_at(ast, found.span()).filter(|_| place < MOST_ERRORS) else { continue };
        let bench = Bench { source, ast, statement, faults: &faults };
        let tried = bench.ranked(fixes);
        if !tried.is_empty() {
            found.help = Some(wording(found, &tried, source));
            found.fixes = tried.into_iter().map(|tried| tried.fix).collect();
        }
    }
}

/// The statement around a place.
fn statement_at(ast: &Ast, place: Span) -> Option<Span> {
    let mut spans = ast.statements.iter().map(|statement| statement.span);
    spans.find(|span| span.start <= place.start && place.start < span.end.max(span.start + 1))
}

/// Where changes of one statement are tried.
struct Bench<'a> {
    source: &'a str,
    ast: &'a Ast,
    statement: Span,
    /// The statements with errors.
    faults: &'a [Span],
}

impl Bench<'_> {
    /// The changes that help, by what they communicate; of the same collective in two places the first.
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
        // A bare move says less than the one collective that does the same for the same bytes.
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

    /// Makes a change. `None` if the program does not check then, else what the statement receives, if it is known.
    fn attempt(&self, fix: &Fix) -> Option<Option<Bytes>> {
        let changed = fix.apply(&self.prefix(), self.statement);
        let (ast, diagnostics) = syntax::parse(&changed);
        if diagnostics.has_errors() {
            return None;
        }
        match program::check(&ast) {
            (Some(program), _) => Some(self.received(&program)),
            // Inputs alone compute nothing yet: what does is further down.
            (None, found)
                if found.iter().all(|found| found.severity != Severity::Error || found.code == "no-result") =>
            {
                Some(None)
            }
            (None, _) => None,
        }
    }

    /// The source up to the end of the statement. Other statements at fault are blank; of what follows, the
    /// declarations of dims and of the mesh are kept.
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

    /// Bytes that a device receives at the least for the steps from the statement on, under the costs of the book: which
    /// methods send them is not looked for here.
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

/// What stands behind the arrow.
fn target(text: &str) -> String {
    text.split_once(" -> ").map_or_else(String::new, |(_, target)| format!(" -> {target}"))
}

/// `write .. first (receives at least 24.6 kB), or .. instead of ..`
fn wording(found: &Diagnostic, tried: &[Tried], source: &str) -> String {
    let offers: Vec<String> = tried.iter().map(|tried| offer(tried, source)).collect();
    let lead = found.help.as_deref().and_then(|help| help.split_once("; write ")).map(|(lead, _)| lead);
    let lead = lead.map_or_else(String::new, |lead| format!("{lead}; "));
    format!("{lead}write {}", offers.join(", or "))
}

fn offer(tried: &Tried, source: &str) -> String {
    let cost = match tried.received {
        Some(Bytes(0)) => " (receives nothing)".to_owned(),
        Some(bytes) => format!(" (receives at least {bytes})"),
        None => String::new(),
    };
    let text = &tried.fix.text;
    match tried.fix.edit {
        Edit::Before => format!("`{text}` first{cost}"),
        Edit::Below(above) => format!("`{text}` below `{}`{cost}", above.text(source)),
        Edit::Statement => format!("`{text}`{cost}"),
        Edit::Replace(span) => {
            // Brackets read better behind their name.
            let before = source.get(..span.range().start).unwrap_or_default();
            let head = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '\'').len();
            let name = if text.starts_with('[') { &before[head..] } else { "" };
            format!("`{name}{text}` for `{name}{}`{cost}", span.text(source))
        }
    }
}
