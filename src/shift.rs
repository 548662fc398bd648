//! Shifts: the elements of an array moved along one of its dims.

use std::fmt;
use std::ops::Range;

/// Each element moves `by` positions along a dim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shift {
    /// Index of the dim.
    pub dim: u8,
    /// The distance, downwards if negative; not 0, and at most the length of the dim.
    pub by: i64,
    /// Whether what leaves at one end enters at the other one. Otherwise zeros enter.
    pub wraps: bool,
}

/// Some rows of a block that come from one other block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of blocks between: the source is as many before, or after if the distance is negative.
    pub blocks: u64,
    /// The rows in the source.
    pub from: Range<u64>,
    /// The rows in the shifted block.
    pub to: Range<u64>,
}

impl Shift {
    /// The index of the dim.
    pub fn dim(self) -> usize {
        usize::from(self.dim)
    }

    /// Its name: `shift`, or `roll` if it wraps.
    pub fn word(self) -> &'static str {
        if self.wraps { "roll" } else { "shift" }
    }

    /// The one or two parts of a block of this extent, the nearer source first.
    pub fn parts(self, extent: u64) -> impl Iterator<Item = Part> {
        let extent = extent.max(1);
        let (blocks, rows) = (self.by.unsigned_abs() / extent, self.by.unsigned_abs() % extent);
        let rest = extent - rows;
        let (near, far) = match self.by > 0 {
            true => ((0..rest, rows..extent), (rest..extent, 0..rows)),
            false => ((rows..extent, 0..rest), (0..rows, rest..extent)),
        };
        let parts = [(blocks, near), (blocks + 1, far)];
        let parts = parts.into_iter().map(|(blocks, (from, to))| Part { blocks, from, to });
        parts.filter(|part| !part.from.is_empty())
    }

    /// The position, among `n` devices, of the source of a device some blocks away; `None` if nothing comes from there.
    pub fn source(self, rank: u64, blocks: u64, n: u64) -> Option<u64> {
        let [rank, blocks, n] = [rank, blocks, n].map(i128::from);
        let source = rank - i128::from(self.by.signum()) * blocks;
        let source = if self.wraps { source.rem_euclid(n.max(1)) } else { source };
        u64::try_from(source).ok().filter(|source| i128::from(*source) < n)
    }

    /// The sources and targets of what is sent between `n` devices some blocks apart. What stays is not listed.
    pub fn pairs(self, blocks: u64, n: u64) -> Vec<(u64, u64)> {
        let pairs = (0..n).filter_map(|rank| Some((self.source(rank, blocks, n)?, rank)));
        pairs.filter(|(source, rank)| source != rank).collect()
    }

    /// Rows that a device receives at most, with blocks of this extent on `n` devices.
    pub fn received(self, extent: u64, n: u64) -> u64 {
        let sent = self.parts(extent).filter(|part| !self.pairs(part.blocks, n).is_empty());
        sent.map(|part| part.from.end - part.from.start).sum()
    }

    /// The rows of a block that come from somewhere; the others are 0. `None` for a block that is not in the dim.
    ///
    /// - `block`: the index of the block.
    /// - `extent`: its extent.
    /// - `length`: of the whole dim.
    pub fn sourced(self, block: u64, extent: u64, length: u64) -> Option<Range<u64>> {
        let start = block.checked_mul(extent)?;
        start.checked_add(extent).filter(|end| *end <= length)?;
        if self.wraps {
            return Some(0..extent);
        }
        let [start, end, by] = [i128::from(start), i128::from(length), i128::from(self.by)];
        let within = |row: i128| u64::try_from(row.clamp(0, i128::from(extent))).ok();
        Some(within(by - start)?..within(end + by - start)?)
    }
}

impl fmt::Display for Shift {
    /// Formats `shift(0, -1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}, {})", self.word(), self.dim, self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row of every block, against the definition on the whole dim.
    #[test]
    fn parts_are_the_rows_of_the_definition() {
        for (extent, n, wraps) in itertools::iproduct!(1..5u64, 1..6u64, [false, true]) {
            let length = extent * n;
            let most = i64::try_from(length).expect("small");
            for by in (-most..=most).filter(|by| *by != 0) {
                let shift = Shift { dim: 0, by, wraps };
                let mut most_received = 0;
                for rank in 0..n {
                    let mut rows = vec![None; usize::try_from(extent).expect("small")];
                    let mut received = 0;
                    for Part { blocks, from, to } in shift.parts(extent) {
                        let source = shift.source(rank, blocks, n);
                        assert_eq!(from.end - from.start, to.end - to.start);
                        let sent = shift.pairs(blocks, n).iter().any(|(_, target)| *target == rank);
                        assert_eq!(sent, source.is_some_and(|source| source != rank), "{shift} {extent} {n}");
                        received += if sent { from.end - from.start } else { 0 };
                        for (from, to) in from.zip(to) {
                            rows[usize::try_from(to).expect("small")] = source.map(|source| source * extent + from);
                        }
                    }
                    most_received = most_received.max(received);
                    let defined = (0..extent).map(|row| {
                        let from = i64::try_from(rank * extent + row).expect("small") - by;
                        let from = if wraps { from.rem_euclid(most) } else { from };
                        u64::try_from(from).ok().filter(|from| *from < length)
                    });
                    let defined: Vec<Option<u64>> = defined.collect();
                    assert_eq!(rows, defined, "{shift} of {n} blocks of {extent}");
                    let sourced = shift.sourced(rank, extent, length).expect("a block of the dim");
                    let kept = (0..extent).map(|row| sourced.contains(&row));
                    assert!(kept.eq(defined.iter().map(Option::is_some)), "{shift} of {n} blocks of {extent}");
                }
                assert_eq!(shift.received(extent, n), most_received, "{shift} of {n} blocks of {extent}");
                assert_eq!(shift.sourced(n, extent, length), None);
            }
        }
    }
}
