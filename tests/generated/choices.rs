//! The choices from which a program is generated: a list of numbers, random or given.
//!
//! A generator that makes all decisions through this type turns every list of numbers into a legal program. Shrinking
//! a program then means shrinking its list, without knowing the rules of the language.

use fastrand::Rng;
use std::ops::Range;

/// A source of choices that records them. 0 is always the simplest choice.
#[derive(Debug)]
pub(crate) struct Choices {
    given: Vec<u32>,
    /// Source of choices after the given ones; without it they are 0.
    random: Option<Rng>,
    made: Vec<u32>,
    groups: Vec<Range<usize>>,
}

impl Choices {
    /// Random choices, determined by the seed.
    pub(crate) fn random(seed: u64) -> Choices {
        Choices { given: Vec::new(), random: Some(Rng::with_seed(seed)), made: Vec::new(), groups: Vec::new() }
    }

    /// The choices of a list, then the simplest ones.
    pub(crate) fn given(list: &[u32]) -> Choices {
        Choices { given: list.to_vec(), random: None, made: Vec::new(), groups: Vec::new() }
    }

    /// A number below `n`; `n` must not be 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let n = u32::try_from(n).expect("few choices");
        let chosen = match (self.given.get(self.made.len()), &mut self.random) {
            (Some(given), _) => given % n,
            (None, Some(random)) => random.u32(..n),
            (None, None) => 0,
        };
        self.made.push(chosen);
        chosen as usize
    }

    /// True in `part` of `whole` cases; false is the simpler choice.
    pub(crate) fn chance(&mut self, part: usize, whole: usize) -> bool {
        self.below(whole) >= whole - part
    }

    /// An element of a list; the first one is the simplest.
    pub(crate) fn one<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Groups the choices for one part of a program, which can be removed together.
    pub(crate) fn group<T>(&mut self, part: impl FnOnce(&mut Choices) -> T) -> T {
        let open = self.open();
        let result = part(self);
        self.close(open);
        result
    }

    /// Begins a group.
    pub(crate) fn open(&self) -> usize {
        self.made.len()
    }

    /// Ends the group that began at `open`.
    pub(crate) fn close(&mut self, open: usize) {
        self.groups.push(open..self.made.len());
    }

    /// All choices, and their groups.
    pub(crate) fn into_made(self) -> (Vec<u32>, Vec<Range<usize>>) {
        (self.made, self.groups)
    }
}
