//! Parses a whole source: splits it into statements, parses each, and builds the AST.

use super::build::Builder;
use super::error::SyntaxError;
use super::expected::explain;
use super::foreign::{self, is_import};
use super::grammar::{Rule, ShardParser};
use super::known::Known;
use super::slips::KERNEL_FACTS;
use super::split::{DEEPEST, Piece, Trouble, is_blank, opens_block, pieces};
use super::{Ast, Statement, StatementKind};
use crate::characters;
use crate::diag::{Diagnostics, Fix};
use crate::parallel::in_parallel;
use crate::span::Span;
use pest::Parser;
use pest::iterators::Pair;

/// Limit on the length of a source, in bytes.
pub const LARGEST_SOURCE: usize = 16 << 20;
/// Limit on the length of a statement, in bytes.
pub const LONGEST_STATEMENT: usize = 64 << 10;
/// Limit on the number of statements.
pub const MOST_STATEMENTS: usize = 100_000;
/// Parsing stops after this number of errors.
pub const MOST_ERRORS: usize = 1000;

/// Parses a program: the well-formed statements, and all syntax errors of the others.
///
/// Codes of the errors: see [`SyntaxError`].
pub fn parse(source: &str) -> (Ast, Diagnostics) {
    parse_as(source, false)
}

/// As [`parse`]; in lenient mode, collectives and open sums may lack their `_`.
pub(super) fn parse_as(source: &str, lenient: bool) -> (Ast, Diagnostics) {
    let mut reader = Reader::default();
    if let Err(error) = check_source(source) {
        reader.diagnostics.push(&error);
        // What it declares is unknown, which is not reported again.
        reader.ast.lost.insert("mesh".to_owned());
        if source.len() <= LARGEST_SOURCE {
            reader.ast.lost.extend(words(source));
        }
        return (reader.ast, reader.diagnostics);
    }
    let mut pieces = pieces(source);
    let mut batch: Vec<Piece> = pieces.by_ref().take(FIRST).collect();
    while !batch.is_empty() {
        for (piece, read) in statements(source, &batch, lenient) {
            if let Some(error) = refuse_more(piece.span, reader.statements, reader.errors) {
                reader.diagnostics.push(&error);
                return reader.finish(source);
            }
            reader.take(source, piece, read, lenient);
        }
        batch = pieces.by_ref().take(BATCH).collect();
    }
    reader.finish(source)
}

/// Number of statements parsed on one thread; most programs have no more.
const FIRST: usize = 128;
/// Number of statements parsed at a time after them, on all threads; it bounds the wasted work if there are too many
/// errors.
const BATCH: usize = 8192;

/// The result of each piece; `None` for a `}`, whose meaning depends on the blocks around it.
fn statements(source: &str, batch: &[Piece], lenient: bool) -> Vec<(Piece, Option<Result<Statement, SyntaxError>>)> {
    let read = |piece: Piece| (piece, (piece.span.text(source) != "}").then(|| statement(source, piece, lenient)));
    if batch.len() <= FIRST { batch.iter().copied().map(read).collect() } else { in_parallel(batch.to_vec(), read) }
}

/// The statements so far, and the open blocks.
#[derive(Default)]
struct Reader {
    ast: Ast,
    diagnostics: Diagnostics,
    blocks: Vec<Block>,
    statements: usize,
    errors: usize,
    /// Number of open unknown statements that end in a brace; their `}` is not reported again.
    unknown: usize,
    /// Whether the last statement was a kernel with a syntax error; what it says of itself is not reported again.
    kernel_lost: bool,
}

/// An open block.
struct Block {
    head: Span,
    /// The block without its body yet; `None` where the head has an error: its body is parsed for errors only.
    opened: Option<StatementKind>,
    body: Vec<Statement>,
}

impl Reader {
    fn take(&mut self, source: &str, piece: Piece, read: Option<Result<Statement, SyntaxError>>, lenient: bool) {
        let text = piece.span.text(source);
        if text == "}" && self.unknown > 0 {
            self.unknown -= 1;
            return;
        }
        if text == "}" && !self.blocks.is_empty() {
            return self.close(source, piece.span);
        }
        self.statements += 1;
        match read.unwrap_or_else(|| statement(source, piece, lenient)) {
            Ok(Statement { kind: kind @ (StatementKind::Repeat { .. } | StatementKind::Def { .. }), span }) => {
                let fits = self.blocks.len() < DEEPEST;
                if !fits {
                    self.tell(&SyntaxError::too_deep(span));
                }
                self.blocks.push(Block { head: span, opened: fits.then_some(kind), body: Vec::new() });
            }
            Ok(statement) => {
                self.kernel_lost = false;
                self.push(statement);
            }
            Err(_) if self.kernel_lost && KERNEL_FACTS.contains(&first_word(text)) => {
                lose(&mut self.ast, piece.span, text);
                self.errors += 1;
            }
            Err(error) => {
                self.kernel_lost = first_word(text) == "kernel";
                if opens_block(first_word(text), after_word(text)) {
                    self.blocks.push(Block { head: piece.span, opened: None, body: Vec::new() });
                } else {
                    self.unknown += usize::from(looks_like_head(text));
                }
                if let Some(block) = self.blocks.last_mut().filter(|_| first_word(text) == "return") {
                    // Without its result the function is lost.
                    block.opened = None;
                }
                lose(&mut self.ast, piece.span, text);
                self.errors += 1;
                // Several lines of imports are reported once.
                let above = Known::around(source, piece.span.start as usize).word_above();
                if !(is_import(text) && is_import(above)) {
                    self.diagnostics.push_with_fixes(&error, error.fixes(piece.span));
                }
            }
        }
    }

