//! Errors of reading array files.

use crate::dtype::DType;

/// The reason why a file does not hold the requested array.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(#[from] std::io::Error),
    /// The file is not valid.
    #[error("not a {format} file: {problem}")]
    Malformed {
        /// Expected format.
        format: &'static str,
        /// Description of the error.
        problem: String,
    },
    /// The elements have another type.
    #[error("expected elements of {wanted}, found `{found}`")]
    DType {
        /// Type name in the file.
        found: String,
        /// Type in the program.
        wanted: DType,
    },
    /// A file of 8-bit integers has one that does not fit into 4 bits.
    #[error("expected numbers of {wanted}, from {} to {}, found {number}", wanted.ends()[0], wanted.ends()[1])]
    Range {
        /// Number in the file.
        number: i64,
        /// Type in the program.
        wanted: DType,
    },
    /// The extents differ.
    #[error("expected shape {wanted:?}, found {found:?}")]
    Extents {
        /// Extents in the file.
        found: Vec<u64>,
        /// Extents in the program.
        wanted: Vec<u64>,
    },
    /// The file has fewer or more bytes than its header states.
    #[error("expected {promised} bytes of elements by the header, found {found}")]
    Length {
        /// Bytes according to the header.
        promised: u64,
        /// Bytes in the file.
        found: u64,
    },
    /// A file of several arrays has none with this name.
    #[error("no array `{key}` in the file; arrays are {known}")]
    NoKey {
        /// The name.
        key: String,
        /// The names in the file.
        known: String,
    },
}
