//! The store in one SQLite file: every transition is one guarded step of one transaction, committed before anybody is answered.

mod accept;
mod backlog;
mod ballast;
mod bound;
mod clock;
mod connection;
mod credential;
mod draft;
mod evidence;
mod evidence_openings;
mod execution;
mod failure;
mod handoff;
mod identity;
mod in_force;
mod keeper;
mod log;
mod opening;
mod operation;
mod outcome;
#[cfg(test)]
mod plans;
mod privacy;
mod prune;
mod pruned;
mod pulse;
mod read;
mod readers;
mod recover;
mod registry;
mod rescue;
mod results;
mod revoke;
mod rows;
mod seal;
mod search;
mod search_columns;
mod shape;
mod step;
mod stop;
mod sweep;
mod tables;
mod told;
mod vote;
mod witnessed;
mod writer;
mod writer_mark;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use rusqlite::TransactionBehavior;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

pub use connection::OpenError;
pub use evidence::Evidence;
pub use recover::Recovered;

use self::failure::Failure;
use self::identity::Identity;
use self::keeper::Keeper;
use self::pulse::Pulse;
use self::readers::Readers;
use self::rescue::Rescue;
use self::seal::{Seal, SealError};
use self::shape::Shape;
use self::step::Step;
use self::writer::Writer;
use self::writer_mark::WriterMark;
use super::backlog::Backlog;
use super::contract::OperationOutcome;
use super::health::{FileState, Health, Reserve, Trouble, WitnessState};
use super::intent::{
    Abort, AcceptClock, CaseFilter, ClockAccepted, Close, Decide, Dispatch, DraftFilter, EventMarks, HandOff, HandoffFilter, Issue, Known,
    LookUp, NewDraft, Proposed, Receive, Received, Redeem, Redeemed, Resolve, Settle, TakeOver, Vote,
};
use super::log::{Consistency, EventPage, EventQuery, EventRef, Inclusion, ProvenEvent, Tile};
use super::record::{
    ApprovalRecord, ApproverEntry, CaseStanding, ClientEntry, CredentialRecord, DraftRecord, ExecutionRecord, StoredEvent, Swept,
};
use super::stop::{LiftStop, PlaceStop, RevokeApproval, RevokeCredential, RevokedApproval, StopFilter, StopRecord, StopStanding};
use super::tally::Tally;
use super::{Applied, Busy, Op, Rejection, Store, StoreError};
use crate::audit::tree::Hash;
use crate::audit::vault::Vault;
use crate::audit::{EventBody, LogFiles, SignedHead};
use crate::domain::client_certificate::ClientCertificate;
use crate::domain::clock::{Clock, Entropy};
use crate::domain::digest::Digest;
use crate::domain::id::{ApprovalId, CredentialId, DraftId, ExecutionId, OperationId, StopId, WriterId};
use crate::domain::name::{ClientId, KeyId, PrincipalId, TenantId};
use crate::domain::policy::PolicyRef;
use crate::domain::principal::{ApproverKey, Authority, Permission};

/// Where a step's time and ids come from.
struct Tools {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    pulse: Pulse,
    writer: WriterMark,
    tally: Arc<Tally>,
    /// What wraps the keys that openings are sealed with, if there is such a key.
    vault: Option<Vault>,
    /// The log's key and head are to be read anew.
    reread_log: AtomicBool,
}

