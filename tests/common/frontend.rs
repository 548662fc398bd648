//! What must hold of any text that is given to the front end. The soak test and the fuzz target share it.

use shardc::compiler;
use shardc::diag::Diagnostics;
use shardc::syntax;

/// How far a text came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reached {
    /// It cannot be read.
    Nothing,
    /// It can be read, and formatted.
    Syntax,
    /// It has a meaning.
    Program,
}

/// Reads, checks and formats a text.
///
/// # Panics
/// If a finding has no place in the text, or a formatted text differs when it is formatted again, or means something
/// else, or has lost a comment.
pub(crate) fn survive(source: &str) -> Reached {
    let (ast, syntax) = syntax::parse(source);
    let (program, found) = compiler::check(source);
    assert_places(source, &found);
    let text = match syntax::format(source) {
        Err(_) => {
            assert!(syntax.has_errors(), "refused to format what can be read");
            return Reached::Nothing;
        }
        Ok(text) => text,
    };
    assert!(!syntax.has_errors(), "formatted what cannot be read");
    assert_eq!(syntax::format(&text).as_ref(), Ok(&text), "formatted twice");
    assert_eq!(syntax::parse(&text).0.to_string(), ast.to_string(), "the formatted text says something else");
    assert_eq!(comments(&text), comments(source), "a comment was lost");
    let (again, found_again) = compiler::check(&text);
    assert_eq!(codes(&found_again), codes(&found), "{text}");
    let printed = program.map(|program| program.to_string());
    assert_eq!(again.map(|program| program.to_string()), printed, "{text}");
    if printed.is_some() { Reached::Program } else { Reached::Syntax }
}

/// Every label lies in the text, between characters.
fn assert_places(source: &str, diagnostics: &Diagnostics) {
    for diagnostic in diagnostics.iter() {
        for label in &diagnostic.labels {
            assert!(source.get(label.span.range()).is_some(), "{} at {:?}", diagnostic.code, label.span);
        }
    }
}

/// What was found, whatever stands first: a spelling may begin with what another one has in its middle.
fn codes(diagnostics: &Diagnostics) -> Vec<&str> {
    let mut codes: Vec<&str> = diagnostics.iter().map(|diagnostic| diagnostic.code.as_str()).collect();
    codes.sort_unstable();
    codes
}

/// The comments in order, without the blanks at their ends.
fn comments(source: &str) -> Vec<&str> {
    let blank = |c: char| c.is_whitespace() || c == '\u{FEFF}';
    source.split('\n').filter_map(|line| line.find('#').map(|at| line[at..].trim_end_matches(blank))).collect()
}
