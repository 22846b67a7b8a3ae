//! A store to test, its clock, and short ways to bring a draft to where a test begins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use writ::audit::{Actor, ActorKind};
use writ::domain::approval::Decision;
use writ::domain::clock::Clock;
use writ::domain::digest::{Digest, DraftHash};
use writ::domain::draft::{AdapterRef, CompiledRequest, DraftDocument, IdempotencyKey, KeyPlacement, Maker, Resource};
use writ::domain::id::{ApprovalId, CredentialId, DraftId, ExecutionId, OperationId, RecordId, RequestId, StopId, VerdictId};
use writ::domain::json::Json;
use writ::domain::money::Money;
use writ::domain::operation::{Consequence, Stage};
use writ::domain::policy::{Answer, Outcome, PolicyRef, QueueNeed, Requirement, Rule};
use writ::domain::principal::{Approver, ApproverKey, Authority, Client, KeyKind, OperationPattern, Permission, Role};
use writ::domain::secret::SecretsMark;
use writ::domain::stop::{Reason, StopScope};
use writ::domain::time::Timestamp;
use writ::store::intent::{
    Abort, AfterAbort, Close, CloseAs, Decide, Dispatch, Follow, HandOff, Issue, LookUp, NewDraft, Proposed, Redeem, Redeemed, Resolution,
    Resolve, Settle, Settled, TakeOver, Vote,
};
use writ::store::record::{
    ApproverEntry, AttemptResult, ClientEntry, CredentialRecord, DraftRecord, ExecutionRecord, LookUpRecord, SignedRecord, StoredVerdict,
};
use writ::store::stop::{LiftStop, PlaceStop, RevokeApproval, StopRecord, StopStanding};
use writ::store::{Applied, Op, Rejection, Store, StoreError};

use crate::support::log::open_store;
use crate::support::{ManualClock, SeededEntropy};

pub const MINUTE: Duration = Duration::from_secs(60);
pub const HOUR: Duration = Duration::from_secs(3600);
pub const NONCE: &str = "AAAAAAAAAAAAAAAAAAAAAA";

pub struct World {
    pub stores: Vec<Arc<dyn Store>>,
    pub clock: Arc<ManualClock>,
    pub entropy: Arc<SeededEntropy>,
    pub file: PathBuf,
    turn: AtomicUsize,
    serial: AtomicUsize,
    pub _dir: Option<tempfile::TempDir>,
}

pub fn open(file: &std::path::Path, clock: &Arc<ManualClock>, entropy: &Arc<SeededEntropy>) -> Arc<dyn Store> {
    Arc::new(open_store(file, Arc::<ManualClock>::clone(clock), Arc::<SeededEntropy>::clone(entropy)).unwrap())
}

impl World {
    pub async fn with_one_connection() -> Self {
        Self::new(1).await
    }

    pub async fn with_two_connections() -> Self {
        Self::new(2).await
    }

    async fn new(connections: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("writ.db");
        let clock = Arc::new(ManualClock::new());
        let entropy = Arc::new(SeededEntropy::new(1));
        let world = Self {
            stores: (0..connections).map(|_| open(&file, &clock, &entropy)).collect(),
            clock,
            entropy,
            file,
            turn: AtomicUsize::new(0),
            serial: AtomicUsize::new(0),
            _dir: Some(dir),
        };
        for name in ["mia", "tom"] {
            world.store().add_approver(world.op(), world.approver(name)).await.unwrap();
        }
        world
    }

    /// The connections take turns, so that nothing can rest on what one of them remembers.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.stores[self.turn.fetch_add(1, Ordering::SeqCst) % self.stores.len()]
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn op(&self) -> Op {
        Op {
            id: OperationId::generate(&*self.clock, &*self.entropy),
            actor: Actor::new(ActorKind::Client, "orchestrator-1"),
            request: Some(RequestId::generate(&*self.clock, &*self.entropy)),
        }
    }

    pub fn id<T>(&self, generate: fn(&dyn Clock, &dyn writ::domain::clock::Entropy) -> T) -> T {
        generate(&*self.clock, &*self.entropy)
    }

