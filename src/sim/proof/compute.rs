//! Products and elementwise functions of regions of terms.

use super::block::{Block, Holding, Piece, unravel};
use super::boxes::{Cuboid, Interval};
use super::flaw::Flaw;
use super::parts::Parts;
use super::run::Run;
use super::terms::{Slot, TermId, Terms};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::{Filler, Function, Scalar};
use crate::mesh::DeviceId;
use crate::operator::Operator;
use crate::schedule::{CoordMap, OpId};
use std::rc::Rc;

/// An operand that is a region of one term.
struct Operand {
    term: TermId,
    region: Cuboid,
    parts: Rc<Parts>,
}

/// The operands as regions; `None` where one is absent.
fn operands(
    run: &Run<'_>,
    id: OpId,
    device: DeviceId,
    blocks: &[Option<&Rc<Block>>],
) -> Result<Option<Vec<Operand>>, Flaw> {
    let Some(blocks) = blocks.iter().copied().collect::<Option<Vec<&Rc<Block>>>>() else { return Ok(None) };
    let regions = blocks.iter().enumerate().map(|(operand, block)| match region(block, &run.terms) {
        Ok(operand) => Ok(operand),
        Err(pieces) => {
            let (first, other) = *pieces;
            Err(Flaw::ScatteredOperand { site: run.site(id, device), operand, first, other })
        }
    });
    regions.collect::<Result<Vec<Operand>, Flaw>>().map(Some)
}

/// Where each term dim of a block lies, if the block is a region of one term in the term's order.
///
/// # Errors
/// Two pieces of which the second does not continue the first.
fn region(block: &Block, terms: &Terms) -> Result<Operand, Box<(Slot, Slot)>> {
    let first = &block.pieces[0];
    let scattered = |other: &Piece| Box::new((first.slot(terms), other.slot(terms)));
    let extents = terms.extents(first.holds.term);
    if extents.len() != block.extents.len() {
        return Err(scattered(first));
    }
    // The first piece in order starts at the first corner of the block.
    let starts = unravel(first.holds.base, extents);
    let region: Cuboid = starts
        .iter()
        .zip(&block.extents)
        .map(|(start, extent)| Interval { start: *start, end: start + extent })
        .collect();
    if region.iter().zip(extents).any(|(range, extent)| range.end > *extent) {
        return Err(scattered(first));
    }
    let whole =
        Block::new(&block.extents, Holding::region(first.holds.term, &region, first.holds.parts.clone(), terms));
    for piece in &block.pieces {
        if whole.pieces[0].cut(&piece.at).holds != piece.holds {
            return Err(scattered(piece));
        }
    }
    Ok(Operand { term: first.holds.term, region, parts: first.holds.parts.clone() })
}

/// The range of each index, equal in all operands that have it.
fn meet(run: &Run<'_>, id: OpId, device: DeviceId, einsum: &Einsum, operands: &[Operand]) -> Result<Cuboid, Flaw> {
    let mut ranges: Vec<Option<(Interval, u64, usize)>> = vec![None; einsum.index_count()];
    for (place, (indices, operand)) in einsum.operands.iter().zip(operands).enumerate() {
        let extents = run.terms.extents(operand.term);
        for ((index, range), extent) in indices.iter().zip(&operand.region).zip(extents) {
            let known = ranges[usize::from(*index)].get_or_insert((*range, *extent, place));
            if (known.0, known.1) != (*range, *extent) {
                return Err(do_not_meet(run, id, device, &operands[known.2], operand));
            }
        }
    }
    Ok(ranges.into_iter().map(|known| known.map_or(Interval::whole(1), |(range, _, _)| range)).collect())
}

fn do_not_meet(run: &Run<'_>, id: OpId, device: DeviceId, left: &Operand, right: &Operand) -> Flaw {
    let slot = |operand: &Operand| run.terms.slot(operand.term, &operand.region);
    Flaw::DoNotMeet { site: run.site(id, device), left: slot(left), right: slot(right) }
}

/// The parts of the result's dims, from the ranges of the indices.
fn kept(einsum: &Einsum, ranges: &[Interval]) -> Cuboid {
    einsum.result.iter().map(|index| ranges[usize::from(*index)]).collect()
}

