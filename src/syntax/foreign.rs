//! Recognises syntax of JAX, NumPy, PyTorch, NCCL and Python, and suggests the equivalent.
//!
//! ```text
//! z = psum(y, 'X')                   z = AllReduce_X(y)
//! y = jnp.einsum('BD,DF->BF', x, W)  y[B, F]_? = x * W
//! x = jnp.zeros((B, D), device=P('X', None))   x: bf16[B_X, D]
//! ```
//!
//! It sees only statements that the grammar rejected, so valid statements are never reinterpreted.

use super::known::{Known, pieces};
use super::split::is_blank;
use crate::dtype::DType;
use std::ops::Range;

/// Foreign syntax in a statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Foreign {
    /// Its range in the statement.
    pub(super) at: Range<usize>,
    /// The equivalent.
    pub(super) help: String,
}

/// The equivalent of a call.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// Replaces the call.
    Call(String),
    /// Replaces the call, with a comment.
    CallWhere(String, &'static str),
    /// Replaces the statement.
    Line(String),
    /// Replaces the statement, with a comment.
    LineWhere(String, &'static str),
    /// No equivalent; advice only.
    Advice(&'static str),
    /// The same, with names of the program.
    Say(String),
}

/// A parsed call.
struct Call<'a> {
    /// The modules, or the array before a method: `jnp`, `x`.
    path: &'a str,
    /// The last name.
    name: &'a str,
    positional: Vec<&'a str>,
    keywords: Vec<(&'a str, &'a str)>,
    /// The assigned name of the statement.
    target: &'a str,
    /// Whether the statement states the layout of its result.
    has_layout: bool,
    /// Whether the call is a factor of a product.
    is_factor: bool,
    known: Known<'a>,
}

/// Modules with functions of other systems.
const MODULES: [&str; 14] =
    ["jax", "jnp", "np", "numpy", "lax", "nn", "torch", "F", "functional", "dist", "tf", "mx", "math", "collectives"];

/// Array methods that have the same name here.
const SAME: [&str; 16] = [
    "relu", "gelu", "exp", "tanh", "sin", "cos", "sigmoid", "silu", "sqrt", "rsqrt", "abs", "log", "square", "where",
    "max", "min",
];

const DIM_THAT_COMES: &str = "where `D` is the new dim";

/// Finds foreign syntax in a statement that failed to parse.
pub(super) fn recognise(text: &str, known: Known<'_>) -> Option<Foreign> {
    if text.len() > 2000 {
        return None;
    }
    by_first_word(text, known)
        .or_else(|| by_declaration(text, known))
        .or_else(|| by_mesh(text))
        .or_else(|| {
            calls(text, known)
                .find_map(|(at, call)| Some(Foreign { help: worded(text, &at, answer(&call)?), at: named(text, at) }))
        })
        .or_else(|| by_sign(text))
}

/// The equivalent of a parsed call of an unknown function.
pub(crate) fn call_here(name: &str, arguments: &[String]) -> Option<String> {
    let positional = arguments.iter().map(String::as_str).collect();
    let (known, target) = (Known::nothing(), "C");
    let keywords = Vec::new();
    match answer(&Call { path: "", name, positional, keywords, target, has_layout: false, is_factor: false, known })? {
        Answer::Call(text) | Answer::Line(text) => Some(format!("write `{text}`")),
        Answer::CallWhere(text, note) | Answer::LineWhere(text, note) => Some(format!("write `{text}`, {note}")),
        Answer::Advice(advice) => Some(advice.to_owned()),
        Answer::Say(advice) => Some(advice),
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
        Answer::Say(advice) => advice,
    }
}

/// The path and the name of a call, without its arguments.
fn named(text: &str, at: Range<usize>) -> Range<usize> {
    let length = text[at.clone()].find('(').unwrap_or(at.len());
    at.start..at.start + length
}

/// Statements that begin with a keyword of another language.
fn by_first_word(text: &str, known: Known<'_>) -> Option<Foreign> {
    let word = &text[..text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())];
    let rest = text[word.len()..].trim_matches(is_blank);
    let is_word = !rest.is_empty() && text[word.len()..].starts_with(is_blank);
    let help = match word {
        "" if text.starts_with("//") => format!("write `# {}`", text.trim_start_matches('/').trim()),
        "" if text.starts_with("/*") || text.starts_with("--") => {
            "comments begin with `#` and end with the line".to_owned()
        }
        "" if text.starts_with("\"\"\"") || text.starts_with("'''") => {
            "comments begin with `#` and end with the line".to_owned()
        }
        "" if text.starts_with('@') && text[1..].starts_with(|c: char| c.is_ascii_alphabetic()) => {
            "remove the decorator; programs have no transformations".to_owned()
        }
        "repeat" if rest.lines().next().is_some_and(|head| head.ends_with([':', ')']) || head.ends_with(" do")) => {
            let count =
                rest.lines().next().unwrap_or_default().trim_end_matches("do").trim_matches(['(', ')', ':', ' ']);
            format!("write `repeat {count} {{`, the statements of the body, and `}}`")
        }
        "for" | "while" if is_word => {
            let times = rest.split("range(").nth(1).and_then(|range| range.split([')', ',']).next()).map(str::trim);
            let times = times.filter(|times| times.bytes().all(|c| c.is_ascii_alphanumeric()) && !times.is_empty());
            format!("write `repeat {} {{`, the statements of the body, and `}}`", times.unwrap_or("4"))
        }
        "def" | "fn" | "class" if is_word => {
            format!("write `def {} {{`, the statements of the body, `return y` and `}}`", signature(rest))
        }
        "return" if pieces(rest).len() > 1 && known.in_function() => {
            "a function returns one array; write a function for each".to_owned()
        }
        "return" if is_word && !known.in_function() => format!("write `output {rest}`"),
        "let" | "const" | "var" | "auto" | "val" if is_word && rest.contains(['=', ':']) => format!("write `{rest}`"),
        _ if text.contains("= lambda ") => {
            let (head, body) = text.split_once("= lambda ")?.1.split_once(':')?;
            let name = if word.is_empty() { "f" } else { word };
            format!("write `def {name}({}) {{`, `return {}` and `}}`", head.trim(), body.trim())
        }
        "import" | "from" if is_word => "remove the line; programs have no imports".to_owned(),
        "if" | "else" | "elif" if is_word => {
            "programs have no branches; `where(mask, A, B)` selects elementwise".to_owned()
        }
        _ => return None,
    };
    let at = match word {
        "" if text.starts_with('@') => {
            0..1 + text[1..]
                .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.'))
                .unwrap_or(text.len() - 1)
        }
        "" => 0..2,
        _ => match text.find("= lambda ") {
            Some(at) => at + 2..at + 8,
            None => 0..word.len(),
        },
    };
    Some(Foreign { at, help })
}

