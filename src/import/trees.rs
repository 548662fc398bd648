//! MLIR text as trees of tokens: words, values, strings, signs, and groups in brackets.
//!
//! Every operation of every dialect is read in this one form, pretty or generic. The reader keeps its own stack, so
//! nesting costs no recursion here, and is bounded for those who walk the trees.

use super::ImportError;
use crate::span::Span;

/// Deepest nesting of brackets that is read.
const MOST_NESTED: usize = 128;

/// Kinds of brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bracket {
    Round,
    Square,
    Curly,
    Angle,
}

/// A token, or a group of them.
#[derive(Clone, Debug)]
pub(super) enum Kind<'a> {
    /// `stablehlo.add`, `8x32xi32`, `@main`, `#loc3`, `-1.5e+00`
    Word(&'a str),
    /// `%7#10` without the `%`
    Value(&'a str),
    /// A string without its quotes; escapes stay as they are.
    Text(&'a str),
    /// `->`, `=`, `:`, `,` and other signs
    Sign(&'a str),
    /// The content of `dense<..>`, which is read when it is needed.
    Dense(&'a str),
    /// `(..)`, `[..]`, `{..}`, `<..>`
    Group(Bracket, Vec<Tree<'a>>),
}

/// A token or group with its place.
#[derive(Clone, Debug)]
pub(super) struct Tree<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) span: Span,
    /// Whether nothing but blanks stands before it on its line.
    pub(super) is_first: bool,
}

impl<'a> Tree<'a> {
    /// The word, if it is one.
    pub(super) fn word(&self) -> Option<&'a str> {
        if let Kind::Word(word) = self.kind { Some(word) } else { None }
    }

    /// The string, if it is one.
    pub(super) fn text(&self) -> Option<&'a str> {
        if let Kind::Text(text) = self.kind { Some(text) } else { None }
    }

    /// What stands in the brackets, if it is a group of this kind.
    pub(super) fn group(&self, bracket: Bracket) -> Option<&[Tree<'a>]> {
        match &self.kind {
            Kind::Group(kind, trees) if *kind == bracket => Some(trees),
            _ => None,
        }
    }

    /// What stands in the brackets of any kind.
    pub(super) fn inside(&self) -> &[Tree<'a>] {
        if let Kind::Group(_, trees) = &self.kind { trees } else { &[] }
    }

    /// Whether it is this sign.
    pub(super) fn is_sign(&self, sign: &str) -> bool {
        matches!(self.kind, Kind::Sign(found) if found == sign)
    }
}

/// The parts of `trees` between commas.
pub(super) fn items<'t, 'a>(trees: &'t [Tree<'a>]) -> impl Iterator<Item = &'t [Tree<'a>]> {
    trees.split(|tree| tree.is_sign(",")).filter(|item| !item.is_empty())
}

