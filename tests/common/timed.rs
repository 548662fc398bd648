//! One collective with one method on one axis, timed under the sum rule for latency and bandwidth.

use super::single::{axis, one_axis};
use shardc::collective::CollectiveKind;
use shardc::dtype::DType;
use shardc::mesh::Wiring;
use shardc::method::Method;
use shardc::sim::clock::{self, Timing};
use shardc::topology::{Hardware, HopRule, Topology};
use shardc::units::Time;

/// A timed collective.
pub struct Case {
    /// Number of devices.
    pub n: u64,
    /// Latency of a hop.
    pub latency: Time,
    /// Time of a shard on a link; of a whole value if whole values are combined.
    pub bandwidth: Time,
    /// Simulated timing.
    pub timing: Timing,
}

impl Case {
    /// A case with `shard` bytes on each device before a gather or after a scatter; whole values have n times as many.
    pub fn new(kind: CollectiveKind, method: Method, wiring: Wiring, n: u32, shard: u64, chunks: u64) -> Case {
        let hardware = Hardware { hop_rule: HopRule::Sum, ..Hardware::named("tpu_v5e").expect("shipped") };
        let topology = Topology::new(axis(wiring, n), hardware).expect("a common tick");
        let schedule = one_axis(kind, method, axis(wiring, n), [u64::from(n), shard], DType::I8, chunks);
        let links = topology.axes[0];
        Case {
            n: u64::from(n),
            latency: links.hop_latency,
            bandwidth: topology.scale.at_rate(u128::from(shard), links.one_way),
            timing: clock::run(&schedule, &topology).expect("a time"),
        }
    }

    /// # Panics
    /// If it does not take this number of hops, and the time of this number of shards.
    pub fn takes(&self, hops: u64, shards: u64) {
        assert_eq!(self.timing.makespan, self.latency * hops + self.bandwidth * shards, "{} devices", self.n);
    }
}
