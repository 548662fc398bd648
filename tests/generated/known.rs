//! Defects that are known and not mended yet: TEMPORARY. Each line goes when its defect is mended.

use super::program::Case;
use super::properties::Failure;

type Known = (&'static str, fn(&Case, &Failure) -> bool);

const DEFECTS: [Known; 6] = [
    ("strict lines of axes that the plan cuts in parts", |case, failure| {
        failure.class == "strict: no lines" && case.modes.costs == shardc::costs::CostModel::Bytes
    }),
    ("strict lines of a repeat inside a repeat", |case, failure| {
        failure.class == "strict: no lines" && case.source.matches("repeat ").count() > 1
    }),
    ("strict lines of a padded sum whose operand is given another name", |case, failure| {
        failure.class == "strict: no lines" && case.source.contains("_T(rename_{K->T}(")
    }),
    ("strict lines beside an axis of one device", |case, failure| {
        let mesh = case.source.lines().next().unwrap_or_default();
        let is_one = |axis: &str| axis.split(": ").nth(1).is_some_and(|size| size.split(' ').next() == Some("1"));
        failure.class == "strict: no lines" && mesh.split([',', '}']).any(is_one)
    }),
    ("sums that are asked for open over an axis of one device, beside a sum of squares over it", |case, failure| {
        failure.class == "compile: no-plan" && case.source.contains("SQUARE_ADD_") && case.source.contains(": 1")
    }),
    ("slow plans", |_, failure| failure.class.starts_with("slow") && std::env::var_os("SHARDC_SHOW_SLOW").is_none()),
];

/// The name of the known defect that a failure is due to.
pub(crate) fn defect(case: &Case, failure: &Failure) -> Option<&'static str> {
    DEFECTS.iter().find(|(_, is)| is(case, failure)).map(|(name, _)| *name)
}
