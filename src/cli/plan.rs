//! `shardc plan`

use super::{Common, Failure, Format, input};
use crate::compiler;
use crate::expect;
use crate::report::{document, text};
use clap::Args;

#[derive(Debug, Args)]
pub(super) struct Plan {
    /// A program; `-` is standard input
    file: String,
    #[command(flatten)]
    common: Common,
}

impl Plan {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let format = self.common.output.format;
        let options = self.common.options()?;
        let source = input::source(&self.file)?.with(&self.common.sizes.set);
        let (program, diagnostics) = input::checked(&source, &options, format)?;
        let compiled = compiler::preview(&program, &options).map_err(|found| input::fault(&source, &found, format))?;
        let (plan, topology, schedule) = (&compiled.plan, &compiled.topology, Some(&compiled.schedule));
        let breaches = expect::judge(plan, topology, None);
        let mut diagnostics = diagnostics;
        diagnostics.extend(breaches.clone());
        match format {
            Format::Text => {
                let assumed = program.hardware.is_none() && options.hardware.is_none();
                let machine = text::machine(topology, assumed);
                input::print(&format!("{machine}\n{}", text::plan(plan, topology, schedule)))?;
            }
            Format::Json => {
                input::print_json(&document::plan(&source.name, &source.text, plan, topology, schedule, &diagnostics))?;
            }
        }
        input::judged(&source, &breaches, format)
    }
}
