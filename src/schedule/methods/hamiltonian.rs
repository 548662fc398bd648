//! Two edge-disjoint Hamiltonian cycles of a torus of two axes.
//!
//! Rows are positions along the longer axis, columns along the shorter one. The first cycle visits row after row: it
//! enters a row at one column, takes all links of the row but one, and leaves at the adjacent column, one lower in the
//! first rows and one higher in the last ones, so that over all rows it has gone once round the columns.
//!
//! The second cycle has the remaining links: in each row the one between where the first cycle enters and leaves, and
//! between rows all but the one by which the first cycle leaves. It goes down the columns and steps aside where the first
//! cycle enters. That position moves round once, so each of its c - 1 ways down ends one way further on: together they
//! form one cycle.
//!
//! The construction needs as many rows as columns, or an even number more. Other lengths also have two such cycles (A.
//! Kotzig, "Every Cartesian product of two circuits is decomposable into two Hamiltonian circuits", 1973), but not by
//! this construction.

/// Both cycles on rings of these lengths, as ranks with the first ring major; `None` where the construction fails.
///
/// Rings of two have one cable instead of two links. The lengths are both even or both odd.
pub(super) fn cycles(lengths: [u32; 2]) -> Option<[Vec<u32>; 2]> {
    let [first, second] = lengths;
    if first.min(second) < 3 || first % 2 != second % 2 {
        return None;
    }
    let (rows, columns) = (first.max(second), first.min(second));
    let rank = |(row, column): (u32, u32)| if first >= second { row * columns + column } else { column * rows + row };
    let aside = |column: u32, step: Step| match step {
        Step::Down => (column + columns - 1) % columns,
        Step::Up => (column + 1) % columns,
    };
    let mut along = Vec::new();
    let mut entry = 0;
    for (row, step) in (0..rows).zip(sideways(rows, columns)) {
        // Away from where it leaves, all the way round.
        let back = if step == Step::Down { Step::Up } else { Step::Down };
        let mut column = entry;
        for _ in 0..columns {
            along.push((row, column));
            column = aside(column, back);
        }
        entry = aside(entry, step);
    }
    let mut down = Vec::new();
    let mut column = 1;
    for _ in 1..columns {
        let mut entry = 0;
        for (row, step) in (0..rows).zip(sideways(rows, columns)) {
            down.push((row, column));
            let leaves = aside(entry, step);
            if column == leaves {
                column = entry;
                down.push((row, column));
            }
            entry = leaves;
        }
    }
    Some([along, down].map(|cycle| cycle.into_iter().map(rank).collect()))
}

/// Where the first cycle leaves a row, relative to where it enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// One column lower.
    Down,
    /// One column higher.
    Up,
}

/// The steps of all rows: once round the columns downwards, and the rest back and forth.
fn sideways(rows: u32, columns: u32) -> impl Iterator<Item = Step> {
    let up = (rows - columns) / 2;
    (0..rows).map(move |row| if row < rows - up { Step::Down } else { Step::Up })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Each visits every device once, from neighbour to neighbour, and both together take every link of the torus.
    #[test]
    fn they_are_cycles_and_share_no_link() {
        let mut found = 0;
        for (x, y) in (2..=24u32).flat_map(|x| (2..=24).map(move |y| (x, y))) {
            let cycles = cycles([x, y]);
            assert_eq!(cycles.is_some(), x > 2 && y > 2 && x % 2 == y % 2, "{x}x{y}");
            let Some(cycles) = cycles else { continue };
            let mut links = BTreeSet::new();
            for cycle in &cycles {
                assert_eq!(cycle.iter().collect::<BTreeSet<_>>().len(), (x * y) as usize, "{x}x{y}");
                for (from, to) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
                    let near = |from: u32, to: u32, n: u32| (from + 1) % n == to || (to + 1) % n == from;
                    let ([a, b], [c, d]) = ([from / y, from % y], [to / y, to % y]);
                    assert!(a == c && near(b, d, y) || b == d && near(a, c, x), "{x}x{y}: {from} to {to}");
                    assert!(links.insert((from.min(to), from.max(to))), "{x}x{y}: {from} to {to} twice");
                }
            }
            assert_eq!(links.len(), 2 * (x * y) as usize);
            found += 1;
        }
        assert_eq!(found, 11 * 11 * 2);
    }
}
