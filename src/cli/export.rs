//! `shardc export`

use super::input::Source;
use super::program::Checked;
use super::{Common, Failure, files, input, schedule as given};
use crate::collective::Collective;
use crate::compiler;
use crate::diag::Diagnostics;
use crate::export::messages::{self, Messages, Sending};
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
use crate::schedule::{Schedule, is_schedule, verify};
use crate::sim::clock;
use crate::topology::Topology;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Export {
    /// A program or a schedule; `-` is standard input
    file: String,
    /// Format to write
    #[arg(long, value_enum)]
    to: To,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Step of the plan to export, such as `%3`, if several communicate
    #[arg(long, value_name = "NUMBER")]
    step: Option<String>,
    /// MSCCL runtime that reads the XML
    #[arg(long, value_enum, default_value_t)]
    dialect: Dialect,
    /// MSCCL protocol
    #[arg(long, value_enum, default_value_t)]
    protocol: Protocol,
    /// MSCCL steps per thread block [default: 256, or 64 with `--dialect azure`]
    #[arg(long, value_name = "STEPS")]
    max_steps: Option<usize>,
    /// With `stablehlo`: write the per-device program with the plan's collectives
    #[arg(long)]
    manual: bool,
    /// With `jax`: append a script that generates inputs, runs, compares with the dense result and times
    #[arg(long)]
    main: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum To {
    /// Graph of the plan's steps, for Graphviz
    Dot,
    /// Graph of the plan's steps, for Mermaid
    Mermaid,
    /// Graph of the schedule's operations, for Graphviz
    ScheduleDot,
    /// Graph of the schedule's operations, for Mermaid
    ScheduleMermaid,
    /// Arrays as the shards that devices hold, as SVG
    Layouts,
    /// Timeline of engines and links, as SVG
    Timeline,
    /// Timeline of engines and links, as a Perfetto trace
    Trace,
    /// One collective as MSCCL XML
    Msccl,
    /// One collective as MSCCL++ JSON
    Mscclpp,
    /// Python module for JAX: `shard_map` with the plan's collectives
    Jax,
    /// Python module for JAX: the plan's layouts as sharding constraints; XLA chooses the collectives
    JaxConstraints,
    /// StableHLO with Shardy shardings
    Stablehlo,
    /// Messages of one collective as GOAL, for LogGOPSim
    Goal,
    /// Messages of one collective as Chakra traces, one file per rank, in a new folder
    Chakra,
}

/// A schedule, its topology, and the plan it was lowered from, if any.
struct Exported {
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
            Some(path) => files::write_result(path, &text),
            None => input::put(&text),
        }
    }

    fn made(&self) -> Result<Exported, Failure> {
        let format = self.common.output.format;
        let source = input::source(&self.file)?;
        if is_schedule(&source.text) {
            let (schedule, topology) = given::proven(&source, &self.common.options_of_schedule()?, format)?;
            return Ok(Exported { schedule, topology, plan: None, source });
        }
        let checked = Checked::new(source, &self.common, self.common.options()?)?;
        let compiled = checked.compiled(compiler::preview)?;
        let (schedule, topology) = (compiled.schedule, compiled.topology);
        Ok(Exported { schedule, topology, plan: Some(compiled.plan), source: checked.source })
    }

    /// The file to write; `None` for a folder of files.
    fn text(&self, made: &Exported) -> Result<Option<String>, Failure> {
        let (schedule, topology) = (&made.schedule, &made.topology);
        let plan = || {
            made.plan.as_ref().ok_or_else(|| {
                Failure::Call(
                    "this format needs a program; schedules support schedule-dot, schedule-mermaid, timeline and trace"
                        .to_owned(),
                )
            })
        };
        let steps = made.plan.as_ref().map(step_names).unwrap_or_default();
        let recorded = || clock::run_recorded(schedule, topology).map_err(|error| Failure::Call(error.to_string()));
        Ok(Some(match self.to {
            To::Dot => Graph::of_plan(plan()?).dot(),
            To::Mermaid => mermaid(&Graph::of_plan(plan()?)).map_err(|beyond| too_large(&beyond, "dot"))?,
            To::ScheduleDot => Graph::of_schedule(schedule, made.plan.as_ref()).dot(),
            To::ScheduleMermaid => schedule_mermaid(made)?,
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
                let timeline = Timeline::new(schedule, topology, (&timing, &record), made.plan.as_ref(), Scope::Kinds);
                svg::timeline(&timeline, topology.scale)
            }
            To::Trace => trace::trace(schedule, topology, &recorded()?.1, &steps),
            To::Msccl => self.msccl(made)?,
            To::Mscclpp => self.mscclpp(made)?,
            To::Jax => {
                let options = jax::Options { main: self.main };
                jax::module(plan()?, made.source.title(), &made.source.text, options)
            }
            To::JaxConstraints => jax::constraints(plan()?, made.source.title(), &made.source.text),
            To::Stablehlo => {
                let refused = |found: Diagnostics| input::fault(&made.source, &found, self.common.output.format);
                let plan = unroll::unroll(plan()?).map_err(|error| refused(Diagnostics::of(&error)))?;
                stablehlo::module(&plan, &made.source.text, stablehlo::Options { manual: self.manual })
            }
            To::Goal => goal::write(&self.messages(made)?, |bytes| in_memory(topology, bytes)),
            To::Chakra => return Ok(None),
        }))
    }

    /// Builds the MSCCL file of one collective, and reads it back and proves it.
    fn msccl(&self, made: &Exported) -> Result<String, Failure> {
        let refused = |found: Diagnostics| input::fault(&made.source, &found, self.common.output.format);
        let (algorithm, name) = self.algorithm(made)?;
        let options =
            msccl::Options { dialect: self.dialect, protocol: self.protocol, sizes: None, steps: self.max_steps };
        let program = msccl::build(&algorithm, &name, &options).map_err(|error| refused(Diagnostics::of(&error)))?;
        let text = msccl::write(&program, &options);
        // The files of large machines take much of the memory.
        drop(program);
        let back = msccl::read(&text).map_err(|error| refused(Diagnostics::of(&error)))?;
        let usual = Room::of(self.dialect);
        let room = Room { steps: self.max_steps.unwrap_or(usual.steps), ..usual };
        msccl::prove(&back.program, None, room).map_err(|flaw| refused(Diagnostics::of(&flaw)))?;
        tell_chunks(&algorithm);
        Ok(text)
    }

    /// Builds the MSCCL++ file of one collective, and reads it back and proves it.
    fn mscclpp(&self, made: &Exported) -> Result<String, Failure> {
        let refused = |found: Diagnostics| input::fault(&made.source, &found, self.common.output.format);
        let (algorithm, name) = self.algorithm(made)?;
        let plan = mscclpp::build(&algorithm, &name).map_err(|error| refused(Diagnostics::of(&error)))?;
        let text = mscclpp::write(&plan);
        let back = mscclpp::read(&text).map_err(|error| Failure::Call(error.to_string()))?;
        mscclpp::prove(&back, None).map_err(|flaw| refused(Diagnostics::of(&flaw)))?;
        tell_chunks(&algorithm);
        Ok(text)
    }

    /// Builds the program of each rank, and its name.
    fn algorithm(&self, made: &Exported) -> Result<(Algorithm, String), Failure> {
        let refused = |found: Diagnostics| input::fault(&made.source, &found, self.common.output.format);
        let (schedule, name) = self.collective(made)?;
        Ok((ranks::algorithm(&schedule).map_err(|error| refused(Diagnostics::of(&error)))?, name))
    }

    /// Builds the messages of one collective and checks that they match without deadlock.
    fn messages(&self, made: &Exported) -> Result<Messages, Failure> {
        let refused = |found: Diagnostics| input::fault(&made.source, &found, self.common.output.format);
        let (schedule, _) = self.collective(made)?;
        let schedule = verify(&schedule).map_err(|error| refused(Diagnostics::of(&error)))?;
        let sending = Sending::parts(&made.topology);
        let (kind, messages) = messages::messages(schedule, made.topology.hardware.local_moves, sending)
            .map_err(|error| refused(Diagnostics::of(&error)))?;
        messages::check(&messages, Some(kind)).map_err(|flaw| refused(Diagnostics::of(&flaw)))?;
        Ok(messages)
    }

    /// Writes Chakra traces, after reading them back.
    fn traces(&self, made: &Exported) -> Result<(), Failure> {
        let Some(folder) = &self.output else {
            return Err(Failure::Call("Chakra traces are one file per rank; give a new folder with `-o`".to_owned()));
        };
        let messages = self.messages(made)?;
        let traces = chakra::write(&messages, |bytes| in_memory(&made.topology, bytes));
        let back = chakra::read(&traces.files).map_err(|error| Failure::Call(error.to_string()))?;
        if back != messages {
            return Err(Failure::Call("the traces read back differ from the messages (a bug in shardc)".to_owned()));
        }
        let files = traces.files.iter().enumerate().map(|(rank, file)| (format!("trace.{rank}.et"), file.as_slice()));
        files::write_folder(folder, files)?;
        if traces.lost > 0 {
            input::say(&format!(
                "note: rounding to whole microseconds changes the times of local operations by {} ns in total\n",
                traces.lost
            ));
        }
        Ok(())
    }

    /// The schedule of one collective: the given one, or that of a step of the plan.
    fn collective(&self, made: &Exported) -> Result<(Schedule, String), Failure> {
        let Some(plan) = &made.plan else { return Ok((made.schedule.clone(), made.source.title().to_owned())) };
        let collective = |id| match &plan.step(id).op {
            StepOp::Collective(collective) if plan.communicates(id) => Some((id, collective)),
            _ => None,
        };
        let steps: Vec<(StepId, &Collective)> = plan.ids().filter_map(collective).collect();
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
                true => "the plan has no collectives".to_owned(),
                false => format!("choose a collective with `--step`: {}", known.join(", ")),
            }));
        };
        let from = &plan.step(plan.operands(id)[0]).layout;
        let program = &plan.program;
        let name = program.name(plan.step(id).value);
        let dims = from.dims.iter().map(|dim| program.dims.name(dim.id)).collect();
        let lowering = Lowering { keep_all_gather: false, bitwise: self.common.bitwise };
        let method = program.value(plan.step(id).user).using.method;
        let alone = recipe::alone(&made.topology, lowering, (collective, from), (&name, dims), method);
        let Some((schedule, _)) = alone else {
            return Err(Failure::Call("this collective cannot be exported by itself".to_owned()));
        };
        Ok((schedule, format!("{}_{name}", plan.op_name(id))))
    }
}

