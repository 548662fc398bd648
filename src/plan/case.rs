//! The book's four cases of a sharded product.

use crate::einsum::{Einsum, Index};
use crate::layout::Sharding;
use crate::mesh::Axes;
use itertools::Itertools;

/// The case of a product with these operand layouts, 1 to 4.
///
/// 1. local shards can be multiplied, and the result is complete;
/// 2. a shared dim is sharded in one operand only, or over different axes;
/// 3. a contracted dim is sharded alike in both operands;
/// 4. an axis shards different dims of the result in the two operands.
///
/// With several axes the highest case counts; the others are resolved first.
///
/// Source: "How To Scale Your Model", part 3, Computation With Sharded Arrays.
pub(super) fn case(einsum: &Einsum, operands: [&Sharding; 2]) -> u8 {
    let axes_on = |operand: usize, index: Index| -> Axes {
        let place = einsum.operands[operand].iter().position(|other| *other == index);
        place.map_or(Axes::NONE, |place| operands[operand].dims[place])
    };
    let shared = |left: Index, right: Index| !axes_on(0, left).set().intersection(axes_on(1, right).set()).is_empty();
    let meets = |index: &&Index| einsum.operands.iter().all(|indices| indices.contains(index));
    let kept = || einsum.result.iter().copied();
    if kept().cartesian_product(kept()).any(|(left, right)| left != right && shared(left, right)) {
        return 4;
    }
    let alike = |index: &Index| axes_on(0, *index) == axes_on(1, *index);
    let met: Vec<Index> = einsum.operands[0].iter().filter(meets).copied().collect();
    match met.iter().all(alike) {
        true if einsum.contracted().iter().any(|index| !axes_on(0, *index).is_empty()) => 3,
        true => 1,
        false if einsum.contracted().iter().any(|index| alike(index) && !axes_on(0, *index).is_empty()) => 3,
        false => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::DimId;
    use crate::mesh::AxisId;

    #[test]
    fn the_four_cases_of_the_book() {
        let [i, j, k] = [0, 1, 2].map(DimId);
        let einsum = Einsum::new(&[vec![i, j], vec![j, k]], &[i, k]);
        let [x, y] = [0, 1].map(|axis| Axes::one(AxisId::new(axis)));
        let none = Axes::NONE;
        let of = |a: [Axes; 2], b: [Axes; 2]| {
            let sharding = |dims: [Axes; 2]| Sharding { dims: dims.to_vec(), ..Sharding::default() };
            case(&einsum, [&sharding(a), &sharding(b)])
        };
        assert_eq!(of([x, none], [none, y]), 1);
        assert_eq!(of([none, x], [none, none]), 2);
        assert_eq!(of([none, x], [y, none]), 2);
        assert_eq!(of([none, x], [x, none]), 3);
        assert_eq!(of([x, none], [none, x]), 4);
        // FSDP: the weight's contracted dim on the axis of the activations' batch.
        assert_eq!(of([x, none], [x, y]), 2);
    }
}
