//! `shardc import`

use super::{Failure, Format, Output, files, input};
use crate::import;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Import {
    /// A StableHLO module as text; `-` reads standard input
    #[arg(value_name = "MODULE.mlir")]
    file: String,
    /// Write the program to this file instead of standard output
    #[arg(short, long, value_name = "FILE.shard")]
    output: Option<PathBuf>,
    /// Mesh of the program, such as `data=4, model=2`, instead of the module's; layouts are then left to the plan
    #[arg(long, value_name = "AXES")]
    mesh: Option<String>,
    /// Hardware profile that the program names
    #[arg(long, value_name = "NAME", default_value = "tpu_v5e")]
    on: String,
    /// Leave layouts of arguments without a sharding to the plan; by default they are replicated
    #[arg(long)]
    open: bool,
    /// Declare operations outside the language, such as sorts and convolutions, as kernels, which are planned by their dims
    /// and costs; by default they are refused
    #[arg(long)]
    opaque: bool,
    #[command(flatten)]
    format: Output,
}

/// An import, for scripts.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    file: &'a str,
    program: &'a str,
    /// What the arguments of the function are called, in their order.
    arguments: Vec<Port<'a>>,
    /// The outputs, in the order of the function's results.
    results: &'a [String],
}

/// An argument as inputs.
#[derive(Serialize)]
struct Port<'a> {
    array: &'a str,
    /// Whether row `k` of the argument is the input of iteration `k`: `W`, `W.2`, `W.3` and so on.
    per_iteration: bool,
}

impl<'a> Port<'a> {
    fn of(argument: &'a import::Argument) -> Port<'a> {
        Port { array: &argument.array, per_iteration: argument.is_per_iteration }
    }
}

impl Import {
    /// Reads a module and writes a program.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let source = input::source(&self.file)?;
        let options = import::Options {
            mesh: self.mesh.clone(),
            hardware: Some(self.on.clone()),
            is_open: self.open,
            is_opaque: self.opaque,
        };
        let imported = import::program(&source.text, &options)
            .map_err(|diagnostics| input::fault(&source, &diagnostics, Format::Text))?;
        let document = Document {
            schema: "shardc.import/1",
            file: &source.name,
            program: &imported.text,
            arguments: imported.arguments.iter().map(Port::of).collect(),
            results: &imported.results,
        };
        match (&self.output, self.format.format) {
            (Some(path), format) => {
                files::write_result(path, &imported.text)?;
                if let Format::Json = format { input::print_json(&document) } else { Ok(()) }
            }
            (None, Format::Text) => input::put(&imported.text),
            (None, Format::Json) => input::print_json(&document),
        }
    }
}
