//! How far a command is: on a terminal, and only if it takes long.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// What takes less is not told of.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often what is drawn is drawn anew.
const TICK: Duration = Duration::from_millis(200);

/// What is done and what is left, on standard error; gone when the command is done.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Of so many parts, none of which is done: with the time that is left.
    pub(super) fn of(parts: usize) -> Progress {
        Progress::drawn(
            ProgressBar::hidden().with_style(style("{bar:30} {pos}/{len} {msg}, {elapsed} gone, {eta} left")),
            parts,
        )
    }

    /// Of one thing of which nobody knows how long it takes.
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

    /// One part begins.
    pub(super) fn begin(&self, what: &str) {
        self.bar.set_message(crate::escape::line(what).into_owned());
    }

    /// One part is done.
    pub(super) fn done(&self) {
        self.bar.inc(1);
    }

    /// Does something that prints, with the bar out of the way.
    pub(super) fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        self.bar.suspend(act)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Does something that prints nothing, and says what is being done if it takes long.
pub(super) fn during<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let _progress = Progress::of_one(what);
    act()
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
