//! `shardc fmt`

use super::input::{self, Source};
use super::{Failure, Format, Output, files, folders};
use crate::advice;
use crate::diag::Diagnostics;
use crate::escape;
use crate::syntax;
use clap::Args;
use serde::Serialize;
use std::path::Path;

#[derive(Debug, Args)]
pub(super) struct Fmt {
    /// Programs to format in place, or folders to search for `.shard` files; `-` formats standard input to standard output
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Write nothing; list files that are not formatted and exit 1 if there are any
    #[arg(long)]
    check: bool,
    /// Also write out what `--lenient` accepts: LaTeX, subscripts without `_`, missing sizes
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    output: Output,
}

/// Result for one file, as a JSON document.
#[derive(Serialize)]
struct Done<'a> {
    schema: &'static str,
    file: &'a str,
    /// Whether formatting changes the file.
    changed: bool,
    /// The formatted text of standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

impl Fmt {
    /// Formats every file; files with syntax errors are left unchanged.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut bad = false;
        for path in &folders::programs(&self.paths)? {
            let source = input::source(path)?;
            match self.formatted(&source.text) {
                Ok(text) => {
                    self.put(path, &source, &text)?;
                    bad |= self.check && text != source.text;
                }
                Err(diagnostics) => {
                    input::fault(&source, &diagnostics, self.output.format);
                    bad = true;
                }
            }
        }
        if bad { Err(Failure::Program) } else { Ok(()) }
    }

    /// The text in canonical style.
    fn formatted(&self, text: &str) -> Result<String, Diagnostics> {
        if !self.lenient {
            return syntax::format(text);
        }
        let (_, mut found) = syntax::parse_lenient(text);
        if found.has_errors() {
            return Err(found);
        }
        found.retain(|found| found.code == "lenient-reading");
        syntax::format(&advice::apply_all(text, &found))
    }

    fn put(&self, path: &str, source: &Source, text: &str) -> Result<(), Failure> {
        let changed = text != source.text;
        let stream = path == "-";
        if changed && !self.check && !stream {
            write(path, text)?;
        }
        match self.output.format {
            Format::Json => {
                let text = (stream && !self.check).then_some(text);
                input::print_json(&Done { schema: "shardc.fmt/1", file: &source.name, changed, text })
            }
            Format::Text if self.check && changed => input::print(&format!("{}\n", escape::line(&source.name))),
            Format::Text if stream && !self.check => input::put(text),
            Format::Text => Ok(()),
        }
    }
}

/// Replaces a regular file; pipes and devices cannot be formatted in place.
fn write(path: &str, text: &str) -> Result<(), Failure> {
    let path = Path::new(path);
    if !files::is_regular(path) {
        let shown = input::shown(path);
        return Err(Failure::Call(format!(
            "cannot format `{shown}` in place: not a regular file; `-` formats standard input"
        )));
    }
    files::write(path, text)
}
