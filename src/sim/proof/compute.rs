//! Proof steps for products, reductions and elementwise functions. Their operands must be regions of terms.

use super::block::{Block, Holding, Piece, TooManyPieces, row_major, signed, unravel};
use super::boxes::{self, Cuboid, Interval};
use super::cut;
use super::flaw::Flaw;
use super::parts::Parts;
use super::run::{self, Run, too_many};
use super::strided::Strided;
use super::terms::{CoordinateId, Pending, Slot, TermId, Terms};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::{Binary, Filler, Function, Unary};
use crate::kernel::Kernel;
use crate::mesh::{AxisId, DeviceId};
use crate::operator::Operator;
use crate::passes::{self, Passage};
use crate::schedule::view::groups;
use crate::schedule::{CoordMap, OpId};
use crate::shift::Shift;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// An operand that is a region of one term.
struct Operand {
    term: TermId,
    region: Vec<Strided>,
    parts: Rc<Parts>,
    /// For pieces of an open array: the array, and the function still pending on the pieces.
    of: Option<(TermId, Pending)>,
}

impl Operand {
    /// The operator that combines the open parts: `Mean` for shares of a mean, `SquareAdd` for pieces to be squared.
    fn operator(&self, terms: &Terms) -> Operator {
        match self.of {
            Some((_, Pending::Over(n))) if self.parts.is_share(n, terms) => Operator::Mean,
            Some((_, Pending::Square)) => Operator::SquareAdd,
            Some(_) | None => self.parts.operator(),
        }
    }

    /// Whether the operand differs from its array: contributions are missing, or a function is pending.
    fn is_open(&self) -> bool {
        !self.parts.is_closed() || matches!(self.of, Some((_, Pending::Square)))
    }

    /// The term and parts after the pending square or division is applied.
    fn done(&self, function: Function, einsum: &Einsum, terms: &mut Terms) -> Option<(TermId, Parts)> {
        let (of, pending) = self.of.filter(|_| einsum.operands[0] == einsum.result)?;
        let parts = self.parts.as_ref().clone();
        match (pending, function) {
            (Pending::Square, Function::Unary(Unary::Square)) => Some((of, parts.under(Operator::Sum))),
            (Pending::Over(all), Function::Over(n)) if n > 0 && all.is_multiple_of(n) => {
                Some((terms.pending(of, Pending::Over(all / n)), parts))
            }
            _ => None,
        }
    }
}

/// Converts the operand blocks to regions.
fn operands(run: &Run<'_>, id: OpId, device: DeviceId, blocks: &[&Rc<Block>]) -> Result<Vec<Operand>, Flaw> {
    let regions = blocks.iter().enumerate().map(|(operand, block)| match region(block, &run.terms) {
        Ok(operand) => Ok(operand),
        Err(pieces) => {
            let (first, other) = *pieces;
            Err(Flaw::ScatteredOperand { site: run.site(id, device), operand, first, other })
        }
    });
    regions.collect()
}

/// The position of each term dim of a block, if the block is a region of one term in the term's order.
///
/// # Errors
/// Two pieces of which the second does not continue the first.
fn region(block: &Block, terms: &Terms) -> Result<Operand, Box<(Slot, Slot)>> {
    let first = block.first();
    let scattered = |other: &Piece| Box::new((first.slot(terms), other.slot(terms)));
    let term = first.holds.term;
    let extents = terms.extents(term);
    if extents.len() != block.extents.len() {
        return Err(scattered(first));
    }
    let parts = first.holds.parts.clone();
    let is_region = |region: &Vec<Strided>| {
        let whole = whole(&block.extents, term, region, parts.clone(), terms);
        run::same(&whole, block).is_ok_and(|same| same)
    };
    let region = match block.pieces.as_slice() {
        [only] => in_steps(block, only, extents),
        _ => in_ranges(block, first, extents).filter(is_region).or_else(|| in_many(block, extents).filter(is_region)),
    };
    match region {
        Some(region) => Ok(Operand { term, region, parts, of: terms.is_pending(term) }),
        None => {
            let continues = in_ranges(block, first, extents).map(|region| {
                let whole = whole(&block.extents, term, &region, parts.clone(), terms).within(&block.view);
                block.pieces.iter().find(|piece| whole.pieces[0].cut(&piece.at).holds != piece.holds)
            });
            Err(scattered(continues.flatten().unwrap_or(first)))
        }
    }
}

