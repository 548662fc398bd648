//! The Rust types of array elements, and how the three arithmetics treat them.

use crate::dtype::DType;
use half::{bf16, f16};
use std::fmt::Debug;
use std::sync::Arc;

/// A shared buffer of elements, with a variant for each dtype.
#[derive(Clone, Debug)]
pub enum Storage {
    /// Booleans.
    Bool(Arc<Vec<bool>>),
    /// 8-bit integers.
    I8(Arc<Vec<i8>>),
    /// 32-bit integers.
    I32(Arc<Vec<i32>>),
    /// 64-bit integers.
    I64(Arc<Vec<i64>>),
    /// bfloat16: the upper halves of f32s.
    Bf16(Arc<Vec<bf16>>),
    /// Half precision.
    F16(Arc<Vec<f16>>),
    /// Single precision.
    F32(Arc<Vec<f32>>),
    /// Double precision.
    F64(Arc<Vec<f64>>),
}

impl Storage {
    /// Dtype of the elements.
    pub fn dtype(&self) -> DType {
        match self {
            Storage::Bool(_) => DType::Bool,
            Storage::I8(_) => DType::I8,
            Storage::I32(_) => DType::I32,
            Storage::I64(_) => DType::I64,
            Storage::Bf16(_) => DType::Bf16,
            Storage::F16(_) => DType::F16,
            Storage::F32(_) => DType::F32,
            Storage::F64(_) => DType::F64,
        }
    }
}

/// The Rust type of the elements of one dtype.
pub trait Element: Copy + Default + PartialEq + PartialOrd + Debug + Send + Sync + 'static {
    /// The dtype.
    const DTYPE: DType;
    /// Wraps a buffer in the variant of its type.
    fn wrap(buffer: Arc<Vec<Self>>) -> Storage;
    /// The buffer, if its elements have this type.
    fn open(storage: &Storage) -> Option<&Arc<Vec<Self>>>;
    /// The buffer, if its elements have this type.
    fn unwrap(storage: Storage) -> Option<Arc<Vec<Self>>>;
    /// Integers wrap; floats round to nearest even.
    fn from_i64(value: i64) -> Self;
    /// Integers saturate.
    fn from_f32(value: f32) -> Self;
    /// Integers saturate.
    fn from_f64(value: f64) -> Self;
    /// Floats are cut towards zero and saturate.
    fn to_i64(self) -> i64;
    /// Rounded to nearest where it does not fit.
    fn to_f32(self) -> f32;
    /// Rounded to nearest where it does not fit.
    fn to_f64(self) -> f64;
    /// The sum, rounded once. Integers wrap; for bools it is the logical or.
    fn sum(self, other: Self) -> Self;
    /// Elements from little-endian bytes. Incomplete elements at the end are ignored.
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;
    /// Appends the little-endian bytes of the elements.
    fn append_bytes(elements: &[Self], bytes: &mut Vec<u8>);

    /// The larger; a NaN wins.
    fn largest(self, other: Self) -> Self {
        if self > other || self.partial_cmp(&self).is_none() { self } else { other }
    }

    /// The smaller; a NaN wins.
    fn smallest(self, other: Self) -> Self {
        if self < other || self.partial_cmp(&self).is_none() { self } else { other }
    }
}

/// Implements the conversions to and from [`Storage`], which all element types share.
macro_rules! storage {
    ($variant:ident) => {
        const DTYPE: DType = DType::$variant;
        fn wrap(buffer: Arc<Vec<Self>>) -> Storage {
            Storage::$variant(buffer)
        }
        fn open(storage: &Storage) -> Option<&Arc<Vec<Self>>> {
            if let Storage::$variant(buffer) = storage { Some(buffer) } else { None }
        }
        fn unwrap(storage: Storage) -> Option<Arc<Vec<Self>>> {
            if let Storage::$variant(buffer) = storage { Some(buffer) } else { None }
        }
    };
}

/// Implements the byte conversions that all numbers share. Sizes are constants, so that the loops compile to copies.
macro_rules! number_bytes {
    () => {
        fn from_bytes(bytes: &[u8]) -> Vec<Self> {
            let element = |own: &[u8]| Self::from_le_bytes(own.try_into().expect("chunks of its size"));
            bytes.chunks_exact(size_of::<Self>()).map(element).collect()
        }
        fn append_bytes(elements: &[Self], bytes: &mut Vec<u8>) {
            let start = bytes.len();
            bytes.resize(start + size_of_val(elements), 0);
            let places = bytes[start..].chunks_exact_mut(size_of::<Self>());
            places.zip(elements).for_each(|(place, element)| place.copy_from_slice(&element.to_le_bytes()));
        }
    };
}

