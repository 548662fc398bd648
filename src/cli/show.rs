//! `shardc show`

use super::program::Checked;
use super::{Common, Failure, Format, input, schedule, terminal};
use crate::picture::terminal::blocks;
use crate::plan::{Plan, StepId, StepOp};
use crate::report::document;
use crate::schedule::is_schedule;
use clap::Args;
use itertools::Itertools;

#[derive(Debug, Args)]
pub(super) struct Show {
    /// A program, or a schedule; `-` is standard input
    file: String,
    /// Draw only this array, in every layout it takes; of a schedule, list only this value
    name: Option<String>,
    /// List the groups of devices of each collective, by number
    #[arg(long)]
    groups: bool,
    #[command(flatten)]
    common: Common,
}

impl Show {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let source = input::source(&self.file)?;
        if is_schedule(&source.text) {
            return schedule::contents(&source, self.name.as_deref(), self.common.output.format);
        }
        let checked = Checked::new(source, &self.common, self.common.options()?)?;
        let (plan, topology) = checked.planned(&checked.program)?;
        let shown = match &self.name {
            Some(name) => layouts_of(&plan, name)?,
            None => plan.own_layouts(),
        };
        match checked.format {
            Format::Text => {
                let (mesh, paint) = (&plan.program.mesh, input::paint());
                let draw = |id: &StepId| {
                    let by = self.name.as_ref().map_or_else(String::new, |_| format!("{}\n", made_by(&plan, *id)));
                    let (name, layout) = (plan.array(*id), &plan.step(*id).layout);
                    by + &blocks(&name, layout, mesh, &plan.program.dims, (paint, terminal::picture_width()))
                };
                input::print_painted(&shown.iter().map(draw).join("\n"))?;
                if self.groups { input::print(&groups(&plan)) } else { Ok(()) }
            }
            Format::Json => {
                let document = document::show(&checked.source.name, &plan, &topology, &shown);
                input::print_json(&document.with_groups(self.groups.then(|| document::groups(&plan))))
            }
        }
    }
}

/// The groups of each collective, and the kind of their numbering.
fn groups(plan: &Plan) -> String {
    let mut text = String::new();
    for one in document::groups(plan) {
        let size = one.groups.first().map_or(0, Vec::len);
        let is_spaced =
            |step: usize| one.groups.iter().all(|group| group.windows(2).all(|pair| pair[1] == pair[0] + step));
        let count = one.groups.len();
        let kind = match count {
            1 => " (all)",
            _ if is_spaced(1) => " (consecutive)",
            _ if is_spaced(count) => " (orthogonal)",
            _ => "",
        };
        let noun = if count == 1 { "group" } else { "groups" };
        text += &format!("\n{} of {}: {count} {noun} of {size}{kind}\n", one.collective, one.operand);
        for (number, group) in one.groups.iter().enumerate() {
            text += &format!("  {number}: {}\n", group.iter().join(", "));
        }
    }
    if text.is_empty() { "\nno collectives\n".to_owned() } else { text }
}

/// Every layout of one array, in the order of the steps.
fn layouts_of(plan: &Plan, name: &str) -> Result<Vec<StepId>, Failure> {
    let is_named = |id: &StepId| plan.program.value(plan.step(*id).value).name.as_deref() == Some(name);
    let ids = plan.ids().filter(is_named).unique_by(|id| plan.array(*id)).collect_vec();
    if ids.is_empty() {
        let names = plan.own_layouts().into_iter().map(|id| plan.program.name(plan.step(id).value)).unique();
        return Err(input::unknown("array", name, names.collect_vec().iter().map(String::as_str)));
    }
    Ok(ids)
}

/// Formats `input` or `after AllGather_X`.
fn made_by(plan: &Plan, id: StepId) -> String {
    match plan.step(id).op {
        StepOp::Input => "input".to_owned(),
        StepOp::Carry => "carried".to_owned(),
        StepOp::Product { .. } => "after the product".to_owned(),
        StepOp::Collective(_) | StepOp::Reduce { .. } | StepOp::Map { .. } | StepOp::Kernel(_) => {
            format!("after {}", plan.op_name(id))
        }
    }
}
