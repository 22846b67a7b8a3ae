//! OCSF 1.8.0, profile `security_control`: a JSON object an event. Whatever has no place in the standard's classes is in `unmapped`, and the exact stored
//! text is in `raw_data`, so that the leaf hash beside it can be computed again where the record arrives.

mod mapping;
mod rest;
mod words;

use serde_json::{Map, Value, json};

use super::read::Read;
use super::{Entry, ExportError, Kind};
use crate::audit::{ActorKind, EventOutcome};

pub use mapping::{Class, Entity, Mapping, mapping};
use rest::Rest;
pub use words::{Action, ApiActivity, Disposition, EntityActivity, Severity, Status, UserType};

/// The version of the schema.
pub const VERSION: &str = "1.8.0";

/// The entry in one line of JSON, its line end included. `origin` is the log's name, for events that do not say it themselves.
///
/// # Errors
/// [`ExportError`] if the leaf is no event, or not that of its hash and number.
pub fn line(entry: &Entry, origin: &str) -> Result<String, ExportError> {
    let mut out = Value::Object(event(entry, origin)?).to_string();
    out.push('\n');
    Ok(out)
}

/// The entry as an object of its class.
///
/// # Errors
/// As [`line()`].
pub fn event(entry: &Entry, origin: &str) -> Result<Map<String, Value>, ExportError> {
    let read = Read::of(entry)?;
    let mapping = match read.kind {
        Kind::Known(kind) => mapping(kind),
        Kind::Newer => Mapping::NEWER,
    };
    let (outcome, actor) = (read.event.outcome, read.event.actor.kind);
    let mut record = Record {
        out: Map::new(),
        rest: Rest::of(read.whole),
    };
    record.metadata(entry.seq, origin);
    record.put("time", read.at.millis());
    record.control(mapping, outcome);
    record.actor(actor);
    record.authorizations();
    let class = match mapping.class() {
        Class::Entity(activity, entity) => {
            record.entity(entity);
            (
                "Entity Management",
                3004,
                "Identity & Access Management",
                3,
                activity.number(),
                activity.caption(),
            )
        }
        Class::Api(activity) => {
            record.api(&read.event.kind);
            (
                "API Activity",
                6003,
                "Application Activity",
                6,
                activity.number(),
                activity.caption(),
            )
        }
    };
    record.class(class, &read.event.kind);
    if let Some(request) = record.rest.text(&["request_id"]) {
        record.put("http_request", json!({ "uid": request }));
    }
    if let Some(count) = record.rest.integer(&["count"]) {
        record.put("count", count);
    }
    record.put("raw_data", read.text);
    // OCSF has no number for this hash: that of SHA-256 would promise the hash of `raw_data` alone.
    let hash = json!({ "algorithm_id": 99, "algorithm": "SHA-256(0x00 || raw_data)", "value": entry.leaf_hash_hex() });
    record.put("raw_data_hash", hash);
    let left = record.rest.into_left();
    if !left.is_empty() {
        record.out.insert("unmapped".to_owned(), Value::Object(left));
    }
    Ok(record.out)
}

/// A record in the making.
struct Record {
    out: Map<String, Value>,
    rest: Rest,
}

