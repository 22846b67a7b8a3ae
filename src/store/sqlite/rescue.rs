//! Results of sent requests are known here and nowhere else: what the database does not take is kept beside it, and put down as soon as it does.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::ballast::Ballast;
use super::results::{Results, Waiting};
use super::{SqliteStore, outcome};
use crate::domain::id::OperationId;
use crate::store::health::{FileState, Reserve, Trouble};
use crate::store::intent::Settle;
use crate::store::record::ExecutionRecord;
use crate::store::{Applied, Op, StoreError};

/// What is kept for a full or failing disk.
pub(super) struct Rescue {
    database: PathBuf,
    ballast: Ballast,
    results: Results,
    /// What this process has kept, so that a repetition is not kept twice.
    kept: Mutex<HashSet<OperationId>>,
}

impl Rescue {
    /// For this database.
    pub(super) fn new(database: &Path, reserve: &Reserve) -> Self {
        Self {
            database: database.to_owned(),
            ballast: Ballast::of(database, reserve.ballast),
            results: Results::at(reserve.results.as_deref(), database),
            kept: Mutex::default(),
        }
    }

    /// Keeps a result beside the database. If there is no room for that either, the ballast gives some.
    fn keep(&self, waiting: &Waiting, op: OperationId) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.contains(&op) {
            return;
        }
        let first = self.results.append(waiting);
        let done = match first {
            Err(_) if self.ballast.free() => self.results.append(waiting),
            first => first,
        };
        match done {
            Ok(()) => {
                kept.insert(op);
                tracing::error!(
                    execution.id = %waiting.settle.execution, file = %self.results.path().display(),
                    "the store did not take the result of a sent request; it is kept in a file beside it and put down when the store takes it"
                );
            }
            Err(error) => tracing::error!(
                execution.id = %waiting.settle.execution, file = %self.results.path().display(), %error,
                "the store did not take the result of a sent request, and it could not be kept in a file either"
            ),
        }
    }
}

impl SqliteStore {
    /// `settle`, with everything that can be done for its result.
    pub(super) async fn settle_or_keep(&self, op: Op, settle: Settle) -> Result<Applied<ExecutionRecord>, StoreError> {
        let mut answer = self.once(op.clone(), "settle", settle.clone(), outcome::settle).await;
        let is_full = self.tools.pulse.health().file == FileState::Failed(Trouble::Full);
        if is_full && matches!(answer, Err(StoreError::Unavailable(_))) && self.rescue.ballast.free() {
            tracing::error!("the disk is full; the room that was set aside is freed for the results of sent requests");
            answer = self.once(op.clone(), "settle", settle.clone(), outcome::settle).await;
        }
        if matches!(
            answer,
            Err(StoreError::Unavailable(_) | StoreError::Ambiguous { .. } | StoreError::Corrupt(_))
        ) {
            let rescue = Arc::clone(&self.rescue);
            let task = tokio::task::spawn_blocking(move || rescue.keep(&Waiting::new(&op, &settle), op.id));
            // The log says how it went.
            drop(task.await);
        }
        answer
    }

    /// Puts down what waits before anybody takes over what it is about: a result that came is worth more than any look-up.
    /// What cannot be put down keeps nobody from looking.
    pub(super) async fn put_down_first(&self) {
        if self.rescue.results.are_there()
            && let Err(error) = self.put_down().await
        {
            tracing::warn!(%error, "results that wait could not be put down before executions are taken over");
        }
    }

    /// Puts down what waits beside the database. Whatever is put down a second time changes nothing.
    pub(super) async fn put_down(&self) -> Result<(), StoreError> {
        let rescue = Arc::clone(&self.rescue);
        let look = tokio::task::spawn_blocking(move || rescue.results.read());
        let found = match look.await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::warn!(file = %self.rescue.results.path().display(), %error, "results that wait cannot be read by this process");
                return Ok(());
            }
            Err(error) => return Err(StoreError::Unavailable(format!("a look at what waits ended early: {error}"))),
        };
        self.tools.pulse.waiting_results(found.waiting.len() as u64);
        let mut stuck = None;
        for waiting in &found.waiting {
            let settled = self
                .once(waiting.op(), "settle", waiting.settle.clone(), outcome::settle)
                .await
                .map(drop);
            let settled = match settled {
                // Somebody else's word stands by now: what came back is evidence.
                Err(StoreError::Rejected(_)) => self
                    .once(waiting.late_op(), "late_answer", waiting.settle.clone(), outcome::late_answer)
                    .await
                    .map(drop),
                other => other,
            };
            match settled {
                Ok(()) => {}
                Err(StoreError::Rejected(rejection)) => {
                    tracing::error!(execution.id = %waiting.settle.execution, %rejection, "a result that waited belongs to nothing here");
                }
                // What the store cannot make sense of keeps no other result waiting.
                Err(error @ StoreError::Corrupt(_)) => stuck = Some(error),
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = stuck {
            return Err(error);
        }
        if !found.unreadable.is_empty() {
            tracing::error!(
                file = %self.rescue.results.path().display(), lines = found.unreadable.len(),
                "lines of results that waited cannot be read; they are moved to .unreadable beside the file, for a person"
            );
        }
        let rescue = Arc::clone(&self.rescue);
        let count = found.waiting.len();
        let cleared = tokio::task::spawn_blocking(move || {
            let is_empty = rescue.results.clear(&found)?;
            if is_empty {
                rescue.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
            Ok::<_, std::io::Error>(is_empty)
        });
        match cleared.await {
            Ok(Ok(is_empty)) if count > 0 => {
                // What came meanwhile is counted by the next look.
                if is_empty {
                    self.tools.pulse.waiting_results(0);
                }
                tracing::info!(count, "results that waited beside the store are recorded");
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the file of results that waited cannot be emptied; they are put down again, which changes nothing")
            }
            Err(error) => return Err(StoreError::Unavailable(format!("emptying what waited ended early: {error}"))),
        }
        Ok(())
    }

    /// Sets the ballast aside again, once there is plenty of room.
    pub(super) async fn tend_ballast(&self) {
        let disk = self.tools.pulse.health().disk;
        let plenty = disk.low_water.saturating_add(self.rescue.ballast.size().saturating_mul(2));
        if !self.rescue.ballast.is_missing() || disk.free.is_none_or(|free| free < plenty) {
            return;
        }
        let rescue = Arc::clone(&self.rescue);
        let made = tokio::task::spawn_blocking(move || rescue.ballast.make(&rescue.database)).await;
        if let Ok(Err(error)) = made {
            tracing::warn!(%error, "no room could be set aside for the results of sent requests");
        }
    }
}
