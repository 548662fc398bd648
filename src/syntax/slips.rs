//! Corrects slips of notation: each correction of a rejected statement is offered only if it parses.
//!
//! ```text
//! A: bf16[I/X, J]      A: bf16[I_X, J]
//! mesh X: 4, Y: 2      mesh {X: 4, Y: 2}
//! ```

use super::error::dtype_meant;
use super::known::{pieces, word_of};
use crate::dtype::DType;
use crate::function::Function;
use crate::operator::Operator;
use std::borrow::Cow;
use strsim::osa_distance;

/// Statements longer than this are not corrected.
const LONGEST: usize = 400;

/// The words that begin the facts of a declared kernel.
pub(super) const KERNEL_FACTS: [&str; 4] = ["shard", "flops", "bytes", "reference"];

/// A corrected statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slip {
    /// What is wrong.
    pub(super) title: Cow<'static, str>,
    pub(super) line: String,
}

/// A correction: what it corrects, and the corrected statement.
type Step = (&'static str, fn(&str) -> Option<String>);

/// The corrections, tried in this order, each on the result of those before it.
const STEPS: [Step; 27] = [
    ("a kernel is declared as `kernel f(x[B]) -> [B], shard B, flops 2*B`", kernel_facts),
    ("sizes are declared by `dims {..}`", tuple_of_sizes),
    ("axes and dims are declared in braces, with `:` before each size", block),
    ("the hardware is named without quotes", quoted_hardware),
    ("`on` precedes the hardware", hardware),
    ("unknown form of `expect` or `limit`", expectation),
    ("unsupported sign", decimal_signs),
    ("axes are written after `_`", subscripts),
    ("open sums are written in braces", bracketed_sum),
    ("axes are written after their dims", axes_apart),
    ("dtypes are written without a module", dtype_of_module),
    ("an array is declared as `A: bf16[I_X, J]`", dtype),
    ("the wrong bracket closes the dims", closer),
    ("only `donated` may follow the brackets", placement),
    ("results of `->` are written after it", arrow),
    ("results are assigned by `=`", walrus),
    ("dims are renamed by `->`", renamed),
    ("powers are written `**`", power),
    ("arrays are not updated in place", updated),
    ("open sums are written in braces", bare_sum),
    ("the operator and the axes of an open sum are joined by `_`", spaced_sum),
    ("axes of a collective are written after `_`", collective_brackets),
    ("a comma precedes the closing bracket", last_comma),
    ("a statement does not end with a comma", tail_comma),
    ("factors are joined by `*`", factors),
    ("a loop is written `repeat 4 {`", iterations),
    ("`by` precedes `using`", using_first),
];

/// The statement that was likely meant; the grammar rejects `text` at byte `at`.
///
/// - `parses`: whether the grammar accepts a statement.
pub(super) fn corrected(text: &str, at: usize, parses: fn(&str) -> bool) -> Option<Slip> {
    if text.len() > LONGEST || text.contains(['#', '\n']) {
        return None;
    }
    applied(text, at)
        .filter(|slip| parses(&slip.line))
        .or_else(|| missing_sign(text, at).filter(|slip| parses(&slip.line)))
        .or_else(|| colon(text).or_else(|| swapped(text)).filter(|slip| parses(&slip.line)))
        .or_else(|| keyword(text).filter(|slip| parses(&slip.line)))
        .or_else(|| steps(text, parses))
        .or_else(|| {
            let slip = |(title, line)| Slip { title: Cow::Borrowed(title), line };
            let closed = missing_closer(text).map(|line| ("a bracket is not closed", line));
            let cut = without_tail(text).map(|line| ("the statement ends with an operator", line));
            closed.into_iter().chain(cut).map(slip).find(|slip| parses(&slip.line))
        })
}

/// Takes steps until the statement parses; the first one that applies says what is wrong.
fn steps(text: &str, parses: fn(&str) -> bool) -> Option<Slip> {
    let mut line = Cow::Borrowed(text);
    let mut first = None;
    for (title, step) in STEPS {
        let Some(next) = step(&line).filter(|next| *next != line) else { continue };
        line = Cow::Owned(next);
        first.get_or_insert(title);
        if parses(&line) {
            return Some(Slip { title: Cow::Borrowed(first?), line: line.into_owned() });
        }
    }
    None
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit())
}

