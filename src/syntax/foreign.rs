//! Words of JAX, NumPy, PyTorch, NCCL and Python where they are typed, and how the line is written here.
//!
//! ```text
//! z = psum(y, 'X')                   z = AllReduce_X(y)
//! y = jnp.einsum('BD,DF->BF', x, W)  y[B, F]_? = x * W
//! x = jnp.zeros((B, D), device=P('X', None))   x: bf16[B_X, D]
//! ```
//!
//! A statement comes here when the grammar could not read it, so nothing that has a meaning is taken for something else.

use super::split::is_blank;
use crate::dtype::DType;
use std::ops::Range;

/// What a statement says in the words of another system.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Foreign {
    /// Where, in the statement.
    pub(super) at: Range<usize>,
    /// How it is written here.
    pub(super) help: String,
}

/// How a call is written here.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// Instead of the call.
    Call(String),
    /// The same, with a word about it.
    CallWhere(String, &'static str),
    /// Instead of the statement.
    Line(String),
    /// The same, with a word about it.
    LineWhere(String, &'static str),
    /// In no line.
    Advice(&'static str),
}

/// What stands in a call.
struct Call<'a> {
    /// Modules, or the array whose method it is: `jnp`, `x`.
    path: &'a str,
    /// The last name.
    name: &'a str,
    positional: Vec<&'a str>,
    keywords: Vec<(&'a str, &'a str)>,
    /// What the statement gives a value to.
    target: &'a str,
}

/// Modules under which functions stand elsewhere.
const MODULES: [&str; 14] =
    ["jax", "jnp", "np", "numpy", "lax", "nn", "torch", "F", "functional", "dist", "tf", "mx", "math", "collectives"];

/// The functions of an array that have the same name here.
const SAME: [&str; 14] =
    ["relu", "gelu", "exp", "tanh", "sigmoid", "silu", "sqrt", "rsqrt", "abs", "log", "square", "where", "max", "min"];

const DIM_THAT_GOES: &str = "with the name of the dim it runs over for `D`";
const DIM_THAT_COMES: &str = "with the name of the dim that it has for `D`";
const DIM_THAT_IS_CUT: &str = "with the name of the dim that it shards for `D`";

/// What a statement that could not be read says in the words of another system.
pub(super) fn recognise(text: &str) -> Option<Foreign> {
    if text.len() > 2000 {
        return None;
    }
    by_first_word(text)
        .or_else(|| by_declaration(text))
        .or_else(|| {
            calls(text)
                .find_map(|(at, call)| Some(Foreign { help: worded(text, &at, answer(&call)?), at: named(text, at) }))
        })
        .or_else(|| by_sign(text))
}

/// How a call that was read, but of a function that is not known, is written here.
pub(crate) fn call_here(name: &str, arguments: &[String]) -> Option<String> {
    let positional = arguments.iter().map(String::as_str).collect();
    match answer(&Call { path: "", name, positional, keywords: Vec::new(), target: "C" })? {
        Answer::Call(text) | Answer::Line(text) => Some(format!("write `{text}`")),
        Answer::CallWhere(text, note) | Answer::LineWhere(text, note) => Some(format!("write `{text}`, {note}")),
        Answer::Advice(advice) => Some(advice.to_owned()),
    }
}

fn worded(text: &str, at: &Range<usize>, answer: Answer) -> String {
    let line = |call: &str| format!("{}{call}{}", &text[..at.start], &text[at.end..]).trim().to_owned();
    match answer {
        Answer::Call(call) => format!("write `{}`", line(&call)),
        Answer::CallWhere(call, note) => format!("write `{}`, {note}", line(&call)),
        Answer::Line(line) => format!("write `{line}`"),
        Answer::LineWhere(line, note) => format!("write `{line}`, {note}"),
        Answer::Advice(advice) => advice.to_owned(),
    }
}

/// The path and the name of a call, without its arguments.
fn named(text: &str, at: Range<usize>) -> Range<usize> {
    let length = text[at.clone()].find('(').unwrap_or(at.len());
    at.start..at.start + length
}

/// Statements that begin with a word of another language.
fn by_first_word(text: &str) -> Option<Foreign> {
    let word = &text[..text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())];
    let rest = text[word.len()..].trim_matches(is_blank);
    let is_word = !rest.is_empty() && text[word.len()..].starts_with(is_blank);
    let help = match word {
        "" if text.starts_with("//") => format!("write `# {}`", text.trim_start_matches('/').trim()),
        "" if text.starts_with("/*") => "comments begin with `#` and go to the end of the line".to_owned(),
        "for" | "while" if is_word => {
            let times = rest.split("range(").nth(1).and_then(|range| range.split([')', ',']).next()).map(str::trim);
            let times = times.filter(|times| times.bytes().all(|c| c.is_ascii_alphanumeric()) && !times.is_empty());
            format!("write `repeat {} {{`, the statements of the body, and `}}`", times.unwrap_or("4"))
        }
        "def" | "fn" | "class" | "lambda" if is_word => {
            "write `def f(x, W) {`, the statements of the body, `return y` and `}`".to_owned()
        }
        "return" if is_word => format!("write `output {rest}`"),
        "let" | "const" | "var" | "auto" | "val" if is_word && rest.contains('=') => format!("write `{rest}`"),
        "import" | "from" if is_word => "nothing is imported: leave the line out".to_owned(),
        "if" | "else" | "elif" if is_word => {
            "there are no branches: `where(mask, A, B)` chooses element by element".to_owned()
        }
        _ => return None,
    };
    Some(Foreign { at: 0..word.len().max(2), help })
}

