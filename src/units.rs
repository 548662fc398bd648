//! Bytes, rates and exact time.
//!
//! Time is counted in whole ticks, not in floats, so results are reproducible. A [`TimeScale`] chooses the tick so short
//! that one byte over each link, one byte of memory traffic and one floating-point operation each take a whole number of
//! ticks.

use serde::Serialize;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Rem, Sub};
use thiserror::Error;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    /// Formats decimal units with three digits: `16 B`, `4.19 MB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] = [
            (1_000_000_000_000_000, "PB"),
            (1_000_000_000_000, "TB"),
            (1_000_000_000, "GB"),
            (1_000_000, "MB"),
            (1_000, "kB"),
        ];
        for (unit, name) in UNITS {
            if self.0 >= unit {
                return f.pad(&format!("{} {name}", three_digits(self.0 as f64 / unit as f64)));
            }
        }
        f.pad(&format!("{} B", self.0))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Bytes {
        Bytes(iter.map(|bytes| bytes.0).sum())
    }
}

/// A rate per second, a whole number of bytes or operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Rate(u64);

impl Rate {
    /// A rate of `per_second`; `None` for zero.
    pub fn new(per_second: u64) -> Option<Rate> {
        (per_second > 0).then_some(Rate(per_second))
    }

    /// The amount per second.
    pub fn per_second(self) -> u64 {
        self.0
    }
}

/// Simulated time, in whole ticks of a [`TimeScale`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u128);

impl Time {
    /// Zero.
    pub const ZERO: Time = Time(0);
    /// The largest time; sums and products saturate here.
    pub const MAX: Time = Time(u128::MAX);

    /// A time of this number of ticks.
    pub const fn from_ticks(ticks: u128) -> Time {
        Time(ticks)
    }

    /// Number of ticks.
    pub fn ticks(self) -> u128 {
        self.0
    }

    /// Ratio to another time, as a float; 1 for 0 / 0.
    pub fn ratio(self, other: Time) -> f64 {
        if self.0 == other.0 { 1.0 } else { self.0 as f64 / other.0 as f64 }
    }

    /// Saturating difference.
    pub fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, times: u64) -> Time {
        Time(self.0.saturating_mul(u128::from(times)))
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(iter: I) -> Time {
        iter.fold(Time::ZERO, Add::add)
    }
}

/// The rates of a machine have no common tick of a usable length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the rates have no common tick of a usable length")]
pub struct NoCommonTick;

/// The length of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeScale {
    ticks_per_second: u128,
}

impl TimeScale {
    /// Longest tick: latencies are whole picoseconds.
    const LEAST: u128 = 1_000_000_000_000;
    /// Most ticks per second, so that 2^63 bytes at a hundred thousand bytes per second fit into 128 bits.
    const MOST: u128 = 100_000_000_000_000_000_000_000;

    /// The longest tick that divides a picosecond and the time of one unit at each of the rates.
    ///
    /// # Errors
    /// If there would be more than 10^23 ticks per second; rates with two or three leading digits stay below, in units of
    /// 1000 or of 1024.
    pub fn for_rates(rates: impl IntoIterator<Item = Rate>) -> Result<TimeScale, NoCommonTick> {
        let mut ticks_per_second = Self::LEAST;
        for rate in rates {
            let rate = u128::from(rate.per_second());
            let step = rate / gcd(ticks_per_second, rate);
            ticks_per_second = ticks_per_second.checked_mul(step).filter(|t| *t <= Self::MOST).ok_or(NoCommonTick)?;
        }
        Ok(TimeScale { ticks_per_second })
    }

    /// The time of `amount` at `rate`: exact for the rates of the scale, else rounded up.
    pub fn at_rate(self, amount: u128, rate: Rate) -> Time {
        let rate = u128::from(rate.per_second());
        if self.ticks_per_second.is_multiple_of(rate) {
            Time(amount.saturating_mul(self.ticks_per_second / rate))
        } else {
            Time(amount.saturating_mul(self.ticks_per_second).div_ceil(rate))
        }
    }

