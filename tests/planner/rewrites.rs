//! Rewritten programs compute the same on integers, and no equivalent program that a person would write is faster.

use itertools::Itertools;
use shardc::compiler::{self, Compiled, Options, Overlapping, Resharding};
use shardc::report::{Findings, text};
use shardc::schedule::{ArrayId, Schedule};
use shardc::sim::values::{self, Inputs, Tensor};
use shardc::units::Time;
use std::collections::BTreeMap;

fn compiled(source: &str, as_written: bool) -> Compiled {
    let program = compiler::check(source).0.unwrap_or_else(|| panic!("{source}"));
    let options = Options { as_written, ..Options::default() };
    compiler::compile(&program, &options).unwrap_or_else(|found| panic!("{found:?}\n{source}"))
}

/// Sequential time of all steps.
fn time(source: &str, as_written: bool) -> Time {
    let options = Options { as_written, overlap: Overlapping::None, reshard: Resharding::Chains, ..Options::default() };
    let program = compiler::check(source).0.unwrap_or_else(|| panic!("{source}"));
    let topology = compiler::machine(&program, &options).expect("a machine");
    compiler::plan(&program, &topology, &options).expect("a plan").totals().time()
}

fn given(schedule: &Schedule) -> impl Iterator<Item = (ArrayId, &str)> {
    let arrays = (0..).map(ArrayId).zip(&schedule.arrays);
    arrays.filter(|(_, array)| array.definition.is_input()).map(|(id, array)| (id, array.name.as_str()))
}

/// The outputs in order, computed by the simulated devices.
///
/// - `data`: the inputs by name.
fn outputs(schedule: &Schedule, data: &BTreeMap<String, Tensor>) -> Vec<String> {
    let inputs: Inputs = given(schedule).map(|(id, name)| (id, data[name].clone())).collect();
    let run = values::run(schedule, &inputs).expect("it runs");
    let dense = values::dense(schedule, &inputs).expect("small arrays");
    assert!(values::compare(schedule, &inputs, &dense, &run).expect("comparable").equal);
    let array = |id: &shardc::schedule::Output| format!("{:?}", dense[id.array.index()]);
    schedule.outputs.iter().map(array).collect()
}

/// Asserts that the rewritten program computes the same. Returns the rewrites.
fn computes_the_same(source: &str) -> Vec<String> {
    let (written, best) = (compiled(source, true), compiled(source, false));
    let made = values::inputs(&written.schedule, 3).expect("small inputs");
    let data: BTreeMap<String, Tensor> =
        given(&written.schedule).map(|(id, name)| (name.to_owned(), made[&id].clone())).collect();
    assert_eq!(outputs(&written.schedule, &data), outputs(&best.schedule, &data), "{source}");
    assert!(written.plan.rewritten.is_empty());
    best.plan.rewritten.iter().map(|rewriting| rewriting.summary.clone()).collect()
}

/// All ways to bracket four factors, with dims of three sizes: each computes the same, and by default all are equally
/// fast.
#[test]
fn the_order_of_products_is_the_cheapest() {
    let orders =
        ["((A * B) * C) * D", "(A * (B * C)) * D", "A * ((B * C) * D)", "A * (B * (C * D))", "(A * B) * (C * D)"];
    let mut reordered = 0;
    for sizes in [[2, 8, 16, 4, 8], [16, 2, 16, 2, 16], [4, 16, 2, 16, 4]] {
        for (layouts, scale) in [(["I_X, J", "J, K", "K, L", "L, M"], 1), (["I, J", "J_X, K", "K, L_X", "L, M"], 256)] {
            let source = |order: &str| {
                let [i, j, k, l, m] = sizes.map(|size| size * scale);
                let inputs = ["A", "B", "C", "D"].iter().zip(layouts);
                let inputs = inputs.map(|(name, layout)| format!("{name}: i64[{layout}]")).join("\n");
                format!(
                    "mesh {{X: 2 ring}} on tpu_v5e\ndims {{I: {i}, J: {j}, K: {k}, L: {l}, M: {m}}}\n{inputs}\n\
                     Y[I_X, M] = {order}\noutput Y\n"
                )
            };
            if scale == 1 {
                reordered += orders.iter().map(|order| computes_the_same(&source(order)).len()).sum::<usize>();
            }
            let least = orders.iter().map(|order| time(&source(order), true)).min().expect("five");
            for order in orders {
                let best = time(&source(order), false);
                // A rewrite must save at least one percent.
                assert!(best.ratio(least) < 1.011, "{best:?} {least:?}\n{}", source(order));
            }
        }
    }
    assert!(reordered > 8, "{reordered}");
}

const GROUND: &str = "mesh {X: 2, Y: 2} on tpu_v5e\ndims {B: 8, D: 16, F: 32, R: 2, G: 16}\n";

