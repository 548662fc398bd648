//! The program that a command is called with, checked.

use super::input::{self, Source};
use super::progress::during;
use super::{Common, Failure, Format};
use crate::advice;
use crate::compiler::{self, Compiled, Options};
use crate::diag::Diagnostics;
use crate::expect;
use crate::plan::Plan;
use crate::program::Program;
use crate::report::text;
use crate::topology::Topology;
use crate::units::Time;
use std::time::Instant;

/// A valid program and the requested options.
pub(super) struct Checked {
    pub(super) source: Source,
    pub(super) program: Program,
    pub(super) options: Options,
    /// Diagnostics of the checker, and failed expectations.
    pub(super) diagnostics: Diagnostics,
    pub(super) format: Format,
    /// Waste found in the plan.
    wasted: Diagnostics,
    breaches: Diagnostics,
}

impl Checked {
    /// Reads and checks a file.
    pub(super) fn read(file: &str, common: &Common) -> Result<Checked, Failure> {
        let options = common.options()?;
        Checked::new(input::source(file)?, common, options)
    }

    /// Checks a source and prints its diagnostics.
    pub(super) fn new(source: Source, common: &Common, options: Options) -> Result<Checked, Failure> {
        let format = common.output.format;
        let source = common.read(source);
        let (program, diagnostics) = input::checked(&source, &options, format)?;
        Ok(Checked {
            source,
            program,
            options,
            diagnostics,
            format,
            wasted: Diagnostics::default(),
            breaches: Diagnostics::default(),
        })
    }

    /// Prints why the program cannot be compiled.
    pub(super) fn fault(&self, found: &Diagnostics) -> Failure {
        input::fault(&self.source, found, self.format)
    }

    /// Plans this program, or one derived from it; returns the plan and the topology it refers to.
    pub(super) fn planned(&self, program: &Program) -> Result<(Plan, Topology), Failure> {
        let topology = compiler::machine(program, &self.options).map_err(|found| self.fault(&found))?;
        let plan = compiler::plan(program, &topology, &self.options).map_err(|found| self.fault(&found))?;
        let topology = compiler::machine_as_planned(&plan, &topology);
        Ok((plan, topology))
    }

    /// Runs all stages with one of the compiler's functions.
    pub(super) fn compiled(
        &self,
        compile: fn(&Program, &Options) -> Result<Compiled, Diagnostics>,
    ) -> Result<Compiled, Failure> {
        let start = Instant::now();
        let compiled = during("planning and proving", || compile(&self.program, &self.options));
        input::took("planned, lowered and proven", start);
        compiled.map_err(|found| self.fault(&found))
    }

    /// Describes the machine.
    pub(super) fn machine(&self, topology: &Topology) -> String {
        text::machine(topology, self.options.assumes_hardware(&self.program))
    }

    /// Finds waste and failed expectations.
    pub(super) fn judge(&mut self, compiled: &Compiled, makespan: Option<Time>) {
        self.breaches = expect::judge(&compiled.plan, &compiled.topology, makespan);
        self.wasted = advice::wasted(&compiled.plan);
        self.diagnostics.extend(self.wasted.clone());
        self.diagnostics.extend(self.breaches.clone());
    }

    /// Prints waste and failed expectations, after the report.
    pub(super) fn judged(&self) -> Result<(), Failure> {
        if self.format == Format::Text {
            input::tell(&self.wasted, &self.source);
        }
        input::judged(&self.source, &self.breaches, self.format)
    }
}
