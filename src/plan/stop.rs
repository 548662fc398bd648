//! Why a search ends.

/// Why a search ended with the plan that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// No plan of the axes and the moves of [`Collective`](crate::collective::Collective) is better under the cost
    /// model.
    Optimal,
    /// Products are pinned; the bound is that of any plan.
    Pins,
    /// Collectives are done by slower methods, which the program asks for.
    Methods,
    /// The program has limits. Within them plans are searched by trial.
    Limits,
    /// The limit on memory: only a restricted set of moves was searched.
    Memory,
    /// The limit on time.
    Time,
    /// The limit on work, which is in proportion to no clock.
    Work,
    /// Chains of moves are done as one, which the search does not know: no bound is known then.
    Reshards,
    /// Another plan is faster as a whole, with its steps overlapping; the bound is that of the sum of the steps of any plan.
    Whole,
    /// Everything was searched, but the bound that was found lies below the plan.
    Gap,
}

impl Stop {
    /// As documents have it.
    pub fn name(self) -> &'static str {
        match self {
            Stop::Optimal => "optimal",
            Stop::Pins => "pins",
            Stop::Methods => "methods",
            Stop::Limits => "limits",
            Stop::Memory => "memory",
            Stop::Time => "time",
            Stop::Work => "work",
            Stop::Reshards => "reshards",
            Stop::Whole => "whole",
            Stop::Gap => "gap",
        }
    }

    /// The same, unless the plan was the best: then something else stands in the way of saying so.
    #[must_use]
    pub fn unless_optimal(self, other: Stop) -> Stop {
        if self == Stop::Optimal { other } else { self }
    }
}
