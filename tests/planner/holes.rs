//! Inputs with layout holes: the planner's choice is the best of all written layouts.

use crate::common::{compile, sets};
use itertools::Itertools;
use shardc::compiler::{self, Options, Overlapping, Resharding};
use shardc::costs::CostModel;
use shardc::plan::{Plan, Stop};
use shardc::sim::values;
use shardc::units::Time;

fn planned(source: &str) -> Result<Plan, Vec<String>> {
    let codes = |found: shardc::diag::Diagnostics| found.iter().map(|found| found.code.clone()).collect::<Vec<_>>();
    let (program, diagnostics) = compiler::check(source);
    let program = program.ok_or_else(|| codes(diagnostics))?;
    let options = Options {
        costs: CostModel::Book,
        overlap: Overlapping::None,
        reshard: Resharding::Chains,
        ..Options::default()
    };
    let topology = compiler::machine(&program, &options).map_err(codes)?;
    compiler::plan(&program, &topology, &options).map_err(codes)
}

/// All spellings of layouts of an array with these dims on the axes X and Y.
fn spellings(dims: &[&str]) -> Vec<String> {
    let lists = ["", "_X", "_Y", "_XY", "_YX"];
    let once = |choice: &Vec<&&str>| {
        let axes: String = choice.iter().flat_map(|list| list.chars()).filter(|c| *c != '_').collect();
        axes.chars().all_unique()
    };
    let choices = dims.iter().map(|_| lists.iter()).multi_cartesian_product().filter(once);
    choices.map(|choice| dims.iter().zip(choice).map(|(dim, list)| format!("{dim}{list}")).join(", ")).collect()
}

const GROUND: &str = "mesh {X: 2 ring, Y: 4 ring} on tpu_v5e\ndims {I: 512, J: 1024, K: 2048}\n";

/// Programs with `?` for the layout of `A` or `B`.
const PROGRAMS: &[(&str, &[&[&str]])] = &[
    ("A: bf16[?]\nB: bf16[J_X, K]\nC[I, K] = A * B", &[&["I", "J"]]),
    ("A: bf16[?]\nB: bf16[J, K_Y]\nC[I_Y, K] = A * B", &[&["I", "J"]]),
    ("A: bf16[I_X, J]\nB: bf16[?]\nC[I, K_X] = relu(A) * B", &[&["J", "K"]]),
    ("A: bf16[?]\nC[I_X, J] = relu(A)\nD[I, J_X] = exp(A)\noutput C, D", &[&["I", "J"]]),
    ("A: bf16[?]\nB: bf16[J_XY, K]\nC[I_X, K] = A * B\nD[I, J_Y] = A + 1\noutput C, D", &[&["I", "J"]]),
    ("A: bf16[?]\nC[I_Y, J_X] = A\noutput A, C", &[&["I", "J"]]),
    ("A: bf16[?]\nB: bf16[?]\nC[I_X, K_Y] = A * B", &[&["I", "J"], &["J", "K"]]),
];

#[test]
fn the_best_layout_is_chosen() {
    for (program, holes) in PROGRAMS {
        let fill = |layouts: &[String]| {
            let layouts = layouts.iter().map(String::as_str).chain([""]);
            let filled: String = program.split('?').interleave(layouts).collect();
            format!("{GROUND}{filled}\n")
        };
        let open: Vec<String> = holes.iter().map(|dims| dims.iter().map(|dim| format!("{dim}_?")).join(", ")).collect();
        let chosen = planned(&fill(&open)).expect("a plan");
        assert_eq!(chosen.filled.len(), holes.len(), "{program}");
        let all = holes.iter().map(|dims| spellings(dims)).multi_cartesian_product();
        let written: Vec<Time> = all.map(|layouts| planned(&fill(&layouts)).expect("a plan").totals().time()).collect();
        assert!(written.len() >= 11, "{program}");
        assert_eq!(Some(chosen.totals().time()), written.into_iter().min(), "{program}\n{chosen}");
    }
}

