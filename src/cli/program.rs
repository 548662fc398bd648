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

/// A right program, and what is asked for.
pub(super) struct Checked {
    pub(super) source: Source,
    pub(super) program: Program,
    pub(super) options: Options,
    /// What the checker says of it, and which expectations do not hold.
    pub(super) diagnostics: Diagnostics,
    pub(super) format: Format,
    /// What the plan is found to waste.
    wasted: Diagnostics,
    breaches: Diagnostics,
}

impl Checked {
    /// Reads a file and checks it.
    pub(super) fn read(file: &str, common: &Common) -> Result<Checked, Failure> {
        let options = common.options()?;
        Checked::new(input::source(file)?, common, options)
    }

    /// Checks a source, and says what was found.
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

    /// Says why the program cannot be compiled.
    pub(super) fn fault(&self, found: &Diagnostics) -> Failure {
        input::fault(&self.source, found, self.format)
    }

    /// The plan of this program or of one that is made of it, and the machine as the plan speaks of it.
    pub(super) fn planned(&self, program: &Program) -> Result<(Plan, Topology), Failure> {
        let topology = compiler::machine(program, &self.options).map_err(|found| self.fault(&found))?;
        let plan = compiler::plan(program, &topology, &self.options).map_err(|found| self.fault(&found))?;
        let topology = compiler::machine_as_planned(&plan, &topology);
        Ok((plan, topology))
    }

    /// All stages, by one of the functions of the compiler that go through them.
    pub(super) fn compiled(
        &self,
        compile: fn(&Program, &Options) -> Result<Compiled, Diagnostics>,
    ) -> Result<Compiled, Failure> {
        during("planning and proving", || compile(&self.program, &self.options)).map_err(|found| self.fault(&found))
    }

    /// The machine, for people.
    pub(super) fn machine(&self, topology: &Topology) -> String {
        text::machine(topology, self.options.assumes_hardware(&self.program))
    }

    /// Finds what the plan wastes, and which expectations do not hold.
    pub(super) fn judge(&mut self, compiled: &Compiled, makespan: Option<Time>) {
        self.breaches = expect::judge(&compiled.plan, &compiled.topology, makespan);
        self.wasted = advice::wasted(&compiled.plan);
        self.diagnostics.extend(self.wasted.clone());
        self.diagnostics.extend(self.breaches.clone());
    }

    /// Tells what is wasted and which expectations do not hold, after the report.
    pub(super) fn judged(&self) -> Result<(), Failure> {
        if self.format == Format::Text {
            input::tell(&self.wasted, &self.source);
        }
        input::judged(&self.source, &self.breaches, self.format)
    }
}
