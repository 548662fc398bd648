//! What a program says of single links: that they are down, or slower than the others.

use crate::mesh::DeviceId;
use std::fmt;

/// The state of a link that is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkState {
    /// It carries nothing.
    Down,
    /// It carries so many hundredths of its rate, from 1 to 100; the latency stays.
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

/// A degraded link, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DegradedLink {
    /// The device that sends into it.
    pub from: DeviceId,
    /// The device that it leads to.
    pub to: DeviceId,
    /// What is wrong with it.
    pub state: LinkState,
}
