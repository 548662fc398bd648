//! Times of a machine, as seconds in JSON and with units in text.

use crate::topology::Topology;
use crate::units::{Time, TimeScale};
use serde::{Serialize, Serializer};
use std::fmt;

/// A time of a machine: seconds in JSON, `4.32 us` in text.
#[derive(Clone, Copy, Debug)]
pub struct Seconds {
    /// The time in ticks of the machine.
    pub time: Time,
    scale: TimeScale,
}

impl Seconds {
    /// A time of this machine.
    pub fn new(time: Time, topology: &Topology) -> Seconds {
        Seconds { time, scale: topology.scale }
    }

    /// Ratio to another time.
    pub fn ratio(self, other: Seconds) -> f64 {
        self.time.ratio(other.time)
    }

    /// Whether it is printed as `0.00 ns` or zero, so ratios to it are meaningless.
    pub fn is_negligible(self) -> bool {
        const LEAST_SHOWN: f64 = 0.005e-9;
        self.scale.seconds(self.time) < LEAST_SHOWN
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.scale.show(self.time))
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.scale.seconds(self.time))
    }
}
