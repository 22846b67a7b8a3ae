//! What goes back to the client: a status, a few headers and a JSON body; errors in the provider's shape.

use serde_json::{Value, json};

/// An answer before it is written to the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn ok(body: Value) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body,
        }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// The families of errors the provider knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorType {
    InvalidRequest,
    Idempotency,
    Card,
    Api,
}

impl ErrorType {
    const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request_error",
            Self::Idempotency => "idempotency_error",
            Self::Card => "card_error",
            Self::Api => "api_error",
        }
    }
}

/// An error answer, built member by member; `code` and `param` are left out where the provider leaves them out.
#[derive(Debug, Clone)]
pub(super) struct ErrorAnswer {
    status: u16,
    error: serde_json::Map<String, Value>,
}

impl ErrorAnswer {
    pub(super) fn new(status: u16, kind: ErrorType, message: impl Into<String>) -> Self {
        let mut error = serde_json::Map::new();
        error.insert("type".to_owned(), kind.as_str().into());
        error.insert("message".to_owned(), message.into().into());
        Self { status, error }
    }

    pub(super) fn code(self, code: &str) -> Self {
        self.member("code", code)
    }

    pub(super) fn param(self, param: &str) -> Self {
        self.member("param", param)
    }

    fn member(mut self, name: &str, value: &str) -> Self {
        self.error.insert(name.to_owned(), value.into());
        self
    }
}

impl From<ErrorAnswer> for Answer {
    fn from(from: ErrorAnswer) -> Self {
        Self {
            status: from.status,
            headers: Vec::new(),
            body: json!({ "error": from.error }),
        }
    }
}

/// No object of that kind has that id.
pub(super) fn missing(what: &str, id: &str, param: &str) -> ErrorAnswer {
    ErrorAnswer::new(404, ErrorType::InvalidRequest, format!("No such {what}: '{id}'"))
        .code("resource_missing")
        .param(param)
}
