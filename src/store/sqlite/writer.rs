//! The one thread that writes: takes what waits, runs it in one transaction, commits once, and only then answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use super::connection::{self, OpenError};
use super::failure::{Failure, commit_failed, is_known_lost, trouble_of};
use crate::audit::tree::Hash;
use crate::crash_points;
use crate::domain::id::OperationId;
use crate::store::StoreError;
use crate::store::health::{FileState, Trouble};
use crate::store::tally::{Tally, Told};

/// How many requests may wait; one more is turned away.
const QUEUE: usize = 1024;

/// How many requests share one commit at most.
const BATCH: usize = 256;

/// After this many doubtful commits in a row nothing is tried any more: what the operating system still has of the file is not known.
const DOUBTS: u32 = 2;

/// How often the log is copied into the file at most.
const CHECKPOINT_PACE: Duration = Duration::from_millis(200);

/// From this size on, in bytes, the write-ahead log is cut back.
const WAL_LIMIT: u64 = 64 << 20;

/// What a step came to, and whether it wrote something others wait for.
#[derive(Debug)]
pub(super) struct Ran<T> {
    /// What the caller gets.
    pub(super) value: T,
    /// What it wrote.
    pub(super) wrote: Wrote,
    /// The events among it.
    pub(super) told: Vec<Told>,
    /// The hashes of their bytes, in order: what is put into the tree before the commit.
    pub(super) leaves: Vec<Hash>,
}

impl Ran<()> {
    /// A step of the store's own.
    pub(super) fn told(step: super::step::Step<'_>) -> Self {
        let (told, leaves) = step.into_events();
        Self {
            value: (),
            wrote: Wrote::Events,
            told,
            leaves,
        }
    }
}

impl<T> Ran<T> {
    /// A step without an event.
    pub(super) const fn quiet(value: T, wrote: Wrote) -> Self {
        Self {
            value,
            wrote,
            told: Vec::new(),
            leaves: Vec::new(),
        }
    }
}

/// What a step wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wrote {
    /// Nothing.
    Nothing,
    /// Rows, but no event.
    Rows,
    /// Rows and their events.
    Events,
}

/// What surrounds every transaction.
pub(super) trait Around: Send {
    /// Whether the path still leads to the file that is open; asked before a transaction begins and after it is committed.
    fn in_place(&mut self) -> Result<(), String>;
    /// Runs first inside every transaction; an error loses it.
    fn first(&mut self, connection: &Connection) -> Result<Ran<()>, Failure>;
    /// Runs last inside every transaction, with the hashes of all its events; an error loses it.
    fn last(&mut self, connection: &Connection, leaves: &[Hash]) -> Result<(), Failure>;
    /// The transaction is committed; nobody has been answered yet.
    fn committed(&mut self);
    /// How the file stands after it.
    fn ended(&mut self, state: FileState);
}

/// What became of a batch.
enum Fate {
    Committed,
    /// Certainly rolled back.
    Lost(String),
    /// The commit failed like this.
    Failed(rusqlite::Error),
}

/// A request, its type erased.
trait Job: Send {
    /// Runs inside the savepoint and keeps what it came to; `None` if it must be rolled back. Gives the hashes of its events.
    fn run(&mut self, connection: &Connection) -> Option<(Wrote, Vec<Hash>)>;
    /// What the file said to a step that came to nothing.
    fn trouble(&self) -> Option<Trouble>;
    /// Tells the caller, once the fate of the batch is known.
    fn answer(self: Box<Self>, fate: &Fate, tally: &Tally);
}

