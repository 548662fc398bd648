//! Reads and writes array files: NumPy (`.npy`) and safetensors.
//!
//! The caller knows the expected dtype and extents. Headers are checked against them first, so a file cannot cause
//! allocations beyond what the program needs. NumPy has no bf16: such elements are stored as two raw bytes (`V2`), as
//! JAX does, or as `u2`. They are written as `V2`. 4-bit integers are stored as one raw byte (`V1`), or as `i1` and `u1`.

mod error;
mod npy;
mod tensors;

pub use error::ArrayError;
pub use npy::{read_npy, write_npy};
pub use tensors::{RESERVED, read_safetensors, write_safetensors};

use crate::dtype::DType;
use std::io::{Read, Seek, SeekFrom};

/// Expected dtype and extents of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Dtype of its elements.
    pub dtype: DType,
    /// Length of each dim.
    pub extents: &'a [u64],
}

impl Wanted<'_> {
    /// Bytes of all elements; `None` on overflow.
    fn bytes(&self) -> Option<u64> {
        self.extents.iter().try_fold(self.dtype.stored(), |bytes, extent| bytes.checked_mul(*extent))
    }

    /// Returns an error if the extents differ.
    fn check_extents(&self, found: &[u64]) -> Result<(), ArrayError> {
        if found == self.extents || is_merged(found, self.extents) {
            return Ok(());
        }
        Err(ArrayError::Extents { found: found.to_vec(), wanted: self.extents.to_vec() })
    }

    /// Returns an error if 8-bit integers, with which a file stores a dtype of 4 bits, do not fit into it.
    fn check_range(&self, bytes: &[u8]) -> Result<(), ArrayError> {
        if self.dtype.bits() >= 8 {
            return Ok(());
        }
        let number = |byte: u8| if self.dtype.is_unsigned() { i64::from(byte) } else { i64::from(byte.cast_signed()) };
        let [least, most] = self.dtype.finite_ends();
        let fits = |number: &i64| (least..=most).contains(&(*number as f64));
        let outside = bytes.iter().map(|byte| number(*byte)).find(|number| !fits(number));
        outside.map_or(Ok(()), |number| Err(ArrayError::Range { number, wanted: self.dtype }))
    }

    /// The error for an unexpected dtype.
    fn other_dtype(&self, found: impl ToString) -> ArrayError {
        ArrayError::DType { found: found.to_string(), wanted: self.dtype }
    }
}

/// Reads the remaining bytes of a file, checked against the expected size.
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

/// Whether the extents are equal, possibly with neighbouring dims merged: a dim `N = K*M` may be stored as one or as
/// two.
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
