//! The log as it grows, by server-sent events: at a client's own pace, with an end that comes soon enough for whoever holds connections, and a
//! resumption that loses nothing.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::events::{EventLine, HeadView, event_number};
use super::reads;
use crate::domain::name::{ClientId, TenantId};
use crate::domain::principal::Role;
use crate::http::auth::Authenticated;
use crate::http::body::Params;
use crate::http::{BrokerState, Code, Common, Problem};
use crate::store::log::EventQuery;

/// How long one answer goes on; shorter than any request may take until its answer is taken.
const LASTS: Duration = Duration::from_secs(60);
/// How many events are read at a time, and so held for a client that takes nothing.
const PAGE: u32 = 64;
/// How often a sign of life is given.
const SIGN: Duration = Duration::from_secs(15);
/// How often another process's events are looked for.
const LOOK: Duration = Duration::from_millis(250);
/// How many follow the log at once.
const FOLLOWERS: usize = 16;
/// How many of them may be one client's.
const FOLLOWERS_OF_A_CLIENT: usize = 4;

/// Who follows.
#[derive(Debug, Default)]
pub(super) struct Followers(Mutex<HashMap<ClientId, usize>>);

/// A place to follow from, given back when it is dropped.
struct Follower {
    all: Arc<Followers>,
    client: ClientId,
}

impl Followers {
    fn join(self: &Arc<Self>, client: &ClientId) -> Option<Follower> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (taken.values().sum::<usize>(), taken.get(client).copied().unwrap_or(0));
        if all >= FOLLOWERS || own >= FOLLOWERS_OF_A_CLIENT {
            return None;
        }
        taken.insert(client.clone(), own + 1);
        Some(Follower {
            all: Arc::clone(self),
            client: client.clone(),
        })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut taken = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.client) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(taken.remove(&self.client)),
        }
    }
}

/// Where to begin.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct StreamQuery {
    /// Only what comes after the event with this number; from the first on if neither this nor the header is given.
    after_seq: Option<u64>,
}

/// The events of the log as they are written, as server-sent events. Each message's `id` is the number to resume after, and its `data` one event as
/// `GET /v1/audit/events` gives it; a message of type `checkpoint` holds the signed head that covers all before it. An answer ends after a minute.
#[utoipa::path(
    get, path = "/v1/audit/stream", operation_id = "stream_events", tag = "audit", security(("client" = [])),
    params(StreamQuery, ("Last-Event-ID" = Option<u64>, Header, description = "The `id` of the last message that came; counts before `after_seq`")),
    responses(
        (status = 200, description = "the messages", body = String, content_type = "text/event-stream"),
    )
)]
pub(in crate::http) async fn stream(
    State(state): State<BrokerState>,
    auth: Authenticated,
    headers: HeaderMap,
    Params(query): Params<StreamQuery>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(&[Role::Auditor]).await?;
    let after = match headers.get("last-event-id") {
        None => event_number("after_seq", query.after_seq)?,
        Some(value) => {
            let number = value.to_str().ok().and_then(|text| text.parse().ok());
            let number = number.ok_or_else(|| Problem::new(Code::ParameterInvalid, "Last-Event-ID: expected the number of an event"))?;
            event_number("Last-Event-ID", Some(number))?
        }
    };
    let place = state.common.audit.followers.join(&caller.client.id);
    let place = place.ok_or_else(|| {
        Problem::new(
            Code::Overloaded,
            "too many follow the log at once; try again, or read it page by page",
        )
    })?;
    reads::record(&state.common, &caller, "stream", &format!("{after:?}")).await?;
    let feed = Feed {
        changes: state.common.store.changes(),
        common: state.common,
        viewer: caller.client.tenant,
        after,
        told: None,
        until: Instant::now() + LASTS,
        _place: place,
    };
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // A proxy in front of us shall not collect what is meant to go on at once.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::new(Messages::begin(feed))).into_response())
}

/// What one client is told next.
struct Feed {
    common: Common,
    viewer: TenantId,
    after: Option<u64>,
    /// The size of the head that was told last, and when.
    told: Option<(u64, Instant)>,
    until: Instant,
    changes: watch::Receiver<u64>,
    _place: Follower,
}

impl Feed {
    /// The next messages; `None` at the end. The client is told nothing faster than it takes it, since nobody asks before.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            let closing = &self.common.audit.closing;
            if closing.is_cancelled() || Instant::now() >= self.until {
                return None;
            }
            self.changes.mark_unchanged();
            let query = EventQuery {
                viewer: Some(self.viewer.clone()),
                after: self.after,
                limit: PAGE,
                ..EventQuery::default()
            };
            let page = match self.common.store.search(query.clone()).await {
                Ok(page) => page,
                // Whoever comes back goes on where it was.
                Err(error) => {
                    tracing::error!(%error, "an answer that follows the log ends early");
                    return None;
                }
            };
            let mut text = String::new();
            for event in &page.events {
                message(&mut text, Some(event.seq), "event", &EventLine::from(event));
            }
            self.after = page.next(&query);
            if let Some(head) = page.head.as_ref().filter(|_| page.complete) {
                let now = Instant::now();
                let is_news = self.told.is_none_or(|(size, at)| {
                    let pause = if size == head.size() { SIGN } else { Duration::from_secs(1) };
                    now >= at + pause
                });
                if is_news || !page.events.is_empty() {
                    self.told = Some((head.size(), now));
                    message(&mut text, self.after, "checkpoint", &HeadView::from(head));
                }
            }
            if !text.is_empty() {
                return Some((text.into(), self));
            }
            let pause = (Instant::now() + LOOK).min(self.until);
            tokio::select! {
                () = closing.cancelled() => {}
                _ = self.changes.changed() => {}
                () = tokio::time::sleep_until(pause) => {}
            }
        }
    }
}

/// One message. JSON has no line end in it, so that one line of data holds it.
fn message(text: &mut String, id: Option<u64>, kind: &str, data: &impl Serialize) {
    let data = serde_json::to_string(data).unwrap_or_else(|error| json!({ "error": error.to_string() }).to_string());
    if let Some(id) = id {
        text.push_str(&format!("id: {id}\n"));
    }
    text.push_str(&format!("event: {kind}\ndata: {data}\n\n"));
}

type Next = Pin<Box<dyn Future<Output = Option<(Bytes, Feed)>> + Send>>;

/// The answer's body. It is worked on only while it is asked for more.
struct Messages(Option<Next>);

impl Messages {
    fn begin(feed: Feed) -> Self {
        let greeting = Bytes::from_static(b"retry: 1000\n\n");
        Self(Some(Box::pin(async move { Some((greeting, feed)) })))
    }
}

impl HttpBody for Messages {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(next) = self.0.as_mut() else { return Poll::Ready(None) };
        let found = ready!(next.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(found.map(|(bytes, feed)| {
            self.0 = Some(Box::pin(feed.next()));
            Ok(Frame::data(bytes))
        }))
    }
}
