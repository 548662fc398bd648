//! A sum whose blocks cannot be scattered evenly: most of it can, and the few rows that are left over are summed whole.

use super::auto::{along, simulate};
use super::collective::{Lowerer, Stages};
use crate::dtype::DType;
use crate::mesh::Axes;
use crate::method::{Family, Method};
use crate::schedule::{Cut, OpId};

/// What decides: the axes of the sum, and the block it starts from.
pub(super) type Uneven = (Axes, DType, Vec<u64>);

/// Where a block is cut in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CutAt {
    dim: usize,
    /// So much of the dim can be scattered evenly.
    even: u64,
}

/// The most of a block that can be scattered over `n` devices, if that is not all of it.
fn cut_at(extents: &[u64], n: u64) -> Option<CutAt> {
    if n < 2 || extents.iter().any(|extent| extent.is_multiple_of(n)) {
        return None;
    }
    let (dim, longest) = extents.iter().copied().enumerate().rev().max_by_key(|(_, extent)| *extent)?;
    (longest > n).then_some(CutAt { dim, even: longest - longest % n })
}

/// Whether a sum by this method is scattered.
fn scatters(method: Method, n: u64) -> bool {
    match method.family() {
        Family::Flow(_) => true,
        Family::Doubling(_) => method != Method::RecursiveDoubling || !n.is_power_of_two(),
        Family::Several => matches!(method, Method::Multiport | Method::QuadDirectionalRing),
        Family::Direct => matches!(method, Method::OneHop | Method::FuriosaDiagonal),
        Family::Trees(_) | Family::Whole => false,
    }
}

impl Stages<'_, '_, '_, '_> {
    /// A sum over all axes; in two parts, if it cannot be scattered evenly and that pays or is asked for.
    pub(super) fn all_reduce(&mut self, value: OpId, axes: Axes) -> OpId {
        let n = axes.group_size(self.builder.mesh());
        match cut_at(self.builder.extents(value), n) {
            Some(cut) if self.pays_in_two(value, axes, n) => self.in_two(value, axes, cut),
            Some(_) | None => self.evenly(value, axes),
        }
    }

    fn pays_in_two(&mut self, value: OpId, axes: Axes, n: u64) -> bool {
        if let Some(method) = self.method {
            return scatters(method, n);
        }
        if self.lowerer.frugal {
            return false;
        }
        let (dtype, extents) = (self.builder.dtype(value), self.builder.extents(value).to_vec());
        let key = (axes, dtype, extents);
        if let Some(known) = self.lowerer.memory.uneven.get(&key) {
            return *known;
        }
        let (part, numbered) = along(self.lowerer.topology, &[axes]);
        let (lowering, operator) = (self.lowerer.lowering, self.operator);
        let time = |in_two: bool| {
            let mut lowerer = Lowerer::new(&part, lowering);
            let trial = simulate(&part, dtype, &key.2, |builder, input| {
                let builder = &mut builder.with_equal_copies(lowering.bitwise);
                let mut stages = Stages { lowerer: &mut lowerer, builder, method: None, operator };
                match cut_at(&key.2, n).filter(|_| in_two) {
                    Some(cut) => stages.in_two(input, numbered[0], cut),
                    None => stages.evenly(input, numbered[0]),
                };
            });
            trial.map(|trial| trial.time)
        };
        let pays = match (time(true), time(false)) {
            (Some(in_two), Some(whole)) => in_two < whole,
            (in_two, _) => in_two.is_some(),
        };
        self.lowerer.memory.uneven.insert(key, pays);
        pays
    }

    /// The even part by what is asked for, the rest as it is fastest.
    fn in_two(&mut self, value: OpId, axes: Axes, cut: CutAt) -> OpId {
        let extents = self.builder.extents(value).to_vec();
        let parts = [0..cut.even, cut.even..extents[cut.dim]];
        let asked = self.method;
        let pieces = parts.map(|range| {
            let part = self.builder.slice_range(value, cut.dim, range.clone());
            let sum = self.evenly(part, axes);
            self.method = None;
            let mut region = vec![Cut::Whole; extents.len()];
            region[cut.dim] = Cut::Range { start: range.start, end: range.end };
            (sum, region)
        });
        self.method = asked;
        self.builder.assemble(extents.clone(), extents, pieces.to_vec())
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
