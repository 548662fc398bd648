//! The last resort: a thread that ends this process where a call of MPI does not come back.
//!
//! `MPI_Init`, `MPI_Finalize` and MPI's own collectives wait for all ranks and take no timeout.

use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often it looks.
const LOOK: Duration = Duration::from_millis(20);
/// How long the orderly end of a process may take.
const ORDERLY: Duration = Duration::from_millis(500);

/// What is waited for, and until when.
struct Watched {
    until: Instant,
    words: String,
}

/// Ends this process if something takes too long. Where the system gives no thread for it, it does nothing.
#[derive(Clone)]
pub(super) struct Watchdog {
    watched: Arc<Mutex<Option<Watched>>>,
}

impl Watchdog {
    /// Watches nothing yet.
    ///
    /// - `say`: where words go before the end.
    /// - `code`: the exit code of the end.
    pub(super) fn start(say: fn(&str), code: i32) -> Watchdog {
        let watchdog = Watchdog { watched: Arc::default() };
        let own = watchdog.clone();
        let watch = move || loop {
            thread::sleep(LOOK);
            if let Some(words) = own.overdue() {
                say(&words);
                // What is to be done at the end of a process may wait for the call that does not come back.
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

    /// The words for what has taken too long.
    fn overdue(&self) -> Option<String> {
        self.watched().take_if(|watched| watched.until < Instant::now()).map(|watched| watched.words)
    }

    /// Does something that may take no longer than `most`; else `words` are said and this process ends.
    pub(super) fn during<T>(&self, most: Duration, words: impl FnOnce() -> String, act: impl FnOnce() -> T) -> T {
        // What is beyond all times is not watched.
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
