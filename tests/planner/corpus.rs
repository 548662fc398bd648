//! Seventy sharded programs, at sizes that can be computed and at sizes of real models.

use crate::common::{compile, compile_with, programs, short_name};
use shardc::compiler::{self, Compiled};
use shardc::costs::CostModel;
use shardc::sim::values;

#[test]
fn every_program_checks_without_a_finding() {
    for path in programs("tests/corpus") {
        let source = std::fs::read_to_string(&path).expect("a program");
        let (program, diagnostics) = compiler::check(&source);
        // Some meshes are not slices of the machine, which XLA does not know.
        let found = diagnostics.iter().filter(|found| found.code != "no-such-slice").count();
        assert!(program.is_some() && found == 0, "{}: {diagnostics:?}", short_name(&path));
    }
}

/// Every plan is proven and has the results of the dense computation.
#[test]
fn every_small_program_equals_the_dense_result() {
    for path in programs("tests/corpus/small") {
        let source = std::fs::read_to_string(&path).expect("a program");
        // By bytes, some plans split axes.
        let models = [CostModel::Exact, CostModel::Book, CostModel::Bytes];
        let compiled = models.map(|costs| compile_with(&source, costs));
        // The first line names the cost model.
        let steps = |compiled: &Compiled| compiled.plan.to_string().lines().skip(1).collect::<String>();
        for (place, one) in compiled.iter().enumerate() {
            if compiled[..place].iter().all(|other| steps(other) != steps(one)) {
                equals_the_dense_result(one, &short_name(&path));
            }
        }
    }
}

fn equals_the_dense_result(compiled: &Compiled, name: &str) {
    let inputs = values::inputs(&compiled.schedule, 1).expect("small");
    let dense = values::dense(&compiled.schedule, &inputs).expect("small");
    let run = values::run(&compiled.schedule, &inputs).expect("small");
    let numerics = values::compare(&compiled.schedule, &inputs, &dense, &run).expect("comparable");
    assert!(numerics.within, "{name}: {numerics:?}\n{}", compiled.plan);
}

/// Planning, lowering and proof do not depend on sizes.
#[test]
fn every_large_program_is_planned_and_proven() {
    for path in programs("tests/corpus/scale") {
        let compiled = compile(&std::fs::read_to_string(&path).expect("a program"));
        assert!(compiled.proof.operations > 0, "{}", short_name(&path));
    }
}
