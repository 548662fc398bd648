//! Errors in the text form of a schedule.

use super::grammar::Rule;
use crate::span::Span;
use itertools::Itertools;
use miette::{Diagnostic, SourceSpan};
use pest::error::{Error, ErrorVariant, InputLocation};

/// An error in the text of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[allow(missing_docs)] // The messages say what each field is.
pub(super) enum TextError {
    #[error("the text has {bytes} bytes; the limit is {most}")]
    #[diagnostic(code("schedule-too-large"))]
    TooLarge { bytes: usize, most: usize },
    #[error("the statement has {bytes} bytes; the limit is {most}")]
    #[diagnostic(code("schedule-too-large"))]
    TooLong {
        bytes: usize,
        most: usize,
        #[label(primary, "begins here")]
        at: SourceSpan,
    },
    #[error("unexpected {found}")]
    #[diagnostic(code("schedule-syntax"), help("`shardc compile --emit schedule` prints an example"))]
    Syntax {
        found: String,
        expected: String,
        #[label(primary, "expected {expected}")]
        at: SourceSpan,
    },
    #[error("a schedule must begin with its mesh")]
    #[diagnostic(code("schedule-syntax"), help("write `mesh {{X: 4}}` once, as the first statement"))]
    MeshFirst {
        #[label(primary, "expected {expected}")]
        at: SourceSpan,
        expected: &'static str,
    },
    #[error(
        "the mesh is empty or too large: at most {} axes and {} devices",
        crate::mesh::Mesh::MOST_AXES,
        crate::mesh::Mesh::MOST_DEVICES
    )]
    #[diagnostic(code("schedule-mesh"), help("the product of the parts must equal the size of the axis"))]
    Mesh {
        #[label(primary, "this mesh")]
        at: SourceSpan,
    },
    #[error("`{word}` is not {what}")]
    #[diagnostic(code("schedule-word"))]
    Word {
        word: String,
        what: &'static str,
        #[label(primary, "unknown")]
        at: SourceSpan,
    },
    #[error("the number `{word}` is too large")]
    #[diagnostic(code("schedule-word"))]
    Number {
        word: String,
        #[label(primary, "too large")]
        at: SourceSpan,
    },
    #[error("`{name}` is defined twice")]
    #[diagnostic(code("schedule-twice"), help("{help}"))]
    Twice {
        name: String,
        help: String,
        #[label("first defined here")]
        first: SourceSpan,
        #[label(primary, "defined again here")]
        second: SourceSpan,
    },
    #[error("the dims of `{array}` are {dims}")]
    #[diagnostic(code("schedule-dims"), help("write all dims in the order of the array"))]
    Dims {
        array: String,
        dims: String,
        #[label(primary, "wrong dims")]
        at: SourceSpan,
    },
    #[error("the formula is not a shift of ranks")]
    #[diagnostic(
        code("schedule-formula"),
        help("write `(x+1) mod 16`, without `mod` on a line; or list the source rank of each rank: `(1,0,3,2)`")
    )]
    Formula {
        #[label(primary, "expected the rank plus a number")]
        at: SourceSpan,
    },
}

/// Longest excerpt of a word, in characters.
const SHOWN: usize = 64;
/// Most alternatives that an error lists.
const MOST_EXPECTED: usize = 4;

impl TextError {
    pub(super) fn word(word: &str, what: &'static str, at: Span) -> TextError {
        TextError::Word { word: word.chars().take(SHOWN).collect(), what, at: at.into() }
    }

    pub(super) fn number(word: &str, at: Span) -> TextError {
        TextError::Number { word: word.chars().take(SHOWN).collect(), at: at.into() }
    }

    /// Converts pest's error for the statement `text`, which begins at byte `start`.
    pub(super) fn syntax(error: &Error<Rule>, text: &str, start: usize) -> TextError {
        let at = match error.location {
            InputLocation::Pos(at) | InputLocation::Span((at, _)) => after_blanks(text, at.min(text.len())),
        };
        let rules = match &error.variant {
            ErrorVariant::ParsingError { positives, .. } => positives.as_slice(),
            ErrorVariant::CustomError { .. } => &[],
        };
        let found = token(&text[at..]);
        let (found, place) = match found {
            "" => ("end of the statement".to_owned(), last_char(text)),
            found => (format!("`{found}`"), (at, at + found.len())),
        };
        TextError::Syntax { found, expected: words(rules), at: Span::new(start + place.0, start + place.1).into() }
    }
}

/// Skips blanks and comments.
fn after_blanks(text: &str, mut at: usize) -> usize {
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        if !text[at..].starts_with('#') {
            return at;
        }
        at = text[at..].find('\n').map_or(text.len(), |end| at + end);
    }
}

/// The first word or sign of a text.
fn token(text: &str) -> &str {
    let word = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    match text.chars().next() {
        Some(c) if word == 0 => &text[..c.len_utf8()],
        _ => &text[..word.min(SHOWN)],
    }
}

fn last_char(text: &str) -> (usize, usize) {
    let (at, c) = text.char_indices().rfind(|(_, c)| !c.is_whitespace()).unwrap_or((0, ' '));
    (at, at + c.len_utf8())
}

