//! Plans with layouts and moves that the text does not state: no text that states them is faster.

use itertools::Itertools;
use shardc::compiler::{self, Options, Overlapping, Resharding};
use shardc::units::Time;

/// Sequential time of the steps of a program; `None` if it is wrong or has no plan.
fn time(source: &str) -> Option<Time> {
    let options = Options { overlap: Overlapping::None, reshard: Resharding::Chains, ..Options::default() };
    let program = compiler::check(source).0?;
    let topology = compiler::machine(&program, &options).ok()?;
    let plan = compiler::plan(&program, &topology, &options).ok()?;
    Some(plan.totals().time())
}

/// The minimum time of some programs.
fn least(sources: impl IntoIterator<Item = String>) -> Time {
    sources.into_iter().filter_map(|source| time(&source)).min().expect("a right program")
}

/// For an addition to an open sum, either the other term is opened or the sum is closed before, whichever is cheaper.
#[test]
fn what_is_added_to_a_sum_may_be_opened() {
    let mut opened = 0;
    for (mesh, axes) in [("X: 8 ring", ["X"].as_slice()), ("X: 4, Y: 2", &["X", "Y", "XY"])] {
        for (rows, inner, out) in [(4096, 4096, 512), (4096, 1024, 4096), (64, 4096, 4096), (16, 16, 16)] {
            for (bias, layout) in ["B, F", "B_X, F", "F"].into_iter().cartesian_product(["D_X", "D"]) {
                let source = |bias_text: &str, sum: &str| {
                    format!(
                        "mesh {{{mesh}}} on tpu_v5e\ndims {{B: {rows}, D: 4096, F: {inner}, O: {out}}}\n\
                         x: bf16[B, {layout}]\nW: bf16[{layout}, F]\nV: bf16[F, O]\nb: bf16[{bias}]\n\
                         y[B, O] = (x * W {sum} {bias_text}) * V\noutput y\n"
                    )
                };
                for sum in ["+", "-"] {
                    let free = time(&source("b", sum)).expect("a plan");
                    let written = axes.iter().filter_map(|axes| time(&source(&format!("open_{axes}(b)"), sum))).min();
                    assert!(written.is_none_or(|written| free <= written), "{}", source("b", sum));
                    let closed = format!("T = x * W\nT -> T[B, F]\ny[B, O] = (T {sum} b) * V");
                    let closed = source("b", sum).replace(&format!("y[B, O] = (x * W {sum} b) * V"), &closed);
                    let closed = time(&closed).expect("a plan");
                    // Fewer kernels may save a nanosecond.
                    assert!(free.ratio(closed) < 1.001, "{}", source("b", sum));
                    opened += usize::from(written == Some(free) && free < closed);
                }
            }
        }
    }
    assert!(opened > 4, "{opened}");
}

/// Carried values use the fastest layout, whatever the layout of the initial value.
#[test]
fn what_is_handed_on_has_the_best_layout() {
    let layouts = ["[B, D]", "[B_X, D]", "[B, D_X]", "[B_Y, D]", "[B, D_Y]", "[B_X, D_Y]", "[B_Y, D_X]", "[B_XY, D]"];
    let mut moved = 0;
    for (given, rows, weights) in itertools::iproduct!(
        ["[B, D]", "[B, D_X]", "[B_X, D_Y]"],
        [8, 65536],
        [("D, F", "F, D"), ("D, F_X", "F_X, D"), ("D_Y, F", "F, D_Y")]
    ) {
        let source = |before: &str, after: &str| {
            format!(
                "mesh {{X: 4, Y: 2}} on tpu_v5e\ndims {{B: {rows}, D: 1024, F: 4096}}\nx: bf16{given}\n{before}\
                 repeat 8 {{\nW: bf16[{}]\nV: bf16[{}]\nx{after} = relu(x * W) * V\n}}\noutput x\n",
                weights.0, weights.1
            )
        };
        let free = time(&source("", "")).expect("a plan");
        let written = layouts.iter().map(|layout| source(&format!("x{given} -> x{layout}\n"), layout));
        assert!(free <= least(written), "{}", source("", ""));
        moved += usize::from(time(&source("", given)).is_none_or(|kept| free < kept));
    }
    assert!(moved > 4, "{moved}");
}

/// A sum accumulated by a repeat is reduced over devices once if that is cheaper: an accumulator may start as an open
/// sum.
#[test]
fn accumulators_are_summed_over_devices_when_it_is_cheapest() {
    let mut once = 0;
    for (rows, inner, out, count) in
        itertools::iproduct!([64, 65536], [256, 2048], ["[D, F]", "[D_X, F]", "[D, F]_?"], [1, 2, 8])
    {
        let source = |begin: &str, step: &str, end: &str| {
            format!(
                "mesh {{X: 4, Y: 2}} on tpu_v5e\ndims {{B: {rows}, D: 512, F: {inner}}}\nZ: f32[D, F]\n{begin}\n\
                 repeat {count} {{\nx: f32[B_X, D]\ny: f32[B_X, F]\nd = x * y\n{step}\n}}\n{end}\nG{out} = -g\noutput G\n"
            )
        };
        let free = source("g = Z", "g = g + d", "");
        let least_free = time(&free).expect("a plan");
        let opened = ["X", "Y", "XY"].map(|axes| source(&format!("g = open_{axes}(Z)"), "g = g + d", ""));
        let layouts = ["[D, F]", "[D_X, F]", "[D, F_X]", "[D_X, F_Y]", "[D_Y, F]", "[D, F_XY]"];
        let closed = layouts.map(|layout| source("g = Z", &format!("g{layout} = g + d"), ""));
        let [opened, closed] = [least(opened), least(closed)];
        assert!(least_free <= opened && least_free <= closed, "{free}");
        once += usize::from(least_free == opened && opened < closed);
    }
    assert!(once > 4, "{once}");
}

/// A transposition is done where blocks are smallest: before the moves, after them, or in between.
#[test]
fn transpositions_are_done_where_they_are_cheapest() {
    let layouts = ["", "I", "K", "N"];
    let mut between = 0;
    for (from, to, on) in itertools::iproduct!(layouts, layouts, ["X", "Y"]) {
        let brackets = |dims: [&str; 3], cut: &str, axis: &str| {
            let dims = dims.map(|dim| if dim == cut { format!("{dim}_{axis}") } else { dim.to_owned() });
            format!("[{}]", dims.join(", "))
        };
        let ground = "mesh {X: 4 ring, Y: 2} on tpu_v5e\ndims {I: 512, K: 64, N: 1024}\n";
        let (given, asked) = (brackets(["I", "K", "N"], from, "X"), brackets(["N", "K", "I"], to, on));
        let source = |moves: &str| format!("{ground}A: f32{given}\n{moves}C{asked} = A\noutput C\n");
        let free = time(&source("")).expect("a plan");
        let others = itertools::iproduct!(layouts, ["X", "Y"]);
        let written = others.map(|(dim, axis)| {
            let way = brackets(["I", "K", "N"], dim, axis);
            source(&format!("A{given} -> A{way}\n"))
        });
        let least = least(written);
        assert!(free <= least, "{}", source(""));
        between += usize::from(free == least);
    }
    assert!(between > 20, "{between}");
}
