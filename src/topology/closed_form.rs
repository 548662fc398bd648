//! The book's closed forms for the time of a collective on idle links.
//!
//! A closed form is the larger of two parts: hops times the latency of a hop, and the bytes on the busiest link over its
//! rate. They hold for large arrays in equal pieces, without message overheads. `W`, the rate of both directions of an axis
//! together, is twice [`AxisLinks::one_way`](super::AxisLinks::one_way) on rings.
//!
//! Networks are levels: GPUs of a node, nodes of a unit, units of a pod. Large arrays cross all levels at once, in pieces, so the
//! slowest level counts, `V max_i (D_i - 1)/(D_i W_i)` with `D_i` children of a level and the rate `W_i` of the links of a
//! child. An array that is also sharded over an inner axis of a node leaves it over the ports of all its devices.
//!
//! The public functions use the *declared* wiring, in which two devices can be a ring, as in the book. Axes of size 1 cost
//! nothing. On one network, a collective over axes of different wirings takes one stage per wiring, and their times add up; this
//! is always possible, but not always optimal.
//!
//! These times are independent of the [`bounds`](crate::bounds). The book adds up stages, ignores the links of idle axes, and
//! uses half the size of a ring even if it is odd. A bound holds for every schedule, counts all useful links, and rounds
//! down. Both count links with [`Wiring`].
//!
//! Source: "How To Scale Your Model", part 3, and part 12 for switches.

use super::Topology;
use crate::mesh::{AxisId, AxisSet, Wiring};
use crate::units::{Bytes, Rate, Time, TimeScale};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The time of a collective and its two parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClosedForm {
    /// The larger part; for several stages, the sum of the larger parts; for several levels, the larger of all latencies
    /// together and the slowest level.
    pub time: Time,
    /// Hops times the latency of a hop.
    pub latency: Time,
    /// Bytes on the busiest link over its rate.
    pub bandwidth: Time,
}

/// The larger part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Latency; smaller arrays take as long.
    Latency,
    /// Bandwidth; also in case of a tie.
    Bandwidth,
}

impl ClosedForm {
    fn new(latency: Time, bandwidth: Time) -> ClosedForm {
        ClosedForm { time: latency.max(bandwidth), latency, bandwidth }
    }

    /// Sequential composition.
    pub fn then(self, next: ClosedForm) -> ClosedForm {
        ClosedForm {
            time: self.time + next.time,
            latency: self.latency + next.latency,
            bandwidth: self.bandwidth + next.bandwidth,
        }
    }

    /// Composition of two levels that pieces of the array cross at the same time.
    #[must_use]
    fn across(self, next: ClosedForm) -> ClosedForm {
        let latency = self.latency + next.latency;
        ClosedForm {
            time: self.time.max(next.time).max(latency),
            latency,
            bandwidth: self.bandwidth.max(next.bandwidth),
        }
    }

    /// The larger part.
    pub fn limit(&self) -> Limit {
        if self.latency > self.bandwidth { Limit::Latency } else { Limit::Bandwidth }
    }
}

/// The wiring that a closed form uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The declared one, with parts of an axis as rings of their size: the book. All devices of a node use its links.
    Declared,
    /// The actual links, which parts of an axis share. The group alone uses the links of its nodes.
    Links,
}

/// Some axes with the same wiring.
struct Stage {
    /// The network, by its index in the profile.
    network: usize,
    wiring: Wiring,
    sizes: Vec<u64>,
    one_way: Rate,
    hop: Time,
    /// Number of links between neighbours, each shared by as many groups.
    apart: u64,
    /// Hops through a switch.
    crossing: u64,
    /// Number of devices that send over each link, if the devices of a node share them.
    sharers: u64,
}

impl Stage {
    /// Number of devices in a group.
    fn members(&self) -> u64 {
        self.sizes.iter().product()
    }