/// Programs with holes on some dims; `@` marks where an open sum can be written.
const PARTLY: &[&str] = &[
    // Holes of inputs.
    "A: bf16[I_X, J_?]\nB: bf16[J_Y, K]\nC[I, K] = A * B",
    "A: bf16[I_?, J]\nB: bf16[J, K_X]\nC[I_Y, K] = relu(A) * B",
    "A: bf16[I_?, J_Y]\nC[I_X, J] = relu(A)\nD[I, J_X] = exp(A)\noutput C, D",
    // Holes of outputs.
    "A: bf16[I, J_X]\nB: bf16[J_X, K]\nC[I_?, K] = A * B",
    "A: bf16[I, J_X]\nB: bf16[J_X, K]\nC[I_Y, K_?] = A * B",
    "A: bf16[I_XY, J]\nC[J_?, I_Y] = A",
    // Holes of values that are used once, by users that prefer another layout.
    "A: bf16[I, J_X]\nB: bf16[J_X, K]\nC[I_?, K]@ = A * B\nD[I, K_X] = relu(C)",
    "A: bf16[I, J_X]\nB: bf16[J_X, K]\nC[I, K_?]@ = A * B\nD[I_Y, K] = 2 * C",
    "A: bf16[I_X, J]\nC[I_Y, J_?] = A\nD[I, J] = relu(C)",
    "A: bf16[I_X, J]\nC[J_Y, I_?] = exp(A)\nB: bf16[J_X, K]\nD[I, K] = C * B",
    // Holes of values that are used several times.
    "A: bf16[I, J_X]\nB: bf16[J_X, K]\nC[I_?, K]@ = A * B\nD[I, K_X] = relu(C)\nE[I_X, K] = exp(C)\noutput D, E",
    "A: bf16[I_X, J]\nC[I_?, J_Y] = relu(A)\nD[I_X, J] = exp(C)\noutput C, D",
    "A: bf16[I_X, J_Y]\nC[I, J_?] = relu(A)\nD[I_Y, J] = exp(C)\nE[I, J_XY] = C + 1\noutput D, E",
];

#[test]
fn the_best_filling_is_chosen() {
    let fillings = ["", "_X", "_Y", "_XY", "_YX"];
    let braces = ["", "{U_X}", "{U_Y}", "{U_XY}"];
    for program in PARTLY {
        let whole = |holes: &str| format!("{GROUND}{holes}\n");
        let chosen = planned(&whole(&program.replace('@', ""))).unwrap_or_else(|found| panic!("{program}: {found:?}"));
        let options = program.matches(['?', '@']).map(|mark| if mark == "?" { &fillings[..] } else { &braces[..] });
        let written = options.map(|options| options.iter()).multi_cartesian_product().filter_map(|choice| {
            let choice = choice.into_iter().copied().chain([""]);
            let filled: String = program.split(['?', '@']).interleave(choice).collect();
            planned(&whole(&filled.replace("__", "_").replace("_]", "]").replace("_,", ","))).ok()
        });
        let written: Vec<Time> = written.map(|plan| plan.totals().time()).collect();
        assert!(written.len() > 1, "{program}");
        assert_eq!(Some(chosen.totals().time()), written.into_iter().min(), "{program}\n{chosen}");
    }
}

/// Plans that are tried for their overlap keep what is written of a layout, too.
#[test]
fn what_is_written_of_a_layout_is_kept() {
    let one_by_one = ["A: f32[I_?, J_Y]\nB[J] = A * f32[I]", "A: f32[J_X, I_?, K_?]\nB[J, K] = A * f32[I]"];
    let mut chosen = 0;
    for (hardware, sizes) in [("furiosa", "I: 4, J: 4, K: 4"), ("tpu_v5e", "I: 512, J: 1024, K: 2048")] {
        for body in PARTLY.iter().chain(&one_by_one) {
            let body = body.replace('@', "");
            let source = format!("mesh {{X: 2, Y: 2}} on {hardware}\ndims {{{sizes}}}\n{body}\n");
            let program = compiler::check(&source).0.expect("a right program");
            let options = Options { as_written: true, ..Options::default() };
            let topology = compiler::machine(&program, &options).expect("it has rates");
            let plan = compiler::plan(&program, &topology, &options).expect("a plan");
            assert_eq!(plan.unfilled().to_string(), program.to_string(), "{source}");
            for filled in &plan.filled {
                assert!(filled.asked.allows(&plan.step(filled.input).layout.sharding), "{source}\n{plan}");
                chosen += 1;
            }
        }
    }
    assert!(chosen > 8, "{chosen}");
}

