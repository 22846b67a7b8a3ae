//! Copies of a throw-away deployment's log, at rest, to be attacked; and what the verifier and a start say of each.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::app::{self, App, Outside, Part};
use crate::audit::source::SourceError;
use crate::audit::verify::{Asked, OutsideHead, Report, Verdict, verify};
use crate::audit::{TrustPolicy, VerifierKey, read_public};
use crate::config::Config;
use crate::prove::deployment::Which;
use crate::prove::outcome::{Amiss, Reply};
use crate::prove::private::Private;
use crate::setup::TempDir;
use crate::store::Store as _;
use crate::store::sqlite::{Evidence, SqliteStore};

/// Something that went wrong and says nothing about the log.
pub(super) fn unclear(why: impl Display) -> Amiss {
    Amiss::Unclear(why.to_string())
}

impl From<rusqlite::Error> for Amiss {
    fn from(error: rusqlite::Error) -> Self {
        Self::Unclear(format!("a copy of the log could not be attacked: {error}"))
    }
}

impl From<SourceError> for Amiss {
    fn from(error: SourceError) -> Self {
        unclear(error)
    }
}

/// Gives the deployment something to tell of: a draft that is approved, and a credential for it. The exchange's answer.
pub(super) async fn filled(private: &Private) -> Result<Reply, Amiss> {
    let deployment = private.deployment();
    let draft = deployment.approved(Which::Once).await?;
    deployment.exchange(&draft.id, None).await?.done("an exchange")
}

/// A log as it was at one moment: its database, its head file and its keys, in a directory of their own.
pub(super) struct Copy {
    config: Config,
    outside: Outside,
    // The last field, so that it is dropped when everything that writes into it is gone.
    dir: TempDir,
}

impl Copy {
    /// Copies the log of a deployment that runs, as an operator makes a backup.
    pub(super) async fn of(private: &Private) -> Result<Self, Amiss> {
        let outside = &private.deployment().outside;
        let copy = Self::beside(private.config(), outside, private.dir())?;
        // The head before the database: an older head is what a crash leaves, and a newer one would say that the database was taken back.
        copy.take_files(private.config())?;
        let store = app::open_sqlite(private.config(), outside).map_err(unclear)?;
        store.backup(&copy.config.store).await.map_err(unclear)?;
        Ok(copy)
    }

    /// The same once more. Nothing may have been done to this one that left it open.
    pub(super) fn twin(&self) -> Result<Self, Amiss> {
        let twin = Self::beside(&self.config, &self.outside, self.dir.path())?;
        twin.take_files(&self.config)?;
        copied(&self.config.store, &twin.config.store)?;
        Ok(twin)
    }

    /// An empty place for a copy.
    fn beside(config: &Config, outside: &Outside, parent: &Path) -> Result<Self, Amiss> {
        let dir = TempDir::new(parent, "log", &*outside.entropy).map_err(unclear)?;
        let config = Config {
            store: dir.path().join("writ.db"),
            store_ballast: 0,
            store_results: None,
            audit_key: dir.path().join("log.key"),
            audit_head: dir.path().join("writ.head"),
            ..config.clone()
        };
        Ok(Self {
            config,
            outside: outside.clone(),
            dir,
        })
    }

    /// Copies the log's keys and its head.
    fn take_files(&self, of: &Config) -> Result<(), Amiss> {
        let (from, to) = (app::log_files(of), app::log_files(&self.config));
        copied(&from.head, &to.head)?;
        copied(&from.key, &to.key)?;
        copied(&from.public(), &to.public())?;
        copied(&from.subjects(), &to.subjects())
    }

    /// Puts the database of an earlier copy in the place of this one's.
    pub(super) fn put_back(&self, early: &Self) -> Result<(), Amiss> {
        copied(&early.config.store, &self.config.store)
    }

    /// A path in its directory.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Its clock and chance.
    pub(super) const fn outside(&self) -> &Outside {
        &self.outside
    }

    /// The head file.
    pub(super) fn head_file(&self) -> &Path {
        &self.config.audit_head
    }

    /// Opens the database as evidence.
    pub(super) fn evidence(&self) -> Result<Evidence, Amiss> {
        Evidence::open(&self.config.store).map_err(unclear)
    }

    /// Opens the database as the program does, for what an operator does with it.
    pub(super) fn store(&self) -> Result<SqliteStore, Amiss> {
        app::open_sqlite(&self.config, &self.outside).map_err(unclear)
    }

    /// The log's public keys.
    pub(super) fn keys(&self) -> Result<Vec<VerifierKey>, Amiss> {
        read_public(&app::log_files(&self.config).public()).map_err(unclear)
    }

    /// Whom to believe: the log's public keys.
    pub(super) fn trust(&self) -> Result<TrustPolicy, Amiss> {
        Ok(TrustPolicy::of_logs(self.keys()?))
    }

