//! Sums whose blocks do not scatter evenly: most rows are scattered, and the remaining ones are summed whole.

use crate::method::{Family, Method};

/// The split of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CutAt {
    pub(super) dim: usize,
    /// Length of the part that scatters evenly.
    pub(super) even: u64,
}

/// The largest part of a block that scatters evenly over `n` devices, if that is not all of it.
pub(super) fn cut_at(extents: &[u64], n: u64) -> Option<CutAt> {
    if n < 2 || extents.iter().any(|extent| extent.is_multiple_of(n)) {
        return None;
    }
    let (dim, longest) = extents.iter().copied().enumerate().rev().max_by_key(|(_, extent)| *extent)?;
    (longest > n).then_some(CutAt { dim, even: longest - longest % n })
}

/// Whether this method scatters sums.
pub(super) fn scatters(method: Method, n: u64) -> bool {
    match method.family() {
        Family::Flow(_) => true,
        Family::Doubling(_) => method != Method::RecursiveDoubling || !n.is_power_of_two(),
        Family::Several => matches!(method, Method::Multiport | Method::QuadDirectionalRing),
        Family::Direct => {
            matches!(method, Method::OneHop | Method::FuriosaDiagonal | Method::BalancedFuriosaDiagonal)
        }
        Family::Trees(_) | Family::Whole => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_is_even() {
        assert_eq!(cut_at(&[1000, 4099], 16), Some(CutAt { dim: 1, even: 4096 }));
        assert_eq!(cut_at(&[1000, 1000], 7), Some(CutAt { dim: 0, even: 994 }));
        for (extents, n) in [(&[1000, 4099][..], 8), (&[3, 5], 7), (&[], 4), (&[5], 1), (&[0, 3], 4)] {
            assert_eq!(cut_at(extents, n), None, "{extents:?} over {n}");
        }
    }
}
