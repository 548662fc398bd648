//! Conversion of grammar errors: what was expected, and where.

use super::error::SyntaxError;
use super::foreign;
use super::grammar::Rule;
use super::known::{Known, pieces};
use super::latex::unwrapped;
use super::slips::corrected;
use super::split::is_blank;
use crate::dtype::DType;
use crate::span::Span;
use itertools::Itertools;
use pest::error::{Error, ErrorVariant, InputLocation};
use std::ops::Range;

/// Most alternatives that an error lists.
const MOST_EXPECTED: usize = 4;

/// Help for a misplaced `donated`.
pub(super) const ONLY_INPUTS_ARE_DONATED: &str = "only an input can be donated: `A: bf16[I, J] donated`";

/// Converts pest's error for the statement `text`, which begins at byte `start` of the source.
pub(super) fn explain(
    error: &Error<Rule>,
    text: &str,
    known: Known<'_>,
    start: usize,
    parses: fn(&str) -> bool,
) -> SyntaxError {
    let at = match error.location {
        InputLocation::Pos(at) | InputLocation::Span((at, _)) => at.min(text.len()),
    };
    let rules = match &error.variant {
        ErrorVariant::ParsingError { positives, .. } => positives.as_slice(),
        // pest ran out of stack: the limit on nesting is far below that.
        ErrorVariant::CustomError { .. } => return SyntaxError::too_deep(Span::new(start + at, start + at)),
    };
    // A kernel may be called as a function of another system.
    let is_declaration = text.starts_with("kernel ");
    if let Some(foreign) = foreign::recognise(text, known, parses).filter(|_| !is_declaration) {
        return foreign.error(text, start);
    }
    let at = after_blanks(text, at);
    let expected = words(rules);
    let found = token(&text[at..]);
    let place = if found.is_empty() { last_char(text) } else { (at, at + found.len()) };
    let place = Span::new(start + place.0, start + place.1).into();
    let slip = corrected(text, at, parses);
    let line = slip.as_ref().map(|slip| format!("write `{}`", slip.line));
    let help = line.or_else(|| help(text, at, found));
    let help = help.or_else(|| general(text, at));
    if let Some((bracket, opened)) = unclosed(text, at) {
        let opened = Span::new(start + opened, start + opened + 1).into();
        return SyntaxError::Unclosed { bracket, opened, expected, at: place, help };
    }
    if found.is_empty() {
        let last = text.rsplit(is_blank).next().filter(|last| last.chars().all(|c| c.is_ascii_punctuation()));
        return SyntaxError::UnexpectedEnd { last: last.unwrap_or_default().to_owned(), expected, at: place, help };
    }
    if let Some(slip) = slip {
        let (at, label) = change(text, &slip.line);
        let at = Span::new(start + at.start, start + at.end).into();
        return SyntaxError::Slip { title: slip.title.into_owned(), label, at, help: help.unwrap_or_default() };
    }
    if help.is_none()
        && let Some(foreign) = foreign::dotted(text, known, parses)
    {
        return foreign.error(text, start);
    }
    let stray = found.chars().next().and_then(opener_of);
    let help = help.or_else(|| stray.map(|_| format!("unmatched `{found}`; remove it")));
    SyntaxError::UnexpectedText { found: found.to_owned(), expected, at: place, help }
}

/// Where a corrected line differs from a statement, and what is expected there.
fn change(text: &str, line: &str) -> (Range<usize>, String) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let alike = text.chars().zip(line.chars()).take_while(|(old, new)| old == new);
    let mut begin: usize = alike.map(|(c, _)| c.len_utf8()).sum();
    let is_boundary = |begin: usize| {
        [text, line].iter().any(|side| side[..begin].ends_with(is_part) && side[begin..].starts_with(is_part))
    };
    while begin > 0 && is_boundary(begin) {
        begin = text[..begin].trim_end_matches(is_part).len();
    }
    let (old, new) = (&text[begin..], &line[begin..]);
    let alike = old.chars().rev().zip(new.chars().rev()).take_while(|(old, new)| old == new);
    let mut behind: usize = alike.map(|(c, _)| c.len_utf8()).sum();
    let is_boundary = |behind: usize| {
        [old, new].iter().any(|side| {
            let (before, tail) = side.split_at(side.len() - behind);
            before.ends_with(is_part) && tail.starts_with(is_part)
        })
    };
    while behind > 0 && is_boundary(behind) {
        let tail = &old[old.len() - behind..];
        behind = tail.trim_start_matches(is_part).len();
    }
    let [old, new] = [old, new].map(|side| &side[..side.len() - behind]);
    match (old.trim(), new.trim()) {
        ("", new) => {
            let place = after_blanks(text, begin + old.len());
            let next = place..place + token(&text[place..]).len();
            let last = last_char(text);
            if next.is_empty() {
                (last.0..last.1, format!("expected `{new}` after this"))
            } else {
                (next, format!("expected `{new}` before this"))
            }
        }
        (old, "") => (
            begin + text[begin..].find(old).unwrap_or(0)..begin + text[begin..].find(old).unwrap_or(0) + old.len(),
            "remove this".to_owned(),
        ),
        (old, new) => {
            let at = begin + text[begin..].find(old).unwrap_or(0);
            (at..at + old.len(), format!("expected `{new}`"))
        }
    }
}

