//! The time of local work: measured, or else by its operations and bytes.

use super::{Heads, Shape, Topology};
use crate::dtype::DType;
use crate::units::Time;

/// Work of one device for a product or a declared kernel.
#[derive(Clone, Copy, Debug)]
pub struct ProductWork {
    /// The dtype that selects the arithmetic unit.
    pub dtype: DType,
    /// Operations.
    pub flops: u128,
    /// What is computed.
    pub form: Form,
    /// Memory traffic in bytes.
    pub traffic: u128,
    /// Whether a kernel is launched.
    pub starts: bool,
}

/// A computation that may have been measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A product.
    Product(Shape),
    /// Attention in one kernel.
    Attention(Heads),
    /// Anything else, such as a lookup.
    Other,
}

/// The time of some work, with its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkTime {
    /// Time of the operations.
    pub computing: Time,
    /// Time of the memory traffic.
    pub traffic: Time,
    /// Kernel launch time, before both.
    pub start: Time,
}

impl WorkTime {
    /// Total time.
    pub fn time(self) -> Time {
        self.start + self.computing.max(self.traffic)
    }
}

/// Whether it is a float of 16 bits.
fn is_half(dtype: DType) -> bool {
    dtype.is_float() && dtype.bits() == 16
}

impl Topology {
    /// Time of a product or a declared kernel.
    pub fn product_time(&self, work: ProductWork) -> WorkTime {
        let (scale, hardware) = (self.scale, &self.hardware);
        let at_peak = scale.at_rate(work.flops, hardware.flops(work.dtype));
        let start = |start: u64| scale.picoseconds(if work.starts { start } else { 0 });
        match (work.form, hardware.products.of(work.dtype), &hardware.attention) {
            (Form::Product(shape), Some(products), _) => WorkTime {
                computing: products.computing(scale, shape),
                traffic: products.traffic(scale, work.traffic),
                start: start(products.start),
            },
            (Form::Attention(heads), _, Some(attention)) if is_half(work.dtype) && attention.covers(heads) => {
                WorkTime {
                    // A kernel may declare more operations than attention has.
                    computing: attention.computing(scale, heads).max(at_peak),
                    traffic: attention.traffic(scale, work.traffic),
                    start: start(attention.start),
                }
            }
            _ => WorkTime { computing: at_peak, ..self.memory_time(work.traffic, work.starts) },
        }
    }

    /// Time to read and write a number of bytes.
    pub fn memory_time(&self, bytes: u128, starts: bool) -> WorkTime {
        WorkTime {
            computing: Time::ZERO,
            traffic: self.scale.at_rate(bytes, self.hardware.hbm_bandwidth),
            start: self.scale.picoseconds(if starts { self.hardware.kernel_start } else { 0 }),
        }
    }
}