    pub fn approver(&self, name: &str) -> ApproverEntry {
        let id: writ::domain::name::PrincipalId = format!("usr_{name}").parse().unwrap();
        ApproverEntry {
            approver: Approver {
                id: id.clone(),
                authority: vec![Authority {
                    operations: OperationPattern::All,
                    queue: "finance".parse().unwrap(),
                    limit: None,
                    valid_from: Timestamp::from_millis(0),
                    valid_to: None,
                    granted_by: "usr_root".parse().unwrap(),
                }],
                created_at: self.now(),
                revoked_at: None,
            },
            keys: vec![ApproverKey {
                kid: format!("k-{name}").parse().unwrap(),
                approver: id,
                issuer: "https://approvals.example".to_owned(),
                kind: KeyKind::Ed25519,
                public: format!("{name:x>43}"),
                not_before: Timestamp::from_millis(0),
                not_after: None,
                revoked_at: None,
            }],
        }
    }

    /// A refund like no other so far: its own content and its own charge.
    pub fn new_draft(&self) -> NewDraft {
        let n = self.serial.fetch_add(1, Ordering::SeqCst);
        let id = self.id(DraftId::generate);
        let hash = DraftHash::of_canonical(b"");
        sealed(NewDraft {
            id,
            tenant: "acme".parse().unwrap(),
            maker: "orchestrator-1".parse().unwrap(),
            owner: Some("usr_olga".parse().unwrap()),
            on_behalf_of: Some("usr_ben".parse().unwrap()),
            case_id: Some("case-7".parse().unwrap()),
            operation: "refund.create".parse().unwrap(),
            consequence: Consequence::Money,
            resource: Resource {
                kind: "charge".parse().unwrap(),
                id: format!("ch_{n}").parse().unwrap(),
                version: Some("\"v1\"".to_owned()),
            },
            amount: Some(Money::new(24_000, "usd".parse().unwrap()).unwrap()),
            fields: BTreeSet::new(),
            subject: Some(format!("cus_{n}")),
            backend: "stripe".parse().unwrap(),
            content: Digest::of(format!("content {n}").as_bytes()),
            request_key: None,
            document: Vec::new(),
            hash,
            key: IdempotencyKey::of(&hash),
            supersedes: None,
            expires_at: self.now().plus(24 * HOUR),
        })
    }

    pub async fn propose(&self, new: NewDraft) -> DraftRecord {
        match self.store().propose(self.op(), sealed(new)).await.unwrap().value {
            Proposed::Stored(draft) => *draft,
            Proposed::Open(draft) => panic!("{} was open already", draft.id),
        }
    }

    pub async fn proposed(&self) -> DraftRecord {
        self.propose(self.new_draft()).await
    }

    pub fn verdict(&self, outcome: Outcome) -> StoredVerdict {
        StoredVerdict {
            id: self.id(VerdictId::generate),
            answer: Answer {
                outcome,
                rules: vec![Rule {
                    id: "large-refunds".to_owned(),
                    reason: "refunds of this size are looked at by a person".to_owned(),
                }],
                policy: PolicyRef {
                    id: "support".to_owned(),
                    version: 3,
                    sha256: Digest::of(b"rules"),
                    limits_sha256: Digest::of(b"limits"),
                },
                requirement: Requirement::default(),
            },
        }
    }

    pub fn hold(&self, draft: DraftId, people: u32) -> Decide {
        Decide {
            draft,
            verdict: self.verdict(Outcome::Ask),
            then: Follow::Hold {
                approval: self.id(ApprovalId::generate),
                nonce: NONCE.to_owned(),
                requirement: Requirement {
                    all_of: vec![QueueNeed {
                        queue: "finance".parse().unwrap(),
                        count: people,
                        step_up: false,
                    }],
                },
                expires_at: self.now().plus(4 * HOUR),
            },
        }
    }

