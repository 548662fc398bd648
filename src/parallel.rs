//! Parallel execution of independent tasks.

use std::num::NonZero;
use std::sync::Mutex;
use std::thread;

/// Number of tasks that run at once.
pub(crate) fn workers() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Runs `work` on each item; returns the results in order.
///
/// Each thread takes a range of items at a time, and the calling thread works too. If the system refuses threads (a limit
/// on processes or on memory), the remaining ones do the work. Starting threads takes tens of microseconds, so tasks
/// should be longer.
pub(crate) fn in_parallel<I: Send, O: Send>(things: Vec<I>, work: impl Fn(I) -> O + Sync) -> Vec<O> {
    in_threads(things, work, workers(), thread::Builder::new)
}

/// Runs `work` on at most `threads` threads, each configured by `builder`.
fn in_threads<I: Send, O: Send>(
    things: Vec<I>,
    work: impl Fn(I) -> O + Sync,
    threads: usize,
    builder: impl Fn() -> thread::Builder,
) -> Vec<O> {
    let share = things.len().div_ceil(threads.max(1)).max(1);
    if threads <= 1 || things.len() <= 1 {
        return things.into_iter().map(work).collect();
    }
    let mut things = things.into_iter();
    let runs =
        std::iter::from_fn(|| Some(things.by_ref().take(share).collect::<Vec<I>>()).filter(|run| !run.is_empty()));
    let runs: Vec<Vec<I>> = runs.collect();
    let others = runs.len() - 1;
    let left = Mutex::new(runs.into_iter().enumerate());
    let next = || left.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    let serve = || {
        let mut done: Vec<(usize, Vec<O>)> = Vec::new();
        while let Some((place, run)) = next() {
            done.push((place, run.into_iter().map(&work).collect()));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        let started: Vec<_> = (0..others).map_while(|_| builder().spawn_scoped(scope, serve).ok()).collect();
        let mut done = serve();
        for thread in started {
            done.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().flat_map(|(_, results)| results).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order_on_any_number_of_threads() {
        for (count, threads) in itertools::iproduct!([0, 1, 2, 7, 100], [0, 1, 2, 3, 8, 200]) {
            let squares = in_threads((0..count).collect(), |n: usize| n * n, threads, thread::Builder::new);
            assert_eq!(squares, (0..count).map(|n| n * n).collect::<Vec<_>>(), "{threads} threads");
        }
    }

    #[test]
    fn the_calling_thread_does_what_no_other_can_be_started_for() {
        // No machine has a stack of 2^60 bytes.
        let refused = || thread::Builder::new().stack_size(1 << 60);
        assert!(refused().spawn(|| ()).is_err(), "the system refuses such a thread");
        let own = thread::current().id();
        let ids = in_threads((0..100).collect(), |n: usize| (n, thread::current().id()), 8, refused);
        assert!(ids.iter().enumerate().all(|(place, (n, id))| place == *n && *id == own));
    }

    #[test]
    fn some_threads_are_enough() {
        let started = std::sync::atomic::AtomicUsize::new(0);
        let two = || match started.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 | 1 => thread::Builder::new(),
            _ => thread::Builder::new().stack_size(1 << 60),
        };
        let doubled = in_threads((0..100).collect(), |n: usize| 2 * n, 8, two);
        assert_eq!(doubled, (0..100).map(|n| 2 * n).collect::<Vec<_>>());
    }

    #[test]
    #[should_panic(expected = "it goes wrong")]
    fn a_panic_comes_through() {
        in_threads((0..8).collect(), |n: usize| assert!(n != 5, "it goes wrong"), 4, thread::Builder::new);
    }
}
