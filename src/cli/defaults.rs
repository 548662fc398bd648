//! `shardc.toml`: options that are given by default.
//!
//! The file is looked for in the current folder and above it; the nearest one counts. Each key is the long name of an
//! option. It is added to the command line of every command that has this option, unless it is given there; a table with
//! the name of a command holds options of that command alone:
//!
//! ```toml
//! hardware = "tpu_v5p"
//! costs = "exact"
//! paths = ["models"]       # what `check`, `fmt` and `snapshot` take if no path is given
//!
//! [sweep]
//! devices = 64
//! ```

use super::input;
use super::{Cli, Failure};
use crate::diag::{did_you_mean, nearest};
use crate::escape;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Name of the file.
const NAME: &str = "shardc.toml";
/// The key of the programs and folders that commands take if none is given.
const PATHS: &str = "paths";
/// The argument that `paths` stands for, in the commands that take several programs.
const FILES: &str = "paths";
/// Options that say where defaults are, or that run a command again and again.
const EXCLUDED: [&str; 5] = ["config", "no-config", "watch", "help", "version"];

/// The command line with defaults.
pub(super) struct Words {
    /// The words, the name of the program first.
    pub(super) all: Vec<OsString>,
    /// The file that defaults were taken from.
    pub(super) file: Option<PathBuf>,
    /// The words that it added.
    added: usize,
}

impl Words {
    /// The words without defaults.
    pub(super) fn given(&self) -> &[OsString] {
        &self.all[..self.all.len() - self.added]
    }

    /// The words that were added, as they would be typed.
    pub(super) fn added(&self) -> String {
        let added = self.all[self.all.len() - self.added..].iter();
        added.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }
}

/// Adds the defaults of the nearest `shardc.toml`, or of `--config FILE`, to a command line.
///
/// # Errors
/// If the file cannot be read, or has a key that no command knows.
pub(super) fn applied(given: Vec<OsString>) -> Result<Words, Failure> {
    let command = Cli::command();
    // What is wrong with the command line is said when it is parsed in earnest.
    let probe = command.clone().ignore_errors(true).try_get_matches_from(&given).ok();
    let subcommand = probe.as_ref().and_then(ArgMatches::subcommand);
    let Some((name, matches)) = subcommand.filter(|(_, matches)| !matches.get_flag("no_config")) else {
        return Ok(Words { all: given, file: None, added: 0 });
    };
    let Some(file) = matches.get_one::<PathBuf>("config").cloned().or_else(nearest_file) else {
        return Ok(Words { all: given, file: None, added: 0 });
    };
    let found = Defaults::read(&file)?;
    let mut all = given;
    // Behind `--` all words are files.
    if all.iter().any(|word| word == "--") {
        return Err(found.wrong(&format!("`--` cannot be combined with {NAME}; use `--no-config`")));
    }
    let added = found.words(&command, name, matches)?;
    let count = added.len();
    all.extend(added);
    Ok(Words { all, file: Some(file), added: count })
}

/// The nearest file, from the current folder up.
fn nearest_file() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let depth = here.ancestors().position(|folder| folder.join(NAME).is_file())?;
    // Relative, as a user would write it.
    Some((0..depth).map(|_| "..").collect::<PathBuf>().join(NAME))
}

struct Defaults<'a> {
    file: &'a Path,
    table: Table,
}

