//! Refusals because there are too many calls: answered each, written down as counts.

use std::net::{IpAddr, Ipv4Addr};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::auth::note;
use super::{Code, Common, Problem};
use crate::audit::{Actor, ActorKind, EventBody, EventKind, Note};
use crate::domain::id::RequestId;
use crate::domain::name::{BackendName, ClientId};
use crate::edge::{Holder, Peer, Refused, Source, Turn, whole_seconds};

/// Where a request comes from. Requests that came over no connection share one place.
#[derive(Debug, Clone, Copy)]
pub(super) struct ComesFrom(pub(super) Source);

impl ComesFrom {
    pub(super) fn of(parts: &Parts) -> Self {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self(Source::of(parts.extensions.get::<Peer>().map_or(nowhere, |peer| peer.address)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ComesFrom {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::of(parts))
    }
}

/// Counts a call of a client that has shown who it is; a refusal if it calls too often.
pub(super) async fn client(common: &Common, request: RequestId, client: &ClientId) -> Result<(), Problem> {
    match common.rates.client(client, common.clock.now()) {
        Turn::Go => Ok(()),
        Turn::Wait { wait, note: counted } => {
            if let Some(counted) = counted {
                tell(common, Some(request), counted).await;
            }
            Err(Problem::new(Code::RateLimited, "the client calls too often; wait as long as Retry-After says").after(whole_seconds(wait)))
        }
    }
}

/// Counts a call that showed nobody's secret, no good credential or no good signature, which is then for the caller to write down; from where too many
/// of them come, the answer that there are too many.
pub(super) async fn failed(common: &Common, request: RequestId, from: ComesFrom) -> Result<(), Problem> {
    match common.rates.failure(from.0, common.clock.now()) {
        Turn::Go => Ok(()),
        Turn::Wait { wait, note: counted } => {
            if let Some(counted) = counted {
                tell(common, Some(request), counted).await;
            }
            let too_many =
                "too many calls from there were refused; correct the secret or the credential, and wait as long as Retry-After says";
            Err(Problem::new(Code::RateLimited, too_many).after(whole_seconds(wait)))
        }
    }
}

/// Counts a call that was refused because of the credential, which a broker of ours signed, and which is then for the caller to write down; where too
/// many of this credential or its tenant come, the answer that there are too many.
pub(super) async fn refusal(common: &Common, request: RequestId, holder: &Holder) -> Result<(), Problem> {
    match common.rates.refusal(holder, common.clock.now()) {
        Turn::Go => Ok(()),
        Turn::Wait { wait, note: counted } => {
            if let Some(counted) = counted {
                tell(common, Some(request), counted).await;
            }
            let too_many = "the credential was refused too often; exchange the approval again, or wait as long as Retry-After says";
            Err(Problem::new(Code::RateLimited, too_many).after(whole_seconds(wait)))
        }
    }
}

/// Whether the refusal of a call with a credential of ours, for which nobody is to blame, is written down; otherwise it is counted.
pub(super) async fn conflict(common: &Common, request: RequestId, holder: &Holder) -> bool {
    match common.rates.conflict(holder, common.clock.now()) {
        Turn::Go => true,
        Turn::Wait { note: counted, .. } => {
            if let Some(counted) = counted {
                tell(common, Some(request), counted).await;
            }
            false
        }
    }
}

/// Whether the refusal of an event that its backend signed is written down; otherwise it is counted.
pub(super) async fn event(common: &Common, request: RequestId, backend: &BackendName) -> bool {
    match common.rates.event(backend, common.clock.now()) {
        Turn::Go => true,
        Turn::Wait { note: counted, .. } => {
            if let Some(counted) = counted {
                tell(common, Some(request), counted).await;
            }
            false
        }
    }
}

/// Writes down the refusals that were only counted, once they are due.
pub async fn note_refusals(common: &Common) {
    for refused in common.rates.due(common.clock.now()) {
        tell(common, None, refused).await;
    }
}

/// Writes down all refusals that were only counted; for the end of the process.
pub async fn note_all_refusals(common: &Common) {
    for refused in common.rates.rest() {
        tell(common, None, refused).await;
    }
}

/// Writes refusals down that were only counted; if they cannot be, they are counted on.
async fn tell(common: &Common, request: Option<RequestId>, refused: Refused) {
    let event = event_of(common, request, refused.clone()).await;
    if note(common, request, event).await.is_err() {
        common.rates.put_back(refused, common.clock.now());
    }
}

async fn event_of(common: &Common, request: Option<RequestId>, refused: Refused) -> EventBody {
    // Auditors see their own tenant's clients only. A client that cannot be read now is told of without.
    let tenant = match &refused {
        Refused::Client(Some(client), _) => common.store.client(client).await.ok().flatten().map(|entry| entry.client.tenant),
        Refused::Holder(holder, _) => holder.as_ref().map(|holder| holder.tenant.clone()),
        Refused::Tenant(tenant, _) => tenant.clone(),
        Refused::Client(None, _) | Refused::Source(..) | Refused::Backend(..) => None,
    };
    let (actor, subject, count) = match refused {
        Refused::Client(Some(client), count) => (Actor::new(ActorKind::Client, client.as_str()), None, count),
        Refused::Client(None, count) => (Actor::new(ActorKind::Client, "many"), None, count),
        Refused::Source(source, count) => {
            let subject = source.map_or_else(|| "everywhere".to_owned(), |source| source.to_string());
            (Actor::new(ActorKind::Anonymous, "source"), Some(subject), count)
        }
        Refused::Holder(holder, count) => {
            let subject = holder.map_or_else(|| "many".to_owned(), |holder| holder.credential.to_string());
            (Actor::new(ActorKind::Anonymous, "bearer"), Some(subject), count)
        }
        Refused::Backend(backend, count) => {
            let subject = backend.map_or_else(|| "many".to_owned(), |backend| backend.to_string());
            (Actor::new(ActorKind::Anonymous, "webhook"), Some(subject), count)
        }
        Refused::Tenant(_, count) => (Actor::new(ActorKind::Anonymous, "bearer"), Some("many".to_owned()), count),
    };
    EventBody {
        subject,
        tenant,
        count: Some(count),
        request_id: request,
        ..EventBody::new(EventKind::Note(Note::RateLimited), actor).denied(Code::RateLimited.as_str())
    }
}
