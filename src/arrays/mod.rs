//! Arrays of other programs: the files of NumPy (`.npy`) and of safetensors, read and written.
//!
//! What is wanted is known before a file is opened: its header is held against that, so nothing is allocated that the
//! program does not ask for. NumPy has no bf16: its files hold such elements as two raw bytes (`V2`), as JAX writes
//! them, or as `u2`; they are written as `V2`.

mod error;
mod npy;
mod tensors;

pub use error::ArrayError;
pub use npy::{read_npy, write_npy};
pub use tensors::{RESERVED, read_safetensors, write_safetensors};

use crate::dtype::DType;
use std::io::{Read, Seek, SeekFrom};

/// What the data of an array must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Of its elements.
    pub dtype: DType,
    /// Length of each dim.
    pub extents: &'a [u64],
}

impl Wanted<'_> {
    /// Bytes of all elements; `None` where they cannot be counted.
    fn bytes(&self) -> Option<u64> {
        self.extents.iter().try_fold(self.dtype.size(), |bytes, extent| bytes.checked_mul(*extent))
    }

    /// Refuses other extents.
    fn check_extents(&self, found: &[u64]) -> Result<(), ArrayError> {
        if found == self.extents || is_merged(found, self.extents) {
            return Ok(());
        }
        Err(ArrayError::Extents { found: found.to_vec(), wanted: self.extents.to_vec() })
    }

    /// A file has this name for its elements, which are not what is wanted.
    fn other_dtype(&self, found: impl ToString) -> ArrayError {
        ArrayError::DType { found: found.to_string(), wanted: self.dtype }
    }
}

/// The bytes from where a file stands to its end, if they are as many as the elements that are wanted have.
fn payload(file: &mut (impl Read + Seek), wanted: Wanted<'_>) -> Result<Vec<u8>, ArrayError> {
    let start = file.stream_position()?;
    let found = file.seek(SeekFrom::End(0))?.saturating_sub(start);
    let promised = wanted.bytes().unwrap_or(u64::MAX);
    if found != promised {
        return Err(ArrayError::Length { promised, found });
    }
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(promised).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether the extents are the wanted ones with neighbours merged: a dim `N = K*M` is stored as one, or as two.
fn is_merged(found: &[u64], wanted: &[u64]) -> bool {
    let mut rest = wanted.iter().peekable();
    let fits = found.iter().all(|extent| {
        let mut product = 1u64;
        while product < *extent {
            let Some(merged) = rest.next().and_then(|own| product.checked_mul(*own)) else { return false };
            product = merged;
        }
        product == *extent
    });
    fits && found.len() < wanted.len() && rest.all(|extent| *extent == 1)
}

#[cfg(test)]
mod tests {
    use super::is_merged;

    #[test]
    fn neighbours_may_be_merged() {
        for (found, wanted, expected) in [
            (&[6, 4][..], &[2, 3, 4][..], true),
            (&[2, 12], &[2, 3, 4], true),
            (&[24], &[2, 3, 4], true),
            (&[8, 3], &[2, 3, 4], false),
            (&[4, 6], &[2, 3, 4], false),
            (&[6], &[2, 3, 4], false),
            (&[], &[1, 1], true),
            (&[6], &[1, 6], true),
            (&[0], &[2, 3], false),
        ] {
            assert_eq!(is_merged(found, wanted), expected, "{found:?} {wanted:?}");
        }
    }
}
