//! `shardc hardware`

use super::{Failure, input};
use crate::topology;
use clap::Args;
use std::fmt::Write as _;

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

fn list() -> String {
    let mut text = String::new();
    for hardware in topology::Hardware::names().filter_map(|name| topology::Hardware::named(name.as_ref())) {
        writeln!(text, "{:<12} {}", hardware.name, hardware.description).expect("a string takes all");
    }
    text
}
