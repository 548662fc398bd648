//! Pinned products: `by gather(A)`, `by reduce`, `by slice(B)`.

use super::PlanError;
use super::assignments::Assignment;
use super::search::Search;
use crate::collective::CollectiveKind;
use crate::program::{Pin, Strategy, ValueId};
use itertools::Itertools;

impl Search<'_> {
    /// Whether an assignment satisfies the pin of a product.
    pub(super) fn obeys(&self, id: ValueId, assignment: &Assignment) -> bool {
        self.program.value(id).pin.as_ref().is_none_or(|pin| self.does(id, assignment, pin))
    }

    fn does(&self, id: ValueId, assignment: &Assignment, pin: &Pin) -> bool {
        let moved = |kind| pin.operands.iter().all(|place| self.is_moved(id, assignment, *place, kind));
        match pin.strategy {
            Strategy::Gather => moved(CollectiveKind::AllGather),
            Strategy::Slice => moved(CollectiveKind::Slice),
            Strategy::Reduce => !assignment.result.open.is_empty(),
        }
    }

    /// Whether the cheapest path of an operand to its layout includes a move of this kind.
    fn is_moved(&self, id: ValueId, assignment: &Assignment, place: usize, kind: CollectiveKind) -> bool {
        let operand = self.program.value(id).definition.operands()[place];
        let node = self.space(operand).known(&assignment.operands[place]);
        let way = node.and_then(|node| self.space(operand).way(self.found[operand.index()].offered(), node));
        way.is_some_and(|way| way.iter().any(|(_, collective, _)| collective.kind() == kind))
    }

    /// The error for an impossible pin, with the possible ones.
    pub(super) fn impossible(&mut self, id: ValueId, pin: &Pin) -> PlanError {
        let ways = self.ways(id);
        let reachable: Vec<&Assignment> = ways
            .iter()
            .filter(|(way, _)| self.source(id, way).iter().any(Option::is_some))
            .map(|(_, assignment)| assignment)
            .collect();
        let possible = Pin::all().filter(|pin| reachable.iter().any(|assignment| self.does(id, assignment, pin)));
        let program = self.program;
        let possible = possible.map(|pin| format!("`{}`", program.pin_text(id, &pin))).unique().join(", ");
        let help = match possible.is_empty() {
            true => "no communication is needed; remove `by`".to_owned(),
            false => format!("possible strategies are {possible}; or remove `by`"),
        };
        let value = program.value(id);
        PlanError::Pin { name: program.label(id), pin: program.pin_text(id, pin), help, span: value.span.into() }
    }
}
