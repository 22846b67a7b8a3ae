//! Who may call how often: each client on its own, each holder of a credential too, and whoever shows nothing by where it comes from.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::Limits;
use super::pace::{Paces, Turn};
use crate::domain::id::CredentialId;
use crate::domain::name::{BackendName, ClientId, TenantId};
use crate::domain::time::Timestamp;

/// How many callers are kept apart.
const CALLERS: usize = 10_000;

/// Where a call comes from: an address, of IPv6 its /64, since one machine has all of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source(IpAddr);

impl Source {
    /// Where this address belongs.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => Self(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))),
            v4 => Self(v4),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(address) => write!(f, "{address}/64"),
        }
    }
}

/// Whoever brings a credential that a broker of ours signed. What strangers do does not count against it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The credential.
    pub credential: CredentialId,
    /// Whose it is.
    pub tenant: TenantId,
}

/// Refusals that are to be written down: whose, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Of one client; `None` stands for those that share a bucket.
    Client(Option<ClientId>, u64),
    /// Of callers that showed nothing, from one place; `None` stands for everywhere together.
    Source(Option<Source>, u64),
    /// Of one credential's holder; `None` stands for those that share a bucket.
    Holder(Option<Holder>, u64),
    /// Of the holders of one tenant's credentials together; `None` as above.
    Tenant(Option<TenantId>, u64),
    /// Events that a backend signed.
    Backend(Option<BackendName>, u64),
}

/// Which of the counts.
enum Which {
    Due(Timestamp),
    All,
}

/// The rates of one process.
#[derive(Debug)]
pub struct Rates {
    clients: Paces<ClientId>,
    failures: Paces<Source>,
    all_failures: Paces<()>,
    holders: Paces<Holder>,
    tenants: Paces<TenantId>,
    /// Refusals that are nobody's fault; only what is written down of them is bounded.
    conflicts: Paces<Holder>,
    backends: Paces<BackendName>,
}

impl Rates {
    /// With these limits, and every bucket full.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            clients: Paces::new(limits.client, CALLERS),
            failures: Paces::new(limits.failures, CALLERS),
            all_failures: Paces::new(limits.all_failures, 1),
            holders: Paces::new(limits.failures, CALLERS),
            tenants: Paces::new(limits.client, CALLERS),
            conflicts: Paces::new(limits.failures, CALLERS),
            backends: Paces::new(limits.failures, CALLERS),
        }
    }

    /// A call of a client that has shown who it is.
    pub fn client(&self, client: &ClientId, now: Timestamp) -> Turn<Refused> {
        self.clients.take(client, now).map(|(whose, count)| Refused::Client(whose, count))
    }

    /// A call that showed nobody's secret, or no good credential. [`Turn::Go`] says that it is written down.
    pub fn failure(&self, source: Source, now: Timestamp) -> Turn<Refused> {
        match self.failures.take(&source, now) {
            Turn::Go => self.all_failures.take(&(), now).map(|(_, count)| Refused::Source(None, count)),
            wait => wait.map(|(whose, count)| Refused::Source(whose, count)),
        }
    }

    /// A call with a credential of ours that is refused because of it. [`Turn::Go`] says that it is written down.
    pub fn refusal(&self, holder: &Holder, now: Timestamp) -> Turn<Refused> {
        match self.holders.take(holder, now) {
            Turn::Go => self
                .tenants
                .take(&holder.tenant, now)
                .map(|(whose, count)| Refused::Tenant(whose, count)),
            wait => wait.map(|(whose, count)| Refused::Holder(whose, count)),
        }
    }

    /// One that is refused though nobody is to blame. [`Turn::Go`] says that it is written down; it is told as it is either way.
    pub fn conflict(&self, holder: &Holder, now: Timestamp) -> Turn<Refused> {
        self.conflicts.take(holder, now).map(|(whose, count)| Refused::Holder(whose, count))
    }

    /// A refused event that the backend signed. [`Turn::Go`] says that it is written down; it is answered as it is either way.
    pub fn event(&self, backend: &BackendName, now: Timestamp) -> Turn<Refused> {
        self.backends
            .take(backend, now)
            .map(|(whose, count)| Refused::Backend(whose, count))
    }

    /// Counts refusals again that were to be written down and could not be.
    pub fn put_back(&self, refused: Refused, now: Timestamp) {
        match refused {
            Refused::Client(whose, count) => self.clients.put_back(whose, count, now),
            Refused::Source(Some(whose), count) => self.failures.put_back(Some(whose), count, now),
            Refused::Source(None, count) => self.all_failures.put_back(Some(()), count, now),
            Refused::Holder(whose, count) => self.holders.put_back(whose, count, now),
            Refused::Tenant(whose, count) => self.tenants.put_back(whose, count, now),
            Refused::Backend(whose, count) => self.backends.put_back(whose, count, now),
        }
    }

    /// Refusals that were only counted and are due to be written down.
    #[must_use]
    pub fn due(&self, now: Timestamp) -> Vec<Refused> {
        self.counted(&Which::Due(now))
    }

    /// All refusals that were only counted: nobody counts on when the process ends.
    #[must_use]
    pub fn rest(&self) -> Vec<Refused> {
        self.counted(&Which::All)
    }

    fn counted(&self, which: &Which) -> Vec<Refused> {
        fn of<K: Eq + std::hash::Hash + Clone>(
            paces: &Paces<K>,
            which: &Which,
            refused: impl Fn(Option<K>, u64) -> Refused,
        ) -> impl Iterator<Item = Refused> {
            let counts = match which {
                Which::Due(now) => paces.due(*now),
                Which::All => paces.rest(),
            };
            counts.into_iter().map(move |(key, count)| refused(key, count))
        }
        of(&self.clients, which, Refused::Client)
            .chain(of(&self.failures, which, Refused::Source))
            .chain(of(&self.all_failures, which, |_, count| Refused::Source(None, count)))
            .chain(of(&self.holders, which, Refused::Holder))
            .chain(of(&self.conflicts, which, Refused::Holder))
            .chain(of(&self.tenants, which, Refused::Tenant))
            .chain(of(&self.backends, which, Refused::Backend))
            .collect()
    }
}

