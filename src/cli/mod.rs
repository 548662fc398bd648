//! The command line: arguments, defaults, files, colours and exit codes. All input and output of the crate happens here.

mod arrays;
mod audit;
mod calibrate;
mod check;
mod compile;
mod completions;
mod computed;
mod defaults;
mod diff;
mod effort;
mod engine;
mod explain;
mod export;
mod files;
mod fmt;
mod folders;
mod foreign;
mod hardware;
mod import;
mod init;
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
mod sources;
mod sweep;
mod terminal;
mod tune;
mod watch;

use crate::compiler::{Options, Overlapping, Resharding};
use crate::costs::CostModel;
use crate::recipe::Lowering;
use crate::syntax::Extent;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use pictures::Pictures;
use std::ffi::OsString;
use std::process::ExitCode;

/// A compiler for the sharding notation of "How To Scale Your Model".
///
/// It checks the layouts of a `.shard` program, chooses the cheapest communication, lowers it to device operations,
/// proves them correct, runs them on a simulated mesh and reports the time.
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
    /// Write a first program and a file of defaults
    Init(init::Init),
    /// Check programs and report errors and warnings
    Check(check::Check),
    /// Convert a JAX model, as StableHLO text, to a program
    Import(import::Import),
    /// Format programs in place; comments are kept
    Fmt(fmt::Fmt),
    /// Show communication, its cost, and the alternatives
    Plan(plan::Plan),
    /// Draw arrays as the shards that devices hold
    Show(show::Show),
    /// Print the program, the plan or the schedule
    Compile(compile::Compile),
    /// Write an HTML report: layouts, plan, schedule, links, timeline, and each collective step by step
    Report(report::Report),
    /// Export to other tools: SVG, Graphviz, Mermaid, Perfetto, JAX, StableHLO, MSCCL, MSCCL++, GOAL, Chakra
    Export(export::Export),
    /// Prove, simulate and time a program, and compare its result with the dense computation
    Run(run::Run),
    /// Prove and time a program without computing it (any size)
    Time(run::Time),
    /// Plan a program at many sizes, meshes and machines, and mark the best
    Sweep(sweep::Sweep),
    /// Find the fastest mesh and layouts for a number of devices
    Tune(tune::Tune),
    /// Compare the plans of two programs
    Diff(diff::Diff),
    /// Compare what a module partitioned by XLA communicates with the plan of its program
    Audit(audit::Audit),
    /// Write plan snapshots next to programs and report changes
    Snapshot(snapshot::Snapshot),
    /// Prove a schedule, an MSCCL or MSCCL++ file, or a folder of traces
    Prove(schedule::Prove),
    /// List the hardware profiles, or print one as TOML
    Hardware(hardware::Hardware),
    /// Measure this machine, or fit a table of measurements, and write a hardware profile
    Calibrate(calibrate::Calibrate),
    /// Explain a diagnostic code with an example, or list all codes
    Explain(explain::Explain),
    /// Print a shell completion script
    Completions(completions::Completions),
    /// Print a manual page in roff
    Man(completions::Man),
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Human-readable text
    #[default]
    Text,
    /// One JSON document per line, with a `schema` field
    Json,
}

/// Options of every command that plans.
#[derive(Debug, Args)]
struct Common {
    /// Override the program's hardware: a profile name or a TOML file
    #[arg(long, value_name = "NAME|FILE.toml")]
    hardware: Option<String>,
    /// Override the latency of a hop on all networks, such as `500ns`; with `0` only bytes and operations count
    #[arg(long, value_name = "TIME", value_parser = input::latency)]
    latency: Option<u64>,
    /// Cost model of the planner
    #[arg(long, value_enum, default_value_t)]
    costs: CostModel,
    /// Keep each AllGather as one operation instead of lowering it to messages
    #[arg(long)]
    keep_allgather: bool,
    /// Make replicas of floating-point sums bitwise equal: every device adds in the same order
    #[arg(long)]
    bitwise: bool,
    /// Overlap communication with computation by splitting and reordering steps
    #[arg(long, value_enum, default_value_t)]
    overlap: Overlapping,
    /// How arrays are resharded where no collective is written
    #[arg(long, value_enum, default_value_t)]
    reshard: Resharding,
    /// Do not reorder, share or hoist products
    #[arg(long)]
    as_written: bool,
    /// Forbid communication other than written collectives and moves
    #[arg(long)]
    strict: bool,
    /// Accept LaTeX and subscripts without `_`, and print the strict spelling
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    effort: effort::Effort,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    output: Output,
}