    /// Hops to the farthest device. The book uses half the size of a ring, even if it is odd.
    fn latency(&self) -> Time {
        let sum: u64 = self.sizes.iter().sum();
        let axes = self.sizes.len() as u64;
        match self.wiring {
            Wiring::Ring => fraction(self.hop * (sum * self.apart), 1, 2),
            Wiring::Line => self.hop * ((sum - axes) * self.apart),
            Wiring::Switch | Wiring::Fabric => self.hop * (axes * self.crossing),
            Wiring::Full => self.hop * axes,
        }
    }

    /// Time of this number of bytes for each device that sends over a link.
    fn bytes(&self, scale: TimeScale, bytes: u64) -> Time {
        scale.at_rate(u128::from(bytes).saturating_mul(u128::from(self.sharers)), self.one_way)
    }

    /// Load of the busiest link of an AllGather, as a fraction of the gathered array.
    ///
    /// Rings `1/2n`, giving `V/(W n)`; lines `(1 - 1/N)/n`, giving `(1 - 1/N) V/(n w)`; switches `1 - 1/N`; full meshes
    /// `(1 - 1/N)` over the links of a device.
    fn gather_share(&self) -> (u64, u64) {
        let (axes, members) = (self.sizes.len() as u64, self.members());
        match self.wiring {
            Wiring::Ring => (1, 2 * axes),
            Wiring::Line => (members - 1, axes * members),
            Wiring::Switch | Wiring::Fabric => (members - 1, members),
            Wiring::Full => (members - 1, members * self.links()),
        }
    }

    /// Links out of a device; on a line at an end.
    fn links(&self) -> u64 {
        self.sizes.iter().map(|size| self.wiring.fewest_links(*size)).sum()
    }

    /// Time of the busiest link of an AllToAll of `local` bytes per device.
    ///
    /// Rings `max(X) / 8` of them, giving `V max(X) / (4 N W)`; lines the largest `⌊X/2⌋⌈X/2⌉ / X`; switches the sum of
    /// `(X - 1) / X`, one crossing per axis; full meshes the largest `1 / X`.
    fn exchange(&self, local: Time) -> Time {
        let each = self.sizes.iter().map(|size| match self.wiring {
            // Of an odd ring a little more than must be.
            Wiring::Ring => fraction(local, *size, 8),
            Wiring::Line | Wiring::Switch | Wiring::Full | Wiring::Fabric => {
                let (share, of) = self.wiring.exchange_share(*size);
                fraction(local, share, of)
            }
        });
        match self.wiring {
            Wiring::Ring | Wiring::Line | Wiring::Full => each.max().unwrap_or_default(),
            Wiring::Switch | Wiring::Fabric => each.sum(),
        }
    }
}

/// `time * numerator / denominator`, exact if whole, else rounded up.
fn fraction(time: Time, numerator: u64, denominator: u64) -> Time {
    let (numerator, denominator) = (u128::from(numerator), u128::from(denominator));
    let whole = (time.ticks() / denominator).saturating_mul(numerator);
    let rest = (time.ticks() % denominator).saturating_mul(numerator).div_ceil(denominator);
    Time::from_ticks(whole.saturating_add(rest))
}

/// The time of each level: of the stages on the same network, one after the other.
fn levels(stages: impl Iterator<Item = (usize, ClosedForm)>) -> impl Iterator<Item = ClosedForm> {
    let mut levels: Vec<(usize, ClosedForm)> = Vec::new();
    for (network, form) in stages {
        match levels.last_mut() {
            Some((last, level)) if *last == network => *level = level.then(form),
            Some(_) | None => levels.push((network, form)),
        }
    }
    levels.into_iter().map(|(_, form)| form)
}

impl Topology {
    /// AllGather over `axes`; each device holds `full` bytes after it.
    ///
    /// Rings `max(t sum(X)/2, V/(W n))`, lines `max(t sum(X - 1), (1 - 1/N) V/(n w))`, switches
    /// `max(t n, (1 - 1/N) V/w)`, full meshes `max(t n, (1 - 1/N) V/(w sum(X - 1)))`. With different wirings the slower ones come
    /// first, while the array is small. Over several networks, the sum of the hops and the slowest network.
    pub fn all_gather(&self, axes: impl IntoIterator<Item = AxisId>, full: Bytes) -> ClosedForm {
        self.gather_over(axes, full, By::Declared)
    }

