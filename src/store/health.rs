//! How a store stands, told at once and without asking the file: for readiness, for metrics, and for what new work needs.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::time::Timestamp;

/// How far behind the store's latest time a process's clock may be and still begin new work.
///
/// A clock that is slewed never goes back; a leap second is one second, a time server's correction of a running machine usually less. Together
/// with the pace of the beat (one second) it stays below the five seconds by which the clocks of broker and proxy may differ.
pub const TOLERANCE: Duration = Duration::from_secs(2);

/// How a store stands. [`super::Store::health`] gives it from memory: as the last beat and the last commit found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Whether what is committed can be trusted to be in the file.
    pub file: FileState,
    /// Whether this process's clock is past everything that is written down.
    pub clock: ClockState,
    /// How much room is left.
    pub disk: Disk,
    /// Results of sent requests that wait beside the file until it takes them.
    pub waiting_results: u64,
    /// Whether the log's head stands outside the database.
    pub log: LogState,
    /// Whether witnesses must have cosigned the log before anything is issued.
    pub witnesses: WitnessState,
}

impl Health {
    /// What keeps new work from beginning, if something does.
    #[must_use]
    pub fn pause(&self) -> Option<Pause> {
        if let ClockState::Behind { now, latest } = self.clock {
            return Some(Pause::ClockBehind { now, latest });
        }
        if !self.log.is_kept() {
            return Some(Pause::HeadUnwritten);
        }
        match self.disk.free {
            Some(free) if self.disk.is_low() => Some(Pause::DiskLow {
                free,
                low_water: self.disk.low_water,
            }),
            _ => None,
        }
    }
}

/// What is kept for a full or failing disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reserve {
    /// With less room than this, in bytes, no new work begins.
    pub low_water: u64,
    /// Bytes set aside beside the database, freed when the result of a sent request finds the disk full; zero for none.
    pub ballast: u64,
    /// The file in which results wait that the database does not take; beside the database if not given. Best on another disk.
    pub results: Option<PathBuf>,
}

/// Whether the file takes what is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FileState {
    /// It does.
    #[default]
    Sound,
    /// The last commit or look at it failed; it is tried again.
    Failed(Trouble),
}

impl FileState {
    /// Whether commits succeed.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        matches!(self, Self::Sound)
    }
}

/// What is wrong with the file, in the operator's words; what the operating system said is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// No room, or no quota.
    Full,
    /// The file or its file system cannot be written.
    ReadOnly,
    /// A write or a flush failed: what the operating system still holds of the file is not known.
    Doubt,
    /// Commits left doubt several times in a row: only a restart reads the truth from the disk.
    Ended,
    /// The path leads to no file, or to another one, or one of its companions is gone.
    Gone,
    /// Another process holds the file locked.
    Locked,
    /// The log in the file is not the one that was signed, or its key cannot be read.
    Log,
    /// Anything else.
    Other,
}

impl Trouble {
    /// One word, for a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::ReadOnly => "read_only",
            Self::Doubt => "doubt",
            Self::Ended => "ended",
            Self::Gone => "gone",
            Self::Locked => "locked",
            Self::Log => "log",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the disk is full; make room",
            Self::ReadOnly => "the file system is read-only; find out why before mounting it anew",
            Self::Doubt => "a write or a flush failed; it is verified before anything else is written, and the disk must be looked at",
            Self::Ended => "flushes failed several times in a row; look at the disk, then restart the process",
            Self::Gone => "the database file or its -wal or -shm is gone or replaced; do not stop the process before the data is rescued",
            Self::Locked => "another process holds the file locked",
            Self::Log => "the log in the file is not the one that was signed, or its key cannot be read; the log says which: do not restore or repair anything before it is looked at",
            Self::Other => "it cannot commit; the log says why",
        })
    }
}

/// Whether this process's clock is past everything that is written down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClockState {
    /// It is, within [`TOLERANCE`].
    #[default]
    Steady,
    /// It is not: it was set back, or another process's is ahead.
    Behind {
        /// This process's clock.
        now: Timestamp,
        /// The latest time in the store.
        latest: Timestamp,
    },
}

/// Whether the last head of the log stands outside the database, so that nobody can take the log back unnoticed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogState {
    /// It does.
    #[default]
    Kept,
    /// The head file could not be written; it is tried again with every commit.
    HeadUnwritten,
}

impl LogState {
    /// Whether it does.
    #[must_use]
    pub const fn is_kept(self) -> bool {
        matches!(self, Self::Kept)
    }
}

/// Whether witnesses must have cosigned the log, so that what is issued cannot be taken back unnoticed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WitnessState {
    /// Nothing waits for them.
    #[default]
    NotRequired,
    /// Credentials are issued before this moment only, by this process's clock: then what enough of them have said is too old.
    FreshUntil(Timestamp),
}

impl WitnessState {
    /// What keeps credentials from being issued now, if something does.
    #[must_use]
    pub fn pause(self, now: Timestamp) -> Option<Pause> {
        match self {
            Self::FreshUntil(until) if now >= until => Some(Pause::Unwitnessed),
            Self::NotRequired | Self::FreshUntil(_) => None,
        }
    }
}

/// How much room is left on the file system of the database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disk {
    /// Bytes that this process may still write; `None` if the operating system does not say.
    pub free: Option<u64>,
    /// Below this, in bytes, no new work begins.
    pub low_water: u64,
}

impl Disk {
    /// Whether new work must not begin for want of room.
    #[must_use]
    pub fn is_low(&self) -> bool {
        self.free.is_some_and(|free| free < self.low_water)
    }
}

/// Why nothing new begins. What has begun goes on: results are recorded, outcomes looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Pause {
    /// The clock is behind the latest time in the store.
    #[error("the clock says {now} and the store holds times up to {latest}: nothing new begins until then")]
    ClockBehind {
        /// This process's clock.
        now: Timestamp,
        /// The latest time in the store.
        latest: Timestamp,
    },
    /// The log's head could not be written outside the database.
    #[error("the log's head cannot be written to its file: nothing new begins until it can")]
    HeadUnwritten,
    /// Too few witnesses have cosigned the log lately.
    #[error("too few witnesses have cosigned the log lately: no credential is issued until they have")]
    Unwitnessed,
    /// Less room is left than is kept for what has begun.
    #[error("{free} bytes are left on the store's disk, and new work needs {low_water}")]
    DiskLow {
        /// Bytes left.
        free: u64,
        /// Bytes that must be.
        low_water: u64,
    },
}

impl Pause {
    /// How long to wait at most before asking again.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::ClockBehind { now, latest } => latest.since(*now).clamp(Duration::from_secs(1), Duration::from_secs(60)),
            Self::HeadUnwritten | Self::Unwitnessed => Duration::from_secs(5),
            Self::DiskLow { .. } => Duration::from_secs(30),
        }
    }
}