/// Sizes of dims and axes that override the program's.
#[derive(Clone, Debug, Args)]
struct Sizes {
    /// Override the size of a dim or a mesh axis, or an axis as a whole: `X=4x4`, `"D=16 over ib"`
    #[arg(long, value_name = "NAME=SIZE", value_parser = input::size)]
    set: Vec<(String, Extent)>,
}

#[derive(Clone, Copy, Debug, Args)]
struct Output {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Common {
    /// Applies `--set` and `--lenient` to a source.
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

    /// The options that differ from their defaults, as command-line arguments.
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
    /// The options that apply to a schedule file.
    ///
    /// # Errors
    /// If an option that applies only to programs is given.
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
            Some((option, _)) => Err(Failure::Call(format!("`{option}` applies to programs; the input is a schedule"))),
            None => self.options(),
        }
    }
}

/// Why a command stops early.
#[derive(Debug)]
enum Failure {
    /// The program is wrong; already reported. Exit 1.
    Program,
    /// The command line or a file is wrong; the message to print. Exit 2.
    Call(String),
    /// The command was interrupted and has printed what it had found. Exit 130.
    Interrupted,
    /// Another process has reported the failure; exit with its code.
    #[cfg_attr(not(feature = "mpi"), expect(dead_code, reason = "there are no other processes"))]
    Reported(u8),
}

impl Failure {
    /// Exit code of the process.
    fn exit_code(&self) -> u8 {
        match self {
            Failure::Program => 1,
            Failure::Call(_) => 2,
            Failure::Interrupted => 130,
            Failure::Reported(code) => *code,
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Call(error.to_string())
    }
}

/// Adds a tip to the error about an unknown option that is a value of another one: `--json` for `--format json`.
fn add_tip(error: &mut clap::Error, words: &[OsString]) {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return };
    let Some(value) = flag.strip_prefix("--").filter(|_| error.kind() == ErrorKind::UnknownArgument) else { return };
    let cli = Cli::command();
    let Some(command) = words.iter().find_map(|word| cli.find_subcommand(word)) else { return };
    let is_value = |option: &&clap::Arg| option.get_possible_values().iter().any(|known| known.matches(value, true));
    let option = command.get_arguments().chain(cli.get_arguments()).filter(|option| option.get_long().is_some());
    let tip =
        option.into_iter().find(is_value).and_then(|option| Some(format!("write `--{} {value}`", option.get_long()?)));
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

/// Prints help or a usage error. The message contains arguments, so control characters are escaped.
fn misused(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|word| word.to_string_lossy().contains(crate::escape::is_steering))
    {
        input::say(&error.to_string());
    } else {
        error.print().ok();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Parses the arguments and runs the command.
pub fn main() -> ExitCode {
    let words = match defaults::applied(std::env::args_os().collect()) {
        Ok(words) => words,
        Err(failure) => return ended(Err(failure)),
    };
    let cli = match Cli::try_parse_from(&words.all) {
        Ok(cli) => cli,
        Err(mut error) => {
            add_tip(&mut error, &words.all);
            // Only what the file adds can be wrong with a line that is right without it.
            if let Some(file) = words.file.as_deref().filter(|_| Cli::try_parse_from(words.given()).is_ok()) {
                input::say(&format!("error in `{}`, which adds `{}`\n", input::shown(file), words.added()));
            }
            return misused(&error);
        }
    };
    let watches = cli.terminal.watch;
    cli.terminal.set();
    if let Some(file) = words.file.as_deref().filter(|_| terminal::is_verbose()) {
        input::say(&format!("defaults of {}: {}\n", input::shown(file), words.added()));
    }
    ended(if watches { watch::forever(&words) } else { run(&cli.command) })
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Init(init) => init.run(),
        Command::Check(check) => check.run(),
        Command::Import(import) => import.run(),
        Command::Fmt(fmt) => fmt.run(),
        Command::Plan(plan) => plan.run(),
        Command::Show(show) => show.run(),
        Command::Compile(compile) => compile.run(),
        Command::Report(report) => report.run(),
        Command::Export(export) => export.run(),
        Command::Run(run) => run.run(),
        Command::Time(time) => time.run(),
        Command::Sweep(sweep) => sweep.run(),
        Command::Tune(tune) => tune.run(),
        Command::Diff(diff) => diff.run(),
        Command::Audit(audit) => audit.run(),
        Command::Snapshot(snapshot) => snapshot.run(),
        Command::Prove(prove) => prove.run(),
        Command::Hardware(hardware) => hardware.run(),
        Command::Calibrate(calibrate) => calibrate.run(),
        Command::Explain(explain) => explain.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    }
}

/// Prints why a command failed, and its exit code.
fn ended(done: Result<(), Failure>) -> ExitCode {
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
