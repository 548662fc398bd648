//! A report as one file of HTML: it asks the network for nothing, and opens from disk.
//!
//! What it shows is a document of JSON within it; a script of its own draws it.
//!
//! ```text
//! data     the document                   player   what moves in a collective, and what devices hold then
//! page.html, style.css, script/           the page, as it is written into each file
//! ```

mod data;
mod player;

pub use data::Refused;

use crate::compiler::Compiled;
use crate::diag::Diagnostics;
use crate::escape;
use crate::recipe::Lowering;
use crate::sim::clock::{Record, Timing};
use serde::Serialize;

/// The page around what is filled in.
const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
/// Read one after the other as one script.
const SCRIPT: &str = concat!(
    include_str!("script/base.js"),
    include_str!("script/program.js"),
    include_str!("script/layouts.js"),
    include_str!("script/plan.js"),
    include_str!("script/links.js"),
    include_str!("script/timeline.js"),
    include_str!("script/player.js"),
    include_str!("script/page.js"),
);

/// A program with what was found of it.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// What its file is called.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
    /// What was found.
    pub diagnostics: &'a Diagnostics,
}

/// The report of a program that was compiled and timed.
///
/// - `assumed`: whether nobody has named the hardware.
pub fn report(
    source: Source<'_>,
    compiled: &Compiled,
    (timing, record): (&Timing, &Record),
    lowering: Lowering,
    assumed: bool,
) -> String {
    page(source.name, &data::Document::new(source, compiled, (timing, record), lowering, assumed))
}

/// The report of a program that is wrong: its text and why.
pub fn refused(source: Source<'_>) -> String {
    page(source.name, &Refused::new(source))
}

fn page(name: &str, document: &impl Serialize) -> String {
    let data = escape::json_in_html(&serde_json::to_string(document).expect("strings and finite numbers"));
    let title = escape::xml(name);
    let parts = [("title", title.as_str()), ("style", STYLE), ("script", SCRIPT), ("data", &data)];
    let mut text = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + data.len() + 256);
    // What is filled in is not looked through again.
    for piece in PAGE.split("{{") {
        let (filled, rest) = match piece.split_once("}}") {
            Some((key, rest)) => (parts.iter().find(|(known, _)| *known == key).map(|(_, part)| *part), rest),
            None => (None, piece),
        };
        text.push_str(filled.unwrap_or_default());
        text.push_str(rest);
    }
    text
}
