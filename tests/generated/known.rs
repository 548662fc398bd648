//! Defects that are known and not mended yet: TEMPORARY. Each line goes when its defect is mended.

use super::program::Case;
use super::properties::Failure;

type Known = (&'static str, fn(&Case, &Failure) -> bool);

const DEFECTS: [Known; 5] = [
    ("scalars with a root panic", |_, failure| failure.class.starts_with("panic: src/schedule/builder.rs:2")),
    ("no plan with axes of one device", |case, failure| case.single && failure.class.ends_with(": no-plan")),
    ("sums of scalars, bitwise", |case, failure| case.modes.bitwise && failure.class == "compile: proof-malformed"),
    ("axes that a plan cuts cannot be read", |case, failure| {
        case.modes.costs == shardc::costs::CostModel::Bytes && failure.class == "text: cannot be read"
    }),
    ("slow plans", |_, failure| failure.class == "slow"),
];

/// The name of the known defect that a failure is due to.
pub(crate) fn defect(case: &Case, failure: &Failure) -> Option<&'static str> {
    DEFECTS.iter().find(|(_, is)| is(case, failure)).map(|(name, _)| *name)
}
