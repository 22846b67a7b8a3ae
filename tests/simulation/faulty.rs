//! The real store, with a schedule between it and whoever calls: a call can fail before its effect, lose its answer after it, wait, or be the last
//! thing its process does.

use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::watch;
use writ::audit::tree::Hash;
use writ::audit::{EventBody, SignedHead};
use writ::domain::client_certificate::ClientCertificate;
use writ::domain::clock::Clock as _;
use writ::domain::digest::Digest;
use writ::domain::id::{ApprovalId, CredentialId, DraftId, ExecutionId, OperationId, StopId};
use writ::domain::name::{ClientId, KeyId, PrincipalId, TenantId};
use writ::domain::policy::PolicyRef;
use writ::domain::principal::{ApproverKey, Authority, Permission};
use writ::store::backlog::Backlog;
use writ::store::contract::OperationOutcome;
use writ::store::health::{Health, WitnessState};
use writ::store::intent::*;
use writ::store::log::{Consistency, EventPage, EventQuery, EventRef, Inclusion, ProvenEvent, Tile};
use writ::store::record::*;
use writ::store::sqlite::SqliteStore;
use writ::store::stop::{LiftStop, PlaceStop, RevokeApproval, RevokeCredential, RevokedApproval, StopFilter, StopRecord, StopStanding};
use writ::store::tally::Tally;
use writ::store::{Applied, Busy, Op, Store, StoreError};

use super::chance::WallClock;
use super::gates::{Gates, Pass, Place};
use super::law::Wish;
use super::watch::Watch;

/// One life of one worker's store.
pub struct FaultyStore {
    pub worker: usize,
    pub life: u64,
    pub inner: Arc<SqliteStore>,
    pub clock: Arc<WallClock>,
    pub gates: Arc<Gates>,
    pub watch: Arc<Watch>,
    /// Where the store's own threads are.
    pub threads: Handle,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for the store's threads on this one: a step of a schedule is not over before the store has answered.
pub fn at_once<F: Future>(threads: &Handle, work: F) -> F::Output {
    let _there = threads.enter();
    let mut work = std::pin::pin!(tokio::task::unconstrained(work));
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}

impl FaultyStore {
    async fn read<T>(&self, name: &'static str, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        match self.gates.arrive(self.worker, self.life, Place::Read(name)).await {
            Pass::Through => {}
            Pass::DeadAfter => return std::future::pending().await,
            _ => return Err(StoreError::Unavailable("the schedule says so".to_owned())),
        }
        let answer = at_once(&self.threads, work);
        if let Err(error) = &answer
            && !matches!(error, StoreError::Rejected(_) | StoreError::Paused(_))
        {
            self.watch.fault(format!("{name}: the store failed by itself: {error}"));
        }
        answer
    }

    async fn write<T: Clone>(
        &self,
        name: &'static str,
        op: OperationId,
        wish: Option<Wish<'_>>,
        wrote: fn(&T) -> bool,
        work: impl Future<Output = Result<Applied<T>, StoreError>>,
    ) -> Result<Applied<T>, StoreError> {
        let lost = || StoreError::Ambiguous {
            op,
            why: "the schedule says so".to_owned(),
        };
        let pass = self.gates.arrive(self.worker, self.life, Place::Write(name)).await;
        match pass {
            Pass::Unavailable => return Err(StoreError::Unavailable("the schedule says so".to_owned())),
            Pass::LostBefore => return Err(lost()),
            _ => {}
        }
        let answer = self.taken(name, op, wish, wrote, work);
        match pass {
            Pass::DeadAfter => std::future::pending().await,
            // Whoever is refused wrote nothing: a lost answer leaves no doubt about it, but the caller does not know.
            Pass::LostAfter => Err(lost()),
            Pass::Slow => {
                self.gates.arrive(self.worker, self.life, Place::Answer(name)).await;
                answer
            }
            _ => answer,
        }
    }

    /// Runs the transition now, and looks at what came of it.
    fn taken<T: Clone>(
        &self,
        name: &'static str,
        op: OperationId,
        wish: Option<Wish<'_>>,
        wrote: fn(&T) -> bool,
        work: impl Future<Output = Result<Applied<T>, StoreError>>,
    ) -> Result<Applied<T>, StoreError> {
        let now = self.clock.now().millis();
        let refused = wish.as_ref().and_then(|wish| self.watch.refuses(now, wish));
        let answer = at_once(&self.threads, work);
        let has_written = answer.as_ref().is_ok_and(|applied| wrote(&applied.value));
        self.watch.judge(name, op, now, refused, has_written, &answer);
        self.watch.note(|| {
            let said = match &answer {
                Ok(applied) if applied.replayed => "again".to_owned(),
                Ok(_) if has_written => "done".to_owned(),
                Ok(_) => "nothing to do".to_owned(),
                Err(error) => error.to_string(),
            };
            format!("  worker {} {name}: {said}", self.worker)
        });
        answer
    }
}

