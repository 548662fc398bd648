//! The engines of a device.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A kind of work of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Local products.
    MatMul,
    /// Elementwise functions.
    Map,
    /// Reductions along dims of a block.
    Reduce,
    /// Fills of padding.
    Fill,
    /// Additions of blocks.
    Add,
    /// Slices of blocks.
    Slice,
    /// Assembly of blocks.
    Assemble,
    /// Messages: the engine is busy while the message leaves its device.
    Shuffle,
}

impl Work {
    /// All kinds of work.
    pub const ALL: [Work; 8] =
        [Work::MatMul, Work::Map, Work::Reduce, Work::Fill, Work::Add, Work::Slice, Work::Assemble, Work::Shuffle];

    /// The name in profiles and schedules.
    pub fn word(self) -> &'static str {
        match self {
            Work::MatMul => "mat_mul",
            Work::Map => "map",
            Work::Reduce => "reduce",
            Work::Fill => "fill",
            Work::Add => "add",
            Work::Slice => "slice",
            Work::Assemble => "assemble",
            Work::Shuffle => "shuffle",
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// An engine of every device, as an index into [`Engines::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineId(u8);

impl EngineId {
    /// The engine as an index into [`Engines::names`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The engines of a device and their work. Different engines work in parallel, each in list order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BTreeMap<String, Vec<Work>>")]
pub struct Engines {
    names: Vec<String>,
    /// The engine of each kind of work other than messages.
    local: [EngineId; Work::ALL.len() - 1],
    /// The engine of messages; `None` if they need none.
    shuffle: Option<EngineId>,
}

impl Default for Engines {
    /// Default: one engine that computes; messages need none.
    fn default() -> Engines {
        Engines { names: vec!["compute".to_owned()], local: [EngineId(0); Work::ALL.len() - 1], shuffle: None }
    }
}

/// An invalid assignment of work to engines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnginesError {
    /// A name is not a word.
    #[error("the name `{0}` is not one word, such as \"main\"")]
    Name(String),
    /// There are too many engines.
    #[error("a device has at most {} engines", Engines::MOST)]
    TooMany,
    /// A kind of work has no engine.
    #[error("no engine runs `{0}`")]
    Nowhere(Work),
    /// A kind of work has two engines.
    #[error("`{work}` runs on `{first}` and on `{second}`")]
    Twice {
        /// The work.
        work: Work,
        /// The first engine.
        first: String,
        /// The second engine.
        second: String,
    },
}

impl TryFrom<BTreeMap<String, Vec<Work>>> for Engines {
    type Error = EnginesError;

    /// The form in profiles.
    fn try_from(engines: BTreeMap<String, Vec<Work>>) -> Result<Engines, EnginesError> {
        Engines::new(engines.into_iter().collect())
    }
}

impl Engines {
    /// Most engines of a device.
    pub const MOST: usize = 16;

    /// Creates engines from their names and work. Messages may have no engine.
    ///
    /// # Errors
    /// If a name is not a word, or a kind of work has no engine or two.
    pub fn new(engines: Vec<(String, Vec<Work>)>) -> Result<Engines, EnginesError> {
        if engines.len() > Engines::MOST {
            return Err(EnginesError::TooMany);
        }
        let is_word = |name: &str| name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if let Some((name, _)) = engines.iter().find(|(name, _)| name.is_empty() || !is_word(name)) {
            return Err(EnginesError::Name(name.clone()));
        }
        let mut of: [Option<EngineId>; Work::ALL.len()] = [None; Work::ALL.len()];
        for (id, (name, runs)) in (0..).map(EngineId).zip(&engines) {
            for work in runs {
                if let Some(first) = of[*work as usize].replace(id) {
                    let (first, second) = (engines[first.index()].0.clone(), name.clone());
                    return Err(EnginesError::Twice { work: *work, first, second });
                }
            }
        }
        let mut local = [EngineId(0); Work::ALL.len() - 1];
        for (slot, work) in local.iter_mut().zip(Work::ALL) {
            *slot = of[work as usize].ok_or(EnginesError::Nowhere(work))?;
        }
        let names = engines.into_iter().map(|(name, _)| name).collect();
        Ok(Engines { names, local, shuffle: of[Work::Shuffle as usize] })
    }

    /// Their names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// All engines.
    pub fn ids(&self) -> impl Iterator<Item = EngineId> + use<> {
        (0u8..).map(EngineId).take(self.names.len())
    }

    /// The engine of some work; `None` for messages that need none.
    pub fn of(&self, work: Work) -> Option<EngineId> {
        self.local.get(work as usize).copied().or(self.shuffle)
    }

    /// The work of an engine.
    pub fn runs(&self, engine: EngineId) -> impl Iterator<Item = Work> + '_ {
        Work::ALL.into_iter().filter(move |work| self.of(*work) == Some(engine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engines(list: &[(&str, &[Work])]) -> Result<Engines, EnginesError> {
        Engines::new(list.iter().map(|(name, runs)| ((*name).to_owned(), runs.to_vec())).collect())
    }

    #[test]
    fn every_work_runs_on_one_engine() {
        let (local, shuffle) = Work::ALL.split_at(7);
        assert_eq!(shuffle, [Work::Shuffle]);
        let one = engines(&[("compute", local)]).unwrap();
        assert_eq!(one, Engines::default());
        assert_eq!(one.of(Work::Shuffle), None);
        let two = engines(&[("main", local), ("dma", shuffle)]).unwrap();
        assert_eq!(two.of(Work::Shuffle).map(EngineId::index), Some(1));
        for engine in two.ids() {
            assert!(two.runs(engine).all(|work| two.of(work) == Some(engine)));
        }
        assert_eq!(engines(&[("main", &local[1..])]), Err(EnginesError::Nowhere(Work::MatMul)));
        let twice = engines(&[("main", local), ("sub", &[Work::Slice])]).unwrap_err();
        assert_eq!(twice.to_string(), "`slice` runs on `main` and on `sub`");
        assert!(engines(&[("x", local); 17]).is_err());
        for work in Work::ALL {
            assert_eq!(serde_json::to_value(work).unwrap(), work.word());
        }
    }
}
