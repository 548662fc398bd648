//! Copies of a sum of floats are equal to the last bit, whichever way it went.
#![allow(missing_docs)]

mod common;

use common::compile;
use common::single::{axis, one_axis};
use shardc::collective::CollectiveKind;
use shardc::compiler::Compiled;
use shardc::dtype::DType;
use shardc::mesh::Wiring;
use shardc::schedule::{Schedule, methods};
use shardc::sim::values;

/// Whether all devices hold the same bits of the first output.
fn copies_are_equal(schedule: &Schedule) -> bool {
    let inputs = values::inputs(schedule, 3).expect("small");
    let run = values::run(schedule, &inputs).expect("small");
    let bits = |block: &Option<values::Tensor>| -> Vec<u64> {
        block.as_ref().expect("on every device").to_f64s().into_iter().map(f64::to_bits).collect()
    };
    let mut blocks = run.blocks(0).iter().map(bits);
    let first = blocks.next().expect("a device");
    assert!(first.len() > 1);
    blocks.all(|block| block == first)
}

#[test]
fn by_every_method_on_two_to_nine_devices() {
    let mut tried = 0;
    for n in 2..=9u32 {
        for wiring in [Wiring::Ring, Wiring::Line, Wiring::Switch] {
            for method in methods::candidates(CollectiveKind::AllReduce, wiring, u64::from(n)) {
                for dtype in [DType::F32, DType::Bf16, DType::F64] {
                    // The second dims do not divide: then whole values are added.
                    for columns in [6 * u64::from(n), 67] {
                        let mesh = axis(wiring, n);
                        let schedule = one_axis(CollectiveKind::AllReduce, method, mesh, [1, columns], dtype, 1);
                        let name = method.name();
                        assert!(
                            copies_are_equal(&schedule),
                            "{name} on a {wiring} of {n}, {columns} columns of {dtype}"
                        );
                        tried += 1;
                    }
                }
            }
        }
    }
    assert!(tried > 500, "{tried}");
}

#[test]
fn by_the_way_that_is_chosen_over_several_axes() {
    for mesh in ["X: 4 ring, Y: 3 ring", "X: 3 line, Y: 4 ring", "X: 3 line, Y: 3 line"] {
        for columns in [1, 7, 4096, 1 << 16] {
            let source = format!(
                "mesh {{{mesh}}} on tpu_v5p\ndims {{I: 12, J: {columns}}}\nA: f32[I, J]{{U_XY}}\nAllReduce_XY(A[I, J]{{U_XY}}) -> B[I, J]\n"
            );
            let Compiled { schedule, .. } = compile(&source);
            assert!(copies_are_equal(&schedule), "{source}");
        }
    }
}