/// Skips blanks and comments that pest left before the unexpected text.
fn after_blanks(text: &str, mut at: usize) -> usize {
    loop {
        at += text[at..].len() - text[at..].trim_start_matches(is_blank).len();
        if !text[at..].starts_with('#') {
            return at;
        }
        at = text[at..].find('\n').map_or(text.len(), |end| at + end);
    }
}

/// The first token of a text, at most 40 characters.
fn token(text: &str) -> &str {
    let arrows = ["->", "\\rightarrow", "\\longrightarrow", "\\to", "\\cdot", "\\odot", ".*"];
    if let Some(arrow) = arrows.into_iter().find(|arrow| text.starts_with(arrow)) {
        return &text[..arrow.len()];
    }
    let word = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    match text.chars().next() {
        Some(c) if word == 0 => &text[..c.len_utf8()],
        _ => &text[..word.min(40)],
    }
}

fn last_char(text: &str) -> (usize, usize) {
    let (at, c) = text.char_indices().next_back().unwrap_or((0, ' '));
    (at, at + c.len_utf8())
}

/// The innermost bracket open at `at` that is never closed.
fn unclosed(text: &str, at: usize) -> Option<(char, usize)> {
    let mut open: Vec<(char, usize)> = Vec::new();
    let mut open_at_error = None;
    for (place, c) in text.char_indices() {
        if place >= at && open_at_error.is_none() {
            open_at_error = Some(*open.last()?);
            if opener_of(c).is_some_and(|opener| open.iter().all(|(open, _)| *open != opener)) {
                // An unmatched closer is one too many, not one too few.
                return None;
            }
        }
        if matches!(c, '(' | '[' | '{') {
            open.push((c, place));
        }
        let Some(opener) = opener_of(c) else { continue };
        if let Some(found) = open.iter().rposition(|(c, _)| *c == opener) {
            open.truncate(found);
        }
    }
    let innermost = open_at_error.or(open.last().copied())?;
    // A closer of another kind counts as not closing: `A[I, J) * B]`.
    let next_closer = text[at..].chars().find(|c| matches!(c, ')' | ']' | '}'));
    let closer = match innermost.0 {
        '(' => ')',
        '[' => ']',
        _ => '}',
    };
    (open.contains(&innermost) || next_closer != Some(closer) && text[at..].starts_with([')', ']', '}']))
        .then_some(innermost)
}

/// The opener of a closing bracket.
fn opener_of(closer: char) -> Option<char> {
    match closer {
        ')' => Some('('),
        ']' => Some('['),
        '}' => Some('{'),
        _ => None,
    }
}

fn help(text: &str, at: usize, found: &str) -> Option<String> {
    if is_partition_spec(text, at) {
        return Some("axes follow their dims: `[I_X, J]` for `P('X', None)`".to_owned());
    }
    if is_latex(text, at) {
        return Some("LaTeX input needs `--lenient`".to_owned());
    }
    if at == 0
        && ["*", ".*", "⊙", "\\odot", "·", "⋅", "•", "∙", "@", "+", "/", "->", "→", "⟶", "\\to", "\\cdot"]
            .contains(&found)
    {
        return Some(format!("a statement continues on the next line only if the line ends with `{found}`"));
    }
    if let Some(moves) = expected_moves(text, at) {
        return Some(format!("write the collectives in brackets: `[{moves}]`"));
    }
    match found {
        "<" | ">" | "=" if text[..at].trim_end_matches(['<', '>', '=', '!']).contains(['<', '>']) => {
            Some("write two comparisons as `and(0 < x, x < 1)`".to_owned())
        }
        "by" | "using" if at > 0 => Some("`by` and then `using` come at the end of the statement".to_owned()),
        _ if text[..at].trim_end().ends_with("pipeline(") => Some("write a number of pieces: `pipeline(8)`".to_owned()),
        "[" if text[..at].trim_end().ends_with([']', '}']) => Some(INDEXED.to_owned()),
        "donated" if at > 0 => Some(ONLY_INPUTS_ARE_DONATED.to_owned()),
        "=" if text[..at].ends_with('=') => Some("write a result with a single `=`".to_owned()),
        _ => None,
    }
}

