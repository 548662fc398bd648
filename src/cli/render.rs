//! Draws diagnostics for people, under the lines that they speak of.
//!
//! miette draws; it is shown only the lines in question, and of a long line only the part around its label: it scans
//! its text from the start for every label, and cannot draw a label past column 65,535.

use crate::diag::{Diagnostic, Diagnostics, Label};
use crate::escape;
use crate::span::{LineIndex, Span};
use itertools::Itertools;
use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan,
    SpanContents, ThemeCharacters, ThemeStyles,
};
use std::fmt;

/// Options of the renderer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderOptions {
    /// Whether to use colours.
    pub color: bool,
    /// Whether to draw with Unicode; otherwise ASCII.
    pub unicode: bool,
    /// Width of the text, in columns.
    pub width: usize,
}

impl Default for RenderOptions {
    /// Options for files: 80 columns, no colour.
    fn default() -> RenderOptions {
        RenderOptions { color: false, unicode: true, width: 80 }
    }
}

/// Diagnostics drawn in full; further ones are counted.
const MOST_DRAWN: usize = 50;
/// Longest line shown whole, in bytes.
const LONGEST_LINE: usize = 200;
/// Length of the excerpt of a longer line, in bytes.
const WINDOW: usize = 72;

/// The end of a quotation with a word joiner, so that no line ends between the two characters.
const JOINED: &str = "}\u{2060}`";

/// Draws all diagnostics in order, separated by empty lines.
///
/// - `source_name`: display name of the file.
/// - `source`: the text that the labels refer to; a label outside of it is drawn at its end.
pub fn render(diagnostics: &Diagnostics, source_name: &str, source: &str, options: RenderOptions) -> String {
    let styles = if options.color { ThemeStyles::ansi() } else { ThemeStyles::none() };
    let characters = if options.unicode { ThemeCharacters::unicode() } else { ThemeCharacters::ascii() };
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme { characters, styles })
        .with_links(false)
        .without_syntax_highlighting()
        .with_width(options.width.clamp(40, 1000));
    let lines = LineIndex::new(source);
    let mut text = String::new();
    for diagnostic in diagnostics.iter().take(MOST_DRAWN) {
        if !text.is_empty() {
            text.push('\n');
        }
        let page = Page::new(diagnostic, source_name, source, &lines);
        if handler.render_report(&mut text, &page).is_err() {
            // Never seen; the message is what counts.
            text.push_str(&format!("{}: {}\n", diagnostic.code, visible(&diagnostic.message)));
        }
    }
    let more = diagnostics.iter().count().saturating_sub(MOST_DRAWN);
    if more > 0 {
        text.push_str(&format!("\n... and {more} more\n"));
    }
    let text = text.replace(JOINED, "}`");
    let lines = text.lines().map(str::trim_end);
    lines.fold(String::with_capacity(text.len()), |text, line| text + line + "\n")
}

/// One diagnostic with its source lines.
#[derive(Debug)]
struct Page {
    diagnostic: Diagnostic,
    /// Its labels, as spans of `text`.
    labels: Vec<LabeledSpan>,
    name: String,
    /// The source lines, concatenated.
    text: String,
    lines: Vec<Line>,
}

/// A source line of a page.
#[derive(Debug)]
struct Line {
    /// Line number in the source, from 0.
    number: usize,
    /// Span in the text of the page, without the newline.
    start: usize,
    end: usize,
    /// The excerpt of the source, and its start in the page.
    source_start: usize,
    source_end: usize,
    shown: usize,
    /// Characters of the line before the excerpt.
    hidden: usize,
}

impl Page {
    fn new(diagnostic: &Diagnostic, name: &str, source: &str, index: &LineIndex) -> Page {
        let mut page = Page {
            diagnostic: Diagnostic {
                message: visible(&diagnostic.message),
                help: diagnostic.help.as_deref().map(|help| help.lines().map(visible).join("\n").replace("}`", JOINED)),
                ..diagnostic.clone()
            },
            labels: Vec::new(),
            name: visible(name),
            text: String::new(),
            lines: Vec::new(),
        };
        let mut places: Vec<(&Label, Span)> =
            diagnostic.labels.iter().filter_map(|label| Some((label, place(label.span, source)?))).collect();
        // The window of a long line is laid around its primary label.
        places.sort_by_key(|(label, span)| (line_start(source, span.start as usize), !label.primary));
        for (label, span) in places {
            page.show_line(span, source, index);
            page.show_label(label, span, source);
        }
        page
    }