impl Defaults<'_> {
    fn read(file: &Path) -> Result<Defaults<'_>, Failure> {
        let source = input::source_at(file)?;
        let wrong = |error: toml::de::Error| {
            Failure::Call(format!("`{}`: {}", input::shown(file), error.to_string().trim_end()))
        };
        Ok(Defaults { file, table: source.text.parse().map_err(wrong)? })
    }

    fn wrong(&self, message: &str) -> Failure {
        Failure::Call(format!("`{}`: {}", input::shown(self.file), escape::line(message)))
    }

    /// The words that the file adds to a command.
    fn words(&self, cli: &Command, name: &str, matches: &ArgMatches) -> Result<Vec<OsString>, Failure> {
        let mut words = Vec::new();
        for (key, value) in &self.table {
            match value {
                Value::Table(options) => {
                    let Some(command) = cli.find_subcommand(key) else {
                        let commands = cli.get_subcommands().map(Command::get_name);
                        return Err(self.unknown("command", key, commands));
                    };
                    for (key, value) in options {
                        let known = options_of(command).chain(options_of(cli));
                        let known: Vec<&str> = known.chain(takes_paths(command).then_some(PATHS)).collect();
                        if !known.contains(&key.as_str()) {
                            return Err(self.unknown(
                                &format!("option of `{}`", command.get_name()),
                                key,
                                known.into_iter(),
                            ));
                        }
                        if command.get_name() == name {
                            words.extend(self.option(command, cli, matches, key, value)?);
                        }
                    }
                }
                _ => {
                    let all = cli.get_subcommands().flat_map(options_of).chain(options_of(cli)).chain([PATHS]);
                    let all: Vec<&str> = all.collect();
                    if !all.contains(&key.as_str()) {
                        return Err(self.unknown("option", key, all.into_iter()));
                    }
                    let own = self.table.get(name).and_then(Value::as_table);
                    let command = cli.find_subcommand(name).filter(|_| own.is_none_or(|own| !own.contains_key(key)));
                    if let Some(command) = command {
                        words.extend(self.option(command, cli, matches, key, value)?);
                    }
                }
            }
        }
        Ok(words)
    }

    fn unknown<'n>(&self, what: &str, key: &str, known: impl Iterator<Item = &'n str>) -> Failure {
        let help = nearest(key, known).map(|near| format!("; {}", did_you_mean(near))).unwrap_or_default();
        self.wrong(&format!("unknown {what} `{key}`{help}"))
    }

    /// The words of one option, if the command has it and it is not given.
    fn option(
        &self,
        command: &Command,
        cli: &Command,
        matches: &ArgMatches,
        key: &str,
        value: &Value,
    ) -> Result<Vec<OsString>, Failure> {
        let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        if key == PATHS {
            let is_missing = takes_paths(command) && !is_given(FILES);
            let values = if is_missing { self.values(key, value)? } else { Vec::new() };
            return Ok(values.into_iter().map(|path| self.beside(&path).into_os_string()).collect());
        }
        let options = command.get_arguments().chain(cli.get_arguments());
        let Some(option) = options.into_iter().find(|option| option.get_long() == Some(key)) else {
            return Ok(Vec::new());
        };
        if is_given(option.get_id().as_str()) {
            return Ok(Vec::new());
        }
        let flag = OsString::from(format!("--{key}"));
        if !option.get_action().takes_values() {
            return match value {
                Value::Boolean(true) => Ok(vec![flag]),
                Value::Boolean(false) => Ok(Vec::new()),
                _ => Err(self.wrong(&format!("`{key}` is `true` or `false`"))),
            };
        }
        let with = |value: String| {
            let is_file = Path::new(&value).extension().is_some_and(|extension| extension == "toml");
            let value = if is_file { self.beside(&value).into_os_string() } else { OsString::from(value) };
            [&flag, OsStr::new("="), &value].into_iter().collect::<OsString>()
        };
        Ok(self.values(key, value)?.into_iter().map(with).collect())
    }

    /// A value, or a list of them, as words.
    fn values(&self, key: &str, value: &Value) -> Result<Vec<String>, Failure> {
        let word = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            Value::Integer(number) => Ok(number.to_string()),
            Value::Float(number) => Ok(number.to_string()),
            Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
                Err(self.wrong(&format!("`{key}` is a string, a number or a list of those")))
            }
        };
        match value {
            Value::Array(values) => values.iter().map(word).collect(),
            one => Ok(vec![word(one)?]),
        }
    }

    /// A path of the file, which is relative to its folder.
    fn beside(&self, path: &str) -> PathBuf {
        self.file.parent().map_or_else(|| PathBuf::from(path), |folder| folder.join(path))
    }
}

/// The long names of the options of a command that can have defaults.
fn options_of(command: &Command) -> impl Iterator<Item = &str> {
    command.get_arguments().filter_map(|option| option.get_long()).filter(|name| !EXCLUDED.contains(name))
}

/// Whether a command takes several programs and folders.
fn takes_paths(command: &Command) -> bool {
    command.get_arguments().any(|argument| argument.get_id() == FILES)
}
