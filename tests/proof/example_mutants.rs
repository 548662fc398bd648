//! Tests the proof with mutants of compiled schedules: every small example, and every method of every collective.
//! Every mutant with different results must be refused.
//!
//! The dims of the examples are shortened, so that a naive interpreter in i64 can run thousands of mutants; it is
//! checked that the communication stays the same. For examples with very many mutants, a sample with a printed stride
//! is tested; `SHARDC_TESTS=full` tests all.
#![allow(clippy::print_stdout, missing_docs)]

use crate::common::collectives::{KINDS, WIRINGS};
use crate::common::{
    apart, collectives, compile, compile_lowered, mutants::mutants, numeric::Reference, sets, short_name, single,
    small_examples,
};
use shardc::collective::CollectiveKind;
use shardc::dtype::DType;
use shardc::lower;
use shardc::mesh::{Axes, Mesh, Wiring};
use shardc::method::Method;
use shardc::operator::Operator;
use shardc::plan::{Division, Listing, Order, Overlap, Run, StepId, alike, unroll, windows};
use shardc::recipe::{Lowering, Tuner};
use shardc::schedule::methods::{AxisOrder, Destination, Multiport, Stage};
use shardc::schedule::{Schedule, methods};
use shardc::sim::proof::{Flaw, prove};
use std::borrow::Cow;
use std::fmt;

/// Maximum number of mutants per example, unless all are requested.
const MOST_MUTANTS: usize = 500;

/// Number of seeds with which a mutant that is refused computes the right results if it is right.
const MOST_SEEDS: u64 = 40;

/// Shorter dims for some examples; the others are small.
const SIZES: [(&str, &str); 18] = [
    ("machines/two_levels", "B: 4, M: 4, F: 8"),
    ("machines/degraded", "I: 16, J: 1"),
    ("padded_attention", "S: 3, T: 6, H: 5"),
    ("flash_decoding", "B: 2, N: 1, T: 16, H: 4"),
    ("lora", "B: 4, D: 16, F: 8, R: 2"),
    ("vocab_parallel_loss", "B: 4, D: 4, V: 16"),
    ("attention", "B: 2, S: 4, T: 4, D: 4, N: 4, H: 2"),
    ("fsdp_mlp", "B: 8, D: 16, F: 8"),
    ("megatron_mlp", "B: 4, D: 16, F: 8"),
    ("blocks/broadcast", "B: 4, D: 8, F: 4"),
    ("blocks/expectations", "B: 8, D: 16, F: 8"),
    ("blocks/grouped_queries", "B: 2, T: 2, S: 2, D: 4, K: 2, M: 2, H: 2, N = K*M"),
    ("blocks/layers", "B: 4, D: 8, F: 4, LAYERS: 2"),
    ("blocks/parts_of_a_ring", "B: 16, D: 16, F: 4"),
    ("blocks/physical_axes", "I: 8, J: 4, K: 4"),
    ("blocks/scatter_onto_two_dims", "I: 8, J: 8, K: 8"),
    ("furiosa/", "B: 4"),
    ("book/", "I: 8, J: 16, K: 8"),
];

/// Results of some mutants.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    all: usize,
    malformed: usize,
    refused: usize,
    /// Refused, although the results are correct.
    alarms: usize,
    proven: usize,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.all += other.all;
        self.malformed += other.malformed;
        self.refused += other.refused;
        self.alarms += other.alarms;
        self.proven += other.proven;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { all, malformed, refused, alarms, proven } = self;
        write!(f, "{all} mutants: {malformed} malformed, {refused} refused ({alarms} false alarms), {proven} proven")
    }
}

