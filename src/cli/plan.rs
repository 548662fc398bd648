//! `shardc plan`

use super::input::Source;
use super::program::Checked;
use super::{Common, Failure, Format, Pictures, input, terminal};
use crate::compiler;
use crate::report::why::{Product, UNRANKED};
use crate::report::{Findings, document, text};
use crate::sim::clock::Order;
use clap::Args;
use itertools::Itertools;

#[derive(Debug, Args)]
pub(super) struct Plan {
    /// A program; `-` is standard input
    file: String,
    /// List only the steps that communicate
    #[arg(long)]
    moves: bool,
    /// List all methods of each collective with their times
    #[arg(long)]
    methods: bool,
    /// List the alternatives of each product and their costs
    #[arg(long)]
    alternatives: bool,
    /// Explain the choice for one product; with "NAME by gather(B)" compare it with that strategy
    #[arg(long, value_name = "NAME [by WAY]")]
    why: Option<String>,
    #[command(flatten)]
    pictures: Pictures,
    #[command(flatten)]
    common: Common,
}

impl Plan {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut checked = Checked::read(&self.file, &self.common)?;
        checked.options.alternatives = self.alternatives || self.why.is_some();
        let compiled = checked.compiled(compiler::preview)?;
        // A question about the plan is answered whether or not the plan is as expected.
        if self.why.is_none() {
            checked.judge(&compiled, None);
        }
        let (plan, topology) = (&compiled.plan, &compiled.topology);
        let mut findings = Findings::new(plan, topology);
        let why = self.why(&checked, &findings)?;
        if self.methods {
            findings = findings.with_methods(checked.options.lowering);
        }
        match checked.format {
            Format::Text => {
                let rows = if self.moves { text::Rows::Moves } else { text::Rows::All };
                let body = match why.is_empty() {
                    true if self.alternatives => {
                        let is_unranked = plan.instead.is_some() && !findings.products.is_empty();
                        let note = if is_unranked { format!("\n{UNRANKED}\n") } else { String::new() };
                        text::plan_of(&findings, terminal::width(), rows) + &note
                    }
                    true => text::brief(&findings, terminal::width(), rows, hint(&findings)),
                    false => why.iter().map(|product| product.why(&findings.totals, findings.topology)).join("\n"),
                };
                let methods = text::methods(&findings);
                let pictures = self.pictures.of(&compiled, Order::Listed)?;
                let words = text::fit(&format!("{}\n{body}{methods}", checked.machine(topology)), terminal::width());
                input::print_painted(&format!("{words}{pictures}"))?;
            }
            Format::Json => {
                let Source { name, text, .. } = &checked.source;
                let document = document::plan(name, text, &findings, &checked.diagnostics);
                input::print_json(&document.with_why(&why))?;
            }
        }
        checked.judged()
    }

    /// The products selected by `--why`, each with the plan of the requested strategy.
    fn why(&self, checked: &Checked, findings: &Findings<'_>) -> Result<Vec<Product>, Failure> {
        let Some(asked) = self.why.as_deref().map(str::trim) else { return Ok(Vec::new()) };
        let (name, way) = asked.split_once(char::is_whitespace).map_or((asked, None), |(name, way)| (name, Some(way)));
        let mut products: Vec<Product> =
            findings.products.iter().filter(|product| product.is_of(name)).cloned().collect();
        if products.is_empty() {
            let known = findings.products.iter().map(|product| product.made.as_str()).dedup();
            return Err(input::unknown("product", name, known));
        }
        let Some(way) = way.map(str::trim) else { return Ok(products) };
        // Of several products in one expression, keep those that support this strategy.
        let program = &checked.program;
        let can = |product: &Product| program.pin_of(product.value, way).is_some();
        if products.iter().any(can) {
            products.retain(can);
        }
        let asked = |product: Product| {
            let value = product.value;
            let pin = program.pin_of(value, way).ok_or_else(|| {
                let operands = findings.plan.program.value(value).definition.operands().iter();
                let names = operands.map(|operand| findings.plan.program.name(*operand)).join(" or ");
                let known = "`by gather(..)`, `by slice(..)` or `by reduce`";
                Failure::Call(format!("`{name}` cannot be computed `{way}`; use {known} with {names}"))
            })?;
            let text = program.pin_text(value, &pin);
            let mut pinned = program.clone();
            pinned.values[value.index()].pin = Some(pin);
            let (plan, topology) = checked.planned(&pinned)?;
            let theirs = Findings::new(&plan, &topology);
            Ok(product.asked(&text, &theirs.totals, &theirs.products, &topology))
        };
        products.into_iter().map(asked).collect()
    }
}

/// A hint at the alternatives of the products; on one device there are none.
fn hint(findings: &Findings<'_>) -> Option<&'static str> {
    let is_alone = findings.topology.mesh.device_count() == 1;
    let hint = "`--alternatives` lists the alternatives, `--why NAME` explains a choice";
    (!findings.products.is_empty() && !is_alone && !terminal::is_quiet()).then_some(hint)
}
