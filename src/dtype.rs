//! Element types.

use std::fmt;
use std::str::FromStr;

/// The element type of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// Boolean, one byte.
    Bool,
    /// 4-bit integer, two to a byte; sums wrap.
    I4,
    /// 8-bit integer; sums wrap.
    I8,
    /// 16-bit integer; sums wrap.
    I16,
    /// 32-bit integer; sums wrap.
    I32,
    /// 64-bit integer; sums wrap.
    I64,
    /// Unsigned 4-bit integer, two to a byte; sums wrap.
    U4,
    /// Unsigned 8-bit integer; sums wrap.
    U8,
    /// Unsigned 16-bit integer; sums wrap.
    U16,
    /// Unsigned 32-bit integer; sums wrap.
    U32,
    /// Unsigned 64-bit integer; sums wrap.
    U64,
    /// OCP 8-bit float with 3 bits of mantissa (`e4m3fn`): at most 448, no infinities.
    F8E4M3,
    /// OCP 8-bit float with 2 bits of mantissa: the upper half of an f16.
    F8E5M2,
    /// The upper half of an f32.
    Bf16,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

/// What the elements of a dtype are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Truth values.
    Bool,
    /// Integers in two's complement.
    Signed,
    /// Integers from 0.
    Unsigned,
    /// Floating-point numbers.
    Float(Format),
}

/// The encoding of a floating-point type: a sign, an exponent and a mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the exponent.
    pub exponent: u32,
    /// Stored bits of the mantissa.
    pub mantissa: u32,
    /// Whether the largest exponent encodes infinities and NaNs, as in IEEE 754. Otherwise only the largest exponent
    /// with the largest mantissa is a NaN.
    pub has_infinity: bool,
}

impl Format {
    /// The largest exponent of a finite number.
    fn largest_exponent(self) -> i32 {
        (1 << (self.exponent - 1)) - i32::from(self.has_infinity)
    }

    /// The largest finite number.
    pub fn most(self) -> f64 {
        let missing = if self.has_infinity { 1 } else { 2 };
        let significand = 2.0 - f64::from(missing) * power(-self.mantissa.cast_signed());
        significand * power(self.largest_exponent())
    }

    /// The smallest number above 0 with all bits of the mantissa.
    pub fn least_normal(self) -> f64 {
        power(self.least_exponent() + self.mantissa.cast_signed())
    }

    /// The exponent of the smallest number above 0, which is a power of two.
    pub fn least_exponent(self) -> i32 {
        2 - (1 << (self.exponent - 1)) - self.mantissa.cast_signed()
    }

    /// The number with an encoding, of which higher bits are ignored.
    pub fn decode(self, bits: u64) -> f64 {
        let sign = self.exponent + self.mantissa;
        let ones = |count: u32| (1_u64 << count) - 1;
        let (exponent, mantissa) = (bits >> self.mantissa & ones(self.exponent), bits & ones(self.mantissa));
        let is_largest = exponent == ones(self.exponent);
        let magnitude = if is_largest && self.has_infinity && mantissa == 0 {
            f64::INFINITY
        } else if is_largest && (self.has_infinity || mantissa == ones(self.mantissa)) {
            f64::NAN
        } else {
            let significand = mantissa + if exponent == 0 { 0 } else { 1 << self.mantissa };
            let exponent = i32::try_from(exponent.max(1)).expect("11 bits at most");
            significand as f64 * power(self.least_exponent() + exponent - 1)
        };
        if bits >> sign & 1 == 0 { magnitude } else { -magnitude }
    }
}

/// A power of two that f64 has.
pub(crate) fn power(exponent: i32) -> f64 {
    const LEAST_NORMAL: i32 = -1022;
    // `powi` would divide 1 by a number that overflows.
    2f64.powi(exponent.max(LEAST_NORMAL)) * 2f64.powi((exponent - LEAST_NORMAL).min(0))
}

/// The properties of a dtype.
struct Row {
    dtype: DType,
    /// The word in programs, which is also the function that casts to it.
    word: &'static str,
    bits: u32,
    kind: Kind,
    /// The name in NumPy and JAX, which is also accepted in programs.
    numpy: &'static str,
    /// More names that are accepted in programs.
    others: &'static [&'static str],
    /// The element type in an `.npy` file; raw bytes for types that NumPy lacks.
    npy: &'static str,
    /// The element type in MLIR.
    mlir: &'static str,
    /// The element type in a safetensors file.
    safetensors: &'static str,
}

