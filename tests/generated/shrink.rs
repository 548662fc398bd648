//! Shrinks a failing program: choices are removed, set to 0, and reduced.

use super::choices::Choices;
use super::machine::Size;
use super::program::{Case, case};
use super::properties::Failure;
use super::watch::{Check, watched};
use std::ops::Range;
use std::time::{Duration, Instant};

/// The choices of a program, and their groups.
pub(crate) type Draws = (Vec<u32>, Vec<Range<usize>>);

/// Time limit for shrinking a failure.
const PATIENCE: Duration = Duration::from_secs(40);

/// The search for a smaller program.
struct Search {
    check: Check,
    most: Size,
    made: Draws,
    best: Option<(Case, Failure)>,
    class: String,
    until: Instant,
}

/// The smallest program found for a failure, with its failure; `None` if it does not fail again.
pub(crate) fn shrunk(check: Check, most: Size, made: Draws, failure: &Failure) -> Option<(Case, Failure)> {
    let list = made.0.clone();
    let until = Instant::now() + PATIENCE;
    let mut search = Search { check, most, made, best: None, class: failure.class.clone(), until };
    search.try_list(&list);
    loop {
        let before = search.made.0.clone();
        search.without_groups();
        search.lower();
        if search.made.0 == before || Instant::now() > search.until {
            return search.best;
        }
    }
}

impl Search {
    /// Accepts a list if its program fails in the same way.
    fn try_list(&mut self, list: &[u32]) -> bool {
        if Instant::now() > self.until {
            return false;
        }
        let mut choices = Choices::given(list);
        let small = case(&mut choices, self.most);
        let Err(failure) = watched(self.check, &small, list, self.most) else { return false };
        if failure.class != self.class {
            return false;
        }
        let mut made = choices.into_made();
        while made.0.last() == Some(&0) {
            made.0.pop();
        }
        self.made = made;
        self.best = Some((small, failure));
        true
    }

    /// Removes whole groups, the largest first.
    fn without_groups(&mut self) {
        let mut skipped = 0;
        loop {
            let (list, groups) = &self.made;
            let mut groups: Vec<Range<usize>> =
                groups.iter().filter(|group| group.end <= list.len() && !group.is_empty()).cloned().collect();
            groups.sort_by_key(|group| std::cmp::Reverse((group.len(), group.end)));
            let Some(group) = groups.get(skipped) else { return };
            let mut without = list.clone();
            without.drain(group.clone());
            let mut zero = list.clone();
            zero[group.clone()].fill(0);
            let changed = zero != *list;
            if !(self.try_list(&without) || changed && self.try_list(&zero)) {
                skipped += 1;
            }
            if Instant::now() > self.until {
                return;
            }
        }
    }

    /// Reduces single choices, from the last one on.
    fn lower(&mut self) {
        let mut at = self.made.0.len();
        while at > 0 {
            at -= 1;
            let Some(value) = self.made.0.get(at).copied() else { continue };
            for less in [0, value / 2, value.saturating_sub(1)] {
                let Some(now) = self.made.0.get(at).copied() else { break };
                let mut list = self.made.0.clone();
                list[at] = less;
                if less < now && self.try_list(&list) {
                    break;
                }
            }
        }
    }
}
