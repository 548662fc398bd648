//! Options of all commands: colours, width, how much is said, defaults and `--watch`.

use clap::{Args, ValueEnum};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::OnceLock;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum When {
    /// On terminals, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also in files and pipes
    Always,
    /// Never
    Never,
}

/// Options of all commands.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Terminal {
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: When,
    /// Width of tables and pictures in columns [default: the terminal's; unlimited in files and pipes]
    #[arg(long, global = true, value_name = "COLUMNS")]
    width: Option<usize>,
    /// Hide progress bars
    #[arg(long, global = true)]
    no_progress: bool,
    /// Print results and errors only: no warnings, no notes, no hints
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print defaults that are in effect, and how long each stage takes
    #[arg(long, short, global = true)]
    verbose: bool,
    /// Run the command again whenever one of its files changes
    #[arg(long, global = true)]
    pub(super) watch: bool,
    /// File of defaults [default: the nearest shardc.toml, from the current folder up]
    #[arg(long, global = true, value_name = "FILE.toml", conflicts_with = "no_config")]
    config: Option<PathBuf>,
    /// Ignore shardc.toml
    #[arg(long, global = true)]
    no_config: bool,
}

static ASKED: OnceLock<Terminal> = OnceLock::new();

impl Terminal {
    /// Applies the options for the rest of the process.
    pub(super) fn set(self) {
        ASKED.set(self).ok();
    }

    fn asked() -> &'static Terminal {
        ASKED.get_or_init(Terminal::default)
    }
}

/// Whether a stream takes colours.
pub(super) fn has_colors(stream: &impl IsTerminal) -> bool {
    match Terminal::asked().color {
        When::Auto => stream.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        When::Always => true,
        When::Never => false,
    }
}

/// The smallest width that is used.
const NARROWEST: usize = 40;

/// The width of standard output: `--width`, or that of the terminal; `None` for files and pipes without `--width`.
pub(super) fn width() -> Option<usize> {
    let own = || terminal_size::terminal_size_of(std::io::stdout()).map(|(columns, _)| usize::from(columns.0));
    Terminal::asked().width.or_else(own).map(|width| width.max(NARROWEST))
}

/// The width of diagnostics on standard error.
pub(super) fn error_width() -> usize {
    let own = terminal_size::terminal_size_of(std::io::stderr()).map(|(columns, _)| usize::from(columns.0));
    own.map_or(80, |width| width.clamp(NARROWEST, 100))
}

/// The width of pictures.
pub(super) fn picture_width() -> usize {
    width().map_or(80, |width| width.min(120))
}

/// Whether only results and errors are printed.
pub(super) fn is_quiet() -> bool {
    Terminal::asked().quiet
}

/// Whether defaults and durations are printed.
pub(super) fn is_verbose() -> bool {
    Terminal::asked().verbose
}

/// Whether progress is shown on standard error.
pub(super) fn shows_progress() -> bool {
    !Terminal::asked().no_progress && std::io::stderr().is_terminal()
}
