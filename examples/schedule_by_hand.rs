//! Builds a schedule by hand, proves it, times it, and runs it on numbers.
//!
//! Each of four devices in a ring holds partial sums of an array. In three steps, every device forwards the sums that
//! it received last, and adds those that it receives. At the end all devices hold the complete sum.
//!
//! `cargo run --example schedule_by_hand`
#![expect(clippy::print_stdout, reason = "examples print what they find")]

use shardc::dtype::DType;
use shardc::layout::Sharding;
use shardc::mesh::{Axes, Axis, AxisId, AxisSet, Mesh, Wiring};
use shardc::operator::Operator;
use shardc::schedule::{Array, ArrayId, Builder, Dense, Output, Route, Schedule, Sources};
use shardc::sim::{clock, proof, values};
use shardc::span::Span;
use shardc::topology::{Hardware, Topology};
use std::error::Error;

const DEVICES: u32 = 4;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let schedule = all_reduce(DEVICES - 1);

    // The proof tracks the contributions to each element, so it holds for any data.
    let proof = proof::prove(&schedule)?;
    println!("proven on {} devices, {} operations", proof.devices, proof.operations);

    // With one step less, every device lacks the contribution of one other.
    let flaw = proof::prove(&all_reduce(DEVICES - 2)).expect_err("a contribution is missing");
    println!("one step less: {flaw}");

    let hardware = Hardware::named("tpu_v5e").ok_or("tpu_v5e is shipped")?;
    let topology = Topology::new(schedule.mesh.clone(), hardware)?;
    let timing = clock::run(&schedule, &topology)?;
    println!("it takes {}", topology.scale.show(timing.makespan));

    // Runs the same operations on numbers, and compares with the computation without a mesh.
    let inputs = values::inputs(&schedule, 42)?;
    let run = values::run(&schedule, &inputs)?;
    let dense = values::dense(&schedule, &inputs)?;
    let numerics = values::compare(&schedule, &inputs, &dense, &run)?;
    assert!(numerics.equal, "{numerics:?}");
    println!("equal to the dense result in all {} elements", numerics.elements);
    Ok(())
}

/// An AllReduce of one array in this many steps around the ring.
fn all_reduce(steps: u32) -> Schedule {
    let x = AxisId::new(0);
    let ring = Axis { name: "X".to_owned(), size: DEVICES, wiring: Some(Wiring::Ring), over: None };
    let mut schedule = Schedule::new(Mesh::new(vec![ring]).expect("one axis"));

    // The computation: an input array of 8 by 16.
    schedule.arrays.push(Array {
        name: "A".to_owned(),
        dtype: DType::I32,
        dims: vec!["I".to_owned(), "J".to_owned()],
        extents: vec![8, 16],
        valid: vec![8, 16],
        definition: Dense::INPUT,
    });
    let array = ArrayId(0);
    let whole = Sharding::replicated(2);
    let partial = Sharding { open: AxisSet::one(x), ..whole.clone() };

    // The operations: one list for all devices.
    let mut builder = Builder::new(&mut schedule, 0, Span::default());
    let own = builder.input(array, partial);
    let (mut sum, mut passed) = (own, own);
    for _ in 0..steps {
        // Each device receives from the previous one, over one link.
        let sources = Sources::Shift { axes: Axes::one(x), by: -1, wrap: true };
        passed = builder.shuffle(passed, sources, Route::Hops(1));
        sum = builder.add(&[sum, passed], Operator::Sum);
    }

    // The claim: at the end every device holds the whole array.
    schedule.outputs.push(Output { value: sum, array, sharding: whole });
    schedule
}
