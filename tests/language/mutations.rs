//! One error, one report: correct programs with a single typing slip.
//!
//! `SHARDC_SLIPS=100000 cargo test --release --test language mutations -- --nocapture` tries this number of random
//! slips in all examples and prints the worst.

use crate::common::{errors, programs, small_examples};
use shardc::compiler;
use shardc::diag::Severity;
use shardc::dtype::DType;
use std::collections::BTreeMap;
use std::ops::Range;

/// The tokens of a text with their positions, without comments.
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

/// The slips at one token: dropped, duplicated, misspelt, with another subscript or type.
fn slips(source: &str, token: &Range<usize>) -> Vec<(&'static str, String)> {
    let text = &source[token.clone()];
    let with = |new: &str| format!("{}{new}{}", &source[..token.start], &source[token.end..]);
    let mut slips = vec![("dropped", with("")), ("doubled", with(&format!("{text} {text}")))];
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        slips.push(("misspelt", with(&format!("{text}q"))));
        if text.parse::<DType>().is_ok() {
            slips.extend(
                ["f16", "i32"].into_iter().filter(|other| *other != text).map(|other| ("another type", with(other))),
            );
        }
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

/// A token or character that is dropped, duplicated or swapped with the next.
fn random_slip(random: &mut fastrand::Rng, source: &str) -> (Range<usize>, String) {
    let tokens = tokens(source);
    let place = random.usize(..tokens.len());
    let token = tokens[place].clone();
    let next = tokens.get(place + 1).filter(|next| !source[token.end..next.start].contains('\n')).cloned();
    let text = &source[token.clone()];
    // Tokens of the examples are ASCII or single characters.
    let at = if text.is_ascii() { random.usize(..text.len()) } else { 0 };
    let end = if text.is_ascii() { at + 1 } else { text.len() };
    let (token, new) = match (random.u8(..6), next) {
        (0, _) => (token, String::new()),
        (1, _) => (token.clone(), format!("{text} {text}")),
        (2, Some(next)) => {
            let between = &source[token.end..next.start];
            (token.start..next.end, format!("{}{between}{text}", &source[next]))
        }
        (2 | 3, _) => (token, format!("{}{}", &text[..at], &text[end..])),
        (4, _) => (token, format!("{}{}", &text[..end], &text[at..])),
        (_, _) => {
            let mut letters: Vec<char> = text.chars().collect();
            let last = letters.len() - 1;
            letters.swap(random.usize(..=last), last);
            (token, letters.into_iter().collect())
        }
    };
    let mutant = format!("{}{new}{}", &source[..token.start], &source[token.end..]);
    (token, mutant)
}

/// Each report of a random slip has a position, and more than two reports are rare.
#[test]
#[expect(clippy::print_stdout, reason = "the worst slips are worth reading")]
fn a_random_slip_brings_few_reports() {
    let most: usize = std::env::var("SHARDC_SLIPS").ok().and_then(|count| count.parse().ok()).unwrap_or(2000);
    let sources: Vec<(String, String)> = programs("examples")
        .into_iter()
        .map(|path| (crate::common::short_name(&path), std::fs::read_to_string(&path).expect("an example")))
        .collect();
    let mut random = fastrand::Rng::with_seed(11);
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let mut worst: Vec<(usize, String)> = Vec::new();
    for _ in 0..most {
        let (name, source) = &sources[random.usize(..sources.len())];
        let (place, mutant) = random_slip(&mut random, source);
        let (_, diagnostics) = compiler::check(&mutant);
        let errors: Vec<&str> = diagnostics
            .iter()
            .filter(|found| found.severity == Severity::Error)
            .inspect(|found| assert!(!found.labels.is_empty(), "{} has no place:\n{mutant}", found.code))
            .map(|found| found.code.as_str())
            .collect();
        *counts.entry(errors.len()).or_default() += 1;
        if errors.len() > 2 {
            let line = source[..place.start].matches('\n').count();
            let text = mutant.lines().nth(line).unwrap_or_default();
            worst.push((errors.len(), format!("{name}:{} {text}    {}", line + 1, errors.join(", "))));
        }
    }
    worst.sort_by(|a, b| b.cmp(a));
    worst.dedup();
    println!("{most} slips, by the errors they bring: {counts:?}");
    let shown: Vec<&str> = worst.iter().take(20).map(|(_, text)| text.as_str()).collect();
    println!("{}", shown.join("\n"));
    let many: usize = counts.range(3..).map(|(_, count)| count).sum();
    assert!(many * 200 <= most, "{many} of {most} slips bring more than two errors:\n{}", shown.join("\n"));
}
