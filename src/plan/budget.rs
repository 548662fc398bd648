//! Limits of the planner: those of the caller on moves, which need memory, and on time, and the fixed ones.

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

/// # One search
impl Budget {
    /// Moves examined by branch and bound before it ends with the best plan found.
    pub const MOST_WORK: u64 = 6_000_000;
    /// Times the work limit after which a search without a plan ends if pins or limits exclude plans.
    pub const TIMES_WITHOUT_A_PLAN: u64 = 4;
    /// At the work limit, a gap of 1/1000 to the bound is accepted; before, a proportionally smaller one.
    pub const LEAST_GAP: u128 = 1000;
    /// No gap is accepted within the first 1/16 of the work, in which most programs are solved completely.
    pub const FIRST_SHARE: u64 = 16;
    /// The share of the work limit in which a part of an unfinished plan is searched again.
    pub const SHARE_OF_A_PART: u64 = 32;
    /// The most parts that are searched again.
    pub const MOST_SEARCHED_AGAIN: usize = 16;
    /// The share of the work limit of a round of lazy pricing that looks for moves to price. Programs that are not
    /// solved within it need few rounds of the full work then.
    pub const SHARE_OF_A_LOOK: u64 = 16;
    /// Rounds of lazy pricing. After that, only moves with known prices are used, and the plan is above the lower
    /// bound.
    pub const MOST_ROUNDS: usize = 96;
    /// Above this number of axes that move to a dim at once, only their own order and mesh order are tried.
    pub const MOST_ORDERED: usize = 6;
    /// Permutes out of one sharding; a dim over n axes of one size has n! of them.
    pub const MOST_PERMUTES: usize = 6_000;
    /// Above this number of ways to spread the axes of a sum over the dims, all of them go to one dim.
    pub const MOST_SPREAD: usize = 4096;
    /// In larger kernels, all users of a value count as connected.
    pub const MOST_MEMBERS: usize = 256;
    /// Longest program for which dependencies between products are computed.
    pub const MOST_LOOKED_BACK: usize = 2048;
    /// Lists of ways kept of values that are computed alike, for different open sums of their operands.
    pub const MOST_LISTS: usize = 8;
    /// Alternatives kept per product.
    pub const MOST_ALTERNATIVES: usize = 8;
    /// Expensive prices computed for alternatives.
    pub const MOST_PRICES: usize = 24;
    /// Moves examined for each engine or group of links in the search for a lower bound.
    pub const MOST_WORK_OF_A_BOUND: u64 = 4_000_000;
}

/// # Several searches for one program
impl Budget {
    /// Least saving of another plan, or of the plan of a changed program, such as one with a split softmax: 1/100.
    pub const LEAST_SAVING: u128 = 100;
    /// Rewritten programs that are planned.
    pub const MOST_REWRITES: usize = 32;
    /// Values of all rewritten programs together; reduces their number for large programs.
    pub const MOST_REWRITTEN_VALUES: usize = 4_000;
    /// The share of the work limit for each rewritten program, if the program as written met this limit.
    pub const SHARE_OF_A_REWRITE: u64 = 6;
    /// Parts of axes searched together: the number of layouts is factorial in them.
    pub const MOST_PARTS: usize = 4;
    /// Steps of a plan that is not proven optimal for which more openings of sums are searched.
    pub const MOST_STEPS_OPENED_IN_A_GAP: usize = 100;
    /// Layouts of one input.
    pub const MOST_LAYOUTS: usize = 1 << 12;
    /// Layouts of one input with axes in mesh order.
    pub const MOST_PLAIN: usize = 1 << 14;
    /// Plans made for a program with layout holes and a memory limit.
    pub const MOST_PLANS: usize = 400;
    /// With more combinations of layouts: times that the rent is doubled until the layouts fit.
    pub const MOST_DOUBLED: u32 = 24;
    /// Times that the interval between two rents is then halved.
    pub const MOST_HALVED: usize = 6;
    /// Layouts tried by local search after the rent.
    pub const MOST_CHANGED: usize = 200;
    /// The share of the work limit for each of them.
    pub const SHARE_OF_A_CHANGE: u64 = 60;
    /// Times that the options are tightened until a plan is within the limits of the program.
    pub const MOST_TIGHTENED: u32 = 24;
    /// Rounds that only learn the memory of steps before the options are tightened.
    pub const MOST_LEARNED: u32 = 48;
}

/// # Plans with overlap
impl Budget {
    /// Operations times devices that are simulated to improve the cheapest plan in sequence: about 0.2 s.
    pub const WHOLE_EFFORT: usize = 2_000_000;
    /// Operations and operands of a schedule in as many chunks as save time, and of one with routed moves. Longer ones
    /// have few chunks and chains of collectives.
    pub const MOST_WORK_IN_CHUNKS: u64 = 1 << 21;
    /// Times that the weights of the load are shifted to the busiest units.
    pub const MOST_SHIFTS: usize = 6;
    /// The share of the work limit for each of these searches.
    pub const SHARE_OF_A_SHIFT: u64 = 12;
    /// Moves that such a search keeps; meshes with many axes use a restricted move set.
    pub const MOST_SHIFTED_MOVES: usize = 50_000;
    /// Searches with a restricted move set after which no more are made: each takes as long as the search for the plan itself.
    pub const MOST_RESTRICTED_SHIFTS: usize = 2;
    /// Steps of a plan for which they are made, and whose overlap is improved; longer plans take seconds each.
    pub const MOST_SHIFTED_STEPS: usize = 500;
    /// Plans tried as a whole in addition to the cheapest plan in sequence.
    pub const MOST_WHOLE: usize = 2;
    /// Steps of a plan, with all repetitions, whose products are tried in other ways.
    pub const MOST_VARIED_STEPS: u64 = 100;
    /// Axes of its mesh: the costs of all moves have to be known to try a product in another way.
    pub const MOST_VARIED_AXES: usize = 3;
    /// Moves that the search for a plan with one product computed in another way keeps: the costs of all of them are needed.
    pub const MOST_VARIED_MOVES: usize = 5_000;
    /// The share of the work limit for such a search.
    pub const SHARE_OF_A_VARIED_SEARCH: u64 = 128;
    /// The cheapest of these plans, which are timed as a whole; the fastest [`Budget::MOST_WHOLE`] are tried like others.
    pub const MOST_VARIATIONS: usize = 8;
    /// The share of the effort for each of them.
    pub const SHARE_OF_A_VARIATION: usize = 16;
    /// Least saving of a plan with one product computed in another way, which moves more data than is needed: 1/16.
    pub const LEAST_SAVING_OF_A_VARIATION: u128 = 16;
    /// Collectives that are done as one.
    pub const MOST_BUNDLED: usize = 256;
    /// Collectives and products of a split run after its first one.
    pub const MOST_ENDS: usize = 8;
    /// Up to this number of possible starts, runs are grown from all of them; which of two conflicting runs is found
    /// depends on the start.
    pub const MOST_SEEDS: usize = 128;
}

impl Budget {
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

    /// What is left for bounds after a search that could not list all moves: another one could not either.
    #[must_use]
    pub(super) fn spent(self) -> Budget {
        self.within_moves(0)
    }

    /// Whether no moves are left.
    pub(super) fn is_spent(&self) -> bool {
        self.moves == 0
    }

    /// Allows this many times the work.
    #[must_use]
    pub fn times(self, factor: u32) -> Budget {
        Budget { work: self.work.saturating_mul(u64::from(factor)), ..self }
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
        self.work.saturating_mul(4)
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
    pub(crate) fn is_over(&self) -> bool {
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
