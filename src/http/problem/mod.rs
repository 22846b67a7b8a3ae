//! The only place that knows status codes: every refusal and failure, once, with its stable code (RFC 9457).

mod code;
mod map;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

pub use code::Code;

use crate::domain::lifecycle::DraftState;

/// One place in the input and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Fault {
    /// JSON pointer (RFC 6901) into the body.
    pub pointer: String,
    /// What is wrong and what is expected.
    pub detail: String,
}

/// A problem document (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ProblemBody {
    /// `urn:writ:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the code means.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong here, and what to do.
    pub detail: String,
    /// The stable code.
    pub code: String,
    /// The places in the input, if the input is at fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Fault>,
    /// The policy's rules, if a rule stands in the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Where the draft stands, if that stands in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_state: Option<String>,
}

/// A refusal or failure on its way out.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The code.
    pub code: Code,
    detail: String,
    errors: Vec<Fault>,
    rules: Vec<String>,
    draft_state: Option<DraftState>,
    /// For a 429 and a 503: when to try again, in seconds.
    retry_after: u64,
}

impl Problem {
    /// A problem with this code, in these words.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            rules: Vec::new(),
            draft_state: None,
            retry_after: 1,
        }
    }

    /// A fault of ours: the caller learns nothing of it, the log everything.
    #[must_use]
    pub fn internal(error: &dyn std::error::Error) -> Self {
        tracing::error!(error = %chain(error), "a request failed");
        Self::new(
            Code::Internal,
            "something went wrong; the request id in the X-Request-Id header finds it in the log",
        )
    }

    /// One place in the input.
    #[must_use]
    pub fn at(code: Code, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let fault = Fault {
            pointer: pointer.into(),
            detail: detail.into(),
        };
        let detail = if fault.pointer.is_empty() {
            fault.detail.clone()
        } else {
            format!("{}: {}", fault.pointer, fault.detail)
        };
        Self {
            errors: vec![fault],
            ..Self::new(code, detail)
        }
    }

    fn with_state(self, state: DraftState) -> Self {
        Self {
            draft_state: Some(state),
            ..self
        }
    }

    pub(in crate::http) fn after(self, wait: std::time::Duration) -> Self {
        Self {
            retry_after: wait.as_secs().max(1),
            ..self
        }
    }

    /// The document.
    #[must_use]
    pub fn body(&self) -> ProblemBody {
        ProblemBody {
            kind: format!("urn:writ:problem:{}", self.code.as_str()),
            title: self.code.title().to_owned(),
            status: self.code.status(),
            detail: self.detail.clone(),
            code: self.code.as_str().to_owned(),
            errors: self.errors.clone(),
            rules: self.rules.clone(),
            draft_state: self.draft_state.map(|s| s.as_str().to_owned()),
        }
    }

    fn respond(&self, status: u16, content_type: &'static str, body: impl Serialize) -> Response {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(challenge) = self.challenge() {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if matches!(self.code.status(), 429 | 503) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(self.retry_after));
        }
        response
    }

    /// RFC 6749 section 5.2, RFC 8693 section 2.2.2: the token endpoint's own form, with our code beside it.
    #[must_use]
    pub fn into_oauth(self) -> Response {
        let body = OauthError {
            error: self.oauth_error().to_owned(),
            error_description: self.detail.clone(),
            code: self.code.as_str().to_owned(),
            rules: self.rules.clone(),
            draft_state: self.draft_state.map(|s| s.as_str().to_owned()),
        };
        self.respond(self.code.oauth_status(), "application/json", body)
    }

    const fn oauth_error(&self) -> &'static str {
        match self.code {
            Code::Unauthenticated => "invalid_client",
            Code::NotPermitted | Code::RoleMissing | Code::TokenOfAnotherClient => "unauthorized_client",
            Code::GrantTypeUnsupported => "unsupported_grant_type",
            Code::AudienceUnknown => "invalid_target",
            Code::AuthorizationDetailsDiffer => "invalid_authorization_details",
            Code::ApprovalPending => "authorization_pending",
            Code::BackendUnavailable
            | Code::StoreUnavailable
            | Code::StoreAmbiguous
            | Code::ClockBehind
            | Code::DiskLow
            | Code::AuditUnavailable
            | Code::SigningKeyPastDate
            | Code::CredentialBudgetExhausted
            | Code::Overloaded
            | Code::RateLimited
            | Code::NotReady => "temporarily_unavailable",
            Code::Internal | Code::RecordKeyUnusable => "server_error",
            _ => "invalid_request",
        }
    }

    const fn challenge(&self) -> Option<&'static str> {
        match self.code {
            Code::Unauthenticated => Some("Basic realm=\"writ\", charset=\"UTF-8\""),
            Code::CredentialMissing => Some("Bearer"),
            code if code.status() == 401 => Some("Bearer error=\"invalid_token\""),
            _ => None,
        }
    }
}

/// The error form of the token endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct OauthError {
    /// The standard's word (RFC 6749 section 5.2, RFC 8693, RFC 8628, RFC 9396).
    pub error: String,
    /// What is wrong here, and what to do.
    pub error_description: String,
    /// The stable code.
    pub code: String,
    /// The policy's rules, if a rule stands in the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Where the draft stands, if that stands in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_state: Option<String>,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.body();
        self.respond(self.code.status(), "application/problem+json", body)
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}