/// The wait in whole seconds, at least one, as `Retry-After` says it.
#[must_use]
pub fn whole_seconds(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_millis().div_ceil(1_000).try_into().unwrap_or(u64::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::Pace;

    #[test]
    fn a_machine_with_many_addresses_is_one_source() {
        let source = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff::9"));
        assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_eq!(source("2001:db8:1:2::1").to_string(), "2001:db8:1:2::/64");
    }

    #[test]
    fn many_addresses_together_do_not_get_past_the_limit_for_all() {
        let limits = Limits {
            failures: Pace { per_minute: 1, burst: 5 },
            all_failures: Pace { per_minute: 1, burst: 20 },
            ..Limits::default()
        };
        let rates = Rates::new(&limits);
        let now = Timestamp::from_millis(1_790_000_000_000);
        let from = |n: u32| Source::of(IpAddr::V4(std::net::Ipv4Addr::from(n)));
        let passed = (0..1_000).filter(|n| rates.failure(from(n / 10), now) == Turn::Go).count();
        assert_eq!(passed, 20);
    }

    #[test]
    fn a_count_is_told_of_whoever_has_it() {
        let one = Pace { per_minute: 1, burst: 1 };
        let now = Timestamp::from_millis(1_790_000_000_000);
        let from = |n: u32| Source::of(IpAddr::V4(std::net::Ipv4Addr::from(n)));
        let told = |turn| match turn {
            Turn::Wait { note, .. } => note,
            Turn::Go => None,
        };
        let rates = Rates::new(&Limits {
            all_failures: one,
            client: one,
            ..Limits::default()
        });
        assert_eq!(told(rates.failure(from(1), now)), None);
        assert_eq!(told(rates.failure(from(2), now)), Some(Refused::Source(None, 1)));
        let tenant: TenantId = "main".parse().unwrap();
        let holder = |n: u8| Holder {
            credential: format!("crd_0192f0c1a2b37c4d8e5f60718293a4b{n}").parse().unwrap(),
            tenant: tenant.clone(),
        };
        assert_eq!(told(rates.refusal(&holder(1), now)), None);
        assert_eq!(told(rates.refusal(&holder(2), now)), Some(Refused::Tenant(Some(tenant.clone()), 1)));
        let each = [
            Refused::Source(None, 1),
            Refused::Source(Some(from(1)), 2),
            Refused::Holder(Some(holder(1)), 3),
            Refused::Tenant(Some(tenant.clone()), 4),
            Refused::Client(Some("support-agent".parse().unwrap()), 5),
            Refused::Backend(Some("stripe".parse().unwrap()), 6),
        ];
        for refused in &each {
            rates.put_back(refused.clone(), now);
        }
        let rest = rates.rest();
        assert!(
            each.iter().all(|refused| rest.contains(refused)) && rest.len() == each.len(),
            "{rest:?}"
        );
    }
}
