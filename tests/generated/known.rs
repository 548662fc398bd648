//! Defects that are known and not mended yet: TEMPORARY. Each line goes when its defect is mended.

use super::program::Case;
use super::properties::Failure;

type Known = (&'static str, fn(&Case, &Failure) -> bool);

const DEFECTS: [Known; 9] = [
    ("open sums of floats times integers are refused", |_, failure| {
        failure.class.starts_with("check: open-sum-misuse") && failure.detail.contains("small integers that wrap")
    }),
    ("strict lines beside holes", |case, failure| failure.class == "strict: no lines" && case.source.contains("_?")),
    ("strict lines bind a name that is used", |_, failure| {
        let bound_again = ["layout-mismatch", "open-sum-invented"];
        failure.class == "strict: no lines" && bound_again.iter().any(|code| failure.detail.contains(code))
    }),
    ("strict lines beside a way of a product", |case, failure| {
        failure.class == "strict: no lines" && case.source.contains(" by ")
    }),
    ("strict lines above a repeat", |case, failure| {
        failure.class == "strict: no lines" && case.source.contains("repeat ")
    }),
    ("JAX: an open sum is handed on", |_, failure| failure.class == "panic: src/export/jax/device.rs:177"),
    ("strict lines of an input without a declaration", |_, failure| {
        failure.class == "strict: no lines" && !failure.detail.contains("strict: offered")
    }),
    ("strict search of outputs between holes", |case, failure| {
        case.modes.strict && failure.class == "panic: src/plan/build.rs:42"
    }),
    ("slow plans", |_, failure| failure.class.starts_with("slow") && std::env::var_os("SHARDC_SHOW_SLOW").is_none()),
];

/// The name of the known defect that a failure is due to.
pub(crate) fn defect(case: &Case, failure: &Failure) -> Option<&'static str> {
    DEFECTS.iter().find(|(_, is)| is(case, failure)).map(|(name, _)| *name)
}
