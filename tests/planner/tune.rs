//! `tune`: the fastest plan over all meshes and layouts is the fastest of all written ones.

use crate::common::sets;
use itertools::Itertools;
use shardc::compiler::{self, Options, Overlapping, Resharding, Spelling};
use shardc::costs::CostModel;
use shardc::sweep::Point;
use shardc::syntax::{AxisShape, Extent};
use shardc::topology::Hardware;
use shardc::tune::{Fate, Tried, machine, maps, meshes, opened, tune, written};
use std::time::Duration;

fn axes() -> Vec<String> {
    ["X", "Y"].map(str::to_owned).to_vec()
}

fn points(devices: u64) -> Vec<Point> {
    let sizes = |mesh: Vec<(String, u64)>| mesh.into_iter().map(|(name, size)| (name, Extent::Size(size))).collect();
    meshes(&axes(), devices).into_iter().map(|mesh| Point { sizes: sizes(mesh), hardware: None }).collect()
}

fn options(costs: CostModel) -> Options {
    Options { costs, overlap: Overlapping::None, reshard: Resharding::Chains, ..Options::default() }
}

/// The time of a program in seconds; `None` if it is wrong or has no plan.
fn time(source: &str, options: &Options) -> Option<f64> {
    let program = compiler::check(source).0?;
    let topology = compiler::machine(&program, options).ok()?;
    let plan = compiler::plan(&program, &topology, options).ok()?;
    Some(topology.scale.seconds(plan.time()))
}

fn tuned(source: &str, devices: u64, options: &Options, every: bool) -> Vec<Tried> {
    tune(source, Spelling::Exact, options, points(devices), every, None, || {}).expect("known axes")
}

/// The layouts of a matrix on two axes.
fn layouts([a, b]: [&str; 2]) -> Vec<String> {
    let dim = |name: &str, axes: &str| if axes.is_empty() { name.to_owned() } else { format!("{name}_{axes}") };
    let splits = [
        ["", ""],
        ["X", ""],
        ["Y", ""],
        ["XY", ""],
        ["YX", ""],
        ["", "X"],
        ["", "Y"],
        ["", "XY"],
        ["", "YX"],
        ["X", "Y"],
        ["Y", "X"],
    ];
    splits.iter().map(|[first, second]| format!("[{}, {}]", dim(a, first), dim(b, second))).collect()
}

/// With enough time, a limit changes nothing; with none, nothing is planned.
#[test]
fn a_time_limit_is_for_all_meshes_together() {
    let source = "mesh {X: 2, Y: 2} on tpu_v5e\ndims {I: 1024, J: 1024, K: 1024}\nA: bf16[I, J]_?\nB: bf16[J, K]_?\nC[I_X, K_Y] = A * B\n";
    let options = options(CostModel::Exact);
    let within = |limit: Option<Duration>| {
        tune(source, Spelling::Exact, &options, points(64), false, limit, || {}).expect("known axes")
    };
    let whole = within(None);
    assert_eq!(within(Some(Duration::from_secs(10_000))), whole);
    assert!(whole.iter().any(|tried| tried.figures().is_some()));
    let none = within(Some(Duration::ZERO));
    assert!(none.iter().all(|tried| tried.fate == Fate::Untried && tried.bound <= 0.0), "{none:?}");
    // Whatever was planned in the time is a plan without the limit as well.
    for milliseconds in [1, 10, 50, 200] {
        for (some, all) in within(Some(Duration::from_millis(milliseconds))).iter().zip(&whole) {
            assert!(some.bound <= all.bound || matches!(all.fate, Fate::Impossible(_)), "{some:?} {all:?}");
        }
    }
}

#[test]
fn meshes_are_all_products() {
    let sizes = |devices| -> Vec<Vec<u64>> {
        meshes(&axes(), devices).into_iter().map(|mesh| mesh.into_iter().map(|(_, size)| size).collect()).collect()
    };
    assert_eq!(sizes(6), [[1, 6], [2, 3], [3, 2], [6, 1]]);
    assert_eq!(sizes(1), [[1, 1]]);
    assert_eq!(meshes(&[], 1), [[]]);
    assert!(meshes(&[], 2).is_empty());
    let three = ["a", "b", "c"].map(str::to_owned);
    let of_64 = meshes(&three, 64);
    assert_eq!(of_64.len(), 28);
    assert!(
        of_64.iter().all(|mesh| mesh.iter().map(|(_, size)| size).product::<u64>() == 64) && of_64.iter().all_unique()
    );
}

/// The maps of a machine, as text.
fn mapped(names: &[&str], topology: &str, hardware: &str) -> Vec<String> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let hardware = Hardware::named(hardware).expect("a shipped profile");
    let physical = machine(topology, &hardware).expect("a machine");
    let line = |mesh: &Vec<(String, AxisShape)>| mesh.iter().map(|(name, shape)| format!("{name}: {shape}")).join(", ");
    maps(&names, &physical).iter().map(line).collect()
}

