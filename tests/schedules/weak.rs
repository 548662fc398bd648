//! Large tori with links that are down or slow: close to bounds that are computed here, proven, and right on numbers.

use crate::common::{compile, first_collective, step_methods};
use shardc::sim::{clock, proof, values};

/// A collective over all axes of a torus.
struct Torus {
    sides: [u64; 2],
    /// The statements of its weak links.
    links: &'static str,
    /// What the links into a device have left of four, at least.
    least: f64,
    /// What all cables have left of two per device.
    lost: f64,
}

/// Bytes per second of a link of the profile.
const RATE: f64 = 45e9;

impl Torus {
    fn devices(&self) -> u64 {
        self.sides[0] * self.sides[1]
    }

    fn program(&self, kind: &str, rows: u64, columns: u64) -> String {
        let ([x, y], links) = (self.sides, self.links);
        let (cut, whole) = (format!("[{rows}_XY, {columns}]"), format!("[{rows}, {columns}]"));
        let (from, to) = match kind {
            "AllGather" => (cut, whole),
            "ReduceScatter" => (format!("{whole}{{U_XY}}"), cut),
            _ => (format!("{whole}{{U_XY}}"), whole),
        };
        format!("mesh {{X: {x} ring, Y: {y} ring}} on tpu_v5e\n{links}\nA: i16{from}\n{kind}_XY(A{from}) -> B{to}\n")
    }

    /// The seconds that the links of the weakest device, or all cables, are busy.
    #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
    fn bound(&self, kind: &str, bytes: u64) -> f64 {
        let (bytes, n) = (bytes as f64, self.devices() as f64);
        match kind {
            // Each of the n - 1 joins of a sum takes a message there and one back, over one of the cables.
            "AllReduce" => bytes * (n - 1.0) / (2.0 * n - self.lost) / RATE,
            _ => bytes * (n - 1.0) / n / (4.0 - self.least) / RATE,
        }
    }
}

const KINDS: [&str; 3] = ["AllGather", "ReduceScatter", "AllReduce"];

const DOWN: Torus = Torus { sides: [16, 16], links: "link (3,5)<->(3,6) down", least: 1.0, lost: 1.0 };

/// Time over bound of a proven schedule, and its methods.
fn ratio(torus: &Torus, kind: &str) -> (f64, String) {
    let (rows, columns) = (64 * torus.devices(), 8192);
    let source = torus.program(kind, rows, columns);
    let compiled = compile(&source);
    proof::prove(&compiled.schedule).unwrap_or_else(|flaw| panic!("{flaw}\n{source}"));
    let time = clock::run(&compiled.schedule, &compiled.topology).expect("a time").makespan;
    let methods = step_methods(&compiled.schedule, first_collective(&compiled));
    (compiled.topology.scale.seconds(time) / torus.bound(kind, 2 * rows * columns), methods)
}

/// With a cable down, messages across the gap are split among both sides of it, and sums take other trees.
#[test]
fn a_torus_less_a_cable() {
    for kind in KINDS {
        let (ratio, methods) = ratio(&DOWN, kind);
        assert!((1.0..1.2).contains(&ratio), "{kind}: {ratio} {methods}");
    }
}

/// A slow cable, or a slow link of one, keeps a share of its messages.
#[test]
fn a_torus_with_a_slow_link() {
    for links in ["link (3,5)<->(3,6) at 25%", "link (3,5)->(3,6) at 25%", "link (3,5)<->(4,5) at 25%"] {
        // Of a sum, both directions count.
        let lost = if links.contains("<->") { 0.75 } else { 0.375 };
        let torus = Torus { links, least: 0.75, lost, ..DOWN };
        for kind in KINDS {
            let (ratio, methods) = ratio(&torus, kind);
            assert!((1.0..1.25).contains(&ratio), "{kind} with {links}: {ratio} {methods}");
        }
    }
}

/// Split messages arrive whole, also where a path gets none of a short message.
#[test]
fn split_messages_are_right_on_numbers() {
    let tori = [
        Torus { sides: [9, 8], links: "link (3,5)<->(3,6) down\nlink (0,0)->(1,0) at 25%", ..DOWN },
        Torus { sides: [8, 9], links: "link (7,8)<->(0,8) at 50%", ..DOWN },
    ];
    for (torus, kind) in tori.iter().flat_map(|torus| KINDS.map(|kind| (torus, kind))) {
        for columns in [1, 5, 64] {
            let source = torus.program(kind, 2 * torus.devices(), columns);
            let compiled = compile(&source);
            let inputs = values::inputs(&compiled.schedule, 1).expect("small");
            let dense = values::dense(&compiled.schedule, &inputs).expect("small");
            let run = values::run(&compiled.schedule, &inputs).expect("small");
            let numerics = values::compare(&compiled.schedule, &inputs, &dense, &run).expect("comparable");
            assert!(numerics.equal && numerics.elements > 0, "{source}");
            proof::prove(&compiled.schedule).unwrap_or_else(|flaw| panic!("{flaw}\n{source}"));
        }
    }
}
