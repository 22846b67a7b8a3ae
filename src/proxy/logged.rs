//! The log before the effect: what an event of the log must say of a credential, and under which keys the log is believed.
//!
//! Where it is asked for, a credential is spent only with the receipt that its issue is in the log. Checked offline, under the log's public keys:
//! whoever has stolen the key that signs credentials, and writes to the database besides, moves nothing with it.

use std::sync::{Arc, PoisonError, RwLock};

use crate::audit::{EventKind, EventOutcome, LogFiles, Receipt, ReceiptError, VerifierKey};
use crate::domain::digest::DraftHash;
use crate::domain::id::{ApprovalId, CredentialId};
use crate::domain::json::{Json, JsonError};
use crate::domain::lifecycle::CredentialTransition;
use crate::domain::name::{Audience, OperationName};
use crate::domain::time::Timestamp;
use crate::store::log::ProvenEvent;
use crate::token::{Grant, GrantResource};

/// What a bearer shows for its credential, as the exchange gave it.
#[derive(Debug, Clone)]
pub struct Logged {
    /// The event's number, if it is said.
    pub seq: Option<u64>,
    /// The exact bytes of the event.
    pub event: String,
    /// The text of its receipt.
    pub receipt: String,
}

/// Why it is not shown that the credential's issue is in the log.
#[derive(Debug, thiserror::Error)]
pub enum NotLogged {
    /// Nothing was brought.
    #[error("this proxy spends a credential only with the receipt of its issue: send `audit` as the exchange answered it")]
    Missing,
    /// The receipt does not show that the event is in the log.
    #[error("audit.receipt: {0}")]
    Receipt(#[from] ReceiptError),
    /// It is about an event with another number.
    #[error("audit.seq: the receipt is about event {0}")]
    Number(u64),
    /// The event cannot be read.
    #[error("audit.event: {0}")]
    Event(JsonError),
    /// It tells of something else.
    #[error("audit.event: its {0} is not that of the issue of this credential")]
    Other(&'static str),
}

/// Under which keys a log's head is believed.
#[derive(Debug)]
pub struct LogTrust {
    keys: RwLock<Arc<[VerifierKey]>>,
    files: LogFiles,
}

impl LogTrust {
    /// Under those that these files name, of which there is one as a rule: [`LogFiles::believed`].
    ///
    /// # Errors
    /// A sentence with the file and what is wrong.
    pub fn read(files: LogFiles) -> Result<Self, String> {
        Ok(Self {
            keys: RwLock::new(files.believed()?.into()),
            files,
        })
    }

    /// Puts others in their place, from the next credential on.
    pub fn replace(&self, keys: Vec<VerifierKey>) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys.into();
    }

    fn keys(&self) -> Arc<[VerifierKey]> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether what was brought shows that this grant's credential was issued with the log looking on.
    ///
    /// # Errors
    /// [`NotLogged`]: what does not hold.
    pub fn check(&self, grant: &Grant, brought: Option<&Logged>) -> Result<(), NotLogged> {
        let brought = brought.ok_or(NotLogged::Missing)?;
        let receipt = Receipt::read(&brought.receipt)?;
        receipt.verify(brought.event.as_bytes(), &self.keys())?;
        if brought.seq.is_some_and(|seq| seq != receipt.index) {
            return Err(NotLogged::Number(receipt.index));
        }
        let event = Json::parse_deeper(brought.event.as_bytes()).map_err(NotLogged::Event)?;
        tells_of(&event, &Issue::granted(grant))
    }

    /// The event, if a head that is believed covers it: the store is not believed. Where the key was replaced a moment ago the files are read anew.
    ///
    /// # Errors
    /// [`NotLogged`]: what does not hold.
    pub(super) fn believe(&self, proven: &ProvenEvent) -> Result<Json, NotLogged> {
        let shown = |keys: &[VerifierKey]| proven.receipt.verify(&proven.event.bytes, keys);
        let result = match shown(&self.keys()) {
            Err(ReceiptError::Head(error)) => match self.files.believed() {
                Ok(keys) => shown(&keys),
                Err(_) => Err(ReceiptError::Head(error)),
            },
            other => other,
        };
        result?;
        Json::parse_deeper(&proven.event.bytes).map_err(NotLogged::Event)
    }
}

/// What the issue of a credential is told with.
pub(super) struct Issue<'a> {
    pub(super) credential: CredentialId,
    pub(super) draft_hash: DraftHash,
    pub(super) audience: &'a Audience,
    pub(super) approval: ApprovalId,
    pub(super) operation: &'a OperationName,
    pub(super) resource: GrantResource,
    pub(super) expires_at: Timestamp,
}

