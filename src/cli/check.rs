//! `shardc check`

use super::input::{self, Source};
use super::{Failure, Format, Output, Sizes, files, folders, terminal};
use crate::advice;
use crate::compiler::{self, Options};
use crate::diag::{Diagnostics, Severity};
use crate::escape;
use crate::program::Program;
use crate::report::document;
use clap::Args;
use std::path::Path;

/// Most fixes that are applied to one program.
const MOST_FIXES: usize = 100;

#[derive(Debug, Args)]
pub(super) struct Check {
    /// Programs, or folders to search for `.shard` files; `-` is standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Apply the suggested fix of each error that has exactly one; with `--strict` and `--lenient` write what they print
    #[arg(long, conflicts_with = "set")]
    fix: bool,
    /// Forbid communication other than written collectives and moves
    #[arg(long)]
    strict: bool,
    /// Accept LaTeX and subscripts without `_`, and print the strict spelling
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    output: Output,
}

impl Check {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut bad = false;
        for path in &folders::programs(&self.paths)? {
            let mut source = input::source(path)?.with(&self.sizes.set).leniently(self.lenient);
            let fixes = if self.fix { self.fix(path, &mut source)? } else { 0 };
            let (program, diagnostics) = self.checked(&source)?;
            bad |= program.is_none();
            match self.output.format {
                Format::Json => input::print_json(&document::check(&source.name, &source.text, &diagnostics))?,
                Format::Text => {
                    input::tell(&diagnostics, &source);
                    let verdict = [applied(fixes), input::summary(&diagnostics).trim_end().to_owned()];
                    let verdict = verdict.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
                    let verdict = if verdict.is_empty() { "no errors or warnings".to_owned() } else { verdict };
                    let verdict = verdict + &program.as_ref().map(untested).unwrap_or_default();
                    if program.is_none() || !terminal::is_quiet() {
                        input::print(&format!("{}: {verdict}\n", escape::line(&source.name)))?;
                    }
                }
            }
        }
        if bad { Err(Failure::Program) } else { Ok(()) }
    }

    fn checked(&self, source: &Source) -> Result<(Option<Program>, Diagnostics), Failure> {
        let (mut program, mut diagnostics) = source.check(None)?;
        let found = program.as_ref().map(compiler::refused).unwrap_or_default();
        if found.has_errors() {
            diagnostics.extend(found);
            return Ok((None, diagnostics));
        }
        // What is written is seen in a plan, which takes its time.
        let strictly = program.as_ref().filter(|_| self.strict);
        if let Some(Err(found)) = strictly.map(|program| source.check_strict(program, &Options::default())) {
            diagnostics.extend(found);
            program = None;
        }
        Ok((program, diagnostics))
    }

    /// Applies fixes to a source and writes it; returns how many were applied.
    fn fix(&self, path: &str, source: &mut Source) -> Result<usize, Failure> {
        let file = Path::new(path);
        if path == "-" || !files::is_regular(file) {
            let shown = escape::line(&source.name).into_owned();
            return Err(Failure::Call(format!("cannot fix `{shown}`: not a regular file")));
        }
        let mut count = 0;
        if self.lenient {
            let (_, mut found) = source.check(None)?;
            found.retain(|found| found.code == "lenient-reading");
            let changed = advice::apply_all(&source.text, &found);
            // Readings of what is wrong in other ways may not fit together.
            if compiler::check(&changed).0.is_some() {
                count += found.iter().count();
                source.text = changed;
            }
        }
        while count < MOST_FIXES {
            let (program, mut found) = self.checked(source)?;
            if program.is_some() {
                break;
            }
            let is_strict = found.iter().any(|found| found.code == "unwritten-communication");
            let changed = if is_strict {
                found.retain(|found| found.severity == Severity::Error);
                Some(advice::apply_all(&source.text, &found)).filter(|changed| *changed != source.text)
            } else {
                advice::apply_one(&source.text, &found)
            };
            let Some(changed) = changed else { break };
            source.text = changed;
            count += 1;
        }
        if count > 0 {
            files::write(file, &source.text)?;
        }
        Ok(count)
    }
}

/// Formats `; 2 expect lines not tested (plan, time and run test them)`.
fn untested(program: &Program) -> String {
    match program.expectations.len() {
        0 => String::new(),
        count => {
            let lines = if count == 1 { "line" } else { "lines" };
            format!("; {count} expect {lines} not tested (plan, time and run test them)")
        }
    }
}

/// Formats `2 fixes applied`.
fn applied(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "1 fix applied".to_owned(),
        many => format!("{many} fixes applied"),
    }
}