/// A block of several pieces as strided positions in the dims of an array, derived from the first row of each dim.
fn in_many(block: &Block, extents: &[u64]) -> Option<Vec<Strided>> {
    let flat = block.flat().ok()?;
    let base = flat.first().holds.base;
    let mut own = 0;
    let mut region = Vec::with_capacity(extents.len());
    for ((start, extent), stride) in unravel(base, extents).into_iter().zip(&block.extents).zip(row_major(extents)) {
        let mut steps = Vec::new();
        if *extent > 1 {
            let in_row =
                |piece: &&Piece| piece.at.iter().enumerate().all(|(dim, range)| dim == own || range.start == 0);
            let mut row: Vec<&Piece> = flat.pieces.iter().filter(in_row).collect();
            row.sort_by_key(|piece| piece.at[own].start);
            let element = |place: u64| {
                let at = row.partition_point(|piece| piece.at[own].start <= place).checked_sub(1)?;
                let piece = row[at];
                Some(piece.holds.base - base + piece.holds.strides[own] * signed(place - piece.at[own].start))
            };
            let mut unit = 1;
            while unit < *extent {
                let step = element(unit)?;
                // The first piece gives the inner positions; whole pieces follow it at equal steps.
                let mut count = if unit == 1 { row.first()?.at[own].len().max(2) } else { 2 };
                while count * unit < *extent && element(count * unit)? == step * signed(count) {
                    count += 1;
                }
                let step = u64::try_from(step).ok().filter(|step| step.is_multiple_of(stride))?;
                steps.push((count, step / stride));
                unit *= count;
            }
            own += 1;
        }
        steps.reverse();
        let length = steps.iter().map(|(count, _)| count).product::<u64>();
        region.push(Strided::new(start, steps).filter(|_| length == *extent)?);
    }
    Some(region)
}

/// A block of several pieces as ranges in the dims of an array.
fn in_ranges(block: &Block, first: &Piece, extents: &[u64]) -> Option<Vec<Strided>> {
    let starts = unravel(first.holds.base, extents).into_iter();
    let ranges = starts.zip(&block.extents).map(|(start, extent)| Interval { start, end: start + extent });
    let ranges = ranges.zip(extents).map(|(range, extent)| (range.end <= *extent).then(|| Strided::range(range)));
    ranges.collect()
}

/// A block of one piece as strided positions in the dims of an array.
fn in_steps(block: &Block, piece: &Piece, extents: &[u64]) -> Option<Vec<Strided>> {
    let starts = unravel(piece.holds.base, extents);
    let groups = groups(&block.view, &block.extents)?;
    let mut region = Vec::with_capacity(extents.len());
    for (((dims, start), extent), stride) in groups.into_iter().zip(starts).zip(extents).zip(row_major(extents)) {
        let step = |dim: usize| {
            let own = u64::try_from(piece.holds.strides[dim]).ok()?;
            (own > 0 && own.is_multiple_of(stride)).then_some((block.view[dim], own / stride))
        };
        let places = Strided::new(start, dims.map(step).collect::<Option<Vec<_>>>()?)?;
        if places.hull().end > *extent {
            return None;
        }
        region.push(places);
    }
    Some(region)
}

/// A block of these extents that is the given region of a term.
fn whole(extents: &[u64], term: TermId, region: &[Strided], parts: Rc<Parts>, terms: &Terms) -> Block {
    let strides = row_major(terms.extents(term));
    let base = region.iter().zip(&strides).map(|(places, stride)| signed(places.start * stride)).sum();
    let steps =
        || region.iter().zip(&strides).flat_map(|(places, stride)| places.steps.iter().map(move |step| (step, stride)));
    let view: Vec<u64> = steps().map(|((count, _), _)| *count).collect();
    let strides = steps().map(|((_, step), stride)| signed(step * stride)).collect();
    let piece = Piece { at: boxes::whole(&view), holds: Holding { term, base, strides, parts } };
    Block { extents: extents.to_vec(), view, pieces: vec![piece] }
}

