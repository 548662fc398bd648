//! 4-bit integers. On devices and in messages, two of them share a byte; here and in files, each has its own.

use super::element::{Element, Storage};
use crate::dtype::DType;
use std::sync::Arc;

/// Defines a 4-bit integer in an 8-bit one, whose upper bits repeat the sign.
macro_rules! integer4 {
    ($(#[$meta:meta])* $type:ident, $inner:ty) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $type($inner);

        impl $type {
            /// The element with the lower bits of a number.
            fn wrapped(number: $inner) -> Self {
                $type(number << 4 >> 4)
            }

            /// The nearest element.
            fn saturated(number: $inner) -> Self {
                $type(number.clamp(<$inner>::MIN >> 4, <$inner>::MAX >> 4))
            }
        }

        #[expect(clippy::allow_attributes, reason = "which casts can lose something depends on the type")]
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            clippy::cast_sign_loss,
            clippy::cast_lossless,
            reason = "integers wrap, floats saturate"
        )]
        impl Element for $type {
            const DTYPE: DType = DType::$type;
            fn wrap(buffer: Arc<Vec<Self>>) -> Storage {
                Storage::$type(buffer)
            }
            fn open(storage: &Storage) -> Option<&Arc<Vec<Self>>> {
                if let Storage::$type(buffer) = storage { Some(buffer) } else { None }
            }
            fn unwrap(storage: Storage) -> Option<Arc<Vec<Self>>> {
                if let Storage::$type(buffer) = storage { Some(buffer) } else { None }
            }
            fn from_i64(value: i64) -> Self {
                $type::wrapped(value as $inner)
            }
            fn from_u64(value: u64) -> Self {
                $type::wrapped(value as $inner)
            }
            fn from_f32(value: f32) -> Self {
                $type::saturated(value as $inner)
            }
            fn from_f64(value: f64) -> Self {
                $type::saturated(value as $inner)
            }
            fn to_i64(self) -> i64 {
                self.0 as i64
            }
            fn to_u64(self) -> u64 {
                self.0 as u64
            }
            fn to_f32(self) -> f32 {
                self.0.into()
            }
            fn to_f64(self) -> f64 {
                self.0.into()
            }
            fn sum(self, other: Self) -> Self {
                $type::wrapped(self.0.wrapping_add(other.0))
            }
            fn from_bytes(bytes: &[u8]) -> Vec<Self> {
                bytes.iter().map(|byte| $type::wrapped(*byte as $inner)).collect()
            }
            fn append_bytes(elements: &[Self], bytes: &mut Vec<u8>) {
                bytes.extend(elements.iter().map(|element| element.0 as u8));
            }
        }
    };
}

integer4!(
    /// From -8 to 7.
    I4,
    i8
);
integer4!(
    /// From 0 to 15.
    U4,
    u8
);

/// The bytes of a message: the bytes of elements of a dtype, two 4-bit integers to a byte, the first one in its lower
/// half.
pub(crate) fn packed(dtype: DType, bytes: Vec<u8>) -> Vec<u8> {
    if dtype.bits() != 4 {
        return bytes;
    }
    let pair = |pair: &[u8]| pair[0] & 0xF | pair.get(1).map_or(0, |second| second << 4);
    bytes.chunks(2).map(pair).collect()
}

/// The bytes of as many elements of a dtype from those of a message; the last half of a byte may be unused.
pub(crate) fn unpacked(dtype: DType, elements: u64, bytes: &[u8]) -> Vec<u8> {
    if dtype.bits() != 4 {
        return bytes.to_vec();
    }
    let halves = bytes.iter().flat_map(|byte| [byte & 0xF, byte >> 4]);
    halves.take(usize::try_from(elements).unwrap_or(usize::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers as the definition has them: modulo 16, or the nearest.
    #[test]
    fn numbers_wrap_or_saturate() {
        for number in -1000_i64..1000 {
            let signed = (number + 8).rem_euclid(16) - 8;
            assert_eq!((I4::from_i64(number).to_i64(), U4::from_i64(number).to_i64()), (signed, number.rem_euclid(16)));
            let float = number as f64;
            assert_eq!(I4::from_f64(float).to_f64(), float.clamp(-8.0, 7.0));
            assert_eq!(U4::from_f32(float as f32).to_f64(), float.clamp(0.0, 15.0));
            for other in [-9, -8, -1, 0, 3, 7, 8, 15] {
                let sums =
                    (I4::from_i64(number).sum(I4::from_i64(other)), U4::from_i64(number).sum(U4::from_i64(other)));
                assert_eq!(sums, (I4::from_i64(number + other), U4::from_i64(number + other)));
            }
        }
        assert_eq!((I4::from_f64(f64::NAN), U4::from_f64(-0.5)), (I4(0), U4(0)));
        assert_eq!((I4::from_f64(-7.9), U4::from_f64(14.9)), (I4(-7), U4(14)));
    }

    #[test]
    fn messages_have_two_elements_to_a_byte() {
        for (dtype, numbers) in [(DType::I4, -8_i64..8), (DType::U4, 0..16)] {
            for elements in 0..=16 {
                let numbers: Vec<i64> = numbers.clone().take(elements).collect();
                let bytes = match dtype {
                    DType::I4 => numbers.iter().map(|number| I4::from_i64(*number).0 as u8).collect(),
                    _ => numbers.iter().map(|number| U4::from_i64(*number).0).collect::<Vec<u8>>(),
                };
                let message = packed(dtype, bytes);
                assert_eq!(message.len() as u64, dtype.bytes(elements as u64));
                let back = unpacked(dtype, elements as u64, &message);
                let back: Vec<i64> = match dtype {
                    DType::I4 => I4::from_bytes(&back).into_iter().map(Element::to_i64).collect(),
                    _ => U4::from_bytes(&back).into_iter().map(Element::to_i64).collect(),
                };
                assert_eq!(back, numbers);
            }
        }
        assert_eq!(packed(DType::U8, vec![1, 2, 3]), [1, 2, 3]);
    }
}