/// Help without a line of its own, once no correction parses.
fn general(text: &str, at: usize) -> Option<String> {
    let open = text[..at].rfind('[').filter(|open| !text[*open..at].contains(']'))?;
    let close = text[at..].find(']').map_or(text.len(), |close| at + close);
    let items = pieces(&text[open + 1..close]);
    let is_place = |item: &&str| {
        item.contains(':') || *item == "None" || item.starts_with('-') || item.bytes().all(|c| c.is_ascii_digit())
    };
    let head = text[..open].trim_end();
    let name = &head[head.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len()..];
    if text[..open].contains(':') && name.parse::<DType>().is_ok() {
        return Some("dims are names, with their axes after `_`: `[I_X, J]`".to_owned());
    }
    (!name.is_empty() && items.iter().any(is_place)).then(|| INDEXED.to_owned())
}

/// Brackets hold a layout, and functions pick elements.
pub(crate) const INDEXED: &str =
    "brackets hold a layout; `take_S(x, 0)` takes one index along `S`, `slice_{S->T}(x, 0)` a dim `T` of several";

/// The collectives of `expect collectives C = AllGather_X`, without their brackets.
fn expected_moves(text: &str, at: usize) -> Option<&str> {
    let is_list = text.starts_with("expect collectives") && text[..at].trim_end().ends_with('=');
    let moves = text[at..].split('#').next().unwrap_or_default().trim();
    (is_list && moves.starts_with(|letter: char| letter.is_ascii_alphabetic())).then_some(moves)
}

/// Whether JAX's `P('X', None)` starts at `at`.
fn is_partition_spec(text: &str, at: usize) -> bool {
    ["P(", "PartitionSpec("].iter().any(|call| {
        let start = text.find(call).filter(|start| !text[..*start].ends_with(|c: char| c.is_ascii_alphanumeric()));
        start.is_some_and(|start| (start..=start + call.len()).contains(&at))
    })
}

/// Whether a LaTeX wrapper known to lenient parsing starts at `at`.
fn is_latex(text: &str, at: usize) -> bool {
    let rest = &text[at..];
    rest.starts_with(['$', '\\']) && !unwrapped(rest).starts_with('\\')
}

