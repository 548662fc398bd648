//! Rounding constants of each element type, for error analysis.

use crate::dtype::{DType, power};

/// Precision of a dtype.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Precision {
    /// The unit roundoff: the largest relative error of one rounding to nearest; 0 for integers.
    pub(super) unit: f64,
    /// The largest absolute error of one rounding below the normal numbers; 0 for integers.
    pub(super) tiny: f64,
    /// The largest finite number.
    pub(super) most: f64,
}

impl Precision {
    /// Precision of a dtype's elements.
    pub(super) fn of(dtype: DType) -> Precision {
        let [_, most] = dtype.finite_ends();
        dtype.format().map_or(Precision { unit: 0.0, tiny: 0.0, most }, |format| Precision {
            unit: power(-1 - format.mantissa.cast_signed()),
            tiny: power(format.least_exponent()),
            most,
        })
    }

    /// Precision of the arithmetic in which a dtype is accumulated.
    pub(super) fn accumulated(dtype: DType) -> Precision {
        Precision::of(if dtype.is_narrow_float() { DType::F32 } else { dtype })
    }

    /// `gamma_n = n u / (1 - n u)`: the relative error of up to `n` roundings in a row (Higham, Accuracy and Stability
    /// of Numerical Algorithms, 3.1); infinite where `n u` reaches 1/2.
    pub(super) fn gamma(self, roundings: f64) -> f64 {
        let product = roundings * self.unit;
        if product < 0.5 { product / (1.0 - product) } else { f64::INFINITY }
    }

    /// The error bound after rounding to this precision, where `bound` is the error before and `value` the rounded
    /// number; infinite if it may overflow.
    pub(super) fn rounded(self, bound: f64, value: f64) -> f64 {
        let magnitude = value.abs() + 2.0 * bound;
        if magnitude <= self.most { (bound + 1.01 * self.unit * magnitude + self.tiny) * SLACK } else { f64::INFINITY }
    }
}

/// Factor that covers the rounding of the bounds themselves.
pub(super) const SLACK: f64 = 1.001;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::values::Tensor;

    #[test]
    fn one_rounding_is_off_by_a_unit_at_most() {
        let mut random = fastrand::Rng::with_seed(3);
        for dtype in [DType::F8E4M3, DType::F8E5M2, DType::Bf16, DType::F16, DType::F32] {
            let precision = Precision::of(dtype);
            for _ in 0..10_000 {
                let number = (random.f64() - 0.5) * 2f64.powi(random.i32(-160..=15));
                let number = number.clamp(-precision.most, precision.most);
                let rounded = Tensor::from_floats(dtype, &[1], &[number]).expect("one element").to_f64s()[0];
                let error = (rounded - number).abs();
                assert!(error <= precision.unit * number.abs() + precision.tiny, "{dtype} {number:e}");
                assert!(error <= precision.rounded(0.0, rounded), "{dtype} {number:e}");
            }
            let most = Tensor::from_floats(dtype, &[2], &[precision.most, precision.most * 1.13]).expect("two");
            let [most, above] = most.to_f64s()[..] else { panic!("two") };
            assert_eq!(most, precision.most);
            assert!(!above.is_finite());
            assert_eq!(precision.rounded(0.0, f64::INFINITY), f64::INFINITY);
        }
    }

    #[test]
    fn gamma_is_the_sum_of_units_to_first_order() {
        let single = Precision::of(DType::F32);
        assert!((single.gamma(3.0) / (3.0 * single.unit) - 1.0).abs() < 1e-6);
        assert_eq!(single.gamma(2f64.powi(24)), f64::INFINITY);
        assert_eq!(Precision::of(DType::I32).gamma(1e30), 0.0);
    }
}
