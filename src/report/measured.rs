//! Measured and predicted times.

use super::table;
use crate::engine::measured::{Measured, Spread};
use crate::schedule::Schedule;
use crate::sim::clock::Timing;
use crate::topology::Topology;
use crate::units::show_seconds;

/// Formats the measured time of a run on ranks.
pub fn measured(measured: &Measured, timing: &Timing, topology: &Topology, ranks: usize) -> String {
    let Spread { median, least, most } = measured.makespan;
    let predicted = topology.scale.seconds(timing.makespan);
    let times = if predicted > 0.0 { format!(", {:.3}x simulated", median / predicted) } else { String::new() };
    let runs = match measured.repetitions {
        1 => String::new(),
        n => format!(", median of {n} runs ({} to {})", show_seconds(least), show_seconds(most)),
    };
    format!(
        "ranks    results of all {ranks} ranks are bitwise equal to the simulator's\n\
         measured {} until the last rank finished{runs}{times}\n",
        show_seconds(median)
    )
}

/// Formats measured and predicted times of each operation, from the first start on any device to the last end.
pub fn operations(measured: &Measured, timing: &Timing, schedule: &Schedule, topology: &Topology) -> String {
    let mut table = table::new(["operation", "", "measured", "predicted"], [2, 3]);
    for (id, took) in schedule.ids().zip(&measured.operations) {
        let interval = timing.operation(id);
        let predicted = topology.scale.seconds(interval.finish) - topology.scale.seconds(interval.start);
        let name = format!("%{}", id.index());
        table.add_row([name, schedule.brief(id), show_seconds(took.median), show_seconds(predicted.max(0.0))]);
    }
    format!("\n{}", table::lines(&table))
}