/// `ouput y`, `expcet time < 1ms`: a misspelt keyword.
fn keyword(text: &str) -> Option<Slip> {
    let word = word_of(text);
    let rest = &text[word.len()..];
    let is_name_next =
        rest.starts_with([' ', '\t']) && rest.trim_start().starts_with(|c: char| c.is_ascii_alphabetic() || c == '{');
    let near = KEYWORDS.into_iter().map(|keyword| (osa_distance(word, keyword), keyword)).min()?;
    let is_near = (1..=2).contains(&near.0) && near.0 * 2 < near.1.len();
    (is_near && is_name_next).then(|| Slip {
        title: Cow::Owned(format!("unknown statement `{word}`; did you mean `{}`?", near.1)),
        line: format!("{}{rest}", near.1),
    })
}

/// Words that begin statements.
const KEYWORDS: [&str; 11] =
    ["mesh", "axis", "dims", "output", "expect", "limit", "link", "repeat", "def", "kernel", "return"];

/// `mesh {X: 4} on "tpu_v5p"`.
fn quoted_hardware(text: &str) -> Option<String> {
    let (axes, name) = text.split_once("} on ")?;
    let bare = name.trim_matches(['"', '\'', '`', ' ']);
    (bare.len() < name.len()).then(|| format!("{axes}}} on {bare}"))
}

/// `mesh {X: 4} tpu_v5p`, `mesh 4x2 on tpu_v5p`.
fn hardware(text: &str) -> Option<String> {
    let (axes, rest) = text.strip_prefix("mesh")?.split_once('}')?;
    let name = rest.trim();
    (is_name(name) && !name.starts_with("on ")).then(|| format!("mesh{axes}}} on {name}"))
}

/// `I, J = 64, 64`.
fn tuple_of_sizes(text: &str) -> Option<String> {
    let (names, sizes) = text.split_once('=')?;
    let (names, sizes) = (pieces(names), pieces(sizes));
    let fits = names.len() > 1 && names.len() == sizes.len();
    if !fits || !names.iter().all(|name| is_name(name)) || !sizes.iter().all(|size| is_number(size)) {
        return None;
    }
    let items: Vec<String> = names.iter().zip(sizes).map(|(name, size)| format!("{name}: {size}")).collect();
    Some(format!("dims {{{}}}", items.join(", ")))
}

/// `mesh X: 4, Y: 2`, `mesh {4, 2}`, `mesh {X = 4}`, `mesh {X: 4 Y: 2}`, `dims = {I: 64}`, `dims {I: 4,096}`.
fn block(text: &str) -> Option<String> {
    let word = ["mesh", "dims"].into_iter().find(|word| text.starts_with(word))?;
    let rest = text[word.len()..].trim_start_matches([' ', '\t', '=', ':']);
    let (body, tail) = match rest.find(" on ") {
        Some(at) if word == "mesh" => (&rest[..at], &rest[at..]),
        Some(_) | None => (rest, ""),
    };
    let body = body.trim().trim_start_matches(['{', '(', '[']).trim_end_matches(['}', ')', ']']);
    if body.is_empty() || body.contains(['(', ')', '{', '}', '"', '\'', '.']) {
        return None;
    }
    let mut items: Vec<String> = Vec::new();
    for item in body.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        match items.last_mut() {
            // A sign between thousands.
            Some(last)
                if word == "dims"
                    && is_number(item)
                    && item.len() == 3
                    && last.ends_with(|c: char| c.is_ascii_digit()) =>
            {
                last.push_str(item);
            }
            _ => items.extend(between_words(item)),
        }
    }
    let names = ["X", "Y", "Z", "W"];
    if word == "mesh"
        && let [only] = items.as_slice()
        && only.split('x').count() > 1
        && only.split('x').all(is_number)
    {
        // `4x2`.
        items = only.split('x').map(str::to_owned).collect();
    }
    for (place, item) in items.iter_mut().enumerate() {
        if let Some((name, size)) = item.split_once('=')
            && size.trim().starts_with(|c: char| c.is_ascii_digit())
        {
            *item = format!("{}: {}", name.trim(), size.trim());
        }
        if word == "mesh" && is_number(item) {
            *item = format!("{}: {item}", names.get(place)?);
        }
        if item.ends_with('K') && item.rsplit([' ', ':']).next().is_some_and(|size| is_number(&size[..size.len() - 1]))
        {
            item.replace_range(item.len() - 1.., "k");
        }
    }
    Some(format!("{word} {{{}}}{tail}", items.join(", ")))
}