    /// Adds the line in which `span` begins, unless it is already the last one.
    fn show_line(&mut self, span: Span, source: &str, index: &LineIndex) {
        let (number, column) = index.line_column(source, span.start);
        if self.lines.last().is_some_and(|line| line.number + 1 == number) {
            return;
        }
        let start = line_start(source, span.start as usize);
        let end = start + source[start..line_end(source, start)].trim_end_matches('\r').len();
        let (mut from, mut to) = (start, end);
        if end - start > LONGEST_LINE {
            from = floor_boundary(source, (span.start as usize).saturating_sub(WINDOW / 2).max(start));
            to = floor_boundary(source, (from + WINDOW).min(end));
        }
        let hidden = column - 1 - source[from..span.start as usize].chars().count();
        let begin = self.text.len();
        self.text.push_str(if from > start { "…" } else { "" });
        let shown = self.text.len();
        self.text.extend(drawn(&source[from..to]));
        self.text.push_str(if to < end { "…" } else { "" });
        self.lines.push(Line {
            number: number - 1,
            start: begin,
            end: self.text.len(),
            source_start: from,
            source_end: to,
            shown,
            hidden,
        });
        self.text.push('\n');
    }

    /// Adds a label to the last line, clipped to the excerpt.
    fn show_label(&mut self, label: &Label, span: Span, source: &str) {
        let Some(line) = self.lines.last() else { return };
        let shift = |at: u32| {
            let at = (at as usize).clamp(line.source_start, line.source_end);
            line.shown + drawn(&source[line.source_start..at]).map(char::len_utf8).sum::<usize>()
        };
        // A label outside the part that is shown is drawn at its edge.
        let from = floor_boundary(&self.text, shift(span.start).min(line.end.saturating_sub(1)));
        let to = ceil_boundary(&self.text, shift(span.end).max(from + 1));
        let text = Some(visible(&label.text)).filter(|text| !text.is_empty());
        let range = SourceSpan::from((from, to - from));
        self.labels.push(match label.primary {
            true => LabeledSpan::new_primary_with_span(text, range),
            false => LabeledSpan::new_with_span(text, range),
        });
    }
}

/// Clips a label to one line, and to at least one character that is not blank if there is one.
fn place(span: Span, source: &str) -> Option<Span> {
    let start = floor_boundary(source, span.start as usize);
    let end = ceil_boundary(source, span.end as usize).clamp(start, line_end(source, start));
    let own = &source[start..end];
    // A blank that has a stand-in is seen, but for the line end CRLF.
    let is_drawn = |c: char| !c.is_whitespace() || !matches!(c, '\t' | '\n' | '\r') && escape::is_steering(c);
    if own.contains(is_drawn) || own == "\r" && !source[end..].starts_with('\n') {
        return Some(Span::new(start, end));
    }
    let here = source[start..].char_indices().next().filter(|(_, c)| !c.is_whitespace()).map(|(at, c)| (start + at, c));
    let before = || source[..start].char_indices().rfind(|(_, c)| !c.is_whitespace());
    let behind = || source.char_indices().find(|(_, c)| !c.is_whitespace());
    let (at, c) = here.or_else(before).or_else(behind)?;
    Some(Span::new(at, at + c.len_utf8()))
}

