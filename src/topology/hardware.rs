//! Hardware profiles: what a chip computes, remembers and sends in a second.

use super::engines::Engines;
use super::measured::Measured;
use super::products::Products;
use super::quantity;
use crate::characters;
use crate::dtype::DType;
use crate::fusion::Fusion;
use crate::mesh::Wiring;
use crate::method::Method;
use crate::units::{Bytes, Rate};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// How long a hop takes, and how long it keeps its link busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HopRule {
    /// `max(latency, bytes / one_way)`; the link is busy all that time. The book's rule.
    #[default]
    #[serde(rename = "max")]
    Larger,
    /// `latency + bytes / one_way`; the link is busy for the second part only. The rule of most simulators.
    #[serde(rename = "sum")]
    Sum,
}

/// Which axes wrap around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum WiringRule {
    /// Every axis is wired like this.
    Always(Wiring),
    /// An axis is a ring if its size is exactly this, else a line (TPU v5e, v6e: 16).
    RingOfSize(u32),
    /// All axes are rings if every size is a multiple of this, else all are lines (TPU v4p, v5p: cubes of 4).
    RingsOfMultiple(u32),
}

impl TryFrom<String> for WiringRule {
    type Error = String;

    fn try_from(text: String) -> Result<WiringRule, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let size = |word: &str| word.parse::<u32>().ok().filter(|size| *size > 0);
        let rule = match words.as_slice() {
            [word] => Wiring::from_word(word).map(WiringRule::Always),
            ["ring", "of", "size", number] => size(number).map(WiringRule::RingOfSize),
            ["rings", "of", "multiples", "of", number] => size(number).map(WiringRule::RingsOfMultiple),
            _ => None,
        };
        let known = "\"ring\", \"line\", \"switch\", \"ring of size 16\" or \"rings of multiples of 4\"";
        rule.ok_or_else(|| format!("`{text}` is no wiring; it is {known}"))
    }
}

impl From<WiringRule> for String {
    fn from(rule: WiringRule) -> String {
        match rule {
            WiringRule::Always(wiring) => wiring.to_string(),
            WiringRule::RingOfSize(size) => format!("ring of size {size}"),
            WiringRule::RingsOfMultiple(multiple) => format!("rings of multiples of {multiple}"),
        }
    }
}

/// How a message goes through a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SwitchKind {
    /// Its head leaves while its tail comes in: one hop, for which the port out and the port in are busy at once.
    #[default]
    CutThrough,
    /// The switch has it whole before it sends it on: two hops, one through each port.
    StoreAndForward,
}

impl SwitchKind {
    /// The hops from a device to another one.
    pub fn hops(self) -> u64 {
        match self {
            SwitchKind::CutThrough => 1,
            SwitchKind::StoreAndForward => 2,
        }
    }
}

/// Who has a port, or links, of its own in a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attachment {
    /// Every device.
    #[default]
    Device,
    /// The devices of a node share one port. A node is the devices that differ only along axes over the network
    /// inside, the first of the profile.
    Node,
}

/// A network of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// As it is named in `D: 4 over dcn`.
    #[serde(deserialize_with = "network_name")]
    pub name: String,
    /// Bytes a second of one link, one way; on a switch of one port, one way.
    #[serde(deserialize_with = "quantity::bandwidth")]
    pub one_way: Rate,
    /// Least time of a hop, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub hop_latency: u64,
    /// Added to every message once, in picoseconds.
    #[serde(default, deserialize_with = "quantity::time")]
    pub message_overhead: u64,
    /// Which axes wrap around unless the program says otherwise.
    pub wiring: WiringRule,
    /// What its switches do, where an axis is wired by one.
    #[serde(default)]
    pub switch: SwitchKind,
    /// Who has a port.
    #[serde(default)]
    pub attached: Attachment,
    /// The methods that the machine's library has on it: only these are chosen for the collectives that any of them does,
    /// unless a program asks for another one. All, if it names none.
    #[serde(default, deserialize_with = "methods")]
    pub methods: Vec<Method>,
    /// The types of elements that its switches add; none if they only pass on.
    #[serde(default, deserialize_with = "dtypes")]
    pub adds: Vec<DType>,
    /// How long messages take, where that was measured: it stands for `one_way`, `hop_latency`, `message_overhead` and the
    /// hop rule.
    #[serde(default)]
    pub measured: Vec<Measured>,
}

/// What it costs a device to add, slice and assemble blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalMoves {
    /// Nothing, as the book counts.
    #[default]
    Free,
    /// The bytes that are read and written, at the rate of the memory.
    Memory,
}

/// What was measured of the products of each unit of arithmetic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredProducts {
    /// Of floats.
    #[serde(default)]
    pub bf16: Option<Products>,
    /// Of integers.
    #[serde(default)]
    pub int8: Option<Products>,
}

