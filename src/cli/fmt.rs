//! `shardc fmt`

use super::input::{self, Source};
use super::{Failure, Format, Output, files};
use crate::escape;
use crate::syntax;
use clap::Args;
use serde::Serialize;
use std::path::Path;

#[derive(Debug, Args)]
pub(super) struct Fmt {
    /// Programs, which are rewritten; `-` reads standard input and writes standard output
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Write nothing, print the names of files that would change, and exit 1 if there are any
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    output: Output,
}

/// What became of one file.
#[derive(Serialize)]
struct Done<'a> {
    schema: &'static str,
    file: &'a str,
    /// Whether the canonical text is another one.
    changed: bool,
    /// That text, if it was read from standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

impl Fmt {
    /// Every file is seen to; one with syntax errors stays as it is.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut bad = false;
        for path in &self.files {
            let source = input::source(path)?;
            match syntax::format(&source.text) {
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

/// A pipe or a device cannot be rewritten.
fn write(path: &str, text: &str) -> Result<(), Failure> {
    let path = Path::new(path);
    if !files::is_regular(path) {
        let shown = input::shown(path);
        return Err(Failure::Call(format!(
            "cannot rewrite `{shown}`: it is no regular file; `-` formats standard input"
        )));
    }
    files::write(path, text)
}
