//! Fits the constants of a hardware profile to measurements.
//!
//! The measurements are read from a table (`table.rs`). A search (`search.rs`) finds the constants for which the
//! model is closest to them: those of messages (`collectives.rs`), of products (`products.rs`), of attention
//! (`attention.rs`) and of exchanges with experts (`experts.rs`). Rates are integers with few small prime factors, so that
//! times stay exact in a common tick.
//!
//! [`Errors`] holds the relative errors of a fit, on all measurements and on held-out ones.

pub mod attention;
pub mod collectives;
pub mod experts;
pub mod products;
mod search;
pub mod table;

use crate::units::Rate;

/// Relative errors of predictions: `|predicted / measured - 1|`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Errors {
    /// In ascending order.
    sorted: Vec<f64>,
}

impl Errors {
    /// Collects errors.
    pub fn new(errors: impl IntoIterator<Item = f64>) -> Errors {
        let mut sorted: Vec<f64> = errors.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        Errors { sorted }
    }

    /// Merges several sets of errors.
    pub fn of_all<'e>(all: impl IntoIterator<Item = &'e Errors>) -> Errors {
        Errors::new(all.into_iter().flat_map(|errors| errors.sorted.iter().copied()))
    }

    /// Number of errors.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The error that `percent` of all errors do not exceed; 0 if there are none.
    pub fn percentile(&self, percent: usize) -> f64 {
        let place = (self.sorted.len() * percent).div_ceil(100).saturating_sub(1);
        self.sorted.get(place).copied().unwrap_or(0.0)
    }

    /// The largest error.
    pub fn worst(&self) -> f64 {
        self.sorted.last().copied().unwrap_or(0.0)
    }
}

/// The measurements without every fifth, and every fifth: constants fitted to the first predict the others.
fn without_every_fifth<T>(rows: &[T]) -> [Vec<&T>; 2] {
    let is_kept = |(place, _): &(usize, &T)| place % 5 != 0;
    let (kept, out): (Vec<_>, Vec<_>) = rows.iter().enumerate().partition(is_kept);
    [kept, out].map(|rows| rows.into_iter().map(|(_, row)| row).collect())
}

/// The nearest integer rate with at most three significant digits, no prime factor above five, and few factors of
/// three.
///
/// Such rates have a common tick of reasonable length. There is one within 7 % of any rate.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are between 1e3 and 1e18")]
pub fn nearest_rate(per_second: f64) -> Rate {
    let per_second = per_second.clamp(1e5, 1e17);
    let scale = 10f64.powi(per_second.log10().floor() as i32 - 2);
    let off = |digits: u64| (per_second / (digits as f64 * scale)).ln().abs();
    let nearest =
        (100..=1000).filter(|digits| is_smooth(*digits)).min_by(|one, other| off(*one).total_cmp(&off(*other)));
    let rate = (nearest.unwrap_or(100) as f64 * scale).round() as u64;
    Rate::new(rate).expect("not zero")
}

/// A rate rounded to an integer, for use during the search.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats keep to the range")]
fn whole_rate(per_second: f64) -> Rate {
    Rate::new(per_second as u64).unwrap_or_else(|| nearest_rate(0.0))
}

/// A rate that is still at most the peak when it is rounded.
///
/// - `rate`: rounds units per second.
fn below(peak: u64, per_second: f64, rate: impl Fn(f64) -> Rate) -> Rate {
    let found = rate(per_second);
    if found.per_second() <= peak { found } else { rate(peak as f64 / 1.08) }
}

fn is_smooth(mut number: u64) -> bool {
    if number.is_multiple_of(81) {
        return false;
    }
    for factor in [2, 3, 5] {
        while number.is_multiple_of(factor) {
            number /= factor;
        }
    }
    number == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_rounded_to_what_divides_a_tick() {
        for (exact, near) in [(4.5e10, 45_000_000_000), (9.91e10, 100_000_000_000), (1.01e11, 100_000_000_000)] {
            assert_eq!(nearest_rate(exact).per_second(), near, "{exact}");
        }
        for digits in 1000..10_000 {
            let exact = f64::from(digits) * 1e7;
            let near = nearest_rate(exact).per_second() as f64;
            assert!((near / exact - 1.0).abs() < 0.07, "{exact} {near}");
        }
    }

    #[test]
    fn percentiles_are_of_what_there_is() {
        let errors = Errors::new([0.3, 0.1, 0.2, 0.4]);
        assert_eq!([50, 90, 100].map(|percent| errors.percentile(percent)), [0.2, 0.4, 0.4]);
        assert_eq!((errors.count(), errors.worst()), (4, 0.4));
        assert_eq!(Errors::default().percentile(50), 0.0);
    }
}