struct Request<T, F> {
    op: Option<OperationId>,
    step: Option<F>,
    came_to: Option<Result<Ran<T>, Failure>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: FnOnce(&Connection) -> Result<Ran<T>, Failure> + Send> Job for Request<T, F> {
    fn run(&mut self, connection: &Connection) -> Option<(Wrote, Vec<Hash>)> {
        let mut result = self.step.take()?(connection);
        let wrote = result.as_mut().ok().map(|ran| (ran.wrote, std::mem::take(&mut ran.leaves)));
        self.came_to = Some(result);
        wrote
    }

    fn trouble(&self) -> Option<Trouble> {
        match &self.came_to {
            Some(Err(Failure::Sql(error))) => Some(trouble_of(error)),
            _ => None,
        }
    }

    fn answer(self: Box<Self>, fate: &Fate, tally: &Tally) {
        let answer = match (fate, self.came_to) {
            (Fate::Committed, Some(Ok(ran))) => {
                tally.told(&ran.told);
                Ok(ran.value)
            }
            (Fate::Committed, Some(Err(failure))) => Err(failure.rolled_back()),
            // Whoever wrote nothing is in no doubt, but what it was told may rest on what the batch lost.
            (Fate::Failed(error), Some(Ok(ran))) if ran.wrote != Wrote::Nothing => Err(commit_failed(error, self.op)),
            (Fate::Failed(error), _) => Err(StoreError::Unavailable(format!("commit: {error}"))),
            (Fate::Lost(why), _) => Err(StoreError::Unavailable(why.clone())),
            (Fate::Committed, None) => Err(StoreError::Unavailable("the step broke off and was rolled back".to_owned())),
        };
        // A caller that went away asks for the operation's outcome later.
        drop(self.reply.send(answer));
    }
}

/// The queue to the writing thread, and the threads.
pub(super) struct Writer {
    queue: Option<SyncSender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    stop_checkpoints: Option<Sender<()>>,
    checkpoints: Option<JoinHandle<()>>,
    tally: Arc<Tally>,
}

impl Writer {
    /// Starts the threads on a prepared file.
    pub(super) fn start(
        path: &Path,
        changes: watch::Sender<u64>,
        tally: Arc<Tally>,
        around: impl Around + 'static,
    ) -> Result<Self, OpenError> {
        Self::with_commit(path, changes, tally, around, |connection| connection.execute_batch("COMMIT"))
    }

    fn with_commit(
        path: &Path,
        changes: watch::Sender<u64>,
        tally: Arc<Tally>,
        around: impl Around + 'static,
        commit: impl FnMut(&Connection) -> rusqlite::Result<()> + Send + 'static,
    ) -> Result<Self, OpenError> {
        let sql = |source| OpenError::Sql {
            path: path.to_owned(),
            source,
        };
        let first = connection::writer(path).map_err(sql)?;
        let for_checkpoints = connection::writer(path).map_err(sql)?;
        let (queue, waiting) = sync_channel(QUEUE);
        let (stop, stopped) = channel();
        let (dirty, is_dirty) = sync_channel(1);
        let suspect = Arc::new(AtomicBool::new(false));
        let mut work = Work {
            path: path.to_owned(),
            connection: Some(first),
            doubts: 0,
            suspect: Arc::clone(&suspect),
            around,
            commit,
            changes,
            dirty,
            tally: Arc::clone(&tally),
        };
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let thread = named("store-writer")
            .spawn(move || work.serve(&waiting))
            .map_err(OpenError::Thread)?;
        let wal = path.with_file_name(format!("{}-wal", path.file_name().unwrap_or_default().to_string_lossy()));
        let checkpoints = named("store-checkpoint")
            .spawn(move || keep_log_short(&for_checkpoints, &wal, &is_dirty, &stopped, &suspect))
            .map_err(OpenError::Thread)?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
            stop_checkpoints: Some(stop),
            checkpoints: Some(checkpoints),
            tally,
        })
    }

    /// Runs `step` inside a transaction and gives its answer once that is committed. Dropping the future does not stop the step.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        op: Option<OperationId>,
        step: impl FnOnce(&Connection) -> Result<Ran<T>, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let request = Request {
            op,
            step: Some(step),
            came_to: None,
            reply,
        };
        let queue = self
            .queue
            .as_ref()
            .ok_or_else(|| StoreError::Unavailable("the store is closed".to_owned()))?;
        self.tally.queued();
        queue.try_send(Box::new(request)).map_err(|error| {
            self.tally.taken(1);
            StoreError::Unavailable(match error {
                TrySendError::Full(_) => format!("{QUEUE} requests are waiting already"),
                TrySendError::Disconnected(_) => "the writing thread has ended".to_owned(),
            })
        })?;
        answer.await.unwrap_or_else(|_| {
            let why = "the writing thread ended before it answered".to_owned();
            Err(match op {
                Some(op) => StoreError::Ambiguous { op, why },
                None => StoreError::Unavailable(why),
            })
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread answers what waits and then ends; waiting for it releases the file.
        drop(self.queue.take());
        drop(self.stop_checkpoints.take());
        for thread in [self.thread.take(), self.checkpoints.take()].into_iter().flatten() {
            drop(thread.join());
        }
    }
}