/// `x: bf16(B_X, D)`, `x: [B_X, D]`, `x: bf16[B, D] P('X', None)`, `x: bf16[B, D] Shard(0)`
fn by_declaration(text: &str) -> Option<Foreign> {
    let (name, typed) = text.split_once(':')?;
    let name = name.trim_matches(is_blank);
    if !is_name(name) {
        return None;
    }
    let begins = text.len() - typed.trim_start_matches(is_blank).len();
    let typed = typed.trim_matches(is_blank);
    let word = &typed[..typed.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(typed.len())];
    let rest = typed[word.len()..].trim_start_matches(is_blank);
    if word.is_empty() && rest.starts_with('[') && rest.ends_with(']') && rest.matches(']').count() == 1 {
        let help = format!("write `{name}: bf16{rest}`: an input has a dtype");
        return Some(Foreign { at: begins..begins + 1, help });
    }
    word.parse::<DType>().ok()?;
    if let Some(dims) = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
        && !dims.contains(['(', ')', '=', '\''])
    {
        let at = begins + word.len();
        return Some(Foreign { at: at..at + 1, help: format!("write `{name}: {word}[{}]`", dims.trim()) });
    }
    let (dims, spec) = rest.strip_prefix('[')?.split_once(']')?;
    let spec = spec.trim_matches(is_blank);
    let dims: Vec<&str> = dims.split(',').map(str::trim).collect();
    let at = text.rfind(spec).filter(|_| !spec.is_empty())?;
    let layout = if let Some(axes) = partition(spec) {
        brackets(&dims, &axes)
    } else {
        let placement = spec.trim_start_matches("dist.").split('(').next().unwrap_or_default();
        let axes: Vec<String> = match (placement, spec.split(['(', ')']).nth(1)) {
            ("Shard", Some(place)) => {
                let place: usize = place.trim().parse().ok()?;
                (0..dims.len()).map(|dim| if dim == place { "_X".to_owned() } else { String::new() }).collect()
            }
            ("Replicate", _) => Vec::new(),
            _ => return None,
        };
        brackets(&dims, &axes)
    };
    Some(Foreign { at: at..at + spec.len(), help: format!("write `{name}: {word}{layout}`") })
}

/// Signs that mean something elsewhere.
fn by_sign(text: &str) -> Option<Foreign> {
    let words = [(" and ", "and"), (" or ", "or"), ("&&", "and"), ("||", "or")];
    if let Some((at, sign, word)) = words.into_iter().find_map(|(sign, word)| Some((text.find(sign)?, sign, word))) {
        let start = text.find(" = ").map_or(0, |equals| equals + 3).min(at);
        let [left, right] = [&text[start..at], &text[at + sign.len()..]].map(|side| side.trim_matches(is_blank));
        let help = format!("write `{}{word}({left}, {right})`", &text[..start]);
        let begin = at + sign.len() - sign.trim_start().len();
        return Some(Foreign { at: begin..begin + sign.trim().len(), help });
    }
    if let Some(at) = text.find('%').filter(|_| text.contains('=')) {
        let help = "there is no remainder: `x - n * i32(f32(x) / n)`".to_owned();
        return Some(Foreign { at: at..at + 1, help });
    }
    let divided = text.find("//").filter(|at| {
        let behind = text[at + 2..].trim_matches(is_blank);
        !behind.is_empty() && behind.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_') && text.contains('=')
    });
    if let Some(at) = divided {
        let help = "there is no division of integers; of floats and back it is `i32(f32(x) / n)`".to_owned();
        return Some(Foreign { at: at..at + 2, help });
    }
    if let Some(at) = text.find(" // ") {
        let (before, comment) = (text[..at].trim_end(), text[at + 4..].trim());
        return Some(Foreign { at: at + 1..at + 3, help: format!("write `{before}  # {comment}`") });
    }
    None
}

