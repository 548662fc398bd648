//! Parser of the text form of a schedule.
//!
//! The output of [`Display`](std::fmt::Display) is parsed to the same schedule, except for source locations. Hand-written
//! texts may name values, `%left`, spread a statement over several lines, and contain comments from `#` to the end of a
//! line.

mod arrays;
mod error;
mod grammar;
mod maps;
pub(super) mod names;
mod operations;
mod pieces;

use super::{ArrayId, Malformed, OpId, Place, Schedule, verify};
use crate::characters;
use crate::diag::{Diagnostic, Diagnostics, Label, Severity};
use crate::mesh::{AxisId, Mesh};
use crate::span::Span;
use error::TextError;
use grammar::{Rule, ScheduleParser};
use pest::Parser;
use pest::iterators::Pair;
use std::collections::BTreeMap;

/// Limit on the length of a statement, in bytes.
const LONGEST_STATEMENT: usize = 1 << 22;
/// Number of errors after which parsing stops.
const MOST_ERRORS: usize = 100;

/// A schedule with source locations.
#[derive(Clone, Debug)]
pub struct Written {
    /// The schedule, verified.
    pub schedule: Schedule,
    /// Locations of its parts.
    pub places: Places,
}

/// Locations of the parts of a schedule, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The mesh.
    pub mesh: Span,
    /// The arrays.
    pub arrays: Vec<Span>,
    /// The operations.
    pub operations: Vec<OperationPlace>,
    /// The kernels.
    pub kernels: Vec<Span>,
    /// The outputs.
    pub outputs: Vec<Span>,
    /// The assertions.
    pub assertions: Vec<Span>,
}

/// Location and name of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationPlace {
    /// The name of its value, `%left`.
    pub name: String,
    /// The whole statement.
    pub span: Span,
    /// The operands.
    pub operands: Vec<Span>,
}

/// Why a text is not a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Syntax errors and unknown names.
    Text(Diagnostics),
    /// The first violation of the rules of schedules.
    Malformed(Diagnostics),
}

/// Parses and verifies a text.
///
/// # Errors
/// If the text is invalid or does not pass [`verify`].
pub fn from_text(source: &str) -> Result<Written, Unread> {
    if source.len() > super::MOST_TEXT {
        let error = TextError::TooLarge { bytes: source.len(), most: super::MOST_TEXT };
        return Err(Unread::Text(Diagnostics::of(&error)));
    }
    characters::check(source).map_err(|error| Unread::Text(Diagnostics::of(&error)))?;
    let (written, errors) = Reader::read(source);
    match written.filter(|_| errors.is_empty()) {
        None => Err(Unread::Text(errors)),
        Some(written) => match verify(&written.schedule) {
            Ok(_) => Ok(written),
            Err(malformed) => Err(Unread::Malformed(written.places.label(&malformed))),
        },
    }
}

/// Whether a text is a schedule instead of a program: JSON, or a text that defines values such as `%3`.
pub fn is_schedule(source: &str) -> bool {
    let mut lines = source.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    lines.peek().is_some_and(|line| line.starts_with('{')) || lines.any(|line| line.starts_with('%'))
}

impl Places {
    /// Reports a malformed part with its location and name.
    fn label(&self, malformed: &Malformed) -> Diagnostics {
        let mut found = Diagnostic::new(malformed);
        let (name, span) = match malformed.place {
            Place::Mesh => ("the mesh".to_owned(), Some(self.mesh)),
            Place::Array(index) => ("the array".to_owned(), self.arrays.get(index).copied()),
            Place::Operation(index) => {
                let place = self.operations.get(index);
                (place.map(|place| format!("`{}`", place.name)).unwrap_or_default(), place.map(|place| place.span))
            }
            Place::Kernel(index) => ("the kernel".to_owned(), self.kernels.get(index).copied()),
            Place::Output(index) => ("the output".to_owned(), self.outputs.get(index).copied()),
            Place::Assertion(index) => ("the assertion".to_owned(), self.assertions.get(index).copied()),
        };
        found.message = format!("{name} is malformed: {}", malformed.flaw);
        found.labels = span.into_iter().map(|span| primary(span, "here")).collect();
        let mut all = Diagnostics::default();
        all.push(&found);
        all
    }
}

fn primary(span: Span, text: &str) -> Label {
    Label { span, text: text.to_owned(), primary: true }
}

/// The kinds of statements.
type Read<T> = Result<T, TextError>;

