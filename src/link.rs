//! Degraded links of a program.

use crate::mesh::DeviceId;
use std::fmt;

/// The state of a degraded link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkState {
    /// Failed.
    Down,
    /// At this percentage of its rate, from 1 to 100; its latency stays the same.
    Percent(u8),
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkState::Down => f.write_str("down"),
            LinkState::Percent(percent) => write!(f, "at {percent}%"),
        }
    }
}

/// A degraded link, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DegradedLink {
    /// The sending device.
    pub from: DeviceId,
    /// The receiving device.
    pub to: DeviceId,
    /// Its state.
    pub state: LinkState,
}