    fn tell(&mut self, error: &SyntaxError) {
        self.errors += 1;
        self.diagnostics.push(error);
    }

    fn push(&mut self, statement: Statement) {
        match self.blocks.last_mut() {
            Some(block) => block.body.push(statement),
            None => self.ast.statements.push(statement),
        }
    }

    /// Closes the innermost block.
    fn close(&mut self, source: &str, end: Span) {
        let Some(Block { head, opened, body: inside }) = self.blocks.pop() else { return };
        match opened {
            Some(mut kind) => {
                if let StatementKind::Repeat { body, .. } | StatementKind::Def { body, .. } = &mut kind {
                    *body = inside;
                }
                self.push(Statement { kind, span: head.join(end) });
            }
            // What is lost with a block around it is lost with that one: no text is looked at twice.
            None if self.blocks.last().is_some_and(|around| around.opened.is_none()) => {}
            None => {
                let span = head.join(end);
                lose(&mut self.ast, span, span.text(source));
            }
        }
    }

    /// The AST; unclosed blocks end here.
    fn finish(mut self, source: &str) -> (Ast, Diagnostics) {
        let end = source.trim_end().len();
        let last = source[..end].chars().next_back().map_or(0, char::len_utf8);
        let end = Span::new(end - last, end);
        while let Some(block) = self.blocks.last_mut() {
            if block.opened.is_none() {
                self.close(source, end);
                continue;
            }
            // What cannot stand in a body stands behind it.
            let behind = block.body.iter().position(|statement| !in_body(statement)).unwrap_or(block.body.len());
            let behind = block.body.split_off(behind);
            let opened = block.head.end as usize;
            let error = SyntaxError::Unclosed {
                bracket: '{',
                opened: Span::new(opened - 1, opened).into(),
                expected: "`}` after this".to_owned(),
                at: end.into(),
                help: None,
            };
            self.tell(&error);
            self.close(source, end);
            behind.into_iter().for_each(|statement| self.push(statement));
        }
        (self.ast, self.diagnostics)
    }
}

/// Whether a statement is allowed in a body.
fn in_body(statement: &Statement) -> bool {
    match statement.kind {
        StatementKind::Input { .. }
        | StatementKind::Assign { .. }
        | StatementKind::Repeat { .. }
        | StatementKind::Return(_) => true,
        StatementKind::Mesh { .. }
        | StatementKind::Def { .. }
        | StatementKind::Kernel(_)
        | StatementKind::View { .. }
        | StatementKind::Dims(_)
        | StatementKind::Output(_)
        | StatementKind::Expect(_)
        | StatementKind::Limit { .. }
        | StatementKind::Link(_) => false,
    }
}

/// Whether an unknown statement seems to open a block, so that its `}` is not reported again: `repaet 4 {`.
fn looks_like_head(text: &str) -> bool {
    let foreign = matches!(first_word(text), "for" | "while" | "if" | "else" | "elif" | "fn" | "class" | "repeat");
    let head = text.strip_suffix('{');
    let is_head = |head: &str| foreign || head.chars().all(|c| c.is_ascii_alphanumeric() || is_blank(c));
    head.is_some_and(|head| !head.is_empty() && is_head(head))
}