/// One row per dtype, in the order of their declaration.
const TABLE: [Row; DType::ALL.len()] = {
    use DType::*;
    use Kind::{Float, Signed, Unsigned};
    const fn float(exponent: u32, mantissa: u32, has_infinity: bool) -> Kind {
        Float(Format { exponent, mantissa, has_infinity })
    }
    #[expect(clippy::too_many_arguments, reason = "a row of a table")]
    const fn row(
        dtype: DType,
        word: &'static str,
        bits: u32,
        kind: Kind,
        numpy: &'static str,
        others: &'static [&'static str],
        npy: &'static str,
        mlir: &'static str,
        safetensors: &'static str,
    ) -> Row {
        Row { dtype, word, bits, kind, numpy, others, npy, mlir, safetensors }
    }
    [
        row(Bool, "bool", 8, Kind::Bool, "bool", &[], "|b1", "i1", "BOOL"),
        row(I4, "i4", 4, Signed, "int4", &[], "|V1", "i4", "I8"),
        row(I8, "i8", 8, Signed, "int8", &[], "|i1", "i8", "I8"),
        row(I16, "i16", 16, Signed, "int16", &[], "<i2", "i16", "I16"),
        row(I32, "i32", 32, Signed, "int32", &[], "<i4", "i32", "I32"),
        row(I64, "i64", 64, Signed, "int64", &[], "<i8", "i64", "I64"),
        row(U4, "u4", 4, Unsigned, "uint4", &[], "|V1", "ui4", "U8"),
        row(U8, "u8", 8, Unsigned, "uint8", &[], "|u1", "ui8", "U8"),
        row(U16, "u16", 16, Unsigned, "uint16", &[], "<u2", "ui16", "U16"),
        row(U32, "u32", 32, Unsigned, "uint32", &[], "<u4", "ui32", "U32"),
        row(U64, "u64", 64, Unsigned, "uint64", &[], "<u8", "ui64", "U64"),
        row(
            F8E4M3,
            "f8e4m3",
            8,
            float(4, 3, false),
            "float8_e4m3fn",
            &["f8e4m3fn", "float8_e4m3", "fp8_e4m3"],
            "|V1",
            "f8E4M3FN",
            "F8_E4M3",
        ),
        row(F8E5M2, "f8e5m2", 8, float(5, 2, true), "float8_e5m2", &["fp8_e5m2"], "|V1", "f8E5M2", "F8_E5M2"),
        row(Bf16, "bf16", 16, float(8, 7, true), "bfloat16", &[], "|V2", "bf16", "BF16"),
        row(F16, "f16", 16, float(5, 10, true), "float16", &["fp16"], "<f2", "f16", "F16"),
        row(F32, "f32", 32, float(8, 23, true), "float32", &["fp32"], "<f4", "f32", "F32"),
        row(F64, "f64", 64, float(11, 52, true), "float64", &["fp64"], "<f8", "f64", "F64"),
    ]
};

impl DType {
    /// All dtypes.
    pub const ALL: [DType; 17] = [
        DType::Bool,
        DType::I4,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U4,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::Bf16,
        DType::F16,
        DType::F32,
        DType::F64,
    ];

    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Bits per element.
    pub fn bits(self) -> u32 {
        self.row().bits
    }

