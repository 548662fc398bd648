//! Panics and endless searches are failures like others.

use super::program::Case;
use super::properties::{Failure, Outcome, hold};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Once, mpsc};
use std::thread;
use std::time::Duration;

/// No program of this size may take longer, even unoptimised; `SHARDC_SLOW` says another number of seconds.
const LONGEST: u64 = 20;
/// As much as the main thread has.
const STACK: usize = 8 << 20;

thread_local! {
    static PANIC: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// What holds of a program, whatever happens.
pub(crate) fn watched(case: &Case) -> Result<Outcome, Failure> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(|place| format!("{}:{}", place.file(), place.line())).unwrap_or_default();
            let trace = std::env::var_os("RUST_BACKTRACE").map(|_| std::backtrace::Backtrace::force_capture().to_string());
            let text = format!("{info}\n{}", trace.unwrap_or_default());
            PANIC.with(|panic| *panic.borrow_mut() = Some((place, text)));
        }));
    });
    let longest = Duration::from_secs(super::number("SHARDC_SLOW").unwrap_or(LONGEST));
    let (sender, receiver) = mpsc::channel();
    let own = case.clone();
    let body = move || {
        let result = catch_unwind(AssertUnwindSafe(|| hold(&own))).unwrap_or_else(|payload| {
            let (place, detail) = PANIC.with(|panic| panic.borrow_mut().take()).unwrap_or_default();
            let text = payload.downcast_ref::<String>().cloned().unwrap_or_default();
            Err(Failure { class: format!("panic: {place}"), detail: format!("{text}\n{detail}") })
        });
        // Nobody waits for what took too long.
        let _ = sender.send(result);
    };
    let Ok(_) = thread::Builder::new().stack_size(STACK).spawn(body) else {
        return Err(Failure { class: "no thread".to_owned(), detail: String::new() });
    };
    receiver.recv_timeout(longest).unwrap_or_else(|_| {
        Err(Failure { class: "slow".to_owned(), detail: format!("more than {} s", longest.as_secs()) })
    })
}
