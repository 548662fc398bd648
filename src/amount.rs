//! Amounts with units: `500us`, `2.5 GiB`, `4e12`.
//!
//! They are parsed as decimals, without binary fractions, so they are exact.

/// A unit and its size in base units.
pub(crate) type Unit = (&'static str, u128);

/// Units of time, in picoseconds.
pub(crate) const TIME: [Unit; 5] =
    [("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)];

/// Units of memory, in bytes.
pub(crate) const BYTES: [Unit; 9] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Parses an amount to base units. `None` if the unit is unknown, or the amount is not a whole number of base units.
pub(crate) fn read(text: &str, units: &[Unit]) -> Option<u128> {
    let text = text.trim();
    // The longest unit that fits: `GB` before `B`. An exponent is not a unit: no unit is a lone `e`.
    let fitting = units.iter().filter_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (number, factor) = fitting.min_by_key(|(number, _)| number.len())?;
    scaled(number.trim_end(), *factor)
}

/// A decimal number times a factor; `None` if the result is not a whole number below 2^100.
pub(crate) fn scaled(number: &str, factor: u128) -> Option<u128> {
    const MOST: u128 = 1 << 100;
    let number = number.replace('_', "");
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((&number, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let mantissa: u128 = format!("{whole}{fraction}").parse().ok().filter(|value| *value < MOST)?;
    let exponent = exponent.parse::<i64>().ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let power = 10u128.checked_pow(u32::try_from(exponent.unsigned_abs()).ok()?);
    let value = mantissa.checked_mul(factor)?;
    if value == 0 {
        return Some(0);
    }
    let value = match exponent < 0 {
        true => power.filter(|power| value.is_multiple_of(*power)).map(|power| value / power)?,
        false => value.checked_mul(power?)?,
    };
    (value < MOST).then_some(value)
}

/// Formats an amount in the largest unit of which it is a whole number: `1us`.
pub(crate) fn exact(value: u64, units: &[Unit]) -> String {
    let whole = units.iter().filter(|(_, factor)| u128::from(value).is_multiple_of(*factor));
    let (unit, factor) = whole.max_by_key(|(_, factor)| *factor).copied().unwrap_or(("", 1));
    format!("{}{unit}", u128::from(value) / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        for (number, factor, value) in [
            ("500", 1_000_000, Some(500_000_000)),
            ("2.5", 1_000, Some(2_500)),
            ("4e12", 1, Some(4_000_000_000_000)),
            ("0.1", 1 << 30, None),
            ("1.50", 2, Some(3)),
            ("1e-3", 1_000, Some(1)),
            ("1e99", 1, None),
            ("1e99999999999999999999", 1, None),
        ] {
            assert_eq!(scaled(number, factor), value, "{number}");
        }
    }

    #[test]
    fn numbers_with_units_are_exact() {
        assert_eq!(read("45 GB", &BYTES), Some(45_000_000_000));
        assert_eq!(read("1.5 GiB", &BYTES), Some(3 << 29));
        assert_eq!(read("1us", &TIME), Some(1_000_000));
        assert_eq!(read("0.5 us", &TIME), Some(500_000));
        assert_eq!(read("1.5e-3 ms", &TIME), Some(1_500_000));
        assert_eq!(read("0s", &TIME), Some(0));
        for value in [0, 1, 1_500, 2_000_000, 3_000_000_000_000] {
            assert_eq!(read(&exact(value, &TIME), &TIME), Some(u128::from(value)));
        }
        assert_eq!([1_500, 2_000_000].map(|value| exact(value, &TIME)), ["1500ps", "2us"]);
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in
            ["", "us", "-1us", "+1us", "1", "0.5ps", "1 1us", "1e400s", "1e-400s", "9e30s", ".5us", "1e99999999999us"]
        {
            assert_eq!(read(text, &TIME), None, "{text}");
        }
    }
}
