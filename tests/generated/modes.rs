//! Command-line options of a compilation.

use super::choices::Choices;
use shardc::compiler::{Options, Spelling};
use shardc::costs::CostModel;
use shardc::recipe::Lowering;
use shardc::topology::Hardware;

/// Options on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Modes {
    pub(crate) hardware: Option<&'static str>,
    pub(crate) costs: CostModel,
    pub(crate) bitwise: bool,
    pub(crate) keep_allgather: bool,
    pub(crate) strict: bool,
    pub(crate) lenient: bool,
    pub(crate) set: Option<(String, u64)>,
}

impl Modes {
    /// Random options.
    pub(crate) fn new(choices: &mut Choices) -> Modes {
        Modes {
            hardware: None,
            costs: choices.one(&[CostModel::Exact, CostModel::Exact, CostModel::Book, CostModel::Bytes]),
            bitwise: choices.chance(1, 6),
            keep_allgather: choices.chance(1, 8),
            strict: choices.chance(1, 6),
            lenient: choices.chance(1, 10),
            set: None,
        }
    }

    /// The options for the library. Strictness is requested separately.
    pub(crate) fn options(&self) -> Options {
        Options {
            hardware: self.hardware.map(|name| Hardware::named(name).expect("a profile")),
            costs: self.costs,
            lowering: Lowering { keep_all_gather: self.keep_allgather, bitwise: self.bitwise },
            strict: false,
            ..Options::default()
        }
    }

    pub(crate) fn spelling(&self) -> Spelling {
        if self.lenient { Spelling::Lenient } else { Spelling::Exact }
    }

    pub(crate) fn sizes(&self) -> Vec<(String, u64)> {
        self.set.iter().cloned().collect()
    }

    /// The arguments of the command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.hardware.iter().map(|name| format!("--hardware {name}")));
        match self.costs {
            CostModel::Exact => {}
            CostModel::Book => words.push("--costs book".to_owned()),
            CostModel::Bytes => words.push("--costs bytes".to_owned()),
        }
        let flags = [
            ("--bitwise", self.bitwise),
            ("--keep-allgather", self.keep_allgather),
            ("--strict", self.strict),
            ("--lenient", self.lenient),
        ];
        words.extend(flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.to_owned()));
        words.extend(self.set.iter().map(|(name, size)| format!("--set {name}={size}")));
        words
    }
}
