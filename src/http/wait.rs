//! Waiting for a change: woken by this process's own commits, and looking now and then for those of others.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{Code, Common, Problem};
use crate::domain::name::ClientId;

/// The longest wait that is granted, in seconds.
pub(super) const MAX_WAIT: u64 = 60;
/// How many calls may wait at once.
pub const WAITERS: usize = 128;
/// How many of them may be one client's.
pub const WAITERS_OF_A_CLIENT: usize = 32;
/// How often another process's change is looked for.
const LOOK: Duration = Duration::from_millis(250);

/// The calls that wait, by the client whose draft or execution they wait for.
#[derive(Debug, Default)]
pub struct Waiters(Mutex<HashMap<ClientId, usize>>);

/// A place to wait at, given back when it is dropped.
struct Waiter<'a> {
    all: &'a Waiters,
    client: &'a ClientId,
}

impl Waiters {
    /// A place; `None` if all of them, or all that one client may have, are taken.
    fn sit<'a>(&'a self, client: &'a ClientId) -> Option<Waiter<'a>> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (taken.values().sum::<usize>(), taken.get(client).copied().unwrap_or(0));
        if all >= WAITERS || own >= WAITERS_OF_A_CLIENT {
            return None;
        }
        taken.insert(client.clone(), own + 1);
        Some(Waiter { all: self, client })
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut taken = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(self.client) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(taken.remove(self.client)),
        }
    }
}

/// The wait that a query asks for.
pub(super) fn wish(seconds: Option<u64>) -> Result<Duration, Problem> {
    match seconds.unwrap_or(0) {
        wish @ 0..=MAX_WAIT => Ok(Duration::from_secs(wish)),
        more => Err(Problem::new(
            Code::ParameterInvalid,
            format!("wait={more} is too long: at most {MAX_WAIT} seconds, then ask again"),
        )),
    }
}

/// Reads until `done` holds or the time is over; gives what was read last. Ending the wait changes nothing: work goes on without it.
pub(super) async fn until<T, F>(
    common: &Common,
    client: &ClientId,
    wait: Duration,
    read: impl Fn() -> F,
    done: impl Fn(&T) -> bool,
) -> Result<T, Problem>
where
    F: Future<Output = Result<T, Problem>>,
{
    // Every waiter reads again on every commit. Past so many of them one is answered at once, as if its time were over.
    let place = if wait.is_zero() { None } else { common.waiters.sit(client) };
    let wait = if place.is_some() { wait } else { Duration::ZERO };
    let deadline = Instant::now() + wait;
    let mut changes = common.store.changes();
    loop {
        changes.mark_unchanged();
        let value = read().await?;
        if done(&value) || Instant::now() >= deadline {
            return Ok(value);
        }
        let pause = (Instant::now() + LOOK).min(deadline);
        tokio::select! {
            _ = changes.changed() => {}
            () = tokio::time::sleep_until(pause) => {}
        }
    }
}