/// Writing the chosen layout gives the same plan.
#[test]
fn what_is_chosen_runs() {
    for body in [
        "A: i32[I_?, J_?]\nB: i32[J_X, K]\nC[I, K] = A * B",
        "A: i32[I_?, J_?]\nC[I_X, J] = A + 1\nD[J_X, I] = A\nS = sum_J(A)\noutput C, D, S",
        "C[I_X, K] = i32[I_?, J_?] * i32[J_?, K_?]",
        "A: i32[I_X, J]\nW: i32[J_?, K_?]\nV: i32[K_?, J_?]\nC[I_X, J] = relu(A * W) * V",
        "x: i32[I_X, J]\nrepeat 3 {\nW: i32[J_?, K_?]\nV: i32[K_?, J_?]\nx[I_X, J] = relu(x * W) * V\n}\noutput x",
        "A: i32[I_?, J_?]\nB: i32[I_X, J]\nC[I_X, J] = A[I_X, J] + B",
        "A: i32[I_?, J_?]\noutput A",
        "A: i32[I_X, J_?]\nB: i32[J_?, K_Y]\nC[I_?, K_X] = A * B\nD[I_X, K_?] = relu(C)\noutput C, D",
        "A: i32[I, J_X]\nB: i32[J_X, K]\nC[K_?, I_Y] = A * B\nD = C[K_?, I_Y] + 1\nE[I_?, K_Y] = C\noutput D, E",
        "x: i32[I_X, J_?]\nrepeat 3 {\nW: i32[J_?, K_Y]\nV: i32[K_Y, J]\nx[I_?, J_X] = relu(x * W) * V\n}\noutput x",
        "A: i32[I_X, J]\nAllGather_X(A) -> C[I, J_?]\nD[I_?, J_Y] = C\nE = D[I_?, J_Y] - 1",
    ] {
        let source = format!("mesh {{X: 2 ring, Y: 2 ring}}\ndims {{I: 4, J: 8, K: 12}}\n{body}\n");
        let compiled = compile(&source);
        let inputs = values::inputs(&compiled.schedule, 1).expect("small");
        let dense = values::dense(&compiled.schedule, &inputs).expect("small");
        let run = values::run(&compiled.schedule, &inputs).expect("small");
        assert!(values::compare(&compiled.schedule, &inputs, &dense, &run).expect("comparable").equal, "{source}");
    }
}

/// Without a limit, weights are replicated and nothing moves; with one, they are sharded until they fit.
#[test]
fn a_limit_on_memory_is_kept_if_it_can_be() {
    let source = |limit: &str| {
        format!(
            "mesh {{X: 4 ring}} on tpu_v5e\ndims {{B: 256, D: 1024, F: 4096}}\nx: bf16[B_X, D]\nW: bf16[D_?, F_?]\n\
             y[B_X, F] = x * W\n{limit}"
        )
    };
    let free = planned(&source("")).expect("a plan");
    assert_eq!(free.totals().received().0, 0);
    // The weights alone are 8 MiB. Sharded weights are gathered in pieces or moved in part, which takes time.
    let peak = free.totals().peak().0;
    let limited = planned(&source(&format!("limit memory {peak}B"))).expect("a plan");
    assert_eq!(limited.totals().time(), free.totals().time());
    let tight = planned(&source("limit memory 5000000B")).expect("a plan");
    assert!(tight.totals().peak().0 <= 5_000_000 && tight.totals().time() > free.totals().time(), "{tight}");
    assert_eq!(planned(&source("limit memory 5kB")).unwrap_err(), ["limit-exceeded"]);
}

