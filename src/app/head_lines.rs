//! The log's heads on standard output, so that whoever collects it becomes a witness.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::audit::{SignedHead, head_json, head_line};
use crate::config::LogFormat;
use crate::domain::clock::Clock;
use crate::domain::time::Timestamp;
use crate::store::Store;

/// How often a head is printed that has changed.
const PACE: Duration = Duration::from_secs(10);
/// So many events later it is printed at once.
const EVENTS: u64 = 1_000;
/// A head that does not change is printed again after this, so that silence means something.
const IDLE: Duration = Duration::from_secs(600);

/// So many lines may wait for whoever reads them; nothing else ever does.
const WAITING: usize = 16;
/// How long the last line may take before the process ends without it.
const FAREWELL: Duration = Duration::from_secs(1);

/// Prints the heads of one log.
pub(super) struct HeadPrinter {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    format: LogFormat,
    lines: SyncSender<String>,
    done: oneshot::Receiver<()>,
    printed: Option<(u64, Timestamp)>,
}

impl HeadPrinter {
    pub(super) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, format: LogFormat, mut out: Box<dyn Write + Send>) -> Self {
        let (lines, waiting) = sync_channel::<String>(WAITING);
        let (ended, done) = oneshot::channel();
        // A thread of its own: a reader that stands still holds it and nobody else.
        std::thread::spawn(move || {
            for line in waiting {
                if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
                    break;
                }
            }
            // Nobody waits for it any more if the process is in a hurry.
            ended.send(()).ok();
        });
        Self {
            store,
            clock,
            format,
            lines,
            done,
            printed: None,
        }
    }

    /// Prints until `shutdown`, and the last head then; or until nobody reads it any more.
    pub(super) async fn keep(mut self, shutdown: CancellationToken) {
        let mut changes = self.store.changes();
        let mut turn = tokio::time::interval(Duration::from_secs(1));
        turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut seen = 0;
        loop {
            let ended = shutdown.run_until_cancelled(turn.tick()).await.is_none();
            // Without a change there is nothing to read, unless it is time to say so; other processes' changes are seen at the pace.
            let changed = changes.has_changed().unwrap_or_default();
            seen += 1;
            if ended || changed || seen >= PACE.as_secs() || self.printed.is_none() {
                seen = 0;
                changes.mark_unchanged();
                if !self.look(ended).await {
                    tracing::warn!("nobody reads the log's heads any more; they are not printed");
                    return;
                }
            }
            if ended {
                drop(self.lines);
                drop(tokio::time::timeout(FAREWELL, self.done).await);
                return;
            }
        }
    }

    /// Prints the head if it is time; whether somebody could still read it.
    async fn look(&mut self, is_last: bool) -> bool {
        let head = match self.store.head().await {
            Ok(Some(head)) => head,
            Ok(None) => return true,
            Err(error) => {
                tracing::error!(%error, "the log's head could not be read to be printed");
                return true;
            }
        };
        let now = self.clock.now();
        if !is_due(self.printed, &head, now, is_last) {
            return true;
        }
        let line = match self.format {
            LogFormat::Text => head_line(&head, now),
            LogFormat::Json => head_json(&head, now),
        };
        match self.lines.try_send(line) {
            Ok(()) => {
                self.printed = Some((head.size(), now));
                true
            }
            Err(TrySendError::Full(_)) => true,
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

fn is_due(printed: Option<(u64, Timestamp)>, head: &SignedHead, now: Timestamp, is_last: bool) -> bool {
    let Some((size, at)) = printed else { return true };
    let grown = head.size().saturating_sub(size);
    grown >= EVENTS || (grown > 0 && (is_last || now.since(at) >= PACE)) || now.since(at) >= IDLE
}