#[test]
fn physical_axes_are_mapped_to_all_axes() {
    assert_eq!(mapped(&["X", "Y"], "4x2", "tpu_v5p"), ["X: 4x2, Y: 1", "X: 4, Y: 2", "X: 2, Y: 4", "X: 1, Y: 4x2"]);
    // Which of several like axes an axis gets does not matter: choose how many.
    assert_eq!(mapped(&["X", "Y", "Z"], "8x8x8", "tpu_v5p").len(), 10);
    assert_eq!(mapped(&["X", "Y"], "2x4x8", "tpu_v5p").len(), 8);
    assert_eq!(mapped(&["X", "Y"], "4 ring, 4 line", "tpu_v5p").len(), 2, "an axis has one wiring");
    // A switch is divided; an axis is on one network.
    let nodes = mapped(&["X", "Y", "Z"], "2 over ib, 4", "h100");
    let parts = ["X: 2 over ib, Y: 4, Z: 1", "X: 2 over ib, Y: 2, Z: 2", "X: 2 over ib, Y: 1, Z: 4"];
    assert!(parts.iter().all(|line| nodes.contains(&(*line).to_owned())), "{nodes:?}");
    assert_eq!(nodes.len(), 9);
    let of = |topology: &str, hardware: &str| machine(topology, &Hardware::named(hardware).expect("shipped"));
    assert_eq!(of("8 over eth", "h100"), Err("h100 has no network `eth`; it has `nvlink`, `ib`".to_owned()));
    assert!(of("8x", "h100").is_err() && of("", "h100").is_err() && of("0", "h100").is_err());
    assert!(of("1000000000000 over ib, 8", "h100").is_err_and(|why| why.ends_with("1048576 devices")));
    // Twenty axes of 2 are mapped 3^20 times, and to few meshes.
    assert_eq!(mapped(&["X", "Y", "Z"], &["2"; 20].join("x"), "tpu_v5p").len(), 231);
}

/// Each map uses every device; all maps that a brute force over owners and divisors finds are there, once.
#[test]
fn maps_are_all_products_of_shares() {
    for (topology, hardware) in [("2x4", "tpu_v5p"), ("4x4x2", "tpu_v5e"), ("12", "h100"), ("4 over ib, 8", "h100")] {
        let found = mapped(&["X", "Y"], topology, hardware);
        assert!(found.iter().all_unique());
        // Texts of all pairs of axes with any factors, kept if the machine has them.
        let physical = machine(topology, &Hardware::named(hardware).expect("shipped")).expect("a machine");
        let shares = physical
            .iter()
            .map(|axis| (1..=axis.size).filter(|share| axis.size.is_multiple_of(*share)))
            .multi_cartesian_product();
        let mut expected = std::collections::BTreeSet::new();
        for first in shares {
            let whole = |(axis, share): (&shardc::tune::PhysicalAxis, &u64)| {
                axis.is_divisible || [1, axis.size].contains(share)
            };
            if !physical.iter().zip(&first).all(whole) {
                continue;
            }
            let text = |share: &dyn Fn(usize) -> u64| {
                let used = physical.iter().enumerate().filter(|(place, _)| share(*place) > 1).collect_vec();
                let networks = used.iter().map(|(_, axis)| axis.over.clone()).unique().collect_vec();
                let mut sizes = used.iter().map(|(place, _)| share(*place)).collect_vec();
                sizes.sort_by_key(|size| std::cmp::Reverse(*size));
                let network =
                    networks.first().cloned().flatten().map_or_else(String::new, |name| format!(" over {name}"));
                let sizes = if sizes.is_empty() { "1".to_owned() } else { sizes.iter().join("x") };
                (networks.len() <= 1).then(|| sizes + &network)
            };
            let others = |place: usize| physical[place].size / first[place];
            if let (Some(one), Some(two)) = (text(&|place| first[place]), text(&others)) {
                expected.insert(format!("X: {one}, Y: {two}"));
            }
        }
        assert_eq!(found.into_iter().collect::<std::collections::BTreeSet<_>>(), expected, "{topology}");
    }
}

