//! Splits a source into statements, so that errors stay within one statement.
//!
//! A newline ends a statement, except inside `(` or `{` and after an operator, a comma or an arrow. `;` always ends it; an
//! open `[` ends with its line. An unclosed `(` or `{` ends at the first line that clearly begins a new statement, so one
//! mistake costs one statement and not the rest of the file.

use crate::dtype::DType;
use crate::span::Span;

/// Limit on bracket nesting in a statement.
pub(super) const DEEPEST: usize = 64;

/// The text of one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// From the first to the last character that is neither blank nor comment.
    pub(super) span: Span,
    /// The error found while splitting, if any.
    pub(super) trouble: Option<Trouble>,
}

/// Errors found while splitting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The bracket here is nested too deep.
    TooDeep(usize),
    /// The `[` at the first place is closed on another line; the second is the end of its own.
    BracketSpansLines(usize, usize),
}

/// The statements of a source in order.
pub(super) fn pieces(source: &str) -> impl Iterator<Item = Piece> + '_ {
    let (mut at, mut blocks) = (0, 0usize);
    std::iter::from_fn(move || {
        at = skip_between(source, at);
        let start = at;
        let mut cutter = Cutter {
            source,
            at,
            end: at,
            stack: Vec::new(),
            deeper: 0,
            open_ended: false,
            trouble: None,
            in_block: blocks > 0,
            opens_block: opens_at(source, at),
        };
        match cutter.run() {
            Ended::Plain => {}
            Ended::BlockOpened => blocks += 1,
            Ended::BlockClosed => blocks -= 1,
        }
        at = cutter.at;
        (start < cutter.end).then(|| Piece { span: Span::new(start, cutter.end), trouble: cutter.trouble })
    })
}

/// The first place from `at` on that is neither blank nor comment nor `;`.
fn skip_between(source: &str, mut at: usize) -> usize {
    while let Some(c) = source[at..].chars().next() {
        match c {
            '#' => at = line_end(source, at),
            ';' => at += 1,
            c if is_blank(c) => at += c.len_utf8(),
            _ => break,
        }
    }
    at
}

/// Skips separators, including newlines.
pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{FEFF}'
}

fn line_end(source: &str, at: usize) -> usize {
    source[at..].find('\n').map_or(source.len(), |length| at + length)
}

/// A scan of one statement.
struct Cutter<'a> {
    source: &'a str,
    /// The next byte.
    at: usize,
    /// The end of the last character of the statement.
    end: usize,
    /// The open brackets and their places, at most [`DEEPEST`].
    stack: Vec<(char, usize)>,
    /// Number of open brackets beyond those.
    deeper: usize,
    /// Whether the last token needs an operand.
    open_ended: bool,
    trouble: Option<Trouble>,
    /// Whether its own `}` ends the statement.
    in_block: bool,
    /// Whether its own `{` ends the statement.
    opens_block: bool,
}

/// How a statement ended.
enum Ended {
    Plain,
    /// With `{`, as in `repeat 4 {`.
    BlockOpened,
    /// With `}`.
    BlockClosed,
}

/// Whether the keyword and the text after it open a block: `repeat 4 {`, `def f(x) {`.
pub(super) fn opens_block(word: &str, rest: &str) -> bool {
    match word {
        "repeat" => rest.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '(' | '{')),
        "def" => rest.starts_with(|c: char| c.is_ascii_alphabetic()),
        _ => false,
    }
}

fn opens_at(source: &str, at: usize) -> bool {
    let word = word_at(source, at);
    let rest = &source[at + word.len()..];
    // The parameters of a function may stand on several lines.
    let inside = if word == "def" { rest.find(')').unwrap_or(0) } else { 0 };
    let line = &rest[..rest[inside..].find(['\n', '#', ';']).map_or(rest.len(), |end| inside + end)];
    line.contains('{') && opens_block(word, line.trim_start_matches(is_blank))
}

