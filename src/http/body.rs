//! Bodies, paths and queries: read once, strictly.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::{Code, MAX_BODY, Problem};
use crate::domain::json::Json;

/// A JSON body in the strict subset, decoded into `T`, beside the value it was decoded from.
pub(super) struct Strict<T> {
    pub(super) value: T,
    pub(super) json: Json,
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Strict<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let media = media_type(&request);
        if media.as_deref() != Some("application/json") {
            return Err(Problem::new(
                Code::MediaTypeUnsupported,
                "send the body as `Content-Type: application/json`",
            ));
        }
        let bytes = bytes(request, state).await?;
        let json = Json::parse(&bytes)?;
        if !matches!(json, Json::Object(_)) {
            return Err(Problem::new(Code::JsonInvalid, "the body must be a JSON object"));
        }
        let value = json.decode()?;
        Ok(Self { value, json })
    }
}

/// The media type, without its parameters, in lower case.
pub(super) fn media_type(request: &Request) -> Option<String> {
    let value = request.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next()?.trim().to_ascii_lowercase())
}

/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(15);

/// The whole body, if it is not too long and comes in time.
pub(super) async fn bytes<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    let unfinished = || Problem::new(Code::JsonInvalid, "the body could not be read to its end");
    let read = tokio::time::timeout(PATIENCE, Bytes::from_request(request, state)).await;
    read.map_err(|_| unfinished())?.map_err(|rejection| {
        if rejection.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
            Problem::new(Code::BodyTooLarge, format!("the body is longer than {MAX_BODY} bytes"))
        } else {
            unfinished()
        }
    })
}

/// A path segment, parsed into `T`. What does not parse was never issued: the answer is the same as for what does not exist.
pub(super) struct Segment<T>(pub(super) T);

impl<S, T> FromRequestParts<S> for Segment<T>
where
    S: Send + Sync,
    T: std::str::FromStr + Send,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let not_found = || Problem::new(Code::NotFound, "there is no such thing, or it is not yours");
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| not_found())?;
        text.parse().map(Self).map_err(|_| not_found())
    }
}

/// How many a page of a list may have: 1 to 100, and 50 if nothing is said.
pub(super) fn page_limit(asked: Option<u32>) -> Result<u32, Problem> {
    match asked.unwrap_or(50) {
        limit @ 1..=100 => Ok(limit),
        _ => Err(Problem::new(Code::ParameterInvalid, "limit: expected 1 to 100")),
    }
}

/// The last of a full page, after which the next begins; nothing after a page that is not full.
pub(super) fn next_after<T>(page: &[T], limit: u32, id: impl Fn(&T) -> String) -> Option<String> {
    (page.len() == limit as usize).then(|| page.last().map(id)).flatten()
}

/// A query string, decoded into `T`; an unknown or malformed parameter is refused.
pub(super) struct Params<T>(pub(super) T);

impl<S, T> FromRequestParts<S> for Params<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let wrong = |why: String| Problem::new(Code::ParameterInvalid, why);
        Query::<T>::from_request_parts(parts, state)
            .await
            .map(|Query(value)| Self(value))
            .map_err(|rejection| wrong(rejection.body_text()))
    }
}