impl MeasuredProducts {
    /// Those on elements of this type, if they were measured.
    pub fn of(&self, dtype: DType) -> Option<&Products> {
        if dtype.is_float() { self.bf16.as_ref() } else { self.int8.as_ref() }
    }
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// As it is named in `on tpu_v5e`.
    #[serde(deserialize_with = "machine_name")]
    pub name: String,
    /// What it is, with the source of the figures, in a sentence.
    #[serde(default)]
    pub description: String,
    /// Floating-point operations a second on bf16 and f16, and on f32 and f64 where nothing else is given.
    #[serde(deserialize_with = "quantity::flops")]
    pub bf16_flops: Rate,
    /// Operations a second on 8-bit integers, and on wider integers.
    #[serde(deserialize_with = "quantity::flops")]
    pub int8_flops: Rate,
    /// Memory of one device.
    #[serde(deserialize_with = "quantity::bytes")]
    pub hbm_bytes: Bytes,
    /// Bytes a second between a device and its memory.
    #[serde(deserialize_with = "quantity::bandwidth")]
    pub hbm_bandwidth: Rate,
    /// The network inside a node, over which axes lie unless the program says otherwise.
    pub network: Network,
    /// The networks between nodes: `D: 4 over dcn`.
    #[serde(default)]
    pub beyond: Vec<Network>,
    /// How latency and bytes make the time of a hop.
    #[serde(default)]
    pub hop_rule: HopRule,
    /// What additions and copies within a device cost.
    #[serde(default)]
    pub local_moves: LocalMoves,
    /// The most bytes that the devices of a group have together for the method `broadcast`, in which each sends all it has to
    /// all others; `None` for no limit. GCL allows 2048.
    #[serde(default, deserialize_with = "quantity::some_bytes")]
    pub broadcast_limit: Option<Bytes>,
    /// Which local computations run as one kernel.
    #[serde(default)]
    pub fusion: Fusion,
    /// From when the operands of a kernel are there until it computes something, in picoseconds; of products, theirs if
    /// it was measured.
    #[serde(default, deserialize_with = "quantity::time")]
    pub kernel_start: u64,
    /// How long products take, where that was measured: it stands for the rates of operations and of memory.
    #[serde(default)]
    pub products: MeasuredProducts,
    /// What runs beside what on a device.
    #[serde(default)]
    pub engines: Engines,
}

/// As it can be written in `on tpu_v5e`.
fn machine_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    let is_word = |text: &str| text.chars().all(|letter| letter.is_alphanumeric() || "_-.".contains(letter));
    if name.is_empty() || !is_word(&name) {
        return Err(D::Error::custom(format!("the name `{name}` is not one word, such as \"tpu_v5e\"")));
    }
    Ok(name)
}

/// As it can be written in `D: 4 over dcn`.
fn network_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if !characters::is_word(&name) {
        return Err(D::Error::custom(format!("the name `{name}` is not one word, such as \"dcn\"")));
    }
    Ok(name)
}

/// By their names.
fn dtypes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<DType>, D::Error> {
    let names: Vec<String> = Vec::deserialize(deserializer)?;
    let dtype = |name: String| name.parse().map_err(|_| D::Error::custom(format!("unknown element type `{name}`")));
    names.into_iter().map(dtype).collect()
}

/// By their names.
fn methods<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Method>, D::Error> {
    let names: Vec<String> = Vec::deserialize(deserializer)?;
    let method =
        |name: String| Method::from_name(&name).ok_or_else(|| D::Error::custom(format!("unknown method `{name}`")));
    names.into_iter().map(method).collect()
}

impl Hardware {
    /// The same machine with another least time of a hop on all networks, in picoseconds, and without anything that was
    /// measured, overheads of messages and starts of kernels; with none, as it is.
    #[must_use]
    pub fn with_latency(mut self, latency: Option<u64>) -> Hardware {
        if let Some(latency) = latency {
            for network in std::iter::once(&mut self.network).chain(&mut self.beyond) {
                (network.hop_latency, network.message_overhead) = (latency, 0);
                network.measured.clear();
            }
            (self.kernel_start, self.products) = (0, MeasuredProducts::default());
        }
        self
    }

    /// The machine of programs that name none.
    pub const DEFAULT: &str = "tpu_v5e";

    /// All networks, the one inside a node first.
    pub fn networks(&self) -> impl Iterator<Item = &Network> {
        std::iter::once(&self.network).chain(&self.beyond)
    }

    /// All that it does in a second: computing, memory, and links.
    pub fn rates(&self) -> impl Iterator<Item = Rate> {
        let links = self.networks().map(|network| network.one_way);
        let products = [&self.products.bf16, &self.products.int8].into_iter().flatten();
        let products = products.flat_map(|products| products.rates().collect::<Vec<_>>());
        [self.hbm_bandwidth, self.bf16_flops, self.int8_flops].into_iter().chain(links).chain(products)
    }

    /// Operations a second on elements of this type.
    pub fn flops(&self, dtype: DType) -> Rate {
        if dtype.is_float() { self.bf16_flops } else { self.int8_flops }
    }
}
