//! The Rust types of array elements, and how the three arithmetics treat them.

use super::float8::{E4M3, E5M2};
use super::integer4::{I4, U4};
use crate::dtype::{DType, Kind};
use half::{bf16, f16};
use std::fmt::Debug;
use std::sync::Arc;

/// Defines the buffers and the macro that runs code for an element type. `$d` is a dollar sign.
macro_rules! define {
    ($d:tt $($variant:ident: $type:ty),*) => {
        /// A shared buffer of elements, with a variant for each dtype.
        #[derive(Clone, Debug)]
        pub enum Storage {
            $(
                /// Elements of the dtype of this name.
                $variant(Arc<Vec<$type>>),
            )*
        }

        impl Storage {
            /// Dtype of the elements.
            pub fn dtype(&self) -> DType {
                match self {
                    $(Storage::$variant(_) => DType::$variant,)*
                }
            }
        }

        /// Runs code for the element type of a dtype: `with_dtype!(dtype, T => f::<T>())`.
        macro_rules! with_dtype {
            ($d dtype:expr, $d type:ident => $d body:expr) => {
                match $d dtype {
                    $($crate::dtype::DType::$variant => {
                        type $d type = $type;
                        $d body
                    })*
                }
            };
        }
    };
}

define! { $
    Bool: bool, I4: crate::sim::values::integer4::I4, I8: i8, I16: i16, I32: i32, I64: i64,
    U4: crate::sim::values::integer4::U4, U8: u8, U16: u16, U32: u32, U64: u64,
    F8E4M3: crate::sim::values::float8::E4M3, F8E5M2: crate::sim::values::float8::E5M2,
    Bf16: half::bf16, F16: half::f16, F32: f32, F64: f64
}
pub(super) use with_dtype;

/// Runs code for the arithmetic in which a dtype is computed: `with_arithmetic!(dtype, C => f::<C>())`.
macro_rules! with_arithmetic {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $crate::sim::values::element::Computation::of($dtype) {
            $crate::sim::values::element::Computation::F32 => {
                type $type = f32;
                $body
            }
            $crate::sim::values::element::Computation::F64 => {
                type $type = f64;
                $body
            }
            $crate::sim::values::element::Computation::I64 => {
                type $type = i64;
                $body
            }
            $crate::sim::values::element::Computation::U64 => {
                type $type = u64;
                $body
            }
        }
    };
}
pub(super) use with_arithmetic;

/// The arithmetic of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Computation {
    /// For floats of up to 32 bits.
    F32,
    /// For f64.
    F64,
    /// For bools and integers that fit.
    I64,
    /// For u64.
    U64,
}

impl Computation {
    /// The arithmetic in which a dtype is computed.
    pub(super) fn of(dtype: DType) -> Computation {
        match dtype.kind() {
            Kind::Float(_) if dtype.bits() > 32 => Computation::F64,
            Kind::Float(_) => Computation::F32,
            Kind::Unsigned if dtype.bits() > 32 => Computation::U64,
            Kind::Bool | Kind::Signed | Kind::Unsigned => Computation::I64,
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
    /// Integers wrap; floats round to nearest even.
    fn from_u64(value: u64) -> Self;
    /// Integers saturate.
    fn from_f32(value: f32) -> Self;
    /// Integers saturate.
    fn from_f64(value: f64) -> Self;
    /// Floats are cut towards zero and saturate; integers wrap.
    fn to_i64(self) -> i64;
    /// Floats are cut towards zero and saturate; integers wrap.
    fn to_u64(self) -> u64;
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
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            clippy::cast_sign_loss,
            clippy::unnecessary_cast,
            reason = "integers wrap, floats round"
        )]
        impl Element for $type {
            storage!($variant);
            number_bytes!();
            fn from_i64(value: i64) -> Self {
                value as Self
            }
            fn from_u64(value: u64) -> Self {
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
            fn to_u64(self) -> u64 {
                self as u64
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
plain!(i16, I16, i16::wrapping_add);
plain!(i32, I32, i32::wrapping_add);
plain!(i64, I64, i64::wrapping_add);
plain!(u8, U8, u8::wrapping_add);
plain!(u16, U16, u16::wrapping_add);
plain!(u32, U32, u32::wrapping_add);
plain!(u64, U64, u64::wrapping_add);
plain!(f32, F32, |a, b| a + b);
plain!(f64, F64, |a, b| a + b);

/// Implements narrow floats, which compute in f32.
macro_rules! narrow_float {
    ($type:ty, $variant:ident) => {
        impl Element for $type {
            storage!($variant);
            number_bytes!();
            fn from_i64(value: i64) -> Self {
                // f64 is sufficient: above 2^53 only the last of its 53 bits may be wrong.
                <$type>::from_f64(value as f64)
            }
            fn from_u64(value: u64) -> Self {
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
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
            fn to_u64(self) -> u64 {
                self.to_f32() as u64
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

narrow_float!(E4M3, F8E4M3);
narrow_float!(E5M2, F8E5M2);
narrow_float!(bf16, Bf16);
narrow_float!(f16, F16);

/// Implements 4-bit integers.
macro_rules! integer4 {
    ($type:ident) => {
        impl Element for $type {
            storage!($type);
            number_bytes!();
            fn from_i64(value: i64) -> Self {
                $type::wrapped(value)
            }
            fn from_u64(value: u64) -> Self {
                $type::wrapped(value.cast_signed())
            }
            fn from_f32(value: f32) -> Self {
                $type::saturated(value.into())
            }
            fn from_f64(value: f64) -> Self {
                $type::saturated(value)
            }
            fn to_i64(self) -> i64 {
                self.number()
            }
            fn to_u64(self) -> u64 {
                self.number().cast_unsigned()
            }
            fn to_f32(self) -> f32 {
                self.number() as f32
            }
            fn to_f64(self) -> f64 {
                self.number() as f64
            }
            fn sum(self, other: Self) -> Self {
                $type::wrapped(self.number() + other.number())
            }
        }
    };
}

integer4!(I4);
integer4!(U4);

impl Element for bool {
    storage!(Bool);
    fn from_i64(value: i64) -> Self {
        value != 0
    }
    fn from_u64(value: u64) -> Self {
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
    fn to_u64(self) -> u64 {
        u64::from(self)
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

/// The Rust type of a [`Computation`].
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

impl Arithmetic for u64 {
    fn read<T: Element>(element: T) -> u64 {
        element.to_u64()
    }
    fn write<T: Element>(self) -> T {
        T::from_u64(self)
    }
}
