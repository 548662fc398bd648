//! `shardc hardware`

use super::{Failure, input};
use crate::topology::{self, WiringRule};
use crate::units::Bytes;
use clap::Args;
use comfy_table::{ContentArrangement, Table};

#[derive(Debug, Args)]
pub(super) struct Hardware {
    /// The profile to print; without it all are listed
    name: Option<String>,
}

impl Hardware {
    pub(super) fn run(&self) -> Result<(), Failure> {
        match &self.name {
            Some(name) => input::print(&input::hardware(name)?.to_toml()),
            None => input::print(&list()),
        }
    }
}

/// The figures that decide most plans, a line for each profile.
fn list() -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["name", "bf16 operations/s", "memory", "memory/s", "link/s one way", "rings"]);
    for hardware in topology::Hardware::names().filter_map(topology::Hardware::named) {
        let [memory, link] =
            [hardware.hbm_bandwidth, hardware.network.one_way].map(|rate| Bytes(rate.per_second()).to_string());
        let flops = format!("{:.3e}", hardware.bf16_flops.per_second() as f64);
        table.add_row([
            hardware.name,
            flops,
            hardware.hbm_bytes.to_string(),
            memory,
            link,
            rings(hardware.network.wiring),
        ]);
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn rings(rule: WiringRule) -> String {
    match rule {
        WiringRule::Always(wiring) => format!("none, every axis is a {wiring}"),
        WiringRule::RingOfSize(size) => format!("axes of {size}"),
        WiringRule::RingsOfMultiple(size) => format!("if all axes are multiples of {size}"),
    }
}
