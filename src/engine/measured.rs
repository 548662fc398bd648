//! Measured times of operations on real processes.

use itertools::Itertools;

/// Start and end of an operation on one rank, in seconds on the clock of the first rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    /// When its operands were present.
    pub start: f64,
    /// When its result was present.
    pub finish: f64,
}

/// Median and range of several measurements, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The minimum.
    pub least: f64,
    /// The maximum.
    pub most: f64,
}

impl Spread {
    /// The spread of measurements; zero if there are none.
    pub fn of(measured: impl IntoIterator<Item = f64>) -> Spread {
        let sorted: Vec<f64> = measured.into_iter().sorted_by(f64::total_cmp).collect();
        let at = |place: usize| sorted.get(place).copied().unwrap_or_default();
        let half = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { at(half) } else { (at(half.saturating_sub(1)) + at(half)) / 2.0 };
        Spread { median, least: at(0), most: at(sorted.len().saturating_sub(1)) }
    }
}

/// Statistics of several runs of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Time from the earliest start to the end of the last rank.
    pub makespan: Spread,
    /// Time of each operation, in list order, from its earliest start on any rank to its latest end, as for simulated
    /// times.
    pub operations: Vec<Spread>,
    /// Number of runs.
    pub repetitions: usize,
}

impl Measured {
    /// Aggregates the times of all runs: by run, rank and operation.
    pub fn of(runs: &[Vec<Vec<Taken>>]) -> Measured {
        let count = runs.iter().flatten().map(Vec::len).max().unwrap_or(0);
        let length = |run: &Vec<Vec<Taken>>, place: usize| lasting(run.iter().filter_map(|rank| rank.get(place)));
        let makespan = |run: &Vec<Vec<Taken>>| lasting(run.iter().flatten());
        Measured {
            makespan: Spread::of(runs.iter().map(makespan)),
            operations: (0..count).map(|place| Spread::of(runs.iter().map(|run| length(run, place)))).collect(),
            repetitions: runs.len(),
        }
    }
}

/// Seconds from the earliest start to the latest end; 0 if empty.
pub fn lasting<'a>(taken: impl Iterator<Item = &'a Taken>) -> f64 {
    let ends = taken.fold((f64::INFINITY, f64::NEG_INFINITY), |(start, finish), taken| {
        (start.min(taken.start), finish.max(taken.finish))
    });
    (ends.1 - ends.0).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_between_the_middle_two() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0]), Spread { median: 2.5, least: 1.0, most: 4.0 });
        assert_eq!(Spread::of([]), Spread { median: 0.0, least: 0.0, most: 0.0 });
    }

    #[test]
    fn an_operation_lasts_from_its_first_start_to_its_last_end() {
        let taken = |start, finish| Taken { start, finish };
        let run = vec![vec![taken(7.0, 8.0), taken(8.0, 10.0)], vec![taken(7.5, 9.0), taken(9.0, 12.0)]];
        let measured = Measured::of(&[run]);
        assert_eq!(measured.makespan.median, 5.0);
        assert_eq!(measured.operations.iter().map(|operation| operation.median).collect::<Vec<_>>(), [2.0, 4.0]);
    }
}
