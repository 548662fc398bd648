//! Plans for collectives of large arrays over all axes of a machine.

use shardc::compiler::{self, Options};
use shardc::plan::Plan;
use shardc::schedule::Schedule;
use shardc::topology::Topology;

/// The plan of a collective over axes with these sizes and this wiring.
pub(crate) fn planned(sizes: &[u64], wiring: &str, kind: &str) -> (Plan, Topology) {
    let names = &["X", "Y", "Z"][..sizes.len()];
    let axes: Vec<String> = names.iter().zip(sizes).map(|(name, size)| format!("{name}: {size} {wiring}")).collect();
    let (all, n) = (names.concat(), sizes.iter().product::<u64>());
    let columns = if kind == "AllToAll" { (65_537_u64 << 8).div_ceil(n) * n } else { 65_537 << 8 };
    let lines = match kind {
        "AllGather" => format!("A: i8[I_{all}, J]\nAllGather_{all}(A[I_{all}, J]) -> B[I, J]"),
        "AllReduce" => format!("A: i8[I, J]{{U_{all}}}\nAllReduce_{all}(A[I, J]{{U_{all}}}) -> B[I, J]"),
        _ => format!("A: i8[I_{all}, J]\nAllToAll_{{{all},J}}(A[I_{all}, J]) -> B[I, J_{all}]"),
    };
    let rows = 16 * n;
    let source = format!("mesh {{{}}} on tpu_v5p\ndims {{I: {rows}, J: {columns}}}\n{lines}\n", axes.join(", "));
    let program = compiler::check(&source).0.expect("a right program");
    let topology = compiler::machine(&program, &Options::default()).expect("a machine");
    let plan = compiler::plan(&program, &topology, &Options::default()).expect("a plan");
    (plan, topology)
}

/// The schedule of a plan, without proof.
pub(crate) fn lowered((plan, _): &(Plan, Topology)) -> Schedule {
    shardc::lower::lower(plan).expect("a schedule")
}