/// The term and region of a block, or `None` if it is not a region.
pub(super) fn place(block: &Block, terms: &Terms) -> Option<(TermId, Vec<Strided>)> {
    region(block, terms).ok().map(|operand| (operand.term, operand.region))
}

/// The positions of each index; they must be equal in all operands that use the index.
fn meet(
    run: &Run<'_>,
    id: OpId,
    device: DeviceId,
    einsum: &Einsum,
    operands: &[Operand],
) -> Result<Vec<Strided>, Flaw> {
    let mut ranges: Vec<Option<(&Strided, u64, usize)>> = vec![None; einsum.index_count()];
    for (place, (indices, operand)) in einsum.operands.iter().zip(operands).enumerate() {
        let extents = run.terms.extents(operand.term);
        for ((index, range), extent) in indices.iter().zip(&operand.region).zip(extents) {
            let known = ranges[usize::from(*index)].get_or_insert((range, *extent, place));
            if (known.0, known.1) != (range, *extent) {
                return Err(do_not_meet(run, id, device, &operands[known.2], operand));
            }
        }
    }
    let one = || Strided::range(Interval::whole(1));
    Ok(ranges.into_iter().map(|known| known.map_or_else(one, |(range, _, _)| range.clone())).collect())
}

fn do_not_meet(run: &Run<'_>, id: OpId, device: DeviceId, left: &Operand, right: &Operand) -> Flaw {
    let slot = |operand: &Operand| run.terms.slot(operand.term, &hulls(&operand.region));
    Flaw::DoNotMeet { site: run.site(id, device), left: slot(left), right: slot(right) }
}

/// The positions of the result's dims, selected from those of all indices.
fn kept(einsum: &Einsum, ranges: &[Strided]) -> Vec<Strided> {
    einsum.result.iter().map(|index| ranges[usize::from(*index)].clone()).collect()
}

/// The range from first to last position of each dim, for messages.
fn hulls(region: &[Strided]) -> Cuboid {
    region.iter().map(Strided::hull).collect()
}

/// A local product. Its contributions are the ranges of the contracted indices times the contributions of the operands.
pub(super) fn product(
    run: &mut Run<'_>,
    id: OpId,
    device: DeviceId,
    einsum: &Einsum,
    blocks: &[&Rc<Block>],
) -> Result<Rc<Block>, Flaw> {
    let mut operands = operands(run, id, device, blocks)?;
    let (from, dtype) = dtypes(run, id);
    let (factors, contracts) = ([from[0], from[1]], !einsum.contracted().is_empty());
    let passed =
        pass(run, id, device, "a product", &operands, |operator| passes::product(operator, factors, dtype, contracts))?;
    let done = passed.take_pending(&mut operands);
    meet(run, id, device, einsum, &operands)?;
    let made = run.terms.product(einsum, [operands[0].term, operands[1].term], dtype);
    let (term, canonical) = made.ok_or_else(|| do_not_meet(run, id, device, &operands[0], &operands[1]))?;
    if canonical.swapped {
        operands.swap(0, 1);
    }
    let (limits, ranges) = contracted(run, id, device, term, &canonical.einsum, &operands)?;
    let parts: Vec<&Parts> = operands.iter().map(|operand| operand.parts.as_ref()).collect();
    run.spend(parts.iter().map(|parts| parts.len()).product())?;
    let parts = match passed.result {
        // Multiplies what each device holds of both operands.
        Operator::Mul => {
            let side = run.terms.side_coordinate(term);
            Parts::sides(parts[0], parts[1], side, Operator::Mul, &run.terms)
        }
        _ => Parts::product(&parts, &limits, Operator::Sum, &mut run.terms, |terms, operand, inner| {
            terms.inner_coordinate(term, operand, inner)
        }),
    };
    let term = done.map_or(term, |pending| run.terms.pending(term, pending));
    Ok(Rc::new(result(run, id, term, &kept(&canonical.einsum, &ranges), parts)))
}

