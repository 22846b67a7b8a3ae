//! A log that was taken back goes on under another name: under the old one it might sign what contradicts what it had signed.
//!
//! If we die before the commit nothing has happened. After it the database is under the new key and the files are not: nothing opens it, and
//! the same command again finds what it had committed and puts the files in place.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rusqlite::TransactionBehavior;

use super::connection::{self, OpenError};
use super::failure::Failure;
use super::pulse::Pulse;
use super::seal::{self, Nodes, Seal, SealError};
use super::step::Step;
use super::writer_mark::WriterMark;
use super::{Tools, clock};
use crate::audit::tree::Edge;
use crate::audit::{EventBody, EventKind, HeadFile, HeadPart, LogFiles, LogKey, LogKeys, LogPart, Note, Origin, SignedHead, read_key};
use crate::domain::clock::{Clock, Entropy};
use crate::domain::id::WriterId;
use crate::store::Op;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The log's name from here on.
    pub origin: Origin,
    /// How many events it has, the one that tells of this included.
    pub size: u64,
    /// The last head that was known before, whose events may be lost from its size on.
    pub before: Option<HeadPart>,
}

/// Begins the log anew under another name, on what the database holds. Nobody else may have the file open.
///
/// # Errors
/// [`OpenError`]: the file, or its own log does not hold together; then nothing was changed.
pub(super) fn recover(
    path: &Path,
    files: &LogFiles,
    op: &Op,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
) -> Result<Recovered, OpenError> {
    connection::prepare(path)?;
    let failed = |error: SealError| OpenError::log(path, error);
    let mut connection = connection::writer(path).map_err(SealError::Sql).map_err(failed)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Exclusive);
    let tx = tx.map_err(SealError::Sql).map_err(failed)?;
    let latest = seal::latest(&tx).map_err(failed)?.ok_or_else(|| failed(SealError::NoHead))?;
    let keys = LogKeys::load(files, None).map_err(SealError::Keys).map_err(failed)?;
    let head_file = HeadFile::at(files.head.clone());
    let name = next_name(keys.signing.origin()).map_err(SealError::Keys).map_err(failed)?;
    if latest.signers(&keys.known).is_ok() && *latest.origin() == name {
        // An earlier attempt got as far as the commit. A database of an older name is another matter: it is from before an earlier recovery.
        return finish(files, &head_file, &latest, None).map_err(failed);
    }
    let size = whole(&tx, &latest, &keys).map_err(failed)?;
    let before = head_file.read(&keys.known).ok().flatten().map(|head| HeadPart {
        origin: head.origin().to_string(),
        size: head.size(),
        root: head.root().to_string(),
    });
    let next = files.announce(&name, &*entropy).map_err(SealError::Keys).map_err(failed)?;
    let writer = WriterMark::new(WriterId::generate(&*clock, &*entropy));
    writer.begin(name.as_str(), size, 0);
    let tools = Tools {
        clock,
        entropy,
        pulse: Pulse::new(0),
        writer,
        tally: Arc::default(),
        vault: None,
        reread_log: AtomicBool::new(false),
    };
    let told = tell(&tx, &tools, op, &keys, &next, before.clone());
    let leaves = told.map_err(|failure| failed(SealError::Recover(failure.rolled_back().to_string())))?;
    let head = Seal::begin_anew(&tx, size, &leaves, &next, tools.clock.now()).map_err(failed)?;
    tx.commit().map_err(SealError::Sql).map_err(failed)?;
    finish(files, &head_file, &head, before).map_err(failed)
}

/// The size of a log that holds together: its bytes lead to its nodes and to its last head, and a key of the log has signed that.
fn whole(connection: &rusqlite::Connection, latest: &SignedHead, keys: &LogKeys) -> Result<u64, SealError> {
    latest.signers(&keys.known)?;
    let size = seal::size(connection)?;
    let first = first_there(connection)?;
    let mut edge = Edge::read(first, &Nodes(connection)).map_err(|_| SealError::Forked(first))?;
    for leaf in seal::leaves(connection, first)? {
        edge.push(leaf)?;
    }
    let stored = Edge::read(size, &Nodes(connection)).map_err(|_| SealError::Forked(size))?;
    if latest.size() != size || edge.root()? != latest.root() || stored != edge {
        return Err(SealError::Forked(size));
    }
    Ok(size)
}

/// The first event whose bytes are there. Those before it are gone only if the log says that they were pruned.
fn first_there(connection: &rusqlite::Connection) -> Result<u64, SealError> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, Option<i64>>(0));
    let first = number("SELECT min(seq) FROM event")?
        .and_then(|first| u64::try_from(first).ok())
        .unwrap_or(0);
    let told = number("SELECT max(CAST(json_extract(body, '$.pruned.to') AS INTEGER)) FROM event WHERE type = 'retention.pruned'")?;
    let pruned = told.and_then(|to| u64::try_from(to).ok()).map_or(0, |to| to.saturating_add(1));
    if first <= pruned {
        return Ok(first);
    }
    Err(SealError::Recover(format!(
        "the events before {first} are not there, and the log does not say that they were pruned: it was changed; see `writ audit verify --help`"
    )))
}

/// The event that tells of it, as the log's next.
fn tell(
    connection: &rusqlite::Connection,
    tools: &Tools,
    op: &Op,
    keys: &LogKeys,
    next: &LogKey,
    before: Option<HeadPart>,
) -> Result<Vec<crate::audit::tree::Hash>, Failure> {
    let latest = clock::latest(connection)?;
    tools.pulse.found(latest, crate::store::health::ClockState::Steady);
    let mut step = Step::new(connection, tools, op);
    let body = step.event(EventKind::Note(Note::LogRecovered));
    step.emit(EventBody {
        log: Some(LogPart {
            key: next.verifier().to_string(),
            previous_key: Some(keys.signing.verifier().to_string()),
            previous_head: before,
        }),
        ..body
    })?;
    Ok(step.into_events().1)
}

/// Puts head and key in place. Each step may be repeated.
fn finish(files: &LogFiles, head_file: &HeadFile, head: &SignedHead, before: Option<HeadPart>) -> Result<Recovered, SealError> {
    let next = files.next();
    let is_announced = next.exists();
    let key = if is_announced { next.clone() } else { files.key.clone() };
    let signing = read_key(&key).map_err(SealError::Keys)?;
    // Head and key go together: with the one and without the other nothing would open the log any more.
    if head.signers(std::slice::from_ref(signing.verifier())).is_err() {
        return Err(SealError::Keys(format!(
            "the log goes on as `{}`, and its key was to be in {}: {} has another log's; put the key of that name there, or restore the database and its files and begin again",
            head.origin(),
            next.display(),
            key.display()
        )));
    }
    head_file.replace(head).map_err(SealError::Head)?;
    if is_announced {
        files.take_next().map_err(SealError::Keys)?;
    }
    Ok(Recovered {
        origin: head.origin().clone(),
        size: head.size(),
        before,
    })
}

/// `broker.example/audit` becomes `broker.example/audit/r2`, and that `/r3`.
fn next_name(name: &Origin) -> Result<Origin, String> {
    let (base, n) = match name.as_str().rsplit_once("/r") {
        Some((base, n)) if n.bytes().all(|b| b.is_ascii_digit()) && !n.is_empty() => (base, n.parse::<u32>().unwrap_or(1)),
        _ => (name.as_str(), 1),
    };
    format!("{base}/r{}", n + 1).parse().map_err(|error| format!("{name}: {error}"))
}
