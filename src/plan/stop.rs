//! Reasons why a search ends.

/// The reason why a search ended with its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// No plan with these axes and moves ([`Collective`](crate::collective::Collective)) is better under the cost
    /// model.
    Optimal,
    /// Products are pinned; the bound covers all plans.
    Pins,
    /// Collectives use slower methods, as prescribed by the program.
    Methods,
    /// Collectives use methods with fewer operations than the fastest, because the schedule of the plan is long.
    Operations,
    /// The program has limits, which are searched heuristically.
    Limits,
    /// The memory budget: only a restricted move set was searched.
    Memory,
    /// The time limit.
    Time,
    /// The work limit, which is independent of the clock.
    Work,
    /// Chains of moves were replaced, which the search does not model; the bound is unknown.
    Reshards,
    /// Another plan is faster with overlap; the bound covers the time of all plans in sequence.
    Whole,
    /// The search was complete, but its lower bound is below the plan.
    Gap,
}

impl Stop {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Stop::Optimal => "optimal",
            Stop::Pins => "pins",
            Stop::Methods => "methods",
            Stop::Operations => "operations",
            Stop::Limits => "limits",
            Stop::Memory => "memory",
            Stop::Time => "time",
            Stop::Work => "work",
            Stop::Reshards => "reshards",
            Stop::Whole => "whole",
            Stop::Gap => "gap",
        }
    }

    /// The reason to report if another one prevents optimality.
    #[must_use]
    pub fn unless_optimal(self, other: Stop) -> Stop {
        if self == Stop::Optimal { other } else { self }
    }
}
