//! Names that the language can read.

use crate::dtype::DType;
use itertools::Itertools;

/// Letters, digits and single underscores of a name from elsewhere; `params['layers']['wq']` is `params_layers_wq`.
pub(super) fn identifier(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).join("_");
    if words.starts_with(|letter: char| letter.is_ascii_alphabetic()) { words } else { format!("v{words}") }
}

/// The words that begin something else where a name is expected.
pub(super) fn is_reserved(name: &str) -> bool {
    const WORDS: [&str; 21] = [
        "mesh",
        "dims",
        "output",
        "repeat",
        "def",
        "kernel",
        "return",
        "expect",
        "limit",
        "link",
        "axis",
        "by",
        "using",
        "donated",
        "Mesh",
        "rename",
        "open",
        "iota",
        "softmax",
        "log_softmax",
        "where",
    ];
    const FUNCTIONS: [&str; 13] =
        ["sum", "prod", "max", "min", "mean", "any", "all", "var", "logsumexp", "iota", "open", "rename", "softmax"];
    const PICKS: [&str; 14] = [
        "take", "scatter", "slice", "pad", "shift", "roll", "concat", "stack", "one_hot", "reverse", "cumsum",
        "argmax", "argmin", "square",
    ];
    const COLLECTIVES: [&str; 5] = ["AllGather", "ReduceScatter", "AllReduce", "AllToAll", "Broadcast"];
    WORDS.contains(&name)
        || PICKS.contains(&name)
        || FUNCTIONS.iter().any(|word| name == *word || name.starts_with(&format!("{word}_")))
        || COLLECTIVES.iter().any(|word| name.starts_with(word))
        || name.parse::<DType>().is_ok()
        || crate::function::Unary::ALL.iter().any(|unary| unary.facts().word == name)
        || matches!(name, "and" | "or" | "not")
}

/// The name, or the first of `name_2`, `name_3` and so on that can be taken.
pub(super) fn free_name(name: &str, mut take: impl FnMut(&str) -> bool) -> String {
    let mut numbered = (2..).map(|number| format!("{name}_{number}"));
    let first = Some(name.to_owned()).filter(|name| take(name));
    first.or_else(|| numbered.find(|name| take(name))).unwrap_or_default()
}
