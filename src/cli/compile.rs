//! `shardc compile`

use super::input::Source;
use super::program::Checked;
use super::{Common, Failure, Format, files, input};
use crate::compiler;
use crate::report::{Findings, document};
use crate::schedule;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Compile {
    /// A program; `-` is standard input
    file: String,
    /// The stage to print
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
    /// Checked arrays with their layouts
    Program,
    /// Local computation, and collectives between layouts
    Plan,
    /// Operations of each device; proven
    #[default]
    Schedule,
}

impl Compile {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let checked = Checked::read(&self.file, &self.common)?;
        let fault = |found| checked.fault(&found);
        compiler::machine(&checked.program, &checked.options).map_err(fault)?;
        let text = match (self.emit, checked.format) {
            (Emit::Program, Format::Text) => checked.program.to_string(),
            (Emit::Program, Format::Json) => {
                return Err(Failure::Call(
                    "programs have no JSON form; use `--emit plan` or `--emit schedule`".to_owned(),
                ));
            }
            (Emit::Plan, Format::Text) => checked.planned(&checked.program)?.0.to_string(),
            (Emit::Plan, Format::Json) => {
                let (plan, topology) = checked.planned(&checked.program)?;
                let (findings, Source { name, text, .. }) = (Findings::new(&plan, &topology), &checked.source);
                input::json(&document::plan(name, text, &findings, &checked.diagnostics))? + "\n"
            }
            (Emit::Schedule, format) => {
                let (plan, topology) = checked.planned(&checked.program)?;
                let (schedule, _) = compiler::schedule(&plan, &topology).map_err(fault)?;
                match format {
                    Format::Text => schedule.to_string(),
                    Format::Json => schedule::to_json(&schedule) + "\n",
                }
            }
        };
        match &self.output {
            Some(path) => files::write_result(path, &text),
            None => input::put(&text),
        }
    }
}