    /// Bytes of a block of elements on a device and in a message, where 4-bit integers are packed. Saturates.
    pub fn bytes(self, elements: u64) -> u64 {
        let bits = u128::from(elements) * u128::from(self.bits());
        u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX)
    }

    /// Bytes that elements fill at least, together with others: half a byte is none.
    pub fn least_bytes(self, elements: u64) -> u64 {
        let bits = u128::from(elements) * u128::from(self.bits());
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }

    /// Bytes of an element in files and in the arrays of a run, where each has its own.
    pub fn stored(self) -> u64 {
        u64::from(self.bits().div_ceil(8))
    }

    /// What its elements are.
    pub fn kind(self) -> Kind {
        self.row().kind
    }

    /// The encoding of a floating-point type.
    pub fn format(self) -> Option<Format> {
        if let Kind::Float(format) = self.kind() { Some(format) } else { None }
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        self.format().is_some()
    }

    /// Whether its numbers are never negative.
    pub fn is_unsigned(self) -> bool {
        self.kind() == Kind::Unsigned
    }

    /// Whether it is a floating-point type that is computed in f32 and then rounded: fp8, bf16 and f16.
    pub fn is_narrow_float(self) -> bool {
        self.is_float() && self.bits() < 32
    }

    /// The least and the greatest element: infinities where there are any.
    ///
    /// The ends of 64-bit integers are rounded to the nearest power of two.
    pub fn ends(self) -> [f64; 2] {
        match self.kind() {
            Kind::Float(format) if format.has_infinity => [f64::NEG_INFINITY, f64::INFINITY],
            Kind::Bool | Kind::Signed | Kind::Unsigned | Kind::Float(_) => self.finite_ends(),
        }
    }

    /// The least and the greatest finite element; the ends of 64-bit integers are rounded to the nearest power of two.
    pub fn finite_ends(self) -> [f64; 2] {
        let power = |bits: u32| power(bits.cast_signed());
        match self.kind() {
            Kind::Bool => [0.0, 1.0],
            Kind::Signed => [-power(self.bits() - 1), power(self.bits() - 1) - 1.0],
            Kind::Unsigned => [0.0, power(self.bits()) - 1.0],
            Kind::Float(format) => [-format.most(), format.most()],
        }
    }

    /// The nearest integer of this dtype, if it is one of integers; floats are left unchanged.
    pub fn saturated(self, number: f64) -> f64 {
        let [least, most] = self.finite_ends();
        if self.is_float() { number } else { number.clamp(least, most) }
    }

    /// The integer of this dtype that is equal modulo its range, if it is one of integers; floats are left unchanged.
    pub fn wrapped(self, number: f64) -> f64 {
        let ([least, most], count) = (self.finite_ends(), power(self.bits().cast_signed()));
        if self.is_float() || (least..=most).contains(&number) {
            return number;
        }
        number - ((number - least) / count).floor() * count
    }

    /// Whether every element of this dtype is an element of the other.
    pub fn widens(self, to: DType) -> bool {
        let digits = |of: DType| of.bits() - u32::from(of.kind() == Kind::Signed);
        match (self.kind(), to.kind()) {
            _ if self == to => true,
            (Kind::Bool, _) | (_, Kind::Bool) | (Kind::Float(_) | Kind::Signed, Kind::Unsigned) => false,
            (Kind::Float(_), Kind::Signed) => false,
            (Kind::Signed | Kind::Unsigned, Kind::Signed) | (Kind::Unsigned, Kind::Unsigned) => {
                digits(self) <= digits(to)
            }
            (Kind::Signed | Kind::Unsigned, Kind::Float(format)) => {
                digits(self) <= format.mantissa + 1 && self.finite_ends()[1] <= format.most()
            }
            (Kind::Float(own), Kind::Float(other)) => {
                own.mantissa <= other.mantissa
                    && own.most() <= other.most()
                    && own.least_exponent() >= other.least_exponent()
                    && own.has_infinity <= other.has_infinity
            }
        }
    }

    /// The dtype in which a sum or a product of elements is accumulated and given: numbers of up to 8 bits are widened
    /// to 32 bits.
    pub fn widened(self) -> DType {
        match self.kind() {
            Kind::Signed if self.bits() < 16 => DType::I32,
            Kind::Unsigned if self.bits() < 16 => DType::U32,
            Kind::Float(_) if self.bits() < 16 => DType::F32,
            Kind::Bool | Kind::Signed | Kind::Unsigned | Kind::Float(_) => self,
        }
    }

    /// The dtype of whole bytes with all of its elements: i8 for i4.
    pub fn in_bytes(self) -> DType {
        match self {
            DType::I4 => DType::I8,
            DType::U4 => DType::U8,
            other => other,
        }
    }

    /// The dtype of a product of two arrays; `None` if unsupported.
    ///
    /// Products of numbers of up to 8 bits are accumulated in 32 bits: i8·i8 is i32, u4·u8 is u32, fp8·fp8 is f32. All others
    /// keep the wider type; an integer or fp8 weight takes the float type of the other operand.
    pub fn product(self, other: DType) -> Option<DType> {
        let are_narrow = self.bits() <= 8 && other.bits() <= 8 && self.is_float() == other.is_float();
        if !are_narrow {
            return self.elementwise(other).map(DType::widened);
        }
        match (self.kind(), other.kind()) {
            (Kind::Bool, _) | (_, Kind::Bool) => None,
            (Kind::Unsigned, Kind::Unsigned) => Some(DType::U32),
            (Kind::Float(_), _) => Some(DType::F32),
            (Kind::Signed | Kind::Unsigned, _) => Some(DType::I32),
        }
    }

    /// The operand whose arithmetic unit computes a product: the widest float, or else the widest integer.
    pub fn computing(operands: impl IntoIterator<Item = DType>) -> Option<DType> {
        operands.into_iter().max_by_key(|dtype| (dtype.is_float(), dtype.bits()))
    }

    /// The dtype of an elementwise operation on two arrays; `None` if unsupported.
    pub fn elementwise(self, other: DType) -> Option<DType> {
        if self == other { Some(self) } else { self.common(other) }
    }

    /// The common dtype of two different ones, as in JAX; `None` if they have none.
    ///
    /// - Two integers: the narrower of the two that has all elements of both, otherwise the next wider signed type.
    /// - An integer and a float: the float.
    /// - Two floats: the one that has all elements of both.
    fn common(self, other: DType) -> Option<DType> {
        match (self.kind(), other.kind()) {
            (Kind::Bool, _) | (_, Kind::Bool) => None,
            (Kind::Float(_), Kind::Signed | Kind::Unsigned) => Some(self),
            (Kind::Signed | Kind::Unsigned, Kind::Float(_)) => Some(other),
            (Kind::Float(_), Kind::Float(_)) => {
                [self, other].into_iter().find(|wide| self.widens(*wide) && other.widens(*wide))
            }
            (Kind::Signed | Kind::Unsigned, Kind::Signed | Kind::Unsigned) => {
                let wide = |dtype: &DType| !dtype.is_float() && self.widens(*dtype) && other.widens(*dtype);
                DType::ALL.into_iter().filter(wide).min_by_key(|dtype| dtype.bits())
            }
        }
    }
}