struct Work<A, C> {
    path: PathBuf,
    connection: Option<Connection>,
    doubts: u32,
    /// A flush failed somewhere since the file was last verified.
    suspect: Arc<AtomicBool>,
    around: A,
    commit: C,
    changes: watch::Sender<u64>,
    dirty: SyncSender<()>,
    tally: Arc<Tally>,
}

impl<A: Around, C: FnMut(&Connection) -> rusqlite::Result<()>> Work<A, C> {
    fn serve(&mut self, waiting: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = waiting.recv() {
            let mut batch = vec![first];
            while batch.len() < BATCH
                && let Ok(next) = waiting.try_recv()
            {
                batch.push(next);
            }
            self.tally.taken(batch.len());
            let started = Instant::now();
            let fate = self.transact(&mut batch);
            self.tally.committed(started.elapsed(), matches!(fate, Fate::Committed));
            for job in batch {
                job.answer(&fate, &self.tally);
            }
        }
    }

    fn transact(&mut self, batch: &mut [Box<dyn Job>]) -> Fate {
        if self.doubts >= DOUBTS {
            return self.lost(
                Trouble::Ended,
                "commits failed in a row and what is on disk is not known: restart the process".to_owned(),
            );
        }
        if let Err(why) = self.around.in_place() {
            return self.lost(Trouble::Gone, why);
        }
        let connection = match self.sound() {
            Ok(connection) => connection,
            Err(error) => return self.lost(trouble_of(&error), format!("cannot reopen or verify the file: {error}")),
        };
        let (first, written) = match run_all(&connection, &mut self.around, batch) {
            Ok(ran) => ran,
            Err((trouble, why)) => {
                // Some errors roll the whole transaction back by themselves; then there is nothing left to roll back.
                if connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok() {
                    self.connection = Some(connection);
                }
                return self.lost(trouble, why);
            }
        };
        crash_points::committing();
        match (self.commit)(&connection) {
            Ok(()) => {
                crash_points::committed();
                self.doubts = 0;
                self.connection = Some(connection);
                self.around.committed();
                if let Err(why) = self.around.in_place() {
                    // Committed to a file that nobody finds any more.
                    self.around.ended(FileState::Failed(Trouble::Gone));
                    let moved = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY_DBMOVED);
                    return Fate::Failed(rusqlite::Error::SqliteFailure(moved, Some(why)));
                }
                self.around.ended(FileState::Sound);
                self.tally.told(&first);
                if written == Wrote::Events {
                    self.changes.send_modify(|n| *n = n.wrapping_add(1));
                }
                if written != Wrote::Nothing {
                    let _is_due_already = self.dirty.try_send(()).is_err();
                }
                Fate::Committed
            }
            Err(error) => {
                if is_known_lost(&error) {
                    if connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok() {
                        self.connection = Some(connection);
                    }
                } else {
                    // The connection is dropped, and what it left is verified before anything else is written: after a failed flush the
                    // operating system shows what it no longer intends to write.
                    self.doubts += 1;
                    self.suspect.store(true, Ordering::SeqCst);
                }
                self.around.ended(FileState::Failed(trouble_of(&error)));
                Fate::Failed(error)
            }
        }
    }

    fn lost(&mut self, trouble: Trouble, why: String) -> Fate {
        self.around.ended(FileState::Failed(trouble));
        Fate::Lost(why)
    }

    /// A connection to a file whose committed content is on the disk, as far as the disk can be asked.
    fn sound(&mut self) -> rusqlite::Result<Connection> {
        if self.suspect.load(Ordering::SeqCst) {
            drop(self.connection.take());
            let fresh = connection::writer(&self.path)?;
            connection::rewrite_log(&fresh, &self.path)?;
            self.suspect.store(false, Ordering::SeqCst);
            tracing::warn!("a flush had failed; what was committed is copied anew, flushed and verified");
            return Ok(fresh);
        }
        self.connection.take().map_or_else(|| connection::writer(&self.path), Ok)
    }
}

