//! Progress bars on terminals, shown after one second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// Delay before progress is shown.
const PATIENCE: Duration = Duration::from_secs(1);
/// Redraw interval.
const TICK: Duration = Duration::from_millis(200);

/// A progress bar on standard error, removed when the command ends.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar of `parts` parts, with the estimated time left.
    pub(super) fn of(parts: usize) -> Progress {
        Progress::drawn(
            ProgressBar::hidden().with_style(style("{bar:30} {pos}/{len} {msg}, {elapsed} elapsed, {eta} left")),
            parts,
        )
    }

    /// A spinner for one task of unknown length.
    fn of_one(what: &str) -> Progress {
        let bar = ProgressBar::hidden().with_style(style("{spinner} {msg}, {elapsed}"));
        bar.set_message(what.to_owned());
        Progress::drawn(bar, 1)
    }

    fn drawn(bar: ProgressBar, parts: usize) -> Progress {
        bar.set_length(parts as u64);
        if super::terminal::shows_progress() {
            let later = bar.clone();
            let draw = move || {
                std::thread::sleep(PATIENCE);
                if !later.is_finished() {
                    later.set_draw_target(ProgressDrawTarget::stderr());
                }
                while !later.is_finished() {
                    later.tick();
                    std::thread::sleep(TICK);
                }
            };
            // Where the system refuses a thread, nothing is drawn.
            std::thread::Builder::new().spawn(draw).ok();
        }
        Progress { bar }
    }

    /// Shows the name of the part in progress.
    pub(super) fn begin(&self, what: &str) {
        self.bar.set_message(crate::escape::line(what).into_owned());
    }

    /// Counts one part as done.
    pub(super) fn done(&self) {
        self.bar.inc(1);
    }

    /// Runs a function that prints, with the bar hidden.
    pub(super) fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        self.bar.suspend(act)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Runs a function that prints nothing, under a spinner.
pub(super) fn during<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let _progress = Progress::of_one(what);
    act()
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
