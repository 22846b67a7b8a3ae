//! What a verification found, and with which exit code it ends.

use serde::Serialize;

use crate::audit::openings::OpeningsSeen;
use crate::audit::source::SourceError;
use crate::domain::time::Timestamp;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Something was changed, or was never signed.
    Tampered,
    /// It is not what an anchor shows that it was, or no anchor is fresh.
    RolledBack,
    /// Something is missing.
    Incomplete,
}

/// How many findings of one fault are told one by one: one change may show in thousands of places.
const TOLD: usize = 10;

/// One thing that is wrong, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of thing.
    pub fault: Fault,
    /// What, and where.
    pub what: String,
}

/// Which key signed, for which sizes of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeySpan {
    /// The key.
    pub key: String,
    /// The first size it signed here.
    pub from: u64,
    /// The size at which another key took its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// Something from outside that the log agrees with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Anchor {
    /// What it is.
    pub what: String,
    /// How many events it covers.
    pub size: u64,
    /// When, by a clock that is not the log's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// How one case stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseSeen {
    /// Its id.
    pub case_id: String,
    /// Whose it is.
    pub tenant: Option<String>,
    /// How many events it has.
    pub events: u64,
}

/// What was compared with the tables of the state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StateSeen {
    /// How many drafts, approvals, credentials, executions and stops.
    pub things: u64,
    /// How many signed approval records.
    pub records: u64,
    /// How many clients, approvers and keys.
    pub registered: u64,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing is wrong, and something outside the log says so too.
    Anchored,
    /// Nothing is wrong, as far as the log itself can say.
    SelfConsistent,
    /// See [`Fault::Tampered`].
    Tampered,
    /// See [`Fault::RolledBack`].
    RolledBack,
    /// See [`Fault::Incomplete`].
    Incomplete,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: &'static [Self] = &[
        Self::Anchored,
        Self::SelfConsistent,
        Self::Tampered,
        Self::RolledBack,
        Self::Incomplete,
    ];

    /// The exit code.
    #[must_use]
    pub const fn exit(self) -> u8 {
        match self {
            Self::Anchored | Self::SelfConsistent => 0,
            Self::Tampered => 2,
            Self::RolledBack => 3,
            Self::Incomplete => 4,
        }
    }

    /// The last line of what is printed.
    #[must_use]
    pub const fn line(self) -> &'static str {
        match self {
            Self::Anchored => "VERIFIED, ANCHORED",
            Self::SelfConsistent => "SELF-CONSISTENT, NOT ANCHORED",
            Self::Tampered => "TAMPERED",
            Self::RolledBack => "ROLLED BACK, FORKED OR STALE",
            Self::Incomplete => "INCOMPLETE",
        }
    }
}

/// The exit code of a wrong use, or of what cannot be read.
pub const EXIT_UNREADABLE: u8 = 1;

/// The exit code where nobody said whose key to believe.
pub const EXIT_NO_KEY: u8 = 5;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The name of the log.
    pub origin: Option<String>,
    /// How many events its head covers.
    pub size: u64,
    /// The root over them, recomputed.
    pub root: Option<String>,
    /// How many events were there with their bytes.
    pub events: u64,
    /// The first of them.
    pub first: Option<u64>,
    /// The last of them.
    pub last: Option<u64>,
    /// When the first was written, by the log's clock.
    pub first_time: Option<String>,
    /// When the last was.
    pub last_time: Option<String>,
    /// How many heads were kept with it, all of them checked.
    pub heads: u64,
    /// How many processes wrote it.
    pub writers: u64,
    /// How many cases it tells of.
    pub cases: u64,
    /// The keys that signed it.
    pub keys: Vec<KeySpan>,
    /// What outside it agrees with it.
    pub anchors: Vec<Anchor>,
    /// The case that was asked about.
    pub case: Vec<CaseSeen>,
    /// The comparison with the state, if it was asked for.
    pub state: Option<StateSeen>,
    /// The first event that was not pruned, where the log says that those before it were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruned: Option<u64>,
    /// The commitments and their openings, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openings: Option<OpeningsSeen>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// How many findings are not told one by one.
    pub more_findings: u64,
    /// The first thing that only a newer program can judge.
    #[serde(skip)]
    newer: Option<String>,
}

impl Report {
    /// Notes that something is wrong.
    pub(crate) fn find(&mut self, fault: Fault, what: impl Into<String>) {
        let told = self.findings.iter().filter(|finding| finding.fault == fault).count();
        if told < TOLD {
            self.findings.push(Finding { fault, what: what.into() });
        } else {
            self.more_findings += 1;
        }
    }

    /// Notes that an event is of a version that this program does not know.
    pub(super) fn newer(&mut self, seq: u64, version: u64) {
        self.newer.get_or_insert_with(|| {
            format!("event {seq} is of version {version}, which this program does not know: take the newer program")
        });
    }

    /// The report, unless only a newer program can make it. What was changed stays changed, whatever version it claims to be of.
    pub(super) fn settled(self) -> Result<Self, SourceError> {
        match &self.newer {
            Some(why) if !self.has(Fault::Tampered) => Err(SourceError(why.clone())),
            _ => Ok(self),
        }
    }

    /// Whether anything of this kind is wrong.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.findings.iter().any(|finding| finding.fault == fault)
    }

    /// How it ended; of several faults the worst.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.findings.iter().map(|finding| finding.fault).min() {
            Some(Fault::Tampered) => Verdict::Tampered,
            Some(Fault::RolledBack) => Verdict::RolledBack,
            Some(Fault::Incomplete) => Verdict::Incomplete,
            None if self.anchors.is_empty() => Verdict::SelfConsistent,
            None => Verdict::Anchored,
        }
    }

    /// Up to how many events something outside agrees.
    #[must_use]
    pub fn anchored(&self) -> Option<u64> {
        self.anchors.iter().map(|anchor| anchor.size).max()
    }
}
