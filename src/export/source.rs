//! Source lines of statements, for comments in exported code.

use crate::span::Span;

/// The line on which a statement or expression begins: its number from 1, and its trimmed text.
pub(crate) fn line(source: &str, span: Span) -> (usize, &str) {
    let before = source.get(..span.range().start).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let text = source.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    (before.matches('\n').count() + 1, text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_around_an_expression() {
        let source = "a\n  C = relu(A * B)\n";
        let at = source.find("A *").and_then(|at| u32::try_from(at).ok()).expect("it is there");
        assert_eq!(line(source, Span { start: at, end: at + 5 }), (2, "C = relu(A * B)"));
        assert_eq!(line(source, Span { start: 90, end: 95 }), (1, "a"));
    }
}