/// `X: 4 Y: 2`, cut before each name with a colon.
fn between_words(item: &str) -> Vec<String> {
    let mut items: Vec<String> = vec![String::new()];
    for word in item.split(' ').filter(|word| !word.is_empty()) {
        let last = items.last_mut().expect("begins with one");
        if word.ends_with(':') && is_name(&word[..word.len() - 1]) && !last.is_empty() {
            items.push(word.to_owned());
        } else {
            *last = if last.is_empty() { word.to_owned() } else { format!("{last} {word}") };
        }
    }
    items
}

/// What `limit` and `expect` are about, by a word for it.
fn measure(word: &str) -> Option<&'static str> {
    Some(match word.to_lowercase().as_str() {
        "memory" | "hbm" | "mem" | "vram" | "ram" => "memory",
        "communication" | "comm" | "comms" | "traffic" => "communication",
        "time" | "latency" | "runtime" | "duration" => "time",
        "flops" | "flop" | "compute" => "flops",
        _ => return None,
    })
}

/// `expect C = AllReduce_X`, `expect communication == 0`, `limit hbm 16GB`, `limit memory = 16GB`, `assert memory < 1GB`.
fn expectation(text: &str) -> Option<String> {
    let (word, rest) = text.split_once(' ')?;
    let word = match word {
        "expect" | "limit" => word,
        "assert" | "require" => "expect",
        _ => return None,
    };
    let head = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
    let tail = rest[head.len()..].trim();
    let amount = tail.trim_start_matches(['=', '<', '>', ' ']);
    let measure = measure(head).unwrap_or_default();
    if word == "limit" {
        return (!measure.is_empty()).then(|| format!("limit {measure} {amount}"));
    }
    let nothing = ["no collectives", "no comm", "no comms", "no collective", "no communications"];
    if nothing.contains(&rest) || measure == "communication" && tail.starts_with('=') && amount == "0" {
        return Some("expect no communication".to_owned());
    }
    if !measure.is_empty() {
        return Some(format!("expect {measure} {tail}"));
    }
    let (name, moves) = rest.split_once('=')?;
    let name = name.trim().trim_start_matches("collectives ").trim();
    let moves = moves.trim_start_matches('=').trim().trim_start_matches('[').trim_end_matches(']');
    is_name(name).then(|| format!("expect collectives {name} = [{moves}]"))
}

/// `A – 1`, `A × B`.
fn decimal_signs(text: &str) -> Option<String> {
    Some(text.replace(['–', '—', '−'], "-").replace('×', "*").replace("\\times", "*"))
}

/// `I/X`, `I@X`, `I^X`, `I_(X,Y)` in brackets.
fn subscripts(text: &str) -> Option<String> {
    let mut depth = 0usize;
    let mut line = String::with_capacity(text.len());
    let mut open = false;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let behind = text[at + c.len_utf8()..].chars().next().is_some_and(|c| c.is_ascii_alphabetic());
        let before = text[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
        line.push(match c {
            '/' | '@' | '^' if depth > 0 && behind && before => '_',
            '(' if depth > 0 && text[..at].ends_with('_') => {
                open = true;
                '{'
            }
            ')' if open => {
                open = false;
                '}'
            }
            c => c,
        });
    }
    Some(line)
}

/// `bf16[I, J][U_X]`.
fn bracketed_sum(text: &str) -> Option<String> {
    let (before, sum) = text.split_once("][")?;
    let (sum, behind) = sum.split_once(']')?;
    let is_operator = Operator::ALL
        .iter()
        .any(|operator| sum.strip_prefix(operator.word()).is_some_and(|axes| axes.starts_with('_')));
    is_operator.then(|| format!("{before}]{{{sum}}}{behind}"))
}