/// The calls of a statement, the outermost first, each with its place.
fn calls(text: &str) -> impl Iterator<Item = (Range<usize>, Call<'_>)> {
    let target = text.split_once('=').map_or("", |(before, _)| before.trim_matches(is_blank));
    let target = if is_name(target) { target } else { "" };
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    text.match_indices(['(', '.']).filter_map(move |(at, sign)| {
        let start = text[..at]
            .rfind(|c: char| !is_part(c))
            .map_or(0, |before| before + text[before..].chars().next().map_or(1, char::len_utf8));
        if sign == "." {
            // A transposition is no call.
            let is_alone = text[at + 1..].starts_with('T') && !text[at + 2..].starts_with(is_part);
            return (is_alone && start < at).then(|| {
                let call = Call { path: &text[start..at], name: "T", positional: vec![], keywords: vec![], target };
                (start..at + 2, call)
            });
        }
        let (path, name) = text[start..at].rsplit_once('.').unwrap_or(("", &text[start..at]));
        let end = closing(text, at)?;
        let (mut positional, mut keywords) = (Vec::new(), Vec::new());
        for argument in pieces(&text[at + 1..end]) {
            match argument.split_once('=').filter(|(key, _)| is_name(key.trim())) {
                Some((key, value)) => keywords.push((key.trim(), value.trim())),
                None => positional.push(argument),
            }
        }
        (!name.is_empty()).then_some((start..end + 1, Call { path, name, positional, keywords, target }))
    })
}

/// The bracket that closes the one at this place.
fn closing(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in text[open..].char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(open + at);
        }
    }
    None
}

/// What stands between the commas that are in no bracket and no quotes.
fn pieces(text: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut start, mut found) = (0i32, None, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('(' | '[' | '{', None) => depth += 1,
            (')' | ']' | '}', None) => depth -= 1,
            (',', None) if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[start..].trim());
    found.retain(|piece| !piece.is_empty());
    found
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The axes of `'X'`, `('X', 'Y')` or `X`, as they stand behind a `_`.
fn axes(text: &str) -> Option<String> {
    let names: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|name| !name.is_empty()).collect();
    match names.as_slice() {
        [] => None,
        ["None"] => Some(String::new()),
        [only] if only.len() == 1 => Some((*only).to_owned()),
        names if names.iter().all(|name| name.len() == 1) => Some(names.concat()),
        [only] => Some((*only).to_owned()),
        names => Some(format!("{{{}}}", names.join(","))),
    }
}

/// The axes on each dim of `P('X', None)`: `_X`, nothing.
fn partition(spec: &str) -> Option<Vec<String>> {
    let open = spec.find('(')?;
    let name = spec[..open].rsplit('.').next().unwrap_or_default().trim();
    if name == "NamedSharding" {
        return pieces(&spec[open + 1..closing(spec, open)?]).last().and_then(|inner| partition(inner));
    }
    if !matches!(name, "P" | "PartitionSpec" | "PS") {
        return None;
    }
    let dims = pieces(&spec[open + 1..closing(spec, open)?]);
    let subscript = |axes: String| if axes.is_empty() { axes } else { format!("_{axes}") };
    dims.into_iter().map(|dim| axes(dim).map(subscript)).collect()
}

/// `[B_X, D]` of dims and the axes behind each.
fn brackets(dims: &[&str], axes: &[String]) -> String {
    let dim = |(place, dim): (usize, &&str)| format!("{dim}{}", axes.get(place).map_or("", String::as_str));
    format!("[{}]", dims.iter().enumerate().map(dim).collect::<Vec<_>>().join(", "))
}

