//! `tune`: the fastest plan over all meshes and layouts is the fastest of all written ones.

use crate::common::sets;
use itertools::Itertools;
use shardc::compiler::{self, Options, Overlapping, Resharding, Spelling};
use shardc::costs::CostModel;
use shardc::sweep::Point;
use shardc::tune::{Fate, Tried, meshes, opened, tune, written};
use std::time::Duration;

fn axes() -> Vec<String> {
    ["X", "Y"].map(str::to_owned).to_vec()
}

fn points(devices: u64) -> Vec<Point> {
    meshes(&axes(), devices).into_iter().map(|sizes| Point { sizes, hardware: None }).collect()
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

/// Brute force: each mesh, with each pair of written layouts.
#[test]
fn the_fastest_is_the_fastest_of_all_that_can_be_written() {
    let mut random = fastrand::Rng::with_seed(17);
    let count = if sets::are_full() { 200 } else { 6 };
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
        let text = written(&open, &best.point.sizes, &best.figures().expect("planned").filled);
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
    let text = written(&text, &[("data".to_owned(), 8), ("model".to_owned(), 1)], &filled);
    assert!(text.starts_with("mesh {data: 8, model: 1} on tpu_v5e  # a mesh\n"), "{text}");
    assert!(
        text.contains("x: bf16[d_in_model, F]  # rows")
            && text.contains("W: f32[F, L_data]")
            && text.contains("b: f32[F, L]_?"),
        "{text}"
    );
}
