//! The report of a program, or of a sweep, as one HTML file that makes no network requests.
//!
//! The file embeds a JSON document and a script that draws it.
//!
//! ```text
//! figures  the figures at the top of the page
//! data     the document                   player   the messages of a collective, event by event
//! page.html, style.css, script/           the template of the page
//! ```

mod data;
mod figures;
mod player;

pub use data::Refused;

use crate::compiler::Compiled;
use crate::diag::Diagnostics;
use crate::escape;
use crate::recipe::Lowering;
use crate::report::sweep::SweepDocument;
use crate::sim::clock::{Record, Timing};
use serde::Serialize;

/// The template.
const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
/// Concatenated into one script.
const SCRIPT: &str = concat!(
    include_str!("script/base.js"),
    include_str!("script/summary.js"),
    include_str!("script/program.js"),
    include_str!("script/layouts.js"),
    include_str!("script/plan.js"),
    include_str!("script/links.js"),
    include_str!("script/timeline.js"),
    include_str!("script/player.js"),
    include_str!("script/theme.js"),
    include_str!("script/page.js"),
);
/// The script of a sweep.
const SWEEP: &str =
    concat!(include_str!("script/base.js"), include_str!("script/theme.js"), include_str!("script/sweep.js"));

/// A program and its diagnostics.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The name of its file.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
    /// Its errors and warnings.
    pub diagnostics: &'a Diagnostics,
}

/// The report of a program that was compiled and timed.
///
/// - `assumed`: whether the program does not name its hardware.
pub fn report(
    source: Source<'_>,
    compiled: &Compiled,
    (timing, record): (&Timing, &Record),
    lowering: Lowering,
    assumed: bool,
) -> String {
    page(source.name, SCRIPT, &data::Document::new(source, compiled, (timing, record), lowering, assumed))
}

/// The report of a program with errors.
pub fn refused(source: Source<'_>) -> String {
    page(source.name, SCRIPT, &Refused::new(source))
}

/// The plots and the table of a sweep.
pub fn sweep(name: &str, points: &SweepDocument<'_>) -> String {
    page(name, SWEEP, points)
}

fn page(name: &str, script: &str, document: &impl Serialize) -> String {
    let data = escape::json_in_html(&serde_json::to_string(document).expect("strings and finite numbers"));
    let title = escape::xml(name);
    let parts = [("title", title.as_str()), ("style", STYLE), ("script", script), ("data", &data)];
    let mut text = String::with_capacity(PAGE.len() + STYLE.len() + script.len() + data.len() + 256);
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