/// A local product: a range of each contracted index, times what the operands hold of their own sums.
pub(super) fn product(
    run: &mut Run<'_>,
    id: OpId,
    device: DeviceId,
    einsum: &Einsum,
    blocks: &[Option<&Rc<Block>>],
) -> Result<Option<Block>, Flaw> {
    let Some(mut operands) = operands(run, id, device, blocks)? else { return Ok(None) };
    for operand in &operands {
        require_linear(run, id, device, "a product", operand, operand.parts.is_sum())?;
    }
    meet(run, id, device, einsum, &operands)?;
    let dtype = run.schedule.operation(id).dtype;
    let made = run.terms.product(einsum, [operands[0].term, operands[1].term], dtype);
    let (term, canonical) = made.ok_or_else(|| do_not_meet(run, id, device, &operands[0], &operands[1]))?;
    if canonical.swapped {
        operands.swap(0, 1);
    }
    let einsum = canonical.einsum;
    let ranges = meet(run, id, device, &einsum, &operands)?;
    let mut limits = Vec::new();
    for index in einsum.contracted() {
        let length = index_length(&einsum, &operands, index, &run.terms);
        let coordinate = run.terms.contracted_coordinate(term, index, length);
        limits.push((coordinate, ranges[usize::from(index)]));
    }
    let parts: Vec<&Parts> = operands.iter().map(|operand| operand.parts.as_ref()).collect();
    run.spend(parts.iter().map(|parts| parts.len()).product())?;
    let parts = Parts::product(&parts, &limits, &mut run.terms, |terms, operand, inner| {
        terms.inner_coordinate(term, operand, inner)
    });
    Ok(Some(result(run, id, term, &kept(&einsum, &ranges), parts)))
}

fn result(run: &Run<'_>, id: OpId, term: TermId, region: &[Interval], parts: Parts) -> Block {
    let holds = Holding::region(term, region, Rc::new(parts), &run.terms);
    Block::new(&run.schedule.operation(id).extents, holds)
}

/// The global length of an index.
fn index_length(einsum: &Einsum, operands: &[Operand], index: u8, terms: &Terms) -> u64 {
    let found = einsum.operands.iter().zip(operands).find_map(|(indices, operand)| {
        let dim = indices.iter().position(|known| *known == index)?;
        terms.extents(operand.term).get(dim).copied()
    });
    found.unwrap_or(1)
}

/// An elementwise function of closed values, or a linear one of the pieces of sums.
pub(super) fn map(
    run: &mut Run<'_>,
    id: OpId,
    device: DeviceId,
    function: Function,
    einsum: &Einsum,
    blocks: &[Option<&Rc<Block>>],
) -> Result<Option<Block>, Flaw> {
    let Some(mut operands) = operands(run, id, device, blocks)? else { return Ok(None) };
    let dtype = run.schedule.operation(id).dtype;
    for operand in &operands {
        let passes = commutes(function, operand.parts.operator(), dtype);
        require_linear(run, id, device, &function.to_string(), operand, passes)?;
    }
    meet(run, id, device, einsum, &operands)?;
    let terms: Vec<TermId> = operands.iter().map(|operand| operand.term).collect();
    let made = run.terms.map(function, einsum, &terms, dtype);
    let (term, canonical) =
        made.ok_or_else(|| do_not_meet(run, id, device, &operands[0], &operands[operands.len() - 1]))?;
    if canonical.swapped {
        operands.swap(0, 1);
    }
    let ranges = meet(run, id, device, &canonical.einsum, &operands)?;
    let region = kept(&canonical.einsum, &ranges);
    check_softmax(run, id, device, function, term, &region)?;
    let parts = match operands.as_slice() {
        [left, right] => {
            let side = run.terms.side_coordinate(term);
            Parts::sides(&left.parts, &right.parts, side, &run.terms)
        }
        [one, ..] => one.parts.as_ref().clone(),
        [] => Parts::closed(),
    };
    run.spend(parts.len())?;
    Ok(Some(result(run, id, term, &region, parts)))
}

