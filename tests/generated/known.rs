//! Defects that are known and not mended yet: TEMPORARY. Each line goes when its defect is mended.

use super::program::Case;
use super::properties::Failure;

type Known = (&'static str, fn(&Case, &Failure) -> bool);

const DEFECTS: [Known; 16] = [
    ("scalars with a root panic", |_, failure| failure.class.starts_with("panic: src/schedule/builder.rs:2")),
    ("no plan with axes of one device", |case, failure| case.single && failure.class.ends_with(": no-plan")),
    ("sums of scalars, bitwise", |case, failure| case.modes.bitwise && failure.class == "compile: proof-malformed"),
    ("axes that a plan cuts cannot be read", |case, failure| {
        case.modes.costs == shardc::costs::CostModel::Bytes && failure.class == "text: cannot be read"
    }),
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
    ("the tolerance of f64 knows nothing of f32", |case, failure| {
        failure.class.ends_with("numbers differ") && (case.source.contains("f64") || case.source.contains("float64"))
    }),
    ("holes of inputs under a limit, and no plan", |case, failure| {
        case.single && failure.class == "panic: src/plan/holes.rs:68"
    }),
    ("squares over one device in another order of dims", |case, failure| {
        case.single && failure.class == "compile: proof-wrong-array" && case.source.contains("SQUARE_ADD")
    }),
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
