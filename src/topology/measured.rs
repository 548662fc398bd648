//! Measured messages.
//!
//! A message takes the minimum of `latency + bytes / one_way` over the protocols: some have low latency, others a high rate.
//! Its links are busy for its bytes at the highest of these rates, which several messages together reach. A collective
//! starts with a kernel launch. Collectives and exchanges, in which every pair of devices has different data, use different
//! kernels and have separate figures.

use super::quantity;
use crate::units::{Rate, Time, TimeScale};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Figures for a number of devices on a network.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Number of devices of the mesh on the network. The entry with the smallest sufficient number is used, or else the last
    /// one.
    pub devices: u32,
    /// Messages of collectives: forwarded, added, or the same for all devices.
    pub collectives: Messages,
    /// Messages of exchanges.
    pub exchanges: Messages,
    /// In-switch sums, as messages to and from the switch. `None` if unsupported.
    #[serde(default)]
    pub sums: Option<Messages>,
}

/// Figures of messages.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Kernel launch time, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub start: u64,
    /// Protocols, of which the fastest is used; at least one.
    #[serde(deserialize_with = "protocols")]
    pub protocols: Vec<Protocol>,
}

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// Latency in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub latency: u64,
    /// Bytes per second of one message.
    #[serde(deserialize_with = "quantity::bandwidth")]
    pub one_way: Rate,
}

fn protocols<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Protocol>, D::Error> {
    let protocols = Vec::deserialize(deserializer)?;
    if protocols.is_empty() {
        return Err(D::Error::custom("a message needs a protocol, such as { latency = \"1us\", one_way = 1e11 }"));
    }
    Ok(protocols)
}

/// The kind of traffic of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Blocks that are forwarded, added, or the same for all.
    Collective,
    /// Different data for each pair of devices.
    Exchange,
}

impl Measured {
    /// The entry for a number of devices.
    pub fn of(all: &[Measured], devices: u64) -> Option<&Measured> {
        let enough = all.iter().filter(|entry| u64::from(entry.devices) >= devices);
        enough.min_by_key(|entry| entry.devices).or_else(|| all.iter().max_by_key(|entry| entry.devices))
    }

    /// The figures for a kind of traffic.
    pub fn messages(&self, traffic: Traffic) -> &Messages {
        match traffic {
            Traffic::Collective => &self.collectives,
            Traffic::Exchange => &self.exchanges,
        }
    }

    /// Lowest latency of a message, in picoseconds.
    pub fn least_latency(&self) -> u64 {
        self.protocols().map(|protocol| protocol.latency).min().unwrap_or(0)
    }

    /// All rates.
    pub fn rates(&self) -> impl Iterator<Item = Rate> {
        self.protocols().map(|protocol| protocol.one_way)
    }

    /// Highest rate of a link, in bytes per second and direction.
    pub fn one_way(&self) -> Rate {
        let others = self.sums.as_ref().map_or(self.exchanges.one_way(), Messages::one_way);
        self.collectives.one_way().max(self.exchanges.one_way()).max(others)
    }

    fn protocols(&self) -> impl Iterator<Item = &Protocol> {
        let all = [&self.collectives, &self.exchanges].into_iter().chain(&self.sums);
        all.flat_map(|messages| &messages.protocols)
    }
}

impl Messages {
    /// Rate of concurrent messages over a link, in bytes per second.
    ///
    /// # Panics
    /// If there are no protocols.
    pub fn one_way(&self) -> Rate {
        self.protocols.iter().map(|protocol| protocol.one_way).max().expect("a message has a protocol")
    }

    /// Time of a message.
    pub fn transit(&self, scale: TimeScale, bytes: u64) -> Time {
        let by = |protocol: &Protocol| {
            scale.picoseconds(protocol.latency) + scale.at_rate(u128::from(bytes), protocol.one_way)
        };
        self.protocols.iter().map(by).min().unwrap_or_default()
    }
}

/// A profile's entry in base units.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MeasuredDocument {
    devices: u32,
    collectives: MessagesDocument,
    exchanges: MessagesDocument,
    sums: Option<MessagesDocument>,
}

#[derive(Clone, Debug, Serialize)]
struct MessagesDocument {
    start_ps: u64,
    protocols: Vec<ProtocolDocument>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ProtocolDocument {
    latency_ps: u64,
    one_way: Rate,
}

impl From<&Protocol> for ProtocolDocument {
    fn from(protocol: &Protocol) -> ProtocolDocument {
        ProtocolDocument { latency_ps: protocol.latency, one_way: protocol.one_way }
    }
}

impl From<&Messages> for MessagesDocument {
    fn from(messages: &Messages) -> MessagesDocument {
        let protocols = messages.protocols.iter().map(ProtocolDocument::from).collect();
        MessagesDocument { start_ps: messages.start, protocols }
    }
}

impl From<&Measured> for MeasuredDocument {
    fn from(measured: &Measured) -> MeasuredDocument {
        MeasuredDocument {
            devices: measured.devices,
            collectives: (&measured.collectives).into(),
            exchanges: (&measured.exchanges).into(),
            sums: measured.sums.as_ref().map(MessagesDocument::from),
        }
    }
}
