//! `shardc plan`

use super::progress::during;
use super::{Common, Failure, Format, Pictures, input};
use crate::compiler::{self, Options};
use crate::diag::Diagnostics;
use crate::expect;
use crate::plan::{self, Choice};
use crate::program::Program;
use crate::report::why::{self, Asked};
use crate::report::{document, text};
use crate::sim::clock::Order;
use crate::topology::Topology;
use clap::Args;
use itertools::Itertools;

#[derive(Debug, Args)]
pub(super) struct Plan {
    /// A program; `-` is standard input
    file: String,
    /// Tell for each collective the methods that could do it, with their times
    #[arg(long)]
    methods: bool,
    /// Tell why the product of this name is done as it is, and with a way such as "by gather(B)" why not so
    #[arg(long, num_args = 1..=2, value_names = ["NAME", "WAY"])]
    why: Vec<String>,
    #[command(flatten)]
    pictures: Pictures,
    #[command(flatten)]
    common: Common,
}

impl Plan {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let format = self.common.output.format;
        let options = Options { alternatives: true, ..self.common.options()? };
        let source = input::source(&self.file)?.with(&self.common.sizes.set).leniently(self.common.lenient);
        let (program, diagnostics) = input::checked(&source, &options, format)?;
        let compiled = during("planning and proving", || compiler::preview(&program, &options))
            .map_err(|found| input::fault(&source, &found, format))?;
        let (plan, topology) = (&compiled.plan, &compiled.topology);
        let breaches = expect::judge(plan, topology, None);
        let why = self.why(&program, plan, &options).map_err(|problem| match problem {
            Problem::Call(message) => Failure::Call(message),
            Problem::Plan(found) => input::fault(&source, &found, format),
        })?;
        let mut diagnostics = diagnostics;
        diagnostics.extend(breaches.clone());
        match format {
            Format::Text => {
                let assumed = program.hardware.is_none() && options.hardware.is_none();
                let machine = text::machine(topology, assumed);
                let methods =
                    if self.methods { text::methods(plan, topology, options.lowering) } else { String::new() };
                let body = match why.is_empty() {
                    true => text::plan(plan, topology),
                    false => why.iter().map(|(choice, asked)| told(plan, choice, asked.as_ref(), topology)).join("\n"),
                };
                let pictures = self.pictures.of(&compiled, Order::Listed)?;
                input::print_painted(&format!("{machine}\n{body}{methods}{pictures}"))?;
            }
            Format::Json => {
                let document = document::plan(&source.name, &source.text, plan, topology, &diagnostics);
                let document =
                    if self.methods { document.with_methods(plan, topology, options.lowering) } else { document };
                let why = why.iter().map(|(choice, asked)| why::document(plan, choice, asked.as_ref(), topology));
                input::print_json(&document.with_why(why.collect()))?;
            }
        }
        input::judged(&source, &breaches, format)
    }

    /// The products that are asked for, each with the plan of the way that is.
    fn why<'p>(
        &self,
        program: &Program,
        plan: &'p plan::Plan,
        options: &Options,
    ) -> Result<Vec<(&'p Choice, Option<Asked>)>, Problem> {
        let Some(name) = self.why.first() else { return Ok(Vec::new()) };
        let mut choices = why::choices(plan, name);
        if let Some(text) = self.why.get(1) {
            // Of several products in one expression those that can go that way are meant.
            let can = |choice: &&Choice| program.pin_of(choice.value, text).is_some();
            if choices.iter().any(can) {
                choices.retain(can);
            }
        }
        if choices.is_empty() {
            let known = why::products(plan).join("`, `");
            return Err(Problem::Call(format!("no product is called `{name}`; there are `{known}`")));
        }
        let asked = |choice: &Choice| {
            let Some(text) = self.why.get(1) else { return Ok(None) };
            let operands = || plan.program.value(choice.value).definition.operands().iter();
            let pin = program.pin_of(choice.value, text).ok_or_else(|| {
                let names = operands().map(|operand| plan.program.name(*operand)).join(" or ");
                let known = "`by gather(..)`, `by slice(..)` or `by reduce`";
                Problem::Call(format!("`{text}` is no way to compute `{name}`: ask for {known}, of {names}"))
            })?;
            let text = program.pin_text(choice.value, &pin);
            let mut pinned = program.clone();
            pinned.values[choice.value.index()].pin = Some(pin);
            let topology = compiler::machine(program, options).map_err(Problem::Plan)?;
            let plan = compiler::plan(&pinned, &topology, options).map_err(Problem::Plan)?;
            Ok(Some(Asked { text, plan }))
        };
        choices.into_iter().map(|choice| Ok((choice, asked(choice)?))).collect()
    }
}

/// Why nothing can be told.
enum Problem {
    /// The call is at fault.
    Call(String),
    /// No plan goes that way.
    Plan(Diagnostics),
}

fn told(plan: &plan::Plan, choice: &Choice, asked: Option<&Asked>, topology: &Topology) -> String {
    match asked {
        Some(asked) => why::asked(plan, choice, asked, topology),
        None => why::text(plan, choice, topology),
    }
}