/// `{U X}`.
fn spaced_sum(text: &str) -> Option<String> {
    let (before, sum) = text.rsplit_once('{')?;
    let (sum, behind) = sum.split_once('}')?;
    let (operator, axes) = sum.trim().split_once([' ', ':', '-'])?;
    let is_operator = Operator::ALL.iter().any(|known| known.word() == operator);
    is_operator.then(|| format!("{before}{{{operator}_{}}}{behind}", axes.trim()))
}

/// `x: bf16[B_X, D}`.
fn closer(text: &str) -> Option<String> {
    let open = text.find('[')?;
    let end = text.find(['}', ')']).filter(|end| *end > open && !text[open..*end].contains([']', '{', '(']))?;
    Some(format!("{}]{}", &text[..end], &text[end + 1..]))
}

/// `bf16[I, J][X, None]`.
fn axes_apart(text: &str) -> Option<String> {
    let (before, axes) = text.split_once("][")?;
    let (head, dims) = before.rsplit_once('[')?;
    let (axes, behind) = axes.split_once(']')?;
    let (dims, axes) = (pieces(dims), pieces(axes));
    if !head.contains(':') || dims.len() < axes.len() {
        return None;
    }
    let items: Vec<String> = dims
        .iter()
        .enumerate()
        .map(|(place, dim)| match axes.get(place).map(|axis| axis.trim_matches(['\'', '"'])) {
            Some("None" | ":" | "null" | "_" | "-") | None => (*dim).to_owned(),
            Some(axis) => format!("{dim}_{axis}"),
        })
        .collect();
    Some(format!("{head}[{}]{behind}", items.join(", ")))
}

/// `A: torch.float16[I]`.
fn dtype_of_module(text: &str) -> Option<String> {
    let (name, rest) = text.split_once(':')?;
    let (path, _) = rest.split_at(rest.find('[')?);
    let module = path.rfind('.')? + 1;
    let word = path[module..].trim();
    let known =
        word.parse::<DType>().ok().map(|dtype| dtype.to_string()).or_else(|| dtype_meant(word).map(str::to_owned))?;
    Some(format!("{name}: {known}{}", &rest[path.len()..]))
}

/// `A bf16[I]`, `A: [I] bf16`.
fn dtype(text: &str) -> Option<String> {
    let typed = |word: &str| -> Option<String> {
        let word = word.rsplit('.').next()?;
        word.parse::<DType>().ok().map(|dtype| dtype.to_string()).or_else(|| dtype_meant(word).map(str::to_owned))
    };
    if let Some((name, rest)) = text.split_once(':') {
        let (name, rest) = (name.trim(), rest.trim());
        if !is_name(name) {
            return None;
        }
        if rest.starts_with('[') {
            let (brackets, word) = rest.split_once(']')?;
            return Some(format!("{name}: {}{brackets}]", typed(word.trim())?));
        }
        let (word, brackets) = rest.split_at(rest.find('[')?);
        return Some(format!("{name}: {}{brackets}", typed(word.trim())?));
    }
    let (name, rest) = text.split_once(' ')?;
    let (word, brackets) = rest.split_at(rest.find('[')?);
    is_name(name).then_some(())?;
    Some(format!("{name}: {}{brackets}", typed(word.trim())?))
}

/// `A: bf16[I, J] donate`, `A: bf16[I, J], donated`.
fn placement(text: &str) -> Option<String> {
    let (declared, rest) = text.rsplit_once(']')?;
    let rest = rest.trim().trim_start_matches(',').trim();
    matches!(rest, "donate" | "donates" | "donated" | "@donated").then(|| format!("{declared}] donated"))
}

/// `A => C`.
fn arrow(text: &str) -> Option<String> {
    text.split_once("=>").map(|(value, result)| format!("{value}->{result}"))
}

/// `C := A`.
fn walrus(text: &str) -> Option<String> {
    text.split_once(":=").map(|(name, value)| format!("{}= {}", name, value.trim_start()))
}

/// `A ^ 2`.
fn power(text: &str) -> Option<String> {
    text.contains(" ^ ").then(|| text.replace(" ^ ", " ** "))
}

/// `A += B`.
fn updated(text: &str) -> Option<String> {
    let signs = [(" += ", "+"), (" -= ", "-"), (" *= ", ".*"), (" /= ", "/")];
    let (name, sign, value) =
        signs.into_iter().find_map(|(from, sign)| text.split_once(from).map(|(name, value)| (name, sign, value)))?;
    let grouped = value.contains([' ', '+', '-', '*', '/']) && sign != "+";
    let value = if grouped { format!("({value})") } else { value.to_owned() };
    Some(format!("{name} = {name} {sign} {value}"))
}

