//! Plans for collectives of large arrays over all axes of a machine.

use shardc::compiler::{self, Options};
use shardc::plan::Plan;
use shardc::program::Program;
use shardc::schedule::Schedule;
use shardc::topology::Topology;

/// A collective over axes with these sizes and this wiring, and the machine.
pub(crate) fn posed(sizes: &[u64], wiring: &str, kind: &str) -> (Program, Topology) {
    let names = &["X", "Y", "Z"][..sizes.len()];
    let axes: Vec<String> = names.iter().zip(sizes).map(|(name, size)| format!("{name}: {size} {wiring}")).collect();
    let (all, n) = (names.concat(), sizes.iter().product::<u64>());
    let columns = if kind == "AllToAll" { (65_537_u64 << 8).div_ceil(n) * n } else { 65_537 << 8 };
    let lines = collective(kind, &all);
    let rows = 16 * n;
    let source = format!("mesh {{{}}} on tpu_v5p\ndims {{I: {rows}, J: {columns}}}\n{lines}\n", axes.join(", "));
    let program = compiler::check(&source).0.expect("a right program");
    let topology = compiler::machine(&program, &Options::default()).expect("a machine");
    (program, topology)
}

/// Its plan.
pub(crate) fn planned((program, topology): &(Program, Topology)) -> Plan {
    compiler::plan(program, topology, &Options::default()).expect("a plan")
}

/// A collective over these axes, on an array of dims I and J.
pub(crate) fn collective(kind: &str, axes: &str) -> String {
    match kind {
        "AllGather" => format!("A: i8[I_{axes}, J]\nAllGather_{axes}(A[I_{axes}, J]) -> B[I, J]"),
        "ReduceScatter" => {
            format!("A: i8[I, J]{{U_{axes}}}\nReduceScatter_{{{axes},I}}(A[I, J]{{U_{axes}}}) -> B[I_{axes}, J]")
        }
        "AllReduce" => format!("A: i8[I, J]{{U_{axes}}}\nAllReduce_{axes}(A[I, J]{{U_{axes}}}) -> B[I, J]"),
        _ => format!("A: i8[I_{axes}, J]\nAllToAll_{{{axes},J}}(A[I_{axes}, J]) -> B[I, J_{axes}]"),
    }
}

/// The schedule of a plan, without proof.
pub(crate) fn lowered(plan: &Plan) -> Schedule {
    shardc::lower::lower(plan).expect("a schedule")
}
