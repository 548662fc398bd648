//! Syntax errors.

use super::foreign::{Foreign, Offer};
use crate::characters::ControlCharacter;
use crate::diag::{Edit, Fix, did_you_mean};
use crate::dtype::DType;
use crate::span::Span;
use itertools::Itertools;
use miette::{Diagnostic, SourceSpan};
use thiserror::Error;

/// A mistake in one statement, or in the source as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Error, Diagnostic)]
#[allow(missing_docs)] // The messages say what each field is.
pub enum SyntaxError {
    #[error("unexpected `{found}`")]
    #[diagnostic(code("unexpected-text"))]
    UnexpectedText {
        found: String,
        expected: String,
        #[label(primary, "expected {expected}")]
        at: SourceSpan,
        #[help]
        help: Option<String>,
    },
    #[error("{title}")]
    #[diagnostic(code("foreign-syntax"))]
    Foreign {
        title: String,
        label: String,
        #[label(primary, "{label}")]
        at: SourceSpan,
        #[help]
        help: String,
        fixes: Vec<Fix>,
    },
    #[error("{title}")]
    #[diagnostic(code("unexpected-text"))]
    Slip {
        title: String,
        label: String,
        #[label(primary, "{label}")]
        at: SourceSpan,
        #[help]
        help: String,
    },
    #[error("{}", nothing_behind(last))]
    #[diagnostic(code("unexpected-end"))]
    UnexpectedEnd {
        /// The last token.
        last: String,
        expected: String,
        #[label(primary, "expected {expected} after this")]
        at: SourceSpan,
        #[help]
        help: Option<String>,
    },
    #[error("`{bracket}` is not closed")]
    #[diagnostic(code("unclosed-bracket"))]
    Unclosed {
        bracket: char,
        #[label("opened here")]
        opened: SourceSpan,
        expected: String,
        #[label(primary, "expected {expected}")]
        at: SourceSpan,
        #[help]
        help: Option<String>,
    },
    #[error("brackets and signs are nested more than {most} levels deep")]
    #[diagnostic(code("too-deep"), help("name a part of it: `T = ..`"))]
    TooDeep {
        most: usize,
        #[label(primary, "too deep from here on")]
        at: SourceSpan,
    },
    #[error("the statement is {bytes} bytes long, more than {most}")]
    #[diagnostic(code("statement-too-long"), help("name parts of it: `T = ..`"))]
    StatementTooLong {
        bytes: usize,
        most: usize,
        #[label(primary, "begins here")]
        at: SourceSpan,
    },
    #[error("the source is {bytes} bytes long, more than {most}")]
    #[diagnostic(code("source-too-large"))]
    SourceTooLarge { bytes: usize, most: usize },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Character(#[from] ControlCharacter),
    #[error("more than {most} statements")]
    #[diagnostic(code("too-many-statements"))]
    TooManyStatements {
        most: usize,
        #[label(primary, "not read from here on")]
        at: SourceSpan,
    },
    #[error("too many errors; parsing stopped")]
    #[diagnostic(code("too-many-errors"))]
    TooManyErrors {
        #[label(primary, "not read from here on")]
        at: SourceSpan,
    },
    #[error("the number `{number}` is too large")]
    #[diagnostic(code("number-too-large"), help("numbers must be below 2^64"))]
    NumberTooLarge {
        number: String,
        #[label(primary, "too large")]
        at: SourceSpan,
    },
    #[error("unknown statement `{word}`")]
    #[diagnostic(
        code("unknown-statement"),
        help(
            "statements are: an input `A: bf16[I_X, J]`, a result `C[I, K] = ..` or `.. -> C[I, K]`, `mesh {{..}}`, `axis R = {{..}}`, `dims {{..}}`, `repeat 4 {{..}}`, `expect ..`, `limit ..`, `link ..` or `output C`"
        )
    )]
    UnknownStatement {
        word: String,
        #[label(primary, "not a statement")]
        at: SourceSpan,
    },
    #[error("the statement has two results")]
    #[diagnostic(code("two-results"), help("write either `C = ..` or `.. -> C`"))]
    TwoResults {
        #[label("result before `=`")]
        first: SourceSpan,
        #[label(primary, "result after the arrow")]
        second: SourceSpan,
    },
    #[error("the value is not assigned")]
    #[diagnostic(code("no-result"))]
    NoResult {
        #[label(primary, "unused value")]
        at: SourceSpan,
        #[help]
        help: String,
    },
    #[error("the left side of `{sign}` must be an array")]
    #[diagnostic(code("not-a-result"))]
    NotAResult {
        sign: char,
        #[label(primary, "not an array name")]
        at: SourceSpan,
        #[help]
        help: String,
    },
    #[error("unknown dtype `{word}`")]
    #[diagnostic(code("unknown-dtype"), help("{}", near_dtype(word)))]
    UnknownDType {
        word: String,
        #[label(primary, "expected a dtype")]
        at: SourceSpan,
    },
    #[error("missing brackets after dtype `{word}`")]
    #[diagnostic(code("dtype-without-brackets"), help("write the dims of the array in brackets: `{word}[I, J]`"))]
    DTypeWithoutBrackets {
        word: String,
        #[label(primary, "expected `[` after this")]
        at: SourceSpan,
    },
    #[error("unknown wiring `{word}`")]
    #[diagnostic(code("unknown-wiring"), help("wirings are `ring`, `line`, `switch` and `full`"))]
    UnknownWiring {
        word: String,
        #[label(primary, "expected `ring`, `line`, `switch` or `full`")]
        at: SourceSpan,
    },
    #[error("{why}")]
    #[diagnostic(
        code("mesh-shape"),
        help("write `mesh {{X: 4, Y: 2}}`: each axis with its size; devices are numbered in row-major order")
    )]
    MeshShape {
        why: String,
        #[label(primary, "invalid mesh")]
        at: SourceSpan,
    },
    #[error("invalid {measure} `{text}`: {why}")]
    #[diagnostic(code("bad-amount"), help("write {measure} as {units}"))]
    BadAmount {
        text: String,
        measure: &'static str,
        why: String,
        units: String,
        #[label(primary, "invalid amount")]
        at: SourceSpan,
    },
    #[error("invalid link rate {number}%")]
    #[diagnostic(code("bad-percent"), help("write 1% to 100%; write `down` for a failed link"))]
    BadPercent {
        number: String,
        #[label(primary, "out of range")]
        at: SourceSpan,
    },
}