impl<'a> Issue<'a> {
    fn granted(grant: &'a Grant) -> Self {
        Self {
            credential: grant.credential,
            draft_hash: grant.draft_hash,
            audience: &grant.audience,
            approval: grant.jti,
            operation: &grant.operation,
            resource: grant.resource.clone(),
            expires_at: grant.expires_at,
        }
    }
}

/// The text at a place of an event.
pub(super) fn text<'e>(event: &'e Json, path: &[&str]) -> Option<&'e str> {
    path.iter().try_fold(event, |at, key| at.member(key)).and_then(Json::as_str)
}

/// What an event must say: what that is, where it stands, and its text.
pub(super) type Said<'p> = (&'static str, &'p [&'p str], String);

/// Whether the event says all of it.
pub(super) fn says<'p>(event: &Json, expected: impl IntoIterator<Item = Said<'p>>) -> Result<(), NotLogged> {
    let differs = expected
        .into_iter()
        .find(|(_, path, value)| text(event, path) != Some(value.as_str()));
    differs.map_or(Ok(()), |(what, ..)| Err(NotLogged::Other(what)))
}

/// Whether the event is the issue of exactly this: nothing of a grant is left to the token's signature alone.
pub(super) fn tells_of(event: &Json, grant: &Issue<'_>) -> Result<(), NotLogged> {
    let text = |path: &[&str]| text(event, path);
    let issue = EventKind::Credential(CredentialTransition::Issue);
    let expected: [Said<'_>; 9] = [
        ("type", &["type"], issue.as_str().to_owned()),
        ("outcome", &["outcome"], EventOutcome::Ok.as_str().to_owned()),
        ("credential", &["credential", "id"], grant.credential.to_string()),
        ("draft", &["draft", "hash"], grant.draft_hash.to_string()),
        ("audience", &["credential", "audience"], grant.audience.to_string()),
        ("approval", &["approval", "id"], grant.approval.to_string()),
        ("operation", &["operation"], grant.operation.to_string()),
        ("tenant", &["tenant"], grant.resource.tenant.to_string()),
        ("resource", &["resource", "id"], grant.resource.id.to_string()),
    ];
    says(event, expected)?;
    if text(&["resource", "type"]) != Some(grant.resource.kind.to_string().as_str()) {
        return Err(NotLogged::Other("resource"));
    }
    // The token writes whole seconds.
    let until = text(&["credential", "expires_at"]).and_then(Timestamp::parse);
    if until.map(Timestamp::seconds) != Some(grant.expires_at.seconds()) {
        return Err(NotLogged::Other("expiry"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::tree::{Edge, leaf_hash};
    use crate::audit::{LogKey, SignedHead};
    use crate::domain::clock::Entropy;
    use crate::store::record::StoredEvent;

    struct Same(u8);

    impl Entropy for Same {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    /// A log of one event under the key of these files: what a store that somebody has rewritten would give.
    fn proven(key: &LogKey) -> ProvenEvent {
        let event = StoredEvent {
            seq: 0,
            bytes: b"{}".to_vec(),
        };
        let mut edge = Edge::default();
        edge.push(leaf_hash(&event.bytes)).unwrap();
        let receipt = Receipt {
            index: 0,
            proof: Vec::new(),
            head: SignedHead::sign(1, edge.root().unwrap(), &[key]).unwrap(),
        };
        ProvenEvent { event, receipt }
    }

    #[test]
    fn the_store_is_believed_only_under_the_key_of_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let files = LogFiles {
            key: dir.path().join("log.key"),
            head: dir.path().join("log.head"),
        };
        let name = "writ.example/audit".parse().unwrap();
        files.generate(&name, &Same(1)).unwrap();
        let trust = LogTrust::read(files.clone()).unwrap();
        let own = crate::audit::LogKeys::load(&files, None).unwrap().signing;
        trust.believe(&proven(&own)).unwrap();
        let (other, _) = LogKey::generate(&name, &Same(2)).unwrap();
        let refused = trust.believe(&proven(&other));
        assert!(matches!(refused, Err(NotLogged::Receipt(ReceiptError::Head(_)))), "{refused:?}");
        let mut changed = proven(&own);
        changed.event.bytes = b"{ }".to_vec();
        let refused = trust.believe(&changed);
        assert!(
            matches!(refused, Err(NotLogged::Receipt(ReceiptError::Proof { .. }))),
            "{refused:?}"
        );
    }
}
