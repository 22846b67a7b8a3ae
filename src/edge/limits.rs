//! How much everybody together, and one of them, may use: the `[limits]` of the configuration.

use std::time::Duration;

use super::Pace;
use crate::settings::Section;

/// The limits of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once; further ones wait in the operating system's queue.
    pub connections: usize,
    /// Connections open at once from one address (one /64 of IPv6); a further one takes the place of one that is idle and nobody's, or is closed.
    pub connections_per_address: usize,
    /// How long a connection may take for its handshake, and then to bring the head of its next request.
    pub head_timeout: Duration,
    /// For how long a connection is kept on which nobody shows who they are, however much it is used.
    pub stranger_timeout: Duration,
    /// Calls of one client.
    pub client: Pace,
    /// Calls from one address that show nobody's secret and nobody's credential, and are written down.
    pub failures: Pace,
    /// The same from everywhere together.
    pub all_failures: Pace,
    /// Calls that change something and are worked on at once.
    pub calls: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            connections_per_address: 256,
            head_timeout: Duration::from_secs(10),
            stranger_timeout: Duration::from_secs(60),
            client: Pace {
                per_minute: 6_000,
                burst: 1_000,
            },
            failures: Pace {
                per_minute: 30,
                burst: 300,
            },
            all_failures: Pace {
                per_minute: 120,
                burst: 1_000,
            },
            calls: 256,
        }
    }
}

impl Limits {
    /// Reads the table; what is left out has its usual value.
    pub(crate) fn read(section: Section<'_>) -> Self {
        let usual = Self::default();
        let number = |key: &str, usual: usize, from: usize, to: usize| {
            let Some(value) = section.maybe_integer(key) else { return usual };
            match usize::try_from(value) {
                Ok(value) if (from..=to).contains(&value) => value,
                _ => {
                    section.wrong(key, format!("{value}: expected from {from} to {to}"));
                    usual
                }
            }
        };
        let connections = number("connections", usual.connections, 8, 65_536);
        let connections_per_address = number(
            "connections_per_address",
            usual.connections_per_address.min(connections),
            1,
            connections,
        );
        let head_timeout = section.duration("head_timeout", usual.head_timeout).unwrap_or(usual.head_timeout);
        if head_timeout < Duration::from_millis(200) || head_timeout > Duration::from_secs(120) {
            section.wrong("head_timeout", "expected from `200ms` to `2m`");
        }
        let stranger_timeout = section
            .duration("stranger_timeout", usual.stranger_timeout)
            .unwrap_or(usual.stranger_timeout);
        if stranger_timeout < Duration::from_secs(1) || stranger_timeout > Duration::from_secs(3_600) {
            section.wrong("stranger_timeout", "expected from `1s` to `1h`");
        }
        let pace = |rate: &str, burst: &str, usual: Pace| {
            let read = |key: &str, usual: u32| {
                let usual = usize::try_from(usual).unwrap_or(usize::MAX);
                u32::try_from(number(key, usual, 1, 1_000_000)).unwrap_or(u32::MAX)
            };
            Pace {
                per_minute: read(rate, usual.per_minute),
                burst: read(burst, usual.burst),
            }
        };
        let client = pace("client_rate", "client_burst", usual.client);
        let failures = pace("failure_rate", "failure_burst", usual.failures);
        let all_failures = pace("all_failures_rate", "all_failures_burst", usual.all_failures);
        let calls = number("calls", usual.calls, 8, 1_000);
        section.close();
        Self {
            connections,
            connections_per_address,
            head_timeout,
            stranger_timeout,
            client,
            failures,
            all_failures,
            calls,
        }
    }
}