/// The expected alternatives: a few, the likeliest first, the end of the statement last.
fn words(rules: &[Rule]) -> String {
    let mut ranked: Vec<(u8, &str)> = rules.iter().map(|rule| name(*rule)).collect();
    ranked.sort_unstable();
    let mut names: Vec<&str> = ranked.into_iter().map(|(_, name)| name).unique().take(MOST_EXPECTED).collect();
    names.sort_by_key(|name| *name == END);
    match names.as_slice() {
        [] => "something else".to_owned(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// The end of a statement.
const END: &str = "the end of the statement";

/// The display name of a rule, after its rank in a list of several.
fn name(rule: Rule) -> (u8, &'static str) {
    match rule {
        Rule::expr
        | Rule::sum
        | Rule::term
        | Rule::factor
        | Rule::exponent
        | Rule::named
        | Rule::collective
        | Rule::function => (0, "an array"),
        Rule::operand | Rule::array_name | Rule::kind | Rule::collective_head | Rule::target => (0, "an array"),
        Rule::number | Rule::lost_collective | Rule::lost_head | Rule::collective_word => (0, "an array"),
        Rule::array_statement => (0, "a statement"),
        Rule::mesh_statement | Rule::mesh_word => (0, "`mesh`"),
        Rule::mesh_call | Rule::mesh_maker | Rule::mesh_variable => (0, "`mesh`"),
        Rule::mesh_shape | Rule::shape_key | Rule::grid => (1, "sizes such as `(4, 2)`"),
        Rule::axis_names | Rule::names_key => (1, "names such as `('X', 'Y')`"),
        Rule::axis_statement | Rule::axis_keyword => (0, "`axis`"),
        Rule::dims_statement | Rule::dims_word => (0, "`dims`"),
        Rule::output_statement | Rule::output_word => (0, "`output`"),
        Rule::expect_statement | Rule::expect_word => (0, "`expect`"),
        Rule::repeat_statement | Rule::repeat_word => (0, "`repeat`"),
        Rule::def_statement | Rule::def_word => (0, "`def`"),
        Rule::kernel_statement | Rule::kernel_word => (0, "`kernel`"),
        Rule::kernel_fact | Rule::shard_word | Rule::cost_word | Rule::reference_word => {
            (2, "`shard`, `flops`, `bytes` or `reference`")
        }
        Rule::fact_dim => (1, "a dim"),
        Rule::parameter => (1, "a parameter such as `x[B, D]`"),
        Rule::return_statement | Rule::return_word => (0, "`return`"),
        Rule::link_statement | Rule::link_word => (0, "`link`"),
        Rule::ends | Rule::place => (1, "a device such as `(0,1)`"),
        Rule::both_ways => (4, "`<->`"),
        Rule::down => (1, "`down`"),
        Rule::at_word => (1, "`at`"),
        Rule::share | Rule::percent => (1, "a number of hundredths"),
        Rule::percent_sign => (3, "`%`"),
        Rule::limit_statement | Rule::limit_word => (0, "`limit`"),
        Rule::no_communication | Rule::no_word => (2, "`no communication`"),
        Rule::communication => (2, "`communication`"),
        Rule::expect_collectives | Rule::collectives_word => (2, "`collectives`"),
        Rule::named_move | Rule::move_word => (1, "a collective"),
        Rule::expect_bound | Rule::measure => (1, "`time`, `memory`, `communication`, `flops`"),
        Rule::less => (3, "`<` or `<=`"),
        Rule::amount | Rule::quantity => (1, "an amount"),
        Rule::unit => (1, "a unit"),
        Rule::dim | Rule::dim_name | Rule::size | Rule::literal | Rule::literal_power | Rule::literal_atom => {
            (1, "a dim")
        }
        Rule::axes | Rule::axis_word => (1, "axes"),
        Rule::axis => (1, "an axis with its size"),
        Rule::part => (1, "a part with its size"),
        Rule::parts => (1, "dims and `*` between them"),
        Rule::dim_size => (1, "a dim with its size"),
        Rule::declared | Rule::quoted | Rule::bare => (1, "a name"),
        Rule::item => (1, "a dim or an axis"),
        Rule::operator | Rule::open_word | Rule::lost_word => (1, "an operator and its axes, as in `{U_X}`"),
        Rule::integer | Rule::count | Rule::size_sum | Rule::size_product | Rule::size_power | Rule::size_atom => {
            (1, "a size")
        }
        Rule::size_plus | Rule::size_times => (8, "an operator"),
        Rule::by_sign => (8, "`x`"),
        Rule::wiring => (5, "a wiring"),
        Rule::over | Rule::over_word => (8, "`over`"),
        Rule::network => (1, "the name of a network"),
        Rule::hardware => (1, "the name of a hardware"),
        Rule::ellipsis => (1, "a dim"),
        Rule::method => (1, "the name of a method"),
        Rule::dtype => (1, "a dtype"),
        Rule::product_sign
        | Rule::sum_sign
        | Rule::star
        | Rule::dot_star
        | Rule::slash
        | Rule::minus
        | Rule::power
        | Rule::relation => (2, "an operator"),
        Rule::comma => (3, "`,`"),
        Rule::close_paren => (3, "`)`"),
        Rule::close_bracket => (3, "`]`"),
        Rule::close_brace => (3, "`}`"),
        Rule::equals | Rule::value => (4, "`=`"),
        Rule::arrow | Rule::result => (4, "`->`"),
        Rule::hole => (5, "`?`"),
        Rule::free => (8, "`_?`"),
        Rule::colon | Rule::typing => (6, "`:`"),
        Rule::open_bracket | Rule::brackets => (6, "`[`"),
        Rule::open_paren | Rule::group | Rule::arguments => (7, "`(`"),
        Rule::open_brace
        | Rule::open_sum
        | Rule::items
        | Rule::lost_items
        | Rule::axis_block
        | Rule::dim_block
        | Rule::part_block => (7, "`{`"),
        Rule::on | Rule::on_word => (8, "`on`"),
        Rule::donated => (8, "`donated`"),
        Rule::by | Rule::by_word => (8, "`by`"),
        Rule::strategy => (1, "`gather`, `reduce` or `slice`"),
        Rule::pinned => (7, "`(`"),
        Rule::using | Rule::using_word => (8, "`using`"),
        Rule::pipeline | Rule::pipeline_word => (8, "`pipeline`"),
        Rule::EOI => (5, END),
        Rule::hardware_word
        | Rule::WHITESPACE
        | Rule::COMMENT
        | Rule::more
        | Rule::prime
        | Rule::quote
        | Rule::letter => (9, "a blank"),
    }
}
