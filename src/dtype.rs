//! Element types.

use std::fmt;
use std::str::FromStr;

/// The element type of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// Boolean, one byte.
    Bool,
    /// 8-bit integer; sums wrap.
    I8,
    /// 32-bit integer; sums wrap.
    I32,
    /// 64-bit integer; sums wrap.
    I64,
    /// The upper half of an f32.
    Bf16,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

impl DType {
    /// All dtypes.
    pub const ALL: [DType; 8] =
        [DType::Bool, DType::I8, DType::I32, DType::I64, DType::Bf16, DType::F16, DType::F32, DType::F64];

    /// Bytes per element.
    pub fn size(self) -> u64 {
        match self {
            DType::Bool | DType::I8 => 1,
            DType::Bf16 | DType::F16 => 2,
            DType::I32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        match self {
            DType::Bf16 | DType::F16 | DType::F32 | DType::F64 => true,
            DType::Bool | DType::I8 | DType::I32 | DType::I64 => false,
        }
    }

    /// The dtype of a product of two arrays; `None` if unsupported.
    ///
    /// i8·i8 is i32, floats keep the wider type, an integer weight takes the float type of the other operand.
    pub fn product(self, other: DType) -> Option<DType> {
        use DType::{Bf16, Bool, F16, F32, F64, I8, I32, I64};
        Some(match (self, other) {
            (Bool, _) | (_, Bool) | (F16, Bf16) | (Bf16, F16) => return None,
            (I8, I8 | I32) | (I32, I8 | I32) => I32,
            (I64, I8 | I32 | I64) | (I8 | I32, I64) => I64,
            (F64, _) | (_, F64) => F64,
            (F32, _) | (_, F32) => F32,
            (Bf16, _) | (_, Bf16) => Bf16,
            (F16, _) | (_, F16) => F16,
        })
    }

    /// The dtype of an elementwise operation on two arrays; `None` if unsupported.
    pub fn elementwise(self, other: DType) -> Option<DType> {
        if self == other { Some(self) } else { self.product(other) }
    }
}

impl DType {
    /// Its short name, which is also the function that casts to it: `bf16`.
    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::Bf16 => "bf16",
            DType::F16 => "f16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
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

    /// Parses the short names, and the long ones of JAX and PyTorch: `int8`, `bfloat16`, `fp16`, `float32`.
    fn from_str(name: &str) -> Result<DType, UnknownDType> {
        Ok(match name {
            "bool" => DType::Bool,
            "i8" | "int8" => DType::I8,
            "i32" | "int32" => DType::I32,
            "i64" | "int64" => DType::I64,
            "bf16" | "bfloat16" => DType::Bf16,
            "f16" | "fp16" | "float16" => DType::F16,
            "f32" | "fp32" | "float32" => DType::F32,
            "f64" | "fp64" | "float64" => DType::F64,
            _ => return Err(UnknownDType),
        })
    }
}
