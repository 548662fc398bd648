//! The JSON form of a schedule, `shardc.schedule/1`: writing and reading.
//!
//! Axes are referenced by name, arrays and operations by index. Words are those of the text form: dtypes `bf16`, einsums
//! `ab,bc->ac`, functions `scale(0.5)`, operators `sum`.

mod read;
mod write;

use super::{Malformed, Schedule, verify};
use crate::escape;
use serde::{Deserialize, Serialize};

/// The value of the `schema` field.
pub const SCHEMA: &str = "shardc.schedule/1";
/// Limit on the length of a document, in bytes.
pub const MOST_TEXT: usize = 1 << 26;

/// Why a document is not a schedule.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum DocumentError {
    /// The document is longer than [`MOST_TEXT`].
    #[error("the document has {bytes} bytes; the limit is {MOST_TEXT}")]
    #[diagnostic(code("schedule-too-large"))]
    TooLarge {
        /// Its length in bytes.
        bytes: usize,
    },
    /// Invalid JSON, or fields that are missing, unknown or of the wrong type.
    #[error("invalid schedule: {0}")]
    #[diagnostic(code("schedule-syntax"), help("`shardc compile --emit schedule --format json` prints an example"))]
    Syntax(#[from] serde_json::Error),
    /// Another schema.
    #[error("unknown schema `{0}`, expected `{SCHEMA}`")]
    #[diagnostic(code("schedule-schema"))]
    Schema(String),
    /// The mesh is empty or too large.
    #[error(
        "the mesh is empty or too large: at most {} axes and {} devices",
        crate::mesh::Mesh::MOST_AXES,
        crate::mesh::Mesh::MOST_DEVICES
    )]
    #[diagnostic(code("schedule-mesh"))]
    Mesh,
    /// An unknown word.
    #[error("{place}: `{word}` is not {what}")]
    #[diagnostic(code("schedule-word"))]
    Word {
        /// Location: `operation %3`.
        place: String,
        /// The word.
        word: String,
        /// The expected kind of word: `an axis of the mesh`.
        what: &'static str,
    },
    /// The document does not describe a valid schedule.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Malformed(#[from] Malformed),
}

/// Serializes a schedule on one line.
///
/// # Panics
/// If the schedule is malformed.
pub fn to_json(schedule: &Schedule) -> String {
    escape::json(&serde_json::to_string(&write::document(schedule)).expect("a document has only string keys"))
        .into_owned()
}

/// Parses a document to a verified schedule.
///
/// # Errors
/// The first error: in the text, a word, or the form of the schedule.
pub fn from_json(text: &str) -> Result<Schedule, DocumentError> {
    if text.len() > MOST_TEXT {
        return Err(DocumentError::TooLarge { bytes: text.len() });
    }
    let document: Document = serde_json::from_str(text)?;
    let schedule = read::schedule(document)?;
    verify(&schedule)?;
    Ok(schedule)
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: String,
    mesh: MeshDocument,
    arrays: Vec<ArrayDocument>,
    operations: Vec<OperationDocument>,
    /// Indices of operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kernels: Vec<Vec<u32>>,
    outputs: Vec<OutputDocument>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    assertions: Vec<OutputDocument>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeshDocument {
    axes: Vec<AxisDocument>,
    /// The split machine axes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    views: Vec<ViewDocument>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ViewDocument {
    axis: AxisDocument,
    /// Names of axes, major first.
    parts: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AxisDocument {
    name: String,
    size: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wiring: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrayDocument {
    name: String,
    dtype: String,
    dims: Vec<String>,
    extents: Vec<u64>,
    /// Omitted without padding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    valid: Option<Vec<u64>>,
    definition: DefinitionDocument,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum DefinitionDocument {
    Input,
    DonatedInput,
    Iota,
    Table(Vec<i32>),
    Product { operands: [u32; 2], einsum: String },
    Reduce { operator: String, operand: u32, einsum: String },
    Map { function: String, operands: Vec<u32>, einsum: String },
    Call { kernel: String, operands: Vec<u32> },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShardingDocument {
    dims: Vec<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    open: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operator: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputDocument {
    value: u32,
    array: u32,
    sharding: ShardingDocument,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OperationDocument {
    op: OpDocument,
    #[serde(default)]
    operands: Vec<u32>,
    dtype: String,
    extents: Vec<u64>,
    #[serde(default)]
    step: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(default)]
    span: [u32; 2],
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum OpDocument {
    Input {
        array: u32,
        sharding: ShardingDocument,
    },
    Slice {
        view: Vec<u64>,
        region: Vec<CutDocument>,
    },
    Shuffle {
        sources: SourcesDocument,
        route: RouteDocument,
    },
    Add {
        operator: String,
    },
    Assemble {
        view: Vec<u64>,
        places: Vec<Vec<CutDocument>>,
        /// Omitted if the pieces fill the block.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        zeros: bool,
    },
    AllGather {
        axes: Vec<String>,
        dim: u32,
    },
    SwitchSum {
        axes: Vec<String>,
        operator: String,
    },
    MatMul {
        einsum: String,
    },
    Reduce {
        operator: String,
        einsum: String,
    },
    Map {
        function: String,
        einsum: String,
    },
    Call {
        kernel: String,
    },
    Fill {
        dim: u32,
        valid: u64,
        with: String,
        block: CutDocument,
    },
    Shift {
        dim: u32,
        by: i64,
        wraps: bool,
        length: u64,
        block: CutDocument,
    },
    Mask {
        axes: Vec<String>,
    },
    Reshape {},
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum CutDocument {
    Whole,
    Range([u64; 2]),
    Affine {
        #[serde(default)]
        terms: Vec<(String, i64)>,
        #[serde(default)]
        constant: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        modulo: Option<u64>,
    },
    Table {
        axes: Vec<String>,
        entries: Vec<Option<u64>>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum SourcesDocument {
    Shift { axes: Vec<String>, by: i64, wrap: bool },
    Table { axes: Vec<String>, entries: Vec<Option<u32>> },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum RouteDocument {
    Hops(i64),
    Shortest,
}
