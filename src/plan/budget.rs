//! Limits on a search: moves, which need memory, and time.

use super::Stop;
use crate::units::Bytes;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Limits on the effort of planning. When they are reached the search continues with a restricted move set, and then
/// ends; the plan is the best found, without a proof of optimality.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Moves between layouts kept in memory, over all arrays.
    moves: usize,
    /// Moves examined by branch and bound.
    work: u64,
    /// Times at which the search is restricted, and at which it ends.
    deadlines: Option<[Instant; 2]>,
    /// Set when the search is to end.
    interrupt: Option<&'static AtomicBool>,
}

/// Memory of a move, including its share of the target layout and of the search state.
const BYTES_PER_MOVE: u64 = 400;

impl Default for Budget {
    /// Default: 1 GB of moves, and no time limit.
    fn default() -> Budget {
        Budget { moves: 1_000_000, work: Budget::MOST_WORK, deadlines: None, interrupt: None }
    }
}

impl Budget {
    /// Moves examined by branch and bound before it ends with the best plan found.
    pub const MOST_WORK: u64 = 4_000_000;
    /// Rounds of lazy pricing. After that, only moves with known prices are used, and the plan is above the lower
    /// bound.
    pub const MOST_ROUNDS: usize = 96;
    /// Plans made for a program with layout holes and a memory limit.
    pub const MOST_PLANS: usize = 400;
    /// Parts of axes searched together: the number of layouts is factorial in them.
    pub const MOST_PARTS: usize = 4;

    /// The number of moves that fit into this memory.
    #[must_use]
    pub fn within_memory(self, memory: Bytes) -> Budget {
        let moves = memory.0.saturating_mul(2) / (5 * BYTES_PER_MOVE);
        Budget { moves: usize::try_from(moves).unwrap_or(usize::MAX), ..self }
    }

    /// Limits the moves.
    #[must_use]
    pub(crate) fn within_moves(self, most: usize) -> Budget {
        Budget { moves: self.moves.min(most), ..self }
    }

    /// Limits the work to a fraction, for one of many searches.
    #[must_use]
    pub(crate) fn divided_by(self, parts: u64) -> Budget {
        Budget { work: self.work / parts.max(1), ..self }
    }

    /// Moves examined by branch and bound before it ends with the best plan found.
    pub(super) fn most_work(self) -> u64 {
        self.work
    }

    /// Moves examined in all rounds together before the last round begins; without this limit, many rounds would take
    /// the time of many searches.
    pub(super) fn most_work_of_rounds(self) -> u64 {
        self.work.saturating_mul(6)
    }

    /// Restricts the search after half of this time, and ends it after all of it.
    #[must_use]
    pub fn within_time(self, limit: Duration) -> Budget {
        let now = Instant::now();
        let deadlines = now.checked_add(limit / 2).zip(now.checked_add(limit));
        Budget { deadlines: deadlines.map(|(half, all)| [half, all]), ..self }
    }

    /// Ends the search when the flag is set.
    #[must_use]
    pub fn until(self, interrupt: &'static AtomicBool) -> Budget {
        Budget { interrupt: Some(interrupt), ..self }
    }

    /// Whether the search was interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Whether the time limit has passed, or the search was interrupted.
    pub(super) fn is_over(&self) -> bool {
        self.passed(1) || self.is_interrupted()
    }

    fn passed(&self, place: usize) -> bool {
        self.deadlines.is_some_and(|deadlines| Instant::now() >= deadlines[place])
    }
}

/// The number of moves generated for all arrays of a program, and its limit.
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

    /// Restricts the move set from now on.
    pub(super) fn restrict(&self) {
        self.count.set(self.count.get().max(self.budget.moves.saturating_add(1)));
    }

    /// Limits moves to those towards written layouts from now on.
    pub(super) fn exhaust(&self) {
        self.count.set(self.most().saturating_add(1));
    }

    /// Whether the move set is restricted.
    pub(super) fn is_restricted(&self) -> bool {
        if self.count.get() <= self.budget.moves && self.budget.passed(0) {
            self.restrict();
        }
        self.count.get() > self.budget.moves
    }

    /// The limit that restricts the search, if any.
    pub(super) fn met(&self) -> Option<Stop> {
        let limit = if self.budget.passed(0) { Stop::Time } else { Stop::Memory };
        self.is_restricted().then_some(limit)
    }

    /// Whether only moves towards written layouts are generated.
    pub(super) fn is_exhausted(&self) -> bool {
        self.count.get() > self.most() || self.is_over()
    }

    /// Whether the time of the search is over.
    pub(super) fn is_over(&self) -> bool {
        self.budget.is_over()
    }

    /// Limit on the listed ways to compute one value.
    pub(super) fn listed(&self) -> usize {
        if self.is_over() { 1 << 12 } else { self.budget.moves.saturating_mul(2) / 5 }
    }

    /// Limit on all moves, including restricted ones.
    fn most(&self) -> usize {
        self.budget.moves.saturating_mul(5) / 2
    }
}
