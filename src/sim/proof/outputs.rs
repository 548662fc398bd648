//! Checks the outputs at the end of a schedule.

use super::block::{Block, Holding};
use super::claims::Value;
use super::flaw::Flaw;
use super::run::{Run, Stop};
use super::terms::TermId;
use crate::mesh::{Axes, DeviceId};
use crate::schedule::Output;
use std::rc::Rc;

impl Run<'_> {
    /// Checks that each device has the elements of its shard, and that the devices along the open axes hold each
    /// contribution exactly once.
    pub(super) fn output(&mut self, output: &Output, value: &Value) -> Result<(), Stop> {
        let schedule = self.schedule;
        // An output that only one device holds needs no combination.
        let root = output.sharding.operator.is_root();
        let open = if root { Axes::NONE } else { output.sharding.open.in_order() };
        let (operator, group) = (output.sharding.operator, open.group_size(&schedule.mesh));
        let (term, operator) = self.open_term(output.array, operator, group, !open.is_empty());
        let devices = self.symmetry.orbits.representatives().to_vec();
        let on = |device: &DeviceId| output.sharding.is_on(*device, &schedule.mesh);
        for (device, block) in devices.iter().zip(&value.blocks).filter(|(device, _)| on(device)) {
            self.output_place(output, term, block.as_ref(), *device)?;
        }
        self.output_claims(output, value)?;
        let firsts = devices.into_iter().filter(|device| schedule.mesh.rank(*device, open.iter()) == 0);
        for device in firsts.filter(on) {
            let members = 0..open.group_size(&schedule.mesh);
            let members: Vec<Option<Rc<Block>>> = members
                .map(|rank| self.image(value, schedule.mesh.with_rank(device, open.iter(), rank)))
                .collect::<Result<_, Stop>>()?;
            let blocks: Vec<Option<&Rc<Block>>> = members.iter().map(Option::as_ref).collect();
            let combined = self.add(output.value, device, operator, &blocks)?;
            for piece in combined.iter().flat_map(|block| &block.pieces) {
                if let Some(missing) = piece.holds.parts.first_missing(&self.terms) {
                    let missing = self.terms.limits(&missing);
                    let site = self.site(output.value, device);
                    return Err(Flaw::MissingContribution { site, slot: piece.slot(&self.terms), missing }.into());
                }
            }
        }
        Ok(())
    }

    fn output_place(
        &self,
        output: &Output,
        term: TermId,
        block: Option<&Rc<Block>>,
        device: DeviceId,
    ) -> Result<(), Flaw> {
        let region = self.shard(output.array, &output.sharding, device);
        let extents: Vec<u64> = region.iter().map(|range| range.len()).collect();
        let expected = Block::new(&extents, Holding::region(term, &region, self.closed.clone(), &self.terms));
        let Some(block) = block else {
            let site = self.site(output.value, device);
            return Err(Flaw::Missing { site, slot: expected.pieces[0].slot(&self.terms) });
        };
        let expected = expected.within(&block.view);
        for piece in &block.pieces {
            let wanted = expected.pieces[0].cut(&piece.at);
            if !wanted.holds.same_place(&piece.holds) {
                return Err(self.wrong(self.site(output.value, device), &wanted, piece));
            }
        }
        Ok(())
    }
}
