//! Claims about devices that are not followed, and the checks that justify them.
//!
//! A value has one claim per collapsed axis. It states how the block of the next device along the axis follows from
//! the block of this device: digits of some positions rotate, digits of the array elements rotate, and the
//! contributions rotate with the coordinates that they count. For each operation, this file checks that a claim about
//! its result follows from claims about its operands. If no claim follows, the axis is not collapsed.
//!
//! A value may satisfy several claims. For example, a block that is the same on all devices satisfies the claim that
//! nothing rotates, and the claim that positions and elements rotate together. Two claims are compared on the
//! representatives.
//!
//! # Example
//!
//! `A[I_X]` with I = 4 on a ring X of 4 devices is gathered. Device 0 stands for all four; device d holds the element
//! a(d). A step along X is d to d + 1, modulo 4 throughout.
//!
//! | operation | block of device 0 | claim along X |
//! | --- | --- | --- |
//! | `input A` | `[a0]` | elements rotate: device 1 holds `[a1]` |
//! | `shuffle via X+1` | `[a3]`, the block of device 3, by the claim of the input: three steps from `[a0]` | elements rotate; the shuffle sends d to d + 1 for every d, so it commutes with the step |
//! | `assemble .. at x-1, x` | `[a0, -, -, a3]` | positions and elements rotate: device 1 has a0 and a1, at the positions 0 and 1 |
//! | after two more shuffles | `[a0, a1, a2, a3]` | positions and elements rotate: the element at position p + 1 of device 1 is the one at p of device 0, plus one, which is a(p + 1): the same block |
//!
//! The output is declared replicated: every device has a(p) at position p. Device 0 is compared with that, and the
//! claim carries the comparison to the others: rotating positions and elements of the declared block gives the
//! declared block of the next device. If device 2 alone sent its block to the wrong place, its shuffle would not
//! commute with the step, `symmetry.rs` would not offer the axis, and all four devices would be followed.

use super::block::Block;
use super::compute;
use super::digits::{Digit, Digits, lie_apart, reshaped, unite};
use super::run::{self, Run, Stop};
use super::strided::Lies;
use super::symmetry::{Turning, cut_by, cuttings};
use crate::layout::Sharding;
use crate::mesh::AxisId;
use crate::schedule::{ArrayId, CoordMap, OpId, OpKind, Output, Turn};
use crate::shift::Shift;
use std::rc::Rc;

/// Number of low term digits for which every subset is tried, see [`ways`].
const MOST_DIGITS: u32 = 4;

/// A value: its blocks on the representatives, and one claim per collapsed axis.
#[derive(Default)]
pub(super) struct Value {
    pub(super) blocks: Vec<Option<Rc<Block>>>,
    pub(super) claims: Vec<Claim>,
}

/// How the block of the next device along an axis follows from that of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// Digits that rotate in the positions of the block.
    pub(super) digits: Digits,
    /// Bit mask over the digits that can rotate in a term's elements; a set bit means that the digit rotates.
    turning: u32,
}

impl Claim {
    /// The claim that all digits of the elements rotate.
    fn full(digits: Digits) -> Claim {
        Claim { digits, turning: u32::MAX }
    }

    /// Whether digit number `bit` of a term rotates.
    pub(super) fn turns(&self, bit: u32) -> bool {
        self.turning >> bit.min(31) & 1 == 1
    }
}

