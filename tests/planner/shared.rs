//! Values with several users: no written layouts are cheaper than free ones.

use itertools::Itertools;
use shardc::compiler::{self, Options, Overlapping, Resharding};
use shardc::costs::CostModel;
use shardc::plan::{self, Plan};

/// The plan of a program; `None` if a written layout is unreachable or not legal.
fn planned(source: &str, costs: CostModel) -> Option<Plan> {
    let options = Options { costs, overlap: Overlapping::None, reshard: Resharding::Chains, ..Options::default() };
    let program = compiler::check(source).0?;
    let topology = compiler::machine(&program, &options).ok()?;
    let costs = costs.on(&topology, options.lowering);
    plan::plan_on_whole_axes(&program, costs.as_ref()).ok()
}

/// All spellings of layouts of an array with these dims, including open sums.
fn spellings(dims: &[&str], axes: &str) -> Vec<String> {
    let lists: Vec<String> = (0..=axes.len())
        .flat_map(|count| axes.chars().permutations(count))
        .map(|list| list.into_iter().collect())
        .collect();
    let subscript = |list: &String| if list.is_empty() { String::new() } else { format!("_{list}") };
    let choices = (0..=dims.len()).map(|_| lists.iter()).multi_cartesian_product();
    let once = choices.filter(|choice| choice.iter().flat_map(|list| list.chars()).all_unique());
    let spelled = once.filter_map(|choice| {
        let (open, subscripts) = choice.split_last()?;
        // The axes of an open sum are unordered.
        let sorted = open.chars().is_sorted();
        let brackets = dims.iter().zip(subscripts).map(|(dim, list)| format!("{dim}{}", subscript(list))).join(", ");
        let open = if open.is_empty() { String::new() } else { format!("{{U_{open}}}") };
        sorted.then(|| format!("[{brackets}]{open}"))
    });
    spelled.collect()
}

/// The text after the mesh and the dims; `?` marks where a layout of `M` can be written, `!` where one of `N` can.
const PROGRAMS: &[(&str, &[&[&str]])] = &[
    ("M? = A * B\nC[I_X, L] = M * D\nE[I, K_X] = relu(M)\noutput C, E", &[&["I", "K"]]),
    ("M? = A * B\nC[I, K_X] = M + M\nS = sum_K(M)\noutput C, S", &[&["I", "K"]]),
    ("M? = A * B\nN! = M * D\nC[I_X, L] = N + relu(N)\nE[I, K_X] = M\noutput C, E", &[&["I", "K"], &["I", "L"]]),
    ("M? = A * B\nN! = relu(M)\nC[I_X, L] = N * D\nE[I, K] = N - M\noutput C, E", &[&["I", "K"], &["I", "K"]]),
    ("M? = A * B\nC[I, K_X] = M - max_K(M)\noutput C", &[&["I", "K"]]),
    (
        "M? = A[I_X, J] * B\nN! = M * D\nC[I, K_X] = M * 2\nE[I_X, L] = exp(N) / sum_L(exp(N))\noutput C, E",
        &[&["I", "K"], &["I", "L"]],
    ),
    ("M? = A * B\noutput M\nC[I_X, L] = M * D\noutput C", &[&["I", "K"]]),
];

fn compare(mesh: &str, axes: &str, programs: &[(&str, &[&[&str]])], costs: CostModel) {
    for ((body, holes), scale) in programs.iter().cartesian_product([1, 512]) {
        let sizes = [8, 16, 8, 32].map(|size| size * scale);
        let [i, j, k, l] = sizes;
        let inputs = "A: bf16[I_X, J]\nB: bf16[J, K_X]\nD: bf16[K, L_X]";
        let head = format!("mesh {{{mesh}}} on tpu_v5e\ndims {{I: {i}, J: {j}, K: {k}, L: {l}}}\n{inputs}\n");
        let source = |layouts: &[&str]| {
            let first = layouts.first().copied().unwrap_or_default();
            let second = layouts.get(1).copied().unwrap_or_default();
            format!("{head}{}\n", body.replace('?', first).replace('!', second))
        };
        let figure = |plan: &Plan| match costs {
            CostModel::Book | CostModel::Exact => plan.totals().time().ticks(),
            CostModel::Bytes => u128::from(plan.totals().received().0),
        };
        let free = planned(&source(&[]), costs).unwrap_or_else(|| panic!("a plan of {}", source(&[])));
        let all = holes.iter().map(|dims| spellings(dims, axes)).multi_cartesian_product();
        let written = all.filter_map(|layouts| {
            let layouts: Vec<&str> = layouts.iter().map(String::as_str).collect();
            Some((figure(&planned(&source(&layouts), costs)?), source(&layouts)))
        });
        let (least, best) = written.min().expect("some layout can be written");
        assert_eq!(figure(&free), least, "{costs:?}\n{best}\n{free}");
        assert!(free.is_optimal(), "{}\n{free}", source(&[]));
        assert!(free.lower_bound.time <= free.totals().time(), "{free}");
    }
}

#[test]
fn one_axis() {
    compare("X: 4 ring", "X", PROGRAMS, CostModel::Book);
    compare("X: 4 ring", "X", PROGRAMS, CostModel::Bytes);
}

#[test]
fn two_axes() {
    // One value, in each of about forty layouts.
    let programs: Vec<_> = PROGRAMS.iter().filter(|(_, holes)| holes.len() == 1).copied().collect();
    compare("X: 2 ring, Y: 2 ring", "XY", &programs, CostModel::Book);
}

/// Bounds replace simulated prices until a plan uses them; the plan equals the one with all prices known.
#[test]
fn one_axis_simulated() {
    compare("X: 4 ring", "X", &PROGRAMS[..2], CostModel::Exact);
}