/// `C[I, K]U_X`.
fn bare_sum(text: &str) -> Option<String> {
    let at = ["]U_", "]MAX_", "]MIN_"].into_iter().find_map(|sign| text.find(sign))? + 1;
    let sum = &text[at..];
    let length = match sum.find('{') {
        Some(brace) if sum[..brace].ends_with('_') => sum.find('}')? + 1,
        Some(_) | None => sum.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(sum.len()),
    };
    Some(format!("{}{{{}}}{}", &text[..at], &sum[..length], &sum[length..]))
}

/// `AllGather[X](A)`, `AllGather<X>(A)`.
fn collective_brackets(text: &str) -> Option<String> {
    let kinds = super::CollectiveName::ALL.map(super::CollectiveName::word);
    let at = kinds.into_iter().find_map(|kind| Some(text.find(kind)? + kind.len()))?;
    let rest = text[at..].strip_prefix(['[', '<'])?;
    let (axes, behind) = rest.split_once([']', '>'])?;
    let axes = if axes.contains(',') { format!("{{{axes}}}") } else { axes.to_owned() };
    behind.starts_with('(').then(|| format!("{}_{axes}{behind}", &text[..at]))
}

/// A comma before a closing bracket.
fn last_comma(text: &str) -> Option<String> {
    let mut line = text.to_owned();
    for closer in [']', ')', '}'] {
        let is_late = |line: &str, at: usize| line[..at].trim_end().ends_with(',');
        while let Some((at, _)) = line.match_indices(closer).find(|(at, _)| is_late(&line, *at)) {
            let comma = line[..at].rfind(',')?;
            line.replace_range(comma..at, "");
        }
    }
    Some(line)
}

/// `C[I, K] = A[I, J], W[J, K]`.
fn factors(text: &str) -> Option<String> {
    let (target, value) = text.split_once('=')?;
    let factors = pieces(value);
    let is_array = |text: &&str| text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.ends_with([']', '}']);
    (factors.len() > 1 && factors.iter().all(is_array)).then(|| format!("{target}= {}", factors.join(" * ")))
}

/// `A * B using line by reduce` → `A * B by reduce using line`.
fn using_first(text: &str) -> Option<String> {
    let (before, clauses) = text.split_at(text.rfind(" using ")?);
    let (using, by) = clauses.split_at(clauses.find(" by ")?);
    Some(format!("{before}{by}{using}"))
}

/// `repeat 4x {`, `repeat (4) times {`.
fn iterations(text: &str) -> Option<String> {
    let count = text.strip_prefix("repeat")?.strip_suffix('{')?.trim_start_matches([' ', '(', '=', ':']);
    let digits = &count[..count.find(|c: char| !c.is_ascii_digit()).unwrap_or(count.len())];
    let is_word = |c: char| c.is_ascii_alphabetic() || matches!(c, ' ' | ')' | ':');
    (!digits.is_empty() && count[digits.len()..].chars().all(is_word)).then(|| format!("repeat {digits} {{"))
}

/// `kernel f(x[B]) -> [B] shard B flop 2*B`.
fn kernel_facts(text: &str) -> Option<String> {
    let arrow = text.strip_prefix("kernel ").and_then(|_| text.find("->"))?;
    let end = arrow + text[arrow..].find(']')? + 1;
    let mut line = text[..end].to_owned();
    for word in text[end..].split_whitespace() {
        let bare = word.trim_matches([',', ':', '=']);
        match KERNEL_FACTS.into_iter().find(|fact| bare.len() > 3 && osa_distance(bare, fact) <= 1) {
            Some(fact) => line = format!("{}, {fact}", line.trim_end_matches([',', ' '])),
            None => line = format!("{line} {word}"),
        }
    }
    Some(line)
}

