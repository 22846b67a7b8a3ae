//! Revoke: an approval or a credential is taken back (RFC 7009), and whether a credential could be used now is told (RFC 7662).

use super::details::details;
use super::{Broker, Caller};
use crate::audit::{CredentialPart, EventBody, EventKind, Note};
use crate::domain::id::{ApprovalId, CredentialId};
use crate::domain::json::Json;
use crate::domain::name::{Audience, ClientId};
use crate::domain::principal::Role;
use crate::domain::secret::Secret;
use crate::domain::stop::Reason;
use crate::domain::time::Timestamp;
use crate::store::record::{CredentialRecord, DraftRecord};
use crate::store::stop::{RevokeApproval, RevokeCredential, RevokedApproval};
use crate::store::{PATIENCE, StoreError, insist};
use crate::token::{GrantResource, RequestFacts, SignedCredential, TokenError, Verifier};

/// Why an approval was not taken back.
#[derive(Debug, thiserror::Error)]
pub enum RevokeApprovalError {
    /// There is no such approval for this caller.
    #[error("there is no such approval")]
    NotFound,
    /// The store refused, or did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why nothing was said of a credential, or it was not taken back.
#[derive(Debug, thiserror::Error)]
pub enum TokenCallError {
    /// It was issued to another client.
    #[error("the credential was issued to another client")]
    AnotherClient,
    /// It could not be checked in time; the caller may try again.
    #[error(transparent)]
    Check(TokenError),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A credential that could be used now.
#[derive(Debug, Clone)]
pub struct Introspection {
    /// Its id.
    pub credential: CredentialId,
    /// The client it was issued to.
    pub client: ClientId,
    /// For whom.
    pub audience: Audience,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// First moment it is good.
    pub not_before: Timestamp,
    /// First moment it is good no longer.
    pub expires_at: Timestamp,
    /// What it allows, in the form of RFC 9396.
    pub authorization_details: Json,
}

/// A token whose signature held, with what is stored of it.
struct Known {
    signed: SignedCredential,
    row: CredentialRecord,
    draft: DraftRecord,
}

impl Broker {
    /// Takes a granted approval back, with everything it released and that was not sent.
    ///
    /// # Errors
    /// [`RevokeApprovalError`]; the approval stands as it stood.
    pub async fn revoke_approval(&self, caller: &Caller, id: ApprovalId, reason: Reason) -> Result<RevokedApproval, RevokeApprovalError> {
        let (draft, _) = self.store.approval(id).await?.ok_or(RevokeApprovalError::NotFound)?;
        let draft = self.store.draft(draft).await?;
        if draft.is_none_or(|draft| draft.tenant != caller.client.tenant) {
            return Err(RevokeApprovalError::NotFound);
        }
        let revoke = RevokeApproval { approval: id, reason };
        let revoke = |op| self.store.revoke_approval(op, revoke.clone());
        Ok(insist(PATIENCE, self.op_of(caller), revoke).await?.value)
    }

    /// Takes the credential of this token back. What is no credential of ours, and what is spent or over, is no error (RFC 7009 section 2.2).
    ///
    /// # Errors
    /// [`TokenCallError`]; the credential stands as it stood.
    pub async fn revoke_token(&self, caller: &Caller, token: &Secret) -> Result<(), TokenCallError> {
        let Some(known) = self.known(token).await? else { return Ok(()) };
        if !may_speak_of(caller, &known.draft) {
            let credential = Some(CredentialPart {
                id: known.row.id,
                root_key_id: None,
                audience: None,
                expires_at: None,
            });
            let event = EventBody::new(EventKind::Note(Note::RevokeDenied), caller.actor()).denied("token_of_another_client");
            self.note_denial(caller, EventBody { credential, ..event }).await;
            return Err(TokenCallError::AnotherClient);
        }
        let revoke = RevokeCredential {
            credential: known.row.id,
            code: "revoked_by_client".to_owned(),
        };
        let revoke = |op| self.store.revoke_credential(op, revoke.clone());
        insist(PATIENCE, self.op_of(caller), revoke).await?;
        Ok(())
    }

    /// Whether this token's credential could be redeemed now, but for another execution on the same resource. Of what could not, and of what
    /// is not the caller's business, nothing is said (RFC 7662 section 2.2).
    ///
    /// # Errors
    /// [`TokenCallError`] if that could not be found out.
    pub async fn introspect(&self, caller: &Caller, token: &Secret) -> Result<Option<Introspection>, TokenCallError> {
        let Some(known) = self.known(token).await? else { return Ok(None) };
        if !may_speak_of(caller, &known.draft) {
            return Ok(None);
        }
        let Known { signed, row, draft } = known;
        let grant = signed.grant().clone();
        let is_of_row = grant.jti == row.approval && grant.draft_hash == row.hash && grant.audience == row.audience;
        if !is_of_row || !self.settings.proxies.contains(&grant.audience) {
            return Ok(None);
        }
        let facts = RequestFacts {
            operation: draft.operation.clone(),
            resource: GrantResource::new(draft.tenant.clone(), &draft.resource),
            draft_hash: draft.hash,
        };
        let verifier = Verifier::new(self.signing_keys().public().clone(), grant.audience.clone());
        match verifier.authorize(signed, &facts, self.clock.now()) {
            Ok(_) => {}
            Err(error) if error.is_ours() => return Err(TokenCallError::Check(error)),
            Err(_) => return Ok(None),
        }
        if !self.store.is_usable(row.id).await? {
            return Ok(None);
        }
        Ok(Some(Introspection {
            credential: row.id,
            client: draft.maker.clone(),
            audience: grant.audience,
            issued_at: row.issued_at,
            not_before: grant.not_before,
            expires_at: row.expires_at,
            authorization_details: details(&draft),
        }))
    }

    /// What is stored of a token, if it is one of ours.
    async fn known(&self, token: &Secret) -> Result<Option<Known>, TokenCallError> {
        let verifier = Verifier::new(self.signing_keys().public().clone(), self.settings.audience.clone());
        let signed = match verifier.read(token.expose(), self.clock.now()) {
            Ok(signed) => signed,
            Err(error) if error.is_ours() => return Err(TokenCallError::Check(error)),
            Err(_) => return Ok(None),
        };
        let Some(row) = self.store.credential(signed.grant().credential).await? else {
            return Ok(None);
        };
        let Some(draft) = self.store.draft(row.draft).await? else {
            return Ok(None);
        };
        Ok(Some(Known { signed, row, draft }))
    }
}

/// Whether a credential of this draft is the caller's business: its own, or its tenant's for those who watch over all of them.
fn may_speak_of(caller: &Caller, draft: &DraftRecord) -> bool {
    let client = &caller.client;
    let wide = [Role::Operator, Role::Security, Role::Proxy]
        .into_iter()
        .any(|role| client.has_role(role));
    client.tenant == draft.tenant && (wide || client.id == draft.maker)
}