/// A local reduction. Its contributions are the ranges of the reduced indices times those of the operand.
pub(super) fn reduce(
    run: &mut Run<'_>,
    id: OpId,
    device: DeviceId,
    operator: Operator,
    einsum: &Einsum,
    block: &Rc<Block>,
) -> Result<Rc<Block>, Flaw> {
    let operands = operands(run, id, device, &[block])?;
    let (from, dtype) = dtypes(run, id);
    let name = format!("the {operator}");
    pass(run, id, device, &name, &operands, |open| passes::reduce(operator, open, from[0], dtype))?;
    let made = run.terms.reduce(operator, einsum, operands[0].term, dtype);
    let (term, canonical) = made.ok_or_else(|| do_not_meet(run, id, device, &operands[0], &operands[0]))?;
    let (limits, ranges) = contracted(run, id, device, term, &canonical.einsum, &operands)?;
    let parts = operands[0].parts.clone();
    run.spend(parts.len())?;
    let parts = Parts::product(&[&parts], &limits, operator, &mut run.terms, |terms, operand, inner| {
        terms.inner_coordinate(term, operand, inner)
    });
    Ok(Rc::new(result(run, id, term, &kept(&canonical.einsum, &ranges), parts)))
}

/// A declared kernel on closed operands. It needs the indices that may not be sharded whole; a sharded index that the
/// result lacks leaves a sum open.
pub(super) fn kernel(
    run: &mut Run<'_>,
    id: OpId,
    device: DeviceId,
    kernel: &Arc<Kernel>,
    blocks: &[&Rc<Block>],
) -> Result<Rc<Block>, Flaw> {
    let operands = operands(run, id, device, blocks)?;
    pass(run, id, device, &kernel.name, &operands, |_| None)?;
    let ranges = meet(run, id, device, &kernel.einsum, &operands)?;
    for (indices, operand) in kernel.einsum.operands.iter().zip(&operands) {
        for (dim, index) in indices.iter().enumerate() {
            let whole = Interval::whole(kernel.lengths[usize::from(*index)]);
            if !kernel.sharded[usize::from(*index)] && operand.region[dim].as_range() != Some(whole) {
                let slot = run.terms.slot(operand.term, &hulls(&operand.region));
                return Err(Flaw::PartialDim { site: run.site(id, device), function: kernel.name.clone(), dim, slot });
            }
        }
    }
    let (_, dtype) = dtypes(run, id);
    let terms: Vec<TermId> = operands.iter().map(|operand| operand.term).collect();
    let made = run.terms.kernel(kernel, &terms, dtype);
    let term = made.ok_or_else(|| do_not_meet(run, id, device, &operands[0], &operands[operands.len() - 1]))?;
    let mut limits = Vec::new();
    for index in kernel.einsum.contracted().into_iter().filter(|index| kernel.sharded[usize::from(*index)]) {
        let length = kernel.lengths[usize::from(index)];
        let coordinate = run.terms.contracted_coordinate(term, index, length);
        limits.push((coordinate, ranges[usize::from(index)].ranges().ok_or_else(|| too_many(TooManyPieces))?));
    }
    let parts: Vec<&Parts> = operands.iter().map(|operand| operand.parts.as_ref()).collect();
    let parts = Parts::product(&parts, &limits, Operator::Sum, &mut run.terms, |terms, operand, inner| {
        terms.inner_coordinate(term, operand, inner)
    });
    run.spend(parts.len())?;
    let has_source = |index: &u8| kernel.einsum.operands.iter().flatten().any(|known| known == index);
    let region = kernel.einsum.result.iter().map(|index| match has_source(index) {
        true => ranges[usize::from(*index)].clone(),
        false => Strided::range(Interval::whole(kernel.lengths[usize::from(*index)])),
    });
    let region: Vec<Strided> = region.collect();
    Ok(Rc::new(result(run, id, term, &region, parts)))
}

/// The ranges of a contracted index, with the coordinate that counts it.
type Limit = (CoordinateId, Vec<Interval>);

