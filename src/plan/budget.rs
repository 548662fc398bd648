//! How much a search may look at: moves, which are memory, and time.

use super::Stop;
use crate::units::Bytes;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Limits on the effort of planning. When they are reached the search goes on with a restricted set of moves, and then
/// ends; the plan is the best that was found, and is not said to be optimal.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Moves between layouts that are all kept, of all arrays together.
    moves: usize,
    /// Moves that branch and bound looks at.
    work: u64,
    /// When the search is restricted, and when it ends.
    deadlines: Option<[Instant; 2]>,
}

/// Memory of a move, its share of the layout that it leads to, and what a search knows of both.
const BYTES_PER_MOVE: u64 = 400;

impl Default for Budget {
    /// As much as 1 GB takes, and no limit on time.
    fn default() -> Budget {
        Budget { moves: 1_000_000, work: Budget::MOST_WORK, deadlines: None }
    }
}

impl Budget {
    /// Moves that branch and bound looks at before it ends with the best plan that it has.
    pub const MOST_WORK: u64 = 4_000_000;
    /// Times that a program is planned while the prices that its plans use are found. Then the plan is the best of moves
    /// whose prices are known, and the bound stays below it.
    pub const MOST_ROUNDS: usize = 96;
    /// Plans that are made for a program whose inputs have layouts to be filled and whose memory is limited.
    pub const MOST_PLANS: usize = 400;
    /// Parts of axes that are searched together: the layouts of an array grow as their factorial.
    pub const MOST_PARTS: usize = 4;

    /// The moves that fit into this memory.
    #[must_use]
    pub fn within_memory(self, memory: Bytes) -> Budget {
        let moves = memory.0.saturating_mul(2) / (5 * BYTES_PER_MOVE);
        Budget { moves: usize::try_from(moves).unwrap_or(usize::MAX), ..self }
    }

    /// At most this many moves.
    #[must_use]
    pub(crate) fn within_moves(self, most: usize) -> Budget {
        Budget { moves: self.moves.min(most), ..self }
    }

    /// At most this part of the work of a search by itself, for one of many.
    #[must_use]
    pub(super) fn divided_by(self, parts: u64) -> Budget {
        Budget { work: self.work / parts.max(1), ..self }
    }

    /// Moves that branch and bound looks at before it ends with the best plan that it has.
    pub(super) fn most_work(self) -> u64 {
        self.work
    }

    /// Moves that all rounds together look at before no other begins: each may look at as many as a search for itself,
    /// so that without this limit the time would be that of many searches.
    pub(super) fn most_work_of_rounds(self) -> u64 {
        self.work.saturating_mul(6)
    }

    /// The search is restricted after half of this time, and ends after all of it, both from now on.
    #[must_use]
    pub fn within_time(self, limit: Duration) -> Budget {
        let now = Instant::now();
        let deadlines = now.checked_add(limit / 2).zip(now.checked_add(limit));
        Budget { deadlines: deadlines.map(|(half, all)| [half, all]), ..self }
    }

    /// Whether all of the time has passed.
    pub(super) fn is_over(&self) -> bool {
        self.passed(1)
    }

    fn passed(&self, place: usize) -> bool {
        self.deadlines.is_some_and(|deadlines| Instant::now() >= deadlines[place])
    }
}

/// How many moves have been made for all arrays of a program, and how many may be.
#[derive(Clone, Debug)]
pub(super) struct MoveBudget {
    count: Rc<Cell<usize>>,
    budget: Budget,
}

impl MoveBudget {
    pub(super) fn new(budget: Budget) -> MoveBudget {
        MoveBudget { count: Rc::default(), budget }
    }

    pub(super) fn add(&self, count: usize) {
        self.count.set(self.count.get().saturating_add(count));
    }

    /// From now on only a restricted set of moves is made.
    pub(super) fn restrict(&self) {
        self.count.set(self.count.get().max(self.budget.moves.saturating_add(1)));
    }

    /// From now on only what leads to a written layout is made.
    pub(super) fn exhaust(&self) {
        self.count.set(self.most().saturating_add(1));
    }

    /// Whether only a restricted set of moves is made from now on.
    pub(super) fn is_restricted(&self) -> bool {
        if self.count.get() <= self.budget.moves && self.budget.passed(0) {
            self.restrict();
        }
        self.count.get() > self.budget.moves
    }

    /// The limit by which the search is restricted, if it is.
    pub(super) fn met(&self) -> Option<Stop> {
        let limit = if self.budget.passed(0) { Stop::Time } else { Stop::Memory };
        self.is_restricted().then_some(limit)
    }

    /// Whether only what leads to a written layout is made from now on.
    pub(super) fn is_exhausted(&self) -> bool {
        self.count.get() > self.most() || self.is_over()
    }

    /// Whether the time of the search is over.
    pub(super) fn is_over(&self) -> bool {
        self.budget.is_over()
    }

    /// Ways to compute one value that are listed.
    pub(super) fn listed(&self) -> usize {
        if self.is_over() { 1 << 12 } else { self.budget.moves.saturating_mul(2) / 5 }
    }

    /// Restricted moves included.
    fn most(&self) -> usize {
        self.budget.moves.saturating_mul(5) / 2
    }
}
