//! `shardc explain`

use super::{Failure, Format, Output, input};
use crate::diag::{did_you_mean, nearest};
use crate::explain;
use clap::Args;
use serde::Serialize;
use std::fmt::Write as _;

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The code to explain, such as `axis-reused`, or `language` or `functions`; by default all codes are listed
    code: Option<String>,
    #[command(flatten)]
    output: Output,
}

/// Explain pages as a JSON document.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    codes: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    code: &'static str,
    sentence: &'static str,
    wrong: Option<&'static str>,
    right: Option<&'static str>,
    markdown: &'static str,
}

impl Explain {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let topic = explain::TOPICS.iter().find(|(name, _)| self.code.as_deref() == Some(*name));
        if let (Some((_, text)), Format::Text) = (topic, self.output.format) {
            return input::print(text);
        }
        let pages: Vec<&explain::Page> = match &self.code {
            Some(code) => vec![explain::page(code).ok_or_else(|| unknown(code))?],
            None => explain::PAGES.iter().collect(),
        };
        match (self.output.format, &self.code) {
            (Format::Json, _) => input::print_json(&document(&pages)),
            (Format::Text, Some(_)) => input::print(&pages.iter().map(|page| page.text).collect::<String>()),
            (Format::Text, None) => input::print(&list(&pages)),
        }
    }
}

fn unknown(code: &str) -> Failure {
    let topics = explain::TOPICS.iter().map(|(name, _)| *name);
    if let Some(near) = nearest(code, explain::PAGES.iter().map(|page| page.code).chain(topics)) {
        return Failure::Call(format!("no diagnostic has the code `{code}`; {}", did_you_mean(near)));
    }
    let near: Vec<String> = explain::near(code).into_iter().map(|near| format!("`{near}`")).collect();
    Failure::Call(match near.as_slice() {
        [] => format!("no diagnostic has the code `{code}`; `shardc explain` lists all codes"),
        near => format!("no diagnostic has the code `{code}`; near it are {}", near.join(", ")),
    })
}

fn list(pages: &[&explain::Page]) -> String {
    let width = pages.iter().map(|page| page.code.len()).max().unwrap_or_default();
    let mut text = String::new();
    for page in pages {
        writeln!(text, "{:<width$}  {}", page.code, page.sentence()).expect("a string takes all");
    }
    text + "\n`shardc explain language` shows the notation on one page, `shardc explain functions` all functions.\n"
}

fn document(pages: &[&explain::Page]) -> Document {
    let entry = |page: &&explain::Page| Entry {
        code: page.code,
        sentence: page.sentence(),
        wrong: page.wrong(),
        right: page.right(),
        markdown: page.text,
    };
    Document { schema: "shardc.explain/1", codes: pages.iter().map(entry).collect() }
}
