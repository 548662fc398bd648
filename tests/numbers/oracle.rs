//! Every small example on numbers: the schedule has the results of the dense computation.

use crate::common::{compile, short_name, small_examples};
use itertools::iproduct;
use shardc::compiler::{self, Options};
use shardc::method::Method;
use shardc::schedule::{from_json, to_json};
use shardc::sim::{proof, values};

fn examples() -> impl Iterator<Item = (String, String)> {
    small_examples().map(|path| (short_name(&path), std::fs::read_to_string(path).expect("an example")))
}

/// Without float functions, results are equal bit by bit for every dtype and several seeds; with one, they are within
/// the stated bound.
#[test]
fn every_example_equals_the_dense_result() {
    for (name, source) in examples() {
        let compiled = compile(&source);
        let rounds = ["gelu", "softmax", "exp", "tanh", "sin", "cos", "sigmoid", "silu", "log", "sqrt", "recip"]
            .iter()
            .any(|function| source.contains(function));
        for seed in 0..3 {
            let inputs = values::inputs(&compiled.schedule, seed).expect("small");
            let dense = values::dense(&compiled.schedule, &inputs).expect("small");
            let run = values::run(&compiled.schedule, &inputs).expect("small");
            let numerics = values::compare(&compiled.schedule, &inputs, &dense, &run).expect("comparable");
            assert!(numerics.elements > 0, "{name}");
            assert!(numerics.equal || rounds && numerics.within, "{name}, seed {seed}: {numerics:?}");
        }
    }
}

/// A product so large that its slices are computed when they are added, with every method.
#[test]
fn a_product_that_is_sliced_and_added_equals_the_dense_result_under_every_method() {
    let mut compiled = 0;
    let names = Method::ALL.map(Method::name);
    for (method, dtype, result) in iproduct!(names, ["f32", "bf16", "i32"], ["C[I, K_X]", "C[I, K]"]) {
        let source = format!(
            "mesh {{X: 4 ring}}\ndims {{I: 256, J: 2048, K: 1024}}\nA: {dtype}[I, J_X]\nB: {dtype}[J_X, K]\n\
             A * B -> {result} using {method}\n"
        );
        let Some(program) = compiler::check(&source).0 else { continue };
        let Ok(schedule) = compiler::compile(&program, &Options::default()).map(|compiled| compiled.schedule) else {
            continue;
        };
        compiled += 1;
        let inputs = values::inputs(&schedule, 3).expect("it fits");
        let dense = values::dense(&schedule, &inputs).expect("it fits");
        let run = values::run(&schedule, &inputs).expect("it fits");
        let numerics = values::compare(&schedule, &inputs, &dense, &run).expect("comparable");
        assert!(numerics.equal, "{method} {dtype} {result}: {numerics:?}");
    }
    assert!(compiled >= 30, "{compiled} of them");
}

/// The JSON form is read back as the same schedule, and proven again.
#[test]
fn every_example_survives_its_json_form() {
    for (name, source) in examples() {
        let compiled = compile(&source);
        let json = to_json(&compiled.schedule);
        let again = from_json(&json).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(to_json(&again), json, "{name}");
        proof::prove(&again).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
    }
}