/// Implements number types that `as` converts; `$sum` adds two.
macro_rules! plain {
    ($type:ty, $variant:ident, $sum:expr) => {
        #[expect(clippy::allow_attributes, reason = "which casts can lose something depends on the type")]
        #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast, reason = "integers wrap, floats round")]
        impl Element for $type {
            storage!($variant);
            number_bytes!();
            fn from_i64(value: i64) -> Self {
                value as Self
            }
            fn from_f32(value: f32) -> Self {
                value as Self
            }
            fn from_f64(value: f64) -> Self {
                value as Self
            }
            fn to_i64(self) -> i64 {
                self as i64
            }
            fn to_f32(self) -> f32 {
                self as f32
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn sum(self, other: Self) -> Self {
                let sum: fn(Self, Self) -> Self = $sum;
                sum(self, other)
            }
        }
    };
}

plain!(i8, I8, i8::wrapping_add);
plain!(i32, I32, i32::wrapping_add);
plain!(i64, I64, i64::wrapping_add);
plain!(f32, F32, |a, b| a + b);
plain!(f64, F64, |a, b| a + b);

/// Implements half-precision floats, which compute in f32.
macro_rules! half_float {
    ($type:ty, $variant:ident) => {
        impl Element for $type {
            storage!($variant);
            number_bytes!();
            fn from_i64(value: i64) -> Self {
                // f64 is sufficient: above 2^53 only the last of its 53 bits may be wrong.
                <$type>::from_f64(value as f64)
            }
            fn from_f32(value: f32) -> Self {
                <$type>::from_f32(value)
            }
            fn from_f64(value: f64) -> Self {
                <$type>::from_f64(value)
            }
            #[expect(clippy::cast_possible_truncation, reason = "saturates")]
            fn to_i64(self) -> i64 {
                self.to_f32() as i64
            }
            fn to_f32(self) -> f32 {
                <$type>::to_f32(self)
            }
            fn to_f64(self) -> f64 {
                <$type>::to_f64(self)
            }
            fn sum(self, other: Self) -> Self {
                <$type>::from_f32(self.to_f32() + other.to_f32())
            }
        }
    };
}

half_float!(bf16, Bf16);
half_float!(f16, F16);

impl Element for bool {
    storage!(Bool);
    fn from_i64(value: i64) -> Self {
        value != 0
    }
    fn from_f32(value: f32) -> Self {
        value != 0.0
    }
    fn from_f64(value: f64) -> Self {
        value != 0.0
    }
    fn to_i64(self) -> i64 {
        i64::from(self)
    }
    fn to_f32(self) -> f32 {
        f32::from(u8::from(self))
    }
    fn to_f64(self) -> f64 {
        f64::from(u8::from(self))
    }
    fn sum(self, other: Self) -> Self {
        self || other
    }
    fn from_bytes(bytes: &[u8]) -> Vec<bool> {
        bytes.iter().map(|byte| *byte != 0).collect()
    }
    fn append_bytes(elements: &[bool], bytes: &mut Vec<u8>) {
        bytes.extend(elements.iter().map(|element| u8::from(*element)));
    }
}

/// The arithmetic of a computation: f32 for bf16, f16 and f32, f64 for f64, i64 for integers.
pub(super) trait Arithmetic: Element {
    /// An element, widened or rounded into this arithmetic.
    fn read<T: Element>(element: T) -> Self;
    /// Converts to an element type, rounded once; integers wrap.
    fn write<T: Element>(self) -> T;
}

impl Arithmetic for f32 {
    fn read<T: Element>(element: T) -> f32 {
        element.to_f32()
    }
    fn write<T: Element>(self) -> T {
        T::from_f32(self)
    }
}

impl Arithmetic for f64 {
    fn read<T: Element>(element: T) -> f64 {
        element.to_f64()
    }
    fn write<T: Element>(self) -> T {
        T::from_f64(self)
    }
}

impl Arithmetic for i64 {
    fn read<T: Element>(element: T) -> i64 {
        element.to_i64()
    }
    fn write<T: Element>(self) -> T {
        T::from_i64(self)
    }
}

/// Runs code for the element type of a dtype: `with_dtype!(dtype, T => f::<T>())`.
macro_rules! with_dtype {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::Bool => {
                type $type = bool;
                $body
            }
            $crate::dtype::DType::I8 => {
                type $type = i8;
                $body
            }
            $crate::dtype::DType::I32 => {
                type $type = i32;
                $body
            }
            $crate::dtype::DType::I64 => {
                type $type = i64;
                $body
            }
            $crate::dtype::DType::Bf16 => {
                type $type = half::bf16;
                $body
            }
            $crate::dtype::DType::F16 => {
                type $type = half::f16;
                $body
            }
            $crate::dtype::DType::F32 => {
                type $type = f32;
                $body
            }
            $crate::dtype::DType::F64 => {
                type $type = f64;
                $body
            }
        }
    };
}
pub(super) use with_dtype;
