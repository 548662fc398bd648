//! Sums along some axes between a scatter and a gather along others: proven, correct on numbers, and with fewer hops.

use itertools::Itertools;
use shardc::compiler::{self, Options, Overlapping};
use shardc::sim::{clock, proof, values};
use shardc::units::Time;

/// The time of an AllReduce of `J` columns, and its methods; it is proven, and run on numbers.
fn summed(mesh: &str, operator: &str, columns: u64, using: &str) -> (Time, String) {
    let axes: String = mesh.split(", ").map(|axis| &axis[..1]).collect();
    let rows: u64 = mesh.split(", ").filter_map(|axis| axis.split(' ').nth(1)?.parse::<u64>().ok()).product();
    let source = format!(
        "mesh {{{mesh}}} on tpu_v5p\ndims {{I: {rows}, J: {columns}}}\nA: i32[I, J]{{{operator}_{axes}}}\n\
         AllReduce_{axes}(A[I, J]{{{operator}_{axes}}}) -> B[I, J]{using}\noutput B\n"
    );
    let program = compiler::check(&source).0.unwrap_or_else(|| panic!("{source}"));
    let options = Options { overlap: Overlapping::None, ..Options::default() };
    let compiled = compiler::compile(&program, &options).unwrap_or_else(|found| panic!("{found:?}\n{source}"));
    let schedule = &compiled.schedule;
    proof::prove(schedule).unwrap_or_else(|flaw| panic!("{flaw}\n{source}"));
    let inputs = values::inputs(schedule, 5).expect("small");
    let dense = values::dense(schedule, &inputs).expect("small");
    let run = values::run(schedule, &inputs).expect("small");
    assert!(values::compare(schedule, &inputs, &dense, &run).expect("comparable").equal, "{source}");
    let methods = schedule.ids().filter_map(|id| schedule.operation(id).method).unique().join(" + ");
    (clock::run(schedule, &compiled.topology).expect("a time").makespan, methods)
}

#[test]
fn a_sum_inside_takes_fewer_hops() {
    for (mesh, columns) in [
        ("X: 8 ring, Y: 8 ring", 1024),
        ("X: 3 line, Y: 14 switch", 256),
        ("X: 6 ring, Y: 5 line", 4096),
        ("X: 2 ring, Y: 4 ring, Z: 6 line", 1024),
    ] {
        for operator in ["U", "MAX"] {
            let (inside, methods) = summed(mesh, operator, columns, "");
            let (scattered, of) = summed(mesh, operator, columns, " using multiport");
            assert!(inside < scattered && methods.contains(" + "), "{mesh}: {methods}, {inside:?} {of} {scattered:?}");
        }
    }
}
