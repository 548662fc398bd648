//! Replicas of a float sum are bitwise equal on request, with every method.
#![allow(missing_docs)]

use crate::common::compile_lowered;
use crate::common::single::{axis, schedule};
use shardc::collective::CollectiveKind;
use shardc::dtype::DType;
use shardc::mesh::{AxisId, Wiring};
use shardc::operator::Operator;
use shardc::recipe::Lowering;
use shardc::schedule::{Schedule, methods};
use shardc::sim::proof::prove;
use shardc::sim::values;

/// Whether all devices hold the same bits of the first output.
fn copies_are_equal(schedule: &Schedule) -> bool {
    let mut inputs = values::inputs(schedule, 3).expect("small");
    // The default data are so small that sums are exact in every order; these are not.
    let mut random = fastrand::Rng::with_seed(5);
    for tensor in inputs.values_mut() {
        let mut draw = || (random.f64() - 0.5) * 2f64.powi(random.i32(-6..6));
        let elements: Vec<f64> = (0..tensor.elements()).map(|_| draw()).collect();
        *tensor = values::Tensor::from_floats(tensor.dtype(), &tensor.extents(), &elements).expect("floats");
    }
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
    let (mut tried, mut unequal) = (0, 0);
    for n in 2..=9u32 {
        for wiring in Wiring::ALL {
            for method in methods::candidates(CollectiveKind::AllReduce, wiring, u64::from(n)) {
                for dtype in [DType::F32, DType::Bf16, DType::F64] {
                    // 67 columns do not divide, so whole values are added.
                    for columns in [6 * u64::from(n), 67] {
                        let sum = |ordered: bool| {
                            let kind = CollectiveKind::AllReduce;
                            schedule(axis(wiring, n), kind, [1, columns], dtype, |builder, given| {
                                let builder = &mut builder.with_equal_copies(ordered);
                                methods::all_reduce(builder, method, AxisId::new(0), given, Operator::Sum)
                            })
                        };
                        let name = format!("{} on a {wiring} of {n}, {columns} columns of {dtype}", method.name());
                        let ordered = sum(true);
                        prove(&ordered).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
                        assert!(copies_are_equal(&ordered), "{name}");
                        unequal += usize::from(!copies_are_equal(&sum(false)));
                        tried += 1;
                    }
                }
            }
        }
    }
    assert!(tried > 500 && unequal > 100, "{tried} tried, {unequal} differ without `--bitwise`");
}

#[test]
fn by_the_way_that_is_chosen_over_several_axes() {
    for mesh in ["X: 4 ring, Y: 3 ring", "X: 3 line, Y: 4 ring", "X: 3 line, Y: 3 line"] {
        for columns in [1, 7, 4096, 1 << 16] {
            let source = format!(
                "mesh {{{mesh}}} on tpu_v5p\ndims {{I: 12, J: {columns}}}\nA: f32[I, J]{{U_XY}}\nAllReduce_XY(A[I, J]{{U_XY}}) -> B[I, J]\n"
            );
            let compiled = compile_lowered(&source, Lowering { bitwise: true, ..Lowering::default() });
            assert!(copies_are_equal(&compiled.schedule), "{source}");
        }
    }
}