/// `mlp(x, W)` of `mlp(x: bf16[B, D], W) -> y:`, parameters without types of other languages.
fn signature(text: &str) -> String {
    let Some((name, rest)) = text.split_once('(').filter(|(name, _)| is_name(name.trim())) else {
        return "f(x, W)".to_owned();
    };
    let Some(end) = closing(text, name.len()) else { return "f(x, W)".to_owned() };
    let parameters = pieces(&rest[..end - name.len() - 1]);
    let plain = parameters.into_iter().map(|parameter| match parameter.split_once(':') {
        Some((_, dtype)) if dtype.contains('[') => parameter.trim(),
        Some((name, _)) => name.trim(),
        None => parameter.split('=').next().unwrap_or_default().trim(),
    });
    format!("{}({})", name.trim(), plain.collect::<Vec<_>>().join(", "))
}

/// `x: bf16(B_X, D)`, `x: [B_X, D]`, `x: bf16[B, D] P('X', None)`, `x: bf16[B, D] Shard(0)`.
fn by_declaration(text: &str, known: Known<'_>) -> Option<Foreign> {
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
        let help = format!("write `{name}: bf16{rest}` to declare an input with a dtype");
        return Some(Foreign { at: begins..begins + 1, help });
    }
    if let Some(inner) = rest.strip_prefix('(').filter(|_| word == "DTensor") {
        // `DTensor(bf16[I, J], placements=[Shard(0)])`
        let (dtype, rest) = inner.split_once('[')?;
        let (dims, spec) = rest.split_once(']')?;
        let layout = placed(&pieces(dims), spec, known)?;
        let help = format!("write `{name}: {}{layout}`", dtype.trim().parse::<DType>().ok()?);
        return Some(Foreign { at: begins..begins + word.len(), help });
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
    let layout = match partition(spec.trim_start_matches('=').trim()) {
        Some(axes) => brackets(&dims, &axes),
        None => placed(&dims, spec, known)?,
    };
    Some(Foreign { at: at..at + spec.len(), help: format!("write `{name}: {word}{layout}`") })
}

