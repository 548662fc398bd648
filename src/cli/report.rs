//! `shardc report`

use super::progress::during;
use super::{Common, Failure, Format, files, input};
use crate::compiler::{self, Options};
use crate::diag::Diagnostics;
use crate::report::html::{self, Source};
use crate::sim::clock;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Report {
    /// A program; `-` is standard input
    file: String,
    /// HTML file to write; self-contained, needs no network
    #[arg(short, long, value_name = "OUT.html")]
    output: PathBuf,
    #[command(flatten)]
    common: Common,
}

impl Report {
    /// Writes the page. For an invalid program it shows the diagnostics.
    pub(super) fn run(&self) -> Result<(), Failure> {
        if self.common.output.format == Format::Json {
            return Err(Failure::Call(
                "`report` writes HTML only; use `shardc time --format json` for its figures".to_owned(),
            ));
        }
        let options = Options { alternatives: true, ..self.common.options()? };
        let source = self.common.read(input::source(&self.file)?);
        let refused = |found: Diagnostics| self.refused(&source, &found);
        let (program, diagnostics) = source.check(options.hardware.as_ref())?;
        let Some(program) = program else { return Err(refused(diagnostics)) };
        if options.strict {
            source.check_strict(&program, &options).map_err(refused)?;
        }
        let compiled = during("planning and proving", || compiler::compile(&program, &options)).map_err(refused)?;
        let recorded = clock::run_recorded(&compiled.schedule, &compiled.topology);
        let (timing, record) = recorded.map_err(|error| Failure::Call(error.to_string()))?;
        let breaches = crate::expect::judge(&compiled.plan, &compiled.topology, Some(timing.makespan));
        let mut all = diagnostics;
        all.extend(crate::advice::wasted(&compiled.plan));
        all.extend(breaches.clone());
        let assumed = options.assumes_hardware(&program);
        let text = Source { name: source.title(), text: &source.text, diagnostics: &all };
        let page = during("drawing", || html::report(text, &compiled, (&timing, &record), options.lowering, assumed));
        files::write_result(&self.output, &page)?;
        input::judged(&source, &breaches, Format::Text)
    }

    fn refused(&self, source: &input::Source, found: &Diagnostics) -> Failure {
        let text = Source { name: source.title(), text: &source.text, diagnostics: found };
        match files::write_result(&self.output, html::refused(text)) {
            Ok(()) => input::fault(source, found, Format::Text),
            Err(failure) => failure,
        }
    }
}
