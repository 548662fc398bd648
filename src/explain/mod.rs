//! One page per diagnostic code: the rule, its reason, a program or schedule that breaks it, and one that does not.
//!
//! The pages are Markdown files, `pages/CODE.md`: a heading with the code, one sentence, the reasons, and the two
//! programs.

use strsim::osa_distance;

/// The page of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The code, for example `axis-reused`.
    pub code: &'static str,
    /// The full page in Markdown.
    pub text: &'static str,
}

macro_rules! pages {
    ($($code:literal,)*) => {
        &[$(Page { code: $code, text: include_str!(concat!("pages/", $code, ".md")) }),*]
    };
}

/// All pages, sorted by code.
pub const PAGES: &[Page] = pages![
    "algorithm-unreadable",
    "algorithm-wrong",
    "ambiguous-axis",
    "array-redeclared",
    "array-too-large",
    "audit-unreadable",
    "axis-repeated",
    "axis-reused",
    "bad-amount",
    "bad-division",
    "bad-percent",
    "collective-axis",
    "collective-dim",
    "collective-result",
    "contraction-unclear",
    "control-character",
    "cut-across",
    "default-hardware",
    "dim-lost",
    "dim-missing",
    "dim-not-shared",
    "dim-of-parts",
    "dim-redeclared",
    "dim-repeated",
    "dims-left-out",
    "dtype-mismatch",
    "dtype-without-brackets",
    "expect-failed",
    "fabric-axis",
    "fabric-size",
    "foreign-syntax",
    "function-arguments",
    "function-body",
    "function-redeclared",
    "function-subscript",
    "gather-major",
    "gathered-then-cut",
    "hardware-profile",
    "implicit-input",
    "import-no-mesh",
    "import-too-large",
    "import-unreadable",
    "import-unsupported",
    "in-call",
    "input-hole",
    "input-mismatch",
    "input-missing",
    "invalid-root",
    "kernel-declaration",
    "kernel-padded",
    "kernel-without-numbers",
    "layout-mismatch",
    "layout-unknown",
    "lenient-reading",
    "limit-exceeded",
    "literal-contracted",
    "local-layout",
    "local-result",
    "mesh-cut",
    "mesh-late",
    "mesh-repeated",
    "mesh-shape",
    "mesh-too-large",
    "method-not-applicable",
    "near-name",
    "needs-bool",
    "needs-float",
    "needs-number",
    "network-too-small",
    "no-common-tick",
    "no-device",
    "no-link",
    "no-mesh",
    "no-plan",
    "no-result",
    "no-such-slice",
    "not-a-result",
    "not-exported",
    "not-in-repeat",
    "number-result",
    "number-too-large",
    "number-without-value",
    "open-sum-invented",
    "open-sum-misuse",
    "operator-dtype",
    "padded",
    "parameter-mismatch",
    "part-repeated",
    "partial-hole",
    "piece-count",
    "pin-impossible",
    "pin-operand",
    "pin-product",
    "pipeline-impossible",
    "plan-too-large",
    "proof-counted-twice",
    "proof-filled-twice",
    "proof-filler-place",
    "proof-missing",
    "proof-missing-contribution",
    "proof-no-way",
    "proof-open-operand",
    "proof-operands-do-not-meet",
    "proof-partial-dim",
    "proof-read-absent",
    "proof-scattered-operand",
    "proof-shift-place",
    "proof-too-large",
    "proof-unfilled",
    "proof-wrong-array",
    "proof-wrong-operator",
    "proof-wrong-place",
    "rebind-mismatch",
    "rename-dims",
    "repeat-layout",
    "repeat-too-long",
    "return-outside",
    "schedule-dims",
    "schedule-formula",
    "schedule-malformed",
    "schedule-mesh",
    "schedule-schema",
    "schedule-switch-sum",
    "schedule-syntax",
    "schedule-too-large",
    "schedule-too-long",
    "schedule-twice",
    "schedule-word",
    "size-as-number",
    "size-without-value",
    "size-zero",
    "softmax-batch-dim",
    "source-too-large",
    "statement-too-long",
    "too-deep",
    "too-large-to-compute",
    "too-many-dims",
    "too-many-errors",
    "too-many-statements",
    "two-results",
    "unclosed-bracket",
    "underscore-in-name",
    "unexpected-end",
    "unexpected-text",
    "unknown-array",
    "unknown-axis",
    "unknown-collective",
    "unknown-dim",
    "unknown-dtype",
    "unknown-function",
    "unknown-hardware",
    "unknown-method",
    "unknown-network",
    "unknown-operator",
    "unknown-power",
    "unknown-size",
    "unknown-statement",
    "unknown-strategy",
    "unknown-wiring",
    "unused-array",
    "unused-function",
    "unwritten-communication",
    "view-of-parts",
    "view-size",
];

/// Pages about the language instead of a diagnostic, by name.
pub const TOPICS: [(&str, &str); 2] =
    [("functions", include_str!("topics/functions.md")), ("language", include_str!("topics/language.md"))];

/// The page of a code.
pub fn page(code: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.code == code)
}

/// Suggestions for an unknown code, the most likely first.
///
/// Matches similar spelling, or the same words in another order: `reused-axis` finds `axis-reused`.
pub fn near(code: &str) -> Vec<&'static str> {
    let code = code.to_lowercase();
    let mut near: Vec<(usize, &str)> = PAGES
        .iter()
        .filter_map(|page| {
            let edits = osa_distance(&code, page.code);
            let common = words(&code).filter(|word| words(page.code).any(|other| other == *word)).count();
            let close = edits <= (page.code.len() / 3).max(2);
            (close || common > 0).then_some((edits.saturating_sub(4 * common), page.code))
        })
        .collect();
    near.sort_unstable();
    near.into_iter().take(MOST_NEAR).map(|(_, code)| code).collect()
}

/// Maximum number of suggestions.
const MOST_NEAR: usize = 4;

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(['-', '_', ' ']).filter(|word| !word.is_empty())
}

impl Page {
    /// The rule in one sentence.
    pub fn sentence(&self) -> &'static str {
        self.text.split("\n\n").nth(1).unwrap_or_default()
    }

    /// A program or schedule that breaks the rule, if one fits on a page.
    pub fn wrong(&self) -> Option<&'static str> {
        self.program("Wrong:")
    }

    /// The corrected version.
    pub fn right(&self) -> Option<&'static str> {
        self.program("Instead:").or_else(|| self.program("Right:"))
    }

    /// The program below a heading.
    fn program(&self, line: &str) -> Option<&'static str> {
        let (_, below) = self.text.split_once(&format!("\n{line}\n"))?;
        let (_, program) = below.split_once("```")?;
        let (_, program) = program.split_once('\n')?;
        program.split_once("```").map(|(program, _)| program)
    }
}
