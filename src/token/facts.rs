//! The grant as Datalog facts, in terms and never as formatted text, and back.

use biscuit_auth::builder::{Fact, Predicate, Term};

use crate::domain::digest::{Digest, DraftHash};
use crate::domain::id::ApprovalId;
use crate::domain::name::OperationName;
use crate::domain::time::Timestamp;

use super::grant::{Grant, GrantResource};

/// What the proxy has in front of it: the draft it is asked to execute. Its own audience is the verifier's and not the request's to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFacts {
    /// The draft's operation.
    pub operation: OperationName,
    /// The draft's resource.
    pub resource: GrantResource,
    /// The hash of the draft's stored bytes, computed here and not copied from the caller.
    pub draft_hash: DraftHash,
}

/// A moment as the library writes it, in whole seconds; `None` before 1970.
pub(super) fn date(at: Timestamp) -> Option<Term> {
    u64::try_from(at.seconds()).ok().map(Term::Date)
}

fn text(value: &impl ToString) -> Term {
    Term::Str(value.to_string())
}

fn draft(hash: &DraftHash) -> Term {
    Term::Bytes(hash.digest().as_bytes().to_vec())
}

pub(super) fn fact(name: &str, terms: Vec<Term>) -> Fact {
    Fact {
        predicate: Predicate {
            name: name.to_owned(),
            terms,
        },
        parameters: None,
    }
}

/// `grant(operation, resource, draft hash, audience, credential, jti, not-before, expiry)`; `None` if a time does not fit.
pub(super) fn grant_fact(grant: &Grant) -> Option<Fact> {
    Some(fact(
        "grant",
        vec![
            text(&grant.operation),
            text(&grant.resource),
            draft(&grant.draft_hash),
            text(&grant.audience),
            text(&grant.credential),
            Term::Bytes(grant.jti.as_bytes().to_vec()),
            date(grant.not_before)?,
            date(grant.expires_at)?,
        ],
    ))
}

/// `request(operation, resource, draft hash, audience)`: what the verifier sees in front of it.
pub(super) fn request_fact(request: &RequestFacts, audience: &impl ToString) -> Fact {
    fact(
        "request",
        vec![
            text(&request.operation),
            text(&request.resource),
            draft(&request.draft_hash),
            text(audience),
        ],
    )
}

/// The grant in a fact of eight terms of the right types; `None` for anything else.
pub(super) fn read_grant(fact: &Fact) -> Option<Grant> {
    let [
        Term::Str(operation),
        Term::Str(resource),
        Term::Bytes(draft),
        Term::Str(audience),
        Term::Str(credential),
        Term::Bytes(jti),
        Term::Date(not_before),
        Term::Date(expires_at),
    ] = fact.predicate.terms.as_slice()
    else {
        return None;
    };
    let moment = |seconds: &u64| i64::try_from(*seconds).ok().map(Timestamp::from_seconds);
    Some(Grant {
        operation: operation.parse().ok()?,
        resource: resource.parse().ok()?,
        draft_hash: DraftHash::from_digest(Digest::from_bytes(draft.as_slice().try_into().ok()?)),
        audience: audience.parse().ok()?,
        credential: credential.parse().ok()?,
        jti: ApprovalId::from_bytes(jti.as_slice().try_into().ok()?),
        not_before: moment(not_before)?,
        expires_at: moment(expires_at)?,
    })
}
