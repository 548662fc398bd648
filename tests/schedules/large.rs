//! Times of collectives on large machines that a simpler choice would miss by far.

use crate::common::{compile, compile_by, first_collective};
use shardc::compiler::Options;
use shardc::recipe::is_larger_than_proven;
use shardc::report::step_bound;
use shardc::sim::clock;
use shardc::topology::{Hardware, HopRule};

/// Seconds of a program.
fn seconds(source: &str) -> f64 {
    let compiled = compile(source);
    let time = clock::run(&compiled.schedule, &compiled.topology).expect("a time").makespan;
    compiled.topology.scale.seconds(time)
}

/// Over nodes, a gather takes the slow network while blocks are smallest, whichever axis is major.
#[test]
fn gathers_over_nodes_take_as_long_in_both_orders() {
    for profile in ["h100", "h100_book"] {
        for (kind, from, to) in [
            ("AllGather_DX", "[1048576_AXES, 64]", "[1048576, 64]"),
            ("ReduceScatter_{AXES,1048576}", "[1048576, 64]{U_DX}", "[1048576_AXES, 64]"),
        ] {
            let time = |axes: &str| {
                let source =
                    format!("mesh {{D: 128 over ib, X: 8}} on {profile}\nA: bf16{from}\n{kind}(A{from}) -> B{to}\n");
                seconds(&source.replace("AXES", axes))
            };
            let (slow_major, fast_major) = (time("DX"), time("XD"));
            let ratio = slow_major / fast_major;
            assert!((0.99..1.01).contains(&ratio), "{kind} on {profile}: {slow_major} {fast_major}");
        }
    }
}

/// Shards that change places are routed over all links; sent directly, they take 373 us.
#[test]
fn a_transpose_of_a_torus_is_routed() {
    for (from, to) in [("[2097152_XY, 64]", "[2097152_YX, 64]"), ("[16384_X, 8192_Y]", "[16384_Y, 8192_X]")] {
        let source = format!("mesh {{X: 16 ring, Y: 16 ring}} on tpu_v5e\nA: bf16{from}\nB{to} = A\n");
        let time = seconds(&source);
        assert!(time < 150e-6, "{from} to {to}: {} us", time * 1e6);
    }
}

/// A broadcast over thousands of devices scatters and gathers, in few enough operations to prove.
#[test]
fn a_broadcast_over_8960_devices() {
    let source = "mesh {X: 16 ring, Y: 20 ring, Z: 28 ring} on tpu_v5p\nA: bf16[35840, 8192]{ROOT_XYZ}\n\
                  Broadcast_XYZ(A[35840, 8192]{ROOT_XYZ}) -> B[35840, 8192]\n";
    let compiled = compile(source);
    assert!(!is_larger_than_proven(&compiled.schedule));
    let bound = step_bound(&compiled.plan, first_collective(&compiled), &compiled.topology).bound;
    let ratio = compiled.plan.time().ratio(bound.time());
    assert!((1.0..2.2).contains(&ratio), "{ratio}");
}

/// With the rule `max`, the port of a switch is busy for the bytes of a message: direct messages take one latency together,
/// which matters where it is as long as the bytes.
#[test]
fn an_exchange_over_72_devices_of_a_switch() {
    for (columns, most) in [(72, 1.05), (72 << 8, 1.05), (72 << 14, 1.4), (72 << 18, 1.05)] {
        let hardware = Hardware { hop_rule: HopRule::Larger, ..Hardware::named("gb200_nvl72").expect("shipped") };
        let source = format!(
            "mesh {{X: 72}} on gb200_nvl72\ndims {{I: 72, J: {columns}}}\nA: bf16[I_X, J]\n\
             AllToAll_{{X,J}}(A[I_X, J]) -> B[I, J_X]\n"
        );
        let compiled = compile_by(&source, &Options { hardware: Some(hardware), ..Options::default() });
        let bound = step_bound(&compiled.plan, first_collective(&compiled), &compiled.topology).bound;
        let ratio = compiled.plan.time().ratio(bound.time());
        assert!((1.0..most).contains(&ratio), "{columns} columns: {ratio}");
    }
}
