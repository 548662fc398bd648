//! The devices of one operation, shared out over the threads of this machine.
//!
//! Devices do not see each other within an operation, so which thread computes which of them changes no number.

use crate::mesh::DeviceId;
use itertools::Itertools;
use std::num::NonZero;
use std::thread;

/// Below so many elements or multiplications in all, starting threads takes longer than the work.
const WORTH_A_THREAD: u64 = 1 << 20;

/// `work` on what each device has, in the order of the devices.
///
/// - `size`: elements or multiplications of all devices together.
pub(super) fn on_devices<I: Send, O: Send>(
    inputs: Vec<I>,
    size: u64,
    work: impl Fn(DeviceId, I) -> O + Sync,
) -> Vec<O> {
    let numbered = (0u32..).map(DeviceId).zip(inputs);
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    if threads == 1 || size < WORTH_A_THREAD {
        return numbered.map(|(device, input)| work(device, input)).collect();
    }
    let numbered = numbered.collect_vec();
    let share = numbered.len().div_ceil(threads).max(1);
    let chunks: Vec<Vec<(DeviceId, I)>> =
        numbered.into_iter().chunks(share).into_iter().map(|chunk| chunk.collect()).collect();
    let work = &work;
    thread::scope(|scope| {
        let run =
            |chunk: Vec<(DeviceId, I)>| chunk.into_iter().map(|(device, input)| work(device, input)).collect_vec();
        let running: Vec<_> = chunks.into_iter().map(|chunk| scope.spawn(move || run(chunk))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Vec<O>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().flat_map(join).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_devices() {
        for size in [0, u64::MAX] {
            let doubled = on_devices((0..7).collect(), size, |device, input: u32| (device.0, input * 2));
            assert_eq!(doubled, (0..7).map(|n| (n, n * 2)).collect::<Vec<_>>());
        }
        assert!(on_devices(Vec::<u32>::new(), u64::MAX, |_, input| input).is_empty());
    }
}
