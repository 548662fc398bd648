//! Finds repeated rows of a table, such as those of equal layers.

use std::ops::Range;

/// Consecutive rows and the number of times that they are repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The first occurrence.
    pub(super) rows: Range<usize>,
    /// The number of occurrences.
    pub(super) times: usize,
}

/// The fewest occurrences that are folded.
const LEAST: usize = 3;
/// The most rows of one occurrence.
const LONGEST: usize = 200;

/// Splits rows into runs. Rows that differ only in the numbers of their names count as equal.
///
/// - `rows`: the names and the figures of each row.
pub(super) fn runs<T: PartialEq>(rows: &[(String, T)]) -> Vec<Run> {
    let rows: Vec<(String, &T)> = rows.iter().map(|(names, figures)| (without_numbers(names), figures)).collect();
    let (mut runs, mut at) = (Vec::new(), 0);
    while at < rows.len() {
        let repeated = |length: usize| {
            let first = &rows[at..at + length];
            rows[at..].chunks_exact(length).take_while(|chunk| *chunk == first).count()
        };
        let lengths = 1..=((rows.len() - at) / LEAST).min(LONGEST);
        let all = lengths.map(|length| (length, repeated(length))).filter(|(_, times)| *times >= LEAST);
        // The most rows, of these the shortest part: the last maximum is taken.
        let (length, times) = all.rev().max_by_key(|(length, times)| length * times).unwrap_or((1, 1));
        runs.push(Run { rows: at..at + length, times });
        at += length * times;
    }
    runs
}

/// `x12[B_X, D]` as `x#[B_X, D]`.
fn without_numbers(names: &str) -> String {
    let mut text = String::with_capacity(names.len());
    for c in names.chars() {
        match c.is_ascii_digit() {
            true if text.ends_with('#') => {}
            true => text.push('#'),
            false => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(names: &[&str]) -> Vec<(Range<usize>, usize)> {
        let rows: Vec<(String, ())> = names.iter().map(|name| ((*name).to_owned(), ())).collect();
        runs(&rows).into_iter().map(|run| (run.rows, run.times)).collect()
    }

    #[test]
    fn equal_layers_are_one_run() {
        assert_eq!(folded(&["in", "h0", "x1", "h1", "x2", "h2", "x3", "out"]), [(0..1, 1), (1..3, 3), (7..8, 1)]);
        assert_eq!(folded(&["h0", "x1", "h1", "x2"]), [(0..1, 1), (1..2, 1), (2..3, 1), (3..4, 1)]);
        assert_eq!(folded(&["a1", "a2", "a3", "a10", "b"]), [(0..1, 4), (4..5, 1)]);
        assert_eq!(folded(&[]), []);
    }

    /// Every row is in one run, in order, and what is repeated is equal.
    #[test]
    fn runs_are_the_rows() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..300 {
            let rows: Vec<(String, u8)> =
                (0..random.usize(0..30)).map(|at| (format!("{}{at}", random.u8(0..2)), random.u8(0..2))).collect();
            let mut at = 0;
            for run in runs(&rows) {
                assert_eq!(run.rows.start, at);
                let length = run.rows.len();
                for place in at..at + length * run.times {
                    let first = &rows[at + (place - at) % length];
                    assert_eq!(without_numbers(&rows[place].0), without_numbers(&first.0));
                    assert_eq!(rows[place].1, first.1);
                }
                at += length * run.times;
            }
            assert_eq!(at, rows.len());
        }
    }
}
