//! The operators and the groups of Graphcore's GCL, with the numbers of its documentation: a replica is a position along a
//! sharded dim `R`.

use shardc::compiler::{self, Options};
use shardc::dtype::DType;
use shardc::report::document;
use shardc::schedule::ArrayId;
use shardc::sim::values::{self, Tensor};

/// The result of a program on two replicas of four elements each.
fn computed(result: &str, value: &str, dtype: DType, replicas: [[i64; 4]; 2]) -> Vec<f64> {
    let source =
        format!("mesh {{X: 2}} on tpu_v5e\ndims {{R: 2, I: 4}}\nx: {dtype}[R_X, I]\n{result} = {value}\noutput out\n");
    let (program, found) = compiler::check(&source);
    let program = program.unwrap_or_else(|| panic!("{source}{found:?}"));
    let compiled = compiler::compile(&program, &Options::default()).unwrap_or_else(|found| panic!("{source}{found:?}"));
    let schedule = &compiled.schedule;
    let elements: Vec<i64> = replicas.concat();
    let x = schedule.arrays.iter().position(|array| array.name == "x").expect("an input");
    let tensor = Tensor::from_integers(dtype, &[2, 4], &elements).expect("as long as its extents");
    let given = [(ArrayId(u32::try_from(x).expect("few arrays")), tensor)].into_iter().collect();
    let inputs = values::inputs_beside(schedule, 1, given).expect("small");
    let run = values::run(schedule, &inputs).expect("small");
    run.gather(0).expect("whole").array.to_f64s()
}

#[test]
fn every_operator() {
    let (numbers, truths) = ([[1, 2, 3, 4], [5, 6, 7, 8]], [[1, 0, 1, 0], [0, 1, 1, 0]]);
    let other = [[1, 0, 1, 0], [1, 1, 1, 0]];
    for (value, dtype, replicas, expected) in [
        ("sum_R(x)", DType::F32, numbers, [6.0, 8.0, 10.0, 12.0]),
        ("sum_R(x)", DType::I32, numbers, [6.0, 8.0, 10.0, 12.0]),
        ("mean_R(x)", DType::F32, numbers, [3.0, 4.0, 5.0, 6.0]),
        ("prod_R(x)", DType::F32, numbers, [5.0, 12.0, 21.0, 32.0]),
        ("prod_R(x)", DType::U64, numbers, [5.0, 12.0, 21.0, 32.0]),
        ("min_R(x)", DType::I32, numbers, [1.0, 2.0, 3.0, 4.0]),
        ("max_R(x)", DType::F16, numbers, [5.0, 6.0, 7.0, 8.0]),
        ("sum_R(x ** 2)", DType::I64, numbers, [26.0, 40.0, 58.0, 80.0]),
        ("i32(all_R(x > 0))", DType::I32, truths, [0.0, 0.0, 1.0, 0.0]),
        ("i32(any_R(x > 0))", DType::I32, other, [1.0, 1.0, 1.0, 0.0]),
    ] {
        // An AllReduce, and a ReduceScatter.
        for result in ["out[I]", "out[I_X]"] {
            assert_eq!(computed(result, value, dtype, replicas), expected, "{result} = {value} of {dtype}");
        }
    }
}

/// Of 16 replicas, groups of 4 along the first axis are orthogonal, those along the last one consecutive.
#[test]
fn replica_groups() {
    let source = "mesh {X: 4, Y: 4} on tpu_v5e\ndims {I: 16}\nA: f32[I]{U_X}\nB: f32[I]{U_Y}\nC: f32[I]{U_XY}\n\
                  a = AllReduce_X(A)\nb = AllReduce_Y(B)\nc = AllReduce_XY(C)\n";
    let program = compiler::check(source).0.expect("a program");
    let compiled = compiler::compile(&program, &Options::default()).expect("a plan");
    let found = document::groups(&compiled.plan);
    let of = |name: &str| &found.iter().find(|one| one.collective == name).expect("a collective").groups;
    let numbers = |count: usize, group: fn(usize, usize) -> usize| -> Vec<Vec<usize>> {
        (0..16 / count).map(|number| (0..count).map(|place| group(number, place)).collect()).collect()
    };
    assert_eq!(*of("AllReduce_X"), numbers(4, |number, place| number + 4 * place));
    assert_eq!(*of("AllReduce_Y"), numbers(4, |number, place| 4 * number + place));
    assert_eq!(*of("AllReduce_XY"), numbers(16, |_, place| place));
}
