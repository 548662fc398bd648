//! The whole source: each statement is cut out, read by the grammar and built into the tree.

use super::build::Builder;
use super::error::SyntaxError;
use super::expected::explain;
use super::grammar::{Rule, ShardParser};
use super::split::{Piece, Trouble, is_blank, pieces};
use super::{Ast, Statement};
use crate::diag::Diagnostics;
use crate::span::Span;
use pest::Parser;
use pest::iterators::Pair;

/// Longest source that is read, in bytes.
pub const LARGEST_SOURCE: usize = 16 << 20;
/// Longest statement that is read, in bytes.
pub const LONGEST_STATEMENT: usize = 64 << 10;
/// The most statements that are read.
pub const MOST_STATEMENTS: usize = 100_000;
/// After so many mistakes the rest is not read.
pub const MOST_ERRORS: usize = 1000;

/// Reads a program: the statements that are well formed, and all that is wrong with the others.
///
/// Codes of the mistakes: see [`SyntaxError`].
pub fn parse(source: &str) -> (Ast, Diagnostics) {
    let mut ast = Ast::default();
    let mut diagnostics = Diagnostics::default();
    if let Err(error) = check_source(source) {
        diagnostics.push(&error);
        return (ast, diagnostics);
    }
    let mut errors = 0;
    // How many unknown statements with a block, such as `repeat 4 {`, are open: their `}` is no second mistake.
    let mut blocks = 0usize;
    for piece in pieces(source) {
        let text = piece.span.text(source);
        if text == "}" && blocks > 0 {
            blocks -= 1;
            continue;
        }
        if let Some(error) = refuse_more(piece.span, ast.statements.len(), errors) {
            diagnostics.push(&error);
            break;
        }
        match statement(source, piece) {
            Ok(statement) => ast.statements.push(statement),
            Err(error) => {
                blocks += usize::from(matches!(error, SyntaxError::UnknownStatement { .. }) && text.ends_with('{'));
                errors += 1;
                lose(&mut ast, piece.span, text);
                diagnostics.push(&error);
            }
        }
    }
    (ast, diagnostics)
}

/// Keeps what a statement that could not be read would have declared.
fn lose(ast: &mut Ast, span: Span, text: &str) {
    ast.lost.extend(words(text));
    ast.nameless |= text.starts_with([':', '=']);
    let arrow = text.rfind(['>', '→', '⟶']).or_else(|| text.rfind("\\to")).or_else(|| text.rfind("rightarrow"));
    let results = match (text.find('='), arrow) {
        (_, Some(arrow)) => &text[arrow..],
        (Some(equals), None) => &text[..equals],
        (None, None) => text,
    };
    let glued = text.matches(']').count() > text.matches('[').count();
    for word in words(results) {
        // Without its `[` a name runs into the first dim: `CI, J]`.
        let shortest = if glued && word.len() <= 64 && word.is_ascii() { 1 } else { word.len() };
        for length in shortest..=word.len() {
            ast.lost.insert(word[..length].to_owned());
            ast.rebound.entry(word[..length].to_owned()).or_insert(span.start);
        }
    }
}

/// The words of a text, dims and subscripts apart.
fn words(text: &str) -> impl Iterator<Item = String> {
    let runs = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let parts = runs.flat_map(|run| run.split('_').chain([run]));
    parts.filter(|word| !word.is_empty()).map(str::to_owned)
}

fn check_source(source: &str) -> Result<(), SyntaxError> {
    if source.len() > LARGEST_SOURCE {
        return Err(SyntaxError::SourceTooLarge { bytes: source.len(), most: LARGEST_SOURCE });
    }
    let binary = |byte: u8| (byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0C)) || byte == 0x7F;
    match source.bytes().enumerate().find(|(_, byte)| binary(*byte)) {
        Some((at, byte)) => Err(SyntaxError::NotText { byte, at: Span::new(at, at + 1).into() }),
        None => Ok(()),
    }
}

fn refuse_more(at: Span, statements: usize, errors: usize) -> Option<SyntaxError> {
    let at = Span { end: at.start + 1, ..at }.into();
    if errors >= MOST_ERRORS {
        return Some(SyntaxError::TooManyErrors { at });
    }
    (statements >= MOST_STATEMENTS).then_some(SyntaxError::TooManyStatements { most: MOST_STATEMENTS, at })
}

fn statement(source: &str, piece: Piece) -> Result<Statement, SyntaxError> {
    let pair = matched(source, piece)?;
    Builder::new(piece.span.start as usize).statement(pair, piece.span)
}

/// What the grammar finds in one statement.
pub(super) fn matched(source: &str, piece: Piece) -> Result<Pair<'_, Rule>, SyntaxError> {
    let text = piece.span.text(source);
    let start = piece.span.start as usize;
    match piece.trouble {
        Some(Trouble::TooDeep(at)) => return Err(SyntaxError::too_deep(Span::new(at, at + 1))),
        Some(Trouble::BracketSpansLines(opened, end)) => {
            let last = source[..end].chars().next_back().map_or(0, char::len_utf8);
            return Err(SyntaxError::Unclosed {
                bracket: '[',
                opened: Span::new(opened, opened + 1).into(),
                expected: "`]` on the same line".to_owned(),
                at: Span::new(end - last, end).into(),
                help: Some("write what stands in `[..]` on one line".to_owned()),
            });
        }
        None => {}
    }
    let word = first_word(text);
    let word_span = Span::new(start, start + word.len().max(1));
    if text.len() > LONGEST_STATEMENT {
        let at = Span::new(start, start + text.chars().next().map_or(0, char::len_utf8)).into();
        return Err(SyntaxError::StatementTooLong { bytes: text.len(), most: LONGEST_STATEMENT, at });
    }
    if is_unknown(word, &text[word.len()..]) {
        return Err(SyntaxError::UnknownStatement { word: word.to_owned(), at: word_span.into() });
    }
    let rule = statement_rule(word, text[word.len()..].trim_start_matches(is_blank));
    match ShardParser::parse(rule, text) {
        Ok(mut pairs) => Ok(pairs.next().expect("a rule that matches gives its pair")),
        Err(error) => Err(explain(&error, text, start)),
    }
}

/// The letters, digits and `_` at the start.
fn first_word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// Whether this is a statement of the wider language that has no meaning here; the words are names elsewhere.
fn is_unknown(word: &str, rest: &str) -> bool {
    if !matches!(word, "repeat" | "axis" | "link" | "by" | "using" | "on") {
        return false;
    }
    let begins = |c: char| c.is_ascii_alphanumeric() || matches!(c, '(' | '{');
    let next = rest.trim_start_matches(is_blank);
    next.is_empty() || next.len() < rest.len() && next.starts_with(begins)
}

/// Which rule reads a statement: words such as `mesh` open one only where no array of that name can stand.
fn statement_rule(word: &str, rest: &str) -> Rule {
    let name_follows = rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_alphanumeric());
    match word {
        "mesh" | "Mesh" if name_follows || rest.starts_with(['{', '(']) => Rule::mesh_statement,
        "dims" if name_follows || rest.starts_with('{') => Rule::dims_statement,
        "output" if name_follows => Rule::output_statement,
        "expect" if name_follows => Rule::expect_statement,
        "limit" if name_follows => Rule::limit_statement,
        _ => Rule::array_statement,
    }
}