/// A schedule during parsing.
struct Reader<'a> {
    schedule: Schedule,
    places: Places,
    /// Arrays by label.
    arrays: BTreeMap<String, ArrayId>,
    /// Number of arrays per name.
    namesakes: BTreeMap<String, usize>,
    /// Whether an array is missing because its declaration is wrong, which is already reported.
    lacks_arrays: bool,
    /// Values by name; `None` for wrong ones, which are already reported.
    values: BTreeMap<&'a str, Option<OpId>>,
    step: u32,
}

/// `None` stands for an error that is already reported.
type Told<T> = Result<T, Option<TextError>>;

impl<'a> Reader<'a> {
    /// Parses all statements and collects errors.
    fn read(source: &'a str) -> (Option<Written>, Diagnostics) {
        let mut spans = pieces::pieces(source).into_iter();
        let mut reader = match Reader::new(source, spans.next()) {
            Ok(reader) => reader,
            Err(error) => return (None, Diagnostics::of(&error)),
        };
        let mut errors = Diagnostics::default();
        for span in spans {
            if let Err(Some(error)) = reader.statement(source, span) {
                errors.push(&error);
            }
            if errors.count(Severity::Error) == MOST_ERRORS {
                break;
            }
        }
        (Some(Written { schedule: reader.schedule, places: reader.places }), errors)
    }

    /// Parses the statements after the mesh.
    fn new(source: &str, first: Option<Span>) -> Read<Reader<'a>> {
        let span = first.unwrap_or_default();
        let missing = TextError::MeshFirst { at: span.into(), expected: "`mesh`" };
        if !span.text(source).starts_with("mesh") {
            return Err(missing);
        }
        let mesh = arrays::mesh(&parsed(source, span, Rule::mesh)?, span)?;
        Ok(Reader {
            schedule: Schedule::new(mesh),
            places: Places { mesh: span, ..Places::default() },
            arrays: BTreeMap::new(),
            namesakes: BTreeMap::new(),
            lacks_arrays: false,
            values: BTreeMap::new(),
            step: 0,
        })
    }

    /// Parses one statement after the mesh.
    fn statement(&mut self, source: &'a str, span: Span) -> Told<()> {
        let text = span.text(source);
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let word = |text: &'a str| &text[..text.find(|letter| !is_letter(letter)).unwrap_or(text.len())];
        match word(text) {
            "mesh" => Err(Some(TextError::MeshFirst { at: span.into(), expected: "no second mesh" })),
            "array" => {
                let read = parsed(source, span, Rule::array).map_err(Some).and_then(|pair| self.array(pair, span));
                self.lacks_arrays |= read.is_err();
                Ok(read?)
            }
            "output" => {
                let output = self.output(parsed(source, span, Rule::output)?, span)?;
                self.places.outputs.push(span);
                self.schedule.outputs.push(output);
                Ok(())
            }
            "assert" => {
                let assertion = self.output(parsed(source, span, Rule::assertion)?, span)?;
                self.places.assertions.push(span);
                self.schedule.assertions.push(assertion);
                Ok(())
            }
            "kernel" => {
                let pair = parsed(source, span, Rule::kernel)?;
                let members = parts(pair, span.start).flat_map(|values| values.all(Rule::value).collect::<Vec<_>>());
                let kernel = members.map(|value| self.value(&value)).collect::<Told<_>>()?;
                self.places.kernels.push(span);
                self.schedule.kernels.push(kernel);
                Ok(())
            }
            "step" => {
                let number = parts(parsed(source, span, Rule::step)?, span.start).next();
                self.step = number.map(|number| number.number()).transpose()?.unwrap_or_default();
                Ok(())
            }
            _ => {
                let name = text.strip_prefix('%').map(|name| &text[..1 + word(name).len()]);
                let first = name.and_then(|name| Some((self.values.insert(name, None)?, name)));
                let pair = parsed(source, span, Rule::operation)?;
                match first {
                    Some((first, name)) => Err(Some(self.made_twice(name, first, span))),
                    None => self.operation(pair, span),
                }
            }
        }
    }

    fn made_twice(&mut self, name: &'a str, first: Option<OpId>, second: Span) -> TextError {
        self.values.insert(name, first);
        let place = first.and_then(|id| self.places.operations.get(id.index())).map_or(second, |place| place.span);
        let second = Span { end: second.start + u32::try_from(name.len()).unwrap_or_default(), ..second };
        let help = "give each value its own name".to_owned();
        TextError::Twice { name: name.to_owned(), help, first: place.into(), second: second.into() }
    }

    fn mesh(&self) -> &Mesh {
        &self.schedule.mesh
    }

    /// Resolves axes from `X`, `XY` or `{data,model}`.
    fn axes(&self, part: &Part<'a>) -> Read<Vec<AxisId>> {
        let unknown = |text: &str, span| TextError::word(text, "an axis of the mesh", span);
        let Some(inner) = part.inner().next() else { return Ok(Vec::new()) };
        match inner.rule() {
            Rule::axis_list => {
                let axis = |name: Part<'a>| {
                    self.mesh().axis_named(name.text()).ok_or_else(|| unknown(name.text(), name.span()))
                };
                inner.inner().map(axis).collect()
            }
            _ => names::axes_of_run(self.mesh(), inner.text()).ok_or_else(|| unknown(inner.text(), inner.span())),
        }
    }

    /// Resolves a value defined above.
    fn value(&self, part: &Part<'a>) -> Told<OpId> {
        let made = self.values.get(part.text());
        let late = || TextError::word(part.text(), "a value defined above", part.span());
        made.ok_or_else(|| Some(late())).and_then(|id| id.ok_or(None))
    }

    /// Resolves an array by label.
    fn array_named(&self, part: &Part<'a>) -> Told<ArrayId> {
        let known = self.arrays.get(&arrays::label(part)?).copied();
        let unknown = || TextError::word(part.text(), "an array declared above", part.span());
        known.ok_or_else(|| Some(unknown()).filter(|_| !self.lacks_arrays))
    }
}