/// `[I_X, J]` from placements such as `(Shard(0), Replicate())`, one for each axis of the mesh.
fn placed(dims: &[&str], spec: &str, known: Known<'_>) -> Option<String> {
    let mut axes = vec![String::new(); dims.len()];
    let mut sums = Vec::new();
    let mut found = 0;
    let starts = ["Shard(", "Replicate(", "Partial("];
    let mut rest = spec;
    while let Some((at, word)) = starts.iter().filter_map(|word| Some((rest.find(word)?, *word))).min() {
        let axis = known.axis(found);
        found += 1;
        rest = &rest[at + word.len()..];
        let argument = rest.split(')').next().unwrap_or_default();
        match word {
            "Shard(" => {
                let dim: usize = argument.rsplit('=').next()?.trim().parse().ok()?;
                axes.get_mut(dim)?.push_str(&axis);
            }
            "Partial(" => sums.push(axis),
            _ => {}
        }
    }
    let axes: Vec<String> =
        axes.into_iter().map(|axes| if axes.is_empty() { axes } else { format!("_{axes}") }).collect();
    let open = if sums.is_empty() { String::new() } else { format!("{{U_{}}}", sums.concat()) };
    (found > 0).then(|| format!("{}{open}", brackets(dims, &axes)))
}

/// `init_device_mesh("cuda", (4, 2), mesh_dim_names=("dp", "tp"))`, with names or without.
fn by_mesh(text: &str) -> Option<Foreign> {
    let (start, word) =
        ["init_device_mesh", "DeviceMesh"].into_iter().find_map(|word| Some((text.find(word)?, word)))?;
    let lists = text[start..].split('(').skip(2).filter_map(|rest| rest.split(')').next()).map(pieces);
    let lists: Vec<Vec<&str>> = lists.collect();
    let sizes = lists.iter().find(|list| !list.is_empty() && list.iter().all(|item| is_integer(item)))?;
    let quoted = |item: &&str| item.starts_with(['\'', '"']);
    let names = lists.iter().find(|list| list.len() == sizes.len() && list.iter().all(quoted));
    let name = |place: usize| match names {
        Some(names) => names[place].trim_matches(['\'', '"']).to_owned(),
        None => ["X", "Y", "Z"][place.min(2)].to_owned(),
    };
    let axes: Vec<String> = sizes.iter().enumerate().map(|(place, size)| format!("{}: {size}", name(place))).collect();
    Some(Foreign { at: start..start + word.len(), help: format!("write `mesh {{{}}}`", axes.join(", ")) })
}

/// Operators of other languages.
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
        let help = "unsupported remainder; write `x - n * i32(f32(x) / n)`".to_owned();
        return Some(Foreign { at: at..at + 1, help });
    }
    let divided = text.find("//").filter(|at| {
        let behind = text[at + 2..].trim_matches(is_blank);
        !behind.is_empty() && behind.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_') && text.contains('=')
    });
    if let Some(at) = divided {
        let help = "unsupported integer division; write `i32(f32(x) / n)`".to_owned();
        return Some(Foreign { at: at..at + 2, help });
    }
    if let Some(at) = text.find(" // ") {
        let (before, comment) = (text[..at].trim_end(), text[at + 4..].trim());
        return Some(Foreign { at: at + 1..at + 3, help: format!("write `{before}  # {comment}`") });
    }
    None
}