/// Tests every `stride`-th mutant of a schedule.
///
/// # Panics
/// If a mutant is proven but computes something else, or refused although it is right and nothing is padded.
fn judge(name: &str, schedule: &Schedule, most: usize) -> Counts {
    let references: Vec<Reference> = (0..3).map(|seed| Reference::new(schedule, seed)).collect();
    assert!(references.iter().all(|reference| reference.is_met_by(schedule)), "{name}: the schedule itself is wrong");
    prove(schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
    let total = mutants(schedule).count();
    let stride = if sets::are_full() { 1 } else { total.div_ceil(most).max(1) };
    let mut counts = Counts::default();
    // Some wrong results are right for a few numbers: a sum may be negative each time before a `relu`.
    let is_right = |mutant: &Schedule| (3..MOST_SEEDS).all(|seed| Reference::new(schedule, seed).is_met_by(mutant));
    let is_padded = schedule.arrays.iter().any(|array| array.valid != array.extents);
    for (change, mutant) in mutants(schedule).step_by(stride) {
        counts.all += 1;
        let computes = || references.iter().all(|reference| reference.is_met_by(&mutant));
        match prove(&mutant) {
            Err(Flaw::Malformed(_) | Flaw::MalformedArray { .. }) => {
                counts.malformed += 1;
            }
            Err(flaw) => {
                counts.refused += 1;
                if computes() && is_right(&mutant) {
                    counts.alarms += 1;
                    println!("  false alarm: {name}, {change}: {flaw}");
                    assert!(is_padded, "{name}, {change}: refused and right: {flaw}");
                }
            }
            Ok(_) => {
                counts.proven += 1;
                assert!(computes(), "{name}, {change}: proven and wrong");
            }
        }
    }
    println!("{name}, 1 in {stride} of {total}: {counts}");
    counts
}

/// The same program with shorter dims.
fn shortened(name: &str, source: &str) -> String {
    let Some((_, sizes)) = SIZES.iter().find(|(part, _)| name.contains(part)) else { return source.to_owned() };
    let lines = source
        .lines()
        .map(|line| if line.starts_with("dims ") { format!("dims {{{sizes}}}\n") } else { format!("{line}\n") });
    lines.collect()
}

#[test]
fn no_mutant_of_an_example_is_proven_and_wrong() {
    let mut total = Counts::default();
    for path in small_examples() {
        let name = short_name(&path);
        let source = std::fs::read_to_string(&path).expect("an example");
        let short = shortened(&name, &source);
        let compiled = compile(&short);
        assert_eq!(collectives(&compiled), collectives(&compile(&source)), "{name}: other moves");
        total.add(judge(&name, &compiled.schedule, MOST_MUTANTS));
        let kept = compile_lowered(&short, Lowering { keep_all_gather: true, ..Lowering::default() });
        if kept.schedule.operations.node_count() != compiled.schedule.operations.node_count() {
            total.add(judge(&format!("{name}, gathers kept"), &kept.schedule, MOST_MUTANTS / 2));
        }
    }
    println!("examples: {total}");
    assert!(total.alarms * 50 <= total.refused, "{} of {} refusals are false alarms", total.alarms, total.refused);
}

/// One collective over two axes at once, whose axis orders have unequal weights.
fn multiport(kind: CollectiveKind, mesh: Mesh, method: Method, chunks: u64) -> Schedule {
    let stages: Vec<Stage> = mesh.axis_ids().map(|axis| Stage { axes: axis.into(), dim: 0, method }).collect();
    let axis_orders = vec![AxisOrder { order: vec![0, 1], weight: 1 }, AxisOrder { order: vec![1, 0], weight: 2 }];
    let multiport = Multiport { stages: stages.clone(), axis_orders, chunks };
    let devices = mesh.device_count() as u64;
    let there = Destination { dim: 1, order: mesh.axis_ids().collect() };
    let extents = [2 * devices, if kind == CollectiveKind::AllToAll { devices } else { 3 * chunks }];
    // The last device.
    let root = devices - 1;
    single::from_root(mesh, (kind, root), extents, DType::I64, |builder, given| match kind {
        CollectiveKind::AllGather => multiport.all_gather(builder, given),
        CollectiveKind::ReduceScatter => multiport.reduce_scatter(builder, given, Operator::Sum),
        CollectiveKind::AllReduce => multiport.all_reduce(builder, given, Operator::Sum),
        CollectiveKind::AllToAll => multiport.all_to_all(builder, given, there),
        CollectiveKind::Broadcast if method == Method::OneHop => {
            let [outer, inner] = [stages[0].axes, stages[1].axes];
            methods::broadcast_over_nodes(builder, &[(outer, Wiring::Line)], inner, root, given, chunks)
        }
        CollectiveKind::Broadcast => {
            let runs: Vec<(Axes, Wiring)> = stages.iter().map(|stage| (stage.axes, Wiring::Line)).collect();
            methods::broadcast_over(builder, &runs, root, given, chunks)
        }
        CollectiveKind::Permute
        | CollectiveKind::Reshard
        | CollectiveKind::Shift
        | CollectiveKind::Slice
        | CollectiveKind::Open => {
            unreachable!("not asked for")
        }
    })
}

#[test]
fn no_mutant_over_several_axes_is_proven_and_wrong() {
    let mut total = Counts::default();
    for kind in KINDS {
        for method in [Method::BalancedMeetInMiddleRing, Method::Line, Method::OneHop] {
            for (sizes, chunks) in [([2, 3], 1), ([3, 2], 2), ([4, 3], 1)] {
                let mesh = Mesh::of(&[("X", sizes[0]), ("Y", sizes[1])]);
                let name = format!("{} at once by {} on {mesh}, {chunks} chunks", kind.name(), method.name());
                total.add(judge(&name, &multiport(kind, mesh, method, chunks), MOST_MUTANTS / 4));
            }
        }
    }
    for (method, chunks) in [(Method::BalancedMeetInMiddleRing, 1), (Method::Line, 2)] {
        let mesh = Mesh::of(&[("X", 3), ("Y", 2)]);
        let stages = mesh.axis_ids().map(|axis| Stage { axes: axis.into(), dim: 0, method }).collect();
        let axis_orders = [vec![0, 1], vec![1, 0]].map(|order| AxisOrder { order, weight: 1 }).to_vec();
        let all = Multiport { stages, axis_orders, chunks };
        // From the device at X=1, Y=1.
        let kind = (CollectiveKind::Broadcast, 3);
        let schedule =
            single::from_root(mesh, kind, [12, 4], DType::I64, |builder, given| all.broadcast(builder, &[1, 1], given));
        let name = format!("Broadcast scattered and gathered by {}, {chunks} chunks", method.name());
        total.add(judge(&name, &schedule, MOST_MUTANTS / 2));
    }
    println!("several axes: {total}");
    assert_eq!(total.alarms, 0);
}

/// Four rings through all devices of a torus.
#[test]
fn no_mutant_around_four_rings_is_proven_and_wrong() {
    let mut total = Counts::default();
    let collectives = [
        ("A: i32[I_XY, J]", "AllGather_XY(A[I_XY, J]) -> B[I, J]"),
        ("A: i32[I_X, J_Y]", "AllGather_XY(A[I_X, J_Y]) -> B[I, J]"),
        ("A: i32[I, J]{U_XY}", "ReduceScatter_{XY,I}(A[I, J]{U_XY}) -> B[I_XY, J]"),
        ("A: i32[I, J]{U_XY}", "AllReduce_XY(A[I, J]{U_XY}) -> B[I, J]"),
    ];
    for (input, line) in collectives {
        let machine = "mesh {X: 3 ring, Y: 3 ring} on tpu_v5p\ndims {I: 9, J: 9}";
        let source = format!("{machine}\n{input}\n{line} using quad_directional_ring\n");
        total.add(judge(line, &compile(&source).schedule, MOST_MUTANTS / 2));
    }
    println!("four rings: {total}");
    assert_eq!(total.alarms, 0);
}

#[test]
fn no_mutant_of_a_method_is_proven_and_wrong() {
    let mut total = Counts::default();
    for (kind, n) in KINDS.into_iter().flat_map(|kind| (2..=5).map(move |n| (kind, n))) {
        for wiring in WIRINGS {
            for method in methods::candidates(kind, wiring, u64::from(n)) {
                // A ring of two devices is wired as a line, which is tested separately.
                if n == 2 && wiring == Wiring::Ring {
                    continue;
                }
                let extents = [2 * u64::from(n), u64::from(n)];
                let schedule = single::one_axis(kind, method, single::axis(wiring, n), extents, DType::I64, 2);
                let name = format!("{} by {} on a {wiring} of {n}", kind.name(), method.name());
                total.add(judge(&name, &schedule, MOST_MUTANTS / 4));
            }
        }
    }
    println!("methods: {total}");
    assert_eq!(total.alarms, 0);
}

/// Gathers that use an idle axis, and broadcasts and sums along packed trees.
#[test]
fn no_mutant_on_borrowed_links_or_packed_trees_is_proven_and_wrong() {
    let mut total = Counts::default();
    let gather = |along, idle, columns| {
        format!(
            "mesh {{X: {along}, Y: {idle}}} on tpu_v5p\ndims {{I: 8, J: {columns}}}\nA: i32[I_X, J]\nAllGather_X(A[I_X, J]) -> B[I, J] using idle_axis\n"
        )
    };
    for (along, idle) in [("4 ring", "2"), ("2", "3 ring"), ("4 line", "3 line"), ("2 switch", "4 switch")] {
        let name = format!("AllGather over {along} beside {idle}");
        total.add(judge(&name, &compile(&gather(along, idle, 12)).schedule, MOST_MUTANTS / 2));
    }
    let packed = [
        ("A: i32[I_XY, J]", "AllGather_XY(A[I_XY, J]) -> B[I, J]"),
        ("A: i32[I, J]{U_XY}", "ReduceScatter_{XY,I}(A[I, J]{U_XY}) -> B[I_XY, J]"),
        ("A: i32[I, J]{U_XY}", "AllReduce_XY(A[I, J]{U_XY}) -> B[I, J]"),
    ];
    for (input, line) in packed {
        let machine = "mesh {X: 3 ring, Y: 2} on tpu_v5p\nlink (0,0)<->(1,0) down";
        let source = format!("{machine}\ndims {{I: 12, J: 5}}\n{input}\n{line} using tree_packing\n");
        total.add(judge(line, &compile(&source).schedule, MOST_MUTANTS / 2));
    }
    println!("borrowed links and packed trees: {total}");
    assert_eq!(total.alarms, 0);
}

/// Programs with pipelined runs: gathers and scatters around products, along kept and contracted dims, both at once,
/// exchanges, and a line, which is not symmetric.
const IN_PIECES: [&str; 5] = [
    "mesh {X: 3 ring}\ndims {B: 12, D: 2, F: 3}\nx: i64[B_X, D]\nV: i64[D, F_X]\nW: i64[F_X, D]\nh = x * V\ny[B_X, D] = h * W",
    "mesh {X: 2 line}\ndims {I: 8, J: 8, K: 4}\nA: i64[I, J_X]\nB: i64[J_X, K]\nC[I, K] = A * B",
    "mesh {X: 2, Y: 2}\ndims {I: 8, J: 8, K: 8}\nA: i64[I_X, J_Y]\nB: i64[J_Y, K_X]\nC[I_X, K_Y] = A * B",
    "mesh {X: 4 ring}\ndims {E: 8, T: 8, D: 2, F: 2}\nx: i64[E, T_X, D]\nW: i64[E_X, D, F]\ny[E, T_X, F] = x * W",
    "mesh {X: 3 line}\ndims {I: 12, J: 6, K: 2}\nA: i64[I_X, J]\nB: i64[J, K]\nC[I, K] = A * B\nm = max_K(C)",
];

/// Sums, gathers and scattered sums that are done as one, of arrays of several shapes, on a ring, a line, and two axes.
const BUNDLED: [&str; 4] = [
    "mesh {X: 3 ring}\ndims {B: 6, D: 2}\nb: i64[B]{U_X}\nd: i64[D, B]{U_X}\nB1[B] = b\nD1[D, B] = d",
    "mesh {X: 2 line}\ndims {B: 4, D: 2}\nb: i64[B_X]\nd: i64[D, B_X]\nB1[B] = b\nD1[D, B] = d",
    "mesh {X: 3 line}\ndims {B: 6, D: 2}\nb: i64[B]{U_X}\nd: i64[D, B]{U_X}\nB1[B_X] = b\nD1[D, B_X] = d",
    "mesh {X: 2, Y: 2}\ndims {B: 4, D: 2}\nb: i64[B]{U_X}\nd: i64[D, B]{U_X}\ne: i64[]{U_X}\nB1[B] = b\nD1[D, B] = d\nE1[] = e",
];

#[test]
fn no_mutant_of_bundles_is_proven_and_wrong() {
    let mut total = Counts::default();
    for source in BUNDLED {
        let compiled = apart(source);
        let tuner = Tuner::new(Cow::Borrowed(&compiled.topology), Lowering::default());
        let groups = alike(&compiled.plan);
        let steps: Vec<StepId> = groups[0].steps().collect();
        let bundles = groups[0].in_parts(&compiled.plan, &tuner, &steps, 1);
        assert_eq!((groups.len(), bundles.len()), (1, 1), "{source}");
        let overlap = Overlap { bundles, order: Order::Ready, ..Overlap::default() };
        let listing = Listing::overlapped(&compiled.plan, &overlap, &compiled.topology);
        let schedule = lower::listed(&compiled.plan, &listing).expect("a bundle has a recipe");
        total.add(judge(source, &schedule, MOST_MUTANTS));
    }
    println!("bundles: {total}");
    assert!(total.all > 300 && total.alarms * 50 <= total.refused, "{total}");
}

#[test]
fn no_mutant_of_steps_in_pieces_is_proven_and_wrong() {
    let mut total = Counts::default();
    for source in IN_PIECES {
        let compiled = apart(source);
        let tuner = Tuner::new(Cow::Borrowed(&compiled.topology), Lowering::default());
        let uneven = Division::even(2).with_shorter_last().expect("a few halvings");
        let unrolled = unroll::unroll(&compiled.plan).expect("short");
        let all = windows(&compiled.plan);
        let pieces = |run: &Run, division| run.in_pieces(&compiled.plan, division, &tuner);
        let either = |run: &Run| pieces(run, uneven).or_else(|| pieces(run, Division::even(2)));
        let cut = all.iter().filter_map(|run| Some((run, either(run)?)));
        for (at, (run, pipeline)) in cut.enumerate() {
            // With a second run that splits another dim, if there is one.
            let fits = |other: &&Run| other.fits(std::slice::from_ref(&pipeline)) && other != &run;
            let second = all.iter().filter(fits).find_map(|other| pieces(other, Division::even(2)));
            let pipelines = [pipeline.clone()].into_iter().chain(second).collect();
            let overlap = Overlap { pipelines, order: Order::Ready, ..Overlap::default() };
            let listing = Listing::overlapped(&unrolled, &overlap, &compiled.topology);
            let schedule = lower::listed(&unrolled, &listing).expect("pieces have recipes");
            total.add(judge(&format!("pieces {at} of {source}"), &schedule, MOST_MUTANTS / 4));
        }
    }
    println!("pieces: {total}");
    assert!(total.all > 1000 && total.alarms * 50 <= total.refused, "{total}");
}
