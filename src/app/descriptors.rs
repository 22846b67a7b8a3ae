//! Open files: every connection is one, every call may have one at a backend, and a process that may not have as many refuses some at the worst moment.

use std::fmt;

use super::SCRAPERS;
use crate::config::Config;
use crate::edge::Limits;

/// What a process opens beside those: the store, its log, keys, what the sweeps ask of backends.
const BESIDE: u64 = 128;

/// How many files this process may have open at once; `None` where the system does not say, or sets no limit.
fn limit() -> Option<u64> {
    parsed(&std::fs::read_to_string("/proc/self/limits").ok()?)
}

/// The soft limit of open files in a text such as `/proc/self/limits`.
fn parsed(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// More connections and calls than there can be files for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFewFiles {
    connections: usize,
    calls: usize,
    needed: u64,
    limit: u64,
}

impl fmt::Display for TooFewFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            connections,
            calls,
            needed,
            limit,
        } = self;
        write!(
            f,
            "limits.connections: {connections} connections and {calls} calls need {needed} open files, and this process may have {limit}; raise the limit (`ulimit -n \
             {needed}`, or LimitNOFILE={needed} in a systemd unit), or lower `connections` or `calls`"
        )
    }
}

/// What is wrong with the number of files this process may open; nothing if it is enough.
#[must_use]
pub fn too_few_files(config: &Config) -> Option<TooFewFiles> {
    let limit = limit()?;
    let Limits { connections, calls, .. } = config.limits;
    let needed = u64::try_from(connections + calls + SCRAPERS).ok()?.saturating_add(BESIDE);
    (limit < needed).then_some(TooFewFiles {
        connections,
        calls,
        needed,
        limit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_of_open_files_is_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max core file size        0                    unlimited            bytes\n\
                      Max open files            1024                 524288               files\n";
        assert_eq!(parsed(limits), Some(1024));
        assert_eq!(
            parsed("Max open files            unlimited            unlimited            files\n"),
            None
        );
        assert!(limit().is_some());
    }
}
