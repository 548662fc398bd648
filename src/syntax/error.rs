//! What can be wrong with the text of a program, and its wording.

use crate::characters::ControlCharacter;
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
    #[error("`{found}` is not written like this here")]
    #[diagnostic(code("foreign-syntax"))]
    Foreign {
        found: String,
        #[label(primary, "a word of another system")]
        at: SourceSpan,
        #[help]
        help: String,
    },
    #[error("the statement is not complete")]
    #[diagnostic(code("unexpected-end"))]
    UnexpectedEnd {
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
    #[error("brackets and signs are nested more than {most} deep")]
    #[diagnostic(code("too-deep"), help("give a part of it a name of its own: `T = ..`"))]
    TooDeep {
        most: usize,
        #[label(primary, "too deep from here on")]
        at: SourceSpan,
    },
    #[error("the statement is {bytes} bytes long, more than {most}")]
    #[diagnostic(code("statement-too-long"), help("give parts of it names of their own: `T = ..`"))]
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
    #[error("too many mistakes to go on")]
    #[diagnostic(code("too-many-errors"))]
    TooManyErrors {
        #[label(primary, "not read from here on")]
        at: SourceSpan,
    },
    #[error("the number `{number}` is too large")]
    #[diagnostic(code("number-too-large"), help("numbers are below 2^64"))]
    NumberTooLarge {
        number: String,
        #[label(primary, "more than can be counted")]
        at: SourceSpan,
    },
    #[error("statements that begin with `{word}` are not known")]
    #[diagnostic(
        code("unknown-statement"),
        help(
            "a statement is an input `A: bf16[I_X, J]`, a result `C[I, K] = ..` or `.. -> C[I, K]`, `mesh {{..}}`, `axis R = {{..}}`, `dims {{..}}`, `repeat 4 {{..}}`, `expect ..`, `limit ..`, `link ..` or `output C`"
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
        #[label("one on the left of `=`")]
        first: SourceSpan,
        #[label(primary, "another behind the arrow")]
        second: SourceSpan,
    },
    #[error("the value is given to no array")]
    #[diagnostic(code("no-result"), help("write `C = ..` before it or `-> C` behind it"))]
    NoResult {
        #[label(primary, "nothing uses this value")]
        at: SourceSpan,
    },
    #[error("only an array can stand on the left of `{sign}`")]
    #[diagnostic(
        code("not-a-result"),
        help("the value stands on the right of `=`, or before an arrow: `C = ..`, `.. -> C`")
    )]
    NotAResult {
        sign: char,
        #[label(primary, "not the name of an array")]
        at: SourceSpan,
    },
    #[error("`{word}` is not a dtype")]
    #[diagnostic(code("unknown-dtype"), help("{}", near_dtype(word)))]
    UnknownDType {
        word: String,
        #[label(primary, "expected a dtype")]
        at: SourceSpan,
    },
    #[error("the dtype `{word}` has no brackets")]
    #[diagnostic(code("dtype-without-brackets"), help("brackets say which dims the array has: `{word}[I, J]`"))]
    DTypeWithoutBrackets {
        word: String,
        #[label(primary, "expected `[` after this")]
        at: SourceSpan,
    },
    #[error("`{word}` is not a wiring")]
    #[diagnostic(code("unknown-wiring"), help("an axis is wired as a `ring`, a `line` or a `switch`"))]
    UnknownWiring {
        word: String,
        #[label(primary, "expected `ring`, `line` or `switch`")]
        at: SourceSpan,
    },
    #[error("{why}")]
    #[diagnostic(
        code("mesh-shape"),
        help("write `mesh {{X: 4, Y: 2}}`: each axis with its size; devices are numbered along the last axis first")
    )]
    MeshShape {
        why: String,
        #[label(primary, "no mesh is like this")]
        at: SourceSpan,
    },
    #[error("`{text}` is no amount of {measure}: {why}")]
    #[diagnostic(code("bad-amount"), help("{measure} is given in {units}"))]
    BadAmount {
        text: String,
        measure: &'static str,
        why: String,
        units: String,
        #[label(primary, "this amount")]
        at: SourceSpan,
    },
    #[error("a link cannot be at {number}% of its rate")]
    #[diagnostic(code("bad-percent"), help("it is at 1% to 100%; a link that carries nothing is `down`"))]
    BadPercent {
        number: String,
        #[label(primary, "not from 1 to 100")]
        at: SourceSpan,
    },
}

/// What a word is probably meant to be, by the names that other systems have.
fn near_dtype(word: &str) -> String {
    let meant = match word.to_lowercase().as_str() {
        "bfloat" | "bfloat16" | "bf" => "bf16",
        "half" | "float16" | "fp16" => "f16",
        "float" | "float32" | "fp32" | "single" => "f32",
        "double" | "float64" | "fp64" => "f64",
        "int" | "int32" | "s32" => "i32",
        "int8" | "s8" => "i8",
        "int64" | "long" | "s64" => "i64",
        "boolean" | "pred" => "bool",
        _ => return format!("the dtypes are {}", dtypes()),
    };
    format!("write `{meant}`; the dtypes are {}", dtypes())
}

fn dtypes() -> String {
    DType::ALL.iter().map(|dtype| format!("`{dtype}`")).join(", ")
}

impl SyntaxError {
    pub(super) fn too_deep(at: Span) -> SyntaxError {
        SyntaxError::TooDeep { most: super::split::DEEPEST, at: at.into() }
    }
}
