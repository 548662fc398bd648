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
                let known = || cli.get_subcommands().map(|command| command.get_name()).collect::<Vec<_>>().join(", ");
                cli.find_subcommand(name)
                    .cloned()
                    .ok_or_else(|| Failure::Call(format!("unknown command `{name}`; commands are {}", known())))?
            }
        };
        let mut text = Vec::new();
        clap_mangen::Man::new(about).render(&mut text)?;
        input::put(&String::from_utf8_lossy(&text))
    }
}
