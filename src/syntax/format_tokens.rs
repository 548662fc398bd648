//! The tokens of one statement in canonical style, each with the comments and newlines before it.
//!
//! The grammar's match determines the token. Subscripts, open sums and the contents of `[..]` are single tokens: no line
//! ends inside them.

use super::build::Builder;
use super::format_lines::{Comment, Kind, Token};
use super::grammar::Rule;
use crate::dtype::DType;
use crate::function::Relation;
use itertools::Itertools;
use pest::iterators::Pair;

/// The tokens of a statement that the grammar matched in `text`, and the comments after the last of them.
pub(super) fn tokens(pair: Pair<'_, Rule>, text: &str) -> (Vec<Token>, Vec<Comment>) {
    let mut walk = Walk { text, at: 0, comments: Vec::new(), newlines: 0, tokens: Vec::new() };
    let input = pair.as_rule() == Rule::array_statement && is_input(&pair);
    walk.take(pair);
    walk.between(walk.at, text.len());
    if input && let Some(first) = walk.tokens.first_mut().filter(|first| first.kind == Kind::Word) {
        first.kind = Kind::Input;
    }
    (walk.tokens, walk.comments)
}

/// `A: bf16[I]`: a dtype without a value.
fn is_input(pair: &Pair<'_, Rule>) -> bool {
    let parts: Vec<Rule> = pair.clone().into_inner().map(|part| part.as_rule()).collect();
    parts.contains(&Rule::typing) && !parts.contains(&Rule::value)
}

/// A walk over the grammar's matches in text order.
struct Walk<'a> {
    text: &'a str,
    /// The end of the last token.
    at: usize,
    /// The comments since then.
    comments: Vec<Comment>,
    /// The newlines since the last of them.
    newlines: usize,
    tokens: Vec<Token>,
}

impl Walk<'_> {
    fn take(&mut self, pair: Pair<'_, Rule>) {
        match pair.as_rule() {
            Rule::EOI => {}
            // `Mesh({'X': 4})` has parentheses that say nothing.
            Rule::mesh_statement => {
                let said = |part: &Pair<'_, Rule>| !matches!(part.as_rule(), Rule::open_paren | Rule::close_paren);
                if pair.clone().into_inner().next().is_some_and(|first| first.as_rule() == Rule::axis_block) {
                    self.tokens.push(Token::new(Kind::Word, "mesh"));
                }
                pair.into_inner().filter(said).for_each(|part| self.take(part));
            }
            Rule::mesh_call => self.word(&pair, Kind::Word, mesh_call(pair.clone())),
            Rule::brackets => self.word(&pair, Kind::Brackets, brackets(pair.clone())),
            // A number and its unit are one word, and so are a size and the ends of a link.
            Rule::amount | Rule::size_sum | Rule::parts | Rule::ends | Rule::share => {
                self.word(&pair, Kind::Word, joined(pair.clone()))
            }
            Rule::product_sign => self.word(&pair, Kind::Sign, product_sign(pair.clone())),
            Rule::named_move => self.word(&pair, Kind::Word, head(pair.clone())),
            Rule::collective => self.collective(pair),
            Rule::function => self.word(&pair, Kind::Word, function(pair.clone())),
            Rule::named | Rule::target | Rule::operand => self.array(pair),
            Rule::minus => self.word(&pair, Kind::Minus, "-".to_owned()),
            _ => {
                let mut parts = pair.clone().into_inner().peekable();
                if parts.peek().is_none() {
                    let (kind, text) = leaf(&pair);
                    return self.word(&pair, kind, text);
                }
                parts.for_each(|part| self.take(part));
            }
        }
    }

    /// Rewrites `AllReduce_Y A` and `AllReduce_Y : A` to `AllReduce_Y(A)`.
    fn collective(&mut self, pair: Pair<'_, Rule>) {
        for part in pair.into_inner() {
            match part.as_rule() {
                Rule::collective_head => self.word(&part, Kind::Word, head(part.clone())),
                Rule::operand => {
                    self.tokens.push(Token::new(Kind::Open, "("));
                    self.take(part);
                    self.tokens.push(Token::new(Kind::Close, ")"));
                }
                Rule::colon => {}
                _ => self.take(part),
            }
        }
    }

    /// A name or a dtype, and what follows it.
    fn array(&mut self, pair: Pair<'_, Rule>) {
        let mut parts = pair.into_inner().peekable();
        while let Some(part) = parts.next() {
            let brackets = parts.peek().is_some_and(|next| next.as_rule() == Rule::brackets);
            if part.as_rule() == Rule::array_name && brackets {
                self.word(&part, Kind::Word, dtype(&name(&part)));
            } else {
                self.take(part);
            }
        }
    }

    /// Adds a token with the text between it and the previous one.
    fn word(&mut self, pair: &Pair<'_, Rule>, kind: Kind, text: String) {
        let span = pair.as_span();
        self.between(self.at, span.start());
        let mut token = Token { kind, text, comments: std::mem::take(&mut self.comments), newlines: self.newlines };
        token.newlines = std::mem::take(&mut self.newlines);
        self.tokens.push(token);
        self.at = span.end();
        // Comments inside the word move behind it.
        if self.text[span.start()..span.end()].contains('#') {
            self.between(span.start(), span.end());
        }
    }

    /// Collects comments and newlines.
    fn between(&mut self, from: usize, to: usize) {
        let mut rest = &self.text[from..to];
        while let Some(at) = rest.find(['#', '\n']) {
            if rest[at..].starts_with('\n') {
                self.newlines += 1;
                rest = &rest[at + 1..];
            } else {
                let end = rest[at..].find('\n').map_or(rest.len(), |length| at + length);
                let newlines = std::mem::take(&mut self.newlines);
                self.comments.push(Comment { text: rest[at..end].to_owned(), newlines });
                rest = &rest[end..];
            }
        }
    }
}

