//! `shardc completions` and `shardc man`, from the definition of the command line.

use super::{Cli, Failure, input};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

#[derive(Debug, Args)]
pub(super) struct Completions {
    /// Shell to generate completions for
    shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct Man {
    /// Command to document; by default `shardc` itself
    command: Option<String>,
}

impl Completions {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "shardc", &mut text);
        input::put(&String::from_utf8_lossy(&text))
    }
}

impl Man {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut cli = Cli::command();
        // The pages of commands are named and linked by it: `shardc-plan(1)`.
        cli.build();
        let about = match &self.command {
            None => cli,
            Some(name) => {
                let known = || cli.get_subcommands().map(|command| command.get_name());
                cli.find_subcommand(name).cloned().ok_or_else(|| input::unknown("command", name, known()))?
            }
        };
        let mut text = Vec::new();
        let statuses = exit_statuses(self.command.as_deref());
        clap_mangen::Man::new(about).render(&mut text)?;
        text.extend(statuses.into_bytes());
        input::put(&String::from_utf8_lossy(&text))
    }
}

/// Exit statuses and their meanings.
const STATUSES: [(u8, &str); 4] = [
    (0, "success"),
    (1, "the program has errors, an expect or limit line does not hold, a proof fails, or a check finds differences"),
    (2, "the command line or a file is invalid"),
    (130, "sweep or tune was interrupted and printed what it had found; a second interrupt ends it at once"),
];

/// The section of exit statuses of a manual page, in roff.
///
/// - `command`: the command of the page; `None` for the page of `shardc`.
fn exit_statuses(command: Option<&str>) -> String {
    let applies = |status: u8| match (status, command) {
        (1, Some("init" | "hardware" | "explain" | "completions" | "man")) => false,
        (130, Some(command)) => ["sweep", "tune"].contains(&command),
        _ => true,
    };
    let entry = |(status, meaning): &(u8, &str)| format!(".TP\n{status}\n{meaning}\n");
    let entries = STATUSES.iter().filter(|(status, _)| applies(*status)).map(entry);
    [".SH \"EXIT STATUS\"\n".to_owned()].into_iter().chain(entries).collect()
}