/// The statement at an offset.
fn parsed(source: &str, span: Span, rule: Rule) -> Read<Pair<'_, Rule>> {
    let text = span.text(source);
    if text.len() > LONGEST_STATEMENT {
        return Err(TextError::TooLong { bytes: text.len(), most: LONGEST_STATEMENT, at: span.into() });
    }
    let mut pairs =
        ScheduleParser::parse(rule, text).map_err(|error| TextError::syntax(&error, text, span.start as usize))?;
    pairs.next().ok_or_else(|| TextError::word(text, "a statement", span))
}

/// A meaningful part of a statement, with the start of the statement.
#[derive(Clone, Debug)]
struct Part<'a> {
    pair: Pair<'a, Rule>,
    start: u32,
}

/// The parts of a statement, without signs and keywords.
fn parts(pair: Pair<'_, Rule>, start: u32) -> impl Iterator<Item = Part<'_>> {
    pair.into_inner().filter(|pair| !is_fixed(pair.as_rule())).map(move |pair| Part { pair, start })
}

impl<'a> Part<'a> {
    fn rule(&self) -> Rule {
        self.pair.as_rule()
    }

    fn text(&self) -> &'a str {
        self.pair.as_str()
    }

    fn span(&self) -> Span {
        let span = self.pair.as_span();
        Span::new(self.start as usize + span.start(), self.start as usize + span.end())
    }

    fn inner(&self) -> impl Iterator<Item = Part<'a>> + use<'a> {
        parts(self.pair.clone(), self.start)
    }

    /// The first part of a kind.
    fn find(&self, rule: Rule) -> Option<Part<'a>> {
        self.inner().find(|part| part.rule() == rule)
    }

    /// All parts of a kind.
    fn all(&self, rule: Rule) -> impl Iterator<Item = Part<'a>> + use<'a> {
        self.inner().filter(move |part| part.rule() == rule)
    }

    fn number<T: std::str::FromStr>(&self) -> Read<T> {
        self.text().parse().map_err(|_| TextError::number(self.text(), self.span()))
    }

    /// Parses the numbers of `[4, 2]`.
    fn extents(&self) -> Read<Vec<u64>> {
        self.all(Rule::number).map(|number| number.number()).collect()
    }

    /// The meaning of a word, or an error.
    fn known<T>(&self, what: &'static str, value: Option<T>) -> Read<T> {
        value.ok_or_else(|| TextError::word(self.text(), what, self.span()))
    }
}

/// Whether a part carries no content.
fn is_fixed(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::EOI
            | Rule::open_brace
            | Rule::close_brace
            | Rule::open_bracket
            | Rule::close_bracket
            | Rule::open_paren
            | Rule::close_paren
            | Rule::comma
            | Rule::colon
            | Rule::equals
            | Rule::star
            | Rule::mesh_word
            | Rule::array_word
            | Rule::step_word
            | Rule::kernel_word
            | Rule::output_word
            | Rule::assert_word
            | Rule::over_word
            | Rule::of_word
            | Rule::by_word
            | Rule::using_word
            | Rule::via_word
            | Rule::at_word
            | Rule::dim_word
            | Rule::from_word
            | Rule::on_word
            | Rule::block_word
            | Rule::mod_word
            | Rule::input_word
            | Rule::slice_word
            | Rule::shuffle_word
            | Rule::add_word
            | Rule::assemble_word
            | Rule::all_gather_word
            | Rule::mat_mul_word
            | Rule::reduce_word
            | Rule::map_word
            | Rule::fill_word
            | Rule::call_word
    )
}
