//! Work on many things that do not know of each other, shared out over the threads of this machine.

use itertools::Itertools;
use std::num::NonZero;
use std::thread;

/// `work` on each of the things; the results come in their order. Each thread has an equal share of neighbours. Starting
/// threads takes some tens of microseconds, so it is for work that takes longer.
pub(crate) fn in_parallel<I: Send, O: Send>(things: Vec<I>, work: impl Fn(I) -> O + Sync) -> Vec<O> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let share = things.len().div_ceil(threads).max(1);
    if threads == 1 || things.len() == 1 {
        return things.into_iter().map(work).collect();
    }
    let chunks: Vec<Vec<I>> = things.into_iter().chunks(share).into_iter().map(Iterator::collect).collect();
    let work = &work;
    thread::scope(|scope| {
        let run = |chunk: Vec<I>| chunk.into_iter().map(work).collect_vec();
        let running: Vec<_> = chunks.into_iter().map(|chunk| scope.spawn(move || run(chunk))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Vec<O>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().flat_map(join).collect()
    })
}
