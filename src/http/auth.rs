//! Who calls: a registered client by HTTP Basic (RFC 7617, RFC 6749 section 2.3.1), its role, and nothing a request says of itself.

use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::time::Instant;

use super::rates::{self, ComesFrom};
use super::{Code, Common, Problem};
use crate::audit::{Actor, ActorKind, EventBody, EventKind, Note};
use crate::broker::Caller;
use crate::domain::digest::Digest;
use crate::domain::id::{OperationId, RequestId};
use crate::domain::name::ClientId;
use crate::domain::principal::Role;
use crate::domain::secret::{Secret, constant_time_eq};
use crate::edge::{Certificate, Peer, Seat, Shown};
use crate::store::record::ClientEntry;
use crate::store::{Op, StoreError};

/// An authenticated client.
pub(super) struct Authenticated {
    pub(super) caller: Caller,
    common: Common,
}

impl Authenticated {
    /// The caller, if it has one of the roles; otherwise a refusal, written down.
    pub(super) async fn with_role(self, roles: &[Role]) -> Result<Caller, Problem> {
        if roles.iter().any(|role| self.caller.client.has_role(*role)) {
            return Ok(self.caller);
        }
        let event = EventBody::new(EventKind::Note(Note::AccessDenied), self.caller.actor()).denied(Code::RoleMissing.as_str());
        let event = EventBody {
            tenant: Some(self.caller.client.tenant.clone()),
            request_id: Some(self.caller.request),
            ..event
        };
        let _ = note(&self.common, Some(self.caller.request), event).await;
        let names: Vec<&str> = roles.iter().map(|r| r.as_str()).collect();
        Err(Problem::new(
            Code::RoleMissing,
            format!("this call needs the role {}", names.join(" or ")),
        ))
    }
}

impl<S> FromRequestParts<S> for Authenticated
where
    S: Send + Sync,
    Common: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let common = Common::from_ref(state);
        let request = request_id(parts)?;
        let Some((claimed, secret)) = basic(&parts.headers) else {
            return Err(Problem::new(
                Code::Unauthenticated,
                "send the client's id and secret with HTTP Basic authentication",
            ));
        };
        let entry = match claimed.parse::<ClientId>() {
            Ok(id) => common.store.client(&id).await?,
            Err(_) => None,
        };
        // An unknown client costs the same comparison as a wrong secret, and the answer is the same.
        let expected = entry.as_ref().map_or_else(|| Digest::of(b"nobody"), |e| e.secret_sha256);
        let given = Digest::of(secret.expose().as_bytes());
        let same = constant_time_eq(given.as_bytes(), expected.as_bytes());
        let good = match &entry {
            Some(entry) if same && entry.client.revoked_at.is_none() => {
                let peer = parts.extensions.get::<Peer>();
                shows_its_certificate(&common, entry, peer.and_then(|peer| peer.certificate.as_deref())).await?
            }
            _ => false,
        };
        match entry {
            Some(entry) if good => {
                let may_stop = entry.client.has_role(Role::Security) || entry.client.has_role(Role::Operator);
                shows(&parts.extensions, if may_stop { Shown::Guard } else { Shown::Known });
                rates::client(&common, request, &entry.client.id).await?;
                Ok(Self {
                    caller: Caller {
                        client: entry.client,
                        request,
                    },
                    common,
                })
            }
            known => {
                // One answer whatever was wrong: whoever has a stolen secret does not learn that only the certificate is missing.
                let problem = Problem::new(
                    Code::Unauthenticated,
                    "the client id or its secret is wrong, the client is revoked, or its connection does not show its certificate",
                );
                rates::failed(&common, request, ComesFrom::of(parts)).await?;
                let event =
                    EventBody::new(EventKind::Note(Note::AuthFailed), Actor::new(ActorKind::Anonymous, "basic")).denied("unauthenticated");
                // The claimed id only if it is a registered one: a mistyped secret in its place must not reach the log.
                let event = EventBody {
                    subject: known.as_ref().map(|e| e.client.id.to_string()),
                    tenant: known.map(|e| e.client.tenant),
                    request_id: Some(request),
                    ..event
                };
                let _ = note(&common, Some(request), event).await;
                Err(problem)
            }
        }
    }
}

/// Writes down that a request was refused before it reached the broker, and hands the problem back.
pub(super) async fn refused(common: &Common, caller: &Caller, kind: Note, problem: Problem) -> Problem {
    if problem.code.status() < 500 {
        let event = EventBody {
            tenant: Some(caller.client.tenant.clone()),
            request_id: Some(caller.request),
            ..EventBody::new(EventKind::Note(kind), caller.actor()).denied(problem.code.as_str())
        };
        let _ = note(common, Some(caller.request), event).await;
    }
    problem
}

/// The id the middleware gave this request.
pub(super) fn request_id(parts: &Parts) -> Result<RequestId, Problem> {
    parts
        .extensions
        .get::<RequestId>()
        .copied()
        .ok_or_else(|| Problem::new(Code::Internal, "the request has no id"))
}

/// The request's id, for handlers that need no client.
pub(super) struct Requested(pub(super) RequestId);

impl<S: Send + Sync> FromRequestParts<S> for Requested {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        request_id(parts).map(Self)
    }
}

/// Tells the connection, if the request came over one, who it is from: it is not closed as a stranger's.
pub(super) fn shows(request: &Extensions, standing: Shown) {
    if let Some(seat) = request.get::<Arc<Seat>>() {
        seat.shows(standing, Instant::now());
    }
}

/// Whether the connection shows the certificate that the client is registered with, and none that another is.
async fn shows_its_certificate(common: &Common, entry: &ClientEntry, shown: Option<&Certificate>) -> Result<bool, StoreError> {
    let Some(shown) = shown else {
        return Ok(entry.certificate.is_none());
    };
    // A connection can be open for longer than its certificate holds.
    if !shown.holds(common.clock.now()) {
        return Ok(false);
    }
    let names = shown.names();
    let is_its_own = entry.certificate.as_ref().is_none_or(|registered| names.contains(registered));
    let holders = common.store.certificate_holders(names).await?;
    Ok(is_its_own && holders.iter().all(|holder| *holder == entry.client.id))
}

/// Writes an event down; what it tells of stands either way.
pub(super) async fn note(common: &Common, request: Option<RequestId>, event: EventBody) -> Result<(), StoreError> {
    let op = Op {
        id: OperationId::generate(&*common.clock, &*common.entropy),
        actor: event.actor.clone(),
        request,
    };
    let noted = common.store.note(op, event).await;
    if let Err(error) = &noted {
        tracing::error!(%error, "a denial could not be written to the audit log");
    }
    noted.map(drop)
}

fn basic(headers: &HeaderMap) -> Option<(String, Secret)> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (id, secret) = decoded.split_once(':')?;
    Some((id.to_owned(), Secret::new(secret.to_owned())))
}

/// The bearer token of the Authorization header (RFC 6750 section 2.1); `None` unless there is exactly one header and it carries one.
pub(super) fn bearer(headers: &HeaderMap) -> Option<Secret> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Secret::new(token.to_owned()))
}
