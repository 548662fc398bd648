//! 4-bit integers. On devices and in messages, two of them share a byte; here and in files, each has its own.

/// Defines a 4-bit integer in an 8-bit one, whose upper bits repeat the sign.
macro_rules! integer4 {
    ($(#[$meta:meta])* $type:ident, $inner:ty) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $type($inner);

        impl $type {
            /// The element with the lower bits of a number.
            pub(super) fn wrapped(number: i64) -> Self {
                #[expect(clippy::allow_attributes, reason = "one of both types has a sign")]
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "integers wrap")]
                let lower = number as $inner;
                $type(lower << 4 >> 4)
            }

            /// The nearest element to a number cut towards zero; 0 for a NaN.
            pub(super) fn saturated(number: f64) -> Self {
                #[expect(clippy::allow_attributes, reason = "one of both types has a sign")]
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
                let nearest = number as $inner;
                $type(nearest.clamp(<$inner>::MIN >> 4, <$inner>::MAX >> 4))
            }

            /// The number.
            pub(super) fn number(self) -> i64 {
                self.0.into()
            }

            /// The number in a byte of a file, of which upper bits are ignored.
            pub(super) fn from_le_bytes([byte]: [u8; 1]) -> Self {
                $type::wrapped(byte.into())
            }

            /// Its byte in a file.
            pub(super) fn to_le_bytes(self) -> [u8; 1] {
                self.0.to_le_bytes()
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

/// The bytes of a message of elements with a byte each: the first of two in the lower half of a byte.
pub(super) fn packed(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.chunks(2).map(|pair| pair[0] & 0xF | pair.get(1).map_or(0, |second| second << 4))
}

/// The bytes of as many elements from those of a message; the last half of a byte may be unused.
pub(super) fn unpacked(elements: usize, bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [byte & 0xF, byte >> 4]).take(elements).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    /// Numbers as the definition has them: modulo 16, or the nearest.
    #[test]
    fn numbers_wrap_or_saturate() {
        for number in -1000_i64..1000 {
            let signed = (number + 8).rem_euclid(16) - 8;
            assert_eq!((I4::wrapped(number).number(), U4::wrapped(number).number()), (signed, number.rem_euclid(16)));
            let float = number as f64;
            assert_eq!(I4::saturated(float).number(), number.clamp(-8, 7));
            assert_eq!(U4::saturated(float).number(), number.clamp(0, 15));
        }
        assert_eq!((I4::saturated(f64::NAN), U4::saturated(-0.5)), (I4(0), U4(0)));
        assert_eq!((I4::saturated(-7.9), U4::saturated(14.9)), (I4(-7), U4(14)));
        assert_eq!((I4::from_le_bytes([0xF]), I4::from_le_bytes([0xFF])), (I4(-1), I4(-1)));
    }

    #[test]
    fn messages_have_two_elements_to_a_byte() {
        for elements in 0..=16 {
            let numbers: Vec<i64> = (-8..8).take(elements).collect();
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| I4::wrapped(*number).to_le_bytes()).collect();
            let message: Vec<u8> = packed(&bytes).collect();
            assert_eq!(message.len() as u64, DType::I4.bytes(elements as u64));
            let back = unpacked(elements, &message).into_iter();
            assert_eq!(back.map(|byte| I4::from_le_bytes([byte]).number()).collect::<Vec<_>>(), numbers);
        }
        assert!(packed(&[1, 2, 3]).eq([0x21, 0x03]));
    }
}
