//! What a call of another system is answered with.

use super::call::{Call, is_loose};
use crate::syntax::split::is_blank;
use std::ops::Range;

/// The answer to a call.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// What may stand in its place, the likeliest first.
    pub(super) equivalents: Vec<Equivalent>,
    /// The help if nothing of it checks.
    pub(super) words: String,
    /// The title, if not that the call is unsupported.
    pub(super) title: Option<String>,
    /// The label, if not that the call is a function of its system.
    pub(super) label: Option<String>,
}

/// What may stand in the place of a call.
#[derive(Debug)]
pub(super) struct Equivalent {
    form: Form,
    /// A remark after the line.
    pub(super) note: Option<String>,
    /// How the help words it, if not by the line.
    pub(super) said: Option<String>,
    /// Whether it counts only if those before it fail.
    pub(super) otherwise: bool,
}

#[derive(Debug)]
enum Form {
    /// Replaces the call.
    Call(String),
    /// Replaces the call, and states the layout of the result.
    Result(String, String),
    /// Replaces the statement, if the call is all of its value.
    Line(String),
}

impl Answer {
    /// Words alone.
    pub(super) fn words(words: impl Into<String>) -> Answer {
        Answer { words: words.into(), ..Answer::default() }
    }

    /// Replaces the call.
    pub(super) fn call(text: impl Into<String>) -> Answer {
        Answer::default().and(Form::Call(text.into()), false)
    }

    /// Replaces the call, and states the layout of the result: `[B, D_X]` and `x`.
    pub(super) fn result(layout: impl Into<String>, value: impl Into<String>) -> Answer {
        Answer::default().and(Form::Result(layout.into(), value.into()), false)
    }

    /// Replaces the statement.
    pub(super) fn line(text: impl Into<String>) -> Answer {
        Answer::default().and(Form::Line(text.into()), false)
    }

    fn and(mut self, form: Form, otherwise: bool) -> Answer {
        self.equivalents.push(Equivalent { form, note: None, said: None, otherwise });
        self
    }

    /// A second equivalent for the call, shown beside the first.
    pub(super) fn also(self, text: impl Into<String>) -> Answer {
        self.and(Form::Call(text.into()), false)
    }

    /// An equivalent for the call, if those before it fail.
    pub(super) fn or_call(self, text: impl Into<String>) -> Answer {
        self.and(Form::Call(text.into()), true)
    }

    /// An equivalent of the statement, if those before it fail.
    pub(super) fn or_line(self, text: impl Into<String>) -> Answer {
        self.and(Form::Line(text.into()), true)
    }

    /// A remark after the last line.
    pub(super) fn noted(mut self, note: impl Into<String>) -> Answer {
        if let Some(last) = self.equivalents.last_mut() {
            last.note = Some(note.into());
        }
        self
    }

    /// How the help words the last line.
    pub(super) fn said(mut self, said: impl Into<String>) -> Answer {
        if let Some(last) = self.equivalents.last_mut() {
            last.said = Some(said.into());
        }
        self
    }

    /// The help if nothing of it checks.
    pub(super) fn or(self, words: impl Into<String>) -> Answer {
        Answer { words: words.into(), ..self }
    }

    pub(super) fn titled(self, title: impl Into<String>) -> Answer {
        Answer { title: Some(title.into()), ..self }
    }

    pub(super) fn labelled(self, label: impl Into<String>) -> Answer {
        Answer { label: Some(label.into()), ..self }
    }
}

impl Equivalent {
    /// The statement with the equivalent in the place of the call.
    pub(super) fn placed(&self, text: &str, at: &Range<usize>, call: &Call<'_>) -> Option<String> {
        let (before, behind) = (&text[..at.start], &text[at.end..]);
        let line = |value: &str| {
            let opens = before.trim_end_matches(is_blank).ends_with(['(', ',', '=']);
            let closes =
                behind.trim_matches(is_blank).is_empty() || behind.trim_start_matches(is_blank).starts_with([')', ',']);
            let value = if is_loose(value) && !(opens && closes) && !before.is_empty() {
                format!("({value})")
            } else {
                value.to_owned()
            };
            format!("{before}{value}{behind}").trim().to_owned()
        };
        match &self.form {
            Form::Call(value) => Some(line(value)),
            Form::Result(_, value) if call.has_layout => Some(line(value)),
            Form::Result(layout, value) => {
                let line = line(value);
                let value = line.split_once('=').map_or(line.as_str(), |(_, value)| value.trim());
                Some(format!("{}{layout} = {value}", call.target()))
            }
            Form::Line(line) => call.is_whole.then(|| line.clone()),
        }
    }
}
