//! `shardc compile`

use super::{Common, Failure, Format, files, input};
use crate::compiler;
use crate::report::document;
use crate::schedule;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Compile {
    /// A program; `-` is standard input
    file: String,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    emit: Emit,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Emit {
    /// Checked values with their layouts
    Program,
    /// Local computation and collectives between layouts
    Plan,
    /// What each device does; proven
    #[default]
    Schedule,
}

impl Compile {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let format = self.common.output.format;
        let options = self.common.options()?;
        let source = input::source(&self.file)?.with(&self.common.sizes.set).leniently(self.common.lenient);
        let (program, diagnostics) = input::checked(&source, &options, format)?;
        let fault = |found| input::fault(&source, &found, format);
        let topology = compiler::machine(&program, &options).map_err(fault)?;
        let plan = || compiler::plan(&program, &topology, &options).map_err(fault);
        let text = match (self.emit, format) {
            (Emit::Program, Format::Text) => program.to_string(),
            (Emit::Program, Format::Json) => {
                return Err(Failure::Call("a program has no JSON form; emit the plan or the schedule".to_owned()));
            }
            (Emit::Plan, Format::Text) => plan()?.to_string(),
            (Emit::Plan, Format::Json) => {
                let plan = plan()?;
                let topology = compiler::machine_as_planned(&plan, &topology);
                let document = document::plan(&source.name, &source.text, &plan, &topology, &diagnostics);
                input::json(&document)? + "\n"
            }
            (Emit::Schedule, format) => {
                let (schedule, _) = compiler::schedule(&plan()?, &topology).map_err(fault)?;
                match format {
                    Format::Text => schedule.to_string(),
                    Format::Json => schedule::to_json(&schedule) + "\n",
                }
            }
        };
        match &self.output {
            Some(path) => files::write(path, &text),
            None => input::put(&text),
        }
    }
}