impl Cutter<'_> {
    fn run(&mut self) -> Ended {
        let start = self.at;
        while let Some(c) = self.source[self.at..].chars().next() {
            match c {
                ';' => return Ended::Plain,
                '}' if self.in_block && !self.stack.iter().any(|(open, _)| *open == '{') => {
                    if start < self.end {
                        return Ended::Plain;
                    }
                    self.take(c);
                    return Ended::BlockClosed;
                }
                '{' if self.opens_block && self.stack.is_empty() => {
                    self.take(c);
                    return Ended::BlockOpened;
                }
                '#' => self.at = line_end(self.source, self.at),
                '\n' => {
                    let next = skip_blank_lines(self.source, self.at);
                    if self.newline_ends(next) {
                        return Ended::Plain;
                    }
                    self.at = next;
                }
                c if is_blank(c) => self.at += c.len_utf8(),
                c => self.take(c),
            }
        }
        Ended::Plain
    }

    /// Consumes one character, or an operator with its subscript.
    fn take(&mut self, c: char) {
        let after_minus = self.end == self.at && self.source[..self.at].ends_with('-');
        let start = self.at;
        self.at += c.len_utf8();
        self.open_ended = false;
        match c {
            '(' | '[' | '{' => self.open(c, start),
            ')' => self.close('('),
            ']' => self.close('['),
            '}' => self.close('{'),
            '+' | '-' | '/' | ',' | '=' | ':' | '→' | '⟶' | '⊙' => self.open_ended = true,
            '>' => self.open_ended = after_minus,
            '*' | '·' | '⋅' | '•' | '∙' | '@' => self.product_sign(),
            '\\' => {
                let word = word_at(self.source, self.at);
                self.at += word.len();
                match word {
                    "cdot" => self.product_sign(),
                    "to" | "rightarrow" | "longrightarrow" | "odot" => self.open_ended = true,
                    _ => {}
                }
            }
            _ => {}
        }
        self.end = self.at;
    }

    /// Consumes `_J`, `_{N,H}` or `_LOCAL` after a product sign.
    fn product_sign(&mut self) {
        self.open_ended = true;
        let Some(subscript) = self.source[self.at..].strip_prefix('_') else { return };
        let line = &subscript[..subscript.find('\n').unwrap_or(subscript.len())];
        let length = if line.starts_with('{') {
            // A brace that is not closed at once is left to the walk, which knows how to end it.
            line.find('}').filter(|end| !line[1..*end].contains(['(', '[', '{', ';', '#'])).map(|end| end + 1)
        } else {
            Some(line.find(|c: char| !c.is_ascii_alphanumeric() && !is_prime(c)).unwrap_or(line.len()))
        };
        self.at += length.map_or(0, |length| 1 + length);
    }

    fn open(&mut self, c: char, at: usize) {
        if self.stack.len() < DEEPEST {
            self.stack.push((c, at));
        } else {
            self.deeper += 1;
            self.trouble.get_or_insert(Trouble::TooDeep(at));
        }
    }

    /// Closes the innermost `opener` and everything open inside it; a stray closer is left to the grammar.
    fn close(&mut self, opener: char) {
        if self.deeper > 0 {
            self.deeper -= 1;
        } else if let Some(place) = self.stack.iter().rposition(|(open, _)| *open == opener) {
            self.stack.truncate(place);
        }
    }

    /// Whether the newline at `self.at` ends the statement; the next line with tokens begins at `next`.
    fn newline_ends(&mut self, next: usize) -> bool {
        let line = &self.source[next..line_end(self.source, next)];
        if line.is_empty() {
            return true;
        }
        if let Some((_, opened)) = self.stack.iter().find(|(open, _)| *open == '[') {
            let goes_on = closes_bracket(line) && !begins_statement(line, true);
            if goes_on {
                self.trouble.get_or_insert(Trouble::BracketSpansLines(*opened, self.end));
            }
            return !goes_on;
        }
        // A dim that is made of others: the one place where a `=` stands inside a brace.
        if matches!(self.stack[..], [('{', _)]) && is_dim_of_parts(line) {
            return false;
        }
        let inside = !self.stack.is_empty();
        !(inside || self.open_ended) || begins_statement(line, inside)
    }
}

/// Whether the line begins with `N = K*M`, followed by `,`, `}` or nothing.
fn is_dim_of_parts(line: &str) -> bool {
    let Some((name, parts)) = line.split_once('=') else { return false };
    let parts = parts.split([',', '}', '#']).next().unwrap_or_default();
    let is_word = |text: &str| text.trim().chars().all(|c| c.is_ascii_alphanumeric() || is_prime(c));
    let factors = parts.replace("\\cdot", "*");
    let factors: Vec<&str> = factors.split(['*', '·', '⋅', '•', '∙', '@']).collect();
    let before = name.rsplit_once(',').map_or("", |(before, _)| before);
    let name = name.rsplit(',').next().unwrap_or_default();
    let closed = before.matches('(').count() <= before.matches(')').count();
    !before.contains('[')
        && closed
        && is_word(name)
        && factors.iter().all(|factor| is_word(factor))
        && (factors.len() > 1 || parts.trim().is_empty())
}

/// The first token after the newline at `at`, skipping blank lines and comment lines.
fn skip_blank_lines(source: &str, mut at: usize) -> usize {
    while let Some(c) = source[at..].chars().next() {
        match c {
            '#' => at = line_end(source, at),
            c if is_blank(c) => at += c.len_utf8(),
            _ => break,
        }
    }
    at
}

/// The alphanumeric word at `at`.
fn word_at(source: &str, at: usize) -> &str {
    let rest = &source[at..];
    &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len())]
}

fn is_prime(c: char) -> bool {
    matches!(c, '\'' | '’' | '′')
}

/// Whether the line has a `]` without its `[`.
fn closes_bracket(line: &str) -> bool {
    let mut depth = 0usize;
    for c in line.chars().take_while(|c| !matches!(c, '#' | ';')) {
        match c {
            '[' => depth += 1,
            ']' if depth == 0 => return true,
            ']' => depth -= 1,
            _ => {}
        }
    }
    false
}