    pub fn auto_approve(&self, draft: DraftId) -> Decide {
        Decide {
            draft,
            verdict: self.verdict(Outcome::Allow),
            then: Follow::AutoApprove {
                approval: self.id(ApprovalId::generate),
                nonce: NONCE.to_owned(),
                record: Box::new(SignedRecord {
                    approver: "rule_small-refunds".parse().unwrap(),
                    kid: "policy-1".parse().unwrap(),
                    ..self.record("mia", Decision::Approve)
                }),
                execute_by: self.now().plus(HOUR),
            },
        }
    }

    pub fn deny(&self, draft: DraftId) -> Decide {
        Decide {
            draft,
            verdict: self.verdict(Outcome::Deny),
            then: Follow::Deny {
                reason: "refunds to another card are never made".to_owned(),
            },
        }
    }

    pub fn record(&self, name: &str, decision: Decision) -> SignedRecord {
        let id = self.id(RecordId::generate);
        SignedRecord {
            id,
            approver: format!("usr_{name}").parse().unwrap(),
            kid: format!("k-{name}").parse().unwrap(),
            decision,
            reason: Some("I looked".to_owned()),
            queues: BTreeSet::from(["finance".parse().unwrap()]),
            step_up: false,
            execute_by: None,
            received_at: self.now(),
            jws: format!("header.{id}.signature"),
        }
    }

    pub fn vote(&self, draft: &DraftRecord, name: &str, decision: Decision) -> Vote {
        Vote {
            draft: draft.id,
            hash: draft.hash,
            nonce: NONCE.to_owned(),
            record: self.record(name, decision),
            window: HOUR,
        }
    }

    pub async fn held(&self, people: u32) -> DraftRecord {
        let draft = self.proposed().await;
        self.store().decide(self.op(), self.hold(draft.id, people)).await.unwrap().value
    }

    pub async fn approved(&self) -> DraftRecord {
        let draft = self.held(1).await;
        self.approve(&draft).await
    }

    pub async fn approve(&self, draft: &DraftRecord) -> DraftRecord {
        let vote = self.vote(draft, "mia", Decision::Approve);
        self.store().vote(self.op(), vote).await.unwrap().value
    }

    pub fn issue(&self, draft: &DraftRecord) -> Issue {
        Issue {
            credential: self.id(CredentialId::generate),
            draft: draft.id,
            hash: draft.hash,
            audience: "https://proxy.example".parse().unwrap(),
            root_key_id: 7,
            expires_at: self.now().plus(MINUTE),
            records: draft
                .approval
                .as_ref()
                .map_or_else(Vec::new, |a| a.records.iter().map(|r| r.id).collect()),
            answer: self.verdict(Outcome::Allow).answer,
        }
    }

    pub async fn issued(&self) -> CredentialRecord {
        let draft = self.approved().await;
        self.store().issue(self.op(), self.issue(&draft)).await.unwrap().value
    }

    pub fn redeem(&self, credential: &CredentialRecord) -> Redeem {
        Redeem {
            credential: credential.id,
            approval: credential.approval,
            draft: credential.draft,
            hash: credential.hash,
            audience: credential.audience.clone(),
            execution: self.id(ExecutionId::generate),
            holder: "proxy-1".to_owned(),
            lease: MINUTE,
        }
    }

    pub async fn claimed(&self) -> ExecutionRecord {
        let credential = self.issued().await;
        self.claim(&credential).await
    }

    pub async fn claim(&self, credential: &CredentialRecord) -> ExecutionRecord {
        match self.store().redeem(self.op(), self.redeem(credential)).await.unwrap().value {
            Redeemed::Claimed(execution) => *execution,
            Redeemed::Already(execution) => panic!("{} was there already", execution.id),
        }
    }

    pub fn dispatch(&self, execution: &ExecutionRecord) -> Dispatch {
        Dispatch {
            execution: execution.id,
            fence: execution.fence,
            request_sha256: Digest::of(b"the body"),
            secrets: SecretsMark::of([&b"sk_1"[..]]),
            lease: MINUTE,
            send_window: 23 * HOUR,
        }
    }