fn always<T>(_: &T) -> bool {
    true
}

fn dispatched(store: &FaultyStore, answer: Result<Applied<ExecutionRecord>, StoreError>) -> Result<Applied<ExecutionRecord>, StoreError> {
    if let Ok(applied) = &answer {
        store.watch.dispatched(store.worker, applied);
    }
    answer
}

/// Transitions that are looked at by [`super::law`].
macro_rules! lawful {
    ($($name:ident($wish:ident, $input:ty) -> $output:ty, $wrote:expr;)*) => {$(
        fn $name<'a, 'b>(&'a self, op: Op, input: $input) -> std::pin::Pin<Box<dyn Future<Output = Result<Applied<$output>, StoreError>> + Send + 'b>>
        where 'a: 'b, Self: 'b {
            Box::pin(async move {
                let work = self.inner.$name(op.clone(), input.clone());
                self.write(stringify!($name), op.id, Some(Wish::$wish(&input)), $wrote, work).await
            })
        }
    )*};
}

/// Transitions that nothing here has an opinion on.
macro_rules! plain {
    ($($name:ident($($arg:ident: $input:ty),*) -> $output:ty;)*) => {$(
        fn $name<'a, 'b>(&'a self, op: Op $(, $arg: $input)*) -> std::pin::Pin<Box<dyn Future<Output = Result<Applied<$output>, StoreError>> + Send + 'b>>
        where 'a: 'b, Self: 'b {
            Box::pin(async move {
                let work = self.inner.$name(op.clone() $(, $arg)*);
                self.write(stringify!($name), op.id, None, always, work).await
            })
        }
    )*};
}

macro_rules! reads {
    ($($name:ident($($arg:ident: $input:ty),*) -> $output:ty;)*) => {$(
        fn $name<'a, 'b>(&'a self $(, $arg: $input)*) -> std::pin::Pin<Box<dyn Future<Output = Result<$output, StoreError>> + Send + 'b>>
        where 'a: 'b, Self: 'b {
            Box::pin(async move { self.read(stringify!($name), self.inner.$name($($arg),*)).await })
        }
    )*};
}

/// Reads by a borrowed name.
macro_rules! looks {
    ($($name:ident($input:ty) -> $output:ty;)*) => {$(
        fn $name<'a, 'c, 'b>(&'a self, id: &'c $input) -> std::pin::Pin<Box<dyn Future<Output = Result<$output, StoreError>> + Send + 'b>>
        where 'a: 'b, 'c: 'b, Self: 'b {
            Box::pin(async move { self.read(stringify!($name), self.inner.$name(id)).await })
        }
    )*};
}

#[async_trait]
impl Store for FaultyStore {
    lawful! {
        decide(Decide, Decide) -> DraftRecord, always;
        close(Close, Close) -> DraftRecord, always;
        vote(Vote, Vote) -> DraftRecord, always;
        issue(Issue, Issue) -> CredentialRecord, always;
        redeem(Redeem, Redeem) -> Redeemed, |r| matches!(r, Redeemed::Claimed(_));
        take_over(TakeOver, TakeOver) -> ExecutionRecord, always;
        abort(Abort, Abort) -> ExecutionRecord, always;
        settle(Settle, Settle) -> ExecutionRecord, always;
        look_up(LookUp, LookUp) -> ExecutionRecord, always;
        hand_off(HandOff, HandOff) -> ExecutionRecord, always;
        resolve(Resolve, Resolve) -> ExecutionRecord, always;
    }

    plain! {
        note(event: EventBody) -> ();
        activate_policy(policy: PolicyRef) -> bool;
        late_answer(settle: Settle) -> ();
        add_client(entry: ClientEntry) -> ();
        replace_secret(client: ClientId, secret: Digest) -> ();
        replace_certificate(client: ClientId, certificate: Option<ClientCertificate>) -> ();
        replace_permissions(client: ClientId, permissions: Vec<Permission>) -> ();
        revoke_client(client: ClientId) -> ();
        add_approver(entry: ApproverEntry) -> ();
        replace_authority(approver: PrincipalId, authority: Vec<Authority>) -> ();
        revoke_approver(approver: PrincipalId) -> ();
        revoke_key(kid: KeyId) -> ();
        accept_clock(accept: AcceptClock) -> ClockAccepted;
        place_stop(place: PlaceStop) -> StopStanding;
        lift_stop(lift: LiftStop) -> StopRecord;
        revoke_approval(revoke: RevokeApproval) -> RevokedApproval;
        revoke_credential(revoke: RevokeCredential) -> CredentialRecord;
    }

