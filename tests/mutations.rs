//! One mistake, one report: right programs with a single slip somewhere, as a typing reader makes it.

mod common;

use common::{errors, small_examples};
use std::collections::BTreeMap;
use std::ops::Range;

/// The words and signs of a text with their places, comments left out.
fn tokens(source: &str) -> Vec<Range<usize>> {
    let mut tokens = Vec::new();
    let mut comment = false;
    let mut word: Option<usize> = None;
    for (at, c) in source.char_indices() {
        comment = if c == '\n' { false } else { comment || c == '#' };
        if !comment && (c.is_ascii_alphanumeric() || c == '_') {
            word.get_or_insert(at);
            continue;
        }
        tokens.extend(word.take().map(|start| start..at));
        if !comment && !c.is_whitespace() {
            tokens.push(at..at + c.len_utf8());
        }
    }
    tokens
}

/// The slips at one token: dropped, doubled, misspelt, another subscript.
fn slips(source: &str, token: &Range<usize>) -> Vec<(&'static str, String)> {
    let text = &source[token.clone()];
    let with = |new: &str| format!("{}{new}{}", &source[..token.start], &source[token.end..]);
    let mut slips = vec![("dropped", with("")), ("doubled", with(&format!("{text} {text}")))];
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        slips.push(("misspelt", with(&format!("{text}q"))));
        if let Some((dim, _)) = text.split_once('_') {
            slips.push(("no subscript", with(dim)));
            slips.push(("wrong subscript", with(&format!("{dim}_Q"))));
        }
    }
    slips
}

#[test]
#[expect(clippy::print_stdout, reason = "how many slips were tried is worth reading")]
fn one_mistake_brings_one_report() {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let mut cascades = Vec::new();
    for path in small_examples() {
        let source = std::fs::read_to_string(&path).expect("an example");
        for token in tokens(&source) {
            for (slip, mutant) in slips(&source, &token) {
                let found = errors(&mutant);
                *counts.entry(found.len()).or_default() += 1;
                if found.len() > 1 {
                    let line = source[..token.start].matches('\n').count();
                    let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
                    let text = mutant.lines().nth(line).unwrap_or_default().to_owned();
                    cascades.push(format!("{name}:{} {slip}: {text}    {}", line + 1, found.join(", ")));
                }
            }
        }
    }
    let all: usize = counts.values().sum();
    println!("{all} slips, by the errors they bring: {counts:?}");
    assert!(all > 300, "{all} slips");
    assert!(cascades.is_empty(), "{} of {all}:\n{}", cascades.len(), cascades.join("\n"));
}