/// A graph for Mermaid, or the limits that it exceeds.
fn mermaid(graph: &Graph) -> Result<String, String> {
    let text = graph.mermaid();
    graph.beyond_mermaid(&text).map_or(Ok(text), Err)
}

fn too_large(beyond: &str, instead: &str) -> Failure {
    Failure::Call(format!("the graph exceeds Mermaid's limits ({beyond}); write `--to {instead}` instead"))
}

/// The operations of a schedule for Mermaid, folded if they exceed its limits.
fn schedule_mermaid(made: &Exported) -> Result<String, Failure> {
    let (schedule, plan) = (&made.schedule, made.plan.as_ref());
    let beyond = match mermaid(&Graph::of_schedule(schedule, plan)) {
        Ok(text) => return Ok(text),
        Err(beyond) => beyond,
    };
    let folded = mermaid(&Graph::of_folded_schedule(schedule, plan));
    let folded = folded.map_err(|beyond| too_large(&beyond, "schedule-dot"))?;
    input::say(&format!(
        "note: the graph exceeds Mermaid's limits ({beyond}): operations of one kind in a step are folded; `--to schedule-dot` writes all of them\n"
    ));
    Ok(folded)
}

/// Prints notes about how chunks differ from the blocks of the array.
fn tell_chunks(algorithm: &Algorithm) {
    if !algorithm.contiguous {
        input::say("note: the array is not sharded along its first dim; pack it in rank order before the call\n");
    }
    if !algorithm.exact {
        input::say("note: blocks are rounded to whole chunks, by less than 1 %\n");
    }
}

/// Nanoseconds in which a device reads and writes this number of bytes of its memory.
fn in_memory(topology: &Topology, bytes: u64) -> u64 {
    let time = topology.scale.at_rate(u128::from(bytes), topology.hardware.hbm_bandwidth);
    u64::try_from(topology.scale.nanoseconds(time)).unwrap_or(u64::MAX)
}
