//! Plans by received bytes. Ideal rings, whatever the wiring; operations break ties.

use super::book::Book;
use crate::collective::Collective;
use crate::layout::Layout;
use crate::mesh::Mesh;
use crate::plan::{Cost, Costs, LocalWork, Objective};
use crate::recipe::{Chooser, Lowering};
use crate::topology::Topology;

/// The book's times, but the plan with the fewest bytes.
pub(super) struct ReceivedBytes<'a> {
    book: Book<'a>,
}

impl<'a> ReceivedBytes<'a> {
    pub(super) fn new(topology: &'a Topology, lowering: Lowering) -> ReceivedBytes<'a> {
        ReceivedBytes { book: Book::new(topology, lowering) }
    }
}

impl Costs for ReceivedBytes<'_> {
    fn chooser(&self) -> Option<&Chooser<'_>> {
        self.book.chooser()
    }

    fn collective(&self, collective: &Collective, from: &Layout) -> Cost {
        self.book.collective(collective, from)
    }

    fn product(&self, work: &LocalWork) -> Cost {
        self.book.product(work)
    }

    fn map(&self, work: &LocalWork) -> Cost {
        self.book.map(work)
    }

    fn objective(&self) -> Objective {
        Objective::Bytes
    }

    fn seen_as(&self, mesh: &Mesh) -> Option<Box<dyn Costs + '_>> {
        Some(Box::new(ReceivedBytes { book: self.book.on(mesh) }))
    }

    fn name(&self) -> &'static str {
        "bytes"
    }
}