/// Whether the line clearly begins a statement: `mesh {`, `output C`, `A: bf16[..]`, `C[..] = `.
///
/// Inside brackets an arrow counts as well; after an operator it may belong to the continued statement.
fn begins_statement(line: &str, inside: bool) -> bool {
    let head = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || is_prime(c))).unwrap_or(line.len());
    let (word, rest) = (&line[..head], line[head..].trim_start());
    match word {
        "mesh" | "Mesh" | "dims" if rest.starts_with(['{', '(']) => return true,
        "repeat" | "def" if opens_at(line, 0) => return true,
        "axis" | "output" | "expect" | "limit" | "kernel" if rest.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            return true;
        }
        _ => {}
    }
    if let Some(dtype) = rest.strip_prefix(':').filter(|_| !word.is_empty()).map(str::trim_start) {
        let name = word_at(dtype, 0);
        return name.parse::<DType>().is_ok() || !name.is_empty() && dtype[name.len()..].starts_with('[');
    }
    assigns(line, inside)
}

/// Whether the line has a `=`, or with `arrows` an arrow outside all of its brackets, before a stray closer.
fn assigns(line: &str, arrows: bool) -> bool {
    let mut depth = 0usize;
    let mut previous = ' ';
    for (at, c) in line.char_indices().take_while(|(_, c)| !matches!(c, '#' | ';')) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return false,
            ')' | ']' | '}' => depth -= 1,
            // A comparison: `==`, `<=`, `>=`, `!=`.
            '=' if matches!(previous, '=' | '<' | '>' | '!') || line[at + 1..].starts_with('=') => {}
            // No bracket holds a `=`: one that seems to is not closed.
            '=' => return true,
            '→' | '⟶' if depth == 0 && arrows => return true,
            '>' if depth == 0 && arrows && previous == '-' => return true,
            _ => {}
        }
        previous = c;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(source: &str) -> Vec<&str> {
        pieces(source).map(|piece| piece.span.text(source)).collect()
    }

    #[test]
    fn newlines_and_semicolons_end_statements() {
        assert_eq!(cut("A = B # why\n\n  C = D; E = F ;;\n# all\n"), ["A = B", "C = D", "E = F"]);
        assert_eq!(cut("A = relu(B\n  + C)\nD = E"), ["A = relu(B\n  + C)", "D = E"]);
        for sign in ["==", "<=", ">=", "!=", "<"] {
            let statement = format!("A = where(\n  B {sign} C,\n  D, 0)");
            assert_eq!(cut(&format!("{statement}\nE = F")), [statement.as_str(), "E = F"]);
        }
        assert_eq!(cut("mesh {X: 4, # four\n  Y: 2\n} on t\nD = E"), ["mesh {X: 4, # four\n  Y: 2\n} on t", "D = E"]);
    }

    #[test]
    fn operators_commas_and_arrows_ask_for_more() {
        for sign in [
            "*", "+", "-", "/", "·", "*_J", "*_LOCAL", "·_{N,H}", "\\cdot_J", ",", "->", "→", "\\to", "=", ".*", "⊙",
            "\\odot",
        ] {
            let source = format!("A {sign} # rest\n\n B -> C\nD = E");
            assert_eq!(cut(&source).len(), 2, "{source}");
        }
        assert_eq!(cut("A *\nB = C").len(), 2);
    }

    #[test]
    fn one_unclosed_bracket_costs_one_statement() {
        for begin in ["C = relu(A", "dims {I: 4,", "C[I_{X = A", "C[I, J = A", "mesh {X: 4", "C = (A *"] {
            for next in ["D = E", "D[I, J] = E", "D: bf16[I]", "output D", "dims {J: 4}", "mesh {X: 2}"] {
                assert_eq!(cut(&format!("{begin}\n{next}\n")), [begin, next]);
            }
        }
        assert_eq!(cut("C = relu(A\nA[I] * B -> C"), ["C = relu(A", "A[I] * B -> C"]);
        assert_eq!(cut("C[I = A\nB * B"), ["C[I = A", "B * B"]);
        let spread = "C[I,\n J] = A\nD = E";
        let trouble: Vec<_> = pieces(spread).map(|piece| piece.trouble).collect();
        assert_eq!(trouble, [Some(Trouble::BracketSpansLines(1, 4)), None]);
    }

    #[test]
    fn depth_is_capped() {
        let deep = |n: usize| format!("A = {}B{}\nC = D", "(".repeat(n), ")".repeat(n));
        let trouble = |n| pieces(&deep(n)).map(|piece| piece.trouble).collect::<Vec<_>>();
        assert_eq!(trouble(64), [None, None]);
        assert_eq!(trouble(65), [Some(Trouble::TooDeep(4 + 64)), None]);
        assert_eq!(trouble(10_000), [Some(Trouble::TooDeep(4 + 64)), None]);
    }
}
