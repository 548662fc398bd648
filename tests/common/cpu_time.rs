//! The CPU time of a thread, which does not depend on the load of the machine.

use std::path::Path;
use std::time::Duration;

/// CPU time of a thread by its folder in `/proc`, such as `thread-self`; `None` if the system does not report it.
pub fn cpu_time(thread: &Path) -> Option<Duration> {
    let text = std::fs::read_to_string(Path::new("/proc").join(thread).join("schedstat")).ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}
