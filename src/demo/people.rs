//! What the approvers of the story do: read a card, sign a record; and what a forger makes of one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::DemoError;
use super::stage::{DESK, Reply, Stage, text};
use crate::approval::RecordSigner;
use crate::domain::approval::{Approval, ApproverType, AskedBy, By, Claims, Decision};
use crate::domain::clock::Clock as _;
use crate::domain::digest::{Digest, DraftHash};
use crate::domain::id::RecordId;
use crate::domain::secret::Secret;
use crate::setup::LOCAL_ISSUER;

/// How long a record can be handed in, in seconds.
const RECORD_LIFETIME: i64 = 600;

impl Stage {
    /// The draft as the review desk sees it, with the card's nonce.
    pub(super) async fn card(&self, draft: &str) -> Result<Value, DemoError> {
        self.get(DESK, &format!("/v1/drafts/{draft}")).await?.ok()
    }

    /// What an approver says about this card.
    pub(super) fn claims(&self, approver: &str, card: &Value, decision: Decision, reason: &str) -> Result<Claims, DemoError> {
        let now = self.clock.now().seconds();
        let digest = |pointer: &str| {
            let text = text(card, pointer)?;
            Digest::parse(&text).ok_or_else(|| unreadable(pointer, &text))
        };
        let approver_id = approver.parse().map_err(|error| unreadable(approver, &error))?;
        Ok(Claims {
            iss: LOCAL_ISSUER.to_owned(),
            sub: approver_id,
            aud: self.config.audience.to_string(),
            jti: RecordId::generate(&*self.clock, &*self.entropy),
            iat: now,
            nbf: now,
            exp: now + RECORD_LIFETIME,
            apr: Approval {
                v: 1,
                decision,
                draft_id: parsed(card, "/id")?,
                draft_hash: DraftHash::from_digest(digest("/draft_hash")?),
                request_nonce: text(card, "/approval/request_nonce")?,
                verdict_id: parsed(card, "/verdict/id")?,
                policy: AskedBy {
                    id: text(card, "/verdict/policy_id")?,
                    version: card.pointer("/verdict/policy_version").and_then(Value::as_u64).unwrap_or_default(),
                    sha256: digest("/verdict/policy_sha256")?,
                },
                by: By {
                    kind: ApproverType::Human,
                    id: approver.parse().map_err(|error| unreadable(approver, &error))?,
                    queue: None,
                    amr: vec!["hwk".to_owned(), "user".to_owned()],
                    auth_time: Some(now - 10),
                    rule: None,
                },
                reason: Some(reason.to_owned()),
                execute_by: None,
            },
        })
    }

    /// The signer of an approver, from the key file that the set-up made.
    pub(super) fn signer(&self, approver: &str) -> Result<RecordSigner, DemoError> {
        let file = self.made.approvers.iter().find(|(id, _)| id.as_str() == approver);
        let (_, path) = file.ok_or_else(|| DemoError::Unexpected(format!("there is no approver {approver}")))?;
        let pem = std::fs::read_to_string(path).map(Secret::new);
        let pem = pem.map_err(|error| DemoError::Setup(format!("{}: {error}", path.display())))?;
        let kid = format!("{approver}-1").parse().map_err(|error| unreadable(approver, &error))?;
        RecordSigner::from_pkcs8_pem(&pem, kid).map_err(|error| DemoError::Setup(error.to_string()))
    }

    /// Signs the claims with the approver's key.
    pub(super) fn sign(&self, approver: &str, claims: &Claims) -> Result<String, DemoError> {
        self.signer(approver)?
            .sign(claims)
            .map_err(|error| DemoError::Unexpected(error.to_string()))
    }

    /// A signed record about a draft that waits.
    pub(super) async fn record(&self, approver: &str, draft: &str, decision: Decision, reason: &str) -> Result<String, DemoError> {
        let card = self.card(draft).await?;
        self.sign(approver, &self.claims(approver, &card, decision, reason)?)
    }

    /// The review desk hands a record in.
    pub(super) async fn hand_in(&self, record: &str) -> Result<Reply, DemoError> {
        self.post(DESK, "/v1/approvals", &json!({ "record": record })).await
    }

    /// An approver approves.
    pub(super) async fn approve(&self, approver: &str, draft: &str, reason: &str) -> Result<Reply, DemoError> {
        let record = self.record(approver, draft, Decision::Approve, reason).await?;
        self.hand_in(&record).await
    }
}

fn unreadable(what: &str, why: &dyn std::fmt::Display) -> DemoError {
    DemoError::Unexpected(format!("{what} cannot be read: {why}"))
}

fn parsed<T: std::str::FromStr>(card: &Value, pointer: &str) -> Result<T, DemoError> {
    let text = text(card, pointer)?;
    text.parse().map_err(|_| unreadable(pointer, &text))
}

/// A compact JWS in its three parts.
pub(super) struct Forgery {
    pub(super) header: Value,
    pub(super) claims: Value,
    pub(super) signature: Vec<u8>,
}

impl Forgery {
    /// Takes a genuine record apart.
    pub(super) fn of(record: &str) -> Result<Self, DemoError> {
        let mut parts = record.split('.').map(|part| URL_SAFE_NO_PAD.decode(part));
        let mut next = || match parts.next() {
            Some(Ok(bytes)) => Ok(bytes),
            _ => Err(unreadable("record", &"not three parts of base64url")),
        };
        let json = |bytes: &[u8]| serde_json::from_slice(bytes).map_err(|error| unreadable("record", &error));
        Ok(Self {
            header: json(&next()?)?,
            claims: json(&next()?)?,
            signature: next()?,
        })
    }

    /// What would be signed.
    pub(super) fn message(&self) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}", part(&self.header), part(&self.claims))
    }

    /// The whole.
    pub(super) fn record(&self) -> String {
        format!("{}.{}", self.message(), URL_SAFE_NO_PAD.encode(&self.signature))
    }

    /// The same with a member of the header set to this.
    pub(super) fn with_header(mut self, name: &str, value: Value) -> Self {
        if let Some(members) = self.header.as_object_mut() {
            members.insert(name.to_owned(), value);
        }
        self
    }
}
