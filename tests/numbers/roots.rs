//! Arrays on one device of a group: every root, through each kind of operation.

use itertools::iproduct;
use shardc::compiler::{self, Compiled, Options};
use shardc::dtype::DType;
use shardc::schedule::ArrayId;
use shardc::sim::{proof, values};

/// Compiles, proves with and without symmetry, and compares the numbers.
fn compiled(source: &str) -> Compiled {
    let (program, found) = compiler::check(source);
    let program = program.unwrap_or_else(|| panic!("{source}\n{found:?}"));
    let compiled = compiler::compile(&program, &Options::default());
    let compiled = compiled.unwrap_or_else(|error| panic!("{source}\n{error:?}"));
    proof::prove_uncollapsed(&compiled.schedule).unwrap_or_else(|flaw| panic!("{source}\n{flaw}"));
    let inputs = values::inputs(&compiled.schedule, 1).expect("small");
    let run = values::run(&compiled.schedule, &inputs).expect("small");
    let dense = values::dense(&compiled.schedule, &inputs).expect("small");
    let numerics = values::compare(&compiled.schedule, &inputs, &dense, &run).expect("small");
    assert!(numerics.equal, "{source}\n{}", compiled.plan);
    compiled
}

/// On a torus all devices are alike: a program with another root has the same plan in the same time.
#[test]
fn every_root_of_a_torus_has_the_same_plan() {
    let statements = [
        "B[I, J] = A",
        "B[I_X, J] = A",
        "B[J, I_Y] = A",
        "B[I, J]{ROOT_Y=?y} = Broadcast_X(A)",
        "B[I, J]{ROOT_X=?x} = Broadcast_Y(A)",
        "B[I, J]{ROOT_XY=?} = relu(A)",
        "B[I, J]{ROOT_XY=?} = A + C",
        "B[I, J] = A .* C",
        "B[I, K]{ROOT_XY=?} = A * W",
        "B[I, K] = A * W",
        "B[I_X, K] = A * W",
        "B[I]{ROOT_XY=?} = max_J(A)",
        "B[I] = sum_J(A + D)",
        "B[I, J]{ROOT_XY=?} = A - D",
        "B[I, J] = E + F",
        "B[I, J]{ROOT_XY=?} = E .* F",
    ];
    for statement in statements {
        let plan = |root: u64| {
            let (x, y) = (root / 3, root % 3);
            let fill = |text: &str| {
                let text = text.replace("?x", &x.to_string()).replace("?y", &y.to_string());
                text.replace('?', &root.to_string())
            };
            let source = format!(
                "mesh {{X: 3 ring, Y: 3 ring}} on tpu_v5p\ndims {{I: 18, J: 9, K: 6}}\nA: f32[I, J]{{ROOT_XY=?}}\n\
                 C: f32[I, J]\nW: f32[J, K]\nD: f32[I, J]{{ROOT_XY=?}}\nE: f32[I, J]{{ROOT_X=?x}}\n\
                 F: f32[I, J]{{ROOT_Y=?y}}\n{statement}\noutput B\n"
            );
            let plan = compiled(&fill(&source)).plan;
            let layouts: Vec<_> = plan.ids().map(|id| plan.step(id).layout.sharding.dims.clone()).collect();
            (plan.time(), layouts)
        };
        let first = plan(0);
        (1..9).for_each(|root| assert_eq!(plan(root), first, "{statement} from {root}"));
    }
}

/// On lines the links differ, and on two operands on different devices one is sent first.
#[test]
fn roots_on_lines_and_different_roots() {
    for (root, other) in iproduct!(0..4, 0..4) {
        let source = |result: &str| {
            format!(
                "mesh {{X: 4 line, Y: 2}} on tpu_v5e\ndims {{I: 16, J: 8}}\nA: i32[I, J_Y]{{ROOT_X={root}}}\n\
                 C: i32[I, J_Y]{{ROOT_X={other}}}\nD[I, J_Y] = C\nB{result} = A + D\noutput B\n"
            )
        };
        compiled(&source("[I, J]"));
        compiled(&source(&format!("[I, J_Y]{{ROOT_X={root}}}")));
    }
}

/// Given parts of an array on one device: only its own counts.
#[test]
fn given_parts_of_one_device() {
    for root in 0..3 {
        let source =
            format!("mesh {{X: 3}} on tpu_v5e\ndims {{I: 6}}\nA: i32[I]{{ROOT_X={root}}}\nB[I] = A\noutput B\n");
        let compiled = compiled(&source);
        let mut inputs = values::inputs(&compiled.schedule, 1).expect("small");
        let parts: Vec<f64> = (0..18).map(f64::from).collect();
        let given = values::Tensor::from_floats(DType::I32, &[3, 6], &parts).expect("integers");
        inputs.insert(ArrayId(0), given);
        let run = values::run(&compiled.schedule, &inputs).expect("small");
        let own: Vec<f64> = (0..6).map(|place| f64::from(6 * root + place)).collect();
        assert_eq!(run.gather(0).expect("an output").array.to_f64s(), own);
    }
}