    /// The time of this number of picoseconds.
    pub fn picoseconds(self, picoseconds: u64) -> Time {
        Time(u128::from(picoseconds) * (self.ticks_per_second / Self::LEAST))
    }

    /// Picoseconds, rounded down.
    pub fn whole_picoseconds(self, time: Time) -> u128 {
        time.0 / (self.ticks_per_second / Self::LEAST)
    }

    /// Nanoseconds, rounded down.
    pub fn nanoseconds(self, time: Time) -> u128 {
        time.0 / (self.ticks_per_second / 1_000_000_000)
    }

    /// Seconds, as a float.
    pub fn seconds(self, time: Time) -> f64 {
        time.0 as f64 / self.ticks_per_second as f64
    }

    /// Formats three digits and a unit: `372.8 us`, `1.04 ms`.
    pub fn show(self, time: Time) -> String {
        show_seconds(self.seconds(time))
    }
}

/// Formats seconds: `0 s`, `3.00 us`, `372.8 us`, `1.04 ms`.
pub fn show_seconds(seconds: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")];
    if seconds == 0.0 {
        return "0 s".to_owned();
    }
    if seconds < 0.005e-9 {
        return "<0.01 ns".to_owned();
    }
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| seconds >= *unit * 0.999_5).unwrap_or((1e-9, "ns"));
    let value = seconds / unit;
    let digits = if value >= 99.995 { 1 } else { 2 };
    format!("{value:.digits$} {name}")
}

/// Formats a count with its noun: `1 device`, `8 devices`.
pub fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("{count} {noun}") } else { format!("{count} {noun}s") }
}

/// Formats bytes in a table, `-` for none.
pub fn bytes_or_dash(bytes: Bytes) -> String {
    if bytes == Bytes(0) { "-".to_owned() } else { bytes.to_string() }
}

/// Formats a float of 1 or more with three significant digits.
fn three_digits(value: f64) -> String {
    let digits = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$}")
}

/// Greatest common divisor; of 0 and a number, the number.
pub(crate) fn gcd<T: Copy + Default + PartialEq + Rem<Output = T>>(mut a: T, mut b: T) -> T {
    while b != T::default() {
        (a, b) = (b, a % b);
    }
    a
}

/// Formats a count with thousands separators.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_second: u64) -> Rate {
        Rate::new(per_second).expect("not zero")
    }

    #[test]
    fn a_byte_takes_whole_ticks_at_each_rate() {
        let rates = [45_000_000_000, 810_000_000_000, 197_000_000_000_000].map(rate);
        let scale = TimeScale::for_rates(rates).expect("a common tick");
        for rate in rates {
            assert_eq!(scale.at_rate(1, rate).ticks() * u128::from(rate.per_second()), scale.ticks_per_second);
        }
        assert_eq!(scale.show(scale.at_rate(8_388_608 * 3, rates[0])), "559.2 us");
    }

    /// A link of 50 GiB/s beside rates in powers of ten.
    #[test]
    fn binary_units_have_a_common_tick() {
        let rates = [50 << 30, 3_125_000_000, 810_000_000_000, 197_000_000_000_000, 394_000_000_000_000].map(rate);
        let scale = TimeScale::for_rates(rates).expect("a common tick");
        for rate in rates {
            assert_eq!(scale.at_rate(1, rate).ticks() * u128::from(rate.per_second()), scale.ticks_per_second);
        }
        assert_eq!(scale.show(scale.at_rate(50 << 30, rates[0])), "1.00 s");
    }

    #[test]
    fn rates_without_a_common_tick_are_refused() {
        assert_eq!(TimeScale::for_rates([rate(999_999_999_989), rate(999_999_999_961)]), Err(NoCommonTick));
    }

    #[test]
    fn figures_for_people() {
        assert_eq!(Bytes(16).to_string(), "16 B");
        assert_eq!(Bytes(16_384).to_string(), "16.4 kB");
        assert_eq!(Bytes(33_554_432).to_string(), "33.6 MB");
        assert_eq!(show_seconds(1e-6), "1.00 us");
        assert_eq!(show_seconds(1.044e-3), "1.04 ms");
    }
}
