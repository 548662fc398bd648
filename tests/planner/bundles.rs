//! Bundles: any bundle of collectives is proven and computes the same; the chosen ones are as fast as one collective on
//! all of their bytes, and no other partition of a few collectives is much faster.

use super::overlap::{is_right, scheduled};
use crate::common::{apart, compile, sets};
use itertools::Itertools;
use shardc::compiler::Compiled;
use shardc::plan::{Alike, Bundle, Order, Overlap, alike};
use shardc::recipe::{Lowering, Tuner};
use shardc::report::{Findings, text};
use shardc::sim::clock;
use shardc::units::Time;
use std::borrow::Cow;
use std::fmt::Write;

/// Sums over X of arrays of this dtype, named `A` and so on, with these dims.
fn sums(mesh: &str, dtype: &str, arrays: &[&str]) -> String {
    let mut text = format!("mesh {{{mesh}}}\ndims {{D: 512, E: 96, F: 8}}\n");
    for (name, dims) in ('a'..).zip(arrays) {
        writeln!(text, "{name}: {dtype}[{dims}]{{U_X}}").expect("a string");
    }
    for (name, dims) in ('a'..).zip(arrays) {
        writeln!(text, "{}[{dims}] = {name}", name.to_ascii_uppercase()).expect("a string");
    }
    text
}

fn tuner(compiled: &Compiled) -> Tuner<'_> {
    Tuner::new(Cow::Borrowed(&compiled.topology), Lowering::default())
}

fn together(bundles: Vec<Bundle>) -> Overlap {
    Overlap { bundles, order: Order::Ready, ..Overlap::default() }
}

fn time(compiled: &Compiled) -> Time {
    clock::run(&compiled.schedule, &compiled.topology).expect("a time").makespan
}

/// Eight sums of 1 kB take as long as one of 8 kB, instead of eight times as long.
#[test]
fn small_sums_take_as_long_as_one_of_all_their_bytes() {
    for hardware in ["tpu_v5p", "tpu_v5e", "h100"] {
        let source = |arrays: &[&str]| {
            sums("X: 8", "bf16", arrays).replacen("}\n", &format!("}} on {hardware}\n"), 1).replace("E: 96", "E: 4096")
        };
        let (many, one) = (source(&["D"; 8]), source(&["E"]));
        let (apart, bundled, one) = (time(&apart(&many)), compile(&many), time(&compile(&one)));
        assert_eq!(bundled.plan.overlap.bundles.len(), 1, "{hardware}");
        assert_eq!(time(&bundled), one, "{hardware}");
        assert!(apart >= one * 5, "{hardware}: {apart:?}, {one:?}");
        assert_eq!(bundled.plan.overlap.whole.map(|whole| whole.time), Some(one), "{hardware}");
    }
}

/// Bundles of arrays of several ranks, dtypes and shardings, on several networks, in every number of parts: sums, gathers
/// and scattered sums along any dim.
#[test]
fn whatever_is_bundled_computes_the_same() {
    let mut random = fastrand::Rng::with_seed(31);
    let mut tried = [0; 3];
    for _ in 0..if sets::are_full() { 900 } else { 90 } {
        let mesh = ["X: 3 ring", "X: 4 line", "X: 2, Y: 2", "X: 4 ring, Y: 2", "X: 2 switch, Y: 4 ring", "Y: 2, X: 6"];
        let mesh = mesh[random.usize(..mesh.len())];
        let dtype = ["i8", "i32", "f32", "bf16", "u4"][random.usize(..5)];
        let kind = random.usize(..3);
        // Before and after: `*` is where X comes or goes.
        let dims = match kind {
            0 => vec!["", "F", "E, F", "D", "E_Y, F", "F, E_Y", "D_Y"],
            _ => vec!["D*", "E*, F", "F, E*", "F, E*, G", "D_Y, E*", "E_Y*", "F, E_Y*"],
        };
        let dims = dims.into_iter().filter(|dims| mesh.contains('Y') || !dims.contains('Y')).collect_vec();
        let count = random.usize(2..7);
        let arrays: Vec<&str> = (0..count).map(|_| dims[random.usize(..dims.len())]).collect();
        let with = |dims: &str| dims.replace("_Y*", "_YX").replace('*', "_X");
        let without = |dims: &str| dims.replace('*', "");
        let mut source = format!("mesh {{{mesh}}}\ndims {{D: 480, E: 96, F: 8, G: 3}}\n");
        for (name, dims) in ('a'..).zip(&arrays) {
            let (to, from) = (with(dims), without(dims));
            let from = if kind == 1 { format!("[{to}]") } else { format!("[{from}]{{U_X}}") };
            writeln!(source, "{name}: {dtype}{from}").expect("a string");
        }
        for (name, dims) in ('a'..).zip(&arrays) {
            let to = if kind == 2 { with(dims) } else { without(dims) };
            writeln!(source, "{}[{to}] = {name}", name.to_ascii_uppercase()).expect("a string");
        }
        let compiled = apart(&source);
        let groups = alike(&compiled.plan);
        assert_eq!(groups.iter().map(|group| group.steps().len()).collect_vec(), [count], "{source}");
        for parts in 1..=count / 2 {
            let steps = groups[0].steps().collect_vec();
            let bundles = groups[0].in_parts(&compiled.plan, &tuner(&compiled), &steps, parts);
            assert!(!bundles.is_empty());
            is_right(&scheduled(&compiled, &together(bundles)), &format!("in {parts}: {source}"));
            tried[kind] += 1;
        }
    }
    assert!(tried.into_iter().all(|count| count >= 40), "{tried:?}");
}