/// `mesh {X: 4, Y: 2}` for a call of JAX.
fn mesh_call(pair: Pair<'_, Rule>) -> String {
    let axes = Builder::new(0, false).mesh_call(pair);
    let axes = axes.expect("what is formatted has been read");
    format!("mesh {{{}}}", axes.iter().map(|axis| format!("{}: {}", axis.name.node, axis.size)).format(", "))
}

/// A token that the grammar does not divide.
fn leaf(pair: &Pair<'_, Rule>) -> (Kind, String) {
    match pair.as_rule() {
        Rule::arrow => (Kind::Sign, "->".to_owned()),
        Rule::star => (Kind::Sign, "*".to_owned()),
        Rule::dot_star => (Kind::Sign, ".*".to_owned()),
        Rule::relation => (Kind::Sign, Relation::from_sign(pair.as_str()).map_or("", Relation::sign).to_owned()),
        Rule::equals | Rule::sum_sign | Rule::slash | Rule::power => (Kind::Sign, pair.as_str().to_owned()),
        Rule::comma => (Kind::Comma, ",".to_owned()),
        Rule::colon => (Kind::Colon, ":".to_owned()),
        // Brackets of dims are one word; these are around a list of collectives.
        Rule::open_bracket => (Kind::Open, "[".to_owned()),
        Rule::close_bracket => (Kind::Close, "]".to_owned()),
        Rule::open_paren => (Kind::Open, "(".to_owned()),
        Rule::open_brace => (Kind::OpenBlock, "{".to_owned()),
        Rule::close_paren => (Kind::Close, ")".to_owned()),
        Rule::close_brace => (Kind::CloseBlock, "}".to_owned()),
        Rule::mesh_word => (Kind::Word, "mesh".to_owned()),
        Rule::dtype => (Kind::Word, dtype(pair.as_str())),
        _ => (Kind::Word, name(pair)),
    }
}

/// A name with straight primes.
fn name(pair: &Pair<'_, Rule>) -> String {
    pair.as_str().replace(['’', '′'], "'")
}

/// The short name of a dtype; other words are unchanged.
fn dtype(word: &str) -> String {
    word.parse::<DType>().map_or_else(|_| word.to_owned(), |dtype| dtype.to_string())
}

