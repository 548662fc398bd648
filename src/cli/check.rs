//! `shardc check`

use super::{Failure, Format, Output, Sizes, input};
use crate::compiler::Options;
use crate::escape;
use crate::report::document;
use clap::Args;

#[derive(Debug, Args)]
pub(super) struct Check {
    /// Programs; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Only collectives and moves that are written may communicate
    #[arg(long)]
    strict: bool,
    /// Read LaTeX and subscripts without `_` as well, and tell the strict spelling
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    output: Output,
}

impl Check {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut bad = false;
        for path in &self.files {
            let source = input::source(path)?.with(&self.sizes.set).leniently(self.lenient);
            let (mut program, mut diagnostics) = source.check()?;
            // What is written is seen in a plan, which takes its time.
            let strictly = program.as_ref().filter(|_| self.strict);
            if let Some(Err(found)) = strictly.map(|program| source.check_strict(program, &Options::default())) {
                diagnostics.extend(found);
                program = None;
            }
            bad |= program.is_none();
            match self.output.format {
                Format::Json => input::print_json(&document::check(&source.name, &source.text, &diagnostics))?,
                Format::Text => {
                    input::tell(&diagnostics, &source);
                    let verdict = match program {
                        Some(_) if diagnostics.is_empty() => "fine".to_owned(),
                        Some(_) => input::summary(&diagnostics).trim_end().to_owned(),
                        None => input::summary(&diagnostics).trim_end().to_owned(),
                    };
                    let verdict = if verdict.is_empty() { "fine".to_owned() } else { verdict };
                    input::print(&format!("{}: {verdict}\n", escape::line(&source.name)))?;
                }
            }
        }
        if bad { Err(Failure::Program) } else { Ok(()) }
    }
}
