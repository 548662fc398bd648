//! Distributes the devices of one operation over the threads of this machine.
//!
//! Devices are independent within an operation, so the number of threads does not affect results.

use crate::mesh::DeviceId;
use crate::parallel::in_parallel;

/// The devices to compute. On the others, every value is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Here {
    /// All devices.
    All,
    /// Only this device, without other threads.
    Only(DeviceId),
}

impl Here {
    /// Whether a device is computed.
    pub(super) fn has(self, device: DeviceId) -> bool {
        match self {
            Here::All => true,
            Here::Only(own) => own == device,
        }
    }
}

/// With fewer elements or multiplications in total, starting threads costs more than the work.
const WORTH_A_THREAD: u64 = 1 << 20;

/// Applies `work` to the operands of each device, in device order.
///
/// - `size`: total elements or multiplications of all devices.
pub(super) fn on_devices<I: Send, O: Send>(
    here: Here,
    inputs: Vec<I>,
    size: u64,
    work: impl Fn(DeviceId, I) -> O + Sync,
) -> Vec<O> {
    let numbered = (0u32..).map(DeviceId).zip(inputs);
    if size < WORTH_A_THREAD || here != Here::All {
        return numbered.map(|(device, input)| work(device, input)).collect();
    }
    in_parallel(numbered.collect(), |(device, input)| work(device, input))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_devices() {
        for size in [0, u64::MAX] {
            let doubled = on_devices(Here::All, (0..7).collect(), size, |device, input: u32| (device.0, input * 2));
            assert_eq!(doubled, (0..7).map(|n| (n, n * 2)).collect::<Vec<_>>());
        }
        assert!(on_devices(Here::All, Vec::<u32>::new(), u64::MAX, |_, input| input).is_empty());
    }
}