impl DType {
    /// Its short name, which is also the function that casts to it: `bf16`.
    pub fn name(self) -> &'static str {
        self.row().word
    }

    /// Its name in NumPy and JAX: `bfloat16`.
    pub fn numpy(self) -> &'static str {
        self.row().numpy
    }

    /// The element type in an `.npy` file, with its byte order: `<f4`.
    pub fn npy(self) -> &'static str {
        self.row().npy
    }

    /// Its name in MLIR: `f8E4M3FN`.
    pub fn mlir(self) -> &'static str {
        self.row().mlir
    }

    /// The dtype with this name in MLIR.
    pub fn from_mlir(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.mlir() == name)
    }

    /// Its name in a safetensors file: `F8_E4M3`.
    pub fn safetensors(self) -> &'static str {
        self.row().safetensors
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An unknown dtype name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownDType;

impl FromStr for DType {
    type Err = UnknownDType;

    /// Parses the short names, and the long ones of NumPy, JAX and PyTorch: `int8`, `bfloat16`, `fp16`, `float32`.
    fn from_str(name: &str) -> Result<DType, UnknownDType> {
        let is_name = |row: &Row| row.word == name || row.numpy == name || row.others.contains(&name);
        TABLE.iter().find(|row| is_name(row)).map(|row| row.dtype).ok_or(UnknownDType)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rows_are_in_the_order_of_the_dtypes_and_names_are_distinct() {
        for (row, dtype) in TABLE.iter().zip(DType::ALL) {
            assert_eq!(row.dtype, dtype);
            assert_eq!(dtype.row().dtype, dtype);
            for name in [row.word, row.numpy].iter().chain(row.others) {
                assert_eq!(name.parse(), Ok(dtype), "{name}");
            }
            assert_eq!(DType::from_mlir(row.mlir), Some(dtype));
            if let Some(format) = dtype.format() {
                assert_eq!(1 + format.exponent + format.mantissa, dtype.bits(), "{dtype}");
            }
        }
        let distinct = |name: fn(&Row) -> &'static str| TABLE.iter().map(name).collect::<BTreeSet<_>>().len();
        assert_eq!(distinct(|row| row.mlir), TABLE.len());
        // The format has no 4-bit integers, which are stored as 8-bit ones.
        assert_eq!(distinct(|row| row.safetensors), TABLE.len() - 2);
        assert_eq!("float7".parse::<DType>(), Err(UnknownDType));
    }

    #[test]
    fn ends_are_those_of_the_formats() {
        let ends = |dtype: DType| (dtype.finite_ends()[1], dtype.format().map(Format::least_exponent));
        assert_eq!(ends(DType::F8E4M3), (448.0, Some(-9)));
        assert_eq!(ends(DType::F8E5M2), (57344.0, Some(-16)));
        assert_eq!(ends(DType::Bf16), (f64::from(half::bf16::MAX), Some(-133)));
        assert_eq!(ends(DType::F16), (65504.0, Some(-24)));
        assert_eq!(ends(DType::F32), (f64::from(f32::MAX), Some(-149)));
        assert_eq!(ends(DType::F64), (f64::MAX, Some(-1074)));
        assert_eq!(DType::I8.ends(), [-128.0, 127.0]);
        assert_eq!(DType::U16.ends(), [0.0, 65535.0]);
        assert_eq!(DType::F8E4M3.ends(), [-448.0, 448.0]);
        assert_eq!((DType::U8.wrapped(-1.0), DType::I8.wrapped(200.0), DType::I16.wrapped(-3.0)), (255.0, -56.0, -3.0));
        assert_eq!(
            (DType::U8.saturated(-1.0), DType::I8.saturated(200.0), DType::Bf16.saturated(1e9)),
            (0.0, 127.0, 1e9)
        );
        assert_eq!(DType::F8E5M2.ends(), [f64::NEG_INFINITY, f64::INFINITY]);
    }

    #[test]
    fn encodings_are_those_of_the_types() {
        let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        let [half, brain, single, double] =
            [DType::F16, DType::Bf16, DType::F32, DType::F64].map(|dtype| dtype.format().expect("a float"));
        for bits in 0..=u16::MAX {
            assert!(same(half.decode(bits.into()), half::f16::from_bits(bits).to_f64()), "{bits:#x}");
            assert!(same(brain.decode(bits.into()), half::bf16::from_bits(bits).to_f64()), "{bits:#x}");
        }
        let mut random = fastrand::Rng::with_seed(16);
        for _ in 0..10_000 {
            let (wide, narrow) = (random.u64(..) >> random.u32(0..64), random.u32(..));
            assert!(same(single.decode(narrow.into()), f32::from_bits(narrow).into()), "{narrow:#x}");
            assert!(same(double.decode(wide), f64::from_bits(wide)), "{wide:#x}");
        }
        assert!((-1074..=1023).all(|exponent| power(exponent).log2() == f64::from(exponent)));
    }

    #[test]
    fn common_types_are_those_of_jax() {
        use DType::{Bf16, Bool, F8E4M3, F8E5M2, F16, F32, I8, I16, I32, I64, U8, U16, U32, U64};
        let cases = [
            (U8, I8, Some(I16)),
            (U8, I32, Some(I32)),
            (U16, I16, Some(I32)),
            (U32, I8, Some(I64)),
            (U64, I64, None),
            (U64, U8, Some(U64)),
            (I16, I64, Some(I64)),
            (I32, F8E4M3, Some(F8E4M3)),
            (U8, Bf16, Some(Bf16)),
            (F8E4M3, F32, Some(F32)),
            (F8E4M3, F8E5M2, None),
            (F8E5M2, F16, Some(F16)),
            (Bf16, F16, None),
            (Bool, U8, None),
        ];
        for (a, b, common) in cases {
            assert_eq!(a.elementwise(b), common, "{a} {b}");
            assert_eq!(b.elementwise(a), common, "{b} {a}");
        }
    }

    #[test]
    fn products_of_eight_bits_have_thirty_two() {
        use DType::{Bf16, Bool, F8E4M3, F8E5M2, F16, F32, I8, I16, I32, I64, U8, U32};
        let cases = [
            (I8, I8, Some(I32)),
            (U8, U8, Some(U32)),
            (U8, I8, Some(I32)),
            (F8E4M3, F8E4M3, Some(F32)),
            (F8E4M3, F8E5M2, Some(F32)),
            (I8, F8E5M2, Some(F32)),
            (I64, F8E5M2, Some(F32)),
            (F8E4M3, Bf16, Some(Bf16)),
            (F8E4M3, F16, Some(F16)),
            (U8, Bf16, Some(Bf16)),
            (I16, I16, Some(I16)),
            (I8, I64, Some(I64)),
            (Bf16, F16, None),
            (Bool, Bool, None),
            (Bool, I8, None),
        ];
        for (a, b, product) in cases {
            assert_eq!(a.product(b), product, "{a} {b}");
            assert_eq!(b.product(a), product, "{b} {a}");
        }
    }
}