impl Record {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.out.insert(name.to_owned(), value.into());
    }

    fn metadata(&mut self, seq: u64, origin: &str) {
        let rest = &mut self.rest;
        rest.integer(&["seq"]);
        let mut metadata = object([
            ("uid", rest.text(&["id"]).map(Value::from)),
            ("correlation_uid", rest.text(&["case_id"]).map(Value::from)),
            ("event_code", rest.text(&["type"]).map(Value::from)),
            ("original_time", rest.text(&["time"]).map(Value::from)),
            ("tenant_uid", rest.text(&["tenant"]).map(Value::from)),
            ("log_version", rest.integer(&["v"]).map(|v| v.to_string().into())),
            ("log_name", Some(rest.text(&["origin"]).unwrap_or_else(|| origin.to_owned()).into())),
        ]);
        metadata.insert("sequence".to_owned(), seq.into());
        metadata.insert("version".to_owned(), VERSION.into());
        metadata.insert("profiles".to_owned(), json!(["security_control"]));
        let product = json!({ "name": "writ", "vendor_name": "writ", "version": env!("CARGO_PKG_VERSION") });
        metadata.insert("product".to_owned(), product);
        self.put("metadata", metadata);
    }

    fn class(&mut self, class: (&str, u32, &str, u32, u32, &str), kind: &str) {
        let (name, number, category, category_number, activity, caption) = class;
        self.put("class_name", name);
        self.put("class_uid", number);
        self.put("category_name", category);
        self.put("category_uid", category_number);
        self.put("activity_id", activity);
        // The standard asks for the source's own word where it has none.
        let word = if activity == ApiActivity::Other.number() { kind } else { caption };
        self.put("activity_name", word);
        self.put("type_name", format!("{name}: {caption}"));
        self.put("type_uid", number * 100 + activity);
    }

    fn control(&mut self, mapping: Mapping, outcome: EventOutcome) {
        self.rest.text(&["outcome"]);
        let status = match outcome {
            EventOutcome::Ok => Status::Success,
            EventOutcome::Denied | EventOutcome::Failed => Status::Failure,
            EventOutcome::Unknown => Status::Unknown,
        };
        self.put("status_id", status.number());
        self.put("status", status.caption());
        if let Some(code) = self.rest.text(&["code"]) {
            self.put("status_code", code);
        }
        let disposition = ended(mapping.disposition(), outcome);
        if let Some(disposition) = disposition {
            self.put("disposition_id", disposition.number());
            self.put("disposition", disposition.caption());
        }
        let action = action(disposition);
        self.put("action_id", action.number());
        self.put("action", action.caption());
        let severity = match (mapping.is_alert(), outcome) {
            (true, _) => Severity::High,
            (false, EventOutcome::Ok) => Severity::Informational,
            (false, EventOutcome::Denied | EventOutcome::Failed | EventOutcome::Unknown) => Severity::Low,
        };
        self.put("severity_id", severity.number());
        self.put("severity", severity.caption());
        if mapping.is_alert() {
            self.put("is_alert", true);
        }
    }

    /// Who signed, with their key, if a signature came with the event; else who acted. Where these are two, the one who acted is the application.
    fn actor(&mut self, kind: ActorKind) {
        self.rest.text(&["actor", "kind"]);
        let by = self.rest.text(&["actor", "id"]).unwrap_or_default();
        let user_type = match kind {
            ActorKind::Client => UserType::Service,
            ActorKind::Person => UserType::User,
            ActorKind::System => UserType::System,
            ActorKind::Rule | ActorKind::Anonymous => UserType::Other,
        };
        let word = match kind {
            ActorKind::Rule => "Policy Rule",
            ActorKind::Anonymous => "Anonymous",
            ActorKind::Client | ActorKind::Person | ActorKind::System => user_type.caption(),
        };
        let signer = self.rest.text(&["approval", "approver"]);
        let key = signer.as_ref().and_then(|_| self.rest.text(&["approval", "kid"]));
        let is_actor = signer.as_ref().is_none_or(|signer| *signer == by);
        let user = object([
            ("uid", Some(signer.unwrap_or_else(|| by.clone()).into())),
            ("type_id", is_actor.then(|| user_type.number().into())),
            ("type", is_actor.then(|| word.into())),
            (
                "programmatic_credentials",
                key.map(|kid| json!([{ "type": "Approver Key", "uid": kid }])),
            ),
        ]);
        let actor = object([
            ("user", Some(user.into())),
            ("app_uid", (!is_actor).then(|| by.clone().into())),
            ("app_name", (!is_actor).then(|| word.into())),
        ]);
        // API Activity asks where the call came from; no address is ever in the log, so it is the caller's id again.
        self.put("actor", actor);
        self.put("src_endpoint", json!({ "uid": by }));
    }

    fn authorizations(&mut self) {
        let rest = &mut self.rest;
        let Some(decision) = rest.text(&["policy", "outcome"]) else {
            return;
        };
        let data = object([
            ("sha256", rest.any(&["policy", "sha256"])),
            ("limits_sha256", rest.any(&["policy", "limits_sha256"])),
            ("rules", rest.any(&["policy", "rules"])),
            ("verdict_id", rest.any(&["policy", "verdict_id"])),
        ]);
        let policy = object([
            ("uid", rest.text(&["policy", "id"]).map(Value::from)),
            ("version", rest.integer(&["policy", "version"]).map(|v| v.to_string().into())),
            ("data", Some(data.into())),
        ]);
        self.put("authorizations", json!([{ "decision": decision, "policy": policy }]));
    }

    fn entity(&mut self, entity: Entity) {
        let uid = self.rest.text(entity.uid()).map(Value::from);
        let name = uid.is_none().then(|| Value::from(entity.caption()));
        let managed = object([
            ("uid", uid),
            ("name", name),
            ("type_id", Some(99.into())),
            ("type", Some(entity.caption().into())),
        ]);
        self.put("entity", managed);
    }

    fn api(&mut self, kind: &str) {
        let rest = &mut self.rest;
        let request = rest.text(&["execution", "idempotency_key"]).map(|key| json!({ "uid": key }));
        let token = rest
            .text(&["credential", "id"])
            .map(|id| json!({ "uid": id, "type_id": 99, "type": Entity::Credential.caption() }));
        let response = rest.integer(&["provider", "status"]).map(|code| json!({ "code": code }));
        let api = object([
            (
                "operation",
                Some(rest.text(&["operation"]).unwrap_or_else(|| kind.to_owned()).into()),
            ),
            ("service", Some(json!({ "name": "writ" }))),
            ("request", request),
            ("response", response),
            ("token", token),
        ]);
        if let Some(id) = rest.text(&["resource", "id"]) {
            let resource = object([
                ("uid", Some(id.into())),
                ("type", rest.text(&["resource", "type"]).map(Value::from)),
                ("version", rest.text(&["resource", "version"]).map(Value::from)),
            ]);
            self.put("resources", json!([resource]));
        }
        self.put("api", api);
    }
}

/// What the control did, where the event ended in another way than its type does when all is well.
fn ended(usual: Option<Disposition>, outcome: EventOutcome) -> Option<Disposition> {
    use Disposition as D;
    match (outcome, usual) {
        (EventOutcome::Denied, None | Some(D::Allowed | D::Approved | D::Restored)) => Some(D::Blocked),
        (EventOutcome::Failed, Some(D::Allowed | D::Approved | D::Restored)) => Some(D::Error),
        _ => usual,
    }
}

const fn action(disposition: Option<Disposition>) -> Action {
    use Disposition as D;
    match disposition {
        Some(D::Allowed | D::Approved | D::Restored) => Action::Allowed,
        Some(D::Blocked | D::AccessRevoked | D::Rejected | D::Unauthorized) => Action::Denied,
        Some(D::Delayed | D::Detected | D::Logged | D::Error) | None => Action::Observed,
    }
}

/// An object of the members that there are.
fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let there = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    there.collect()
}
