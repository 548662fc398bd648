//! Command-line options of a compilation.

use super::choices::Choices;
use shardc::compiler::{Options, Overlapping, Resharding, Spelling};
use shardc::costs::CostModel;
use shardc::plan::Budget;
use shardc::recipe::Lowering;
use shardc::syntax::Extent;
use shardc::topology::Hardware;
use shardc::units::Bytes;
use std::time::Duration;

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
    pub(crate) overlap: bool,
    pub(crate) reshard: bool,
    pub(crate) as_written: bool,
    /// Picoseconds.
    pub(crate) latency: Option<u64>,
    pub(crate) limit: Option<Limit>,
}

/// A limit on the planner's effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// In bytes, of which the planner may use a quarter.
    Memory(u64),
    /// Of which the planner may use a half.
    Time(Duration),
    /// Times as much work as by default, which limits nothing.
    Effort(u32),
}

const LIMITS: [Limit; 6] = [
    Limit::Memory(4_000_000_000),
    Limit::Memory(4_000_000),
    Limit::Memory(40_000),
    Limit::Time(Duration::from_secs(60)),
    Limit::Time(Duration::from_millis(10)),
    Limit::Effort(3),
];

impl Limit {
    fn budget(self) -> Budget {
        match self {
            Limit::Memory(bytes) => Budget::default().within_memory(Bytes(bytes / 4)),
            Limit::Time(time) => Budget::default().within_time(time / 2),
            Limit::Effort(times) => Budget::default().times(times),
        }
    }
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
            overlap: !choices.chance(1, 8),
            reshard: !choices.chance(1, 8),
            as_written: choices.chance(1, 10),
            latency: if choices.chance(1, 12) { Some(choices.one(&[0, 500_000, 20_000_000])) } else { None },
            limit: if choices.chance(1, 20) { Some(choices.one(&LIMITS)) } else { None },
        }
    }

    /// The options of a command line, without limits and sizes.
    pub(crate) fn of_words(words: &str) -> Modes {
        let mut modes = Modes::new(&mut Choices::given(&[]));
        let mut words = words.split_whitespace();
        while let Some(word) = words.next() {
            match (word, words.clone().next()) {
                ("--costs", Some(name)) => modes.costs = CostModel::named(name).expect("a cost model"),
                ("--overlap", Some("none")) => modes.overlap = false,
                ("--reshard", Some("chains")) => modes.reshard = false,
                ("--latency", Some(time)) => {
                    let picoseconds = time.strip_suffix("ps").and_then(|number| number.parse().ok());
                    modes.latency = Some(picoseconds.expect("a time such as `500ps`"));
                }
                ("--as-written", _) => modes.as_written = true,
                ("--bitwise", _) => modes.bitwise = true,
                ("--keep-allgather", _) => modes.keep_allgather = true,
                ("--strict", _) => modes.strict = true,
                ("--lenient", _) => modes.lenient = true,
                (word, _) => panic!("no option `{word}`"),
            }
            if matches!(word, "--costs" | "--overlap" | "--reshard" | "--latency") {
                words.next();
            }
        }
        modes
    }

    /// The options for the library. Strictness is requested separately.
    pub(crate) fn options(&self) -> Options {
        Options {
            hardware: self.hardware.map(|name| Hardware::named(name).expect("a profile")),
            costs: self.costs,
            lowering: Lowering { keep_all_gather: self.keep_allgather, bitwise: self.bitwise },
            strict: false,
            overlap: if self.overlap { Overlapping::Auto } else { Overlapping::None },
            reshard: if self.reshard { Resharding::Auto } else { Resharding::Chains },
            as_written: self.as_written,
            latency: self.latency,
            budget: self.limit.map_or_else(Budget::default, Limit::budget),
            ..Options::default()
        }
    }

    /// Whether the planner may end early.
    pub(crate) fn is_restricted(&self) -> bool {
        matches!(self.limit, Some(Limit::Memory(_) | Limit::Time(_)))
    }

    pub(crate) fn spelling(&self) -> Spelling {
        if self.lenient { Spelling::Lenient } else { Spelling::Exact }
    }

    pub(crate) fn sizes(&self) -> Vec<(String, Extent)> {
        self.set.iter().map(|(name, size)| (name.clone(), Extent::Size(*size))).collect()
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
        if !self.overlap {
            words.push("--overlap none".to_owned());
        }
        if !self.reshard {
            words.push("--reshard chains".to_owned());
        }
        words.extend(self.latency.map(|latency| format!("--latency {latency}ps")));
        words.extend(self.limit.map(|limit| match limit {
            Limit::Memory(bytes) => format!("--max-memory {bytes}B"),
            Limit::Time(time) => format!("--time-limit {}ms", time.as_millis()),
            Limit::Effort(times) => format!("--effort {times}"),
        }));
        let flags = [
            ("--as-written", self.as_written),
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