    /// What is asked of the verifier: the log, against these heads.
    pub(super) fn asked(&self, against: &[OutsideHead]) -> Asked<'static> {
        Asked {
            anchors: against.to_vec(),
            max_age: None,
            now: self.outside.clock.now(),
            case: None,
            state: None,
        }
    }

    /// What the verifier says to somebody who has the public keys and these heads.
    pub(super) fn verify(&self, against: &[OutsideHead]) -> Result<Report, Amiss> {
        Ok(verify(&self.evidence()?, &self.trust()?, &self.asked(against))?)
    }

    /// What the verifier says by the log's own head file.
    pub(super) fn verify_own(&self) -> Result<Report, Amiss> {
        let head = OutsideHead::read(self.head_file())?;
        self.verify(&[head])
    }

    /// Nothing is shown by a verifier, or a start, that refuses every log: this one, to which nothing was done, must be good.
    pub(super) fn is_good(&self, what: &str, against: &[OutsideHead]) -> Result<(), Amiss> {
        let own = OutsideHead::read(self.head_file())?;
        let report = self.verify(&[&[own], against].concat())?;
        if report.verdict() != Verdict::Anchored {
            return Err(unclear(format!("{what} was told as {}: {}", report.verdict().line(), why(&report))));
        }
        match self.twin()?.start() {
            Ok(()) => Ok(()),
            Err(faults) => Err(unclear(format!("no broker starts on {what}: {faults}"))),
        }
    }

    /// Puts a broker together on it, up to the moment at which it would serve.
    fn start(&self) -> Result<(), String> {
        let started = App::assemble(&self.config, Part::All, self.outside.clone(), &|_| None);
        started.map(drop).map_err(|faults| faults.to_string())
    }

    /// Holds if no broker starts on it, for a reason that has these words.
    pub(super) fn refused_at_start(&self, what: &str, words: &str) -> Result<(), Amiss> {
        match self.start() {
            Ok(()) => Err(Amiss::Through(format!("a broker starts on {what}"))),
            Err(faults) if faults.contains(words) => Ok(()),
            Err(faults) => Err(unclear(format!("no broker starts on {what}, but for another reason: {faults}"))),
        }
    }

    /// Writes to the database as whoever can write to its file: without its guards, which stand again when it is done.
    pub(super) fn attack<T>(&self, attack: impl FnOnce(&Connection) -> Result<T, Amiss>) -> Result<T, Amiss> {
        let mut connection = Connection::open(&self.config.store)?;
        connection.execute_batch("PRAGMA foreign_keys = OFF")?;
        let transaction = connection.transaction()?;
        let guards = guards(&transaction)?;
        for (name, _) in &guards {
            transaction.execute_batch(&format!("DROP TRIGGER {name}"))?;
        }
        let done = attack(&transaction)?;
        for (_, sql) in &guards {
            transaction.execute_batch(sql)?;
        }
        transaction.commit()?;
        Ok(done)
    }

    /// What the database says to a statement while its guards stand.
    pub(super) fn guarded(&self, sql: &str) -> Result<rusqlite::Result<usize>, Amiss> {
        Ok(Connection::open(&self.config.store)?.execute(sql, []))
    }
}

/// The triggers with their statements.
fn guards(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn copied(from: &Path, to: &Path) -> Result<(), Amiss> {
    let told = |error: std::io::Error| unclear(format!("{}: {error}", from.display()));
    fs::copy(from, to).map(drop).map_err(told)
}

/// The first thing that a report finds wrong.
fn why(report: &Report) -> &str {
    report.findings.first().map_or("nothing is wrong with it", |finding| &finding.what)
}

/// Holds if the verifier's verdict on `what` was this.
pub(super) fn told(report: &Report, verdict: Verdict, what: &str) -> Result<(), Amiss> {
    let said = report.verdict();
    if said == verdict {
        return Ok(());
    }
    let line = said.line();
    if said.exit() == 0 {
        return Err(Amiss::Through(format!("the verifier says {line} of {what}")));
    }
    let why = why(report);
    Err(unclear(format!(
        "the verifier says {line} of {what} where {} was expected: {why}",
        verdict.line()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::verify::Fault;

    #[test]
    fn a_log_that_is_called_good_went_through_and_one_with_another_fault_shows_nothing() {
        let good = Report::default();
        assert!(matches!(told(&good, Verdict::Tampered, "it"), Err(Amiss::Through(_))));
        let mut incomplete = Report::default();
        incomplete.find(Fault::Incomplete, "something is missing");
        assert!(matches!(told(&incomplete, Verdict::Tampered, "it"), Err(Amiss::Unclear(_))));
        assert_eq!(told(&incomplete, Verdict::Incomplete, "it"), Ok(()));
    }
}
