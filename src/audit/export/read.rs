//! An event as it is read back from its bytes. What is named here must be what it was; what a newer version adds is passed over here and kept
//! in `whole`.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Entry, ExportError, Kind};
use crate::audit::{ActorKind, EventOutcome};
use crate::domain::approval::Decision;
use crate::domain::json::Json;
use crate::domain::money::Currency;
use crate::domain::policy::Outcome;
use crate::domain::time::Timestamp;

/// One event, and everything that stood in it.
pub(super) struct Read {
    /// What this version knows of it.
    pub(super) event: Event,
    /// Its type, if this version knows it.
    pub(super) kind: Kind,
    /// Its time.
    pub(super) at: Timestamp,
    /// The bytes as text.
    pub(super) text: String,
    /// All of its members.
    pub(super) whole: Map<String, Value>,
}

impl Read {
    /// Reads the entry's bytes, once they are known to be those of its hash and its number.
    pub(super) fn of(entry: &Entry) -> Result<Self, ExportError> {
        let seq = entry.seq;
        let text = entry.text()?;
        let wrong = |source| ExportError::NotAnEvent { seq, source };
        let json = Json::parse_deeper(text.as_bytes()).map_err(wrong)?;
        let event: Event = json.decode().map_err(wrong)?;
        if event.seq != seq {
            return Err(ExportError::OtherNumber { seq, says: event.seq });
        }
        let at = Timestamp::parse(&event.time).ok_or(ExportError::NoTime { seq })?;
        let whole = match json.to_value() {
            Value::Object(whole) => whole,
            // The decoder above takes objects only.
            _ => Map::new(),
        };
        Ok(Self {
            kind: Kind::parse(&event.kind),
            at,
            text: text.to_owned(),
            whole,
            event,
        })
    }

    /// The event's number among those of its case, if it has one.
    pub(super) fn place_in_case(&self) -> Option<u64> {
        let of_case = self.whole.get("case").and_then(|case| case.get("n"));
        of_case.or_else(|| self.whole.get("case_n")).and_then(Value::as_u64)
    }
}

/// The members that the formats name.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Event {
    pub(super) seq: u64,
    pub(super) time: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) outcome: EventOutcome,
    pub(super) actor: Actor,
    pub(super) code: Option<String>,
    pub(super) tenant: Option<String>,
    pub(super) case_id: Option<String>,
    pub(super) operation: Option<String>,
    pub(super) resource: Option<Resource>,
    pub(super) amount: Option<Amount>,
    pub(super) draft: Option<Draft>,
    pub(super) policy: Option<Policy>,
    pub(super) approval: Option<Approval>,
    pub(super) credential: Option<Credential>,
    pub(super) execution: Option<Execution>,
    pub(super) attempt: Option<Attempt>,
    pub(super) provider: Option<Provider>,
    pub(super) stop: Option<Stop>,
    pub(super) subject: Option<String>,
    pub(super) state: Option<Change>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Actor {
    pub(super) kind: ActorKind,
    pub(super) id: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Resource {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) id: String,
    pub(super) version: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Amount {
    pub(super) minor: i64,
    pub(super) currency: Currency,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Draft {
    pub(super) id: String,
    pub(super) hash: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Policy {
    pub(super) id: String,
    pub(super) version: u64,
    pub(super) sha256: String,
    pub(super) limits_sha256: String,
    pub(super) outcome: Outcome,
    #[serde(default)]
    pub(super) rules: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Approval {
    pub(super) id: String,
    pub(super) record_id: Option<String>,
    pub(super) approver: Option<String>,
    pub(super) kid: Option<String>,
    pub(super) decision: Option<Decision>,
    pub(super) record_sha256: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Credential {
    pub(super) id: String,
    pub(super) root_key_id: Option<u64>,
    pub(super) audience: Option<String>,
    pub(super) expires_at: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Execution {
    pub(super) id: String,
    pub(super) idempotency_key: String,
    pub(super) fence: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Attempt {
    pub(super) n: u64,
    pub(super) request_sha256: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Provider {
    pub(super) status: Option<u16>,
    pub(super) reference: Option<String>,
    pub(super) rule: Option<String>,
    pub(super) body_sha256: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Stop {
    pub(super) id: String,
    pub(super) scope: Option<String>,
    pub(super) value: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Change {
    pub(super) from: Option<String>,
    pub(super) to: String,
}
