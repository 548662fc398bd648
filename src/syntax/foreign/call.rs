//! Calls of other systems, read from the text of a statement.

use crate::dtype::DType;
use crate::syntax::CollectiveName;
use crate::syntax::error::dtype_meant;
use crate::syntax::known::{Known, pieces};
use crate::syntax::split::is_blank;
use std::ops::Range;

/// A parsed call.
pub(super) struct Call<'a> {
    /// The modules, or the array before a method: `jnp`, `x`.
    pub(super) path: &'a str,
    /// The last name.
    pub(super) name: &'a str,
    pub(super) positional: Vec<&'a str>,
    pub(super) keywords: Vec<(&'a str, &'a str)>,
    /// The arguments of the function that the call results in: `x` of `vmap(f)(x)`.
    pub(super) behind: Option<&'a str>,
    /// The assigned name of the statement.
    pub(super) target: &'a str,
    /// Whether the statement states the layout of its result.
    pub(super) has_layout: bool,
    /// Whether the call is a factor of a product.
    pub(super) is_factor: bool,
    /// Whether the call is the whole value of the statement.
    pub(super) is_whole: bool,
    pub(super) known: Known<'a>,
}

/// Modules with functions of other systems.
const MODULES: [(&str, &str); 18] = [
    ("jax", "JAX"),
    ("jnp", "JAX"),
    ("lax", "JAX"),
    ("np", "NumPy"),
    ("numpy", "NumPy"),
    ("torch", "PyTorch"),
    ("nn", "PyTorch"),
    ("F", "PyTorch"),
    ("functional", "PyTorch"),
    ("dist", "PyTorch"),
    ("distributed", "PyTorch"),
    ("funcol", "PyTorch"),
    ("collectives", "another system"),
    ("comm", "MPI"),
    ("tf", "TensorFlow"),
    ("mx", "MLX"),
    ("math", "Python"),
    ("einops", "einops"),
];

/// Beginnings of names without a module.
const NAMES: [(&str, &str); 16] = [
    ("nccl", "NCCL"),
    ("MPI_", "MPI"),
    ("psum", "JAX"),
    ("pmean", "JAX"),
    ("pmax", "JAX"),
    ("pmin", "JAX"),
    ("ppermute", "JAX"),
    ("with_sharding_constraint", "JAX"),
    ("shard_map", "JAX"),
    ("vmap", "JAX"),
    ("pjit", "JAX"),
    ("jit", "JAX"),
    ("device_put", "JAX"),
    ("distribute_tensor", "PyTorch"),
    ("print", "Python"),
    ("display", "Python"),
];

impl<'a> Call<'a> {
    /// The name without case, `_`, and the prefix of a library: `allreduce` of `ncclAllReduce`.
    pub(super) fn plain(&self) -> String {
        let name = self.subscripted().map_or(self.name, |(name, _)| name);
        let plain: String = name.chars().filter(|c| *c != '_').collect::<String>().to_lowercase();
        let rest = plain.strip_prefix("nccl").or_else(|| plain.strip_prefix("mpi"));
        rest.map_or_else(|| plain.clone(), str::to_owned)
    }

    /// A collective in lower case and its axes: `all_gather_X`.
    pub(super) fn subscripted(&self) -> Option<(&'a str, &'a str)> {
        let (name, axes) = self.name.rsplit_once('_')?;
        let plain = name.replace('_', "").to_lowercase();
        let is_ours = CollectiveName::ALL.iter().any(|kind| kind.word() == name);
        (!is_ours && self.known.is_axes(axes) && is_collective(&plain)).then_some((name, axes))
    }

    /// Whether the path is a module and not an array.
    pub(super) fn is_module(&self) -> bool {
        let root = self.path.split('.').next().unwrap_or_default();
        let is_known = MODULES.iter().any(|(module, _)| *module == root) || self.path.contains('.');
        let takes_array = || self.positional.first().is_some_and(|first| self.known.is_array(first));
        !self.path.is_empty() && !self.known.is_array(self.path) && (is_known || takes_array())
    }

    pub(super) fn is_method(&self) -> bool {
        !self.path.is_empty() && !self.is_module()
    }

