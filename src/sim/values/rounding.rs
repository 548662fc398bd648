//! Rounding constants of each element type, for error analysis.

use crate::dtype::DType;

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
        let integer = |most: f64| Precision { unit: 0.0, tiny: 0.0, most };
        let float = |bits: i32, tiny: i32, most: f64| Precision { unit: 2f64.powi(-bits), tiny: 2f64.powi(tiny), most };
        match dtype {
            DType::Bool => integer(1.0),
            DType::I8 => integer(f64::from(i8::MAX)),
            DType::I32 => integer(f64::from(i32::MAX)),
            DType::I64 => integer(i64::MAX as f64),
            DType::Bf16 => float(8, -133, half::bf16::MAX.to_f64()),
            DType::F16 => float(11, -24, half::f16::MAX.to_f64()),
            DType::F32 => float(24, -149, f64::from(f32::MAX)),
            DType::F64 => float(53, -1074, f64::MAX),
        }
    }

    /// Precision of the arithmetic in which a dtype is accumulated.
    pub(super) fn accumulated(dtype: DType) -> Precision {
        Precision::of(match dtype {
            DType::Bf16 | DType::F16 => DType::F32,
            DType::Bool | DType::I8 | DType::I32 | DType::I64 | DType::F32 | DType::F64 => dtype,
        })
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
        for dtype in [DType::Bf16, DType::F16, DType::F32] {
            let precision = Precision::of(dtype);
            for _ in 0..10_000 {
                let number = (random.f64() - 0.5) * 2f64.powi(random.i32(-160..=15));
                let rounded = Tensor::from_floats(dtype, &[1], &[number]).expect("one element").to_f64s()[0];
                let error = (rounded - number).abs();
                assert!(error <= precision.unit * number.abs() + precision.tiny, "{dtype} {number:e}");
                assert!(error <= precision.rounded(0.0, rounded), "{dtype} {number:e}");
            }
            let most = Tensor::from_floats(dtype, &[2], &[precision.most, precision.most * 1.01]).expect("two");
            assert_eq!(most.to_f64s(), [precision.most, f64::INFINITY]);
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
