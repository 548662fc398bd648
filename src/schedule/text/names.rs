//! Names in the text form, for printing and parsing.

use crate::mesh::{AxisId, Mesh};
use crate::schedule::Array;
use std::collections::BTreeMap;

/// Labels of all arrays: the name, quoted if it is not a word; `x@2` is the second array named x.
pub(in crate::schedule) fn array_names(arrays: &[Array]) -> Vec<String> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let label = |array| numbered(array, &mut seen);
    arrays.iter().map(|array| array.name.as_str()).map(label).collect()
}

fn numbered<'a>(name: &'a str, seen: &mut BTreeMap<&'a str, usize>) -> String {
    let count = seen.entry(name).or_default();
    *count += 1;
    label(name, *count)
}

/// Label of the `count`th array of a name, from 1.
pub(super) fn label(name: &str, count: usize) -> String {
    let plain = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.'".contains(letter));
    let text = if plain { name.to_owned() } else { quoted(name) };
    if count == 1 { text } else { format!("{text}@{count}") }
}

/// The name of a dim, quoted if it is not a word.
pub(in crate::schedule) fn dim_text(name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '\'');
    if plain { name.to_owned() } else { quoted(name) }
}

fn quoted(name: &str) -> String {
    let escaped = name.chars().map(|letter| match letter {
        '"' | '\\' => format!("\\{letter}"),
        '\n' => "\\n".to_owned(),
        letter => letter.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// The name between quotes.
pub(super) fn unquoted(inside: &str) -> String {
    let mut name = String::with_capacity(inside.len());
    let mut letters = inside.chars();
    while let Some(letter) = letters.next() {
        match (letter, letter == '\\') {
            (_, true) => name.extend(letters.next().map(|next| if next == 'n' { '\n' } else { next })),
            (letter, false) => name.push(letter),
        }
    }
    name
}

/// The coordinate of an axis: `x` for X; the name itself for longer names, and if an axis x exists.
pub(in crate::schedule) fn coordinate(mesh: &Mesh, axis: AxisId) -> String {
    let name = &mesh.axis(axis).name;
    let small = name.to_lowercase();
    if name.chars().count() == 1 && mesh.axis_named(&small).is_none() { small } else { name.clone() }
}

/// The axis of a coordinate.
pub(super) fn axis_of(mesh: &Mesh, coordinate: &str) -> Option<AxisId> {
    let large = || (coordinate.len() == 1).then(|| mesh.axis_named(&coordinate.to_uppercase()))?;
    mesh.axis_named(coordinate).or_else(large)
}

/// Resolves axes written as `XY`, or one by its name.
pub(super) fn axes_of_run(mesh: &Mesh, run: &str) -> Option<Vec<AxisId>> {
    match mesh.axis_named(run) {
        Some(axis) => Some(vec![axis]),
        None => run.chars().map(|letter| mesh.axis_named(letter.encode_utf8(&mut [0; 4]))).collect(),
    }
}