/// With many axes, those of a dim are in mesh order; if there are still too many layouts, the program is refused.
#[test]
fn too_many_layouts_are_refused() {
    let source = |axes: &str, dims: &str| {
        format!("mesh {{{axes}}}\ndims {{I: 4096, J: 4096, K: 4096}}\nA: bf16[{dims}]\nC = relu(A)\nD = exp(A)\n")
    };
    assert!(planned(&source("X: 2, Y: 2, Z: 2", "I_?, J_?")).is_ok());
    let plan = planned(&source("P: 2, Q: 2, R: 2, S: 2, T: 2, V: 2", "I_?, J_?")).expect("a plan");
    assert!(plan.totals().received().0 == 0 && plan.stop == Stop::Memory, "{plan}");
    let found = planned(&source("P: 2, Q: 2, R: 2, S: 2, T: 2, V: 2, W: 2, X: 2", "I_?, J_?, K_?"));
    assert_eq!(found.unwrap_err(), ["input-hole"]);
}

/// If there are too many layouts under a limit to try, none of them is below the bound of the plan found, and the
/// plan is close to the best of them.
#[test]
fn layouts_found_by_rent_are_near_the_best() {
    let cases = [
        (400_000, "A: bf16[?]\nB: bf16[?]\nE: bf16[?]\nC[I_X, K] = A * B\nD[I_X, L] = relu(C) * E"),
        (900_000, "A: bf16[?]\nB: bf16[?]\nE: bf16[?]\nC = A * B\nD[I_XY, L] = C * E\nF[I_X, K] = exp(C)\noutput D, F"),
    ];
    let holes = [["I", "J"], ["J", "K"], ["K", "L"]];
    for (limit, program) in cases.into_iter().take(if sets::are_full() { 2 } else { 1 }) {
        let source = |layouts: &[String], limit: u64| {
            let layouts = layouts.iter().map(String::as_str).chain([""]);
            let body: String = program.split('?').interleave(layouts).collect();
            let dims = "dims {I: 64, J: 512, K: 512, L: 1024}";
            format!("mesh {{X: 2 ring, Y: 4 ring}} on tpu_v5e\n{dims}\n{body}\nlimit memory {limit}B\n")
        };
        let open = holes.map(|dims| dims.map(|dim| format!("{dim}_?")).join(", "));
        let found = planned(&source(&open, limit)).expect("a plan");
        assert!(found.totals().peak().0 <= limit, "{found}");
        let all = holes.iter().map(|dims| spellings(dims)).multi_cartesian_product();
        let written = all.filter_map(|layouts| Some(planned(&source(&layouts, limit)).ok()?.totals().time()));
        let least = written.min().expect("a plan");
        let time = found.totals().time();
        assert!(found.lower_bound.time <= least && least <= time, "{limit}: {least:?}\n{found}");
        assert!(time.ratio(least) < 1.05, "{limit}: {}\n{found}", time.ratio(least));
    }
}

/// Under a memory limit, both the layouts of inputs and a cheaper form of a product are found and reported.
#[test]
fn products_are_rewritten_beside_layouts_under_a_limit() {
    let source = |product: &str| {
        format!(
            "mesh {{X: 8, Y: 8}} on tpu_v5p\ndims {{B: 8192, D: 8192, R: 16, F: 8192}}\nx: bf16[B_?, D_?]\n\
             A: bf16[D_?, R_?]\nC: bf16[R_?, F_?]\nW: bf16[D_?, F_?]\ny[B_XY, F] = x * W + {product}\n\
             limit memory 100MB\n"
        )
    };
    let [written, better] = ["x * (A * C)", "(x * A) * C"].map(|product| planned(&source(product)).expect("a plan"));
    assert_eq!((written.rewritten.len(), better.rewritten.len()), (1, 0));
    assert!(written.filled.len() == 4 && written.totals().peak().0 <= 100_000_000, "{written}");
    assert!(written.totals().time() <= better.totals().time(), "{written}\n{better}");
}
