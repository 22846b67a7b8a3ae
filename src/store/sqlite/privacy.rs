//! What an operator does with what is kept: show one value, erase a person, hold events, prune old ones.

use std::sync::Arc;
use std::time::Duration;

use super::failure::Failure;
use super::opening::{self, Erase};
use super::{SqliteStore, connection, prune};
use crate::audit::vault::Tag;
use crate::audit::{DisclosedPart, Disclosure, EventBody, EventKind, Note, SensitiveField};
use crate::store::contract::Store as _;
use crate::store::retention::{Erased, NewHold, Prune};
use crate::store::{Applied, Op, Rejection, StoreError};

/// How long a reader is waited for, each of the times that the write-ahead log is to be emptied.
const PATIENCE: Duration = Duration::from_millis(200);

impl SqliteStore {
    /// The opening of one value of one event. It is given only after the log has told that it was.
    ///
    /// # Errors
    /// [`Rejection::NotFound`] if the event commits to no such value, [`Rejection::Erased`], or what the store says.
    pub async fn disclose(&self, op: Op, seq: u64, field: SensitiveField) -> Result<Disclosure, StoreError> {
        let tools = Arc::clone(&self.tools);
        let opening = self
            .readers
            .read(move |connection| opening::opening(connection, &tools, seq, field))
            .await?;
        let event = EventBody {
            disclosed: Some(DisclosedPart {
                seq,
                field,
                digest: opening.digest(),
            }),
            ..EventBody::new(EventKind::Note(Note::AuditDisclosed), op.actor.clone())
        };
        self.note(op, event).await?;
        Ok(opening)
    }

    /// The tags of a value under the key of each period that is left.
    async fn tags(&self, field: &'static str, value: &str) -> Result<Vec<Tag>, StoreError> {
        let (tools, value) = (Arc::clone(&self.tools), value.to_owned());
        self.readers
            .read(move |connection| match &tools.vault {
                Some(vault) => opening::tags(connection, vault, field, &value),
                // Without the key nobody can tell, and that is no answer.
                None => Err(Failure::Rejected(Rejection::NoSubjectsKey)),
            })
            .await
    }

    /// The events that commit to this value as their customer.
    ///
    /// # Errors
    /// What the store says.
    pub async fn about_customer(&self, value: &str) -> Result<Vec<u64>, StoreError> {
        let tags = self.tags(SensitiveField::Customer.as_str(), value).await?;
        self.readers.read(move |connection| opening::tagged(connection, &tags)).await
    }

    /// Destroys the keys and the openings of whoever is kept under this name, and gives how many there were. What the disk still had of them is
    /// overwritten, or [`Erased::left`] says why not.
    ///
    /// # Errors
    /// [`Rejection::NotFound`] if nothing is kept under it, [`Rejection::NoSubjectsKey`], or what the store says.
    pub async fn erase(&self, op: Op, subject: &str, basis: String) -> Result<Erased, StoreError> {
        let erase = Erase {
            subjects: self.tags("subject", subject).await?,
            search: self.tags(SensitiveField::Customer.as_str(), subject).await?,
            basis,
        };
        let erased = self.once(op, "erase", erase, opening::erase).await?;
        Ok(Erased {
            fields: erased.value,
            seq: erased.seq,
            left: self.forget().await.err(),
        })
    }

    /// Tells that events may go whose bundle was verified, and deletes their bytes; gives the first and the number of them.
    ///
    /// # Errors
    /// [`Rejection::Held`], [`Rejection::NotPrunable`], or what the store says. If it breaks off, the next call goes on.
    pub async fn prune(&self, op: Op, prune: Prune) -> Result<(u64, u64), StoreError> {
        let from = self.once(op, "prune", prune, prune::prune).await?.value;
        Ok((from, self.sweep_pruned().await?))
    }

    /// Deletes what the log says is pruned and is still there.
    ///
    /// # Errors
    /// What the store says.
    pub async fn sweep_pruned(&self) -> Result<u64, StoreError> {
        let mut all = 0;
        loop {
            let gone = self.writer.run(None, prune::sweep).await?;
            if gone == 0 {
                break;
            }
            all += gone as u64;
        }
        if let Err(why) = self.forget().await {
            tracing::warn!("what was pruned may stand in a file still: {why}");
        }
        Ok(all)
    }

    /// Holds events, and gives the hold's number.
    ///
    /// # Errors
    /// What the store says.
    pub async fn hold(&self, op: Op, hold: NewHold) -> Result<Applied<u64>, StoreError> {
        self.once(op, "hold", hold, prune::hold).await
    }

    /// Releases a hold.
    ///
    /// # Errors
    /// [`Rejection::NotFound`] if there is no such hold, or it was released; or what the store says.
    pub async fn release(&self, op: Op, hold: u64) -> Result<Applied<()>, StoreError> {
        self.once(op, "release", hold, prune::release).await
    }

    /// Copies the write-ahead log into the file and empties it: its old pages may hold what was just deleted.
    ///
    /// # Errors
    /// A sentence with the file in which it may stand still, and why.
    pub async fn forget(&self) -> Result<(), String> {
        let path = self.path.clone();
        let rewriting = tokio::task::spawn_blocking(move || {
            let open = connection::writer(&path)?;
            // Asked for often: a reader that stays is not waited for each time.
            open.busy_timeout(PATIENCE)?;
            connection::rewrite_log(&open, &path)
        });
        let why = match rewriting.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        Err(format!("{}-wal could not be emptied: {why}", self.path.display()))
    }
}
