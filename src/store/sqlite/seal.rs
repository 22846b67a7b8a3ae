//! The seal of the log: before a transaction is committed its events are put into the tree and the new head is signed.
//!
//! The database is not believed. What is signed extends the edge in this process's memory, which came from the head file or from what this
//! process signed itself. Events that somebody else committed are taken in only if they lead to a head that a key of the log has signed.
//! If we die after the commit and before the head file is written, the file holds an older head, and the next start finds that the database
//! extends it.

use rusqlite::{Connection, named_params};

use super::failure::Failure;
use super::step::whole;
use crate::audit::tree::{Edge, Hash, HashReader, Node, TreeError, leaf_hash};
use crate::audit::{HeadFile, LogFiles, LogKey, LogKeys, SignedHead, read_key};
use crate::domain::time::Timestamp;

/// Why nothing may be signed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SealError {
    /// The key files.
    #[error("the log's key: {0}")]
    Keys(String),
    /// The head file.
    #[error("the log's head: {0}")]
    Head(String),
    /// The database has heads and the file has none.
    #[error(
        "the log's head file {0} is missing, so that nobody can tell whether the database was taken back: put the file back, or see `writ store recover-log --help`"
    )]
    HeadMissing(String),
    /// Events that no head has ever covered.
    #[error(
        "the database has {events} events and no signed head, and the head file {file} is missing: a log is sealed from its first event on, so both were taken away; put them back, from a backup or from outside"
    )]
    NeverSealed {
        /// In the database.
        events: u64,
        /// Where the head should be.
        file: String,
    },
    /// What the tables and triggers are is not what this program made.
    #[error("the database's schema was changed by something else: {0}; see `writ audit verify --help`")]
    Schema(String),
    /// The last head cannot be read.
    #[error("the last head in the database, over {0} events, is no checkpoint: it was changed; see `writ audit verify --help`")]
    Unreadable(u64),
    /// The database is older than the head.
    #[error(
        "the log was taken back: the head that was signed last covers {signed} events and the database has {found}; see `writ store recover-log --help`"
    )]
    RolledBack {
        /// By the head.
        signed: u64,
        /// In the database.
        found: u64,
    },
    /// The database holds another history.
    #[error("the database's log is not the one that was signed, up to event {0}: it was changed; see `writ audit verify --help`")]
    Forked(u64),
    /// Events that nobody signed.
    #[error("the log's events from {from} to {to} are under no head that the key of the log has signed: something else wrote them")]
    Unsigned {
        /// The first.
        from: u64,
        /// The first after them.
        to: u64,
    },
    /// The head is of another log.
    #[error("the log's head is that of `{found}` and the key is that of `{expected}`: one of the two files is another log's")]
    OtherLog {
        /// By the head.
        found: String,
        /// By the key.
        expected: String,
    },
    /// Nothing to go on from.
    #[error("the database has no signed head: there is no log to go on with")]
    NoHead,
    /// The event could not be written.
    #[error("the log's recovery cannot be written down: {0}")]
    Recover(String),
    /// The numbers do not fit.
    #[error("the tree over the log cannot be extended: {0}")]
    Tree(#[from] TreeError),
    /// Signing.
    #[error("the head cannot be signed: {0}")]
    Sign(#[from] crate::audit::CheckpointError),
    /// The database.
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
}

impl From<SealError> for Failure {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Sql(error) => Self::Sql(error),
            other => Self::Sealed(other.to_string()),
        }
    }
}

/// What one process knows of the log.
pub(super) struct Seal {
    files: LogFiles,
    keys: LogKeys,
    head_file: HeadFile,
    edge: Edge,
    /// What the running transaction makes of it, if it is committed.
    pending: Option<(Edge, SignedHead)>,
    /// The key that signs from the running transaction on, if that replaces it.
    next: Option<LogKey>,
    /// A head that is signed and not yet in the file.
    unwritten: Option<SignedHead>,
    /// How many events this process has committed.
    own: u64,
}

