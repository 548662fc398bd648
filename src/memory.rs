//! Memory available to this process.

use std::fs::read_to_string;
use std::sync::OnceLock;

/// Bytes that may still be allocated, by the limits of the address space (`ulimit -v`) and of the control group; `None`
/// without limits, or if the system does not report them. Determined once, at startup.
pub(crate) fn allowed() -> Option<u64> {
    static ALLOWED: OnceLock<Option<u64>> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let space = read_to_string("/proc/self/limits").ok().and_then(|limits| address_space(&limits));
        let taken = read_to_string("/proc/self/status").ok().and_then(|status| size(&status)).unwrap_or(0);
        let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
        let group = groups.iter().find_map(|path| read_to_string(path).ok()?.trim().parse::<u64>().ok());
        space.map(|space| space.saturating_sub(taken)).into_iter().chain(group).min()
    })
}

/// Parses the soft limit in `/proc/self/limits`: `Max address space  1048576000  unlimited  bytes`.
fn address_space(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Parses the address space in use in `/proc/self/status`: `VmSize:  12345 kB`.
fn size(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let limits =
            |soft: &str| format!("Limit  Soft Limit  Hard Limit  Units\nMax address space  {soft}  unlimited  bytes\n");
        assert_eq!(address_space(&limits("1048576")), Some(1 << 20));
        assert_eq!(address_space(&limits("unlimited")), None);
        assert_eq!(address_space("Max cpu time 1 2 seconds"), None);
        assert_eq!(size("Name:\tx\nVmSize:\t   8 kB\n"), Some(8192));
        assert_eq!(size("Name:\tx\n"), None);
    }
}