/// The ranges of each contracted index, and the positions of all indices.
fn contracted(
    run: &mut Run<'_>,
    id: OpId,
    device: DeviceId,
    term: TermId,
    einsum: &Einsum,
    operands: &[Operand],
) -> Result<(Vec<Limit>, Vec<Strided>), Flaw> {
    let ranges = meet(run, id, device, einsum, operands)?;
    let mut limits = Vec::new();
    for index in einsum.contracted() {
        let length = index_length(einsum, operands, index, &run.terms);
        let coordinate = run.terms.contracted_coordinate(term, index, length);
        let own = ranges[usize::from(index)].ranges().ok_or_else(|| too_many(TooManyPieces))?;
        limits.push((coordinate, own));
    }
    Ok((limits, ranges))
}

/// The dtypes of the operands and of the result.
fn dtypes(run: &Run<'_>, id: OpId) -> (Vec<DType>, DType) {
    let operands = run.schedule.operands(id);
    let from = operands.into_iter().map(|operand| run.schedule.operation(operand).dtype).collect();
    (from, run.schedule.operation(id).dtype)
}

/// How an operation treats its open operands.
struct Passed {
    /// Positions of the open operands.
    open: Vec<usize>,
    /// The common pending function, if all open operands are shares of a mean or pieces to be squared. The operation
    /// is then applied to their arrays.
    pending: Option<Pending>,
    /// Operator of the result. A mean counts as a sum here.
    result: Operator,
    /// Whether a closed operand is spread over the shares of a mean.
    shares: bool,
}

impl Passed {
    /// Replaces pending operands by their arrays. Returns the function that is then pending on the result.
    fn take_pending(&self, operands: &mut [Operand]) -> Option<Pending> {
        self.pending?;
        for place in &self.open {
            operands[*place].term = operands[*place].of.map_or(operands[*place].term, |(of, _)| of);
        }
        self.pending
    }
}

/// Checks that the operation may be applied to its open operands.
fn pass(
    run: &Run<'_>,
    id: OpId,
    device: DeviceId,
    function: &str,
    operands: &[Operand],
    passage: impl Fn(Operator) -> Option<Passage>,
) -> Result<Passed, Flaw> {
    let open: Vec<usize> = (0..operands.len()).filter(|place| operands[*place].is_open()).collect();
    let Some(first) = open.first() else {
        return Ok(Passed { open, pending: None, result: Operator::Sum, shares: false });
    };
    let operator = operands[*first].operator(&run.terms);
    let refused = |place: usize| open_operand(run, id, device, function, &operands[place]);
    if let Some(other) = open.iter().find(|place| operands[**place].operator(&run.terms) != operator) {
        return Err(refused(*other));
    }
    let passage = passage(operator).ok_or_else(|| refused(*first))?;
    let mean = operator == Operator::Mean;
    let fits =
        |choice: &&[usize]| open.iter().all(|place| choice.contains(place)) && (!mean || choice.len() == open.len());
    // Two factors that are open over different axes are checked one after the other.
    let one_by_one = open.iter().all(|place| passage.operands.contains(&[*place].as_slice()));
    let at_once = passage.operands.iter().any(fits);
    if !at_once && !one_by_one {
        return Err(refused(*first));
    }
    let pending = open.iter().map(|place| operands[*place].of.map(|(_, pending)| pending));
    let pending = match operator {
        Operator::Mean if !at_once => pending.flatten().reduce(together),
        Operator::Mean | Operator::SquareAdd => {
            let all: Vec<Option<Pending>> = pending.collect();
            if all.iter().any(|other| *other != all[0]) {
                return Err(refused(*first));
            }
            all[0]
        }
        Operator::Sum
        | Operator::Max
        | Operator::Min
        | Operator::Mul
        | Operator::And
        | Operator::Or
        | Operator::Root(_) => None,
    };
    let result = if mean { Operator::Sum } else { passage.result };
    Ok(Passed { shares: mean && operands.len() > open.len(), open, pending, result })
}

/// The function pending on the product of two means.
fn together(left: Pending, right: Pending) -> Pending {
    match (left, right) {
        (Pending::Over(n), Pending::Over(m)) => Pending::Over(n.saturating_mul(m)),
        (Pending::Square, _) | (_, Pending::Square) => Pending::Square,
    }
}

