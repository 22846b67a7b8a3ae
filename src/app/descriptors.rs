//! Open files: every connection is one, and a process that may not have as many as it serves connections refuses some at the worst moment.

use std::fmt;

use crate::config::Config;

/// What a process opens beside its connections: the store, its log, backends, keys, the metrics' own address.
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

/// More connections than there can be files for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFewFiles {
    connections: usize,
    needed: u64,
    limit: u64,
}

impl fmt::Display for TooFewFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            connections,
            needed,
            limit,
        } = self;
        write!(
            f,
            "limits.connections: {connections} connections need {needed} open files, and this process may have {limit}; raise the limit (`ulimit -n \
             {needed}`, or LimitNOFILE={needed} in a systemd unit), or serve fewer connections"
        )
    }
}

/// What is wrong with the number of files this process may open; nothing if it is enough.
#[must_use]
pub fn too_few_files(config: &Config) -> Option<TooFewFiles> {
    let limit = limit()?;
    let connections = config.limits.connections;
    let needed = u64::try_from(connections).ok()?.saturating_add(BESIDE);
    (limit < needed).then_some(TooFewFiles {
        connections,
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
