//! Handoff: why the program cannot find an outcome out, what a person should look for at the backend, and what they can do then.

use crate::domain::draft::{DraftDocument, KeyPlacement};
use crate::store::record::ExecutionRecord;

/// Why an execution is handed to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The backend's file has changed since.
    AdapterChanged,
    /// The backend knows the key with other content.
    KeyMismatch,
    /// The backend's secrets are not those it was sent with.
    SecretsChanged,
    /// The backend names another id for it than before.
    OtherReference,
    /// Nothing was found out in time.
    Unresolved,
    /// The backend has called it pending for too long.
    PendingTooLong,
    /// The log does not show that its credential was issued and spent on it.
    IssueNotLogged,
}

impl Reason {
    /// Every reason.
    pub const ALL: &'static [Self] = &[
        Self::AdapterChanged,
        Self::KeyMismatch,
        Self::SecretsChanged,
        Self::OtherReference,
        Self::Unresolved,
        Self::PendingTooLong,
        Self::IssueNotLogged,
    ];

    /// The stable code.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AdapterChanged => "adapter_changed",
            Self::KeyMismatch => "key_mismatch",
            Self::SecretsChanged => "secrets_changed",
            Self::OtherReference => "other_reference",
            Self::Unresolved => "unresolved",
            Self::PendingTooLong => "pending_too_long",
            Self::IssueNotLogged => super::proof::NOT_LOGGED,
        }
    }

    /// The reason with this code.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == code)
    }

    /// The reason in a sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::AdapterChanged => {
                "the backend's file has changed since the draft was made, and rules other than those it was sent under could misread the backend's answers"
            }
            Self::KeyMismatch => {
                "the backend knows the idempotency key with another request, so no answer under this key tells what became of this one"
            }
            Self::SecretsChanged => {
                "the backend's secrets are not those it was sent with: under them the key may mean nothing, and what is not shown may be there all the same"
            }
            Self::PendingTooLong => "the backend took it and has called it pending for 30 days, which is longer than any bank needs",
            Self::IssueNotLogged => {
                "the log does not show that its credential was issued for it and spent on it, so somebody may have written to the database: nothing is sent for it"
            }
            Self::OtherReference => "the backend named one id for it before and shows another now, so one of the two is something else",
            Self::Unresolved => "neither an answer nor a look-up said what became of it before the time for finding out was over",
        }
    }
}

/// One thing to look for at the backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookFor {
    /// What it is.
    pub what: &'static str,
    /// Its value.
    pub value: String,
    /// Where it stands there.
    pub place: String,
}

/// By what a person recognises the effect at the backend, the surest first.
#[must_use]
pub fn look_for(execution: &ExecutionRecord, document: &DraftDocument) -> Vec<LookFor> {
    let key = execution.key.to_string();
    let draft = execution.draft.to_string();
    let body = document.request.wire_body(&execution.key);
    let body = String::from_utf8_lossy(&body);
    let mut out = Vec::new();
    let mut add = |what, value: &str, place: &str| {
        out.push(LookFor {
            what,
            value: value.to_owned(),
            place: place.to_owned(),
        });
    };
    if let Some(reference) = &execution.reference {
        add("the backend's own id", reference, "as the id of what was made");
    }
    if let KeyPlacement::Header { name, .. } = &document.request.idempotency_key {
        add(
            "the idempotency key",
            &key,
            &format!("in the header {name} of the request, which the backend's log of requests shows"),
        );
    }
    if body.contains(&key) {
        add("the idempotency key", &key, "in the body that was sent, so in what was made");
    }
    if body.contains(&draft) {
        add("the draft's id", &draft, "in the body that was sent, so in what was made");
    }
    add(
        "the resource",
        &execution.resource.to_string(),
        "what the effect would stand on; an effect without the marks above is not this one",
    );
    out
}

/// One thing that can be done about a handoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Its name.
    pub name: &'static str,
    /// The command that does it; absent where nothing is done.
    pub command: Option<String>,
    /// The call that does it: method, path and body.
    pub call: Option<(String, serde_json::Value)>,
    /// What follows from it.
    pub means: &'static str,
}

/// What can be done about an execution that waits for a person.
#[must_use]
pub fn actions(execution: &ExecutionRecord) -> Vec<Action> {
    let id = execution.id;
    let call = |body| Some((format!("POST /v1/executions/{id}/resolve"), body));
    vec![
        Action {
            name: "resolve_applied",
            command: Some(format!(
                "writ execution resolve {id} --applied --reference ID --evidence 'how you know'"
            )),
            call: call(serde_json::json!({ "outcome": "applied", "reference": "ID", "evidence": "how you know" })),
            means: "the backend shows what was made: the execution is applied, the resource is free, and nothing is ever sent again for this draft",
        },
        Action {
            name: "resolve_not_applied",
            command: Some(format!("writ execution resolve {id} --not-applied --evidence 'how you know'")),
            call: call(serde_json::json!({ "outcome": "not_applied", "evidence": "how you know" })),
            means: "the backend shows that nothing was made and nothing can still be under way: the execution is not_applied, the resource is free, and the \
                    same may be proposed anew under another key; if this is wrong, that is a second effect",
        },
        Action {
            name: "wait",
            command: None,
            call: None,
            means: "as long as you are not sure: nothing is sent, and nothing else may touch the resource",
        },
    ]
}
