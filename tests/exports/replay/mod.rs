//! Exported GOAL and Chakra files take the time of their schedule when an independent simulator replays them.

#![allow(clippy::cast_precision_loss, reason = "the numbers are small")]

mod file;
mod network;
mod trace;

use crate::common::first_collective;
use network::{Network, Rule, Wire};
use shardc::compiler::{self, Options};
use shardc::export::{
    chakra, goal,
    messages::{self, Sending},
    msccl::{self, Dialect, Room},
    ranks::{self, Kind},
};
use shardc::recipe::{self, Lowering};
use shardc::schedule::{Schedule, verify};
use shardc::sim::clock::{self, Order};
use shardc::topology::{Hardware, HopRule, LocalMoves, Topology};

/// A machine: its axes, and the profile whose links they are. All links have a latency of a microsecond.
struct Machine {
    axes: &'static [(usize, Wire)],
    profile: &'static str,
    /// Bytes per second of a link.
    rate: u64,
}

const fn v5e(axes: &'static [(usize, Wire)]) -> Machine {
    Machine { axes, profile: "tpu_v5e", rate: 45_000_000_000 }
}

const fn nvl72(axes: &'static [(usize, Wire)]) -> Machine {
    Machine { axes, profile: "gb200_nvl72", rate: 900_000_000_000 }
}

const MACHINES: [Machine; 5] = [
    v5e(&[(4, Wire::Ring)]),
    v5e(&[(5, Wire::Ring)]),
    v5e(&[(6, Wire::Line)]),
    nvl72(&[(8, Wire::Switch)]),
    v5e(&[(3, Wire::Ring), (5, Wire::Ring)]),
];

const KINDS: [&str; 5] = ["AllGather", "ReduceScatter", "AllReduce", "AllToAll", "Broadcast"];

/// Columns of an array whose blocks take less, and much more, than a latency.
const COLUMNS: [u64; 2] = [2, 1 << 12];

impl Machine {
    fn devices(&self) -> u64 {
        self.axes.iter().map(|(size, _)| *size as u64).product()
    }

    fn network(&self, rule: Rule) -> Network {
        Network { axes: self.axes.to_vec(), rate: self.rate, latency: 1000, rule, in_order: false }
    }

    /// The chosen schedule of a collective over all axes of an array with this many columns per device.
    fn schedule(&self, kind: &str, columns: u64, rule: Rule) -> (Schedule, Topology) {
        let names: Vec<&str> = ["X", "Y", "Z"].into_iter().take(self.axes.len()).collect();
        let wire = |wire: &Wire| match wire {
            Wire::Ring => "ring",
            Wire::Line => "line",
            Wire::Switch => "switch",
        };
        let axis = |(name, (size, wiring)): (&&str, &(usize, Wire))| format!("{name}: {size} {}", wire(wiring));
        let mesh: Vec<String> = names.iter().zip(self.axes).map(axis).collect();
        let (axes, rows, columns) = (names.concat(), self.devices() * 8, self.devices() * columns);
        let (whole, cut) = (format!("[{rows}, {columns}]"), format!("[{rows}_{axes}, {columns}]"));
        let (from, to) = match kind {
            "AllGather" => (cut, whole),
            "ReduceScatter" => (format!("{whole}{{U_{axes}}}"), cut),
            "AllReduce" => (format!("{whole}{{U_{axes}}}"), whole),
            "AllToAll" => (cut, format!("[{rows}, {columns}_{axes}]")),
            "Broadcast" => (format!("{whole}{{ROOT_{axes}}}"), whole),
            other => panic!("{other}"),
        };
        let program = format!("mesh {{{}}}\nA: bf16{from}\n{kind}_{axes}(A{from}) -> B{to}\n", mesh.join(", "));
        let hop_rule = match rule {
            Rule::Larger => HopRule::Larger,
            Rule::Sum => HopRule::Sum,
        };
        chosen(&program, Hardware { hop_rule, ..Hardware::named(self.profile).expect("shipped") })
    }