/// The fastest map is the fastest of all programs whose mesh is written so, with all layouts of the inputs.
#[test]
fn the_fastest_map_is_the_fastest_that_can_be_written() {
    let machines = [
        ("4x2", "tpu_v5p", vec!["X: 4x2, Y: 1", "X: 4, Y: 2", "X: 2, Y: 4", "X: 1, Y: 4x2"]),
        ("2 over ib, 4", "h100", vec!["X: 2 over ib, Y: 4", "X: 4, Y: 2 over ib"]),
    ];
    let mut differ = 0;
    let mut sizes = vec![[64, 8192, 1024], [8192, 256, 8192], [1024, 64, 64]];
    if sets::are_full() {
        let mut random = fastrand::Rng::with_seed(29);
        let mut size = || [64, 256, 1024, 8192][random.usize(..4)];
        sizes.extend(std::iter::repeat_with(|| [size(), size(), size()]).take(97));
    }
    for ((topology, hardware, meshes), [i, j, k]) in machines.iter().cartesian_product(sizes) {
        let options = options(CostModel::Exact);
        // The output is fixed, so that the axes are not alike.
        let source = |mesh: &str, a: &str, b: &str| {
            format!(
                "mesh {{{mesh}}} on {hardware}\ndims {{I: {i}, J: {j}, K: {k}}}\nA: bf16{a}\nB: bf16{b}\nC[I_X, K] = A * B\noutput C\n"
            )
        };
        let open = source("X: 2, Y: 2", "[I, J]_?", "[J, K_Y]");
        let profile = Hardware::named(hardware).expect("shipped");
        let physical = machine(topology, &profile).expect("a machine");
        let point = |mesh: Vec<(String, AxisShape)>| Point {
            sizes: mesh.into_iter().map(|(name, shape)| (name, Extent::Axis(shape))).collect(),
            hardware: None,
        };
        let points = maps(&axes(), &physical).into_iter().map(point).collect();
        let tried = tune(&open, Spelling::Exact, &options, points, false, None, || {}).expect("known axes");
        let fastest = tried.iter().filter_map(Tried::figures).map(|figures| figures.time).fold(f64::INFINITY, f64::min);
        let mut times = Vec::new();
        for mesh in meshes {
            let all = layouts(["I", "J"]).into_iter().filter_map(|a| time(&source(mesh, &a, "[J, K_Y]"), &options));
            times.push(all.fold(f64::INFINITY, f64::min));
        }
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        assert!((fastest - least).abs() <= 1e-12 + least * 1e-9, "{fastest} {times:?}\n{open}");
        differ += usize::from(times.iter().any(|time| *time > least * 1.01));
        let best = tried.iter().find(|tried| tried.figures().is_some_and(|figures| figures.time <= fastest));
        let best = best.expect("a plan");
        let text = written(&open, &best.point, &best.figures().expect("planned").filled);
        let again = time(&text, &options).expect("a right program");
        assert!((again - fastest).abs() <= 1e-12 + fastest * 1e-9, "{again} {fastest}\n{text}");
    }
    assert!(differ >= 4, "{differ}");
}

/// Brute force: each mesh, with each pair of written layouts.
#[test]
fn the_fastest_is_the_fastest_of_all_that_can_be_written() {
    let mut random = fastrand::Rng::with_seed(17);
    let count = if sets::are_full() { 200 } else { 2 };
    let (mut pruned, mut cut) = (0, 0);
    for _ in 0..count {
        let mut size = || [64, 256, 1024, 8192][random.usize(..4)];
        let [i, j, k] = [size(), size(), size()];
        let output = layouts(["I", "K"])[random.usize(..11)].clone();
        let hardware = ["tpu_v5e", "h100"][random.usize(..2)];
        let costs = [CostModel::Exact, CostModel::Book][random.usize(..2)];
        let options = options(costs);
        let source = |mesh: &str, a: &str, b: &str| {
            format!(
                "mesh {{{mesh}}} on {hardware}\ndims {{I: {i}, J: {j}, K: {k}}}\nA: bf16{a}\nB: bf16{b}\nC{output} = A * B\noutput C\n"
            )
        };
        let open = source("X: 2, Y: 2", "[I, J]_?", "[J, K]_?");
        let tried = tuned(&open, 8, &options, false);
        let fastest = tried.iter().filter_map(Tried::figures).map(|figures| figures.time).fold(f64::INFINITY, f64::min);
        let mut least = f64::INFINITY;
        for mesh in meshes(&axes(), 8) {
            let mesh = mesh.iter().map(|(axis, size)| format!("{axis}: {size}")).join(", ");
            for (a, b) in layouts(["I", "J"]).into_iter().cartesian_product(layouts(["J", "K"])) {
                least = time(&source(&mesh, &a, &b), &options).map_or(least, |time| least.min(time));
            }
        }
        assert!((fastest - least).abs() <= 1e-12 + least * 1e-9, "{fastest} {least}\n{open}");
        // Bounds hold, and pruned candidates are not faster.
        for tried in &tried {
            assert!(tried.figures().is_none_or(|figures| tried.bound <= figures.time * (1.0 + 1e-9)), "{open}");
            pruned += usize::from(tried.fate == Fate::Slower);
        }
        let all = tuned(&open, 8, &options, true);
        let of_all = all.iter().filter_map(Tried::figures).map(|figures| figures.time).fold(f64::INFINITY, f64::min);
        assert!((of_all - fastest).abs() <= 1e-12, "{open}");
        cut += usize::from(fastest > 0.0);
        // A plan equals that of the program written for it.
        let best = tried.iter().filter(|tried| tried.is_on_frontier).min_by(|a, b| {
            let [a, b] = [a, b].map(|tried| tried.figures().expect("planned").time);
            a.total_cmp(&b)
        });
        let best = best.expect("a plan");
        let text = written(&open, &best.point, &best.figures().expect("planned").filled);
        assert!(!text.contains("_?"), "{text}");
        let again = time(&text, &options).expect("a right program");
        assert!((again - fastest).abs() <= 1e-12 + fastest * 1e-9, "{again} {fastest}\n{text}");
    }
    assert!(pruned > count / 2 && cut > count / 2, "{pruned} {cut}");
}

