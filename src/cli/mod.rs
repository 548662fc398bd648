//! The command line: arguments, files, colour and exit codes. Nothing else in the crate meets the outside.

mod arrays;
mod calibrate;
mod check;
mod compile;
mod completions;
mod computed;
mod diff;
mod effort;
mod engine;
mod explain;
mod export;
mod files;
mod fmt;
mod foreign;
mod hardware;
mod input;
mod interrupt;
mod pictures;
mod plan;
mod program;
mod progress;
#[cfg(not(feature = "mpi"))]
#[path = "no_ranks.rs"]
mod ranks;
#[cfg(feature = "mpi")]
mod ranks;
pub mod render;
mod report;
mod run;
mod schedule;
mod show;
mod snapshot;
mod sweep;
mod terminal;

use crate::compiler::{Options, Overlapping, Resharding};
use crate::costs::CostModel;
use crate::recipe::Lowering;
use clap::{Args, Parser, Subcommand, ValueEnum};
use pictures::Pictures;
use std::process::ExitCode;

/// A compiler for the sharding notation of "How To Scale Your Model".
///
/// It checks the layouts of a `.shard` program, picks the cheapest communication, lowers it to operations that it
/// proves right, runs them on a simulated mesh and tells the time.
#[derive(Debug, Parser)]
#[command(name = "shardc", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    terminal: terminal::Terminal,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tell all errors and warnings
    Check(check::Check),
    /// Rewrite programs in their canonical spelling, comments kept
    Fmt(fmt::Fmt),
    /// Tell what moves, what it costs, and what was not chosen
    Plan(plan::Plan),
    /// Draw arrays as the blocks that devices hold
    Show(show::Show),
    /// Print what a stage makes of a program
    Compile(compile::Compile),
    /// Write a page that shows everything: layouts, plan, schedule, links, timeline and the collectives to step through
    Report(report::Report),
    /// Write a picture, a graph or a trace
    Export(export::Export),
    /// Prove, compute, compare with the dense result, and tell the time
    Run(run::Run),
    /// Prove and tell the time only; for any size
    Time(run::Time),
    /// Plan a program at many sizes, meshes and machines, and tell which is best
    Sweep(sweep::Sweep),
    /// Tell what is different between the plans of two programs
    Diff(diff::Diff),
    /// Keep what programs are lowered to beside them, and tell what has changed
    Snapshot(snapshot::Snapshot),
    /// Prove a schedule that is given, such as one written by hand
    Prove(schedule::Prove),
    /// List the hardware profiles, or print one as a file to start from
    Hardware(hardware::Hardware),
    /// Measure the machine that this runs on, and write a hardware profile of it
    Calibrate(calibrate::Calibrate),
    /// Tell what the code of an error means, with a wrong and a right program; or list all codes
    Explain(explain::Explain),
    /// Print completions for a shell
    Completions(completions::Completions),
    /// Print a page of the manual, as `man` reads it
    Man(completions::Man),
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// One document a line, with a `schema` field
    Json,
}

/// What every command that plans can be told.
#[derive(Debug, Args)]
struct Common {
    /// Instead of the hardware that the program names: a profile's name, or a TOML file
    #[arg(long, value_name = "NAME|FILE.toml")]
    hardware: Option<String>,
    /// The least time of a hop on all networks, such as `0` or `500ns`: at 0 only bytes and operations count
    #[arg(long, value_name = "TIME", value_parser = input::latency)]
    latency: Option<u64>,
    /// What moves cost while planning: simulated, by the book's closed forms, or in bytes
    #[arg(long, value_enum, default_value_t)]
    costs: CostModel,
    /// Leave each AllGather one operation instead of spelling it out
    #[arg(long)]
    keep_allgather: bool,
    /// Copies of a sum of floats are equal to the last bit: every device adds in the same order
    #[arg(long)]
    bitwise: bool,
    /// Whether steps are done in pieces and in another order, so that links carry some while devices compute others
    #[arg(long, value_enum, default_value_t)]
    overlap: Overlapping,
    /// How a value goes from one layout to another, where no collective is written
    #[arg(long, value_enum, default_value_t)]
    reshard: Resharding,
    /// Compute products as they are written: in that order, as often, and where they stand
    #[arg(long)]
    as_written: bool,
    /// Only collectives and moves that are written may communicate
    #[arg(long)]
    strict: bool,
    /// Read LaTeX and subscripts without `_` as well, and tell the strict spelling
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    effort: effort::Effort,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    output: Output,
}

/// Sizes of dims and axes, given from outside.
#[derive(Clone, Debug, Args)]
struct Sizes {
    /// Another size for a dim of the program or an axis of its mesh
    #[arg(long, value_name = "NAME=SIZE", value_parser = input::size)]
    set: Vec<(String, u64)>,
}

