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
    /// Tell for each collective the methods that could do it, with their times
    #[arg(long)]
    methods: bool,
    #[command(flatten)]
    common: Common,
}

impl Plan {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let format = self.common.output.format;
        let options = self.common.options()?;
        let source = input::source(&self.file)?.with(&self.common.sizes.set).leniently(self.common.lenient);
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
                let methods =
                    if self.methods { text::methods(plan, topology, options.lowering) } else { String::new() };
                input::print(&format!("{machine}\n{}{methods}", text::plan(plan, topology, schedule)))?;
            }
            Format::Json => {
                let document = document::plan(&source.name, &source.text, plan, topology, schedule, &diagnostics);
                let document =
                    if self.methods { document.with_methods(plan, topology, options.lowering) } else { document };
                input::print_json(&document)?;
            }
        }
        input::judged(&source, &breaches, format)
    }
}
