//! Numbers with units, as a person writes them in a profile: `4.5e10`, `"45 GB/s"`, `"1us"`.
//!
//! They are read as decimals and never pass through binary fractions, so what is written is what is counted with.

use serde::de::{Deserializer, Error, Visitor};
use std::fmt;

/// A unit and how many of the base unit it is.
type Unit = (&'static str, u128);

/// What a field holds: the units it may be written in.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// With an example, for the error.
    expected: &'static str,
    /// The units; the first that is the empty word lets a bare number stand.
    units: &'static [Unit],
}

const KILO: u128 = 1_000;
const MEGA: u128 = 1_000_000;
const GIGA: u128 = 1_000_000_000;
const TERA: u128 = 1_000_000_000_000;
const PETA: u128 = 1_000_000_000_000_000;

/// In picoseconds; a bare number is refused, for nobody could tell its unit.
pub(super) const TIME: Kind = Kind {
    expected: "a time of whole picoseconds with its unit, such as \"1us\" or \"500 ns\"",
    units: &[("ps", 1), ("ns", KILO), ("us", MEGA), ("ms", GIGA), ("s", TERA)],
};

/// In bytes.
pub(super) const BYTES: Kind = Kind {
    expected: "a whole number of bytes, such as 16e9, \"16 GB\" or \"96 GiB\"",
    units: &[
        ("", 1),
        ("B", 1),
        ("kB", KILO),
        ("MB", MEGA),
        ("GB", GIGA),
        ("TB", TERA),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ],
};

/// In bytes a second.
pub(super) const BANDWIDTH: Kind = Kind {
    expected: "bytes a second, such as 4.5e10 or \"45 GB/s\", at least 1000",
    units: &[("", 1), ("B/s", 1), ("kB/s", KILO), ("MB/s", MEGA), ("GB/s", GIGA), ("TB/s", TERA)],
};

/// In operations a second.
pub(super) const FLOPS: Kind = Kind {
    expected: "operations a second, such as 1.97e14 or \"197 TFLOP/s\", at least 1000",
    units: &[
        ("", 1),
        ("FLOP/s", 1),
        ("GFLOP/s", GIGA),
        ("TFLOP/s", TERA),
        ("PFLOP/s", PETA),
        ("OP/s", 1),
        ("GOP/s", GIGA),
        ("TOP/s", TERA),
        ("POP/s", PETA),
    ],
};

impl Kind {
    /// Reads a TOML number or string as this kind.
    pub(super) fn read<'de, D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(self)
    }

    /// The number of base units that the text says, if it is a whole number.
    fn parse(self, text: &str) -> Option<u64> {
        let text = text.trim();
        // The longest unit that fits: `GB` before `B`. An exponent is no unit, for no unit is a lone `e`.
        let units = self.units.iter().filter(|(unit, _)| text.ends_with(unit));
        let (unit, factor) = units.max_by_key(|(unit, _)| unit.len())?;
        decimal(text.strip_suffix(unit)?.trim_end(), *factor)
    }
}

/// `number * factor`, where that is whole and below 2^63.
fn decimal(number: &str, factor: u128) -> Option<u64> {
    let (digits, exponent) = match number.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (number, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    if whole.is_empty() || !plain(whole) || !plain(fraction) {
        return None;
    }
    let digits: String = whole.chars().chain(fraction.chars()).filter(char::is_ascii_digit).collect();
    let places = i32::try_from(fraction.chars().filter(char::is_ascii_digit).count()).ok()?;
    let mantissa = digits.parse::<u128>().ok()?.checked_mul(factor)?;
    let shift = exponent.checked_sub(places)?;
    let power = 10u128.checked_pow(shift.unsigned_abs());
    let value = match power {
        _ if mantissa == 0 => 0,
        Some(power) if shift >= 0 => mantissa.checked_mul(power)?,
        Some(power) => mantissa.is_multiple_of(power).then(|| mantissa / power)?,
        None => return None,
    };
    i64::try_from(value).ok().and_then(|value| u64::try_from(value).ok())
}

impl Visitor<'_> for Kind {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        self.parse(text).ok_or_else(|| E::custom(format!("`{text}` is not {}", self.expected)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
        self.visit_str(&number.to_string())
    }

    /// The shortest decimal that reads back as this float is what stands in the file.
    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        self.visit_str(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_exact() {
        assert_eq!(BANDWIDTH.parse("45 GB/s"), Some(45_000_000_000));
        assert_eq!(BANDWIDTH.parse("4.5e10"), Some(45_000_000_000));
        assert_eq!(TIME.parse("1us"), Some(1_000_000));
        assert_eq!(TIME.parse("0.5 us"), Some(500_000));
        assert_eq!(TIME.parse("1.5e-3 ms"), Some(1_500_000));
        assert_eq!(BYTES.parse("1.5 GiB"), Some(3 << 29));
        assert_eq!(FLOPS.parse("197 TFLOP/s"), Some(197_000_000_000_000));
        assert_eq!(TIME.parse("0s"), Some(0));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "us", "-1us", "1", "0.5ps", "1 1us", "1e400s", "1e-400s", "9e30s", ".5us", "1e99999999999us"] {
            assert_eq!(TIME.parse(text), None, "{text}");
        }
    }
}