/// `[I_X, J]{U_Y}`, `[I]{ROOT_X=2}`, `[I, J]_?`
fn brackets(pair: Pair<'_, Rule>) -> String {
    let dims = pair.clone().into_inner().filter(|part| part.as_rule() == Rule::dim).map(dim);
    let rest = if pair.clone().into_inner().any(|part| part.as_rule() == Rule::ellipsis) { ", ..." } else { "" };
    let free = if pair.clone().into_inner().any(|part| part.as_rule() == Rule::free) { "_?" } else { "" };
    let text = format!("[{}{rest}]{free}", dims.format(", "));
    let open = pair.into_inner().find(|part| part.as_rule() == Rule::open_sum);
    let parts = open.into_iter().flat_map(Pair::into_inner);
    let sum = parts.filter_map(|part| match part.as_rule() {
        Rule::open_word => Some(dim(part)),
        Rule::integer => Some(format!("={}", part.as_str())),
        _ => None,
    });
    let sum = sum.collect::<String>();
    if sum.is_empty() { text } else { format!("{text}{{{sum}}}") }
}

/// `I_X`, `128`, `I_{data,model}`, `I_?`, and `U_X` likewise.
fn dim(pair: Pair<'_, Rule>) -> String {
    let mut parts = pair.into_inner();
    let word = parts.next().map(|word| if word.as_rule() == Rule::literal { joined(word) } else { name(&word) });
    let word = word.unwrap_or_default();
    let plain = word.chars().all(|c| c != '_');
    word + &parts.next().map(|part| subscript(part, plain)).unwrap_or_default()
}

/// `500us`, `128/(2*8)`, `K*M`: the tokens of a rule without blanks.
fn joined(pair: Pair<'_, Rule>) -> String {
    let mut parts = pair.clone().into_inner().peekable();
    match pair.as_rule() {
        Rule::size_times if pair.as_str() == "/" => "/".to_owned(),
        Rule::size_times | Rule::star => "*".to_owned(),
        Rule::arrow => "->".to_owned(),
        Rule::both_ways => "<->".to_owned(),
        _ if parts.peek().is_none() => name(&pair),
        _ => parts.map(joined).collect(),
    }
}

/// `*`, `*_J`, `*_{N,H}`, `.*`, `/`
fn product_sign(pair: Pair<'_, Rule>) -> String {
    let mut parts = pair.into_inner();
    let sign = match parts.next() {
        Some(sign) if sign.as_rule() == Rule::slash => "/",
        Some(sign) if sign.as_rule() == Rule::dot_star => ".*",
        _ => "*",
    };
    sign.to_owned() + &parts.next().map(|part| subscript(part, true)).unwrap_or_default()
}

/// `AllGather_X`, `ReduceScatter_{Y,J}`
fn head(pair: Pair<'_, Rule>) -> String {
    let mut parts = pair.into_inner();
    let word = parts.next().map(|word| name(&word)).unwrap_or_default();
    word + &parts.next().map(|part| subscript(part, true)).unwrap_or_default()
}

/// `sum_J`, `rename_{S->T}`; in `log_soft_{S}` the braces say where the name ends.
fn function(pair: Pair<'_, Rule>) -> String {
    let mut parts = pair.into_inner();
    let word = parts.next().map(|word| name(&word)).unwrap_or_default();
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric());
    word + &parts.next().map(|part| subscript(part, plain)).unwrap_or_default()
}

/// `_X`, `_?`, `_{X,J}`, `_{S->T}`; one word needs no braces where nothing else ends the name before it.
fn subscript(pair: Pair<'_, Rule>, bare: bool) -> String {
    if !matches!(pair.as_rule(), Rule::items | Rule::axes) {
        return format!("_{}", name(&pair));
    }
    let parts = pair.into_inner().filter(|part| !matches!(part.as_rule(), Rule::open_brace | Rule::close_brace));
    let words: Vec<String> = parts.map(|part| leaf(&part).1).collect();
    if bare && words.len() == 1 { format!("_{}", words[0]) } else { format!("_{{{}}}", words.concat()) }
}