/// Keeps the words that a failed statement would have declared.
fn lose(ast: &mut Ast, span: Span, text: &str) {
    ast.lost.extend(words(text));
    let is_named = |rest: &str| {
        let name = first_word(rest);
        !name.is_empty() && rest[name.len()..].trim_start_matches(is_blank).starts_with('(')
    };
    let declares = matches!(first_word(text), "kernel" | "def");
    ast.nameless |= text.starts_with([':', '=']) || declares && !is_named(after_word(text));
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

/// The words of a text, with dims and subscripts separated.
fn words(text: &str) -> impl Iterator<Item = String> {
    let runs = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let parts = runs.flat_map(|run| run.split('_').chain([run]));
    parts.filter(|word| !word.is_empty()).map(str::to_owned)
}

fn check_source(source: &str) -> Result<(), SyntaxError> {
    if source.len() > LARGEST_SOURCE {
        return Err(SyntaxError::SourceTooLarge { bytes: source.len(), most: LARGEST_SOURCE });
    }
    Ok(characters::check(source)?)
}

fn refuse_more(at: Span, statements: usize, errors: usize) -> Option<SyntaxError> {
    let at = Span { end: at.start + 1, ..at }.into();
    if errors >= MOST_ERRORS {
        return Some(SyntaxError::TooManyErrors { at });
    }
    (statements >= MOST_STATEMENTS).then_some(SyntaxError::TooManyStatements { most: MOST_STATEMENTS, at })
}

fn statement(source: &str, piece: Piece, lenient: bool) -> Result<Statement, SyntaxError> {
    let pair = matched(source, piece)?;
    let start = piece.span.start as usize;
    let built = Builder::new(start, lenient).statement(pair, piece.span);
    built.map_err(|error| match error {
        SyntaxError::NoResult { .. } => {
            let text = piece.span.text(source);
            let foreign = foreign::in_place(text, Known::around(source, start), parses);
            foreign.map_or(error, |foreign| foreign.error(text, start))
        }
        error => error,
    })
}

/// The call of another system at `at` in a statement that parses, in place of what the checker says of it.
pub(crate) fn foreign_call(source: &str, statement: Span, at: Span) -> Option<(SyntaxError, Vec<Fix>)> {
    let (text, start) = (statement.text(source), statement.start as usize);
    let place = at.range().start.checked_sub(start)?;
    let foreign = foreign::call_at(text, place, Known::around(source, start), parses)?;
    let error = foreign.error(text, start);
    let fixes = error.fixes(statement);
    Some((error, fixes))
}

/// Parses one statement with the grammar.
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
                help: Some("write `[..]` on one line".to_owned()),
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
    match ShardParser::parse(rule_of(text), text) {
        Ok(mut pairs) => Ok(pairs.next().expect("a rule that matches gives its pair")),
        Err(error) => Err(explain(&error, text, Known::around(source, start), start, parses)),
    }
}

/// The grammar rule of a statement, by how it begins.
fn rule_of(text: &str) -> Rule {
    match is_jax_mesh(text) {
        true => Rule::mesh_statement,
        false => statement_rule(first_word(text), after_word(text)),
    }
}

/// Whether a text is one valid statement.
pub(super) fn parses(text: &str) -> bool {
    let parsed = ShardParser::parse(rule_of(text), text).ok().and_then(|mut pairs| pairs.next());
    parsed.is_some_and(|pair| Builder::new(0, false).statement(pair, Span::new(0, text.len())).is_ok())
}

/// The text after the first word and its blanks.
fn after_word(text: &str) -> &str {
    text[first_word(text).len()..].trim_start_matches(is_blank)
}

/// The leading letters, digits and `_`.
fn first_word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// Whether this is a statement of the wider language without meaning here; its keywords are names elsewhere.
fn is_unknown(word: &str, rest: &str) -> bool {
    if !matches!(word, "by" | "using" | "on") {
        return false;
    }
    let begins = |c: char| c.is_ascii_alphanumeric() || matches!(c, '(' | '{');
    let next = rest.trim_start_matches(is_blank);
    next.is_empty() || next.len() < rest.len() && next.starts_with(begins)
}

/// `mesh = jax.make_mesh(..)`, `{'X': 4}`: a mesh in JAX notation, which starts with none of our keywords.
fn is_jax_mesh(text: &str) -> bool {
    if let Some(inner) = text.strip_prefix('{') {
        return inner.trim_start_matches(is_blank).starts_with(['\'', '"', '‘', '’', '“', '”']);
    }
    let call = text.split_once('=').filter(|(name, _)| first_word(name) == name.trim_end_matches(is_blank));
    let call = call.map_or(text, |(_, call)| call.trim_start_matches(is_blank));
    let path = call.split('(').next().unwrap_or_default();
    let is_path = path.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
    is_path && path.len() < call.len() && matches!(path.rsplit('.').next(), Some("make_mesh" | "Mesh"))
}

/// The rule for a statement: keywords such as `mesh` apply only where no array of that name is possible.
fn statement_rule(word: &str, rest: &str) -> Rule {
    let name_follows = rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_alphanumeric());
    match word {
        "mesh" | "Mesh" if name_follows || rest.starts_with(['{', '(']) => Rule::mesh_statement,
        "axis" if name_follows => Rule::axis_statement,
        "dims" if name_follows || rest.starts_with('{') => Rule::dims_statement,
        "output" if name_follows => Rule::output_statement,
        "repeat" if opens_block(word, rest) => Rule::repeat_statement,
        "def" if opens_block(word, rest) => Rule::def_statement,
        "kernel" if name_follows && !rest.is_empty() => Rule::kernel_statement,
        "return" if name_follows && !rest.is_empty() || rest.starts_with(['(', '-']) && !rest.starts_with("->") => {
            Rule::return_statement
        }
        "expect" if name_follows => Rule::expect_statement,
        "limit" if name_follows => Rule::limit_statement,
        "link" if name_follows || rest.starts_with('(') => Rule::link_statement,
        _ => Rule::array_statement,
    }
}
