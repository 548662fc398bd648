//! `shardc audit`

use super::input::{self, Source};
use super::program::Checked;
use super::progress::during;
use super::{Common, Failure, Format};
use crate::audit::{self, Paid};
use crate::compiler;
use crate::diag::Diagnostics;
use crate::import;
use crate::report::audit::Audit as Findings;
use crate::syntax::{self, Extent, StatementKind};
use crate::topology::Topology;
use clap::Args;
use std::path::Path;

#[derive(Debug, Args)]
#[command(mut_arg("costs", |argument| argument.default_value("bytes")))]
pub(super) struct Audit {
    /// A module that XLA has partitioned, as text: what `jit(f).lower(..).compile().as_text()` prints; `-` reads standard input
    #[arg(value_name = "MODULE.hlo")]
    file: String,
    /// The same function as a program, or as the StableHLO module from which one is made
    #[arg(long, value_name = "FILE.shard|MODULE.mlir", required_unless_present = "mesh")]
    program: Option<String>,
    /// Without a program: the mesh, such as `data=4, model=2`, on which to price the module
    #[arg(long, value_name = "AXES", conflicts_with = "program")]
    mesh: Option<String>,
    /// Exit with status 1 if a device receives more than this many times the bytes of the plan
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    fail_above: Option<f64>,
    #[command(flatten)]
    common: Common,
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
    factor.ok_or_else(|| "expected a positive number, such as `1.2`".to_owned())
}

impl Audit {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let format = self.common.output.format;
        let text = input::source(&self.file)?;
        let module = audit::read(&text.text).map_err(|error| input::fault(&text, &Diagnostics::of(&error), format))?;
        let Some(path) = &self.program else {
            if self.fail_above.is_some() {
                return Err(Failure::Call("`--fail-above` needs `--program`, to compare with its plan".to_owned()));
            }
            let options = self.common.options()?;
            let axes = self.mesh.as_deref().unwrap_or_default().trim().trim_matches(['{', '}']).replace('=', ": ");
            // A program has a result.
            let machine = format!("mesh {{{axes}}} on tpu_v5e\nA: f32[4]\noutput A\n");
            let source = self.common.read(Source::of("--mesh", machine));
            let checked = Checked::new(source, &self.common, options)?;
            let machine =
                compiler::machine(&checked.program, &checked.options).map_err(|found| checked.fault(&found))?;
            let paid = self.priced(&module, &checked, &machine)?;
            return self.tell(&text, None, &machine, &Findings::new(&paid, None));
        };
        let source = program_of(path)?;
        let options = self.common.options()?;
        let checked = Checked::new(source, &self.common, options)?;
        let (plan, topology) = during("planning", || checked.planned(&checked.program))?;
        let machine = compiler::machine(&checked.program, &checked.options).map_err(|found| checked.fault(&found))?;
        let paid = self.priced(&module, &checked, &machine)?;
        let own = audit::planned(&plan, &topology, &checked.source.text);
        let findings = Findings::new(&paid, Some(&own));
        self.tell(&text, Some(path), &machine, &findings)?;
        match self.fail_above.zip(findings.factor()) {
            Some((most, factor)) if factor > most => Err(Failure::Program),
            Some(_) | None => Ok(()),
        }
    }

    fn priced(&self, module: &audit::Module, checked: &Checked, topology: &Topology) -> Result<Vec<Paid>, Failure> {
        let own = topology.mesh.device_count() as u64;
        if module.devices != own {
            let count = module.devices;
            return Err(Failure::Call(format!("the module is partitioned for {count} devices; the mesh has {own}")));
        }
        let machine = machine_of(&checked.source.text, &self.common.sizes.set);
        let paid = during("pricing", || audit::priced(module, &machine, topology, &checked.options));
        paid.map_err(|found| input::fault(&Source::of("the mesh", machine), &found, self.common.output.format))
    }

    fn tell(
        &self,
        module: &Source,
        program: Option<&str>,
        topology: &Topology,
        findings: &Findings<'_>,
    ) -> Result<(), Failure> {
        match self.common.output.format {
            Format::Text => {
                let machine = crate::report::text::machine(topology, false);
                input::print(&format!("{machine}\n{}", findings.text()))
            }
            Format::Json => input::print_json(&findings.document(&module.name, program)),
        }
    }
}

/// A program, made of a StableHLO module if the file is one.
fn program_of(path: &str) -> Result<Source, Failure> {
    let source = input::source(path)?;
    let is_module = Path::new(path).extension().is_some_and(|extension| extension == "mlir");
    if !is_module {
        return Ok(source);
    }
    let imported = import::program(&source.text, &import::Options::default())
        .map_err(|found| input::fault(&source, &found, Format::Text))?;
    Ok(Source::of(path, imported.text))
}

/// The statements of a program that declare its machine.
fn machine_of(source: &str, sizes: &[(String, Extent)]) -> String {
    let (mut ast, _) = syntax::parse(source);
    for (name, extent) in sizes {
        // Names of dims, too; all were checked with the program.
        ast.set(name, extent).ok();
    }
    let is_of_machine = |kind: &StatementKind| {
        matches!(kind, StatementKind::Mesh { .. } | StatementKind::View { .. } | StatementKind::Link { .. })
    };
    let statements = ast.statements.iter().filter(|statement| is_of_machine(&statement.kind));
    statements.map(|statement| format!("{statement}\n")).collect()
}
