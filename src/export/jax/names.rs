//! Python names for arrays.

use std::collections::{BTreeMap, BTreeSet};

/// Python keywords, and the names that generated modules define.
const TAKEN: &str = "\
    False None True and as assert async await break class continue def del elif else except finally for from global \
    if import in is lambda nonlocal not or pass raise return try while with yield jax jnp np lax P os time functools \
    sys AxisType NamedSharding range max min print float int zip make_mesh device run dense constrained main inputs \
    closed mesh layer carry per_layer MESH INPUTS OUTPUTS check differences to_integer rows_of abs len tuple spread KERNELS";

/// Converts a name to a Python identifier: letters, digits and `_`; a prime becomes `_p`.
pub(super) fn identifier(name: &str) -> String {
    let mut word = String::new();
    for character in name.chars() {
        match character {
            '\'' | '’' => word.push_str("_p"),
            _ if character == '_' || character.is_ascii_alphanumeric() => word.push(character),
            _ if character.is_alphanumeric() => {
                word.extend(character.escape_unicode().filter(char::is_ascii_alphanumeric))
            }
            _ => word.push('_'),
        }
    }
    let starts = word.chars().next().is_some_and(|first| first.is_ascii_alphabetic());
    if !starts {
        word.insert(0, 't');
    }
    if TAKEN.split(' ').any(|taken| taken == word) || word.starts_with("__") {
        word.push('_');
    }
    word
}

/// The current owner of each name. A name may be reused when its owner is no longer needed.
#[derive(Debug)]
pub(super) struct Names<T> {
    owners: BTreeMap<String, T>,
    /// Names that cannot be given.
    fixed: BTreeSet<String>,
}

impl<T> Names<T> {
    pub(super) fn new() -> Names<T> {
        Names { owners: BTreeMap::new(), fixed: BTreeSet::new() }
    }

    /// A name that is never given again.
    pub(super) fn fix(&mut self, name: &str) -> String {
        let word = self.free(name, |_| false);
        self.fixed.insert(word.clone());
        word
    }

    /// A name for `owner`: that of an owner for which `is_done` holds, or an unused one.
    pub(super) fn give(&mut self, name: &str, owner: T, is_done: impl Fn(&T) -> bool) -> String {
        let word = self.free(name, is_done);
        self.owners.insert(word.clone(), owner);
        word
    }

    fn free(&self, name: &str, is_done: impl Fn(&T) -> bool) -> String {
        let word = identifier(name);
        let is_free = |word: &String| !self.fixed.contains(word) && self.owners.get(word).is_none_or(&is_done);
        let numbered = (2u64..).map(|number| format!("{word}_{number}"));
        std::iter::once(word.clone()).chain(numbered).find(is_free).unwrap_or(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_python_takes() {
        for (name, word) in [
            ("x", "x"),
            ("W'", "W_p"),
            ("lambda", "lambda_"),
            ("W.2", "W_2"),
            ("%4", "t_4"),
            ("relu(T)", "relu_T_"),
            ("ß", "udf"),
            ("run", "run_"),
        ] {
            assert_eq!(identifier(name), word);
        }
    }

    #[test]
    fn a_name_is_given_again_once_it_is_not_needed() {
        let mut names = Names::new();
        assert_eq!(names.fix("W"), "W");
        assert_eq!(names.give("W", 1, |_| false), "W_2");
        assert_eq!(names.give("W", 2, |_| false), "W_3");
        assert_eq!(names.give("W", 3, |owner| *owner == 1), "W_2");
    }
}
