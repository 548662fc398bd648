//! Why a file does not hold the array that is wanted.

use crate::dtype::DType;

/// Why a file does not hold the array that is wanted.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(#[from] std::io::Error),
    /// The file is not what its name says.
    #[error("it is no {format} file: {problem}")]
    Malformed {
        /// What it should be.
        format: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// Elements of another type.
    #[error("the program declares elements of {wanted}, the file has `{found}`")]
    DType {
        /// As the file names it.
        found: String,
        /// As the program names it.
        wanted: DType,
    },
    /// Other extents.
    #[error("the program declares the shape {wanted:?}, the file has {found:?}")]
    Extents {
        /// In the file.
        found: Vec<u64>,
        /// In the program.
        wanted: Vec<u64>,
    },
    /// Fewer or more bytes than the header promises.
    #[error("its header promises {promised} bytes of elements, {found} follow")]
    Length {
        /// What the header says.
        promised: u64,
        /// What the file has.
        found: u64,
    },
    /// A file of several arrays has none of this name.
    #[error("it has no array `{key}`; it has {known}")]
    NoKey {
        /// The name.
        key: String,
        /// The names that it has.
        known: String,
    },
}