impl Seal {
    /// Reads keys and head, and brings the tree up to the events, inside a transaction: whatever the database holds must extend the head.
    pub(super) fn open(connection: &Connection, files: LogFiles, now: Timestamp) -> Result<Self, SealError> {
        let latest = latest(connection)?;
        let keys = LogKeys::load(&files, latest.as_ref()).map_err(SealError::Keys)?;
        let head_file = HeadFile::at(files.head.clone());
        let head = head_file.read(&keys.known).map_err(SealError::Head)?;
        let found = size(connection)?;
        let mut seal = Self {
            files,
            keys,
            head_file,
            edge: Edge::default(),
            pending: None,
            next: None,
            unwritten: None,
            own: 0,
        };
        match (head, latest) {
            (None, Some(_)) => return Err(SealError::HeadMissing(seal.files.head.display().to_string())),
            (None, None) if found > 0 => {
                return Err(SealError::NeverSealed {
                    events: found,
                    file: seal.files.head.display().to_string(),
                });
            }
            (None, None) => seal.begin(connection, now)?,
            (Some(head), latest) => {
                if head.origin() != seal.keys.signing.origin() {
                    return Err(SealError::OtherLog {
                        found: head.origin().to_string(),
                        expected: seal.keys.signing.origin().to_string(),
                    });
                }
                if found < head.size() {
                    return Err(SealError::RolledBack {
                        signed: head.size(),
                        found,
                    });
                }
                if latest.is_none() {
                    // A first seal wrote the head down and was not committed: it is made again, over the same events or not at all.
                    seal.begin(connection, now)?;
                    let made = (seal.edge.size(), seal.edge.root()?);
                    if made != (head.size(), head.root()) {
                        return Err(SealError::Forked(head.size()));
                    }
                    return Ok(seal);
                }
                let edge = Edge::read(head.size(), &Nodes(connection)).map_err(|_| SealError::Forked(head.size()))?;
                if edge.root()? != head.root() {
                    return Err(SealError::Forked(head.size()));
                }
                seal.edge = edge;
                seal.catch_up(connection)?;
                // The head file may end with a head from before the key was replaced. What the log ends with is signed by the key of today.
                seal.vouch(latest.as_ref(), found)?;
            }
        }
        Ok(seal)
    }

