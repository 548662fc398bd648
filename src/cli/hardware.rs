//! `shardc hardware`

use super::{Failure, Format, Output, input};
use crate::report::table;
use crate::topology::{self, ProfileDocument, WiringRule};
use crate::units::Bytes;
use clap::Args;
use serde::Serialize;

#[derive(Debug, Args)]
pub(super) struct Hardware {
    /// The profile to print; by default all are listed
    name: Option<String>,
    #[command(flatten)]
    output: Output,
}

/// JSON document `shardc.hardware/1`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    profiles: Vec<ProfileDocument>,
}

impl Hardware {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let one = self.name.as_deref().map(input::hardware).transpose()?;
        match (self.output.format, one) {
            (Format::Text, Some(one)) => input::put(&one.to_toml()),
            (Format::Text, None) => input::print(&list()),
            (Format::Json, one) => {
                let all = || topology::Hardware::names().filter_map(topology::Hardware::named).collect();
                let profiles: Vec<topology::Hardware> = one.map_or_else(all, |one| vec![one]);
                let profiles = profiles.iter().map(topology::Hardware::document).collect();
                input::print_json(&Document { schema: "shardc.hardware/1", profiles })
            }
        }
    }
}

/// Formats the table of profiles: peak rates, memory and links.
fn list() -> String {
    let mut table = table::new(["name", "bf16 FLOP/s", "memory", "memory/s", "link/s one way", "source", "rings"], []);
    for hardware in topology::Hardware::names().filter_map(topology::Hardware::named) {
        let [memory, link] =
            [hardware.hbm_bandwidth, hardware.network.one_way].map(|rate| Bytes(rate.per_second()).to_string());
        let figures = |hardware: &topology::Hardware| match hardware.network.measured.is_empty() {
            true => "data sheet",
            false => "measured",
        };
        let flops = format!("{:.3e}", hardware.bf16_flops.per_second() as f64);
        table.add_row([
            hardware.name.clone(),
            flops,
            hardware.hbm_bytes.to_string(),
            memory,
            link,
            figures(&hardware).to_owned(),
            rings(hardware.network.wiring),
        ]);
    }
    table::lines(&table)
}

fn rings(rule: WiringRule) -> String {
    match rule {
        WiringRule::Always(wiring) => format!("none (every axis is a {})", wiring.noun()),
        WiringRule::RingOfSize(size) => format!("axes of {size}"),
        WiringRule::RingsOfMultiple(size) => format!("all axes, if multiples of {size}"),
    }
}
