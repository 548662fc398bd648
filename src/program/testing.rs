//! Helpers of this module's tests.

use super::{Program, check};
use crate::diag::{Diagnostics, Severity};

/// Parses and checks a text; parser findings come first.
pub(super) fn check_text(source: &str) -> (Option<Program>, Diagnostics) {
    let (ast, mut diagnostics) = crate::syntax::parse(source);
    let (program, found) = check(&ast);
    diagnostics.extend(found);
    (program, diagnostics)
}

/// The codes of all findings of this severity.
pub(super) fn codes(diagnostics: &Diagnostics, severity: Severity) -> Vec<&str> {
    diagnostics.iter().filter(|found| found.severity == severity).map(|found| found.code.as_str()).collect()
}