    pub async fn dispatched(&self) -> ExecutionRecord {
        let execution = self.claimed().await;
        self.store().dispatch(self.op(), self.dispatch(&execution)).await.unwrap().value
    }

    pub fn settle(&self, execution: &ExecutionRecord, settled: Settled) -> Settle {
        let conclusive = !matches!(settled, Settled::Indeterminate { .. });
        Settle {
            execution: execution.id,
            fence: execution.fence,
            attempt: execution.attempts.last().map_or(1, |a| a.n),
            settled,
            result: AttemptResult {
                at: self.now(),
                outcome: "answer".to_owned(),
                conclusive,
                status: Some(200),
                rule: Some("created".to_owned()),
                body_sha256: Some(Digest::of(b"answer")),
            },
            next_action_at: None,
        }
    }

    pub async fn settled(&self, settled: Settled) -> ExecutionRecord {
        let execution = self.dispatched().await;
        self.store()
            .settle(self.op(), self.settle(&execution, settled))
            .await
            .unwrap()
            .value
    }

    pub async fn indeterminate(&self) -> ExecutionRecord {
        self.settled(lost()).await
    }

    pub async fn handed_off(&self) -> ExecutionRecord {
        let execution = self.indeterminate().await;
        self.store().hand_off(self.op(), self.hand_off(&execution)).await.unwrap().value
    }

    pub fn hand_off(&self, execution: &ExecutionRecord) -> HandOff {
        HandOff {
            execution: execution.id,
            fence: execution.fence,
            code: "not_found_by_key".to_owned(),
        }
    }

    pub fn look_up(&self, execution: &ExecutionRecord, settled: Settled) -> LookUp {
        LookUp {
            execution: execution.id,
            fence: execution.fence,
            settled,
            result: LookUpRecord {
                at: self.now(),
                step: "by_key".to_owned(),
                finding: "inconclusive".to_owned(),
                status: Some(200),
                body_sha256: None,
            },
            next_action_at: Some(self.now().plus(MINUTE)),
            events: Vec::new(),
        }
    }

    pub fn take_over(&self, execution: &ExecutionRecord) -> TakeOver {
        TakeOver {
            execution: execution.id,
            fence: execution.fence,
            holder: "proxy-2".to_owned(),
            lease: MINUTE,
        }
    }

    pub fn abort(&self, execution: &ExecutionRecord, then: AfterAbort) -> Abort {
        Abort {
            execution: execution.id,
            fence: execution.fence,
            code: "precondition_failed".to_owned(),
            then,
        }
    }

    pub fn resolve(&self, execution: &ExecutionRecord, resolution: Resolution) -> Resolve {
        Resolve {
            execution: execution.id,
            resolution,
            evidence: "seen in the dashboard".to_owned(),
            reference: Some("re_9".to_owned()),
        }
    }

    pub fn close(&self, draft: &DraftRecord, how: CloseAs) -> Close {
        Close {
            draft: draft.id,
            how,
            code: "changed_mind".to_owned(),
            reason: Some("the customer called again".to_owned()),
            answer: None,
        }
    }

    pub fn place(&self, scope: StopScope) -> PlaceStop {
        PlaceStop {
            id: self.id(StopId::generate),
            tenant: None,
            scope,
            reason: reason(),
            expires_at: None,
        }
    }

    pub async fn stopped(&self, scope: StopScope) -> StopStanding {
        self.store().place_stop(self.op(), self.place(scope)).await.unwrap().value
    }

    pub fn lift(&self, stop: &StopRecord) -> LiftStop {
        LiftStop {
            stop: stop.id,
            reason: reason(),
        }
    }

    pub async fn revoke(&self, execution: &ExecutionRecord) -> RevokeApproval {
        RevokeApproval {
            approval: self.draft(execution.draft).await.approval.unwrap().id,
            reason: reason(),
        }
    }

    pub async fn draft(&self, id: DraftId) -> DraftRecord {
        self.store().draft(id).await.unwrap().unwrap()
    }