fn result(run: &Run<'_>, id: OpId, term: TermId, region: &[Strided], parts: Parts) -> Block {
    whole(&run.schedule.operation(id).extents, term, region, Rc::new(parts), &run.terms)
}

/// Global length of an index.
fn index_length(einsum: &Einsum, operands: &[Operand], index: u8, terms: &Terms) -> u64 {
    let found = einsum.operands.iter().zip(operands).find_map(|(indices, operand)| {
        let dim = indices.iter().position(|known| *known == index)?;
        terms.extents(operand.term).get(dim).copied()
    });
    found.unwrap_or(1)
}

/// An elementwise function of closed values, or of open pieces if it can be applied piece by piece. An elementwise
/// product is a product without contracted indices.
pub(super) fn map(
    run: &mut Run<'_>,
    id: OpId,
    device: DeviceId,
    function: Function,
    einsum: &Einsum,
    blocks: &[&Rc<Block>],
) -> Result<Rc<Block>, Flaw> {
    if function == Function::Binary(Binary::Mul) {
        return product(run, id, device, einsum, blocks);
    }
    let mut operands = operands(run, id, device, blocks)?;
    if let [only] = operands.as_slice()
        && let Some((term, parts)) = only.done(function, einsum, &mut run.terms)
    {
        return Ok(Rc::new(result(run, id, term, &only.region, parts)));
    }
    let (from, dtype) = dtypes(run, id);
    let passed = pass(run, id, device, &function.to_string(), &operands, |operator| {
        passes::map(function, operator, &from, dtype)
    })?;
    let done = passed.take_pending(&mut operands);
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
    check_whole(run, id, device, function, term, &region)?;
    let parts = map_parts(run, function, term, &passed, &operands);
    run.spend(parts.len())?;
    let term = done.map_or(term, |pending| run.terms.pending(term, pending));
    Ok(Rc::new(result(run, id, term, &region, parts)))
}

/// The contributions in the result of an elementwise function.
fn map_parts(run: &mut Run<'_>, function: Function, term: TermId, passed: &Passed, operands: &[Operand]) -> Parts {
    match operands {
        [left, _] if function == Function::Binary(Binary::Div) && !passed.shares => left.parts.as_ref().clone(),
        // The closed operand is spread evenly over the shares. The result is not a sum of two operands.
        [left, right] if passed.shares => {
            let (place, open) = if left.parts.is_closed() { (3, right) } else { (2, left) };
            open.parts.clone().renamed(&mut run.terms, |terms, inner| terms.inner_coordinate(term, place, inner))
        }
        // The operand from which a closed mask selects.
        [_, one] if matches!(function, Function::Masked(_)) => one.parts.as_ref().clone(),
        [_, left, right] => {
            let side = run.terms.side_coordinate(term);
            Parts::sides(&left.parts, &right.parts, side, passed.result, &run.terms)
        }
        [left, right] => {
            let side = run.terms.side_coordinate(term);
            Parts::sides(&left.parts, &right.parts, side, passed.result, &run.terms)
        }
        [one, ..] => one.parts.as_ref().clone().under(passed.result),
        [] => Parts::closed(),
    }
}

/// A filler of one block. The block must be at the position that the operation assumes.
pub(super) fn fill(
    run: &mut Run<'_>,
    id: OpId,
    device: DeviceId,
    filler: (usize, u64, Filler),
    place: &CoordMap,
    block: &Rc<Block>,
) -> Result<Rc<Block>, Flaw> {
    let operand = &operands(run, id, device, &[block])?[0];
    let (dim, valid, with) = filler;
    // The conversion cannot fail: verified operations have few dims.
    let function = Function::Fill { dim: u8::try_from(dim).unwrap_or(u8::MAX), valid, with };
    let stands = |range: Interval| {
        let start = place.at(run.mesh(), device).and_then(|block| block.checked_mul(range.len()));
        start == Some(range.start)
    };
    if !operand.region[dim].as_range().is_some_and(stands) {
        let slot = run.terms.slot(operand.term, &hulls(&operand.region));
        return Err(Flaw::FillerPlace { site: run.site(id, device), dim, slot });
    }
    let indices: Vec<u8> = (0..).take(operand.region.len()).collect();
    let einsum = Einsum { operands: vec![indices.clone()], result: indices };
    map(run, id, device, function, &einsum, &[block])
}

