//! Times on the clock of a machine, as documents and people read them.

use crate::topology::Topology;
use crate::units::{Time, TimeScale};
use serde::{Serialize, Serializer};
use std::fmt;

/// A time on the clock of a machine: a number of seconds in documents, `4.32 us` for people.
#[derive(Clone, Copy, Debug)]
pub struct Seconds {
    /// In ticks of the machine.
    pub time: Time,
    scale: TimeScale,
}

impl Seconds {
    /// A time on the clock of this machine.
    pub fn new(time: Time, topology: &Topology) -> Seconds {
        Seconds { time, scale: topology.scale }
    }

    /// How many times another time it is.
    pub fn ratio(self, other: Seconds) -> f64 {
        self.time.ratio(other.time)
    }

    /// Whether it is shown as `0.00 ns` or zero: a multiple of it says nothing.
    pub fn is_next_to_nothing(self) -> bool {
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