fn words(rules: &[Rule]) -> String {
    let mut names: Vec<&str> = rules.iter().map(|rule| name(*rule)).unique().take(MOST_EXPECTED).collect();
    names.sort_by_key(|name| *name == END);
    match names.as_slice() {
        [] => "something else".to_owned(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// The end of a statement.
const END: &str = "the end of the statement";
/// Expected word: an operation.
const KIND: &str = "an operation such as `slice`, `shuffle` or `add`";
/// Expected word: a coordinate map.
const MAP: &str = "one number per device: `(3,0,1,2)`, `(x+1) mod 16`";

/// The name of a rule in messages.
fn name(rule: Rule) -> &'static str {
    match rule {
        Rule::EOI => END,
        Rule::mesh | Rule::mesh_word => "`mesh`",
        Rule::array | Rule::array_word => "`array`",
        Rule::step | Rule::step_word => "`step`",
        Rule::output | Rule::output_word => "`output`",
        Rule::assertion | Rule::assert_word => "`assert`",
        Rule::operation | Rule::value | Rule::values | Rule::piece => "a value such as `%3`",
        Rule::axis | Rule::part | Rule::axis_name => "the name of an axis",
        Rule::axes | Rule::axis_list | Rule::axis_run => "axes: `X`, `XY` or `{data,model}`",
        Rule::wiring => "`ring`, `line` or `switch`",
        Rule::over_network | Rule::over_axes | Rule::over_word => "`over`",
        Rule::dim | Rule::dim_name | Rule::dim_word_name => "a dim",
        Rule::product | Rule::reduction | Rule::given | Rule::counted | Rule::iota_word | Rule::mapped => {
            "`input`, a product or a function of arrays"
        }
        Rule::zeros => "`on zeros`",
        Rule::tabled | Rule::table_word => "`table`",
        Rule::element => "a whole number",
        Rule::array_name | Rule::array_word_name => "the name of an array",
        Rule::quoted | Rule::inside => "a name in quotes",
        Rule::using | Rule::using_word => "`using`",
        Rule::method => "a method",
        Rule::input
        | Rule::slice
        | Rule::shuffle
        | Rule::add
        | Rule::assemble
        | Rule::all_gather
        | Rule::mat_mul
        | Rule::reduce
        | Rule::map
        | Rule::fill
        | Rule::shift
        | Rule::switch_sum
        | Rule::mask
        | Rule::reshape
        | Rule::slice_word
        | Rule::shuffle_word
        | Rule::add_word
        | Rule::assemble_word
        | Rule::all_gather_word
        | Rule::mat_mul_word
        | Rule::map_word
        | Rule::fill_word
        | Rule::shift_word
        | Rule::switch_sum_word
        | Rule::mask_word
        | Rule::reshape_word => KIND,
        Rule::call | Rule::called | Rule::call_word => "`call`",
        Rule::kernel_text | Rule::number_in_text => "a kernel such as `sort(ab->ab; sizes 8 16; shard a; flops 100)`",
        Rule::kernel | Rule::kernel_word => "`kernel`",
        Rule::input_word => "`input`",
        Rule::donated => "`donated`",
        Rule::reduce_word => "`reduce`",
        Rule::one_cut | Rule::coordinate_map | Rule::modular | Rule::vector | Rule::sum | Rule::none => MAP,
        Rule::distance => "a distance such as `-3`",
        Rule::first | Rule::term => "a coordinate or a number",
        Rule::sign => "`+` or `-`",
        Rule::entry => "a rank, or `-` for none",
        Rule::view | Rule::of_word => "`of`",
        Rule::hops => "a number of hops: `+1`",
        Rule::region | Rule::layout | Rule::extents | Rule::open_bracket => "`[`",
        Rule::cut | Rule::whole | Rule::range => "`:`, a range `0..2` or one number per device",
        Rule::shard => "a dim with its axes: `I_X`",
        Rule::open_sum | Rule::operator_word => "an open sum: `{U_X}`",
        Rule::dtype => "an element type",
        Rule::operator => "an operator such as `sum`",
        Rule::filler => "`zero`, `one`, `least` or `greatest`",
        Rule::function => "a function such as `relu`",
        Rule::einsum | Rule::einsum_end => "an einsum such as `ab,bc->ac`",
        Rule::number => "a number",
        Rule::by_word => "`by`",
        Rule::via_word => "`via`",
        Rule::at_word => "`at`",
        Rule::dim_word => "`dim`",
        Rule::from_word => "`from`",
        Rule::on_word => "`on`",
        Rule::block_word => "`block`",
        Rule::mod_word => "`mod`",
        Rule::open_brace => "`{`",
        Rule::close_brace => "`}`",
        Rule::close_bracket => "`]`",
        Rule::open_paren => "`(`",
        Rule::close_paren => "`)`",
        Rule::comma => "`,`",
        Rule::colon => "`:`",
        Rule::equals => "`=`",
        Rule::star => "`*`",
        Rule::kind | Rule::WHITESPACE | Rule::COMMENT | Rule::letter => "a statement",
    }
}