/// Runs each request in its own savepoint. An error means that the whole transaction is gone or must go.
fn run_all(connection: &Connection, around: &mut impl Around, batch: &mut [Box<dyn Job>]) -> Result<(Vec<Told>, Wrote), (Trouble, String)> {
    let sql = |error: rusqlite::Error| (trouble_of(&error), error.to_string());
    connection.execute_batch("BEGIN IMMEDIATE").map_err(sql)?;
    crash_points::begin();
    let lost = |failure: Failure| match failure {
        Failure::Sql(error) => sql(error),
        Failure::Sealed(why) => (Trouble::Log, why),
        other => (Trouble::Other, other.rolled_back().to_string()),
    };
    let mut first = around.first(connection).map_err(lost)?;
    let mut leaves = std::mem::take(&mut first.leaves);
    let mut written = first.wrote;
    for job in batch {
        connection.execute_batch("SAVEPOINT step").map_err(sql)?;
        let mark = crash_points::mark();
        // A step that panics must not take the thread, and with it every later step, along: it is undone and answered as not run.
        let ran = catch_unwind(AssertUnwindSafe(|| job.run(connection))).unwrap_or_else(|_| {
            tracing::error!("a step panicked; it is rolled back");
            None
        });
        match ran {
            Some((wrote, own)) => {
                written = written.max(wrote);
                leaves.extend(own);
            }
            // A full disk, an I/O error or a lack of memory may have rolled back the whole transaction already; then this fails too.
            None => {
                let trouble = job.trouble();
                let undone = connection.execute_batch("ROLLBACK TO step");
                undone.map_err(|error| (trouble.unwrap_or_else(|| trouble_of(&error)), error.to_string()))?;
                crash_points::undo(mark);
            }
        }
        connection.execute_batch("RELEASE step").map_err(sql)?;
    }
    around.last(connection, &leaves).map_err(lost)?;
    Ok((first.told, written))
}