    /// Whether the last head covers all of so many events and the key that signs now has signed it: one that was replaced vouches for nothing new.
    fn vouch<'a>(&self, latest: Option<&'a SignedHead>, found: u64) -> Result<&'a SignedHead, SealError> {
        let unsigned = SealError::Unsigned {
            from: self.edge.size(),
            to: found,
        };
        let signer = std::slice::from_ref(self.keys.signing.verifier());
        latest
            .filter(|head| head.size() == found && head.signers(signer).is_ok())
            .ok_or(unsigned)
    }

    /// Seals a log for the first time, or makes that seal again.
    fn begin(&mut self, connection: &Connection, now: Timestamp) -> Result<(), SealError> {
        let leaves = leaves(connection, 0)?;
        self.extend(connection, &leaves, now)?;
        self.settle();
        self.own = 0;
        Ok(())
    }

    /// As a start reads it.
    pub(super) fn reread(&mut self, connection: &Connection, now: Timestamp) -> Result<(), SealError> {
        // A commit that had left doubt is counted if it is there. Whether the log is good is for the start to say.
        drop(self.catch_up(connection));
        let fresh = Self::open(connection, self.files.clone(), now)?;
        *self = Self { own: self.own, ..fresh };
        Ok(())
    }

    /// Takes in what was committed since, by another process or by a commit of this one that had left doubt, if its head is signed.
    pub(super) fn catch_up(&mut self, connection: &Connection) -> Result<(), SealError> {
        let found = size(connection)?;
        let known = self.edge.size();
        if found < known {
            return Err(SealError::RolledBack { signed: known, found });
        }
        if found > known {
            self.take_in(connection, found)?;
        }
        // Only now is it known what became of it.
        self.pending = None;
        self.next = None;
        Ok(())
    }

    fn take_in(&mut self, connection: &Connection, found: u64) -> Result<(), SealError> {
        let known = self.edge.size();
        let latest = latest(connection)?;
        if is_rotated(connection, known)? || self.vouch(latest.as_ref(), found).is_err() {
            // The key was replaced meanwhile, or may have been.
            self.keys = LogKeys::load(&self.files, latest.as_ref()).map_err(SealError::Keys)?;
        }
        let head = self.vouch(latest.as_ref(), found)?;
        let mut edge = self.edge.clone();
        let mut own = 0;
        for leaf in leaves(connection, known)? {
            edge.push(leaf)?;
            if let Some((pending, _)) = self.pending.as_ref().filter(|(pending, _)| *pending == edge) {
                own = pending.size() - known;
            }
        }
        if edge.root()? != head.root() {
            return Err(SealError::Forked(found));
        }
        self.own += own;
        self.edge = edge;
        self.unwritten = Some(head.clone());
        Ok(())
    }

    /// The number of events in the log that this process knows to be good.
    pub(super) const fn size(&self) -> u64 {
        self.edge.size()
    }

    /// The name of the log.
    pub(super) fn origin(&self) -> &str {
        self.keys.signing.origin().as_str()
    }

    /// Puts the running transaction's events into the tree and signs the new head. With no events there is nothing to sign.
    pub(super) fn seal(&mut self, connection: &Connection, leaves: &[Hash], now: Timestamp) -> Result<(), SealError> {
        let expected = self.edge.size() + leaves.len() as u64;
        let found = size(connection)?;
        if found != expected {
            // A trigger that somebody planted, or a step that wrote past its own bookkeeping.
            return Err(SealError::Unsigned { from: expected, to: found });
        }
        if !leaves.is_empty() {
            self.extend(connection, leaves, now)?;
        }
        Ok(())
    }

    fn extend(&mut self, connection: &Connection, leaves: &[Hash], now: Timestamp) -> Result<(), SealError> {
        let mut edge = self.edge.clone();
        for leaf in leaves {
            write_nodes(connection, &edge.push(*leaf)?)?;
        }
        let next = if is_rotated(connection, self.edge.size())? {
            let next = read_key(&self.files.next()).map_err(SealError::Keys)?;
            if next.origin() != self.keys.signing.origin() {
                return Err(SealError::Keys(format!(
                    "{} is the key of another log",
                    self.files.next().display()
                )));
            }
            Some(next)
        } else {
            None
        };
        // Where the key is replaced both sign: who trusts the old one learns the new one, and nobody who has only one can do it.
        let keys: Vec<&LogKey> = [Some(&self.keys.signing), next.as_ref()].into_iter().flatten().collect();
        let head = SignedHead::sign(edge.size(), edge.root()?, &keys)?;
        write_head(connection, &head, now, next.is_some())?;
        self.next = next;
        self.pending = Some((edge, head));
        Ok(())
    }

    /// Puts the events after the first `size` into the tree of a log that goes on under another name, and signs its first head with that name's key.
    pub(super) fn begin_anew(
        connection: &Connection,
        size: u64,
        leaves: &[Hash],
        key: &LogKey,
        now: Timestamp,
    ) -> Result<SignedHead, SealError> {
        let mut edge = Edge::read(size, &Nodes(connection))?;
        for leaf in leaves {
            write_nodes(connection, &edge.push(*leaf)?)?;
        }
        let head = SignedHead::sign(edge.size(), edge.root()?, &[key])?;
        write_head(connection, &head, now, true)?;
        Ok(head)
    }

    /// The transaction was committed: from here on this is the log.
    pub(super) fn settle(&mut self) {
        if let Some((edge, head)) = self.pending.take() {
            self.own += edge.size() - self.edge.size();
            self.edge = edge;
            if let Some(next) = self.next.take() {
                if !self.keys.known.contains(next.verifier()) {
                    self.keys.known.push(next.verifier().clone());
                }
                self.keys.signing = next;
            }
            self.unwritten = Some(head);
        }
    }

    /// How many events this process has committed: the number of its next one.
    pub(super) const fn own(&self) -> u64 {
        self.own
    }

    /// Writes the last head into the file; whoever is answered after that is covered by it.
    pub(super) fn write_head_file(&mut self) -> Result<(), String> {
        if let Some(head) = &self.unwritten {
            self.head_file.keep(head, &self.keys.known)?;
            self.unwritten = None;
        }
        Ok(())
    }
}