    /// The arrays: the one before a method, and the positional arguments.
    pub(super) fn arrays(&self) -> Vec<&'a str> {
        self.is_method().then_some(self.path).into_iter().chain(self.positional.iter().copied()).collect()
    }

    pub(super) fn keyword(&self, names: &[&str]) -> Option<&'a str> {
        self.keywords.iter().find(|(key, _)| names.contains(key)).map(|(_, value)| *value)
    }

    /// The system that has the function.
    fn system(&self) -> Option<&'static str> {
        let root = self.path.split('.').next().unwrap_or_default();
        let by_module = MODULES.iter().find(|(module, _)| *module == root && !self.known.is_array(root));
        let by_name = || NAMES.iter().find(|(start, _)| self.path.is_empty() && self.name.starts_with(start));
        by_module.or_else(by_name).map(|(_, system)| *system)
    }

    /// What the call is.
    pub(super) fn label(&self) -> String {
        let kind = if is_collective(&self.plain()) { "collective" } else { "function" };
        match self.system() {
            _ if self.name == "T" => "dims have names".to_owned(),
            Some(system) => format!("a {kind} of {system}"),
            None if self.is_method() => "arrays have no methods".to_owned(),
            None => format!("a {kind} of another system"),
        }
    }

    /// Path and name.
    pub(super) fn dotted(&self) -> String {
        if self.path.is_empty() { self.name.to_owned() } else { format!("{}.{}", self.path, self.name) }
    }

    /// The assigned name.
    pub(super) fn target(&self) -> &'a str {
        if self.target.is_empty() { "C" } else { self.target }
    }

    /// The dims of the first array.
    pub(super) fn dims(&self) -> Option<Vec<String>> {
        self.known.dims(self.arrays().first()?)
    }

    /// The dim of the first array that an argument counts from the front, or from the back.
    pub(super) fn counted(&self, place: Option<&str>) -> Option<String> {
        let (dims, place) = (self.dims()?, place?.parse::<isize>().ok()?);
        let place = if place < 0 { place.checked_add_unsigned(dims.len())? } else { place };
        dims.get(usize::try_from(place).ok()?).cloned()
    }

    /// The layout that an argument states for arrays: the subscripts of `P('X', None)`.
    pub(super) fn partition(&self) -> Option<Vec<String>> {
        let values = self.keywords.iter().map(|(_, value)| *value);
        self.positional.iter().copied().chain(values).find_map(partition)
    }
}

/// Whether a name, without case and `_`, is that of a collective.
fn is_collective(plain: &str) -> bool {
    let all = ["psum", "pmean", "pmax", "pmin", "ppermute", "collectivepermute", "broadcast", "bcast", "barrier"];
    let starts = ["allreduce", "iallreduce", "psumscatter", "reducescatter", "allgather", "alltoall"];
    all.contains(&plain) || starts.iter().any(|start| plain.starts_with(start))
}

/// The dtype of `jnp.float32` or `'int8'`.
pub(super) fn dtype_of(text: &str) -> Option<DType> {
    let word = text.rsplit('.').next()?.trim_matches(['\'', '"']);
    word.parse().ok().or_else(|| dtype_meant(word)?.parse().ok())
}