#[derive(Clone, Copy, Debug, Args)]
struct Output {
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Common {
    /// A source with the sizes that are given, read as is asked for.
    fn read(&self, source: input::Source) -> input::Source {
        source.with(&self.sizes.set).leniently(self.lenient)
    }

    fn options(&self) -> Result<Options, Failure> {
        let hardware = self.hardware.as_deref().map(input::hardware).transpose()?;
        let lowering = Lowering { keep_all_gather: self.keep_allgather, bitwise: self.bitwise };
        let budget = self.effort.start()?;
        let (latency, costs, strict) = (self.latency, self.costs, self.strict);
        Ok(Options {
            hardware,
            latency,
            costs,
            lowering,
            strict,
            overlap: self.overlap,
            reshard: self.reshard,
            as_written: self.as_written,
            alternatives: false,
            budget,
        })
    }

    /// What is not as it is by default, as it is written.
    fn words(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.hardware.iter().map(|hardware| format!("--hardware {hardware}")));
        words.extend(self.latency.iter().map(|latency| format!("--latency {latency}ps")));
        if self.costs != CostModel::default() {
            words.extend(self.costs.to_possible_value().map(|costs| format!("--costs {}", costs.get_name())));
        }
        if self.overlap != Overlapping::default() {
            words.extend(self.overlap.to_possible_value().map(|overlap| format!("--overlap {}", overlap.get_name())));
        }
        if self.reshard != Resharding::default() {
            words.extend(self.reshard.to_possible_value().map(|reshard| format!("--reshard {}", reshard.get_name())));
        }
        let flags = [
            ("--keep-allgather", self.keep_allgather),
            ("--bitwise", self.bitwise),
            ("--as-written", self.as_written),
            ("--strict", self.strict),
            ("--lenient", self.lenient),
        ];
        words.extend(flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.to_owned()));
        words.extend(self.effort.words());
        words.extend(self.sizes.set.iter().map(|(dim, size)| format!("--set {dim}={size}")));
        words.join(" ")
    }
}

impl Common {
    /// The options that say something of a schedule, which is given as it is.
    ///
    /// # Errors
    /// If others are given.
    fn options_of_schedule(&self) -> Result<Options, Failure> {
        let for_programs = [
            ("--set", !self.sizes.set.is_empty()),
            ("--as-written", self.as_written),
            ("--strict", self.strict),
            ("--lenient", self.lenient),
            ("--keep-allgather", self.keep_allgather),
            ("--bitwise", self.bitwise),
            ("--costs", self.costs != CostModel::default()),
        ];
        match for_programs.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Failure::Call(format!("`{option}` is for programs, and this is a schedule"))),
            None => self.options(),
        }
    }
}

/// Why a command stops early.
#[derive(Debug)]
enum Failure {
    /// The program is at fault, and it has been said: exit 1.
    Program,
    /// The call is at fault, in words: exit 2.
    Call(String),
    /// Another process has said what is wrong: this exit code.
    #[cfg_attr(not(feature = "mpi"), expect(dead_code, reason = "there are no other processes"))]
    Told(u8),
}

impl Failure {
    /// How the process ends.
    fn exit_code(&self) -> u8 {
        match self {
            Failure::Program => 1,
            Failure::Call(_) => 2,
            Failure::Told(code) => *code,
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Call(error.to_string())
    }
}

/// Help, or what is wrong with the arguments. These come from outside, and what is said has them in it.
fn misused(told: &clap::Error) -> ExitCode {
    if told.use_stderr() && std::env::args_os().any(|word| word.to_string_lossy().contains(crate::escape::is_steering))
    {
        input::say(&told.to_string());
    } else {
        told.print().ok();
    }
    ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(2))
}

/// Runs the command of this process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => return misused(&told),
    };
    cli.terminal.set();
    let done = match &cli.command {
        Command::Check(check) => check.run(),
        Command::Fmt(fmt) => fmt.run(),
        Command::Plan(plan) => plan.run(),
        Command::Show(show) => show.run(),
        Command::Compile(compile) => compile.run(),
        Command::Report(report) => report.run(),
        Command::Export(export) => export.run(),
        Command::Run(run) => run.run(),
        Command::Time(time) => time.run(),
        Command::Sweep(sweep) => sweep.run(),
        Command::Diff(diff) => diff.run(),
        Command::Snapshot(snapshot) => snapshot.run(),
        Command::Prove(prove) => prove.run(),
        Command::Hardware(hardware) => hardware.run(),
        Command::Calibrate(calibrate) => calibrate.run(),
        Command::Explain(explain) => explain.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Failure::Call(message) = &failure {
                input::say(&format!("error: {message}\n"));
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
