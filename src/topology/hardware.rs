//! Hardware profiles: what a chip computes, remembers and sends in a second.

use crate::mesh::Wiring;
use crate::units::{Bytes, Rate};

/// How long a hop takes, and how long it keeps its link busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopRule {
    /// `max(latency, bytes / one_way)`; the link is busy all that time. The book's rule.
    Larger,
    /// `latency + bytes / one_way`; the link is busy for the second part only. The rule of most simulators.
    Sum,
}

/// Which axes wrap around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WiringRule {
    /// Every axis is wired like this.
    Always(Wiring),
    /// An axis is a ring if its size is exactly this, else a line (TPU v5e, v6e: 16).
    RingOfSize(u32),
    /// All axes are rings if every size is a multiple of this, else all are lines (TPU v4p, v5p: cubes of 4).
    RingsOfMultiple(u32),
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// As it is named in `on tpu_v5e`.
    pub name: String,
    /// What it is, with the source of the figures, in a sentence.
    pub description: String,
    /// Floating-point operations a second on bf16 and f16, and on f32 and f64 where nothing else is given.
    pub bf16_flops: Rate,
    /// Operations a second on 8-bit integers, and on wider integers.
    pub int8_flops: Rate,
    /// Memory of one device.
    pub hbm_bytes: Bytes,
    /// Bytes a second between a device and its memory.
    pub hbm_bandwidth: Rate,
    /// Bytes a second of one link, one way; on a switch of one port, one way.
    pub one_way: Rate,
    /// Least time of a hop, in picoseconds.
    pub hop_latency: u64,
    /// Added to every message once, in picoseconds.
    pub message_overhead: u64,
    /// How the two make the time of a hop.
    pub hop_rule: HopRule,
    /// Which axes wrap around unless the program says otherwise.
    pub wiring: WiringRule,
}

impl Hardware {
    /// Operations a second on elements of this type.
    pub fn flops(&self, dtype: crate::dtype::DType) -> Rate {
        if dtype.is_float() { self.bf16_flops } else { self.int8_flops }
    }
}