/// A program, the equivalent that a person would write at sizes where it is faster, and a word of the plan's report.
const PAIRS: [(&str, &str, &str); 8] = [
    (
        "x: i64[B_X, D]\nA: i64[D, R]\nC: i64[R, F]\nW: i64[D, F]\ny[B_X, F] = x * W + x * (A * C)\noutput y",
        "x: i64[B_X, D]\nA: i64[D, R]\nC: i64[R, F]\nW: i64[D, F]\ny[B_X, F] = x * W + (x * A) * C\noutput y",
        "computed as",
    ),
    (
        "x: i64[B_X, D]\nW: i64[D, F_Y]\ny = relu(x * W) .* (x * W)\noutput y",
        "x: i64[B_X, D]\nW: i64[D, F_Y]\nh = x * W\ny = relu(h) .* h\noutput y",
        "common subexpression",
    ),
    (
        "x: i64[B_X, D]\nW: i64[D, F]\nV: i64[F, G]\nrepeat 3 {\nx = rename_{G->D}(relu(x * (W * V)))\n}\noutput x",
        "x: i64[B_X, D]\nW: i64[D, F]\nV: i64[F, G]\nU = W * V\nrepeat 3 {\nx = rename_{G->D}(relu(x * U))\n}\noutput x",
        "before the repeat",
    ),
    (
        "x: i64[B, D]\nW: i64[D, F]\ny = x * W\na[B_X, F] = relu(y)\nc[B, F_X] = y .* y\noutput a, c",
        "x: i64[B, D]\nW: i64[D, F]\na[B_X, F] = relu(x * W)\nc[B, F_X] = (x * W) .* (x * W)\noutput a, c",
        "2 times",
    ),
    (
        "x: i64[B, D]\nW: i64[D, F]\ny = x * W\na[B_X, F] = relu(y)\nc[B, F_X] = y .* y\ne[B_Y, F_X] = y\noutput a, c, e",
        "x: i64[B, D]\nW: i64[D, F]\na[B_X, F] = relu(x * W)\nc[B, F_X] = (x * W) .* (x * W)\ne[B_Y, F_X] = x * W\noutput a, c, e",
        "times, once per user",
    ),
    // A batch dim stays in all products.
    (
        "q: i64[B_X, R, D]\nA: i64[B, D, F]\nC: i64[B, F, G]\ny[B_X, R, G] = q *_D (A *_F C)\noutput y",
        "q: i64[B_X, R, D]\nA: i64[B, D, F]\nC: i64[B, F, G]\ny[B_X, R, G] = (q *_D A) *_F C\noutput y",
        "computed as",
    ),
    // In a body, of carried values and others.
    (
        "x: i64[B_X, D]\nrepeat 2 {\nA: i64[D, R]\nC: i64[R, G]\nx = rename_{G->D}(x * (A * C))\n}\noutput x",
        "x: i64[B_X, D]\nrepeat 2 {\nA: i64[D, R]\nC: i64[R, G]\nx = rename_{G->D}((x * A) * C)\n}\noutput x",
        "computed as",
    ),
    // A shared value is not part of a longer product.
    (
        "x: i64[B_X, D]\nA: i64[D, R]\nC: i64[R, F]\nT = A * C\ny[B_X, F] = x * T\nz[D_X, F] = T\noutput y, z",
        "x: i64[B_X, D]\nA: i64[D, R]\nC: i64[R, F]\nT = A * C\ny[B_X, F] = x * T\nz[D_X, F] = A * C\noutput y, z",
        "",
    ),
];

#[test]
fn programs_compute_what_is_written() {
    for (written, instead, _) in PAIRS {
        computes_the_same(&format!("{GROUND}{written}\n"));
        computes_the_same(&format!("{GROUND}{instead}\n"));
    }
}

#[test]
fn no_text_that_a_person_would_write_takes_less() {
    for (written, instead, word) in PAIRS {
        let mut is_told = word.is_empty();
        for [b, d, f, r, g] in [[512, 1024, 2048, 128, 1024], [4096, 8192, 16384, 1024, 8192], [8192, 64, 8192, 16, 64]]
        {
            let ground = format!("mesh {{X: 2, Y: 2}} on tpu_v5e\ndims {{B: {b}, D: {d}, F: {f}, R: {r}, G: {g}}}\n");
            let source = |body: &str| format!("{ground}{body}\n").replace("i64", "bf16");
            let (found, instead) = (time(&source(written), false), time(&source(instead), true));
            assert!(found.ratio(instead) < 1.011, "{found:?} {instead:?}\n{}", source(written));
            let rewritten = compiled(&source(written), false).plan.rewritten;
            is_told |= rewritten.iter().any(|rewriting| rewriting.summary.contains(word));
        }
        assert!(is_told, "{written}");
    }
}

/// Statements that prescribe their own steps are not rewritten.
#[test]
fn what_is_said_is_done() {
    for body in ["T[D, F_Y] = A * C\ny[B_X, F] = x * T", "T = A * C\noutput T\ny[B_X, F] = x * T"] {
        let source = format!(
            "mesh {{X: 2, Y: 2}} on tpu_v5e\ndims {{B: 8192, D: 8192, F: 8192, R: 16}}\nx: bf16[B_X, D]\n\
             A: bf16[D, R]\nC: bf16[R, F]\n{body}\noutput y\n"
        );
        assert!(compiled(&source, false).plan.rewritten.is_empty(), "{source}");
    }
}

/// The example in `docs/planning.md` agrees with the report.
#[test]
fn the_example_of_the_docs_is_real() {
    let document = include_str!("../../docs/planning.md");
    let (_, section) = document.split_once("## Rewriting products\n").expect("the heading");
    let blocks: Vec<&str> = section.split("```").collect();
    let (source, line) = (blocks[1].trim_start_matches("shard\n"), blocks[3].trim_start_matches("text\n"));
    let compiled = compiled(source, false);
    let report = text::plan(&Findings::new(&compiled.plan, &compiled.topology), None);
    assert!(report.contains(line), "{line}\n{report}");
}
