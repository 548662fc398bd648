//! What is claimed of the devices that are not followed, and why it holds.
//!
//! Of a value it is claimed, for each collapsed axis: the block of the next device along the axis is that of this one
//! with the places of some dims turned, the elements of the arrays turned in some of their digits, and the
//! contributions turned with what they count. If that is true of the operands of an operation it is true of its
//! result, as each function of this file makes sure; where it cannot be, the axis is not collapsed.
//!
//! One and the same value can be claimed in several ways: a block that all devices have is itself when nothing turns,
//! and when places and elements turn together. Whether two ways say the same is seen on the representatives.

use super::block::Block;
use super::compute;
use super::digits::{Digit, Digits, lie_apart, unite};
use super::run::{self, Run, Stop};
use super::strided::Lies;
use super::symmetry::{cut_by, cuttings};
use crate::layout::Sharding;
use crate::mesh::AxisId;
use crate::schedule::{ArrayId, CoordMap, OpId, OpKind, Output, Turn};
use std::rc::Rc;

/// The most digits of a term among which those that turn are looked for.
const MOST_DIGITS: u32 = 4;

/// A value: its blocks on the representatives, and what is claimed of the others along each collapsed axis.
#[derive(Default)]
pub(super) struct Value {
    pub(super) blocks: Vec<Option<Rc<Block>>>,
    pub(super) claims: Vec<Claim>,
}

/// How the next device's block follows from that of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// What turns in the places of the block.
    pub(super) digits: Digits,
    /// Which of the digits turn that can in the elements of a term, as bits.
    turning: u32,
}

impl Claim {
    /// All digits of the elements turn.
    fn full(digits: Digits) -> Claim {
        Claim { digits, turning: u32::MAX }
    }

    /// Whether the digit in this place among those of a term turns.
    pub(super) fn turns(&self, bit: u32) -> bool {
        self.turning >> bit.min(31) & 1 == 1
    }
}

impl Run<'_> {
    /// The claims of the result of an operation.
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
            // What is masked is the first along an axis that does not turn.
            // Along an axis of its group the terms of a sum in a switch change places, and the sum stays.
            OpKind::Shuffle { .. } | OpKind::SwitchSum { .. } | OpKind::Mask { .. } => {
                Ok(operands[0].claims[place].clone())
            }
            OpKind::Add { .. } => {
                let choices: Vec<Claim> = operands.iter().map(|value| value.claims[place].clone()).collect();
                self.agreed(place, operands, choices, |claim, _| claim.clone())
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
            OpKind::MatMul { .. } | OpKind::Reduce { .. } | OpKind::Map { .. } => {
                self.computed(place, operands)?;
                self.regular(place, blocks)
            }
            OpKind::Fill { dim, block, .. } => {
                self.computed(place, operands)?;
                self.check_filler(place, *dim, block, blocks)?;
                self.regular(place, blocks)
            }
        }
    }

    /// The first of the choices for a result from which all operands can be claimed.
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

    /// Whether a value can be claimed in another way as well: one step leads to the same blocks. What turns in both
    /// ways lies apart, so that as many steps of the one are as many of the other.
    fn is_also(&mut self, place: usize, value: &Value, claim: &Claim) -> Result<bool, Stop> {
        let known = &value.claims[place];
        if known == claim {
            return Ok(true);
        }
        let n = self.symmetry.axes[place].n;
        for block in value.blocks.iter().flatten() {
            // Along the other axes the order of steps must play no role either.
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

    /// Operands of a computation are regions of their arrays on every device.
    fn computed(&mut self, place: usize, operands: &[&Value]) -> Result<(), Stop> {
        for value in operands {
            let claim = self.regular(place, &value.blocks)?;
            if !self.is_also(place, value, &claim)? {
                return Err(Stop::Asymmetric(self.symmetry.axes[place].axis));
            }
        }
        Ok(())
    }

    /// The claim of blocks that are regions of arrays, and are so on every device: each digit that turns in the array
    /// turns in the block, or is one and the same all over the block.
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

    /// Of the digits that turn in the array of a block, those that turn in the block, as its places have them, and those
    /// that it is at one of.
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

    /// Blocks are the shards that a sharding gives to their devices if they are so on the representatives: the digits
    /// that they are at one of must be those in which the axis cuts the array.
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

    /// A filler stands in its place on every device if it does on the representatives: its place turns as its block does.
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

    /// An output is on every device what it must be, if it is on the representatives.
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

/// Ways to claim a value with these digits: the elements turn as they are known to, all of them, or only some.
fn ways(known: u32, digits: Digits) -> Vec<Claim> {
    let some = (0..1u32 << MOST_DIGITS).map(|low| low | u32::MAX << MOST_DIGITS);
    [known, u32::MAX].into_iter().chain(some).map(|turning| Claim { digits: digits.clone(), turning }).collect()
}
