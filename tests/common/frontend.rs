//! Properties of the front end for any input text, shared by the soak test and the fuzz target.

use shardc::compiler;
use shardc::diag::Diagnostics;
use shardc::syntax;

/// The last stage that a text reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reached {
    /// It cannot be parsed.
    Nothing,
    /// It can be parsed and formatted.
    Syntax,
    /// It is a valid program.
    Program,
}

/// Parses, checks and formats a text.
///
/// # Panics
/// If a diagnostic has no place in the text, or if formatting is not idempotent, changes the meaning, or loses a
/// comment.
pub(crate) fn survive(source: &str) -> Reached {
    let (program, found) = compiler::check(source);
    assert_places(source, &found);
    let text = match syntax::format(source) {
        Err(syntax) => {
            assert!(syntax.has_errors() && program.is_none(), "refused to format what can be read");
            return Reached::Nothing;
        }
        Ok(text) => text,
    };
    let (ast, syntax) = syntax::parse(source);
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

/// Asserts that every label is inside the text, at character boundaries.
fn assert_places(source: &str, diagnostics: &Diagnostics) {
    for diagnostic in diagnostics.iter() {
        for label in &diagnostic.labels {
            assert!(source.get(label.span.range()).is_some(), "{} at {:?}", diagnostic.code, label.span);
        }
    }
}

/// The codes found, sorted: another spelling may change their order.
fn codes(diagnostics: &Diagnostics) -> Vec<&str> {
    let mut codes: Vec<&str> = diagnostics.iter().map(|diagnostic| diagnostic.code.as_str()).collect();
    codes.sort_unstable();
    codes
}

/// The comments in order, without trailing blanks.
fn comments(source: &str) -> Vec<&str> {
    let blank = |c: char| c.is_whitespace() || c == '\u{FEFF}';
    source.split('\n').filter_map(|line| line.find('#').map(|at| line[at..].trim_end_matches(blank))).collect()
}
