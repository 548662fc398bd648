//! Diagnostics as data: what every stage returns beside its result.
//!
//! A stage words its errors in one enum of its own (`thiserror` for the message, `miette` for code, labels and
//! help); [`Diagnostic`] is what such a value looks like to everybody else, so that text, JSON and tests agree.

use crate::span::Span;
use std::collections::BTreeSet;
use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something that was assumed and should be known.
    Note,
    /// Legal, but probably not meant, or wasteful.
    Warning,
    /// The program has no meaning.
    Error,
}

/// A place in the source and what it has to do with the matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What is there.
    pub text: String,
    /// The place to look at first; exactly one label of a diagnostic has it.
    pub primary: bool,
}

/// A change of the source that may put an end to a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// What is changed.
    pub edit: Edit,
    /// What is written there.
    pub text: String,
}

/// What a [`Fix`] changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A line is added before the statement.
    Before,
    /// A line is added below this statement.
    Below(Span),
    /// This part of the source is replaced.
    Replace(Span),
    /// The statement is replaced.
    Statement,
}

impl Fix {
    /// The source with the change.
    ///
    /// - `statement`: the statement that the finding is about.
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

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// A stable word, such as `axis-reused`.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in lower case, without a full stop.
    pub message: String,
    /// The places involved.
    pub labels: Vec<Label>,
    /// What to do next.
    pub help: Option<String>,
    /// Changes to try; those that were tried and found wanting are taken out by `advice`.
    pub fixes: Vec<Fix>,
}

impl Diagnostic {
    /// Takes over what a stage's own error says of itself.
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

    /// Where to look first, the start of the file if the finding has no place.
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

/// All findings of a stage, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// A single finding.
    pub fn of(error: &dyn miette::Diagnostic) -> Diagnostics {
        Diagnostics { list: vec![Diagnostic::new(error)] }
    }

    /// Adds what a stage's own error says.
    pub fn push(&mut self, error: &dyn miette::Diagnostic) {
        self.list.push(Diagnostic::new(error));
    }

    /// Adds what a stage's own error says of itself, with changes that may help.
    pub fn push_with_fixes(&mut self, error: &dyn miette::Diagnostic, fixes: Vec<Fix>) {
        self.list.push(Diagnostic { fixes, ..Diagnostic::new(error) });
    }

    /// Drops all but the first findings.
    pub fn truncate(&mut self, count: usize) {
        self.list.truncate(count);
    }

    /// Adds the findings of another stage.
    pub fn extend(&mut self, other: Diagnostics) {
        self.list.extend(other.list);
    }

    /// Whether the program has no meaning.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// How many findings have this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.list.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }

    /// The findings.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// The findings, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Diagnostic> {
        self.list.iter_mut()
    }

    /// Orders the findings by their place, so that a reader meets them as the file goes.
    pub fn sort(&mut self) {
        self.list.sort_by_key(|diagnostic| diagnostic.span());
    }

    /// Keeps the first of findings that say the same of the same place.
    pub fn dedup(&mut self) {
        let mut known = BTreeSet::new();
        self.list.retain(|found| known.insert((found.code.clone(), found.span(), found.message.clone())));
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl fmt::Display for Diagnostics {
    /// The messages, one a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        self.list.iter().try_for_each(|found| write!(f, "{}{found}", std::mem::replace(&mut separator, "\n")))
    }
}

impl std::error::Error for Diagnostics {}