/// Sums that depend on each other, or that are added differently, are not bundled; those of an iteration are.
#[test]
fn only_sums_of_one_kind_and_level_are_bundled() {
    let groups = |source: &str| {
        let compiled = apart(source);
        alike(&compiled.plan).iter().map(|group| group.steps().len()).sorted().collect_vec()
    };
    let behind = "mesh {X: 4}\ndims {D: 64, E: 4}\na: i32[D]{U_X}\nA[D] = a\nW: i32[D_X, E]\nB[E] = relu(A) * W\n";
    assert_eq!(groups(behind), Vec::<usize>::new());
    let other =
        "mesh {X: 4}\ndims {D: 64}\na: i32[D]{U_X}\nb: i32[D]{MAX_X}\nc: i64[D]{U_X}\nA[D] = a\nB[D] = b\nC[D] = c\n";
    assert_eq!(groups(other), Vec::<usize>::new());
    let asked = "mesh {X: 4}\ndims {D: 64}\na: i32[D]{U_X}\nb: i32[D]{U_X}\nA[D] = a using line\nB[D] = b\n";
    assert_eq!(groups(asked), Vec::<usize>::new());
    let repeated = "mesh {X: 4 ring} on tpu_v5p\ndims {D: 64, E: 8192}\nx: i32[D]\nV: i32[D, E_X]\nW: i32[D, E_X]\n\
                    v: i32[E_X]\nrepeat 3 {\n  s[D] = (V .* x) * v\n  t[D] = (W .* x) * v\n  x = max(s, t)\n}\n";
    let compiled = compile(repeated);
    let bundles = &compiled.plan.overlap.bundles;
    assert_eq!(bundles.iter().map(|bundle| bundle.members.len()).collect_vec(), [2], "{repeated}");
    is_right(&compiled.schedule, repeated);
}

/// The example in `docs/planning.md` shows real output.
#[test]
fn the_documented_example_is_bundled() {
    let docs = std::fs::read_to_string("docs/planning.md").expect("docs");
    let (_, section) = docs.split_once("## Bundles").expect("a section");
    let mut blocks = section.split("```").skip(1).step_by(2).map(|block| block.split_once('\n').expect("a block").1);
    let (source, output) = (blocks.next().expect("a program"), blocks.next().expect("its output"));
    let compiled = compile(source);
    let report = text::plan(&Findings::new(&compiled.plan, &compiled.topology), None);
    assert!(report.contains(output), "{report}");
}

/// All partitions of up to five sums of different sizes: the chosen one is within a tenth of the fastest.
#[test]
fn hardly_any_partition_is_faster() {
    let mut random = fastrand::Rng::with_seed(37);
    let mut tried = 0;
    for _ in 0..if sets::are_full() { 60 } else { 6 } {
        let mesh = ["X: 4 ring", "X: 4 line", "X: 8 switch"][random.usize(..3)];
        let count = random.usize(3..6);
        let sizes: Vec<u64> = (0..count).map(|_| 1 << random.u32(6..22)).collect();
        let name = |at: usize| format!("D{at}");
        let dims = sizes.iter().enumerate().map(|(at, size)| format!("{}: {size}", name(at))).join(", ");
        let arrays: Vec<String> = (0..count).map(name).collect();
        let source = sums(mesh, "f32", &arrays.iter().map(String::as_str).collect_vec());
        let source = source.replace("D: 512, E: 96, F: 8", &dims).replacen("}\n", "} on tpu_v5p\n", 1);
        let (apart, chosen) = (apart(&source), compile(&source));
        let groups = alike(&apart.plan);
        let all = |group: &Alike, parts: &[Vec<usize>]| -> Vec<Bundle> {
            let steps = |part: &Vec<usize>| part.iter().filter_map(|at| group.steps().nth(*at)).collect_vec();
            let parts = parts.iter().filter(|part| part.len() > 1);
            parts.flat_map(|part| group.in_parts(&apart.plan, &tuner(&apart), &steps(part), 1)).collect()
        };
        let mut best = Time::MAX;
        for parts in partitions(count) {
            let schedule = scheduled(&apart, &together(all(&groups[0], &parts)));
            best = best.min(clock::run(&schedule, &apart.topology).expect("a time").makespan);
            tried += 1;
        }
        let ratio = time(&chosen).ratio(best);
        assert!(ratio <= 1.1, "{ratio}: {source}");
    }
    assert!(tried > 50);
}

/// All partitions of the numbers below `count`.
fn partitions(count: usize) -> Vec<Vec<Vec<usize>>> {
    let mut all: Vec<Vec<Vec<usize>>> = vec![Vec::new()];
    for number in 0..count {
        let with = |parts: &Vec<Vec<usize>>| {
            let joined = (0..parts.len()).map(|at| {
                let mut parts = parts.clone();
                parts[at].push(number);
                parts
            });
            joined.chain([parts.iter().cloned().chain([vec![number]]).collect()]).collect_vec()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}