    /// Calls `with` for every collective, size and rule on this machine, with a name. Large broadcasts, which have too
    /// many chunks for a test without optimisation, are left to [`local_moves_take_the_time_of_the_memory`].
    fn each(&self, mut with: impl FnMut(&str, &Network, &Schedule, &Topology)) {
        let all = KINDS.into_iter().flat_map(|kind| COLUMNS.map(|columns| (kind, columns)));
        for (kind, columns) in all.filter(|(kind, columns)| *kind != "Broadcast" || *columns == COLUMNS[0]) {
            for rule in [Rule::Larger, Rule::Sum] {
                let (schedule, topology) = self.schedule(kind, columns, rule);
                let name = format!("{kind} of {columns} columns on {:?}, {rule:?}", self.axes);
                with(&name, &self.network(rule), &schedule, &topology);
            }
        }
    }
}

/// The chosen schedule of the only collective of a program.
fn chosen(program: &str, hardware: Hardware) -> (Schedule, Topology) {
    let (checked, found) = compiler::check(program);
    let checked = checked.unwrap_or_else(|| panic!("{found:?}\n{program}"));
    let options = Options { hardware: Some(hardware), ..Options::default() };
    let compiled = compiler::compile(&checked, &options).unwrap_or_else(|found| panic!("{found:?}\n{program}"));
    let (plan, id) = (&compiled.plan, first_collective(&compiled));
    let shardc::plan::StepOp::Collective(collective) = &plan.step(id).op else { unreachable!("a collective") };
    let from = &plan.step(plan.operands(id)[0]).layout;
    let dims = from.dims.iter().map(|dim| plan.program.dims.name(dim.id)).collect();
    let method = plan.program.value(plan.step(id).user).using.method;
    recipe::alone(&compiled.topology, Lowering::default(), (collective, from), ("A", dims), method).expect("a schedule")
}

/// The seconds of a schedule.
fn clock(schedule: &Schedule, topology: &Topology, order: Order) -> f64 {
    topology.scale.seconds(clock::run_in(schedule, topology, order).expect("a time").makespan)
}

/// The seconds of the exported files, which say the same in both formats.
fn replayed(network: &Network, schedule: &Schedule, sending: Sending) -> f64 {
    let schedule = verify(schedule).expect("sound");
    let (kind, sent) = messages::messages(schedule, LocalMoves::Free, sending).expect("a collective");
    messages::check(&sent, Some(kind)).expect("messages match");
    let free = |bytes| {
        assert_eq!(bytes, 0, "moves are free");
        0
    };
    let trace = trace::goal(&goal::write(&sent, free));
    assert_eq!(trace, trace::chakra(&chakra::write(&sent, free).files), "both formats say the same");
    network.seconds(&trace)
}

fn assert_equal(one: f64, other: f64, name: &str) {
    assert!((one / other - 1.0).abs() < 1e-9, "{name}: {} us and {} us", one * 1e6, other * 1e6);
}

/// Blocks that are sent whole take the time of the clock in order of arrival, to the tick.
#[test]
fn whole_blocks_take_the_time_of_the_clock() {
    for machine in &MACHINES {
        machine.each(|name, network, schedule, topology| {
            let replayed = replayed(network, schedule, Sending::Whole);
            assert_equal(replayed, clock(schedule, topology, Order::Arrival), name);
        });
    }
}

/// Exported files are as fast as the schedule in its own order, within 7 %: an exchange on a line loses a latency in
/// order of arrival.
#[test]
fn exported_files_are_as_fast_as_the_schedule() {
    for machine in &MACHINES {
        machine.each(|name, network, schedule, topology| {
            let replayed = replayed(network, schedule, Sending::parts(topology));
            let listed = clock(schedule, topology, Order::Listed);
            assert!(replayed < 1.07 * listed, "{name}: {} us, listed {} us", replayed * 1e6, listed * 1e6);
        });
    }
}

