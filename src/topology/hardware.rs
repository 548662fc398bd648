//! Hardware profiles: compute, memory and link rates.

use super::attention::Attention;
use super::engines::Engines;
use super::experts::Experts;
use super::listed::Links;
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
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// The time of a hop, and the busy time of its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HopRule {
    /// `max(latency, bytes / one_way)`; a link between devices is busy for all of it, the port of a switch for the bytes
    /// only. The book's rule.
    #[default]
    #[serde(rename = "max")]
    Larger,
    /// `latency + bytes / one_way`; the link is busy for the second part only. The rule of most simulators.
    #[serde(rename = "sum")]
    Sum,
}

/// The default wiring of axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum WiringRule {
    /// The same wiring for every axis.
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
            ["fabric"] => Some(WiringRule::Always(Wiring::Fabric)),
            [word] => Wiring::from_word(word).map(WiringRule::Always),
            ["ring", "of", "size", number] => size(number).map(WiringRule::RingOfSize),
            ["rings", "of", "multiples", "of", number] => size(number).map(WiringRule::RingsOfMultiple),
            _ => None,
        };
        let known =
            "\"ring\", \"line\", \"switch\", \"full\", \"fabric\", \"ring of size 16\" or \"rings of multiples of 4\"";
        rule.ok_or_else(|| format!("unknown wiring `{text}`; expected {known}"))
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

/// How messages traverse a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SwitchKind {
    /// Cut-through: one hop, which occupies the output port and the input port at once.
    #[default]
    CutThrough,
    /// Store and forward: two hops, one through each port.
    StoreAndForward,
}

impl SwitchKind {
    /// Number of hops between two devices.
    pub fn hops(self) -> u64 {
        match self {
            SwitchKind::CutThrough => 1,
            SwitchKind::StoreAndForward => 2,
        }
    }
}

/// The owner of the ports or links of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attachment {
    /// Each device.
    #[default]
    Device,
    /// The devices of a node share one port. A node consists of the devices that differ only along axes on the first network.
    Node,
}

/// A network of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Its name, as in `D: 4 over dcn`.
    #[serde(deserialize_with = "network_name")]
    pub name: String,
    /// Bytes per second of a link or port, in one direction.
    #[serde(deserialize_with = "quantity::bandwidth")]
    pub one_way: Rate,
    /// Latency of a hop, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub hop_latency: u64,
    /// Overhead of a message, in picoseconds.
    #[serde(default, deserialize_with = "quantity::time")]
    pub message_overhead: u64,
    /// Number of devices that it connects; `None` for any number.
    #[serde(default)]
    pub devices: Option<NonZeroU32>,
    /// Default wiring.
    pub wiring: WiringRule,
    /// Number of sides of a slice, along which its chips have links: 2 or 3. Meshes that need other links are reported; `None`
    /// reports none.
    #[serde(default)]
    pub torus: Option<NonZeroU32>,
    /// Switch mode, for axes wired by a switch.
    #[serde(default)]
    pub switch: SwitchKind,
    /// Owner of the ports.
    #[serde(default)]
    pub attached: Attachment,
    /// Methods of the machine's library: for the collectives that they support, only these are chosen by default. Empty for all
    /// methods.
    #[serde(default, deserialize_with = "methods")]
    pub methods: Vec<Method>,
    /// The names of the switches of a fabric.
    #[serde(default)]
    pub switches: Vec<String>,
    /// The links of a fabric; the number of a device is its place in mesh order.
    #[serde(default)]
    pub links: Vec<Links>,
    /// Most links out of a device of a fabric, and into it; `None` for any number.
    #[serde(default)]
    pub ports: Option<NonZeroU32>,
    /// Dtypes that its switches add.
    #[serde(default, deserialize_with = "dtypes")]
    pub adds: Vec<DType>,
    /// Measured messages, which replace `one_way`, `hop_latency`, `message_overhead` and the hop rule.
    #[serde(default)]
    pub measured: Vec<Measured>,
}

/// The cost of additions, slices and assembly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalMoves {
    /// Free, as in the book.
    #[default]
    Free,
    /// Memory traffic at the memory rate.
    Memory,
}

