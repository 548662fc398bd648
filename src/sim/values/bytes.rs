//! Blocks as bytes: little-endian elements in row-major order, as in files and messages. 4-bit integers have a byte
//! each in files, and share one with another in messages.

use super::element::{Element, with_dtype};
use super::integer4::{packed, unpacked};
use super::tensor::Tensor;
use super::view::{Line, addressable, walk};
use crate::dtype::DType;

impl Tensor {
    /// A block from the bytes of its elements; `None` if the number of bytes does not match the extents. A bool is
    /// true unless its byte is 0.
    pub fn from_le_bytes(dtype: DType, extents: &[u64], bytes: &[u8]) -> Option<Tensor> {
        let elements: usize = addressable(extents)?.iter().product();
        let size = usize::try_from(dtype.stored()).ok()?;
        if elements.checked_mul(size) != Some(bytes.len()) {
            return None;
        }
        with_dtype!(dtype, T => Tensor::from_vec::<T>(extents, T::from_bytes(bytes)))
    }

    /// The bytes of its elements.
    pub fn to_le_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_le_bytes(&mut bytes);
        bytes
    }

    /// Appends the bytes of its elements.
    pub fn append_le_bytes(&self, bytes: &mut Vec<u8>) {
        let view = self.view();
        with_dtype!(self.dtype(), T => {
            let buffer = self.buffer::<T>();
            walk(&view.extents, [view.offset], [&view.strides], |Line { starts: [start], steps, length }| {
                if steps == [1] {
                    T::append_bytes(&buffer[start..start + length], bytes);
                } else {
                    (0..length).for_each(|i| T::append_bytes(&buffer[start + i * steps[0]..][..1], bytes));
                }
            });
        });
    }

    /// A block from the bytes of a message; `None` if their number does not match the extents.
    pub fn from_message(dtype: DType, extents: &[u64], bytes: &[u8]) -> Option<Tensor> {
        if dtype.bits() != 4 {
            return Tensor::from_le_bytes(dtype, extents, bytes);
        }
        let elements: usize = addressable(extents)?.iter().product();
        let is_whole = bytes.len() == elements.div_ceil(2);
        is_whole.then(|| unpacked(elements, bytes)).and_then(|bytes| Tensor::from_le_bytes(dtype, extents, &bytes))
    }

    /// Appends the bytes of its elements in a message, where two 4-bit integers share one.
    pub fn append_message(&self, bytes: &mut Vec<u8>) {
        match self.dtype().bits() {
            4 => bytes.extend(packed(&self.to_le_bytes())),
            _ => self.append_le_bytes(bytes),
        }
    }

    /// The same elements with the dims in the opposite order.
    pub fn transposed(&self) -> Tensor {
        let mut view = self.view().clone();
        view.extents.reverse();
        view.strides.reverse();
        self.with_view(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_comes_back_from_its_bytes() {
        for dtype in DType::ALL {
            let tensor = Tensor::from_integers(dtype, &[2, 3], &[0, 1, -1, 2, -5, 100]).expect("six elements");
            let bytes = tensor.to_le_bytes();
            assert_eq!(bytes.len() as u64, 6 * dtype.stored());
            let back = Tensor::from_le_bytes(dtype, &[2, 3], &bytes).expect("as many bytes");
            assert_eq!(back.to_f64s(), tensor.to_f64s());
            assert!(Tensor::from_le_bytes(dtype, &[2, 3], &bytes[1..]).is_none());
            assert!(Tensor::from_le_bytes(dtype, &[2, 4], &bytes).is_none());
            let turned = Tensor::from_le_bytes(dtype, &[3, 2], &tensor.transposed().to_le_bytes()).expect("as many");
            assert_eq!(turned.transposed().to_f64s(), tensor.to_f64s());
        }
        let bits = Tensor::from_integers(DType::I32, &[1], &[0x0102_0304]).expect("one element").to_le_bytes();
        assert_eq!(bits, [4, 3, 2, 1]);
    }
}
