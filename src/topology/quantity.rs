//! Figures of a profile with units: `4.5e10`, `"45 GB/s"`, `"1us"`.

use crate::amount::{self, Unit};
use crate::units::{Bytes, Rate};
use serde::de::{Deserializer, Error, Visitor};
use std::fmt;

/// The kind of a field.
#[derive(Clone, Copy)]
struct Kind {
    /// Description with an example, for errors.
    expected: &'static str,
    units: &'static [Unit],
    /// Whether a bare number in base units is accepted.
    bare: bool,
}

const TIME: Kind = Kind {
    expected: "a time in whole picoseconds with a unit, such as \"1us\" or \"500 ns\"",
    units: &amount::TIME,
    bare: false,
};

const BYTES: Kind = Kind {
    expected: "a whole number of bytes, such as 16e9, \"16 GB\" or \"96 GiB\"",
    units: &amount::BYTES,
    bare: true,
};

const BANDWIDTH: Kind = Kind {
    expected: "bytes per second, such as 4.5e10 or \"45 GB/s\", at least 1000",
    units: &[("B/s", 1), ("kB/s", 1_000), ("MB/s", 1_000_000), ("GB/s", 1_000_000_000), ("TB/s", 1_000_000_000_000)],
    bare: true,
};

const FLOPS: Kind = Kind {
    expected: "operations per second, such as 1.97e14 or \"197 TFLOP/s\", at least 1000",
    units: &[
        ("FLOP/s", 1),
        ("GFLOP/s", 1_000_000_000),
        ("TFLOP/s", 1_000_000_000_000),
        ("PFLOP/s", 1_000_000_000_000_000),
        ("OP/s", 1),
        ("GOP/s", 1_000_000_000),
        ("TOP/s", 1_000_000_000_000),
        ("POP/s", 1_000_000_000_000_000),
    ],
    bare: true,
};

/// Parses picoseconds.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(TIME)
}

pub(super) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    deserializer.deserialize_any(BYTES).map(Bytes)
}

/// Parses optional bytes.
pub(super) fn some_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    bytes(deserializer).map(Some)
}

/// Parses bytes per second.
pub(super) fn bandwidth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    rate(deserializer.deserialize_any(BANDWIDTH)?)
}

/// Parses optional bytes per second.
pub(super) fn some_bandwidth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rate>, D::Error> {
    bandwidth(deserializer).map(Some)
}

/// Parses optional picoseconds.
pub(super) fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    time(deserializer).map(Some)
}

/// Parses operations per second.
pub(super) fn flops<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    rate(deserializer.deserialize_any(FLOPS)?)
}

/// Below a thousand per second a byte would take too many ticks for large sizes.
fn rate<E: Error>(per_second: u64) -> Result<Rate, E> {
    let rate = Rate::new(per_second).filter(|_| per_second >= 1_000);
    rate.ok_or_else(|| E::custom(format!("the rate {per_second} per second is below 1000")))
}

impl Visitor<'_> for Kind {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        let bare = || Some(text.trim()).filter(|_| self.bare).and_then(|number| amount::scaled(number, 1));
        // TOML has signed integers.
        let value = amount::read(text, self.units).or_else(bare).and_then(|value| i64::try_from(value).ok());
        let value = value.and_then(|value| u64::try_from(value).ok());
        value.ok_or_else(|| E::custom(format!("`{text}` is not {}", self.expected)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
        self.visit_str(&number.to_string())
    }

    /// Formats the shortest decimal that parses to this float.
    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        self.visit_str(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_units_of_their_field() {
        let read = |kind: Kind, text| kind.visit_str::<serde::de::value::Error>(text).ok();
        assert_eq!(read(BANDWIDTH, "45 GB/s"), Some(45_000_000_000));
        assert_eq!(read(BANDWIDTH, "4.5e10"), Some(45_000_000_000));
        assert_eq!(read(FLOPS, "197 TFLOP/s"), Some(197_000_000_000_000));
        assert_eq!(read(BYTES, "1.5 GiB"), Some(3 << 29));
        assert_eq!(read(TIME, "500 ns"), Some(500_000));
        for (kind, text) in [(BANDWIDTH, "45 GB"), (BYTES, "1 GB/s"), (FLOPS, "1 GB"), (TIME, "1"), (BYTES, "1e19")] {
            assert_eq!(read(kind, text), None, "{text}");
        }
    }
}