/// A store in one file, which other processes may have open at the same time.
pub struct SqliteStore {
    path: PathBuf,
    tools: Arc<Tools>,
    readers: Readers,
    writer: Writer,
    changes: watch::Sender<u64>,
    tally: Arc<Tally>,
    rescue: Arc<Rescue>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the file, or creates it; brings its schema up to date and checks it, and checks that its log extends the head that was signed last.
    ///
    /// # Errors
    /// [`OpenError`] if the library is too old, the file is newer than this program, another program's, damaged or not writable, or its log is not
    /// the one that was signed.
    pub fn open(
        path: &Path,
        reserve: &Reserve,
        log: LogFiles,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, OpenError> {
        connection::prepare(path)?;
        // Before anything of it is believed: a file that is put in its place from here on is another one.
        let mut identity = Identity::default();
        identity.check(path).map_err(|why| OpenError::Log {
            path: path.to_owned(),
            why,
        })?;
        let vault = opened_vault(path, &log)?;
        let seal = opened_seal(path, log, &*clock)?;
        let changes = watch::Sender::new(0);
        let tally = Arc::new(Tally::default());
        let writer = WriterMark::new(WriterId::generate(&*clock, &*entropy));
        let tools = Arc::new(Tools {
            clock,
            entropy,
            pulse: Pulse::new(reserve.low_water),
            writer,
            tally: Arc::clone(&tally),
            vault,
            reread_log: AtomicBool::new(false),
        });
        let keeper = Keeper::new(path, identity, seal, Arc::clone(&tools));
        let writer = Writer::start(path, changes.clone(), Arc::clone(&tally), keeper)?;
        let readers = Readers::open(path).map_err(|source| OpenError::Sql {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            tools,
            readers,
            writer,
            changes,
            tally,
            rescue: Arc::new(Rescue::new(path, reserve)),
        })
    }

    /// Begins the log of a file anew under another name, after the file was taken back or its head was lost. Nobody else may have it open.
    ///
    /// # Errors
    /// [`OpenError`]: the file cannot be opened, or what it holds is not a log that a key of `files` has signed.
    pub fn recover(
        path: &Path,
        files: &LogFiles,
        op: &Op,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Recovered, OpenError> {
        recover::recover(path, files, op, clock, entropy)
    }

    /// Reads the log's key and head anew before the next transaction, as a start does: after somebody has put them in place.
    pub fn reread_log(&self) {
        self.tools.reread_log.store(true, Ordering::SeqCst);
    }

    async fn once<I, T>(
        &self,
        op: Op,
        kind: &'static str,
        input: I,
        transition: fn(&mut Step<'_>, &I) -> Result<T, Failure>,
    ) -> Result<Applied<T>, StoreError>
    where
        I: Serialize + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let tools = Arc::clone(&self.tools);
        let answer = self
            .writer
            .run(Some(op.id), move |connection| {
                operation::once(connection, &tools, &op, kind, &input, transition)
            })
            .await;
        self.tally.answered(kind, &answer);
        answer
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn propose(&self, op: Op, new: NewDraft) -> Result<Applied<Proposed>, StoreError> {
        self.once(op, "propose", new, draft::propose).await
    }

    async fn decide(&self, op: Op, decide: Decide) -> Result<Applied<DraftRecord>, StoreError> {
        self.once(op, "decide", decide, draft::decide).await
    }

    async fn close(&self, op: Op, close: Close) -> Result<Applied<DraftRecord>, StoreError> {
        self.once(op, "close", close, draft::close).await
    }

    async fn vote(&self, op: Op, vote: Vote) -> Result<Applied<DraftRecord>, StoreError> {
        self.once(op, "vote", vote, vote::vote).await
    }

    async fn issue(&self, op: Op, issue: Issue) -> Result<Applied<CredentialRecord>, StoreError> {
        self.once(op, "issue", issue, credential::issue).await
    }

    async fn redeem(&self, op: Op, redeem: Redeem) -> Result<Applied<Redeemed>, StoreError> {
        self.once(op, "redeem", redeem, execution::redeem).await
    }

    async fn take_over(&self, op: Op, take: TakeOver) -> Result<Applied<ExecutionRecord>, StoreError> {
        self.put_down_first().await;
        self.once(op, "take_over", take, execution::take_over).await
    }

    async fn abort(&self, op: Op, abort: Abort) -> Result<Applied<ExecutionRecord>, StoreError> {
        self.once(op, "abort", abort, execution::abort).await
    }

    async fn dispatch(&self, op: Op, dispatch: Dispatch) -> Result<Applied<ExecutionRecord>, StoreError> {
        self.once(op, "dispatch", dispatch, execution::dispatch).await
    }

    async fn settle(&self, op: Op, settle: Settle) -> Result<Applied<ExecutionRecord>, StoreError> {
        self.settle_or_keep(op, settle).await
    }

    async fn look_up(&self, op: Op, look_up: LookUp) -> Result<Applied<ExecutionRecord>, StoreError> {
        self.once(op, "look_up", look_up, outcome::look_up).await
    }

    async fn late_answer(&self, op: Op, settle: Settle) -> Result<Applied<()>, StoreError> {
        self.once(op, "late_answer", settle, outcome::late_answer).await
    }

    async fn hand_off(&self, op: Op, hand_off: HandOff) -> Result<Applied<ExecutionRecord>, StoreError> {
        self.once(op, "hand_off", hand_off, outcome::hand_off).await
    }

    async fn resolve(&self, op: Op, resolve: Resolve) -> Result<Applied<ExecutionRecord>, StoreError> {
        self.once(op, "resolve", resolve, outcome::resolve).await
    }

    async fn place_stop(&self, op: Op, place: PlaceStop) -> Result<Applied<StopStanding>, StoreError> {
        self.once(op, "place_stop", place, stop::place).await
    }

    async fn lift_stop(&self, op: Op, lift: LiftStop) -> Result<Applied<StopRecord>, StoreError> {
        self.once(op, "lift_stop", lift, stop::lift).await
    }

    async fn revoke_approval(&self, op: Op, revoke: RevokeApproval) -> Result<Applied<RevokedApproval>, StoreError> {
        self.once(op, "revoke_approval", revoke, revoke::approval).await
    }

    async fn revoke_credential(&self, op: Op, revoke: RevokeCredential) -> Result<Applied<CredentialRecord>, StoreError> {
        self.once(op, "revoke_credential", revoke, revoke::credential).await
    }

    async fn receive(&self, op: Op, receive: Receive) -> Result<Applied<Received>, StoreError> {
        self.once(op, "receive", receive, told::receive).await
    }

    async fn accept_clock(&self, op: Op, accept: AcceptClock) -> Result<Applied<ClockAccepted>, StoreError> {
        self.once(op, "accept_clock", accept, accept::accept_clock).await
    }

    async fn note(&self, op: Op, event: EventBody) -> Result<Applied<()>, StoreError> {
        self.once(op, "note", event, |step, event| step.emit(event.clone())).await
    }

    async fn activate_policy(&self, op: Op, policy: PolicyRef) -> Result<Applied<bool>, StoreError> {
        self.once(op, "activate_policy", policy, in_force::activate).await
    }

    async fn sweep(&self, op: Op, limit: u32) -> Result<Applied<Swept>, StoreError> {
        self.once(op, "sweep", limit, sweep::sweep).await
    }

    async fn add_client(&self, op: Op, entry: ClientEntry) -> Result<Applied<()>, StoreError> {
        self.once(op, "add_client", entry, registry::add_client).await
    }

    async fn replace_secret(&self, op: Op, client: ClientId, secret_sha256: Digest) -> Result<Applied<()>, StoreError> {
        self.once(op, "replace_secret", (client, secret_sha256), registry::replace_secret)
            .await
    }

    async fn replace_certificate(
        &self,
        op: Op,
        client: ClientId,
        certificate: Option<ClientCertificate>,
    ) -> Result<Applied<()>, StoreError> {
        self.once(op, "replace_certificate", (client, certificate), registry::replace_certificate)
            .await
    }

    async fn replace_permissions(&self, op: Op, client: ClientId, permissions: Vec<Permission>) -> Result<Applied<()>, StoreError> {
        self.once(op, "replace_permissions", (client, permissions), registry::replace_permissions)
            .await
    }

    async fn revoke_client(&self, op: Op, client: ClientId) -> Result<Applied<()>, StoreError> {
        self.once(op, "revoke_client", client, registry::revoke_client).await
    }

    async fn add_approver(&self, op: Op, entry: ApproverEntry) -> Result<Applied<()>, StoreError> {
        self.once(op, "add_approver", entry, registry::add_approver).await
    }

    async fn replace_authority(&self, op: Op, approver: PrincipalId, authority: Vec<Authority>) -> Result<Applied<()>, StoreError> {
        self.once(op, "replace_authority", (approver, authority), registry::replace_authority)
            .await
    }

    async fn revoke_approver(&self, op: Op, approver: PrincipalId) -> Result<Applied<()>, StoreError> {
        self.once(op, "revoke_approver", approver, registry::revoke_approver).await
    }

    async fn revoke_key(&self, op: Op, kid: KeyId) -> Result<Applied<()>, StoreError> {
        self.once(op, "revoke_key", kid, registry::revoke_key).await
    }

    async fn outcome_of(&self, op: OperationId) -> Result<OperationOutcome, StoreError> {
        let tools = Arc::clone(&self.tools);
        self.writer
            .run(Some(op), move |connection| operation::outcome_of(connection, &tools, op))
            .await
    }

    async fn draft(&self, id: DraftId) -> Result<Option<DraftRecord>, StoreError> {
        self.readers.read(move |connection| rows::draft(connection, id)).await
    }

    async fn draft_bytes(&self, id: DraftId) -> Result<Option<Vec<u8>>, StoreError> {
        self.readers.read(move |connection| read::draft_bytes(connection, id)).await
    }

    async fn known_draft(&self, known: Known) -> Result<Option<DraftRecord>, StoreError> {
        let now = self.tools.pulse.not_before(self.tools.clock.now());
        self.readers.read(move |connection| draft::known(connection, now, &known)).await
    }

    async fn busy_resource(&self, draft: DraftId) -> Result<Option<Busy>, StoreError> {
        self.readers
            .read(move |connection| credential::busy_resource(connection, draft))
            .await
    }

    async fn drafts(&self, filter: DraftFilter) -> Result<Vec<DraftRecord>, StoreError> {
        self.readers.read(move |connection| read::drafts(connection, &filter)).await
    }

    async fn case_standing(&self, of: CaseFilter) -> Result<CaseStanding, StoreError> {
        self.readers.read(move |connection| read::case_standing(connection, &of)).await
    }

    async fn approval(&self, id: ApprovalId) -> Result<Option<(DraftId, ApprovalRecord)>, StoreError> {
        self.readers.read(move |connection| rows::approval(connection, id)).await
    }

    async fn credential(&self, id: CredentialId) -> Result<Option<CredentialRecord>, StoreError> {
        self.readers.read(move |connection| rows::credential(connection, id)).await
    }

    async fn credentials(&self, draft: DraftId) -> Result<Vec<CredentialRecord>, StoreError> {
        self.readers.read(move |connection| credential::issued_for(connection, draft)).await
    }

    async fn is_usable(&self, credential: CredentialId) -> Result<bool, StoreError> {
        let now = self.tools.pulse.not_before(self.tools.clock.now());
        self.readers
            .read(move |connection| credential::is_usable(connection, now, credential))
            .await
    }

    async fn stop(&self, id: StopId, viewer: Option<TenantId>) -> Result<Option<StopStanding>, StoreError> {
        self.readers
            .read(move |connection| stop::standing(connection, id, viewer.as_ref()))
            .await
    }

    async fn stops(&self, filter: StopFilter) -> Result<Vec<StopRecord>, StoreError> {
        let now = self.tools.pulse.not_before(self.tools.clock.now());
        self.readers.read(move |connection| stop::list(connection, now, &filter)).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRecord>, StoreError> {
        self.readers.read(move |connection| rows::execution(connection, id)).await
    }

    async fn execution_of(&self, draft: DraftId) -> Result<Option<ExecutionRecord>, StoreError> {
        self.readers.read(move |connection| rows::execution_of(connection, draft)).await
    }

    async fn marked(&self, marks: EventMarks) -> Result<Option<ExecutionRecord>, StoreError> {
        self.readers.read(move |connection| told::marked(connection, &marks)).await
    }

    async fn due(&self, limit: u32) -> Result<Vec<ExecutionRecord>, StoreError> {
        let now = self.tools.clock.now();
        self.readers.read(move |connection| read::due(connection, now, limit)).await
    }

    async fn handoffs(&self, filter: HandoffFilter) -> Result<Vec<ExecutionRecord>, StoreError> {
        self.readers.read(move |connection| handoff::handoffs(connection, &filter)).await
    }

    async fn client(&self, id: &ClientId) -> Result<Option<ClientEntry>, StoreError> {
        let id = id.clone();
        self.readers.read(move |connection| registry::client(connection, &id)).await
    }

    async fn certificate_holders(&self, certificates: Vec<ClientCertificate>) -> Result<Vec<ClientId>, StoreError> {
        self.readers
            .read(move |connection| registry::certificate_holders(connection, &certificates))
            .await
    }

    async fn clients(&self) -> Result<Vec<ClientEntry>, StoreError> {
        self.readers.read(registry::clients).await
    }

    async fn approver(&self, id: &PrincipalId) -> Result<Option<ApproverEntry>, StoreError> {
        let id = id.clone();
        self.readers.read(move |connection| registry::approver(connection, &id)).await
    }

    async fn approvers(&self) -> Result<Vec<ApproverEntry>, StoreError> {
        self.readers.read(registry::approvers).await
    }

    async fn approver_key(&self, kid: &KeyId) -> Result<Option<ApproverKey>, StoreError> {
        let kid = kid.clone();
        self.readers.read(move |connection| registry::key(connection, &kid)).await
    }

    async fn events(&self, from: u64, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        self.readers.read(move |connection| read::events(connection, from, limit)).await
    }

    async fn search(&self, query: EventQuery) -> Result<EventPage, StoreError> {
        self.readers.read(move |connection| search::search(connection, &query)).await
    }

    async fn head(&self) -> Result<Option<SignedHead>, StoreError> {
        self.readers.read(log::head).await
    }

    async fn receipt(&self, of: EventRef) -> Result<Option<ProvenEvent>, StoreError> {
        self.readers.read(move |connection| log::receipt(connection, of)).await
    }

    async fn inclusion(&self, seq: u64, size: Option<u64>) -> Result<Option<Inclusion>, StoreError> {
        self.readers.read(move |connection| log::inclusion(connection, seq, size)).await
    }

    async fn consistency(&self, old: u64, new: Option<u64>) -> Result<Option<Consistency>, StoreError> {
        self.readers.read(move |connection| log::consistency(connection, old, new)).await
    }

    async fn tile(&self, tile: Tile) -> Result<Option<Vec<Hash>>, StoreError> {
        self.readers.read(move |connection| log::tile(connection, tile)).await
    }

    async fn keep_cosigned(&self, head: SignedHead) -> Result<(), StoreError> {
        let tools = Arc::clone(&self.tools);
        let kept = self
            .writer
            .run(None, move |connection| witnessed::keep(connection, &head, tools.clock.now()));
        kept.await
    }

    fn witnessed(&self, state: WitnessState) {
        self.tools.pulse.witnesses(state);
    }

    async fn probe(&self) -> Result<(), StoreError> {
        let tools = Arc::clone(&self.tools);
        let beat = self.writer.run(None, move |connection| clock::beat(connection, &tools)).await;
        if beat.is_err() && self.health().file.is_sound() {
            self.tools.pulse.file(FileState::Failed(Trouble::Other));
        }
        beat?;
        self.tend_ballast().await;
        self.put_down().await
    }

    fn health(&self) -> Health {
        self.tools.pulse.health()
    }

    async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let (from, to) = (self.path.clone(), to.to_owned());
        let task = tokio::task::spawn_blocking(move || copy(&from, &to));
        task.await
            .unwrap_or_else(|error| Err(StoreError::Unavailable(format!("the backup ended early: {error}"))))
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.readers.read(backlog::backlog).await
    }

    fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// What wraps the keys of the people that events are about. Without it nothing is committed to, since nobody could show or erase it.
fn opened_vault(path: &Path, log: &LogFiles) -> Result<Option<Vault>, OpenError> {
    let vault = Vault::load(&log.subjects()).map_err(|why| OpenError::Log {
        path: path.to_owned(),
        why,
    })?;
    if vault.is_none() {
        tracing::warn!(
            file = %log.subjects().display(),
            "there is no key for what events only commit to, so customers and reasons leave no commitment in the log: `writ keys generate --subjects` makes it"
        );
    }
    Ok(vault)
}

/// The log's seal, brought up to what the file holds, and its head written down.
fn opened_seal(path: &Path, log: LogFiles, clock: &dyn Clock) -> Result<Seal, OpenError> {
    let failed = |error: SealError| match error {
        SealError::Sql(source) => OpenError::Sql {
            path: path.to_owned(),
            source,
        },
        other => OpenError::log(path, other),
    };
    let mut connection = connection::writer(path).map_err(SealError::Sql).map_err(failed)?;
    let tx = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(SealError::Sql);
    let tx = tx.map_err(failed)?;
    Shape::default().check(&tx).map_err(failed)?;
    let mut seal = Seal::open(&tx, log, clock.now()).map_err(failed)?;
    // Before the commit: whoever finds the first head in the database finds it in the file too. If we die in between, the file holds the head
    // of what the database holds without one, and the next start makes the same.
    seal.write_head_file().map_err(SealError::Head).map_err(failed)?;
    tx.commit().map_err(SealError::Sql).map_err(failed)?;
    Ok(seal)
}

/// Copies the store to a file that did not exist. What is there already is never touched.
fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let unavailable = |why: &dyn std::fmt::Display| StoreError::Unavailable(format!("backup to {}: {why}", to.display()));
    let target = to.to_str().ok_or_else(|| unavailable(&"the path is not valid UTF-8"))?;
    match connection::create_private(to) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(Rejection::Exists(to.display().to_string()).into());
        }
        Err(error) => return Err(unavailable(&error)),
    }
    let copied = connection::plain_reader(from).and_then(|connection| connection.execute("VACUUM INTO ?1", [target]));
    let synced = copied.map_err(|error| unavailable(&error)).and_then(|_| {
        let file = std::fs::File::open(to).map_err(|error| unavailable(&error))?;
        file.sync_all().map_err(|error| unavailable(&error))
    });
    if synced.is_err() {
        // Half a copy must not be taken for one.
        drop(std::fs::remove_file(to));
    }
    synced
}