/// No plan of the frontier is dominated in time, memory and devices, and every other plan is.
#[test]
fn the_frontier_is_not_dominated() {
    let source = "mesh {X: 2, Y: 2} on tpu_v5e\ndims {B: 4096, D: 2048, F: 8192}\nx: bf16[B, D]_?\nW: bf16[D, F]_?\nV: bf16[F, D]_?\n\
                  y[B, D]_? = relu(x * W) * V\noutput y\n";
    let options = options(CostModel::Exact);
    let all = points(4).into_iter().chain(points(16)).collect();
    let tried = tune(source, Spelling::Exact, &options, all, true, None, || {}).expect("known axes");
    let rank = |tried: &Tried| tried.figures().map(|figures| (tried.devices, figures.time, figures.held.0));
    let beats = |a: (u64, f64, u64), b: (u64, f64, u64)| a != b && a.0 <= b.0 && a.1 <= b.1 && a.2 <= b.2;
    for one in &tried {
        let Some(own) = rank(one) else { continue };
        let is_beaten = tried.iter().filter_map(rank).any(|other| beats(other, own));
        let is_equal = tried.iter().filter(|other| rank(other) == Some(own)).count() > 1;
        assert!(one.is_on_frontier != is_beaten || is_equal, "{one:?}");
        assert!(!(one.is_on_frontier && is_beaten), "{one:?}");
    }
    assert!(tried.iter().any(|tried| tried.is_on_frontier));
}

/// Freeing layouts preserves dims, names and comments.
#[test]
fn programs_are_opened_and_written() {
    let source = "mesh {data: 2, model: 4} on tpu_v5e  # a mesh\ndims {d_in: 64, F: 32, L: 16}\n\
                  x: bf16[d_in_data, F]  # rows\nrepeat 2 {\n    W: f32[F_model, L]\n    b: f32[F_{data,model}, L]_?\n    V = W + b\n    output_of = V * x\n}\ny = x\noutput y\n";
    let program = compiler::check(source).0;
    let source = match program {
        Some(_) => source.to_owned(),
        None => source.replace("    output_of = V * x\n", ""),
    };
    let program = compiler::check(&source).0.expect("a program");
    let text = opened(&source, &program);
    assert!(
        text.contains("x: bf16[d_in, F]_?  # rows")
            && text.contains("W: f32[F, L]_?")
            && text.contains("b: f32[F, L]_?"),
        "{text}"
    );
    let filled = ["x[d_in_model, F]", "W[F, L_data]", "V[F, L]"].map(str::to_owned);
    let sizes = [("data".to_owned(), Extent::Size(8)), ("model".to_owned(), Extent::Size(1))];
    let text = written(&text, &Point { sizes: sizes.to_vec(), hardware: None }, &filled);
    assert!(text.starts_with("mesh {data: 8, model: 1} on tpu_v5e  # a mesh\n"), "{text}");
    assert!(
        text.contains("x: bf16[d_in_model, F]  # rows")
            && text.contains("W: f32[F, L_data]")
            && text.contains("b: f32[F, L]_?"),
        "{text}"
    );
    // The mesh is written with its networks and machine.
    let whole = |axis: &str| Extent::Axis(AxisShape::parse(axis).expect("an axis"));
    let sizes = vec![("data".to_owned(), whole("4x2 over ib")), ("model".to_owned(), whole("8"))];
    for hardware in ["h100", "b200"] {
        let point = Point { sizes: sizes.clone(), hardware: Hardware::named(hardware) };
        let text = written(&source, &point, &[]);
        let mesh = format!("mesh {{data: 4x2 over ib, model: 8}} on {hardware}  # a mesh\n");
        assert!(text.starts_with(&mesh), "{text}");
        let point = Point { sizes: Vec::new(), hardware: Hardware::named(hardware) };
        let text = written("mesh {X: 2}\n", &point, &[]);
        assert_eq!(text, format!("mesh {{X: 2}} on {hardware}\n"));
    }
}
