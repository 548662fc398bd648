//! Sets the tokens of a statement on lines: the author's lines with canonical blanks.

use super::split::is_blank;

/// Indentation of a continuation line, per open bracket.
pub(super) const INDENT: usize = 4;

/// A token of a statement.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) text: String,
    /// The comments before it.
    pub(super) comments: Vec<Comment>,
    /// The newlines between the last comment, or the previous token, and this one.
    pub(super) newlines: usize,
}

/// A comment, from its `#` on.
#[derive(Clone, Debug)]
pub(super) struct Comment {
    pub(super) text: String,
    /// The newlines before it.
    pub(super) newlines: usize,
}

/// The spacing role of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, a number or a keyword.
    Word,
    /// The name of an input.
    Input,
    /// Brackets, `[I_X, J]{U_Y}`.
    Brackets,
    /// `*`, `+`, `=`, `->`: surrounded by blanks; a line may end after it.
    Sign,
    /// A unary minus.
    Minus,
    /// `,`
    Comma,
    /// `:`
    Colon,
    /// `(`
    Open,
    /// `)`
    Close,
    /// `{` of a mesh or of dims.
    OpenBlock,
    /// `}` of a mesh or of dims.
    CloseBlock,
}

/// The lines of a statement.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) text: String,
    /// The comments that found no place inside.
    pub(super) behind: Vec<Comment>,
    /// For an input, the length of its name and `:`.
    pub(super) name: Option<usize>,
}

impl Token {
    pub(super) fn new(kind: Kind, text: &str) -> Token {
        Token { kind, text: text.to_owned(), comments: Vec::new(), newlines: 0 }
    }

    /// Whether a line ends before it.
    fn begins_line(&self) -> bool {
        self.newlines > 0 || !self.comments.is_empty()
    }
}

/// A comment without trailing blanks.
pub(super) fn set_comment(text: &str) -> String {
    text.trim_end_matches(is_space).to_owned()
}

/// Sets a statement and the comments after its last token.
pub(super) fn set(mut tokens: Vec<Token>, last: Vec<Comment>) -> Set {
    let mut behind = settle(&mut tokens);
    behind.extend(last);
    set_blocks(&mut tokens);
    let name = match tokens.as_slice() {
        [name, colon, ..] if name.kind == Kind::Input => Some(name.text.len() + colon.text.len()),
        _ => None,
    };
    Set { text: print(&tokens), behind, name }
}

/// Sets a statement on one line, with all comments after it.
pub(super) fn set_on_one_line(mut tokens: Vec<Token>, last: Vec<Comment>) -> Set {
    let comments: Vec<Comment> = tokens.iter_mut().flat_map(|token| std::mem::take(&mut token.comments)).collect();
    tokens.iter_mut().for_each(|token| token.newlines = 0);
    set(tokens, comments.into_iter().chain(last).collect())
}

/// Moves comments forward to possible line ends and drops other newlines; returns the rest.
fn settle(tokens: &mut [Token]) -> Vec<Comment> {
    let mut waiting = Vec::new();
    let mut depth = 0usize;
    let mut previous = None;
    for token in tokens {
        if let Some(previous) = previous
            && may_break(previous, token.kind, depth)
        {
            waiting.append(&mut token.comments);
            token.comments = std::mem::take(&mut waiting);
            // An input is one line unless a comment parts it.
            token.newlines = if previous == Kind::Colon { 0 } else { token.newlines };
        } else {
            waiting.append(&mut token.comments);
            token.newlines = 0;
        }
        match token.kind {
            Kind::Open | Kind::OpenBlock => depth += 1,
            Kind::Close | Kind::CloseBlock => depth = depth.saturating_sub(1),
            Kind::Word | Kind::Input | Kind::Brackets | Kind::Sign | Kind::Minus | Kind::Comma | Kind::Colon => {}
        }
        previous = Some(token.kind);
    }
    waiting
}

