//! Diagnostics, which every stage returns with its result.
//!
//! A stage defines its errors in one enum (`thiserror` for the message, `miette` for code, labels and help).
//! [`Diagnostic`] is the common form for text, JSON and tests.

use crate::span::Span;
use std::collections::BTreeSet;
use std::fmt;
use strsim::osa_distance;

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// An assumption of the compiler.
    Note,
    /// Valid, but probably a mistake or wasteful.
    Warning,
    /// The program is invalid.
    Error,
}

/// A labelled place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Source span.
    pub span: Span,
    /// Text of the label.
    pub text: String,
    /// Whether this is the primary label; a diagnostic has exactly one.
    pub primary: bool,
}

/// The help for a word that is near a known one.
pub fn did_you_mean(near: &str) -> String {
    format!("did you mean `{near}`?")
}

/// Limit on the length of compared names; comparing costs the product of two lengths.
const LONGEST: usize = 64;
/// Limit on the number of compared names.
const MOST_KNOWN: usize = 1000;

/// The known name that is closest to an unknown one.
///
/// Within one edit per three letters; a single letter only in its other case.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    if length > LONGEST {
        return None;
    }
    let most = if length < 2 { 0 } else { (length / 3).max(1) };
    known
        .filter(|candidate| candidate.len() <= LONGEST)
        .take(MOST_KNOWN)
        .map(|candidate| (osa_distance(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(edits, _)| *edits <= most)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// The known word of [`did_you_mean`], with which a help begins.
pub fn meant(help: &str) -> Option<&str> {
    help.strip_prefix("did you mean `")?.split_once("`?").map(|(near, _)| near)
}

/// A suggested change of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// The place to edit.
    pub edit: Edit,
    /// The new text.
    pub text: String,
    /// How the help words the change, if the text alone does not say it.
    pub said: Option<String>,
    /// Whether it is tried only if all changes before it fail.
    pub otherwise: bool,
}

/// The place that a [`Fix`] edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Insert a line before the statement.
    Before,
    /// Insert a line below this statement.
    Below(Span),
    /// Replace this span.
    Replace(Span),
    /// Replace the statement.
    Statement,
}

impl Fix {
    /// A change that its text describes.
    pub fn new(edit: Edit, text: String) -> Fix {
        Fix { edit, text, said: None, otherwise: false }
    }

    /// Applies the change to the source.
    ///
    /// - `statement`: the statement of the diagnostic.
    pub fn apply(&self, source: &str, statement: Span) -> String {
        let start = statement.range().start;
        let (range, text) = match self.edit {
            Edit::Before => (start..start, format!("{}\n", self.text)),
            Edit::Below(span) => (span.range().end..span.range().end, format!("\n{}", self.text)),
            Edit::Replace(span) => (span.range(), self.text.clone()),
            Edit::Statement => (statement.range(), self.text.clone()),
        };
        let [before, behind] = [source.get(..range.start), source.get(range.end..)].map(Option::unwrap_or_default);
        format!("{before}{text}{behind}")
    }
}

/// A diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable code, such as `axis-reused`.
    pub code: String,
    /// Severity.
    pub severity: Severity,
    /// Message, in lower case, without a full stop.
    pub message: String,
    /// Labels.
    pub labels: Vec<Label>,
    /// Help.
    pub help: Option<String>,
    /// Suggested changes; `advice` removes those that fail when tried.
    pub fixes: Vec<Fix>,
}

impl Diagnostic {
    /// Converts an error of a stage.
    pub fn new(error: &dyn miette::Diagnostic) -> Diagnostic {
        let mut labels: Vec<Label> = error
            .labels()
            .into_iter()
            .flatten()
            .map(|label| Label {
                span: Span::new(label.offset(), label.offset() + label.len()),
                text: label.label().unwrap_or_default().to_owned(),
                primary: label.primary(),
            })
            .collect();
        if !labels.iter().any(|label| label.primary)
            && let Some(first) = labels.first_mut()
        {
            first.primary = true;
        }
        Diagnostic {
            code: error.code().map(|code| code.to_string()).unwrap_or_default(),
            severity: match error.severity() {
                None | Some(miette::Severity::Error) => Severity::Error,
                Some(miette::Severity::Warning) => Severity::Warning,
                Some(miette::Severity::Advice) => Severity::Note,
            },
            message: error.to_string(),
            labels,
            help: error.help().map(|help| help.to_string()),
            fixes: Vec::new(),
        }
    }

    /// The primary location; the start of the file if there is none.
    pub fn span(&self) -> Span {
        self.labels.iter().find(|label| label.primary).map(|label| label.span).unwrap_or_default()
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Diagnostic {}

impl miette::Diagnostic for Diagnostic {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
            Severity::Note => miette::Severity::Advice,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = miette::LabeledSpan> + '_>> {
        Some(Box::new(self.labels.iter().map(|label| {
            let text = (!label.text.is_empty()).then(|| label.text.clone());
            if label.primary {
                miette::LabeledSpan::new_primary_with_span(text, label.span)
            } else {
                miette::LabeledSpan::new_with_span(text, label.span)
            }
        })))
    }
}

/// The diagnostics of a stage, in order of discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// A list of one diagnostic.
    pub fn of(error: &dyn miette::Diagnostic) -> Diagnostics {
        Diagnostics { list: vec![Diagnostic::new(error)] }
    }

    /// Adds an error of a stage.
    pub fn push(&mut self, error: &dyn miette::Diagnostic) {
        self.list.push(Diagnostic::new(error));
    }

    /// Adds an error of a stage with suggested changes.
    pub fn push_with_fixes(&mut self, error: &dyn miette::Diagnostic, fixes: Vec<Fix>) {
        self.list.push(Diagnostic { fixes, ..Diagnostic::new(error) });
    }

    /// Keeps only the first diagnostics.
    pub fn truncate(&mut self, count: usize) {
        self.list.truncate(count);
    }

    /// Keeps only the diagnostics for which this holds.
    pub fn retain(&mut self, is_kept: impl FnMut(&Diagnostic) -> bool) {
        self.list.retain(is_kept);
    }

    /// Adds the diagnostics of another stage.
    pub fn extend(&mut self, other: Diagnostics) {
        self.list.extend(other.list);
    }

    /// Whether there is an error.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Counts the diagnostics of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.list.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }

    /// Iterates over the diagnostics.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Iterates over the diagnostics mutably.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Diagnostic> {
        self.list.iter_mut()
    }

    /// Sorts the diagnostics by location.
    pub fn sort(&mut self) {
        self.list.sort_by_key(|diagnostic| diagnostic.span());
    }

    /// Removes duplicates.
    pub fn dedup(&mut self) {
        let mut known = BTreeSet::new();
        self.list.retain(|found| known.insert((found.code.clone(), found.span(), found.message.clone())));
    }

    /// Whether there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl fmt::Display for Diagnostics {
    /// The messages, one per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        self.list.iter().try_for_each(|found| write!(f, "{}{found}", std::mem::replace(&mut separator, "\n")))
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn single_letters_are_near_their_other_case_only() {
        assert_eq!(nearest("x", ["Y", "X"].into_iter()), Some("X"));
        assert_eq!(nearest("Z", ["Y", "X"].into_iter()), None);
        assert_eq!(nearest("dta", ["model", "data"].into_iter()), Some("data"));
        // Swapped letters are one edit.
        assert_eq!(nearest("modle", ["model", "data"].into_iter()), Some("model"));
    }
}