/// The last step of a shift of one block, in which the rows that come from somewhere must be in their places.
///
/// Zeros are right whatever contributions they are taken for: all contributions to them are 0.
pub(super) fn shift(
    run: &mut Run<'_>,
    id: OpId,
    device: DeviceId,
    (shift, length, place): (Shift, u64, &CoordMap),
    block: &Rc<Block>,
) -> Result<Rc<Block>, Flaw> {
    let (dim, by) = (shift.dim(), shift.by);
    let extent = block.extents[dim];
    let index = place.at(run.mesh(), device);
    let misplaced = |run: &Run<'_>, rows: &Operand| {
        let slot = run.terms.slot(rows.term, &hulls(&rows.region));
        Flaw::ShiftPlace { site: run.site(id, device), dim, slot }
    };
    let rows = index.and_then(|index| shift.sourced(index, extent, length));
    // Rows that wrap are checked as a whole below.
    let kept = rows.clone().filter(|rows| !rows.is_empty() && !shift.wraps);
    // The first row has the term and the contributions of the others, also if all become 0.
    let read = kept.clone().unwrap_or(0..1);
    let mut operands = [part(run, id, device, block, dim, read)?];
    let (Some(index), Some(_)) = (index, rows) else { return Err(misplaced(run, &operands[0])) };
    let (term, start) = (operands[0].term, index * extent);
    if shift.wraps && !is_round(run, id, device, (shift, length, place), block)? {
        return Err(misplaced(run, &operands[0]));
    }
    let stands = |range: Interval| {
        let first = kept.as_ref().map(|rows| i128::from(start + rows.start) - i128::from(by));
        first.is_none_or(|first| i128::from(range.start) == first)
    };
    if !operands[0].region[dim].as_range().is_some_and(stands) || run.terms.extents(term)[dim] != length {
        return Err(misplaced(run, &operands[0]));
    }
    let function = Function::Shift(shift);
    let (from, dtype) = dtypes(run, id);
    let passed = pass(run, id, device, &function.to_string(), &operands, |operator| {
        passes::map(function, operator, &from, dtype)
    })?;
    let done = passed.take_pending(&mut operands);
    let indices: Vec<u8> = (0..).take(operands[0].region.len()).collect();
    let einsum = Einsum { operands: vec![indices.clone()], result: indices };
    let made = run.terms.map(function, &einsum, &[operands[0].term], dtype);
    let (term, _) = made.ok_or_else(|| do_not_meet(run, id, device, &operands[0], &operands[0]))?;
    let mut region = operands[0].region.clone();
    region[dim] = Strided::range(Interval { start, end: start + extent });
    let parts = map_parts(run, function, term, &passed, &operands);
    run.spend(parts.len())?;
    let term = done.map_or(term, |pending| run.terms.pending(term, pending));
    Ok(Rc::new(result(run, id, term, &region, parts)))
}

/// Whether all rows of a block, with those that become 0, follow each other round the dim: then the block of the next device is
/// that of this one, moved by a block.
pub(super) fn is_round(
    run: &Run<'_>,
    id: OpId,
    device: DeviceId,
    (shift, length, place): (Shift, u64, &CoordMap),
    block: &Rc<Block>,
) -> Result<bool, Flaw> {
    let dim = shift.dim();
    let extent = block.extents[dim];
    let Some(start) = place.at(run.mesh(), device).and_then(|index| index.checked_mul(extent)) else {
        return Ok(false);
    };
    let first = (i128::from(start) - i128::from(shift.by)).rem_euclid(i128::from(length));
    let Ok(first) = u64::try_from(first) else { return Ok(false) };
    // The block may reach over the end of the dim once.
    let upto = extent.min(length - first);
    let one = part(run, id, device, block, dim, 0..upto)?;
    let fits = |operand: &Operand, start: u64| operand.region[dim].as_range().is_some_and(|own| own.start == start);
    if upto == extent {
        return Ok(fits(&one, first));
    }
    let other = part(run, id, device, block, dim, upto..extent)?;
    let beside = |operand: &Operand| {
        let beside = operand.region.iter().enumerate().filter(|(own, _)| *own != dim);
        beside.map(|(_, range)| range.clone()).collect::<Vec<_>>()
    };
    let alike = one.term == other.term && one.parts == other.parts && beside(&one) == beside(&other);
    Ok(alike && fits(&one, first) && fits(&other, 0))
}

