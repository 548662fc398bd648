//! Recognises syntax of JAX, NumPy, PyTorch, NCCL, MPI and Python, and suggests the equivalent.
//!
//! ```text
//! z = psum(y, 'X')                   z = AllReduce_X(y)
//! y = jnp.einsum('BD,DF->BF', x, W)  y[B, F]_? = x * W
//! x = jnp.zeros((B, D), device=P('X', None))   x: f32[B_X, D] = 0
//! ```
//!
//! It sees only statements that the grammar or the checker rejected, so valid statements are never reinterpreted. What
//! it suggests is a guess from the text, which `advice` tries on the checker before it is shown.

mod answer;
mod blocks;
mod call;
mod collectives;
mod declarations;
mod functions;
mod indices;
mod signs;

use super::known::Known;
use answer::Answer;
pub(super) use blocks::is_import;
use call::{Call, calls};
use std::ops::Range;

/// Statements longer than this are not looked at.
const LONGEST: usize = 2000;
/// Calls that are replaced in one statement.
const MOST_CALLS: usize = 4;

/// Foreign syntax in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Foreign {
    /// Its range in the statement.
    pub(super) at: Range<usize>,
    /// What is wrong.
    pub(super) title: String,
    /// What stands there.
    pub(super) label: String,
    /// What may replace the statement, the likeliest first.
    pub(super) offers: Vec<Offer>,
    /// The help if nothing of it checks.
    pub(super) words: String,
}

/// A replacement of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// The new text.
    pub(super) text: String,
    /// How the help words it, if not by the text alone.
    pub(super) said: Option<String>,
    /// Whether it counts only if those before it fail.
    pub(super) otherwise: bool,
    /// The number of bytes that it replaces, from the start of the statement; `None` for the statement.
    pub(super) length: Option<usize>,
}

impl Offer {
    /// Replaces the statement.
    pub(super) fn line(text: String) -> Offer {
        Offer { text, said: None, otherwise: false, length: None }
    }

    /// Replaces the statement and lines below it.
    fn block(text: String, length: usize, said: String) -> Offer {
        Offer { text, said: Some(said), otherwise: false, length: Some(length) }
    }

    /// With a remark after the line.
    fn with(self, note: &str) -> Offer {
        let said = format!("`{}`{note}", self.text);
        Offer { said: Some(said), ..self }
    }
}

/// Finds foreign syntax in a statement that failed to parse.
pub(super) fn recognise(text: &str, known: Known<'_>, parses: fn(&str) -> bool) -> Option<Foreign> {
    if text.len() > LONGEST {
        return None;
    }
    blocks::by_first_word(text, known)
        .or_else(|| declarations::by_declaration(text, known))
        .or_else(|| declarations::by_mesh(text))
        .or_else(|| indices::by_update(text, known))
        .or_else(|| indices::by_index(text, known))
        .or_else(|| calls(text, known).find_map(|(at, call)| Some(answered(text, at, &call, answer(&call)?, parses))))
        .or_else(|| signs::by_sign(text, known))
}

/// A call that stands alone, without a name for its result, and changes its arguments or prints them elsewhere.
pub(super) fn in_place(text: &str, known: Known<'_>, parses: fn(&str) -> bool) -> Option<Foreign> {
    let (at, call) = calls(text, known).next().filter(|(at, _)| *at == (0..text.len()))?;
    let found =
        collectives::answer(&call).or_else(|| functions::shown(&call)).or_else(|| functions::declared(&call))?;
    Some(answered(text, at, &call, found, parses))
}

/// The call at byte `at` of a statement that parses, if another system has such a function.
pub(super) fn call_at(text: &str, at: usize, known: Known<'_>, parses: fn(&str) -> bool) -> Option<Foreign> {
    if text.len() > LONGEST {
        return None;
    }
    let mut found = calls(text, known).filter(|(range, _)| range.start == at);
    let Some((at, call)) = found.next() else {
        return indices::by_index(text, known).filter(|found| found.at.start == at);
    };
    Some(answered(text, at, &call, answer(&call)?, parses))
}

/// A dotted name that nothing else explains: `nn.Foo(x)`, `x.shape`.
pub(super) fn dotted(text: &str, known: Known<'_>, parses: fn(&str) -> bool) -> Option<Foreign> {
    let found = calls(text, known).find(|(_, call)| !call.path.is_empty() && call.name != "T");
    if let Some((at, call)) = found {
        let unknown = functions::unknown(&call);
        return Some(answered(text, at, &call, unknown, parses));
    }
    let at = call::attribute(text)?;
    Some(Foreign {
        title: format!("unsupported attribute `{}`", &text[at.clone()]),
        label: "names have no attributes".to_owned(),
        offers: Vec::new(),
        words: "an array has a name, a dtype, dims and axes, all of which stand in its declaration: `A: bf16[I_X, J]`"
            .to_owned(),
        at,
    })
}

/// Whether another system has a function of this name.
pub(crate) fn is_foreign(name: &str) -> bool {
    let call = Call {
        path: "",
        name,
        positional: vec!["x"],
        keywords: Vec::new(),
        behind: None,
        target: "C",
        has_layout: false,
        is_factor: false,
        is_whole: true,
        known: Known::around("", 0),
    };
    answer(&call).is_some()
}

fn answer(call: &Call<'_>) -> Option<Answer> {
    collectives::answer(call).or_else(|| functions::answer(call))
}

/// Puts the equivalents of a call into its statement.
fn answered(text: &str, at: Range<usize>, call: &Call<'_>, answer: Answer, parses: fn(&str) -> bool) -> Foreign {
    let offers = answer.equivalents.iter().filter_map(|one| {
        let line = further(one.placed(text, &at, call)?, call.known, parses);
        let said = one.said.clone().or_else(|| one.note.as_ref().map(|note| format!("`{line}`{note}")));
        Some(Offer { said, otherwise: one.otherwise, ..Offer::line(line) })
    });
    Foreign {
        offers: offers.collect(),
        title: answer.title.unwrap_or_else(|| format!("unsupported syntax `{}`", call.dotted())),
        label: answer.label.unwrap_or_else(|| call.label()),
        words: if answer.words.is_empty() { functions::DIMS.to_owned() } else { answer.words },
        at: at.start..at.start + call.dotted().len(),
    }
}

/// Replaces the other foreign calls of a line.
fn further(mut line: String, known: Known<'_>, parses: fn(&str) -> bool) -> String {
    for _ in 0..MOST_CALLS {
        if parses(&line) {
            break;
        }
        let next =
            calls(&line, known).find_map(|(at, call)| answer(&call)?.equivalents.first()?.placed(&line, &at, &call));
        match next {
            Some(next) if next != line => line = next,
            Some(_) | None => break,
        }
    }
    line
}
