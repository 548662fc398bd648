//! Last resort: a thread that ends this process if an MPI call does not return.
//!
//! `MPI_Init`, `MPI_Finalize` and MPI's own collectives wait for all ranks and have no timeout.

use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Polling interval.
const LOOK: Duration = Duration::from_millis(20);
/// Time limit for an orderly exit of the process.
const ORDERLY: Duration = Duration::from_millis(500);

/// A watched call and its deadline.
struct Watched {
    until: Instant,
    words: String,
}

/// Ends this process if a call takes too long. Does nothing if the thread cannot be started.
#[derive(Clone)]
pub(super) struct Watchdog {
    watched: Arc<Mutex<Option<Watched>>>,
}

impl Watchdog {
    /// Starts the thread, without a watched call.
    ///
    /// - `say`: prints a message before the exit.
    /// - `code`: exit code.
    pub(super) fn start(say: fn(&str), code: i32) -> Watchdog {
        let watchdog = Watchdog { watched: Arc::default() };
        let own = watchdog.clone();
        let watch = move || loop {
            thread::sleep(LOOK);
            if let Some(words) = own.overdue() {
                say(&words);
                // Exit handlers may wait for the call that does not return, so the process is aborted if they take
                // too long.
                let abort = || {
                    thread::sleep(ORDERLY);
                    process::abort()
                };
                if thread::Builder::new().spawn(abort).is_err() {
                    process::abort();
                }
                process::exit(code);
            }
        };
        thread::Builder::new().spawn(watch).ok();
        watchdog
    }

    fn watched(&self) -> MutexGuard<'_, Option<Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The message for an overdue call.
    fn overdue(&self) -> Option<String> {
        self.watched().take_if(|watched| watched.until < Instant::now()).map(|watched| watched.words)
    }

    /// Runs a call that may take at most `most`; otherwise prints `words` and ends the process.
    pub(super) fn during<T>(&self, most: Duration, words: impl FnOnce() -> String, act: impl FnOnce() -> T) -> T {
        // A deadline beyond the clock's range is not watched.
        let watched = Instant::now().checked_add(most).map(|until| Watched { until, words: words() });
        *self.watched() = watched;
        let done = act();
        *self.watched() = None;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_too_long_is_overdue() {
        let watchdog = Watchdog { watched: Arc::default() };
        let overdue = || watchdog.overdue();
        assert_eq!(watchdog.during(Duration::from_secs(60), || "slow".into(), overdue), None);
        let late = || {
            thread::sleep(Duration::from_millis(5));
            watchdog.overdue()
        };
        assert_eq!(watchdog.during(Duration::from_millis(1), || "slow".into(), late), Some("slow".into()));
        assert_eq!(watchdog.overdue(), None);
        assert_eq!(watchdog.during(Duration::MAX, || "never".into(), || 7), 7);
    }
}