impl Run<'_> {
    /// Derives the claims of an operation's result.
    pub(super) fn claims(
        &mut self,
        id: OpId,
        operands: &[&Value],
        blocks: &[Option<Rc<Block>>],
    ) -> Result<Vec<Claim>, Stop> {
        let axes = self.symmetry.axes.len();
        let claims = (0..axes).map(|place| self.claim(id, place, operands, blocks)).collect::<Result<Vec<_>, _>>()?;
        let all = claims.iter().zip(&self.symmetry.axes);
        let digits = all.flat_map(|(claim, turning)| claim.digits.iter().map(|digit| (*digit, turning.n)));
        match self.symmetry.axes.last() {
            Some(last) if !lie_apart(&digits.collect::<Vec<_>>(), &self.schedule.operation(id).extents) => {
                Err(Stop::Asymmetric(last.axis))
            }
            Some(_) | None => Ok(claims),
        }
    }

    fn claim(
        &mut self,
        id: OpId,
        place: usize,
        operands: &[&Value],
        blocks: &[Option<Rc<Block>>],
    ) -> Result<Claim, Stop> {
        let schedule = self.schedule;
        let axis = self.symmetry.axes[place].axis;
        match &schedule.operation(id).kind {
            OpKind::Input { array, sharding } => {
                let claim = self.regular(place, blocks)?;
                self.check_sharding(place, *array, sharding, blocks, &claim)?;
                Ok(claim)
            }
            // A mask keeps the first device along an axis that does not rotate. Along an axis of its group, a switch
            // sum only reorders its terms, so the sum does not change.
            OpKind::Shuffle { .. } | OpKind::SwitchSum { .. } | OpKind::Mask { .. } => {
                Ok(operands[0].claims[place].clone())
            }
            OpKind::Add { .. } => {
                let choices: Vec<Claim> = operands.iter().map(|value| value.claims[place].clone()).collect();
                self.agreed(place, operands, choices, |claim, _| claim.clone())
            }
            OpKind::Reshape => {
                let (from, n) = (schedule.operation(schedule.operands(id)[0]), self.symmetry.axes[place].n);
                let claim = &operands[0].claims[place];
                let digits = reshaped(&claim.digits, n, &from.extents, &schedule.operation(id).extents);
                let digits = digits.into_iter().collect::<Option<Digits>>().ok_or(Stop::Asymmetric(axis))?;
                Ok(Claim { digits, ..claim.clone() })
            }
            OpKind::Slice { .. } => {
                let cuttings = cuttings(&schedule, id, axis).ok_or(Stop::Asymmetric(axis))?;
                let have = &operands[0].claims[place];
                let wanted = cuttings[0].kept(&have.digits);
                let choices = ways(have.turning, wanted);
                let claim = self.agreed(place, operands, choices, |claim, _| claim.clone())?;
                Ok(Claim { digits: cuttings[0].down(&claim.digits), ..claim })
            }
            OpKind::Assemble { .. } => {
                let cuttings = cuttings(&schedule, id, axis).ok_or(Stop::Asymmetric(axis))?;
                let mut digits = Digits::new();
                for (cutting, value) in cuttings.iter().zip(operands) {
                    unite(&mut digits, cutting.indices().into_iter().chain(cutting.up(&value.claims[place].digits)));
                }
                for cutting in &cuttings {
                    let kept = cutting.kept(&digits);
                    digits.retain(|digit| kept.contains(digit));
                }
                if cuttings.iter().any(|cutting| cutting.kept(&digits) != digits) {
                    return Err(Stop::Asymmetric(axis));
                }
                let choices = ways(operands[0].claims[place].turning, digits);
                self.agreed(place, operands, choices, |claim, operand| Claim {
                    digits: cuttings[operand].down(&claim.digits),
                    ..claim.clone()
                })
            }
            OpKind::AllGather { axes, dim } => {
                let mut claim = operands[0].claims[place].clone();
                if axes.contains(&axis) {
                    let mesh = &schedule.mesh;
                    let minor = mesh.group_size(axes.iter().copied().skip_while(|own| *own != axis).skip(1));
                    let shard = schedule.operation(schedule.operands(id)[0]).extents[*dim];
                    unite(&mut claim.digits, [Digit { dim: *dim, weight: shard * minor }]);
                }
                Ok(claim)
            }
            OpKind::MatMul { .. } | OpKind::Reduce { .. } | OpKind::Map { .. } | OpKind::Kernel(_) => {
                self.computed(place, operands)?;
                self.regular(place, blocks)
            }
            OpKind::Fill { dim, block, .. } => {
                self.computed(place, operands)?;
                self.check_filler(place, *dim, block, blocks)?;
                self.regular(place, blocks)
            }
            OpKind::Shift { shift, length, block } => {
                self.computed(place, operands)?;
                self.check_filler(place, shift.dim(), block, blocks)?;
                self.check_shift(place, id, (*shift, *length, block), [&operands[0].blocks, blocks])?;
                self.regular(place, blocks)
            }
        }
    }

    /// The first candidate claim for a result for which all operands satisfy the claims that it requires.
    fn agreed(
        &mut self,
        place: usize,
        operands: &[&Value],
        choices: Vec<Claim>,
        of: impl Fn(&Claim, usize) -> Claim,
    ) -> Result<Claim, Stop> {
        let mut refused: Vec<Claim> = Vec::new();
        for choice in choices {
            if refused.contains(&choice) {
                continue;
            }
            let mut fits = true;
            for (operand, value) in operands.iter().enumerate() {
                fits = fits && self.is_also(place, value, &of(&choice, operand))?;
            }
            if fits {
                return Ok(choice);
            }
            refused.push(choice);
        }
        Err(Stop::Asymmetric(self.symmetry.axes[place].axis))
    }

    /// Whether a value also satisfies `claim`: one step must lead to the same blocks. The digits of both claims must
    /// lie apart, so that the claims also agree after several steps.
    fn is_also(&mut self, place: usize, value: &Value, claim: &Claim) -> Result<bool, Stop> {
        let known = &value.claims[place];
        if known == claim {
            return Ok(true);
        }
        let n = self.symmetry.axes[place].n;
        for block in value.blocks.iter().flatten() {
            // Steps along the other axes must commute with this one, too.
            let all = value.claims.iter().zip(&self.symmetry.axes);
            let all = all.flat_map(|(own, turning)| own.digits.iter().map(|digit| (*digit, turning.n)));
            let all = all.chain(claim.digits.iter().map(|digit| (*digit, n)));
            if !lie_apart(&all.collect::<Vec<_>>(), &block.extents) {
                return Ok(false);
            }
            let one = self.turned(block, place, known, 1)?;
            let other = self.turned(block, place, claim, 1)?;
            if !run::same(&one, &other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks that the operands of a computation are regions of their arrays on every device.
    fn computed(&mut self, place: usize, operands: &[&Value]) -> Result<(), Stop> {
        for value in operands {
            let claim = self.regular(place, &value.blocks)?;
            if !self.is_also(place, value, &claim)? {
                return Err(Stop::Asymmetric(self.symmetry.axes[place].axis));
            }
        }
        Ok(())
    }

    /// The claim for blocks that are regions of arrays on every device: each digit that rotates in the array rotates
    /// in the block, or has a single value throughout the block.
    pub(super) fn regular(&mut self, place: usize, blocks: &[Option<Rc<Block>>]) -> Result<Claim, Stop> {
        let mut digits: Option<Digits> = None;
        for block in blocks.iter().flatten() {
            let (own, _) = self.turning_in(place, block)?;
            if digits.get_or_insert_with(|| own.clone()) != &own {
                return Err(Stop::Asymmetric(self.symmetry.axes[place].axis));
            }
        }
        Ok(Claim::full(digits.unwrap_or_default()))
    }

    /// Splits the digits that rotate in a block's array into those inside the block (in block coordinates) and those
    /// that have a single value in the block.
    fn turning_in(&mut self, place: usize, block: &Block) -> Result<(Digits, Digits), Stop> {
        let (axis, n) = (self.symmetry.axes[place].axis, self.symmetry.axes[place].n);
        let (term, region) = compute::place(block, &self.terms).ok_or(Stop::Asymmetric(axis))?;
        let (mut inside, mut beside) = (Digits::new(), Digits::new());
        for digit in self.term_digits(place, term)?.iter() {
            match region[digit.dim].to_digit(digit.weight, n) {
                Lies::Inside(weight) => inside.push(Digit { weight, ..*digit }),
                Lies::Beside => beside.push(*digit),
                Lies::Across => return Err(Stop::Asymmetric(axis)),
            }
        }
        Ok((inside, beside))
    }

    /// Checks that blocks are the shards of a sharding on every device, given that they are on the representatives:
    /// the digits with a single value in the block must be the digits in which the axis cuts the array.
    fn check_sharding(
        &mut self,
        place: usize,
        array: ArrayId,
        sharding: &Sharding,
        blocks: &[Option<Rc<Block>>],
        claim: &Claim,
    ) -> Result<(), Stop> {
        let axis = self.symmetry.axes[place].axis;
        let extents = &self.schedule.array(array).extents;
        let wanted: Digits = cut_by(self.mesh(), sharding, extents, axis).into_iter().collect();
        for block in blocks.iter().flatten() {
            if self.turning_in(place, block)? != (claim.digits.clone(), wanted.clone()) {
                return Err(Stop::Asymmetric(axis));
            }
        }
        Ok(())
    }

    /// Checks that a filler is at its position on every device, given that it is on the representatives: its position
    /// must rotate with its block.
    fn check_filler(
        &mut self,
        place: usize,
        dim: usize,
        map: &CoordMap,
        blocks: &[Option<Rc<Block>>],
    ) -> Result<(), Stop> {
        let axis: AxisId = self.symmetry.axes[place].axis;
        for block in blocks.iter().flatten() {
            let (_, beside) = self.turning_in(place, block)?;
            let (term, _) = compute::place(block, &self.terms).ok_or(Stop::Asymmetric(axis))?;
            let (length, extent) = (block.extents[dim], self.terms.extents(term)[dim]);
            let mut own = beside.iter().filter(|digit| digit.dim == dim);
            let wanted = match (own.next(), own.next()) {
                (None, _) => Turn::Fixed,
                (Some(digit), None) if digit.weight.is_multiple_of(length) => Turn::Digit(digit.weight / length),
                (Some(_), _) => return Err(Stop::Asymmetric(axis)),
            };
            if map.turn(self.mesh(), axis, extent / length) != Some(wanted) {
                return Err(Stop::Asymmetric(axis));
            }
        }
        Ok(())
    }

    /// Checks that a shift takes its elements on every device, given that it does on the representatives.
    ///
    /// A step along the axis must be a shift itself, round the whole dim: then both can be done in either order. Digits below the
    /// first one would carry. And what becomes 0 on a representative is needed on other devices.
    fn check_shift(
        &mut self,
        place: usize,
        id: OpId,
        (shift, length, map): (Shift, u64, &CoordMap),
        [operand, blocks]: [&[Option<Rc<Block>>]; 2],
    ) -> Result<(), Stop> {
        let Turning { axis, n, .. } = &self.symmetry.axes[place];
        let (axis, n) = (*axis, *n);
        let mut turns = false;
        for block in blocks.iter().flatten() {
            let (inside, beside) = self.turning_in(place, block)?;
            for digit in inside.iter().chain(beside.iter()).filter(|digit| digit.dim == shift.dim()) {
                if digit.weight.checked_mul(n) != Some(length) {
                    return Err(Stop::Asymmetric(axis));
                }
                turns = true;
            }
        }
        let representatives = self.symmetry.orbits.representatives().to_vec();
        for (device, own) in representatives.into_iter().zip(operand).filter(|_| turns) {
            let Some(own) = own else { continue };
            if !compute::is_round(self, id, device, (shift, length, map), own).is_ok_and(|is_round| is_round) {
                return Err(Stop::Asymmetric(axis));
            }
        }
        Ok(())
    }

    /// Checks that an output is correct on every device, given that it is correct on the representatives.
    pub(super) fn output_claims(&mut self, output: &Output, value: &Value) -> Result<(), Stop> {
        for place in 0..self.symmetry.axes.len() {
            let claim = self.regular(place, &value.blocks)?;
            if !self.is_also(place, value, &claim)? {
                return Err(Stop::Asymmetric(self.symmetry.axes[place].axis));
            }
            self.check_sharding(place, output.array, &output.sharding, &value.blocks, &claim)?;
        }
        Ok(())
    }
}

/// Candidate claims with these digits: the elements rotate as in `known`, all of them, or any subset of the low digits.
fn ways(known: u32, digits: Digits) -> Vec<Claim> {
    let some = (0..1u32 << MOST_DIGITS).map(|low| low | u32::MAX << MOST_DIGITS);
    [known, u32::MAX].into_iter().chain(some).map(|turning| Claim { digits: digits.clone(), turning }).collect()
}
