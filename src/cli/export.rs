//! `shardc export`

use super::input::Source;
use super::program::Checked;
use super::{Common, Failure, files, input, schedule as given};
use crate::collective::Collective;
use crate::compiler;
use crate::diag::Diagnostics;
use crate::export::messages::{self, Messages};
use crate::export::msccl::{self, Dialect, Protocol, Room};
use crate::export::mscclpp;
use crate::export::ranks::{self, Algorithm};
use crate::export::{chakra, goal, jax, stablehlo};
use crate::picture::graph::Graph;
use crate::picture::svg::{self, Named};
use crate::picture::timeline::{Scope, Timeline, step_names};
use crate::picture::trace;
use crate::plan::{Plan, StepId, StepOp, unroll};
use crate::recipe::{self, Lowering};
use crate::schedule::{Schedule, is_schedule};
use crate::sim::clock;
use crate::topology::Topology;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Export {
    /// A program or a schedule; `-` is standard input
    file: String,
    /// What to write
    #[arg(long, value_enum)]
    to: To,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Of which step of the plan, `%3`; where several communicate
    #[arg(long, value_name = "NUMBER")]
    step: Option<String>,
    /// Who is to read MSCCL's XML
    #[arg(long, value_enum, default_value_t)]
    dialect: Dialect,
    /// How MSCCL sends
    #[arg(long, value_enum, default_value_t)]
    protocol: Protocol,
    /// Steps of a thread block that MSCCL's runtime has room for [default: 256; with the dialect `azure` 64]
    #[arg(long, value_name = "STEPS")]
    max_steps: Option<usize>,
    /// With `stablehlo`: what each device does, with the plan's own collectives
    #[arg(long)]
    manual: bool,
    /// With `jax`: also a script that makes inputs, runs, compares and prints the time
    #[arg(long)]
    main: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum To {
    /// The steps of the plan as a graph, for Graphviz
    Dot,
    /// The steps of the plan as a graph, for Mermaid
    Mermaid,
    /// The operations of the schedule as a graph, for Graphviz
    ScheduleDot,
    /// The operations of the schedule as a graph, for Mermaid
    ScheduleMermaid,
    /// Arrays as the blocks that devices hold, as SVG
    Layouts,
    /// What is busy when, as SVG
    Timeline,
    /// What every engine and link does, as a trace for Perfetto
    Trace,
    /// One collective as the XML that MSCCL's runtimes load
    Msccl,
    /// One collective as the JSON that MSCCL++'s executor loads
    Mscclpp,
    /// The plan as a Python module for JAX, with its own collectives
    Jax,
    /// The layouts of the plan as a Python module for JAX, for XLA to choose the collectives
    JaxConstraints,
    /// The plan as StableHLO with the shardings of Shardy
    Stablehlo,
    /// The messages of one collective as GOAL, for LogGOPSim
    Goal,
    /// The messages of one collective as traces of Chakra, a file for each rank, into a new folder
    Chakra,
}

/// A schedule on its machine, and the plan that it was made of, if it was.
struct Made {
    schedule: Schedule,
    topology: Topology,
    plan: Option<Plan>,
    source: Source,
}

impl Export {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let made = self.made()?;
        let Some(text) = self.text(&made)? else {
            return self.traces(&made);
        };
        match &self.output {
            Some(path) => files::write(path, &text),
            None => input::put(&text),
        }
    }

    fn made(&self) -> Result<Made, Failure> {
        let format = self.common.output.format;
        let source = input::source(&self.file)?;
        if is_schedule(&source.text) {
            let (schedule, topology) = given::proven(&source, &self.common.options_of_schedule()?, format)?;
            return Ok(Made { schedule, topology, plan: None, source });
        }
        let checked = Checked::new(source, &self.common, self.common.options()?)?;
        let compiled = checked.compiled(compiler::preview)?;
        let (schedule, topology) = (compiled.schedule, compiled.topology);
        Ok(Made { schedule, topology, plan: Some(compiled.plan), source: checked.source })
    }

    /// The file; none where it is a folder of files.
    fn text(&self, made: &Made) -> Result<Option<String>, Failure> {
        let (schedule, topology) = (&made.schedule, &made.topology);
        let plan = || {
            made.plan.as_ref().ok_or_else(|| {
                Failure::Call("a schedule has no plan; of a schedule there are schedule-dot, schedule-mermaid, timeline and trace".to_owned())
            })
        };
        let steps = made.plan.as_ref().map(step_names).unwrap_or_default();
        let recorded = || clock::run_recorded(schedule, topology).map_err(|error| Failure::Call(error.to_string()));
        Ok(Some(match self.to {
            To::Dot => Graph::of_plan(plan()?).dot(),
            To::Mermaid => Graph::of_plan(plan()?).mermaid(),
            To::ScheduleDot => Graph::of_schedule(schedule, &steps).dot(),
            To::ScheduleMermaid => Graph::of_schedule(schedule, &steps).mermaid(),
            To::Layouts => {
                let plan = plan()?;
                let names: Vec<String> = plan.own_layouts().into_iter().map(|id| plan.array(id)).collect();
                let layouts = plan.own_layouts().into_iter().map(|id| &plan.step(id).layout);
                let arrays: Vec<Named<'_>> =
                    names.iter().zip(layouts).map(|(name, layout)| Named { name, layout }).collect();
                svg::layouts(&arrays, &plan.program.mesh, &plan.program.dims)
            }
            To::Timeline => {
                let (timing, record) = recorded()?;
                let timeline = Timeline::new(schedule, topology, (&timing, &record), steps, Scope::Kinds);
                svg::timeline(&timeline, topology.scale)
            }
            To::Trace => trace::trace(schedule, topology, &recorded()?.1, &steps),
            To::Msccl => self.msccl(made)?,
            To::Mscclpp => self.mscclpp(made)?,
            To::Jax => {
                let options = jax::Options { main: self.main };
                jax::module(plan()?, &made.source.name, &made.source.text, options)
            }
            To::JaxConstraints => jax::constraints(plan()?, &made.source.name, &made.source.text),
            To::Stablehlo => {
                let refused = |found: Diagnostics| input::fault(&made.source, &found, self.common.output.format);
                let plan = unroll::unroll(plan()?).map_err(|error| refused(Diagnostics::of(&error)))?;
                stablehlo::module(&plan, &made.source.text, stablehlo::Options { manual: self.manual })
            }
            To::Goal => goal::write(&self.messages(made)?, |bytes| adding(topology, bytes)),
            To::Chakra => return Ok(None),
        }))
    }

    /// The file of one collective; it is read back and proven before it leaves.
    fn msccl(&self, made: &Made) -> Result<String, Failure> {
        let refused = |found: Diagnostics| input::fault(&made.source, &found, self.common.output.format);
        let (algorithm, name) = self.algorithm(made)?;
        let options =
            msccl::Options { dialect: self.dialect, protocol: self.protocol, sizes: None, steps: self.max_steps };
        let program = msccl::build(&algorithm, &name, &options).map_err(|error| refused(Diagnostics::of(&error)))?;
        let text = msccl::write(&program, &options);
        let back = msccl::read(&text).map_err(|error| refused(Diagnostics::of(&error)))?;
        let usual = Room::of(self.dialect);
        let room = Room { steps: self.max_steps.unwrap_or(usual.steps), ..usual };
        msccl::prove(&back.program, None, room).map_err(|flaw| refused(Diagnostics::of(&flaw)))?;
        tell_order(&algorithm);
        Ok(text)
    }

    /// The same for MSCCL++.
    fn mscclpp(&self, made: &Made) -> Result<String, Failure> {
        let refused = |found: Diagnostics| input::fault(&made.source, &found, self.common.output.format);
        let (algorithm, name) = self.algorithm(made)?;
        let plan = mscclpp::build(&algorithm, &name).map_err(|error| refused(Diagnostics::of(&error)))?;
        let text = mscclpp::write(&plan);
        let back = mscclpp::read(&text).map_err(|error| Failure::Call(error.to_string()))?;
        mscclpp::prove(&back, None).map_err(|flaw| refused(Diagnostics::of(&flaw)))?;
        tell_order(&algorithm);
        Ok(text)
    }

    /// The program of each rank, and what to call it.
    fn algorithm(&self, made: &Made) -> Result<(Algorithm, String), Failure> {
        let refused = |found: Diagnostics| input::fault(&made.source, &found, self.common.output.format);
        let (schedule, name) = self.collective(made)?;
        Ok((ranks::algorithm(&schedule).map_err(|error| refused(Diagnostics::of(&error)))?, name))
    }

    /// The messages of one collective, which are matched and come to an end.
    fn messages(&self, made: &Made) -> Result<Messages, Failure> {
        let refused = |found: Diagnostics| input::fault(&made.source, &found, self.common.output.format);
        let (schedule, _) = self.collective(made)?;
        let algorithm = ranks::algorithm(&schedule).map_err(|error| refused(Diagnostics::of(&error)))?;
        let size = schedule.arrays.first().map_or(1, |array| array.dtype.size());
        let messages = messages::messages(&algorithm, algorithm.chunk.saturating_mul(size));
        messages::check(&messages, Some(algorithm.kind)).map_err(|flaw| refused(Diagnostics::of(&flaw)))?;
        Ok(messages)
    }

    /// Traces are files, read back before the folder that holds them is there.
    fn traces(&self, made: &Made) -> Result<(), Failure> {
        let Some(folder) = &self.output else {
            return Err(Failure::Call(
                "traces are a file for each rank: say with `-o` into which new folder".to_owned(),
            ));
        };
        let messages = self.messages(made)?;
        let traces = chakra::write(&messages, |bytes| adding(&made.topology, bytes));
        let back = chakra::read(&traces.files).map_err(|error| Failure::Call(error.to_string()))?;
        if back != messages {
            return Err(Failure::Call("the traces do not say what the messages are".to_owned()));
        }
        let files = traces.files.iter().enumerate().map(|(rank, file)| (format!("trace.{rank}.et"), file.as_slice()));
        files::write_folder(folder, files)?;
        if traces.lost > 0 {
            input::say(&format!(
                "note: whole microseconds are {} ns off the times of additions, in all\n",
                traces.lost
            ));
        }
        Ok(())
    }

    /// A schedule of one collective: the one that is given, or that of a step of the plan.
    fn collective(&self, made: &Made) -> Result<(Schedule, String), Failure> {
        let Some(plan) = &made.plan else { return Ok((made.schedule.clone(), made.source.name.clone())) };
        let steps: Vec<(StepId, &Collective)> = plan
            .ids()
            .filter_map(|id| match &plan.step(id).op {
                StepOp::Collective(collective) if collective.kind().sends() => Some((id, collective)),
                _ => None,
            })
            .collect();
        let number = |id: StepId| format!("%{}", id.index());
        let wanted = self.step.as_ref().map(|step| format!("%{}", step.trim_start_matches('%')));
        let chosen = match (&wanted, steps.as_slice()) {
            (None, [only]) => Some(*only),
            (None, _) => None,
            (Some(wanted), steps) => steps.iter().find(|(id, _)| number(*id) == *wanted).copied(),
        };
        let Some((id, collective)) = chosen else {
            let known = steps.iter().map(|(id, _)| format!("{} {}", number(*id), plan.op_name(*id)));
            let known: Vec<String> = known.collect();
            return Err(Failure::Call(match known.is_empty() {
                true => "the plan has no collective".to_owned(),
                false => format!("say with `--step` which collective: {}", known.join(", ")),
            }));
        };
        let from = &plan.step(plan.operands(id)[0]).layout;
        let program = &plan.program;
        let name = program.name(plan.step(id).value);
        let dims = from.dims.iter().map(|dim| program.dims.name(dim.id)).collect();
        let lowering = Lowering { keep_all_gather: false, bitwise: self.common.bitwise };
        let method = program.value(plan.step(id).user).method;
        let alone = recipe::alone(&made.topology, lowering, (collective, from), (&name, dims), method);
        let Some((schedule, _)) = alone else {
            return Err(Failure::Call("the collective cannot be done by itself".to_owned()));
        };
        Ok((schedule, format!("{}_{name}", plan.op_name(id))))
    }
}

/// What runtimes take to be in the order of the ranks may have to be packed first.
fn tell_order(algorithm: &Algorithm) {
    if !algorithm.contiguous {
        input::say("note: the array is not cut along its first dim: pack it in the order of the ranks\n");
    }
}

/// Nanoseconds that a device takes to add up so many bytes: it reads two operands and writes the sum.
fn adding(topology: &Topology, bytes: u64) -> u64 {
    let time = topology.scale.at_rate(3 * u128::from(bytes), topology.hardware.hbm_bandwidth);
    u64::try_from(topology.scale.nanoseconds(time)).unwrap_or(u64::MAX)
}
