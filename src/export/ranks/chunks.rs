//! Chunks of one size, as runtimes count them, for cells of several sizes.

use crate::units::gcd;

/// The most chunks of the smallest cell.
const MOST_PARTS: u64 = 64;

/// Largest deviation of a cell from its chunks: one part in this number.
const TOLERANCE: u64 = 128;

/// The chunks of each cell, and whether they have exactly the sizes of the cells; otherwise within 1 %.
pub(super) fn in_chunks(sizes: &[u64]) -> (Vec<u64>, bool) {
    let (unit, least) = (sizes.iter().copied().fold(0, gcd), sizes.iter().copied().min().unwrap_or(1));
    if least <= MOST_PARTS * unit {
        return (sizes.iter().map(|size| size / unit).collect(), true);
    }
    let rounded = |size: u64, parts: u64| (2 * size * parts + least) / (2 * least);
    let is_close = |size: u64, parts: u64| {
        let whole = size * parts;
        (rounded(size, parts) * least).abs_diff(whole) * TOLERANCE <= whole
    };
    let fits = |parts: &u64| sizes.iter().all(|size| is_close(*size, *parts));
    let parts = (1..MOST_PARTS).find(fits).unwrap_or(MOST_PARTS);
    (sizes.iter().map(|size| rounded(*size, parts)).collect(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ratios_are_exact() {
        assert_eq!(in_chunks(&[6, 6, 9]), (vec![2, 2, 3], true));
        assert_eq!(in_chunks(&[512]), (vec![1], true));
    }

    /// Cells of a 4x8 torus: one share is 1.47 times the other, and halves differ by one element.
    #[test]
    fn uneven_cells_are_within_a_percent() {
        for sizes in [vec![6631, 6632, 9752, 9753], vec![1433, 1434, 1638, 1639, 2048], vec![1009, 100_003]] {
            let (chunks, is_exact) = in_chunks(&sizes);
            assert!(!is_exact);
            let (all, total) = (sizes.iter().sum::<u64>(), chunks.iter().sum::<u64>());
            for (size, chunks) in sizes.iter().zip(&chunks) {
                let off = (size * total).abs_diff(chunks * all);
                assert!(off * 100 <= size * total, "{size} {chunks} of {total}");
            }
            assert!(chunks.iter().min() <= Some(&MOST_PARTS));
        }
    }
}