/// The calls of a statement, outermost first, with their places.
fn calls<'a>(text: &'a str, known: Known<'a>) -> impl Iterator<Item = (Range<usize>, Call<'a>)> {
    let target = text.split_once('=').map_or("", |(before, _)| before.trim_matches(is_blank));
    let (name, layout) = target.split_at(target.find('[').unwrap_or(target.len()));
    let (target, has_layout) = if is_name(name) { (name, !layout.is_empty()) } else { ("", false) };
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    text.match_indices(['(', '.']).filter_map(move |(at, sign)| {
        let start = text[..at]
            .rfind(|c: char| !is_part(c))
            .map_or(0, |before| before + text[before..].chars().next().map_or(1, char::len_utf8));
        if sign == "." {
            // A transposition is no call.
            let is_alone = text[at + 1..].starts_with('T') && !text[at + 2..].starts_with(is_part);
            return (is_alone && start < at).then(|| {
                let is_factor = text[at + 2..].trim_start().starts_with(['@', '*'])
                    || text[..start].trim_end().ends_with(['@', '*']);
                let (positional, keywords) = (vec![], vec![]);
                let path = &text[start..at];
                (start..at + 2, Call { path, name: "T", positional, keywords, target, has_layout, is_factor, known })
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
        let is_factor = text[end + 1..].trim_start().starts_with(['@', '*']);
        let call = Call { path, name, positional, keywords, target, has_layout, is_factor, known };
        (!name.is_empty()).then_some((start..end + 1, call))
    })
}

/// The matching closing bracket.
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

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The axes of `'X'`, `('X', 'Y')` or `X`, as a subscript.
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

/// The subscripts of `P('X', None)`: `_X`, none.
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

/// `[B_X, D]` from dims and their axes.
fn brackets(dims: &[&str], axes: &[String]) -> String {
    let dim = |(place, dim): (usize, &&str)| format!("{dim}{}", axes.get(place).map_or("", String::as_str));
    format!("[{}]", dims.iter().enumerate().map(dim).collect::<Vec<_>>().join(", "))
}

/// The equivalent of a call; `None` if it is not foreign.
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
    let letters = ["I", "J", "K", "L", "M", "N"].map(str::to_owned);
    let known = call.known;
    let dims = first.and_then(|first| known.dims(first));
    // The dim that an argument counts from the front, or from the back.
    let counted = |place: Option<&str>| {
        let (dims, place) = (dims.as_ref()?, place?.parse::<isize>().ok()?);
        let place = if place < 0 { place.checked_add_unsigned(dims.len())? } else { place };
        dims.get(usize::try_from(place).ok()?).cloned()
    };
    let is_product = first.is_some_and(|first| first.contains([' ', '*', '@']) && !first.contains(['(', '.']));
    let run = over.trim_matches(['{', '}']).to_owned();
    let operation = keyword(&["op", "reduce_op"]).or_else(|| {
        call.positional.iter().find(|text| text.starts_with("ReduceOp.") || text.contains(".ReduceOp.")).copied()
    });
    let operation = operation.and_then(|text| text.rsplit('.').next()).map(str::to_uppercase);
    Some(match plain.as_str() {
        "psum" | "allreduce" if operation.as_deref().is_some_and(|word| !matches!(word, "SUM" | "AVG" | "MEAN")) => {
            let word = match operation.as_deref() {
                Some("PRODUCT" | "PROD" | "MUL") => "MUL",
                Some("MIN") => "MIN",
                _ => "MAX",
            };
            let (name, dims) = (first?, dims.map_or("..".to_owned(), |dims| dims.join(", ")));
            Answer::Say(format!(
                "`AllReduce` combines as the braces of its operand say; declare `{name}[{dims}]{{{word}_{over}}}`, and \
                 write `AllReduce_{over}({name})`"
            ))
        }
        "allreduce" if matches!(operation.as_deref(), Some("AVG" | "MEAN")) => {
            let size = known.size(&over).unwrap_or("4");
            Answer::CallWhere(format!("AllReduce_{over}({}) / {size}", first?), "where the size of the axis divides")
        }
        "psum" | "allreduce" if is_product => {
            Answer::CallWhere(first?.to_owned(), "and the compiler inserts the AllReduce")
        }
        "psum" | "allreduce" => Answer::Call(format!("AllReduce_{over}({})", first?)),
        "psumscatter" | "reducescatter" | "reducescattertensor" => {
            let place = keyword(&["scatter_dimension", "scatter_dim"]).unwrap_or("0");
            let operand = first?.replace(" @ ", " *_LOCAL ").replace(" * ", " *_LOCAL ");
            match counted(Some(place)) {
                Some(dim) => Answer::Call(format!("ReduceScatter_{{{run},{dim}}}({operand})")),
                None => {
                    Answer::Say(format!("write `ReduceScatter_{{{run},I}}({operand})` with the dim to shard for `I`"))
                }
            }
        }
        "allgather" | "allgatherintotensor" => Answer::Call(format!("AllGather_{over}({})", first?)),
        "alltoall" | "alltoallsingle" => {
            let dim = counted(keyword(&["split_axis", "split_dimension"])).or_else(|| known.whole_dim(first?));
            match dim {
                Some(dim) => Answer::Call(format!("AllToAll_{{{run},{dim}}}({})", first?)),
                None => Answer::Say(format!("write `AllToAll_{{{run},J}}({})` with the dim to shard for `J`", first?)),
            }
        }
        "pmean" => Answer::CallWhere(format!("AllReduce_{over}({}) / 4", first?), "where `4` is the size of the axis"),
        "pmax" | "pmin" => {
            Answer::Advice("declare an open maximum, `A: f32[I]{MAX_X}`, and close it with `AllReduce_X(A)`")
        }
        "ppermute" | "collectivepermute" | "shuffle" => Answer::Advice(
            "write a permutation as a move between two layouts: `A[I_XY] -> C[I_YX]`; shifts have no counterpart",
        ),
        "axisindex" => Answer::Advice("programs have no device index; layouts define what each device holds"),
        "einsum" => {
            let spec = first?.trim_matches(['\'', '"']);
            let factors: Vec<&str> =
                arrays.get(1..)?.iter().flat_map(|list| pieces(list.trim_matches(['[', ']']))).collect();
            let product = factors.join(" * ");
            if factors.is_empty() {
                return None;
            }
            if call.has_layout {
                return Some(Answer::Call(product));
            }
            let (from, result) = spec.split_once("->").unwrap_or((spec, ""));
            // Letters stand for the dims of the operands.
            let mut named: Vec<(char, String)> = Vec::new();
            let mut is_known = true;
            for (letters, factor) in from.split(',').zip(&factors) {
                let dims = known.dims(factor).filter(|dims| dims.len() == letters.trim().chars().count());
                is_known &= dims.is_some();
                named.extend(letters.trim().chars().zip(dims.unwrap_or_default()));
            }
            let same = |one: &(char, String)| named.iter().all(|other| (one.0 == other.0) == (one.1 == other.1));
            if is_known && named.iter().all(same) {
                let dim = |letter: char| named.iter().find(|(known, _)| *known == letter).map(|(_, dim)| dim.clone());
                let dims: Option<Vec<String>> = result.trim().chars().map(dim).collect();
                return Some(match dims.filter(|dims| !dims.is_empty()) {
                    Some(dims) => Answer::Line(format!("{target}[{}]_? = {product}", dims.join(", "))),
                    None => Answer::Call(product),
                });
            }
            let factors = product;
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
            let number = match plain.as_str() {
                "zeros" => Some("0"),
                "ones" => Some("1"),
                "full" => arrays.get(1).copied(),
                _ => None,
            };
            if let Some(number) = number.filter(|number| number.parse::<f64>().is_ok()) {
                return Some(Answer::Line(format!("{line} = {number}")));
            }
            Answer::LineWhere(line, "as an input; `shardc run` takes its values")
        }
        "withshardingconstraint" | "deviceput" | "reshard" => {
            let axes = spec().unwrap_or_default();
            let count = axes.len().clamp(1, letters.len());
            let of = |dims: &[String]| brackets(&dims.iter().map(String::as_str).collect::<Vec<_>>(), &axes);
            match dims.filter(|dims| dims.len() >= axes.len()) {
                Some(dims) => Answer::Line(format!("{target}{} = {}", of(&dims), first?)),
                None => {
                    let line = format!("{target}{} = {}", of(&letters[..count]), first?);
                    Answer::LineWhere(line, "with the dims of the array")
                }
            }
        }
        "redistribute" => match (dims, call.positional.last().or(call.keywords.last().map(|(_, value)| value))) {
            (Some(dims), Some(spec)) => {
                let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
                Answer::Line(format!("{target}{} = {}", placed(&dims, spec, known)?, first?))
            }
            _ => Answer::Advice("write a move to the other layout: `C[I, J_X] = A`"),
        },
        "scan" | "foriloop" | "whileloop" => {
            let length = keyword(&["length"]).filter(|length| is_integer(length)).unwrap_or("4");
            Answer::Say(format!("write `repeat {length} {{`, the statements of the body, and `}}`"))
        }
        "t" | "transpose" | "swapaxes" | "permute" | "moveaxis" if call.is_factor || call.has_layout => {
            Answer::CallWhere(first?.to_owned(), "without a transposition: dims have names")
        }
        "t" | "transpose" | "swapaxes" | "permute" | "moveaxis" => {
            let dims = dims.filter(|dims| dims.len() == 2).unwrap_or_else(|| letters[..2].to_vec());
            let line = format!("{target}[{}, {}]_? = {}", dims[1], dims[0], first?);
            Answer::LineWhere(line, "with the dims in the order of the result")
        }
        "reshape" | "view" | "flatten" | "ravel" => match dims.filter(|dims| dims.len() > 1) {
            Some(dims) => Answer::Say(format!(
                "split and merge dims by declaring a composite: `dims {{N = {}}}`, `{target}[N] = {}`",
                dims.join("*"),
                first?
            )),
            None => Answer::Advice("split and merge dims by declaring a composite: `dims {N = B*S}`"),
        },
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
            let name = if plain == "logsoftmax" { "log_softmax" } else { plain.as_str() };
            let place = keyword(&["axis", "dim"]).or_else(|| arrays.get(1).copied());
            match (counted(place), &dims) {
                (Some(dim), _) => Answer::Call(format!("{name}_{dim}({})", first?)),
                (None, Some(dims)) if place.is_none() && dims.len() > 1 && plain != "softmax" => {
                    Answer::Call(format!("{name}_{{{}}}({})", dims.join(","), first?))
                }
                _ => Answer::Say(format!("write `{name}_J({})` with the dim to reduce for `J`", first?)),
            }
        }
        "rmsnorm" => Answer::Advice(
            "define it: `def rms_norm(x[B, D], g[D]) {`, `return x .* rsqrt(mean_D(x ** 2) + 1e-6) .* g` and `}`",
        ),
        "layernorm" => Answer::Advice(
            "define it: `def layer_norm(x[B, D], g[D]) {`, `c = x - mean_D(x)`, \
             `return c .* rsqrt(mean_D(c ** 2) + 1e-6) .* g` and `}`",
        ),
        // PyTorch's embedding has the table second.
        "embedding" => match arrays.get(1).and_then(|table| known.dims(table)).as_deref() {
            Some([rows, ..]) => Answer::Call(format!("take_{rows}({}, {})", arrays.get(1)?, first?)),
            _ => Answer::Advice("write a lookup of rows as `take_V(E, ids)`, with the dim of the rows for `V`"),
        },
        "take" | "gather" | "indexselect" | "takealongaxis" => {
            let place = keyword(&["axis", "dim"]).or_else(|| arrays.get(2).copied());
            match (counted(place), arrays.get(1)) {
                (Some(dim), Some(ids)) => Answer::Call(format!("take_{dim}({}, {ids})", first?)),
                _ => Answer::Advice("write a lookup of rows as `take_V(E, ids)`, with the dim of the rows for `V`"),
            }
        }
        "concatenate" | "concat" | "cat" | "hstack" | "vstack" => Answer::Advice(
            "write `concat_{S,R->T}(a, b)`, with the joined dims, and declare `T` with their length, as `dims {T: S+R}`",
        ),
        "stack" => Answer::Advice("write `stack_K(a, b)`, with a declared dim for `K` that counts the arrays"),
        "split" | "chunk" | "dynamicslice" | "slice" | "sliceindim" | "narrow" => Answer::Advice(
            "write each part as `slice_{S->T}(x, 0)`, with the dim `T` of the part and its first element",
        ),
        "pad" => Answer::Advice("write `pad_{S->T}(x, 1)`, with the longer dim `T` and the number of zeros before it"),
        "scatter" | "scatteradd" | "segmentsum" => {
            Answer::Advice("write a sum of rows as a product with a one-hot array: `bf16(onehot_V(ids)) * x`")
        }
        "roll" => match counted(keyword(&["axis", "dim", "dims"]).or_else(|| arrays.get(2).copied())) {
            Some(dim) => Answer::CallWhere(
                format!("shift_{dim}({}, {})", first?, arrays.get(1)?),
                "which fills with zeros instead of the other end",
            ),
            None => Answer::Advice("write `shift_S(x, 1)`, which fills with zeros instead of the other end"),
        },
        "flip" | "rev" | "reverse" if is_module => {
            match counted(keyword(&["axis", "dims"]).or_else(|| arrays.get(1).copied())) {
                Some(dim) => Answer::Call(format!("reverse_{dim}({})", first?)),
                None => Answer::Advice("write `reverse_S(x)`, with the dim for `S`"),
            }
        }
        "argmax" | "argmin" => match counted(keyword(&["axis", "dim"]).or_else(|| arrays.get(1).copied())) {
            Some(dim) => Answer::Call(format!("{plain}_{dim}({})", first?)),
            None => Answer::Say(format!("write `{plain}_V({})`, with the dim for `V`", first?)),
        },
        "topk" => Answer::Advice(
            "write `top_{E->K}(x)` for the elements and `argtop_{E->K}(x)` for their positions, and declare `K`",
        ),
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
        "onehot" => Answer::CallWhere(format!("bf16(onehot_D({}))", first?), DIM_THAT_COMES),
        "iota" if arrays.len() == 1 && !is_integer(first?) => Answer::Call(format!("iota_{}", first?)),
        "iota" | "broadcastediota" => Answer::CallWhere("iota_D".to_owned(), DIM_THAT_COMES),
        "tril" => Answer::Advice("write a mask with comparisons: `where(iota_I >= iota_J, A, 0)`"),
        "triu" => Answer::Advice("write a mask with comparisons: `where(iota_I <= iota_J, A, 0)`"),
        "cumsum" => match counted(keyword(&["axis", "dim"]).or_else(|| arrays.get(1).copied())) {
            Some(dim) => Answer::Call(format!("cumsum_{dim}({})", first?)),
            None => Answer::Say(format!("write `cumsum_S({})`, with the dim for `S`", first?)),
        },
        "jit" | "grad" | "vmap" | "shardmap" | "pjit" => {
            Answer::Advice("programs have no transformations; write the statements one after the other")
        }
        same if is_module && SAME.contains(&same) => Answer::Call(format!("{same}({})", arrays.join(", "))),
        _ => return None,
    })
}

fn is_integer(text: &str) -> bool {
    let digits = text.trim_start_matches('-');
    !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit())
}