/// On tori of unequal sides, a gather relies on the order of its messages: whole blocks in order of arrival take up to
/// 1.58 times as long, parts of blocks do not.
#[test]
fn parts_make_up_for_the_order_of_a_torus() {
    let torus = v5e(&[(4, Wire::Ring), (8, Wire::Ring)]);
    let (schedule, topology) = torus.schedule("AllGather", 1 << 14, Rule::Larger);
    let listed = clock(&schedule, &topology, Order::Listed);
    let time = |sending| replayed(&torus.network(Rule::Larger), &schedule, sending) / listed;
    let (whole, parts) = (time(Sending::Whole), time(Sending::parts(&topology)));
    assert!((1.57..1.59).contains(&whole) && parts < 1.0001, "{whole} {parts}");
}

/// A gather over a cube of rings does not rely on its order: its parts begin along different axes, and so never wait for each
/// other. Small parts of blocks, joined until they take as long as a latency, lose nothing either.
#[test]
fn a_cube_does_not_rely_on_its_order() {
    let cube = Machine { profile: "tpu_v5p", rate: 90_000_000_000, ..v5e(&[(4, Wire::Ring); 3]) };
    let (schedule, topology) = cube.schedule("AllGather", 1 << 12, Rule::Larger);
    let network = cube.network(Rule::Larger);
    let [listed, arrival] = [Order::Listed, Order::Arrival].map(|order| clock(&schedule, &topology, order));
    assert_equal(replayed(&network, &schedule, Sending::Whole), arrival, "whole blocks");
    let parts = replayed(&network, &schedule, Sending::parts(&topology));
    let [whole, parts] = [arrival, parts].map(|time| time / listed);
    assert!((0.99..1.000_001).contains(&whole) && (0.98..1.000_001).contains(&parts), "{whole} {parts}");
}

/// On rings, no order of the same messages beats the listed one.
#[test]
fn the_listed_order_of_sums_on_rings_is_the_fastest() {
    let rings: [&'static [(usize, Wire)]; 6] = [
        &[(3, Wire::Ring)],
        &[(4, Wire::Ring)],
        &[(5, Wire::Ring)],
        &[(6, Wire::Ring)],
        &[(8, Wire::Ring)],
        &[(16, Wire::Ring)],
    ];
    for machine in rings.map(v5e) {
        for (kind, columns) in
            ["ReduceScatter", "AllReduce"].into_iter().flat_map(|kind| COLUMNS.map(|size| (kind, size)))
        {
            for rule in [Rule::Larger, Rule::Sum] {
                let (schedule, topology) = machine.schedule(kind, columns, rule);
                let replayed = replayed(&machine.network(rule), &schedule, Sending::Whole);
                let listed = clock(&schedule, &topology, Order::Listed);
                let name = format!("{kind} of {columns} columns on {:?}, {rule:?}", machine.axes);
                assert!(listed < 1.000_001 * replayed, "{name}: {} us, listed {} us", replayed * 1e6, listed * 1e6);
            }
        }
    }
}

/// All ranks sum on a switch at once: no port waits for another one, even if all send strictly in the order of the file.
#[test]
fn sums_on_a_switch_keep_all_ports_busy() {
    for n in [4, 16] {
        let axes: &'static [(usize, Wire)] = if n == 4 { &[(4, Wire::Switch)] } else { &[(16, Wire::Switch)] };
        let machine = nvl72(axes);
        for (kind, passes) in [("ReduceScatter", 1), ("AllReduce", 2)] {
            let (schedule, topology) = machine.schedule(kind, 1 << 14, Rule::Sum);
            let replayed = {
                let network = Network { in_order: true, ..machine.network(Rule::Sum) };
                replayed(&network, &schedule, Sending::parts(&topology))
            };
            let bytes = f64::from(n * 8) * f64::from(n << 14) * 2.0;
            let port = bytes * f64::from(n - 1) / f64::from(n) / 900e9;
            assert_equal(replayed, f64::from(passes) * (port + 1e-6), kind);
        }
    }
}

