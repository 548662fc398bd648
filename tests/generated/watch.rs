//! Reports panics and endless searches as failures.

use super::cpu_time::cpu_time;
use super::machine::Size;
use super::program::Case;
use super::properties::{Failure, Outcome, hold};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Once, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for a small program: one that takes longer does not end. `SHARDC_SLOW` sets another limit in seconds.
/// CPU time is measured if the system reports it, so that the machine's load is irrelevant.
const LONGEST: u64 = 60;
/// Maximum ratio of elapsed time to CPU time, for busy machines.
const PATIENCE: u32 = 8;
/// Stack size in bytes, equal to that of a main thread.
const STACK: usize = 8 << 20;

/// The current stage of a program, to report if it does not end.
type Stage = Arc<Mutex<&'static str>>;

/// Sets the current stage of this thread's program.
pub(crate) fn stage(name: &'static str) {
    STAGE.with(|stage| *stage.borrow().lock().expect("an unpoisoned lock") = name);
}

thread_local! {
    static STAGE: RefCell<Stage> = RefCell::new(Arc::default());
    static PANIC: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// The time limit of a program, in proportion to its statements and devices above those of small programs.
fn longest(case: &Case) -> Duration {
    let of_small = super::number("SHARDC_SLOW").unwrap_or(LONGEST);
    let statements = case.statements.div_ceil(Size::SMALL.statements).max(1) as u64;
    let devices = case.devices.div_ceil(Size::SMALL.devices).max(1);
    Duration::from_secs(of_small * statements * devices)
}

/// What is checked of a program, and of the choices from which it was generated.
pub(crate) type Check = fn(&Case, &[u32], Size) -> Result<Outcome, Failure>;

/// All properties of a program by itself.
pub(crate) const EVERY_STAGE: Check = |case, _, _| hold(case);

/// The outcome of a check, including panics and timeouts.
pub(crate) fn watched(check: Check, case: &Case, made: &[u32], most: Size) -> Result<Outcome, Failure> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // Tests have names; what goes through the stages has none.
            if thread::current().name().is_some() {
                return usual(info);
            }
            let place = info.location().map(|place| format!("{}:{}", place.file(), place.line())).unwrap_or_default();
            let trace =
                std::env::var_os("RUST_BACKTRACE").map(|_| std::backtrace::Backtrace::force_capture().to_string());
            let text = format!("{info}\n{}", trace.unwrap_or_default());
            PANIC.with(|panic| *panic.borrow_mut() = Some((place, text)));
        }));
    });
    let longest = longest(case);
    let (sender, receiver) = mpsc::channel();
    let (announce, announced) = mpsc::channel();
    let (own, made) = (case.clone(), made.to_vec());
    let at: Stage = Arc::default();
    let told = at.clone();
    let body = move || {
        STAGE.with(|stage| *stage.borrow_mut() = told);
        let _ = announce.send(std::fs::read_link("/proc/thread-self").ok());
        let result = catch_unwind(AssertUnwindSafe(|| check(&own, &made, most))).unwrap_or_else(|payload| {
            let (place, detail) = PANIC.with(|panic| panic.borrow_mut().take()).unwrap_or_default();
            let text = payload.downcast_ref::<String>().cloned().unwrap_or_default();
            Err(Failure { class: format!("panic: {place}"), detail: format!("{text}\n{detail}") })
        });
        // After a timeout, the receiver is gone.
        let _ = sender.send(result);
    };
    let Ok(_) = thread::Builder::new().stack_size(STACK).spawn(body) else {
        return Err(Failure { class: "no thread".to_owned(), detail: String::new() });
    };
    let thread = announced.recv().ok().flatten();
    let start = Instant::now();
    loop {
        match receiver.recv_timeout(Duration::from_millis(500)) {
            Ok(result) => return result,
            // Threads that it starts are not counted, so elapsed time is limited, too.
            Err(_)
                if thread.as_deref().and_then(cpu_time).unwrap_or_default().max(start.elapsed() / PATIENCE)
                    > longest =>
            {
                let stage = *at.lock().expect("an unpoisoned lock");
                return Err(Failure {
                    class: format!("slow: {stage}"),
                    detail: format!("more than {} s", longest.as_secs()),
                });
            }
            Err(_) => {}
        }
    }
}