/// How a call is written here; none if it is not one of another system.
fn answer(call: &Call<'_>) -> Option<Answer> {
    let plain: String = call.name.chars().filter(|c| *c != '_').collect::<String>().to_lowercase();
    let is_module = call.path.split('.').all(|part| MODULES.contains(&part)) && !call.path.is_empty();
    let is_method = !call.path.is_empty() && !is_module;
    let keyword = |names: &[&str]| call.keywords.iter().find(|(key, _)| names.contains(key)).map(|(_, value)| *value);
    // The array of a method stands before its name.
    let mut arrays = call.positional.clone();
    if is_method {
        arrays.insert(0, call.path);
    }
    let first = arrays.first().copied();
    let quoted = |text: &&&str| text.contains(['\'', '"']);
    let over = keyword(&["axis_name", "axis", "axis_names"]).or_else(|| arrays.iter().skip(1).find(quoted).copied());
    let over = over
        .filter(|text| !text.starts_with('-'))
        .and_then(axes)
        .filter(|axes| !axes.bytes().all(|c| c.is_ascii_digit()));
    let over = over.unwrap_or_else(|| "X".to_owned());
    let target = if call.target.is_empty() { "C" } else { call.target };
    let spec =
        || arrays.iter().skip(1).chain(call.keywords.iter().map(|(_, value)| value)).find_map(|text| partition(text));
    let letters = ["I", "J", "K", "L", "M", "N"];
    Some(match plain.as_str() {
        "psum" | "allreduce" => Answer::Call(format!("AllReduce_{over}({})", first?)),
        "psumscatter" | "reducescatter" | "reducescattertensor" => Answer::CallWhere(
            format!("ReduceScatter_{{{},D}}({})", over.trim_matches(['{', '}']), first?),
            DIM_THAT_IS_CUT,
        ),
        "allgather" | "allgatherintotensor" => Answer::Call(format!("AllGather_{over}({})", first?)),
        "alltoall" | "alltoallsingle" => {
            Answer::CallWhere(format!("AllToAll_{{{},D}}({})", over.trim_matches(['{', '}']), first?), DIM_THAT_IS_CUT)
        }
        "pmean" => Answer::CallWhere(format!("AllReduce_{over}({}) / 4", first?), "with the size of the axis for `4`"),
        "pmax" | "pmin" => Answer::Advice("an open maximum is `A: f32[I]{MAX_X}`; `AllReduce_X(A)` closes it"),
        "ppermute" | "collectivepermute" | "shuffle" => {
            Answer::Advice("a permutation is a move between two layouts: `A[I_XY] -> C[I_YX]`")
        }
        "axisindex" => Answer::Advice("devices have no numbers in a program: layouts say what each of them holds"),
        "einsum" => {
            let spec = first?.trim_matches(['\'', '"']);
            let factors = arrays.get(1..).filter(|factors| !factors.is_empty())?.join(" * ");
            match spec.split_once("->") {
                Some((_, result)) if result.trim().chars().all(|c| c.is_ascii_alphabetic()) => {
                    let dims: Vec<String> = result.trim().to_uppercase().chars().map(String::from).collect();
                    Answer::Line(format!("{target}[{}]_? = {factors}", dims.join(", ")))
                }
                _ => Answer::Call(factors),
            }
        }
        "matmul" | "dot" | "mm" | "bmm" | "tensordot" | "dotgeneral" => {
            Answer::Call(format!("{} * {}", first?, arrays.get(1)?))
        }
        "multiply" | "mul" => Answer::Call(format!("{} .* {}", first?, arrays.get(1)?)),
        "add" => Answer::Call(format!("{} + {}", first?, arrays.get(1)?)),
        "subtract" | "sub" => Answer::Call(format!("{} - {}", first?, arrays.get(1)?)),
        "divide" | "div" => Answer::Call(format!("{} / {}", first?, arrays.get(1)?)),
        "maximum" => Answer::Call(format!("max({}, {})", first?, arrays.get(1)?)),
        "minimum" => Answer::Call(format!("min({}, {})", first?, arrays.get(1)?)),
        "arange" if arrays.len() == 1 && !is_integer(first?) => Answer::Call(format!("iota_{}", first?)),
        "zeros" | "ones" | "empty" | "full" | "rand" | "randn" | "normal" | "array" | "arange" => {
            let dims = first?.trim_matches(['(', ')', '[', ']']);
            let dims: Vec<&str> = dims.split(',').map(str::trim).filter(|dim| !dim.is_empty()).collect();
            let dtype = keyword(&["dtype"]).and_then(|text| text.rsplit('.').next()?.parse::<DType>().ok());
            let layout = brackets(&dims, &spec().unwrap_or_default());
            let line = format!("{target}: {}{layout}", dtype.unwrap_or(DType::Bf16));
            Answer::LineWhere(line, "an input; its values are given to `run`")
        }
        "withshardingconstraint" | "deviceput" | "reshard" => {
            let axes = spec().unwrap_or_default();
            let count = axes.len().clamp(1, letters.len());
            Answer::LineWhere(
                format!("{target}{} = {}", brackets(&letters[..count], &axes), first?),
                "with the dims of the array",
            )
        }
        "t" | "transpose" | "swapaxes" | "permute" | "moveaxis" => {
            let line = format!("{target}[J, I]_? = {}", first?);
            Answer::LineWhere(line, "with its dims in the order that the result is to have")
        }
        "reshape" | "view" | "flatten" | "ravel" => {
            Answer::Advice("dims are split and merged by declaring one as made of others: `dims {N = B*S}`")
        }
        "astype" | "to" | "type" => {
            let dtype = arrays.get(1)?.rsplit('.').next()?.trim_matches(['\'', '"']).parse::<DType>().ok()?;
            Answer::Call(format!("{dtype}({})", first?))
        }
        "sum" | "mean" | "max" | "min" | "softmax" | "logsoftmax"
            if is_method
                || is_module
                || !call.keywords.is_empty()
                || arrays.get(1).is_some_and(|text| is_integer(text)) =>
        {
            let name = if plain == "logsoftmax" { "softmax" } else { plain.as_str() };
            Answer::CallWhere(format!("{name}_D({})", first?), DIM_THAT_GOES)
        }
        "take" | "gather" | "embedding" => {
            Answer::Advice("rows are taken by a product with a one-hot array: `bf16(ids == iota_V) * E`")
        }
        "concatenate" | "concat" | "cat" | "stack" | "split" | "scatter" | "pad" | "roll" => {
            Answer::Advice("arrays are not joined or cut in a program: declare the parts as inputs")
        }
        "power" | "pow" => Answer::Call(format!("{} ** {}", first?, arrays.get(1)?)),
        "greater" | "gt" => Answer::Call(format!("{} > {}", first?, arrays.get(1)?)),
        "greaterequal" | "ge" => Answer::Call(format!("{} >= {}", first?, arrays.get(1)?)),
        "less" | "lt" => Answer::Call(format!("{} < {}", first?, arrays.get(1)?)),
        "lessequal" | "le" => Answer::Call(format!("{} <= {}", first?, arrays.get(1)?)),
        "equal" | "eq" => Answer::Call(format!("{} == {}", first?, arrays.get(1)?)),
        "notequal" | "ne" => Answer::Call(format!("{} != {}", first?, arrays.get(1)?)),
        "logicaland" => Answer::Call(format!("and({}, {})", first?, arrays.get(1)?)),
        "logicalor" => Answer::Call(format!("or({}, {})", first?, arrays.get(1)?)),
        "logicalnot" => Answer::Call(format!("not({})", first?)),
        "onehot" => Answer::CallWhere(format!("bf16({} == iota_D)", first?), DIM_THAT_COMES),
        "iota" if arrays.len() == 1 && !is_integer(first?) => Answer::Call(format!("iota_{}", first?)),
        "iota" | "broadcastediota" => Answer::CallWhere("iota_D".to_owned(), DIM_THAT_COMES),
        "tril" => Answer::Advice("a mask is made of comparisons: `where(iota_I >= iota_J, A, 0)`"),
        "triu" => Answer::Advice("a mask is made of comparisons: `where(iota_I <= iota_J, A, 0)`"),
        "cumsum" => Answer::Advice("a cumulative sum is a product with a mask: `f32(iota_S >= iota_T) *_T A`"),
        "jit" | "grad" | "vmap" | "shardmap" | "pjit" => {
            Answer::Advice("nothing is transformed: a program is its statements, one after the other")
        }
        same if is_module && SAME.contains(&same) => Answer::Call(format!("{same}({})", arrays.join(", "))),
        _ => return None,
    })
}

fn is_integer(text: &str) -> bool {
    let digits = text.trim_start_matches('-');
    !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit())
}