/// Copies the log into the file behind the writer's back, so that no transition waits for it.
fn keep_log_short(connection: &Connection, wal: &Path, dirty: &Receiver<()>, stopped: &Receiver<()>, suspect: &AtomicBool) {
    while dirty.recv().is_ok() {
        let size = std::fs::metadata(wal).map_or(0, |meta| meta.len());
        let how = if size > WAL_LIMIT { "TRUNCATE" } else { "PASSIVE" };
        // A reader or a writer in the way only postpones it to the next time.
        let done = connection.query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |_| Ok(()));
        if let Err(error) = done {
            tracing::warn!(%error, "the write-ahead log could not be copied into the store's file");
            if trouble_of(&error) == Trouble::Doubt {
                suspect.store(true, Ordering::SeqCst);
            }
        }
        if stopped.recv_timeout(CHECKPOINT_PACE) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicI64;

    use rusqlite::ffi;
    use tokio::task::JoinSet;

    use super::*;
    use crate::store::Rejection;

    /// What the next commits do, first one first; then they simply commit.
    type Script = Arc<Mutex<Vec<fn(&Connection) -> rusqlite::Result<()>>>>;

    fn io_error() -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR_FSYNC), None)
    }

    fn fails_before(_: &Connection) -> rusqlite::Result<()> {
        Err(io_error())
    }

    fn fails_after(connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch("COMMIT")?;
        Err(io_error())
    }

    fn disk_is_full(_: &Connection) -> rusqlite::Result<()> {
        Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None))
    }

    /// Nothing surrounds a transaction.
    struct Nothing;

    impl Around for Nothing {
        fn in_place(&mut self) -> Result<(), String> {
            Ok(())
        }

        fn first(&mut self, _: &Connection) -> Result<Ran<()>, Failure> {
            Ok(Ran::quiet((), Wrote::Nothing))
        }

        fn last(&mut self, _: &Connection, _: &[Hash]) -> Result<(), Failure> {
            Ok(())
        }

        fn committed(&mut self) {}

        fn ended(&mut self, _: FileState) {}
    }

    struct Fixture {
        writer: Writer,
        script: Script,
        next: AtomicI64,
        _dir: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("writ.db");
            connection::prepare(&path).unwrap();
            let script = Script::default();
            let commits = Arc::clone(&script);
            let writer = Writer::with_commit(&path, watch::Sender::new(0), Arc::default(), Nothing, move |connection| {
                let mut waiting = commits.lock().unwrap();
                let next = if waiting.is_empty() { None } else { Some(waiting.remove(0)) };
                next.map_or_else(|| connection.execute_batch("COMMIT"), |commit| commit(connection))
            });
            Self {
                writer: writer.unwrap(),
                script,
                next: AtomicI64::new(1),
                _dir: dir,
            }
        }

        fn op(&self) -> OperationId {
            let n = self.next.fetch_add(1, Ordering::SeqCst);
            OperationId::from_bytes(i128::from(n).to_be_bytes())
        }

        /// Writes a number of its own.
        async fn write(&self) -> Result<i64, StoreError> {
            let n = self.next.fetch_add(1, Ordering::SeqCst);
            self.writer.run(Some(self.op()), move |connection| mark(connection, n)).await
        }

        async fn marks(&self) -> Result<i64, StoreError> {
            let count = |connection: &Connection| {
                let value = connection.query_row("SELECT count(*) FROM approver", [], |row| row.get(0))?;
                Ok(Ran::quiet(value, Wrote::Nothing))
            };
            self.writer.run(None, count).await
        }
    }

    fn mark(connection: &Connection, n: i64) -> Result<Ran<i64>, Failure> {
        connection.execute(
            "INSERT INTO approver (id, authority, created_at) VALUES (?1, '[]', 0)",
            [n.to_string()],
        )?;
        Ok(Ran::quiet(n, Wrote::Events))
    }

    #[tokio::test]
    async fn a_commit_that_fails_leaves_doubt_and_the_next_one_reads_the_truth() {
        let fixture = Fixture::new();
        for (commit, then) in [(fails_before as fn(&Connection) -> _, 1), (fails_after, 3)] {
            fixture.script.lock().unwrap().push(commit);
            let answer = fixture.write().await;
            assert!(matches!(answer, Err(StoreError::Ambiguous { .. })), "{answer:?}");
            fixture.write().await.unwrap();
            assert_eq!(fixture.marks().await, Ok(then));
        }
    }

    #[tokio::test]
    async fn a_full_disk_at_the_commit_is_no_doubt() {
        let fixture = Fixture::new();
        fixture.script.lock().unwrap().extend([disk_is_full as fn(&Connection) -> _; 3]);
        for _ in 0..3 {
            let answer = fixture.write().await;
            assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        }
        fixture.write().await.unwrap();
        assert_eq!(fixture.marks().await, Ok(1));
    }

    #[tokio::test]
    async fn two_doubtful_commits_in_a_row_end_all_service() {
        let fixture = Fixture::new();
        fixture.script.lock().unwrap().extend([fails_before as fn(&Connection) -> _; 2]);
        for _ in 0..2 {
            assert!(matches!(fixture.write().await, Err(StoreError::Ambiguous { .. })));
        }
        let answer = fixture.write().await;
        assert!(
            matches!(&answer, Err(StoreError::Unavailable(why)) if why.contains("restart")),
            "{answer:?}"
        );
        assert!(fixture.marks().await.is_err());
    }

    /// Holds the writing thread so that what comes meanwhile shares one batch.
    async fn held(fixture: &Fixture, jobs: &mut JoinSet<()>) -> std::sync::mpsc::Sender<()> {
        let (release, released) = channel();
        let (started, has_started) = oneshot::channel();
        let step = move |_: &Connection| {
            started.send(()).unwrap();
            assert!(released.recv().is_err(), "the sender is only dropped");
            Ok(Ran::quiet((), Wrote::Nothing))
        };
        let (reply, _) = oneshot::channel();
        let job: Box<dyn Job> = Box::new(Request {
            op: None,
            step: Some(step),
            came_to: None,
            reply,
        });
        assert!(fixture.writer.queue.as_ref().unwrap().try_send(job).is_ok());
        jobs.spawn(async move { has_started.await.unwrap() });
        jobs.join_next().await;
        release
    }

    #[tokio::test]
    async fn a_failed_step_is_undone_and_its_neighbours_are_kept() {
        let fixture = Fixture::new();
        let release = held(&fixture, &mut JoinSet::new()).await;
        let refused = fixture.writer.run(Some(fixture.op()), |connection| {
            mark(connection, -1)?;
            Err::<Ran<i64>, _>(Rejection::NotFound.into())
        });
        let (kept, refused, also_kept, _) = tokio::join!(fixture.write(), refused, fixture.write(), async { drop(release) });
        assert!(kept.is_ok() && also_kept.is_ok());
        assert_eq!(refused, Err(StoreError::Rejected(Rejection::NotFound)));
        assert_eq!(fixture.marks().await, Ok(2));
    }

    #[tokio::test]
    async fn a_step_that_loses_the_transaction_loses_it_for_the_whole_batch() {
        let fixture = Fixture::new();
        let release = held(&fixture, &mut JoinSet::new()).await;
        // As SQLite itself does on a full disk or an I/O error.
        let fatal = fixture.writer.run(Some(fixture.op()), |connection| {
            connection.execute_batch("ROLLBACK")?;
            Err::<Ran<i64>, _>(Failure::Sql(io_error()))
        });
        let (before, fatal, after, _) = tokio::join!(fixture.write(), fatal, fixture.write(), async { drop(release) });
        for answer in [before, fatal, after] {
            assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        }
        fixture.write().await.unwrap();
        assert_eq!(fixture.marks().await, Ok(1));
    }

    #[tokio::test]
    async fn a_refusal_that_rests_on_a_lost_batch_is_no_refusal() {
        let fixture = Fixture::new();
        let release = held(&fixture, &mut JoinSet::new()).await;
        // The first commit is the held one's own.
        let commits = |connection: &Connection| connection.execute_batch("COMMIT");
        fixture
            .script
            .lock()
            .unwrap()
            .extend([commits as fn(&Connection) -> _, fails_before]);
        let refused = fixture
            .writer
            .run(Some(fixture.op()), |_| Err::<Ran<i64>, _>(Rejection::NotFound.into()));
        let (written, refused, _) = tokio::join!(fixture.write(), refused, async { drop(release) });
        assert!(matches!(written, Err(StoreError::Ambiguous { .. })), "{written:?}");
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    }

    #[tokio::test]
    async fn one_request_too_many_is_turned_away() {
        let fixture = Arc::new(Fixture::new());
        let release = held(&fixture, &mut JoinSet::new()).await;
        let mut waiting = JoinSet::new();
        for _ in 0..QUEUE {
            let fixture = Arc::clone(&fixture);
            waiting.spawn(async move { fixture.write().await });
        }
        for _ in 0..QUEUE {
            tokio::task::yield_now().await;
        }
        let answer = fixture.write().await;
        assert!(
            matches!(&answer, Err(StoreError::Unavailable(why)) if why.contains("waiting")),
            "{answer:?}"
        );
        drop(release);
        assert!(waiting.join_all().await.iter().all(Result::is_ok));
        assert_eq!(fixture.marks().await, Ok(i64::try_from(QUEUE).unwrap()));
    }

    #[tokio::test]
    async fn a_step_that_panics_is_undone_and_stops_nobody_else() {
        let fixture = Fixture::new();
        let broken: Result<i64, _> = fixture
            .writer
            .run(Some(fixture.op()), |connection| {
                mark(connection, 7)?;
                panic!("a fault in a step")
            })
            .await;
        assert!(matches!(broken, Err(StoreError::Unavailable(_))), "{broken:?}");
        assert_eq!(fixture.marks().await, Ok(0));
        fixture.write().await.unwrap();
        assert_eq!(fixture.marks().await, Ok(1));
    }
}
