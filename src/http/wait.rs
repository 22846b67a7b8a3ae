//! Waiting for a change: woken by this process's own commits, and looking now and then for those of others.

use std::time::Duration;

use tokio::time::Instant;

use super::{Code, Common, Problem};

/// The longest wait that is granted, in seconds.
pub(super) const MAX_WAIT: u64 = 60;
/// How many calls may wait at once.
pub const WAITERS: usize = 128;
/// How often another process's change is looked for.
const LOOK: Duration = Duration::from_millis(250);

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
pub(super) async fn until<T, F>(common: &Common, wait: Duration, read: impl Fn() -> F, done: impl Fn(&T) -> bool) -> Result<T, Problem>
where
    F: Future<Output = Result<T, Problem>>,
{
    // Every waiter reads again on every commit. Past so many of them one is answered at once, as if its time were over.
    let place = common.waiters.try_acquire();
    let wait = if place.is_ok() { wait } else { Duration::ZERO };
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