    /// ReduceScatter over `axes`, with `full` bytes per device before it: a reversed AllGather.
    pub fn reduce_scatter(&self, axes: impl IntoIterator<Item = AxisId>, full: Bytes) -> ClosedForm {
        self.all_gather(axes, full)
    }

    /// AllReduce over `axes` of `full` bytes per device: a ReduceScatter and an AllGather.
    pub fn all_reduce(&self, axes: impl IntoIterator<Item = AxisId>, full: Bytes) -> ClosedForm {
        let half = self.all_gather(axes, full);
        half.then(half)
    }

    /// AllToAll over `axes` of an array with `full` bytes per group, `full / N` per device.
    ///
    /// Rings `max(t sum(X)/2, V max(X)/(4 N W))`, lines `max(t sum(X - 1), ⌊X/2⌋⌈X/2⌉ V/(X N w))`, switches
    /// `max(t n, (N - 1) V/(N² w))` for one axis, full meshes `max(t n, V/(N min(X) w))`. Over several networks, the sum of the hops
    /// and the slowest network.
    pub fn all_to_all(&self, axes: impl IntoIterator<Item = AxisId>, full: Bytes) -> ClosedForm {
        let stages = self.stages(axes, By::Declared);
        let group: u64 = stages.iter().map(Stage::members).product();
        let exchange = |stage: Stage| {
            let local = fraction(stage.bytes(self.scale, full.0), 1, group);
            (stage.network, self.form(full, stage.latency(), stage.exchange(local)))
        };
        levels(stages.into_iter().map(exchange)).fold(ClosedForm::default(), ClosedForm::across)
    }

    /// A permutation within the groups of `axes`, of `local` bytes per device: `max(hops, v/w)` with the hops of an AllGather.
    /// Its route is not priced.
    pub fn permute(&self, axes: impl IntoIterator<Item = AxisId>, local: Bytes) -> ClosedForm {
        let stages = self.stages(axes, By::Declared);
        let latency = stages.iter().map(Stage::latency).sum();
        let bandwidth = stages.iter().map(|stage| stage.bytes(self.scale, local.0)).max();
        self.form(local, latency, bandwidth.unwrap_or_default())
    }

    /// A broadcast of `local` bytes within the groups of `axes`: the first device sends parts over all of its links at once,
    /// `max(hops, v/(n W))` on rings, `max(hops, v/(n w))` on lines, `max(hops, v/w)` on a switch, and over the links of the
    /// first device in full meshes. Links of different
    /// rates, and switches, take one stage after the other.
    pub fn broadcast(&self, axes: impl IntoIterator<Item = AxisId>, local: Bytes) -> ClosedForm {
        let stages = self.stages(axes, By::Declared);
        let ways = |stage: &Stage| match stage.wiring {
            Wiring::Ring | Wiring::Line | Wiring::Full => stage.links(),
            Wiring::Switch | Wiring::Fabric => 1,
        };
        let own = |stage: &Stage| stage.bytes(self.scale, local.0);
        let alike = stages
            .iter()
            .all(|stage| !matches!(stage.wiring, Wiring::Switch | Wiring::Fabric) && own(stage) == own(&stages[0]));
        if alike && let Some(first) = stages.first() {
            let bandwidth = fraction(own(first), 1, stages.iter().map(ways).sum());
            return self.form(local, stages.iter().map(Stage::latency).sum(), bandwidth);
        }
        let stage = |stage: Stage| self.form(local, stage.latency(), fraction(own(&stage), 1, ways(&stage)));
        stages.into_iter().map(stage).fold(ClosedForm::default(), ClosedForm::then)
    }

