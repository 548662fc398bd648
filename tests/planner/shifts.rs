//! Plans of shifts, against all layouts in which a shift could be done.

use crate::common::{apart, collectives};
use itertools::iproduct;
use shardc::collective::Collective;
use shardc::compiler::{self, Options};
use shardc::plan::StepOp;
use shardc::recipe::{Lowering, Tuner};
use shardc::shift::Shift;
use shardc::units::Time;
use std::borrow::Cow;

const LAYOUTS: [&str; 9] =
    ["S, D", "S_X, D", "S_Y, D", "S_XY, D", "S_YX, D", "S_X, D_Y", "S_Y, D_X", "S, D_X", "S, D_XY"];

/// Time of the steps in sequence.
fn time(source: &str) -> Time {
    apart(source).plan.totals().time()
}

/// A shift in the layout of its operand: between neighbours, or locally.
fn in_place(head: &str, layout: &str, shift: Shift) -> Time {
    let source = format!("{head}x: bf16[{layout}]\ny[{layout}] = {}_S(x, {})\n", shift.word(), shift.by);
    let (program, _) = compiler::check(&source);
    let program = program.expect("a program");
    let topology = compiler::machine(&program, &Options::default()).expect("a machine");
    let given = program.value_ids().find(|id| program.value(*id).name.as_deref() == Some("x")).expect("an input");
    let shardc::program::Wanted::Exact(sharding) = program.value(given).wanted.clone() else { panic!("{source}") };
    if sharding.dims[0].is_empty() {
        return time(&source);
    }
    let tuner = Tuner::new(Cow::Borrowed(&topology), Lowering::default());
    let from = program.layout(given, sharding);
    tuner.choose(&Collective::Shift(shift), &from, None).expect("it needs no method").time.expect("it is simulated")
}

/// The plan of a shift takes as long as the cheapest of: moving to any layout, shifting there, and moving on.
#[test]
fn a_shift_is_done_in_the_cheapest_layout() {
    let mut direct = 0;
    for (rows, columns) in [(64, 16), (4096, 1024), (64, 65536)] {
        let head = format!("mesh {{X: 4 ring, Y: 2}} on tpu_v5p\ndims {{S: {rows}, D: {columns}}}\n");
        let moved = |from: &str, to: &str| match from == to {
            true => Time::ZERO,
            false => time(&format!("{head}x: bf16[{from}]\ny[{to}] = x\n")),
        };
        for (from, by, wraps) in iproduct!(["S_X, D", "S_XY, D", "S_X, D_Y"], [1, -17, 40], [false, true]) {
            let shift = Shift { dim: 0, by, wraps };
            let source = format!("{head}x: bf16[{from}]\ny[{from}] = {}_S(x, {by})\n", shift.word());
            let compiled = apart(&source);
            let ways = LAYOUTS.iter().map(|at| (moved(from, at) + in_place(&head, at, shift) + moved(at, from), at));
            let (least, at) = ways.min().expect("nine layouts");
            assert_eq!(compiled.plan.totals().time(), least, "{source}in {at}\n{}", compiled.plan);
            direct += usize::from(collectives(&compiled).iter().any(|name| name.starts_with("Shift_")));
        }
    }
    assert!(direct > 20, "only {direct} shifts between neighbours");
}

/// One block to a neighbour takes the time of the block over one link, however long the ring is.
#[test]
fn a_block_to_the_neighbour_takes_one_hop() {
    for n in [2u64, 3, 4, 8, 16] {
        let rows = n * 1024;
        let source = format!(
            "mesh {{X: {n} ring}} on tpu_v5p\ndims {{S: {rows}, D: 4096}}\nx: bf16[S_X, D]\ny[S_X, D] = roll_S(x, 1024)\n"
        );
        let compiled = apart(&source);
        let plan = &compiled.plan;
        let step = plan.ids().find(|id| matches!(plan.step(*id).op, StepOp::Collective(_))).expect("a shift");
        assert!(matches!(plan.step(step).op, StepOp::Collective(Collective::Shift(_))), "{source}{plan}");
        let links = compiled.topology.links(shardc::mesh::AxisId::new(0));
        let block = compiled.topology.scale.at_rate(1024 * 4096 * 2, links.one_way);
        // On TPUs the latency of a hop is hidden by a long message. Of two devices, both use the cable, in opposite directions.
        assert_eq!(plan.step(step).cost.time, links.hop_latency.max(block), "{source}{plan}");
        assert_eq!(plan.step(step).usage.received().0, 1024 * 4096 * 2);
    }
}