/// Reads a whole text.
pub(super) fn read(text: &str) -> Result<Vec<Tree<'_>>, ImportError> {
    let mut reader = Reader { text, at: 0, is_first: true };
    let mut open: Vec<(Bracket, usize, bool, Vec<Tree<'_>>)> = Vec::new();
    let mut trees = Vec::new();
    loop {
        reader.skip_blanks();
        let (start, is_first) = (reader.at, reader.is_first);
        let Some(byte) = reader.peek(0) else { break };
        reader.is_first = false;
        let opened = match byte {
            b'(' => Some(Bracket::Round),
            b'[' => Some(Bracket::Square),
            b'{' => Some(Bracket::Curly),
            b'<' => Some(Bracket::Angle),
            _ => None,
        };
        if let Some(bracket) = opened {
            if open.len() >= MOST_NESTED {
                return Err(reader.unreadable(start, format!("brackets are nested deeper than {MOST_NESTED}")));
            }
            reader.at += 1;
            open.push((bracket, start, is_first, std::mem::take(&mut trees)));
            continue;
        }
        let closed = match byte {
            b')' => Some(Bracket::Round),
            b']' => Some(Bracket::Square),
            b'}' => Some(Bracket::Curly),
            b'>' => Some(Bracket::Angle),
            _ => None,
        };
        if let Some(bracket) = closed {
            reader.at += 1;
            match open.pop() {
                Some((opened, start, is_first, outer)) if opened == bracket => {
                    let inside = std::mem::replace(&mut trees, outer);
                    let span = Span::new(start, reader.at);
                    trees.push(Tree { kind: Kind::Group(bracket, inside), span, is_first });
                }
                _ => return Err(reader.unreadable(start, "this bracket closes nothing".to_owned())),
            }
            continue;
        }
        let kind = reader.token()?;
        trees.push(Tree { kind, span: Span::new(start, reader.at), is_first });
        // The elements of a constant may be many, and few are ever looked at.
        if matches!(trees.last(), Some(Tree { kind: Kind::Word("dense" | "dense_resource"), .. }))
            && reader.peek(0) == Some(b'<')
        {
            let start = reader.at;
            let kind = reader.dense()?;
            trees.push(Tree { kind, span: Span::new(start, reader.at), is_first: false });
        }
    }
    match open.pop() {
        None => Ok(trees),
        Some((_, start, ..)) => Err(reader.unreadable(start, "this bracket is never closed".to_owned())),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    is_first: bool,
}

impl<'a> Reader<'a> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn unreadable(&self, start: usize, why: String) -> ImportError {
        let mut end = (start + 1).min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        ImportError::Unreadable { why, at: Span::new(start.min(end), end) }
    }

    /// Blanks and comments, `// ..`.
    fn skip_blanks(&mut self) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\n' => {
                    self.is_first = true;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'/' if self.peek(1) == Some(b'/') => self.skip_while(|byte| byte != b'\n'),
                _ => break,
            }
        }
    }

    fn skip_while(&mut self, goes_on: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&goes_on) {
            self.at += 1;
        }
    }

    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn token(&mut self) -> Result<Kind<'a>, ImportError> {
        let start = self.at;
        let is_number = |byte: u8| byte.is_ascii_digit();
        Ok(match self.peek(0).unwrap_or_default() {
            b'"' => Kind::Text(self.string()?),
            b'%' => {
                self.at += 1;
                self.skip_while(|byte| byte.is_ascii_alphanumeric() || b"_$.#-".contains(&byte));
                Kind::Value(self.since(start + 1))
            }
            b'@' if self.peek(1) == Some(b'"') => {
                self.at += 1;
                self.string()?;
                Kind::Word(self.since(start))
            }
            b'-' if self.peek(1) == Some(b'>') => {
                self.at += 2;
                Kind::Sign("->")
            }
            byte if is_number(byte) || byte == b'-' && self.peek(1).is_some_and(is_number) => {
                self.number();
                Kind::Word(self.since(start))
            }
            byte if is_letter(byte) => {
                self.skip_while(|byte| is_letter(byte) || byte.is_ascii_digit());
                Kind::Word(self.since(start))
            }
            byte if byte.is_ascii_graphic() => {
                self.at += 1;
                Kind::Sign(self.since(start))
            }
            _ => return Err(self.unreadable(start, "this character has no meaning here".to_owned())),
        })
    }

    /// `8x32xi32`, `0xFF800000`, `-9.5e-7`
    fn number(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek(0) {
            let is_exponent = || self.text.as_bytes().get(self.at - 1).is_some_and(|byte| b"eE".contains(byte));
            if byte.is_ascii_alphanumeric() || b"._?".contains(&byte) || b"+-".contains(&byte) && is_exponent() {
                self.at += 1;
            } else {
                break;
            }
        }
    }

    /// The text between quotes, of which the first is here.
    fn string(&mut self) -> Result<&'a str, ImportError> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek(0) {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
                None => {
                    self.at = self.text.len();
                    return Err(self.unreadable(start, "this string never ends".to_owned()));
                }
            }
        }
        self.at += 1;
        Ok(self.text.get(start + 1..self.at - 1).unwrap_or_default())
    }

    /// The content of `<..>`, of which the first bracket is here.
    fn dense(&mut self) -> Result<Kind<'a>, ImportError> {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'"' => {
                    self.string()?;
                }
                b'>' => {
                    self.at += 1;
                    return Ok(Kind::Dense(self.text.get(start + 1..self.at - 1).unwrap_or_default()));
                }
                _ => self.at += 1,
            }
        }
        Err(self.unreadable(start, "this constant never ends".to_owned()))
    }
}

/// What words are made of; types and attributes begin with `!` and `#`, blocks with `^`.
fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || b"_.$@!#^?".contains(&byte)
}
