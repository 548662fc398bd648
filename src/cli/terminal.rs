//! What is drawn for people: colours, and how far a command is.

use clap::{Args, ValueEnum};
use std::io::IsTerminal;
use std::sync::OnceLock;

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum When {
    /// On terminals, unless the variable NO_COLOR is set
    #[default]
    Auto,
    /// Into files and pipes as well
    Always,
    /// Nowhere
    Never,
}

/// For all commands.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct Terminal {
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: When,
    /// Do not show how far a long command is
    #[arg(long, global = true)]
    no_progress: bool,
}

static ASKED: OnceLock<Terminal> = OnceLock::new();

impl Terminal {
    /// Sets the options for the rest of the process.
    pub(super) fn set(self) {
        ASKED.set(self).ok();
    }

    fn asked() -> Terminal {
        ASKED.get().copied().unwrap_or_default()
    }
}

/// Whether what is written there has colours.
pub(super) fn has_colors(stream: &impl IsTerminal) -> bool {
    match Terminal::asked().color {
        When::Auto => stream.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        When::Always => true,
        When::Never => false,
    }
}

/// Whether it is shown on standard error how far a command is.
pub(super) fn shows_progress() -> bool {
    !Terminal::asked().no_progress && std::io::stderr().is_terminal()
}