/// Where the profile says that local moves take time, the files have their nanoseconds, rounded down.
#[test]
fn local_moves_take_the_time_of_the_memory() {
    let machine = v5e(&[(5, Wire::Ring)]);
    for kind in KINDS {
        let (schedule, free) = machine.schedule(kind, 1 << 14, Rule::Larger);
        let hardware = Hardware { local_moves: LocalMoves::Memory, ..free.hardware.clone() };
        let topology = Topology::new(free.mesh.clone(), hardware).expect("a common tick");
        let verified = verify(&schedule).expect("sound");
        let (_, sent) = messages::messages(verified, LocalMoves::Memory, Sending::Whole).expect("a collective");
        let nanoseconds = |bytes: u64| bytes * 1_000 / 810_000;
        let trace = trace::goal(&goal::write(&sent, nanoseconds));
        let replayed = machine.network(Rule::Larger).seconds(&trace);
        let clock = clock(&schedule, &topology, Order::Arrival);
        let computed = trace[0].iter().filter(|action| matches!(action.what, trace::What::Compute { .. })).count();
        assert!(kind == "Broadcast" || computed > 0, "{kind}");
        // Every action of a rank may have lost a nanosecond.
        let most = 1e-9 * trace.iter().map(Vec::len).max().unwrap_or(0) as f64;
        assert!((replayed - clock).abs() < most, "{kind}: {} us, clock {} us", replayed * 1e6, clock * 1e6);
    }
}

/// Runs an MSCCL file on random numbers, read and executed independently, and compares the outputs with the collective.
fn assert_computes(text: &str, kind: Kind, name: &str) {
    let file = file::File::read(text);
    assert_eq!(file.collective.replace('_', ""), kind.word(), "{name}");
    let mut random = fastrand::Rng::with_seed(1);
    let [inputs, outputs, _] = file.chunks[0].map(|size| usize::try_from(size).expect("a size"));
    let ranks = file.chunks.len();
    let values: Vec<Vec<u64>> = (0..ranks).map(|_| (0..inputs).map(|_| random.u64(..)).collect()).collect();
    let sum = |chunk: usize| values.iter().fold(0, |sum: u64, input| sum.wrapping_add(input[chunk]));
    for (rank, output) in file.run(&values).into_iter().enumerate() {
        for (chunk, found) in output.into_iter().enumerate() {
            let part = inputs / ranks;
            let wanted = match kind {
                Kind::AllGather => values[chunk / inputs][chunk % inputs],
                Kind::ReduceScatter => sum(rank * outputs + chunk),
                Kind::AllReduce => sum(chunk),
                Kind::AllToAll => values[chunk / part][rank * part + chunk % part],
                Kind::Broadcast => values[0][chunk],
            };
            assert_eq!(found, Some(wanted), "{name}: chunk {chunk} of rank {rank}");
        }
    }
}

/// Collectives on tori that divide arrays unevenly, in MSCCL files of both dialects.
#[test]
fn msccl_files_of_tori_compute_the_collective() {
    let tori: [&'static [(usize, Wire)]; 2] = [&[(4, Wire::Ring), (8, Wire::Ring)], &[(4, Wire::Ring); 3]];
    for machine in tori.map(v5e) {
        for kind in ["AllGather", "ReduceScatter", "AllReduce"] {
            let (schedule, _) = machine.schedule(kind, 1 << 6, Rule::Larger);
            let name = format!("{kind} on {:?}", machine.axes);
            let algorithm = ranks::algorithm(&schedule).unwrap_or_else(|refused| panic!("{name}: {refused}"));
            for dialect in [Dialect::Msccl, Dialect::Azure] {
                let options = msccl::Options { dialect, ..msccl::Options::default() };
                let program = msccl::build(&algorithm, "it", &options).unwrap_or_else(|no| panic!("{name}: {no}"));
                let text = msccl::write(&program, &options);
                msccl::prove(&program, None, Room::of(dialect)).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
                assert_computes(&text, algorithm.kind, &name);
                assert!(file::File::read(&text).steps() <= dialect.most_steps(), "{name}");
            }
        }
    }
}
