//! 8-bit floats: OCP 8-bit Floating Point Specification, revision 1.0.

use crate::dtype::{DType, Format, power};
use std::cmp::Ordering;
use std::sync::LazyLock;

/// Defines an 8-bit float by the dtype that has its format.
macro_rules! float8 {
    ($(#[$meta:meta])* $type:ident, $dtype:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $type(u8);

        impl $type {
            fn format() -> Format {
                DType::$dtype.format().expect("a float")
            }

            /// Rounds to nearest even.
            pub(super) fn from_f64(value: f64) -> Self {
                $type(encode(value, Self::format()))
            }

            /// Rounds to nearest even.
            pub(super) fn from_f32(value: f32) -> Self {
                $type(encode(f64::from(value), Self::format()))
            }

            /// The number, which f32 has.
            pub(super) fn to_f32(self) -> f32 {
                #[expect(clippy::cast_possible_truncation, reason = "f32 has all of them")]
                static NUMBERS: LazyLock<[f32; 256]> =
                    LazyLock::new(|| std::array::from_fn(|bits| $type::format().decode(bits as u64) as f32));
                NUMBERS[usize::from(self.0)]
            }

            /// The number, which f64 has.
            pub(super) fn to_f64(self) -> f64 {
                self.to_f32().into()
            }

            /// The number with this encoding.
            pub(super) fn from_le_bytes([bits]: [u8; 1]) -> Self {
                $type(bits)
            }

            /// Its encoding.
            pub(super) fn to_le_bytes(self) -> [u8; 1] {
                [self.0]
            }
        }

        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }
    };
}

float8!(
    /// e4m3fn: no infinities, one NaN.
    E4M3,
    F8E4M3
);
float8!(
    /// e5m2: the upper half of an f16.
    E5M2,
    F8E5M2
);