    /// [`Topology::all_gather`] with one of the wirings.
    pub(crate) fn gather_over(&self, axes: impl IntoIterator<Item = AxisId>, full: Bytes, by: By) -> ClosedForm {
        let stages = self.stages(axes, by);
        let mut outside: u64 = stages.iter().map(Stage::members).product();
        let gather = |stage: Stage| {
            outside /= stage.members();
            let (share, of) = stage.gather_share();
            let bytes = stage.bytes(self.scale, full.0);
            let bandwidth = fraction(bytes, share * stage.apart, of.saturating_mul(outside));
            (stage.network, self.form(full, stage.latency(), bandwidth))
        };
        let together = match by {
            By::Declared => ClosedForm::across,
            // One operation gathers level by level.
            By::Links => ClosedForm::then,
        };
        levels(stages.into_iter().map(gather)).fold(ClosedForm::default(), together)
    }

    /// Zero time.
    fn form(&self, bytes: Bytes, latency: Time, bandwidth: Time) -> ClosedForm {
        if bytes == Bytes(0) { ClosedForm::default() } else { ClosedForm::new(latency, bandwidth) }
    }

    /// Groups the axes by network, those between nodes first, then by wiring: lines, switches, rings, full meshes. Adjacent parts of an axis
    /// count as one; other parts of the same axis use the same links, one stage after the other.
    fn stages(&self, axes: impl IntoIterator<Item = AxisId>, by: By) -> Vec<Stage> {
        let axes: AxisSet = axes.into_iter().filter(|axis| self.mesh.size(*axis) > 1).collect();
        let order = |wiring| match wiring {
            Wiring::Line => 0,
            Wiring::Switch | Wiring::Fabric => 1,
            Wiring::Ring => 2,
            Wiring::Full => 3,
        };
        let inside = self.mesh.group_size(axes.iter().filter(|axis| self.links(*axis).network == 0));
        let mut stages: BTreeMap<_, Stage> = BTreeMap::new();
        let mut used: BTreeMap<AxisId, usize> = BTreeMap::new();
        for run in self.mesh.runs(axes.in_order()) {
            let links = self.links(run);
            let (wiring, apart) = match by {
                By::Declared => (links.declared, 1),
                By::Links => (links.wiring, links.apart),
            };
            let before = run.last().map_or(0, |axis| {
                let before = used.entry(self.mesh.physical(axis)).or_default();
                std::mem::replace(before, *before + 1)
            });
            let apart = u64::from(if wiring.is_one_hop() { 1 } else { apart });
            let key = (Reverse(links.network), order(wiring), Reverse(apart), before);
            let stage = stages.entry(key).or_insert_with(|| {
                let (one_way, hop, crossing) = (links.one_way, links.hop_latency, links.switch.hops());
                let sharers = match (by, run.last()) {
                    (By::Declared, Some(axis)) => self.sharers(axis),
                    (By::Links, Some(axis)) if self.sharers(axis) > 1 => links.sharers * inside,
                    (By::Declared | By::Links, _) => 1,
                };
                let network = links.network;
                Stage { network, wiring, sizes: Vec::new(), one_way, hop, apart, crossing, sharers }
            });
            stage.sizes.push(run.group_size(&self.mesh));
        }
        stages.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::topology;
    use super::*;
    use crate::mesh::{Axis, Mesh};
    use crate::topology::{Hardware, Network};

    /// The X, Y and Z of a mesh.
    fn axes(count: usize) -> Vec<AxisId> {
        (0..count).map(AxisId::new).collect()
    }

    fn us(topology: &Topology, form: ClosedForm) -> f64 {
        (topology.scale.seconds(form.time) * 1e9).round() / 1e3
    }

    fn picoseconds(topology: &Topology, form: ClosedForm) -> u128 {
        let second = topology.scale.picoseconds(1).ticks();
        assert!(form.time.ticks().is_multiple_of(second));
        form.time.ticks() / second
    }

    /// G17: `AllGather_Y([E_Y, F])`, 2048x8192 bf16 on v5e.
    #[test]
    fn g17_a_gather_on_a_ring_and_on_a_line() {
        let full = Bytes(2048 * 8192 * 2);
        let ring = topology("tpu_v5e", &[("X", 8), ("Y", 4)], Some(Wiring::Ring));
        assert_eq!(us(&ring, ring.all_gather([AxisId::new(1)], full)), 372.827);
        let line = topology("tpu_v5e", &[("X", 8), ("Y", 4)], None);
        assert_eq!(us(&line, line.all_gather([AxisId::new(1)], full)), 559.241);
    }

    /// G18: the same with 256x256, three hops of the least time.
    #[test]
    fn g18_a_small_gather_on_a_line() {
        let line = topology("tpu_v5e", &[("X", 8), ("Y", 4)], None);
        let form = line.all_gather([AxisId::new(1)], Bytes(256 * 256 * 2));
        assert_eq!((picoseconds(&line, form), form.limit()), (3_000_000, Limit::Latency));
    }

    /// G19 to G21: B = 1024, D = 4096 bf16 on v4p 4x4x4; an unused axis already divides V.
    #[test]
    fn g19_g20_g21_collectives_on_a_cube() {
        let cube = topology("tpu_v4p", &[("X", 4), ("Y", 4), ("Z", 4)], None);
        let array = 1024 * 4096 * 2;
        assert_eq!(us(&cube, cube.all_gather(axes(1), Bytes(array / 4))), 23.302);
        let both = cube.all_gather(axes(2), Bytes(array));
        assert_eq!(us(&cube, both), 46.603);
        assert_eq!(both.latency, cube.scale.picoseconds(4_000_000));
        let z = [AxisId::new(2)];
        assert_eq!(us(&cube, cube.reduce_scatter(z, Bytes(array / 16))), 5.825);
        assert_eq!(us(&cube, cube.all_reduce(z, Bytes(array / 16))), 11.651);
    }

    /// G22: 128 bf16 over X = 4.
    #[test]
    fn g22_two_hops() {
        let cube = topology("tpu_v4p", &[("X", 4), ("Y", 4), ("Z", 4)], None);
        assert_eq!(picoseconds(&cube, cube.all_gather(axes(1), Bytes(256))), 2_000_000);
    }

    /// G16: AllToAll takes V/(16 W) on a 4x4 torus and V/(64 W) on 4x4x4; G13: V/(4 W) on a ring of 8.
    #[test]
    fn g13_g16_exchanges_on_tori() {
        let full = Bytes(9 << 30);
        for (sizes, part) in
            [(vec![("X", 8)], 4), (vec![("X", 4), ("Y", 4)], 16), (vec![("X", 4), ("Y", 4), ("Z", 4)], 64)]
        {
            let torus = topology("tpu_v5e", &sizes, Some(Wiring::Ring));
            let form = torus.all_to_all(axes(sizes.len()), full);
            let over_both_ways = torus.scale.at_rate(u128::from(full.0) / 2, torus.hardware.network.one_way);
            assert_eq!(form.time * part, over_both_ways);
        }
    }

    /// G35: bf16[4096, 65536] on a node of 8 H100, and bf16[1024, 16384].
    #[test]
    fn g35_gathers_through_a_switch() {
        let node = topology("h100_book", &[("D", 8)], None);
        assert_eq!(us(&node, node.all_gather(axes(1), Bytes(4096 * 65536 * 2))), 1043.916);
        assert_eq!(us(&node, node.all_gather(axes(1), Bytes(1024 * 16384 * 2))), 65.245);
        let exchange = node.all_to_all(axes(1), Bytes(64 << 30));
        assert_eq!(exchange.time, node.scale.at_rate(7 << 30, node.hardware.network.one_way));
    }

    /// A SuperPod of part 12: nodes of 8 GPUs, units of 32 nodes, 4 units; 5e10 bytes/s for each GPU on each level above.
    fn superpod(sizes: [u32; 3]) -> Topology {
        let mut hardware = Hardware::named("h100_book").expect("shipped");
        let spine = Network { name: "spine".to_owned(), ..hardware.beyond[0].clone() };
        hardware.beyond.push(spine);
        let over = [Some("spine"), Some("ib"), None];
        let axis = |((name, size), over): ((&str, u32), Option<&str>)| Axis {
            name: name.to_owned(),
            size,
            wiring: None,
            over: over.map(str::to_owned),
        };
        let axes = ["S", "N", "G"].into_iter().zip(sizes).zip(over).map(axis).collect();
        Topology::new(Mesh::new(axes).expect("a mesh"), hardware).expect("a machine")
    }

    /// `V max_i (D_i - 1)/(D_i W_i)` of part 12, with the rates of a node and of a unit: 8 and 256 times that of a GPU.
    #[test]
    fn the_slowest_level_of_a_switched_tree_counts() {
        let full = Bytes(1 << 40);
        for sizes in [[4, 32, 8], [2, 32, 8], [4, 1, 8], [1, 16, 8], [1, 1, 8], [4, 32, 1]] {
            let pod = superpod(sizes);
            let [units, nodes, gpus] = sizes.map(f64::from);
            let levels = [(gpus, 4.5e11), (nodes, gpus * 5e10), (units, nodes * gpus * 5e10)];
            let slowest =
                levels.map(|(children, rate)| (children - 1.0) / (children * rate)).into_iter().fold(0.0, f64::max);
            let form = pod.all_gather(axes(3), full);
            let expected = slowest * full.0 as f64;
            let seconds = pod.scale.seconds(form.bandwidth);
            assert!((seconds / expected - 1.0).abs() < 1e-9, "{sizes:?}: {seconds} and {expected}");
            assert_eq!(form.time, form.bandwidth.max(form.latency));
            assert_eq!(pod.reduce_scatter(axes(3), full), form);
            assert_eq!(pod.all_reduce(axes(3), full), form.then(form));
        }
        // The hops of all levels: 1 us in a node, 5 us above.
        let small = superpod([4, 32, 8]);
        assert_eq!(picoseconds(&small, small.all_gather(axes(3), Bytes(1024))), 11_000_000);
    }

    /// Part 12: an array that is also sharded over Y devices, gathered over the others of 2 units of 32 nodes. In a node
    /// `V/(Wg min(Y, 8))`, beyond it `8 V/(W_node max(8, Y))`, each times `(D - 1)/D`.
    #[test]
    fn an_inner_axis_divides_what_a_node_receives() {
        let full = 1u64 << 40;
        for inner in [2u64, 4, 8, 16, 32] {
            // Gathered over X (units of the tree) and P in a node; sharded over Q in a node, and over R nodes.
            let [in_node, nodes] = [inner.min(8), inner.div_ceil(8)];
            let axis = |name: &str, size: u64, over: Option<&str>| Axis {
                name: name.to_owned(),
                size: u32::try_from(size).expect("small"),
                wiring: None,
                over: over.map(str::to_owned),
            };
            let mesh = Mesh::new(vec![
                axis("X", 32 / nodes, Some("ib")),
                axis("R", nodes, Some("ib")),
                axis("P", 8 / in_node, None),
                axis("Q", in_node, None),
            ]);
            let topology = Topology::new(mesh.expect("a mesh"), Hardware::named("h100_book").expect("shipped"));
            let topology = topology.expect("a machine");
            let form = topology.all_gather([0, 2].map(AxisId::new), Bytes(full / inner));
            let share = |children: u64| (children - 1) as f64 / children as f64;
            let node = share(8 / in_node) * full as f64 / (4.5e11 * in_node as f64);
            let beyond = share(32 / nodes) * 8.0 * full as f64 / (4e11 * inner.max(8) as f64);
            let seconds = topology.scale.seconds(form.bandwidth);
            assert!((seconds / node.max(beyond) - 1.0).abs() < 1e-9, "{inner}: {seconds}, {node}, {beyond}");
        }
    }

    /// An AllToAll over m nodes takes `V (m - 1)/(m² W_node)`: with 2 nodes 2.57 times that within one.
    #[test]
    fn an_exchange_over_nodes_takes_that_of_the_nodes() {
        let full = 1u64 << 40;
        for nodes in [2u32, 4, 16, 32] {
            let pod = superpod([1, nodes, 8]);
            let count = f64::from(nodes);
            let expected = full as f64 * (count - 1.0) / (count * count * 4e11);
            let seconds = pod.scale.seconds(pod.all_to_all(axes(3), Bytes(full)).time);
            assert!((seconds / expected - 1.0).abs() < 1e-9, "{nodes} nodes: {seconds}, {expected}");
        }
        let [one, two] = [1, 2].map(|nodes| superpod([1, nodes, 8]));
        let seconds = |pod: &Topology| pod.scale.seconds(pod.all_to_all(axes(3), Bytes(full)).time);
        assert_eq!((seconds(&two) / seconds(&one) * 100.0).round(), 257.0);
    }

    /// On 8 devices with 7 links each: gathers `V/8w`, exchanges `V/64w`, broadcasts `V/7w`.
    #[test]
    fn a_full_mesh_of_eight() {
        let mesh = topology("tpu_v5e", &[("X", 8)], Some(Wiring::Full));
        let full = Bytes(64 * 7 * 45_000_000);
        assert_eq!(us(&mesh, mesh.all_gather(axes(1), full)), 56_000.0);
        assert_eq!(us(&mesh, mesh.all_reduce(axes(1), full)), 112_000.0);
        assert_eq!(us(&mesh, mesh.all_to_all(axes(1), full)), 7_000.0);
        assert_eq!(us(&mesh, mesh.broadcast(axes(1), full)), 64_000.0);
        assert_eq!(picoseconds(&mesh, mesh.all_gather(axes(1), Bytes(8))), 1_000_000);
    }

    #[test]
    fn exchanges_on_lines_by_counting_what_crosses_each_cut() {
        for size in 2..10u64 {
            let line = topology("tpu_v5e", &[("X", u32::try_from(size).unwrap())], Some(Wiring::Line));
            let crossing = (1..size).map(|left| left * (size - left)).max().unwrap();
            let block = 1_000_000;
            let form = line.all_to_all(axes(1), Bytes(block * size * size));
            assert_eq!(form.bandwidth, line.scale.at_rate(u128::from(crossing * block), line.hardware.network.one_way));
        }
    }

    #[test]
    fn two_devices_declared_a_ring_are_priced_as_one() {
        let pair = topology("tpu_v5e", &[("X", 2)], Some(Wiring::Ring));
        let full = Bytes(9_000_000_000);
        assert_eq!(us(&pair, pair.all_gather(axes(1), full)), 100_000.0);
        assert_eq!(us(&pair, pair.gather_over(axes(1), full, By::Links)), 100_000.0);
        assert_eq!(us(&pair, pair.all_to_all(axes(1), full)), 25_000.0);
    }

    #[test]
    fn different_wirings_are_stages() {
        let axis = |name: &str, size, wiring| Axis { name: name.to_owned(), size, wiring: Some(wiring), over: None };
        let mesh = Mesh::new(vec![axis("X", 4, Wiring::Ring), axis("Y", 3, Wiring::Line)]).unwrap();
        let mixed = Topology::new(mesh, Hardware::named("tpu_v5e").unwrap()).unwrap();
        let form = mixed.all_gather(axes(2), Bytes(36_000_000));
        let line = mixed.all_gather([AxisId::new(1)], Bytes(9_000_000));
        assert_eq!(form, line.then(mixed.all_gather([AxisId::new(0)], Bytes(36_000_000))));
    }

    #[test]
    fn no_bytes_and_one_device_take_no_time() {
        let mesh = topology("tpu_v5e", &[("X", 4), ("Y", 1)], None);
        assert_eq!(mesh.all_gather(axes(2), Bytes(0)), ClosedForm::default());
        assert_eq!(mesh.all_to_all([AxisId::new(1)], Bytes(99)), ClosedForm::default());
        assert_eq!(mesh.permute([], Bytes(99)), ClosedForm::default());
        assert_eq!(mesh.all_gather(axes(1), Bytes(u64::MAX)).limit(), Limit::Bandwidth);
    }
}