/// Some rows of a block as a region.
fn part(
    run: &Run<'_>,
    id: OpId,
    device: DeviceId,
    block: &Rc<Block>,
    dim: usize,
    rows: Range<u64>,
) -> Result<Operand, Flaw> {
    let mut region: Cuboid = boxes::whole(&block.extents);
    region[dim] = Interval { start: rows.start, end: rows.end };
    let mut extents = block.extents.clone();
    extents[dim] = rows.end - rows.start;
    let rows = Rc::new(cut::slice(block, &block.extents, &region, &extents).map_err(too_many)?);
    Ok(operands(run, id, device, &[&rows])?.remove(0))
}

/// One contribution to a sum over the devices along the axes: the block on the first device, 0 on the others.
pub(super) fn mask(
    run: &mut Run<'_>,
    id: OpId,
    device: DeviceId,
    axes: &[AxisId],
    block: &Rc<Block>,
) -> Result<Rc<Block>, Flaw> {
    let mut block = block.as_ref().clone();
    for piece in &mut block.pieces {
        let open = !piece.holds.parts.is_closed() || run.terms.is_pending(piece.holds.term).is_some();
        if open && piece.holds.parts.operator() != Operator::Sum {
            let missing = piece.holds.parts.first_missing(&run.terms).unwrap_or_default();
            return Err(Flaw::OpenOperand {
                site: run.site(id, device),
                function: "a mask".to_owned(),
                slot: piece.slot(&run.terms),
                missing: run.terms.limits(&missing),
            });
        }
        let held = piece.holds.parts.clone();
        run.spend(held.len())?;
        let mut limits = Vec::new();
        for axis in axes {
            let start = u64::from(run.mesh().coordinate(device, *axis));
            let masked = run.terms.masked_coordinate(piece.holds.term, *axis, &run.schedule.mesh);
            // A mask of what was masked and moved decomposes it once more.
            let coordinate = match held.coordinates().contains(&masked) {
                true => run.terms.open_coordinate(id.index(), *axis, &run.schedule.mesh),
                false => masked,
            };
            limits.push((coordinate, vec![Interval { start, end: start + 1 }]));
        }
        let parts = Parts::product(&[&held], &limits, Operator::Sum, &mut run.terms, |_, _, inner| inner);
        piece.holds.parts = Rc::new(parts);
    }
    Ok(Rc::new(block))
}

/// Checks that a function along a dim sees the whole dim.
fn check_whole(
    run: &Run<'_>,
    id: OpId,
    device: DeviceId,
    function: Function,
    term: TermId,
    region: &[Strided],
) -> Result<(), Flaw> {
    let dim = match function {
        Function::Softmax { dim } => usize::from(dim),
        Function::Shift(shift) => shift.dim(),
        _ => return Ok(()),
    };
    if region[dim].as_range() == Some(Interval::whole(run.terms.extents(term)[dim])) {
        return Ok(());
    }
    let slot = run.terms.slot(term, &hulls(region));
    Err(Flaw::PartialDim { site: run.site(id, device), function: function.to_string(), dim, slot })
}

/// The flaw for an operand that is open where it must be closed.
fn open_operand(run: &Run<'_>, id: OpId, device: DeviceId, function: &str, operand: &Operand) -> Flaw {
    let missing = operand.parts.first_missing(&run.terms).unwrap_or_default();
    Flaw::OpenOperand {
        site: run.site(id, device),
        function: function.to_owned(),
        slot: run.terms.slot(operand.term, &hulls(&operand.region)),
        missing: run.terms.limits(&missing),
    }
}