/// The dtype that a name of another system or in other letters stands for.
pub(super) fn dtype_meant(word: &str) -> Option<&'static str> {
    let lower = word.to_lowercase();
    if let Ok(dtype) = lower.parse::<DType>() {
        return Some(dtype.name());
    }
    Some(match lower.as_str() {
        "bfloat" | "bf" => "bf16",
        "half" => "f16",
        "float" | "single" => "f32",
        "double" => "f64",
        "s4" | "i2" | "s2" | "int2" => "i4",
        "s8" => "i8",
        "short" | "s16" => "i16",
        "int" | "s32" => "i32",
        "long" | "s64" => "i64",
        "ui4" | "u2" | "ui2" | "uint2" => "u4",
        "byte" | "ui8" => "u8",
        "ui16" => "u16",
        "uint" | "ui32" => "u32",
        "ui64" => "u64",
        "boolean" | "pred" => "bool",
        _ => return None,
    })
}

/// Suggests the dtype for a name from another system.
fn near_dtype(word: &str) -> String {
    let lower = word.to_lowercase();
    match dtype_meant(word) {
        Some(meant) if meant == lower => did_you_mean(meant),
        Some(meant @ ("i4" | "u4")) if lower.ends_with('2') => {
            format!("write `{meant}`: numbers have at least 4 bits; dtypes are {}", dtypes())
        }
        Some(meant) => format!("write `{meant}`; dtypes are {}", dtypes()),
        None if lower.contains("float4") || lower.contains("fp4") || lower.starts_with("f4") => {
            format!("the narrowest floats are `f8e4m3` and `f8e5m2`; dtypes are {}", dtypes())
        }
        None if lower.contains("8_e") || lower.contains("fp8") || lower.contains("float8") => {
            format!("the 8-bit floats are `f8e4m3`, the `e4m3fn` of JAX, and `f8e5m2`; dtypes are {}", dtypes())
        }
        None => format!("dtypes are {}", dtypes()),
    }
}

fn dtypes() -> String {
    DType::ALL.iter().map(|dtype| format!("`{dtype}`")).join(", ")
}

/// The title of a statement that ends too early.
fn nothing_behind(last: &str) -> String {
    if last.is_empty() { "incomplete statement".to_owned() } else { format!("nothing follows the `{last}`") }
}

impl SyntaxError {
    /// The changes that the help offers in place of the statement.
    pub(super) fn fixes(&self, statement: Span) -> Vec<Fix> {
        match self {
            SyntaxError::Foreign { fixes, .. } => fixes.clone(),
            SyntaxError::UnknownDType { word, at } => {
                let at = Span::new(at.offset(), at.offset() + at.len());
                let fix = |meant: &str| {
                    let has_less = word.ends_with('2') && matches!(meant, "i4" | "u4");
                    let why = if has_less { ": numbers have at least 4 bits" } else { "" };
                    let said = format!("`{meant}` for `{word}`{why}; dtypes are {}", dtypes());
                    Fix { said: Some(said), ..Fix::new(Edit::Replace(at), meant.to_owned()) }
                };
                dtype_meant(word).map(fix).into_iter().collect()
            }
            _ => self.line().map(|line| Fix::new(Edit::Replace(statement), line.to_owned())).into_iter().collect(),
        }
    }

    /// The line that the help offers in place of the statement, if it offers just that.
    fn line(&self) -> Option<&str> {
        let help = match self {
            SyntaxError::UnexpectedText { help, .. }
            | SyntaxError::UnexpectedEnd { help, .. }
            | SyntaxError::Unclosed { help, .. } => help.as_ref()?,
            SyntaxError::Slip { help, .. }
            | SyntaxError::NoResult { help, .. }
            | SyntaxError::NotAResult { help, .. } => help,
            _ => return None,
        };
        help.strip_prefix("write `")?.strip_suffix('`').filter(|line| !line.contains('`'))
    }

    pub(super) fn too_deep(at: Span) -> SyntaxError {
        SyntaxError::TooDeep { most: super::split::DEEPEST, at: at.into() }
    }
}

impl Foreign {
    /// The error of a statement that begins at byte `start`.
    pub(super) fn error(self, text: &str, start: usize) -> SyntaxError {
        let place = |from: usize, to: usize| Span::new(start + from, start + to);
        let fix = |offer: Offer| Fix {
            edit: Edit::Replace(place(0, offer.length.unwrap_or(text.len()))),
            text: offer.text,
            said: offer.said,
            otherwise: offer.otherwise,
        };
        SyntaxError::Foreign {
            title: self.title,
            label: self.label,
            at: place(self.at.start, self.at.end).into(),
            help: self.words,
            fixes: self.offers.into_iter().map(fix).collect(),
        }
    }
}