/// `y = gelu x`: the argument of a function without parentheses.
fn applied(text: &str, at: usize) -> Option<Slip> {
    let (before, behind) = (text[..at].trim_end(), &text[at..]);
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let word = &before[before.trim_end_matches(is_part).len()..];
    let end = behind.find(|c: char| !is_part(c)).unwrap_or(behind.len());
    let is_function = Function::plain().any(|function| function.word() == word);
    (is_function && is_name(&behind[..end])).then(|| Slip {
        title: Cow::Owned(format!("the argument of `{word}` is written in parentheses")),
        line: format!("{before}({}){}", &behind[..end], &behind[end..]),
    })
}

/// `output: y, z`.
fn colon(text: &str) -> Option<Slip> {
    let word = word_of(text);
    let names = text[word.len()..].trim_start().strip_prefix(':')?;
    let keyword = word.trim_end_matches('s');
    matches!(keyword, "output" | "expect" | "limit").then(|| Slip {
        title: Cow::Owned(format!("`{keyword}` is not followed by a colon")),
        line: format!("{keyword} {}", names.trim_start()),
    })
}

/// `memory limit 2GB`, `max memory 2GB`: the words of `limit` and `expect` in another order.
fn swapped(text: &str) -> Option<Slip> {
    let first = word_of(text);
    let rest = text[first.len()..].trim_start();
    let second = word_of(rest);
    let amount = rest[second.len()..].trim_start();
    let least = amount.trim_start_matches([':', '<', '=', ' ']);
    let (title, line) = match (first, second) {
        ("max", word) => ("limits are declared by `limit`".to_owned(), format!("limit {} {least}", measure(word)?)),
        (word, "limit") => (format!("`limit` precedes `{word}`"), format!("limit {} {least}", measure(word)?)),
        (word, "expect") => (format!("`expect` precedes `{word}`"), format!("expect {} {amount}", measure(word)?)),
        _ => return None,
    };
    Some(Slip { title: Cow::Owned(title), line })
}

/// A missing `,` in brackets or braces, or a missing `*` between factors.
fn missing_sign(text: &str, at: usize) -> Option<Slip> {
    let (before, behind) = (text[..at].trim_end(), &text[at..]);
    if !behind.starts_with(|c: char| c.is_ascii_alphanumeric())
        || !before.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, ']' | '}' | ')'))
    {
        return None;
    }
    let mut open = Vec::new();
    for c in before.chars() {
        match c {
            '(' | '[' | '{' => open.push(c),
            ')' | ']' | '}' => drop(open.pop()),
            _ => {}
        }
    }
    let (sign, line) = match open.last() {
        Some('[' | '{') => (",", format!("{before}, {behind}")),
        _ if before.contains('=') || text.contains("->") => ("*", format!("{before} * {behind}")),
        _ => return None,
    };
    Some(Slip { title: Cow::Owned(format!("missing `{sign}` before `{}`", word_of(behind))), line })
}

/// Brackets that are closed at the end.
fn missing_closer(text: &str) -> Option<String> {
    let mut open = Vec::new();
    for c in text.chars() {
        match c {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.last() == Some(&c) => drop(open.pop()),
            _ => {}
        }
    }
    // More than one is not a slip.
    let [closer] = open.as_slice() else { return None };
    (*closer != '}').then(|| format!("{text}{closer}"))
}

/// `k = rename_{S=T}(x)`, `rename(x, S->T)`.
fn renamed(text: &str) -> Option<String> {
    let (before, rest) = text.split_once("rename")?;
    if let Some((dims, behind)) = rest.strip_prefix("_{").and_then(|rest| rest.split_once('}')) {
        let dims = dims.replace(['=', ':'], "->").replace("->>", "->");
        return Some(format!("{before}rename_{{{dims}}}{behind}"));
    }
    let (argument, rest) = rest.strip_prefix('(')?.split_once(',')?;
    let (dims, behind) = rest.split_once(')')?;
    dims.contains("->").then(|| format!("{before}rename_{{{}}}({}){behind}", dims.trim(), argument.trim()))
}

/// `C = A * B,`.
fn tail_comma(text: &str) -> Option<String> {
    text.strip_suffix(',').map(|line| line.trim_end().to_owned())
}

/// `A * B +`.
fn without_tail(text: &str) -> Option<String> {
    let line = text.trim_end_matches(['+', '-', '*', '/', '.', '@', ' ']);
    (line.len() < text.len()).then(|| line.to_owned())
}
