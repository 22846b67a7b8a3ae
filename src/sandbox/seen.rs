//! The record of what came over the wire, which is the sandbox's evidence for "at most once".

use serde::Serialize;

use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;

/// Which key a request came with; the key itself is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyUsed {
    /// None, or one that is not known.
    None,
    /// The key that may only read.
    Read,
    /// The key that may read and write.
    Write,
}

/// One request as it was seen on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SeenRequest {
    /// Its place in the order of arrival, from 1.
    pub number: usize,
    /// When it had arrived whole.
    pub at: Timestamp,
    /// The method.
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// The query, without the question mark.
    pub query: Option<String>,
    /// The key it authenticated with.
    pub key: KeyUsed,
    /// The `Idempotency-Key` header.
    pub idempotency_key: Option<String>,
    /// The `If-Match` header.
    pub if_match: Option<String>,
    /// The body as text.
    pub body: String,
    /// SHA-256 of the body's bytes, in base64url.
    pub body_sha256: Digest,
    /// Whether this very request changed the books; a replay did not.
    pub effect: bool,
    /// Whether the answer was a stored one.
    pub replayed: bool,
    /// The status of the answer; `None` when none was sent.
    pub status: Option<u16>,
}

/// Every request so far.
#[derive(Debug, Default)]
pub(super) struct SeenLog(Vec<SeenRequest>);

impl SeenLog {
    pub(super) fn all(&self) -> &[SeenRequest] {
        &self.0
    }

    /// Writes the request down and returns its number.
    pub(super) fn push(&mut self, mut request: SeenRequest) -> usize {
        request.number = self.0.len() + 1;
        self.0.push(request);
        self.0.len()
    }

    /// The request with this number, to note what came of it.
    pub(super) fn note(&mut self, number: usize) -> Option<&mut SeenRequest> {
        self.0.get_mut(number.checked_sub(1)?)
    }
}