fn line_start(source: &str, at: usize) -> usize {
    source[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn line_end(source: &str, at: usize) -> usize {
    source[at..].find('\n').map_or(source.len(), |length| at + length)
}

fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rfind(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn ceil_boundary(text: &str, at: usize) -> usize {
    (at.min(text.len())..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// Replaces each control character of a line by a visible one.
fn drawn(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|c| if c == '\t' { c } else { escape::stand_in(c) })
}

/// Formats words on one line without control characters.
fn visible(text: &str) -> String {
    escape::line(&text.replace(['\n', '\t'], " ")).into_owned()
}

impl SourceCode for Page {
    /// Reads the lines of the span; without context, as in a snippet's heading, the location in the source.
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        _lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let end = span.offset() + span.len();
        let touched = |line: &&Line| line.start <= end.max(span.offset()) && span.offset() <= line.end;
        let first = self.lines.iter().find(touched).ok_or(MietteError::OutOfBounds)?;
        let last = self.lines.iter().rfind(touched).unwrap_or(first);
        let column = if lines_before == 0 {
            first.hidden + self.text[first.shown.min(span.offset())..span.offset()].chars().count()
        } else {
            0
        };
        let range = SourceSpan::from((first.start, last.end - first.start));
        let data = &self.text.as_bytes()[first.start..last.end];
        let count = last.number - first.number + 1;
        let name = self.name.clone();
        Ok(Box::new(MietteSpanContents::new_named(name, data, range, first.number, column, count)))
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostic.fmt(f)
    }
}

impl std::error::Error for Page {}

impl miette::Diagnostic for Page {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.diagnostic.code()
    }

    fn severity(&self) -> Option<miette::Severity> {
        self.diagnostic.severity()
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        miette::Diagnostic::help(&self.diagnostic)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        (!self.labels.is_empty()).then_some(self as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.labels.iter().cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;

    fn drawn(source: &str) -> String {
        render(&parse(source).1, "test.shard", source, RenderOptions::default())
    }

    #[test]
    fn a_report_shows_the_line_and_both_places() {
        let text = drawn("A = B\nC[I, J = relu(A)\n");
        assert_eq!(
            text,
            "\
unclosed-bracket

  × `[` is not closed
   ╭─[test.shard:2:8]
 2 │ C[I, J = relu(A)
   ·  ┬     ┬
   ·  │     ╰── expected `,` or `]`
   ·  ╰── opened here
   ╰────
"
        );
    }

    #[test]
    fn other_lines_and_ends_of_files() {
        let text = drawn("C = relu(\n\n  A +\n\n\n");
        assert_eq!(
            text,
            "\
unclosed-bracket

  × `(` is not closed
   ╭─[test.shard:1:9]
 1 │ C = relu(
   ·         ┬
   ·         ╰── opened here
   ╰────
   ╭─[test.shard:3:5]
 3 │   A +
   ·     ┬
   ·     ╰── expected an array
   ╰────
"
        );
    }

    #[test]
    fn a_long_line_is_cut() {
        let long = format!("C = {}A ] {}", "A · ".repeat(9_000), "* B ".repeat(1_000));
        let text = drawn(&long);
        assert_eq!(
            text,
            "\
unexpected-text

  × unexpected `]`
   ╭─[test.shard:1:36007]
 1 │ … · A · A · A · A · A · A · A ] * B * B * B * B * B * B * B * B * …
   ·                               ┬
   ·                               ╰── expected an operator, `->`, `[` or the end of the statement
   ╰────
  help: unmatched `]`; remove it
"
        );
    }

    #[test]
    fn what_cannot_be_seen_is_drawn_and_labels_keep_their_columns() {
        let source = "A = B # \u{1b}[31m\u{9b}\u{202e}é\u{7f} C D\r\n";
        let start = source.find('C').expect("it is there");
        let mut diagnostics = Diagnostics::default();
        diagnostics.push(&Diagnostic {
            code: "wild".into(),
            severity: crate::diag::Severity::Error,
            message: "a \u{1b}[2J".into(),
            labels: vec![Label { span: Span::new(start, start + 1), text: "here".into(), primary: true }],
            help: Some("b\u{7}\nc".into()),
            fixes: Vec::new(),
        });
        assert_eq!(
            render(&diagnostics, "a\u{1b}\nb.shard", source, RenderOptions::default()),
            "\
wild

  × a \\u{1b}[2J
   ╭─[a\\u{1b} b.shard:1:19]
 1 │ A = B # ␛[31m��é␡ C D
   ·                   ┬
   ·                   ╰── here
   ╰────
  help: b\\u{7}
        c
"
        );
    }

    #[test]
    fn wild_labels_do_no_harm() {
        let mut diagnostics = Diagnostics::default();
        let labels = |spans: &[(u32, u32)]| {
            let label = |(place, (start, end)): (usize, &(u32, u32))| Label {
                span: Span { start: *start, end: *end },
                text: format!("label {place} \u{1B}[31m"),
                primary: place == 0,
            };
            Diagnostic {
                code: "wild".into(),
                severity: crate::diag::Severity::Warning,
                message: "wild \u{202E}".into(),
                labels: spans.iter().enumerate().map(label).collect(),
                help: None,
                fixes: Vec::new(),
            }
        };
        let spans = [(0, 0), (3, 3), (0, 9), (1, 2), (5, 4), (7, 70_000), (900, 901), (u32::MAX, u32::MAX)];
        for a in spans {
            diagnostics.push(&labels(&[a]));
            for b in spans {
                diagnostics.push(&labels(&[a, b, (2, 3)]));
            }
        }
        let long = format!("ab\u{1B}\n{}·\n", "é".repeat(100_000));
        for source in ["", " \n\n", "a", "a\n", "é\n\té", "ab\r\ncd\r\n", "\u{FEFF}😀👩‍👩‍👦漢\n漢字", &long]
        {
            for one in diagnostics.iter() {
                let mut alone = Diagnostics::default();
                alone.push(one);
                for width in [0, 80] {
                    let text = render(&alone, "x\u{7}", source, RenderOptions { width, ..RenderOptions::default() });
                    assert!(text.contains("label 0 \\u{1b}[31m") != source.trim().is_empty(), "{source:.20} {text}");
                    assert!(!text.contains(['\u{1B}', '\u{202E}', '\u{7}']));
                }
            }
        }
        let text = render(&diagnostics, "x", "a", RenderOptions { color: true, unicode: false, width: 80 });
        assert!(text.ends_with("\n... and 22 more\n"));
    }

    #[test]
    fn many_errors_of_a_large_file_are_drawn_at_once() {
        let source =
            format!("{}{}", "A = B * C # padding that makes the file larger\n".repeat(20_000), "x\n".repeat(100));
        let (_, diagnostics) = parse(&source);
        let begin = std::time::Instant::now();
        let text = render(&diagnostics, "x", &source, RenderOptions::default());
        assert!(text.contains("[x:20001:1]") && text.ends_with("... and 50 more\n"));
        assert!(begin.elapsed().as_secs() < 5, "{:?}", begin.elapsed());
    }
}