/// The calls of a statement, outermost first, with their places.
pub(super) fn calls<'a>(text: &'a str, known: Known<'a>) -> impl Iterator<Item = (Range<usize>, Call<'a>)> {
    let (target, value) = match text.split_once('=') {
        Some((before, value)) => (before.trim_matches(is_blank), value),
        None => ("", text),
    };
    let (name, layout) = target.split_at(target.find('[').unwrap_or(target.len()));
    let (target, has_layout) = if is_name(name) { (name, !layout.is_empty()) } else { ("", false) };
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let is_factor = |range: &Range<usize>| {
        let (before, after) = (text[..range.start].trim_end(), text[range.end..].trim_start());
        before.ends_with(['@', '*']) || after.starts_with(['@', '*'])
    };
    text.match_indices(['(', '.']).filter_map(move |(at, sign)| {
        // A call may have blanks before its bracket.
        let last = if sign == "(" { text[..at].trim_end_matches(is_blank).len() } else { at };
        let start = text[..last]
            .rfind(|c: char| !is_part(c))
            .map_or(0, |before| before + text[before..].chars().next().map_or(1, char::len_utf8));
        if sign == "." {
            // A transposition is not a call.
            let is_alone = text[at + 1..].starts_with('T') && !text[at + 2..].starts_with(is_part);
            return (is_alone && start < at).then(|| {
                let (path, range) = (&text[start..at], start..at + 2);
                let is_factor = is_factor(&range);
                let is_whole = text[range.clone()] == *value.trim_matches(is_blank);
                let (positional, keywords, behind) = (vec![], vec![], None);
                (
                    range,
                    Call {
                        path,
                        name: "T",
                        positional,
                        keywords,
                        behind,
                        target,
                        has_layout,
                        is_factor,
                        is_whole,
                        known,
                    },
                )
            });
        }
        let (path, name) = text[start..last].rsplit_once('.').unwrap_or(("", &text[start..last]));
        if !is_name(name) || !path.split('.').all(|part| path.is_empty() || is_name(part)) {
            return None;
        }
        let mut end = closing(text, at)?;
        let (mut positional, mut keywords) = (Vec::new(), Vec::new());
        for argument in pieces(&text[at + 1..end]) {
            match argument.split_once('=').filter(|(key, value)| is_name(key.trim()) && !value.starts_with('=')) {
                Some((key, value)) => keywords.push((key.trim(), value.trim())),
                None => positional.push(argument),
            }
        }
        let mut behind = None;
        if text[end + 1..].starts_with('(') {
            let close = closing(text, end + 1)?;
            behind = Some(&text[end + 2..close]);
            end = close;
        }
        let is_factor = is_factor(&(start..end + 1));
        let is_whole = text[start..=end] == *value.trim_matches(is_blank);
        let call = Call { path, name, positional, keywords, behind, target, has_layout, is_factor, is_whole, known };
        Some((start..end + 1, call))
    })
}

/// The first dotted name of a statement: `x.shape`.
pub(super) fn attribute(text: &str) -> Option<Range<usize>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    text.match_indices('.').find_map(|(at, _)| {
        let start = text[..at].trim_end_matches(is_part).len();
        let end = text[at..].find(|c| !is_part(c)).map_or(text.len(), |length| at + length);
        text[start..end].split('.').all(is_name).then_some(start..end)
    })
}

/// The matching closing bracket.
pub(super) fn closing(text: &str, open: usize) -> Option<usize> {
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

pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

pub(super) fn is_integer(text: &str) -> bool {
    let digits = text.trim_start_matches('-');
    !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit())
}

/// Whether an expression has an operator outside brackets, so that it needs brackets as an operand.
pub(super) fn is_loose(text: &str) -> bool {
    let mut depth = 0usize;
    text.chars().any(|c| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(c, '+' | '-' | '*' | '/' | '@' | '<' | '>' | ' ')
    })
}

/// An expression as an operand of an operator.
pub(super) fn operand(text: &str) -> String {
    if is_loose(text) { format!("({text})") } else { text.to_owned() }
}

/// The axes of `'X'`, `('X', 'Y')` or `X`, as a subscript.
pub(super) fn axes(text: &str) -> Option<String> {
    let names: Vec<&str> =
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|name| !name.is_empty()).collect();
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
pub(super) fn partition(spec: &str) -> Option<Vec<String>> {
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
pub(super) fn brackets<T: AsRef<str>>(dims: &[T], axes: &[String]) -> String {
    let dim = |(place, dim): (usize, &T)| format!("{}{}", dim.as_ref(), axes.get(place).map_or("", String::as_str));
    format!("[{}]", dims.iter().enumerate().map(dim).collect::<Vec<_>>().join(", "))
}

/// `[I_X, J]` from placements such as `(Shard(0), Replicate())`, one for each axis of the mesh.
pub(super) fn placed<T: AsRef<str>>(dims: &[T], spec: &str, known: Known<'_>) -> Option<String> {
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