    pub async fn execution(&self, id: ExecutionId) -> ExecutionRecord {
        self.store().execution(id).await.unwrap().unwrap()
    }

    /// Every event so far, decoded.
    pub async fn events(&self) -> Vec<serde_json::Value> {
        let stored = self.store().events(0, 100_000).await.unwrap();
        for (n, event) in stored.iter().enumerate() {
            assert_eq!(event.seq, n as u64, "a gap");
        }
        stored.iter().map(|e| serde_json::from_slice(&e.bytes).unwrap()).collect()
    }

    /// The types of the events after the first `skip`.
    pub async fn types_after(&self, skip: usize) -> Vec<String> {
        self.events().await[skip..]
            .iter()
            .map(|e| e["type"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// The draft with the bytes that say what it says, and what follows from them.
pub fn sealed(new: NewDraft) -> NewDraft {
    let document = DraftDocument {
        v: 1,
        id: new.id,
        salt: "AAAAAAAAAAAAAAAAAAAAAA".to_owned(),
        tenant: new.tenant.clone(),
        operation: new.operation.clone(),
        consequence: new.consequence,
        resource: new.resource.clone(),
        amount: new.amount,
        parameters: Json::parse(b"{}").unwrap(),
        maker: Maker {
            client: new.maker.clone(),
            owner: new.owner.clone(),
        },
        on_behalf_of: new.on_behalf_of.clone(),
        case_id: new.case_id.clone(),
        reason_code: None,
        evidence: Vec::new(),
        facts: Json::parse(b"{}").unwrap(),
        request: CompiledRequest {
            backend: new.backend.clone(),
            method: "POST".to_owned(),
            url: "https://backend.example/v1/refunds".to_owned(),
            headers: BTreeMap::new(),
            body: String::new(),
            body_sha256: Digest::of(b""),
            idempotency_key: KeyPlacement::None,
            key_offsets: Vec::new(),
        },
        on_failure: "no refund is created".to_owned(),
        adapter: AdapterRef {
            name: new.backend.clone(),
            sha256: Digest::of(b"adapter"),
        },
        policy: PolicyRef {
            id: "support".to_owned(),
            version: 3,
            sha256: Digest::of(b"rules"),
            limits_sha256: Digest::of(b"limits"),
        },
        supersedes: new.supersedes,
        created_at: Timestamp::from_millis(0),
        expires_at: new.expires_at,
    };
    let made = document.seal().unwrap();
    NewDraft {
        document: made.bytes,
        hash: made.hash,
        key: made.key,
        ..new
    }
}

pub fn reason() -> Reason {
    "something looks wrong".parse().unwrap()
}

pub fn applied() -> Settled {
    Settled::Applied {
        reference: Some("re_1".to_owned()),
    }
}

pub fn pending() -> Settled {
    Settled::Pending {
        reference: Some("re_1".to_owned()),
    }
}

pub fn not_applied() -> Settled {
    Settled::NotApplied {
        code: "card_declined".to_owned(),
    }
}

pub fn lost() -> Settled {
    Settled::Indeterminate {
        code: "timed_out".to_owned(),
    }
}

/// The rejection of a transition that must not take place.
pub fn rejection<T: std::fmt::Debug>(result: Result<Applied<T>, StoreError>) -> Rejection {
    match result {
        Err(StoreError::Rejected(rejection)) => rejection,
        other => panic!("expected a rejection, got {other:?}"),
    }
}

pub fn client(world: &World, id: &str) -> ClientEntry {
    ClientEntry {
        client: Client {
            id: id.parse().unwrap(),
            tenant: "acme".parse().unwrap(),
            roles: BTreeSet::from([Role::Orchestrator]),
            owner: Some("usr_olga".parse().unwrap()),
            permissions: vec![Permission {
                operations: OperationPattern::Family("refund".to_owned()),
                stages: BTreeSet::from([Stage::Draft, Stage::Execute]),
            }],
            created_at: world.now(),
            revoked_at: None,
        },
        secret_sha256: Digest::of(b"secret"),
        certificate: None,
    }
}
