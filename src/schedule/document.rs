//! The JSON form of a schedule, `shardc.schedule/1`: written and read.
//!
//! Axes go by their names, arrays and operations by their place in their list. Words are those of the text form:
//! dtypes `bf16`, einsums `ab,bc->ac`, functions `scale(0.5)`, operators `sum`.

mod read;
mod write;

use super::{Malformed, Schedule, verify};
use crate::escape;
use serde::{Deserialize, Serialize};

/// The value of the `schema` field.
pub const SCHEMA: &str = "shardc.schedule/1";
/// The longest document that is read, in bytes.
pub const MOST_TEXT: usize = 1 << 26;

/// Why a document is no schedule.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum DocumentError {
    /// The document is longer than [`MOST_TEXT`].
    #[error("the document has {bytes} bytes, more than the {MOST_TEXT} that are read")]
    #[diagnostic(code("schedule-too-large"))]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// Not JSON, or fields that are missing, unknown or of the wrong type.
    #[error("the document does not read as a schedule: {0}")]
    #[diagnostic(code("schedule-syntax"), help("`shardc compile --emit schedule --format json` shows the form"))]
    Syntax(#[from] serde_json::Error),
    /// The schema is another one.
    #[error("the schema is `{0}`, not `{SCHEMA}`")]
    #[diagnostic(code("schedule-schema"))]
    Schema(String),
    /// The mesh has no axis of a positive size, or too many axes or devices.
    #[error(
        "the mesh is empty or too large: at most {} axes and {} devices",
        crate::mesh::Mesh::MOST_AXES,
        crate::mesh::Mesh::MOST_DEVICES
    )]
    #[diagnostic(code("schedule-mesh"))]
    Mesh,
    /// A word that means nothing in its place.
    #[error("{place}: `{word}` is not {what}")]
    #[diagnostic(code("schedule-word"))]
    Word {
        /// Where: `operation %3`.
        place: String,
        /// The word.
        word: String,
        /// What it should be: `an axis of the mesh`.
        what: &'static str,
    },
    /// Every word is known, but they do not make a schedule.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Malformed(#[from] Malformed),
}

/// The document of a schedule, on one line.
///
/// # Panics
/// If the schedule is malformed: [`verify`] refuses it.
pub fn to_json(schedule: &Schedule) -> String {
    escape::json(&serde_json::to_string(&write::document(schedule)).expect("a document has only string keys"))
        .into_owned()
}

/// The schedule of a document. It has passed [`verify`].
///
/// # Errors
/// The first thing that is wrong: the text, a word, or the form of the schedule.
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
    /// Places of operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kernels: Vec<Vec<u32>>,
    outputs: Vec<OutputDocument>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeshDocument {
    axes: Vec<AxisDocument>,
    /// Axes of the machine of which those are parts.
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
    /// Left out where nothing is padding.
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
    Product { operands: [u32; 2], einsum: String },
    Reduce { operator: String, operand: u32, einsum: String },
    Map { function: String, operands: Vec<u32>, einsum: String },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShardingDocument {
    dims: Vec<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    open: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operator: Option<String>,
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
    Input { array: u32, sharding: ShardingDocument },
    Slice { view: Vec<u64>, region: Vec<CutDocument> },
    Shuffle { sources: SourcesDocument, route: RouteDocument },
    Add { operator: String },
    Assemble { view: Vec<u64>, places: Vec<Vec<CutDocument>> },
    AllGather { axes: Vec<String>, dim: u32 },
    SwitchSum { axes: Vec<String>, operator: String },
    MatMul { einsum: String },
    Reduce { operator: String, einsum: String },
    Map { function: String, einsum: String },
    Fill { dim: u32, valid: u64, with: String, block: CutDocument },
    Mask { axes: Vec<String> },
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
