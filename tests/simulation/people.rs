//! What people do: they answer cards, close cases, revoke and take back, and throw the kill switch.

use std::time::Duration;

use rusqlite::OptionalExtension as _;
use writ::domain::approval::{Approval, ApproverType, AskedBy, By, Claims, Decision};
use writ::domain::clock::Clock as _;
use writ::domain::id::{CredentialId, DraftId, ExecutionId, RecordId, StopId};
use writ::domain::stop::StopScope;
use writ::proxy::resolve;
use writ::setup::LOCAL_ISSUER;
use writ::store::Store as _;
use writ::store::intent::Resolution;
use writ::store::record::DraftRecord;
use writ::store::stop::{LiftStop, PlaceStop, RevokeApproval, RevokeCredential};

use super::fixture::APPROVERS;
use super::schedule::{Done, Schedule};

/// Why the kill switch is thrown.
const REASON: &str = "the schedule says so";

impl Schedule<'_> {
    pub fn vote(&mut self, worker: usize, states: &[(DraftId, String, Option<String>)]) {
        let open: Vec<DraftId> = states
            .iter()
            .filter(|(_, s, _)| s == "awaiting_approval")
            .map(|(id, ..)| *id)
            .collect();
        let id = self.dice.pick(&open);
        let Some(draft) = self.record(id) else { return };
        let approver = self.dice.weighted(&[(10, 0), (6, 1), (1, 2)]);
        let decision = if self.dice.chance(12) { Decision::Deny } else { Decision::Approve };
        self.sign(worker, &draft, approver, decision);
    }

    /// One person answers a card.
    pub fn sign(&mut self, worker: usize, draft: &DraftRecord, approver: usize, decision: Decision) {
        let Some(claims) = self.claims(draft, approver, decision) else {
            return;
        };
        let jws = self.fixture.signers[approver].sign(&claims).unwrap();
        let (broker, caller) = (self.lives[worker].broker.clone(), self.caller(&self.fixture.desk.clone()));
        self.start(worker, async move {
            let _ = broker.accept(&caller, &jws).await;
            Done::Nothing
        });
    }

    pub fn claims(&self, draft: &DraftRecord, approver: usize, decision: Decision) -> Option<Claims> {
        let process = &self.fixture.processes[0];
        let (card, verdict) = (draft.approval.as_ref()?, draft.verdict.as_ref()?);
        let now = process.clock.now().seconds();
        // Some sign for a few minutes only.
        let execute_by = (approver == 1).then(|| now + 400);
        let policy = &verdict.answer.policy;
        Some(Claims {
            iss: LOCAL_ISSUER.to_owned(),
            sub: APPROVERS[approver].parse().unwrap(),
            aud: self.fixture.audience.clone(),
            jti: RecordId::generate(&*process.clock, &*process.entropy),
            iat: now,
            nbf: now,
            exp: now + 600,
            apr: Approval {
                v: 1,
                decision,
                draft_id: draft.id,
                draft_hash: draft.hash,
                request_nonce: card.nonce.clone(),
                verdict_id: verdict.id,
                policy: AskedBy {
                    id: policy.id.clone(),
                    version: policy.version,
                    sha256: policy.sha256,
                },
                by: By {
                    kind: ApproverType::Human,
                    id: APPROVERS[approver].parse().unwrap(),
                    queue: None,
                    amr: vec!["hwk".to_owned(), "user".to_owned()],
                    auth_time: Some(now - 10),
                    rule: None,
                },
                reason: Some("seen".to_owned()),
                execute_by,
            },
        })
    }

    /// What is true at the backend about a draft; nothing while something of it may still arrive.
    pub fn truth(&self, draft: &str) -> Option<bool> {
        let bank = self.bank.lock().unwrap();
        let made = bank.refunds.iter().any(|r| r.draft.as_deref() == Some(draft) && r.lives());
        (bank.holds() == 0).then_some(made)
    }

    /// An operator looks at the backend and closes a case that is in a person's hands.
    pub fn resolve(&mut self, worker: usize) {
        let sql = "SELECT id, draft FROM execution WHERE state = 'handed_off' ORDER BY id LIMIT 1";
        let case = self.fixture.watch.look(|db| {
            let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
            db.prepare_cached(sql).unwrap().query_row([], read).optional().unwrap()
        });
        let Some((id, draft)) = case else { return };
        self.close_case(worker, id.parse().unwrap(), &draft);
    }

    pub fn close_case(&mut self, worker: usize, id: ExecutionId, draft: &str) {
        // Only when nothing can still be on its way: a person waits before they say no.
        if !self.is_idle() {
            return;
        }
        let Some(made) = self.truth(draft) else { return };
        let resolution = if made { Resolution::Applied } else { Resolution::NotApplied };
        let store = self.lives[worker].store.clone();
        let op = self.op(worker, "usr_ops");
        self.start(worker, async move {
            let _ = resolve(&*store, op, id, resolution, "looked at the account", None).await;
            Done::Nothing
        });
    }

    pub fn revoke(&mut self, worker: usize) {
        let store = self.lives[worker].store.clone();
        let op = self.op(worker, "usr_ops");
        let what = self.dice.weighted(&[(3, 0), (3, 1), (1, 2)]);
        // Somebody whose signature something rests on, if there is such a person.
        let sql = "SELECT approver FROM approval_record WHERE approver LIKE 'usr%' ORDER BY id DESC LIMIT 1";
        let signer: Option<String> = self
            .fixture
            .watch
            .look(|db| db.prepare_cached(sql).unwrap().query_row([], |row| row.get(0)).optional().unwrap());
        let signer = signer.unwrap_or_else(|| "usr_mia".to_owned());
        self.start(worker, async move {
            let _ = match what {
                0 => store.revoke_key(op, format!("{signer}-1").parse().unwrap()).await,
                1 => store.revoke_approver(op, signer.parse().unwrap()).await,
                _ => store.revoke_client(op, "support-agent".parse().unwrap()).await,
            };
            Done::Nothing
        });
    }

    /// An approval or a credential is taken back.
    pub fn take_back(&mut self, worker: usize) {
        let id = self.some_draft();
        let Some(draft) = self.record(id) else { return };
        let credential = self.live_credential(id);
        let Some(approval) = draft.approval.map(|a| a.id) else { return };
        let store = self.lives[worker].store.clone();
        let op = self.op(worker, "usr_soc");
        let whole = self.dice.chance(60);
        self.start(worker, async move {
            if whole {
                let reason = REASON.parse().unwrap();
                let _ = store.revoke_approval(op, RevokeApproval { approval, reason }).await;
            } else if let Some(credential) = credential {
                let code = "revoked".to_owned();
                let _ = store.revoke_credential(op, RevokeCredential { credential, code }).await;
            }
            Done::Nothing
        });
    }

    pub fn live_credential(&self, id: DraftId) -> Option<CredentialId> {
        let sql = "SELECT id FROM credential WHERE draft = ?1 ORDER BY id DESC LIMIT 1";
        let found: Option<String> = self.fixture.watch.look(|db| {
            let mut statement = db.prepare_cached(sql).unwrap();
            statement.query_row([id.to_string()], |row| row.get(0)).optional().unwrap()
        });
        found.map(|id| id.parse().unwrap())
    }

    /// The kill switch.
    pub fn stop(&mut self, worker: usize) {
        let id = self.some_draft();
        let approval = self.record(id).and_then(|draft| draft.approval).map(|a| a.id);
        let credential = self.live_credential(id);
        let scope = match (self.dice.below(6), approval, credential) {
            (0, Some(approval), _) => StopScope::Approval(approval),
            (1, _, Some(credential)) => StopScope::Credential(credential),
            (2, ..) => StopScope::Client("support-agent".parse().unwrap()),
            (3, ..) => StopScope::Approver("usr_mia".parse().unwrap()),
            (4, ..) => StopScope::Everything,
            _ => StopScope::Draft(id),
        };
        let process = &self.fixture.processes[worker];
        let minutes = self.dice.pick(&[1, 5, 30]);
        let end = process.clock.now().plus(Duration::from_secs(minutes * 60));
        let place = PlaceStop {
            id: StopId::generate(&*process.clock, &*process.entropy),
            tenant: None,
            scope,
            reason: REASON.parse().unwrap(),
            expires_at: self.dice.chance(60).then_some(end),
        };
        let store = self.lives[worker].store.clone();
        let op = self.op(worker, "usr_soc");
        self.start(worker, async move {
            let _ = store.place_stop(op, place).await;
            Done::Nothing
        });
    }

    pub fn lift(&mut self, worker: usize) {
        let sql = "SELECT id FROM stop WHERE state = 'active' ORDER BY id LIMIT 1";
        let active: Option<String> = self
            .fixture
            .watch
            .look(|db| db.prepare_cached(sql).unwrap().query_row([], |row| row.get(0)).optional().unwrap());
        let Some(active) = active else { return };
        let lift = LiftStop {
            stop: active.parse().unwrap(),
            reason: REASON.parse().unwrap(),
        };
        let store = self.lives[worker].store.clone();
        let op = self.op(worker, "usr_soc");
        self.start(worker, async move {
            let _ = store.lift_stop(op, lift).await;
            Done::Nothing
        });
    }
}