/// An arithmetic unit of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// 8-bit floats.
    Fp8,
    /// Other floats.
    Bf16,
    /// Integers.
    Int8,
}

impl Unit {
    /// The unit that computes a dtype.
    pub fn of(dtype: DType) -> Unit {
        match (dtype.is_float(), dtype.bits()) {
            (true, 8) => Unit::Fp8,
            (true, _) => Unit::Bf16,
            (false, _) => Unit::Int8,
        }
    }
}

/// Measured products, by arithmetic unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredProducts {
    /// Of 8-bit floats.
    #[serde(default)]
    pub fp8: Option<Products>,
    /// Of other floats.
    #[serde(default)]
    pub bf16: Option<Products>,
    /// Of integers.
    #[serde(default)]
    pub int8: Option<Products>,
}

impl MeasuredProducts {
    /// Measured products of a dtype, if any.
    pub fn of(&self, dtype: DType) -> Option<&Products> {
        match Unit::of(dtype) {
            Unit::Fp8 => self.fp8.as_ref(),
            Unit::Bf16 => self.bf16.as_ref(),
            Unit::Int8 => self.int8.as_ref(),
        }
    }

    /// Replaces the measured products of a unit.
    pub fn set(&mut self, unit: Unit, products: Products) {
        let own = match unit {
            Unit::Fp8 => &mut self.fp8,
            Unit::Bf16 => &mut self.bf16,
            Unit::Int8 => &mut self.int8,
        };
        *own = Some(products);
    }

    /// Those of each unit, by the name of the unit and a dtype that it computes.
    pub(super) fn by_unit(&self) -> impl Iterator<Item = (&'static str, DType, &Products)> {
        let units =
            [("fp8", DType::F8E4M3, &self.fp8), ("bf16", DType::Bf16, &self.bf16), ("int8", DType::I8, &self.int8)];
        units.into_iter().filter_map(|(unit, dtype, products)| Some((unit, dtype, products.as_ref()?)))
    }
}

/// A hardware profile.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Its name, as in `on tpu_v5e`.
    #[serde(deserialize_with = "machine_name")]
    pub name: String,
    /// Description, with the source of the figures.
    #[serde(default)]
    pub description: String,
    /// Floating-point operations per second for bf16 and f16, and for other floats without a rate in `dtype_flops`.
    #[serde(deserialize_with = "quantity::flops")]
    pub bf16_flops: Rate,
    /// Operations per second on 8-bit integers, and on other integers without a rate in `dtype_flops`.
    #[serde(deserialize_with = "quantity::flops")]
    pub int8_flops: Rate,
    /// Operations per second on operands of single dtypes, such as fp8 and f32.
    #[serde(default, deserialize_with = "dtype_flops")]
    pub dtype_flops: BTreeMap<DType, Rate>,
    /// Memory of a device.
    #[serde(deserialize_with = "quantity::bytes")]
    pub hbm_bytes: Bytes,
    /// Memory bandwidth of a device, in bytes per second.
    #[serde(deserialize_with = "quantity::bandwidth")]
    pub hbm_bandwidth: Rate,
    /// The default network, inside a node.
    pub network: Network,
    /// The networks between nodes: `D: 4 over dcn`.
    #[serde(default)]
    pub beyond: Vec<Network>,
    /// The time of a hop.
    #[serde(default)]
    pub hop_rule: HopRule,
    /// The cost of local additions and copies.
    #[serde(default)]
    pub local_moves: LocalMoves,
    /// Limit on the total bytes of a group for the method `broadcast`; `None` for no limit. GCL allows 2048.
    #[serde(default, deserialize_with = "quantity::some_bytes")]
    pub broadcast_limit: Option<Bytes>,
    /// Supported fusion.
    #[serde(default)]
    pub fusion: Fusion,
    /// Launch time of a kernel in picoseconds; products use their own if measured.
    #[serde(default, deserialize_with = "quantity::time")]
    pub kernel_start: u64,
    /// Measured products, which replace the rates of operations and of memory.
    #[serde(default)]
    pub products: MeasuredProducts,
    /// Measured attention kernels.
    #[serde(default)]
    pub attention: Option<Attention>,
    /// Measured exchanges of tokens with their experts.
    #[serde(default)]
    pub experts: Option<Experts>,
    /// Engines of a device.
    #[serde(default)]
    pub engines: Engines,
}

