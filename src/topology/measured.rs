//! How long messages take on a network, as it was measured.
//!
//! A message takes the least of `latency + bytes / one_way` over the protocols that there are: those that begin fast carry
//! little, those that carry much begin slowly. Its links are busy for its bytes at the highest of those rates, as several
//! messages at once come to that. Before the first message of a collective its kernel has to start. Collectives and
//! exchanges, in which every device has something else for each other one, go by other kernels and have their own figures.

use super::quantity;
use crate::units::{Rate, Time, TimeScale};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Figures for so many devices on a network.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// How many devices the mesh has on the network. Figures are taken from the entry with the fewest that are enough,
    /// or else from the last one.
    pub devices: u32,
    /// Messages that are passed on or added up, and those that bring all devices the same.
    pub collectives: Messages,
    /// Messages of exchanges.
    pub exchanges: Messages,
    /// Sums in the switch: what goes to it and comes back is a message. None if so many devices have none.
    #[serde(default)]
    pub sums: Option<Messages>,
}

/// What it takes to send messages.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// From when the first block is there until it can leave, in picoseconds: the start of a kernel.
    #[serde(deserialize_with = "quantity::time")]
    pub start: u64,
    /// Of which a message takes the fastest; one at least.
    #[serde(deserialize_with = "protocols")]
    pub protocols: Vec<Protocol>,
}

/// A way to send a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// Of the shortest message, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub latency: u64,
    /// Bytes a second of one message.
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

/// What a message is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Blocks that are passed on, added up, or the same for all.
    Collective,
    /// Each device has something else for each other one.
    Exchange,
}

impl Measured {
    /// The entry for so many devices.
    pub fn of(all: &[Measured], devices: u64) -> Option<&Measured> {
        let enough = all.iter().filter(|entry| u64::from(entry.devices) >= devices);
        enough.min_by_key(|entry| entry.devices).or_else(|| all.iter().max_by_key(|entry| entry.devices))
    }

    /// The figures of some traffic.
    pub fn messages(&self, traffic: Traffic) -> &Messages {
        match traffic {
            Traffic::Collective => &self.collectives,
            Traffic::Exchange => &self.exchanges,
        }
    }

    /// The least time of any message, in picoseconds.
    pub fn least_latency(&self) -> u64 {
        self.protocols().map(|protocol| protocol.latency).min().unwrap_or(0)
    }

    /// All rates that are counted with.
    pub fn rates(&self) -> impl Iterator<Item = Rate> {
        self.protocols().map(|protocol| protocol.one_way)
    }

    /// Bytes a second of a link, one way, at the most.
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
    /// Bytes a second of all messages over a link together.
    ///
    /// # Panics
    /// If there is no protocol.
    pub fn one_way(&self) -> Rate {
        self.protocols.iter().map(|protocol| protocol.one_way).max().expect("a message has a protocol")
    }

    /// From when a message leaves until it is there.
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