    reads! {
        outcome_of(op: OperationId) -> OperationOutcome;
        draft(id: DraftId) -> Option<DraftRecord>;
        draft_bytes(id: DraftId) -> Option<Vec<u8>>;
        known_draft(known: Known) -> Option<DraftRecord>;
        busy_resource(draft: DraftId) -> Option<Busy>;
        drafts(filter: DraftFilter) -> Vec<DraftRecord>;
        approval(id: ApprovalId) -> Option<(DraftId, ApprovalRecord)>;
        credential(id: CredentialId) -> Option<CredentialRecord>;
        execution(id: ExecutionId) -> Option<ExecutionRecord>;
        execution_of(draft: DraftId) -> Option<ExecutionRecord>;
        marked(marks: EventMarks) -> Option<ExecutionRecord>;
        is_usable(credential: CredentialId) -> bool;
        stop(id: StopId, viewer: Option<TenantId>) -> Option<StopStanding>;
        stops(filter: StopFilter) -> Vec<StopRecord>;
        case_standing(of: CaseFilter) -> CaseStanding;
        due(limit: u32) -> Vec<ExecutionRecord>;
        clients() -> Vec<ClientEntry>;
        certificate_holders(certificates: Vec<ClientCertificate>) -> Vec<ClientId>;
        approvers() -> Vec<ApproverEntry>;
        events(from: u64, limit: u32) -> Vec<StoredEvent>;
        credentials(draft: DraftId) -> Vec<CredentialRecord>;
        search(query: EventQuery) -> EventPage;
        head() -> Option<SignedHead>;
        receipt(of: EventRef) -> Option<ProvenEvent>;
        inclusion(seq: u64, size: Option<u64>) -> Option<Inclusion>;
        consistency(old: u64, new: Option<u64>) -> Option<Consistency>;
        tile(tile: Tile) -> Option<Vec<Hash>>;
        keep_cosigned(head: SignedHead) -> ();
        probe() -> ();
        backlog() -> Backlog;
        handoffs(filter: HandoffFilter) -> Vec<ExecutionRecord>;
    }

    looks! {
        client(ClientId) -> Option<ClientEntry>;
        approver(PrincipalId) -> Option<ApproverEntry>;
        approver_key(KeyId) -> Option<ApproverKey>;
    }

    async fn propose(&self, op: Op, new: NewDraft) -> Result<Applied<Proposed>, StoreError> {
        let work = self.inner.propose(op.clone(), new);
        let stored = |p: &Proposed| matches!(p, Proposed::Stored(_));
        self.write("propose", op.id, None, stored, work).await
    }

    async fn receive(&self, op: Op, receive: Receive) -> Result<Applied<Received>, StoreError> {
        let event = receive.event.clone();
        let work = self.inner.receive(op.clone(), receive);
        let known = self.watch.was_told(&event);
        let answer = self.write("receive", op.id, None, |r: &Received| r.first, work).await;
        if let (true, Err(StoreError::Rejected(why))) = (known, &answer) {
            self.watch.fault(format!("receive: the same event again was refused: {why}"));
        }
        answer
    }

    async fn dispatch(&self, op: Op, dispatch: Dispatch) -> Result<Applied<ExecutionRecord>, StoreError> {
        let work = self.inner.dispatch(op.clone(), dispatch.clone());
        let wish = Wish::Dispatch(&dispatch);
        dispatched(self, self.write("dispatch", op.id, Some(wish), always, work).await)
    }

    async fn sweep(&self, op: Op, limit: u32) -> Result<Applied<Swept>, StoreError> {
        let work = self.inner.sweep(op.clone(), limit);
        let swept = |s: &Swept| s.drafts + s.credentials > 0;
        self.write("sweep", op.id, None, swept, work).await
    }

    async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        self.inner.backup(to).await
    }

    fn health(&self) -> Health {
        self.inner.health()
    }

    fn witnessed(&self, state: WitnessState) {
        self.inner.witnessed(state);
    }

    fn tally(&self) -> Arc<Tally> {
        self.inner.tally()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes()
    }
}
