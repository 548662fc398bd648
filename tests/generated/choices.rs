//! The choices that a program is made of: a list of numbers, random or given.
//!
//! A generator that only asks here for what it does next turns every list of numbers into a legal program. To shrink a
//! program is then to shrink its list: no rule of the language has to be known for that.

use fastrand::Rng;
use std::ops::Range;

/// A source of choices that remembers what was chosen. 0 is always the simplest choice.
#[derive(Debug)]
pub(crate) struct Choices {
    given: Vec<u32>,
    /// What comes behind those that are given; without it, 0.
    random: Option<Rng>,
    made: Vec<u32>,
    groups: Vec<Range<usize>>,
}

impl Choices {
    /// Random choices, the same for the same seed.
    pub(crate) fn random(seed: u64) -> Choices {
        Choices { given: Vec::new(), random: Some(Rng::with_seed(seed)), made: Vec::new(), groups: Vec::new() }
    }

    /// The choices of a list, then the simplest.
    pub(crate) fn given(list: &[u32]) -> Choices {
        Choices { given: list.to_vec(), random: None, made: Vec::new(), groups: Vec::new() }
    }

    /// A number below `n`, which is not 0.
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

    /// True in `part` of `whole` cases; false is the simple one.
    pub(crate) fn chance(&mut self, part: usize, whole: usize) -> bool {
        self.below(whole) >= whole - part
    }

    /// One of a list, the first of which is the simplest.
    pub(crate) fn one<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// The choices that are made for one part of a program, which can be left out together.
    pub(crate) fn group<T>(&mut self, part: impl FnOnce(&mut Choices) -> T) -> T {
        let open = self.open();
        let result = part(self);
        self.close(open);
        result
    }

    /// Begins such a group.
    pub(crate) fn open(&self) -> usize {
        self.made.len()
    }

    /// Ends the group that began at `open`.
    pub(crate) fn close(&mut self, open: usize) {
        self.groups.push(open..self.made.len());
    }

    /// All choices, and the groups among them.
    pub(crate) fn into_made(self) -> (Vec<u32>, Vec<Range<usize>>) {
        (self.made, self.groups)
    }
}