/// The encoding of the nearest number; of two, the one with an even mantissa. A number that would be rounded above the
/// largest becomes an infinity, or a NaN in a format without infinities.
fn encode(value: f64, format: Format) -> u8 {
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let infinity = ((1 << format.exponent) - 1) << format.mantissa;
    let overflow = if format.has_infinity { infinity } else { 0x7F };
    if value.is_nan() {
        return sign | 0x7F;
    }
    let magnitude = value.abs();
    // Adjacent numbers are a power of two apart, which f64 divides by exactly, and their encodings are consecutive.
    let least = format.least_exponent();
    let exponent = exponent(magnitude).max(least + format.mantissa.cast_signed());
    let step = exponent - format.mantissa.cast_signed();
    let steps = (magnitude / power(step)).round_ties_even();
    let rounded = steps * power(step);
    if rounded > format.most() {
        return sign | overflow;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the largest number")]
    let bits = ((step - least) << format.mantissa) as u8 + steps as u8;
    sign | bits
}

/// The exponent of a number's leading bit; that of the smallest normal number for smaller ones.
fn exponent(magnitude: f64) -> i32 {
    const BIAS: i32 = 1023;
    const MANTISSA: u32 = 52;
    i32::try_from(magnitude.to_bits() >> MANTISSA).expect("11 bits without a sign") - BIAS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables from the definition in the specification: value, or `None` for a NaN, of each encoding.
    fn table(exponent_bits: u32, bias: i32, special: impl Fn(u32, u32) -> Option<Option<f64>>) -> Vec<Option<f64>> {
        let mantissa_bits = 7 - exponent_bits;
        let number = |bits: u32| {
            let (exponent, mantissa) =
                (bits >> mantissa_bits & ((1 << exponent_bits) - 1), bits & ((1 << mantissa_bits) - 1));
            let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
            let magnitude = special(exponent, mantissa).unwrap_or(Some(if exponent == 0 {
                fraction * 2f64.powi(1 - bias)
            } else {
                (1.0 + fraction) * 2f64.powi(exponent.cast_signed() - bias)
            }));
            magnitude.map(|magnitude| if bits < 128 { magnitude } else { -magnitude })
        };
        (0..256).map(number).collect()
    }

    fn e4m3() -> Vec<Option<f64>> {
        table(4, 7, |exponent, mantissa| (exponent == 15 && mantissa == 7).then_some(None))
    }

    fn e5m2() -> Vec<Option<f64>> {
        table(5, 15, |exponent, mantissa| (exponent == 31).then_some((mantissa == 0).then_some(f64::INFINITY)))
    }

    /// The nearest finite number by enumeration; ties go to the even encoding. Beyond half a step above the largest,
    /// infinity or `None`.
    fn nearest(value: f64, table: &[Option<f64>], overflow: Option<f64>) -> Option<f64> {
        if value.is_nan() {
            return None;
        }
        let finite: Vec<(usize, f64)> =
            (0..128).filter_map(|bits| Some((bits, table[bits]?))).filter(|(_, number)| number.is_finite()).collect();
        let (last, most) = finite[finite.len() - 1];
        // The number after the largest, if the exponents went on.
        let next = most + (most - finite[finite.len() - 2].1);
        let candidates = finite.into_iter().chain([(last + 1, next)]);
        let magnitude = value.abs().min(next);
        let best = candidates.min_by(|(a, x), (b, y)| {
            let [x, y] = [x, y].map(|number| (number - magnitude).abs());
            x.total_cmp(&y).then((a % 2).cmp(&(b % 2)))
        });
        let (_, number) = best.expect("some numbers");
        let magnitude = if number > most { overflow? } else { number };
        Some(magnitude.copysign(value))
    }

    #[test]
    fn every_encoding_has_the_value_of_the_specification_and_comes_back() {
        for (bits, (a, b)) in (0..=255).zip(e4m3().into_iter().zip(e5m2())) {
            for (found, expected, back) in [
                (E4M3(bits).to_f64(), a, E4M3::from_f64(E4M3(bits).to_f64()).0),
                (E5M2(bits).to_f64(), b, E5M2::from_f64(E5M2(bits).to_f64()).0),
            ] {
                match expected {
                    None => assert!(found.is_nan(), "{bits:#x}"),
                    Some(number) => {
                        assert_eq!(found.to_bits(), number.to_bits(), "{bits:#x}");
                        assert_eq!(back, bits);
                    }
                }
            }
        }
        assert_eq!(e4m3()[0x7E], Some(448.0));
        assert_eq!(e5m2()[0x7B], Some(57344.0));
    }

    /// All numbers, the midpoints between them, and the closest f64s on either side of both.
    fn probes(table: &[Option<f64>]) -> Vec<f64> {
        let mut numbers: Vec<f64> = table.iter().copied().flatten().filter(|number| number.is_finite()).collect();
        numbers.sort_by(f64::total_cmp);
        let most = numbers[numbers.len() - 1];
        let midpoints: Vec<f64> = numbers.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])).collect();
        let above: Vec<f64> = (1..64).map(|n| most * (1.0 + f64::from(n) / 128.0)).collect();
        let all = numbers.into_iter().chain(midpoints).chain(above);
        let around = all.flat_map(|number| [number, number.next_up(), number.next_down(), -number]);
        around
            .chain([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300, 1e-300, f64::MIN_POSITIVE / 4.0, -0.0])
            .collect()
    }

    #[test]
    fn casts_give_the_nearest_of_all_numbers() {
        let same = |found: f64, expected: Option<f64>| match expected {
            None => found.is_nan(),
            Some(number) => found.to_bits() == number.to_bits(),
        };
        let mut random = fastrand::Rng::with_seed(8);
        let scattered: Vec<f64> = (0..20_000).map(|_| (random.f64() - 0.5) * 2f64.powi(random.i32(-20..=18))).collect();
        for value in probes(&e4m3()).into_iter().chain(probes(&e5m2())).chain(scattered) {
            let (a, b) = (nearest(value, &e4m3(), None), nearest(value, &e5m2(), Some(f64::INFINITY)));
            assert!(same(E4M3::from_f64(value).to_f64(), a), "{value:e}: {a:?}");
            assert!(same(E5M2::from_f64(value).to_f64(), b), "{value:e}: {b:?}");
            #[expect(clippy::cast_possible_truncation, reason = "the value is rounded to f32 first")]
            let single = value as f32;
            let (a, b) = (nearest(single.into(), &e4m3(), None), nearest(single.into(), &e5m2(), Some(f64::INFINITY)));
            assert!(same(E4M3::from_f32(single).to_f32().into(), a), "{single:e}: {a:?}");
            assert!(same(E5M2::from_f32(single).to_f32().into(), b), "{single:e}: {b:?}");
        }
    }
}