/// Whether the name is valid in `on tpu_v5e`.
fn machine_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    let is_word = |text: &str| text.chars().all(|letter| letter.is_alphanumeric() || "_-.".contains(letter));
    if name.is_empty() || !is_word(&name) {
        return Err(D::Error::custom(format!("the name `{name}` is not one word, such as \"tpu_v5e\"")));
    }
    Ok(name)
}

/// Whether the name is valid in `D: 4 over dcn`.
fn network_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if !characters::is_word(&name) {
        return Err(D::Error::custom(format!("the name `{name}` is not one word, such as \"dcn\"")));
    }
    Ok(name)
}

/// Parses dtypes by name.
fn dtypes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<DType>, D::Error> {
    let names: Vec<String> = Vec::deserialize(deserializer)?;
    names.iter().map(|name| dtype(name)).collect()
}

fn dtype<E: serde::de::Error>(name: &str) -> Result<DType, E> {
    name.parse().map_err(|_| E::custom(format!("unknown element type `{name}`")))
}

/// Parses operations per second by dtype: `{ f8e4m3 = 2e15 }`.
fn dtype_flops<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<DType, Rate>, D::Error> {
    #[derive(Deserialize)]
    struct Flops(#[serde(deserialize_with = "quantity::flops")] Rate);
    let rates: BTreeMap<String, Flops> = BTreeMap::deserialize(deserializer)?;
    rates.into_iter().map(|(name, Flops(rate))| Ok((dtype(&name)?, rate))).collect()
}

/// Parses methods by name.
fn methods<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Method>, D::Error> {
    let names: Vec<String> = Vec::deserialize(deserializer)?;
    let method =
        |name: String| Method::from_name(&name).ok_or_else(|| D::Error::custom(format!("unknown method `{name}`")));
    names.into_iter().map(method).collect()
}

impl Hardware {
    /// Overrides the latency of a hop on all networks, in picoseconds, and drops measurements, message overheads and kernel
    /// launches; `None` leaves the profile unchanged.
    #[must_use]
    pub fn with_latency(mut self, latency: Option<u64>) -> Hardware {
        if let Some(latency) = latency {
            for network in std::iter::once(&mut self.network).chain(&mut self.beyond) {
                (network.hop_latency, network.message_overhead) = (latency, 0);
                network.measured.clear();
                network.links.iter_mut().for_each(|links| links.hop_latency = None);
            }
            (self.kernel_start, self.products) = (0, MeasuredProducts::default());
            (self.attention, self.experts) = (None, None);
        }
        self
    }

    /// The default hardware of programs.
    pub const DEFAULT: &str = "tpu_v5e";

    /// All networks, the one inside a node first.
    pub fn networks(&self) -> impl Iterator<Item = &Network> {
        std::iter::once(&self.network).chain(&self.beyond)
    }

    /// All rates: compute, memory and links.
    pub fn rates(&self) -> impl Iterator<Item = Rate> {
        let links = self.networks().map(|network| network.one_way);
        let products = self.products.by_unit().flat_map(|(_, _, products)| products.rates().collect::<Vec<_>>());
        let flops = [self.bf16_flops, self.int8_flops].into_iter().chain(self.dtype_flops.values().copied());
        let attention = self.attention.iter().flat_map(Attention::rates);
        std::iter::once(self.hbm_bandwidth).chain(flops).chain(links).chain(products).chain(attention)
    }

    /// Operations per second on operands of a dtype.
    pub fn flops(&self, dtype: DType) -> Rate {
        let fallback = if dtype.is_float() { self.bf16_flops } else { self.int8_flops };
        self.dtype_flops.get(&dtype).copied().unwrap_or(fallback)
    }
}