/// A filler of one block, which must stand where the operation takes it to be.
pub(super) fn fill(
    run: &mut Run<'_>,
    id: OpId,
    device: DeviceId,
    filler: (usize, u64, Filler),
    place: &CoordMap,
    block: Option<&Rc<Block>>,
) -> Result<Option<Block>, Flaw> {
    let Some(operands) = operands(run, id, device, &[block])? else { return Ok(None) };
    let [operand] = operands.as_slice() else { return Ok(None) };
    let (dim, valid, with) = filler;
    let dtype = run.schedule.operation(id).dtype;
    // Blocks have few dims: the operation is verified.
    let function = Function::Fill { dim: u8::try_from(dim).unwrap_or(u8::MAX), valid, with };
    let passes = commutes(function, operand.parts.operator(), dtype);
    require_linear(run, id, device, "a filler", operand, passes)?;
    let range = operand.region[dim];
    let start = place.at(run.mesh(), device).and_then(|block| block.checked_mul(range.len()));
    if start != Some(range.start) {
        let slot = run.terms.slot(operand.term, &operand.region);
        return Err(Flaw::FillerPlace { site: run.site(id, device), dim, slot });
    }
    let indices: Vec<u8> = (0..).take(operand.region.len()).collect();
    let einsum = Einsum { operands: vec![indices.clone()], result: indices };
    let made = run.terms.map(function, &einsum, &[operand.term], dtype);
    let (term, _) = made.ok_or_else(|| do_not_meet(run, id, device, operand, operand))?;
    run.spend(operand.parts.len())?;
    Ok(Some(result(run, id, term, &operand.region, operand.parts.as_ref().clone())))
}

/// A softmax needs a whole dim.
fn check_softmax(
    run: &Run<'_>,
    id: OpId,
    device: DeviceId,
    function: Function,
    term: TermId,
    region: &[Interval],
) -> Result<(), Flaw> {
    let Function::Softmax { dim } = function else { return Ok(()) };
    let dim = usize::from(dim);
    if region[dim] == Interval::whole(run.terms.extents(term)[dim]) {
        return Ok(());
    }
    let slot = run.terms.slot(term, region);
    Err(Flaw::PartialDim { site: run.site(id, device), function: function.to_string(), dim, slot })
}

/// Whether the function of a combination is the combination of the function's values.
fn commutes(function: Function, operator: Operator, dtype: DType) -> bool {
    match operator {
        Operator::Sum => match function {
            // Half of an integer is rounded.
            Function::Scale(Scalar(factor)) => dtype.is_float() || factor.fract() == 0.0,
            Function::Identity
            | Function::Add
            | Function::Sub
            | Function::Div
            | Function::Neg
            | Function::Fill { .. }
            | Function::Shift(_)
            | Function::Relu
            | Function::Gelu
            | Function::Exp
            | Function::Tanh
            | Function::Softmax { .. }
            | Function::Cast(_) => function.is_linear(),
        },
        // Functions that never fall.
        Operator::Max | Operator::Min => match function {
            Function::Identity | Function::Relu | Function::Exp | Function::Tanh | Function::Fill { .. } => true,
            Function::Scale(Scalar(factor)) => dtype.is_float() && factor >= 0.0,
            Function::Shift(_) => dtype.is_float(),
            Function::Add
            | Function::Sub
            | Function::Div
            | Function::Neg
            | Function::Gelu
            | Function::Softmax { .. }
            | Function::Cast(_) => false,
        },
    }
}

fn require_linear(
    run: &Run<'_>,
    id: OpId,
    device: DeviceId,
    function: &str,
    operand: &Operand,
    passes: bool,
) -> Result<(), Flaw> {
    if passes || operand.parts.is_closed() {
        return Ok(());
    }
    let slot = Piece {
        at: operand.region.clone(),
        holds: Holding::region(operand.term, &operand.region, operand.parts.clone(), &run.terms),
    };
    let missing = operand.parts.first_missing(&run.terms).unwrap_or_default();
    Err(Flaw::OpenOperand {
        site: run.site(id, device),
        function: function.to_owned(),
        slot: slot.slot(&run.terms),
        missing: run.terms.limits(&missing),
    })
}