/// The number of events.
pub(super) fn size(connection: &Connection) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached("SELECT coalesce(max(seq) + 1, 0) FROM event")?;
    let found: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(u64::try_from(found).unwrap_or(0))
}

/// The last head that is in the database, whoever put it there.
pub(super) fn latest(connection: &Connection) -> Result<Option<SignedHead>, SealError> {
    use rusqlite::OptionalExtension as _;
    let mut statement = connection.prepare_cached("SELECT size, note FROM checkpoint ORDER BY size DESC LIMIT 1")?;
    let found = statement.query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)));
    let Some((size, note)) = found.optional()? else { return Ok(None) };
    let unreadable = SealError::Unreadable(u64::try_from(size).unwrap_or(0));
    SignedHead::read(&note).map(Some).map_err(|_| unreadable)
}

/// The hashes of the events from this one on, from their bytes.
pub(super) fn leaves(connection: &Connection, from: u64) -> rusqlite::Result<Vec<Hash>> {
    let mut statement = connection.prepare_cached("SELECT body FROM event WHERE seq >= ?1 ORDER BY seq")?;
    let found = statement.query_map([whole(from)], |row| Ok(leaf_hash(row.get_ref(0)?.as_bytes()?)))?;
    found.collect()
}

/// Whether the log's key was replaced by one of the events from this one on.
fn is_rotated(connection: &Connection, from: u64) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM event WHERE seq >= ?1 AND type = ?2)")?;
    statement.query_row((whole(from), crate::audit::Note::LogKeyRotated.as_str()), |row| row.get(0))
}

fn write_nodes(connection: &Connection, nodes: &[Node]) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("INSERT INTO node (i, h) VALUES (?1, ?2)")?;
    for (index, hash) in nodes {
        statement.execute((whole(*index), &hash.0[..]))?;
    }
    Ok(())
}

/// Writes a head, and forgets the one before if it is of the same minute, nobody wants it kept and no witness has cosigned it.
fn write_head(connection: &Connection, head: &SignedHead, now: Timestamp, kept: bool) -> rusqlite::Result<()> {
    let mut forget = connection.prepare_cached(
        "DELETE FROM checkpoint WHERE size = (SELECT max(size) FROM checkpoint) AND kept = 0 AND at / 60000 = :now / 60000
         AND instr(substr(note, instr(note, char(10) || char(10)) + 2), char(10) || '—') = 0",
    )?;
    forget.execute(named_params! { ":now": now.millis() })?;
    let mut write = connection.prepare_cached("INSERT INTO checkpoint (size, at, kept, note) VALUES (:size, :now, :kept, :note)")?;
    write.execute(named_params! { ":size": whole(head.size()), ":now": now.millis(), ":kept": kept, ":note": head.text() })?;
    Ok(())
}

/// The nodes in the database, whoever put them there.
pub(super) struct Nodes<'a>(pub(super) &'a Connection);

impl HashReader for Nodes<'_> {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, TreeError> {
        let read = || -> rusqlite::Result<Vec<Hash>> {
            let mut statement = self.0.prepare_cached("SELECT h FROM node WHERE i = ?1")?;
            let each = indexes
                .iter()
                .map(|index| statement.query_row([whole(*index)], |row| row.get(0).map(Hash)));
            each.collect()
        };
        read().map_err(|_| TreeError::IndexesNotInTree)
    }
}