/// Whether a line may end between two tokens: in brackets or after an operator, but not where they touch.
fn may_break(previous: Kind, next: Kind, depth: usize) -> bool {
    let asks_for_more = matches!(previous, Kind::Sign | Kind::Comma | Kind::Colon);
    let touch = !blank_between(previous, next)
        && !matches!(previous, Kind::Open | Kind::OpenBlock)
        && !matches!(next, Kind::Close | Kind::CloseBlock);
    (depth > 0 || asks_for_more) && !touch
}

/// Whether a blank separates two tokens.
fn blank_between(previous: Kind, next: Kind) -> bool {
    match next {
        Kind::Comma | Kind::Colon | Kind::Close | Kind::CloseBlock => false,
        _ if matches!(previous, Kind::Open | Kind::OpenBlock | Kind::Minus) => false,
        Kind::Open | Kind::Brackets => !matches!(previous, Kind::Word | Kind::Input),
        Kind::Word | Kind::Input | Kind::Sign | Kind::Minus | Kind::OpenBlock => true,
    }
}

/// A multi-line block has its braces on lines of their own and a trailing comma; a one-line block has none.
fn set_blocks(tokens: &mut Vec<Token>) {
    let Some(open) = tokens.iter().position(|token| token.kind == Kind::OpenBlock) else { return };
    let Some(close) = tokens.iter().position(|token| token.kind == Kind::CloseBlock) else { return };
    let lines = tokens[open + 1..=close].iter().any(Token::begins_line);
    let comments = tokens[open + 1..=close].iter().any(|token| !token.comments.is_empty());
    let empty = close == open + 1;
    let comma = tokens[close - 1].kind == Kind::Comma;
    if lines && (comments || !empty) {
        tokens[open + 1].newlines = tokens[open + 1].newlines.max(1);
        tokens[close].newlines = 1;
        if !comma && !empty {
            tokens.insert(close, Token::new(Kind::Comma, ","));
        }
    } else {
        tokens[close].newlines = 0;
        if comma {
            tokens.remove(close - 1);
        }
    }
}

/// The statement as text.
fn print(tokens: &[Token]) -> String {
    let mut out = String::new();
    let mut depth = 0usize;
    let mut block = false;
    let mut previous = None;
    for token in tokens {
        let closes = matches!(token.kind, Kind::Close | Kind::CloseBlock);
        let own = if closes { depth.saturating_sub(1) } else { depth.max(1) };
        // Empty lines part the entries of a block; they do not stand next to its braces.
        let after_open = previous == Some(Kind::OpenBlock);
        let apart = |newlines: usize, first: bool| block && newlines > 1 && !(first && after_open);
        for (place, comment) in token.comments.iter().enumerate() {
            if place == 0 && comment.newlines == 0 {
                out.push_str("  ");
            } else {
                new_line(&mut out, apart(comment.newlines, place == 0), depth.max(1));
            }
            out.push_str(&set_comment(&comment.text));
        }
        if token.begins_line() {
            new_line(&mut out, apart(token.newlines, token.comments.is_empty()) && !closes, own);
        } else if previous.is_some_and(|previous| blank_between(previous, token.kind)) {
            out.push(' ');
        }
        out.push_str(&token.text);
        match token.kind {
            Kind::Open | Kind::OpenBlock => depth += 1,
            Kind::Close | Kind::CloseBlock => depth = depth.saturating_sub(1),
            Kind::Word | Kind::Input | Kind::Brackets | Kind::Sign | Kind::Minus | Kind::Comma | Kind::Colon => {}
        }
        block = token.kind == Kind::OpenBlock || block && token.kind != Kind::CloseBlock;
        previous = Some(token.kind);
    }
    out
}

fn new_line(out: &mut String, apart: bool, depth: usize) {
    out.push_str(if apart { "\n\n" } else { "\n" });
    out.extend(std::iter::repeat_n(' ', INDENT * depth));
}

/// Whether a character is a blank, newlines excluded.
pub(super) fn is_space(c: char) -> bool {
    is_blank(c) && c != '\n'
}
