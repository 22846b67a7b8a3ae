//! Keeping back what must not be written: a text gives way to a mark, an identifier is left out, and the event says of both where they were.

use super::event::{Actor, EventBody};
use super::parts::{ApprovalPart, ProviderPart};
use super::scan::scan;
use super::stop::StopPart;
use crate::domain::draft::Resource;

/// What stands in a text's place.
pub const WITHHELD: &str = "[withheld]";

/// An event without what must not be written, and the names of the members that were kept back.
#[must_use]
pub fn withhold(body: EventBody) -> (EventBody, Vec<&'static str>) {
    let mut from = Vec::new();
    let mut keep = Keep(&mut from);
    let body = EventBody {
        actor: Actor::new(body.actor.kind, keep.text("actor.id", body.actor.id)),
        code: body.code.map(|text| keep.text("code", text)),
        subject: body.subject.map(|text| keep.text("subject", text)),
        tenant: keep.name("tenant", body.tenant),
        case_id: keep.name("case_id", body.case_id),
        operation: keep.name("operation", body.operation),
        resource: body.resource.and_then(|resource| keep.resource(resource)),
        policy: body.policy.map(|mut policy| {
            policy.policy.id = keep.text("policy.id", policy.policy.id);
            policy.rules = policy.rules.into_iter().map(|rule| keep.text("policy.rules", rule)).collect();
            policy
        }),
        approval: body.approval.map(|part| ApprovalPart {
            approver: keep.name("approval.approver", part.approver),
            kid: keep.name("approval.kid", part.kid),
            ..part
        }),
        provider: body.provider.map(|part| ProviderPart {
            reference: part.reference.map(|text| keep.text("provider.reference", text)),
            rule: part.rule.map(|text| keep.text("provider.rule", text)),
            ..part
        }),
        stop: body.stop.map(|part| StopPart {
            value: part.value.map(|text| keep.text("stop.value", text)),
            ..part
        }),
        erased: body.erased.map(|mut part| {
            part.basis = keep.text("erased.basis", part.basis);
            part
        }),
        hold: body.hold.map(|mut part| {
            part.case_id = keep.name("hold.case_id", part.case_id);
            part
        }),
        ..body
    };
    (body, from)
}

/// Notes what is kept back.
struct Keep<'a>(&'a mut Vec<&'static str>);

impl Keep<'_> {
    fn is_hit(&mut self, member: &'static str, text: &str) -> bool {
        let hit = scan(text);
        if let Some(hit) = hit {
            tracing::error!(
                member,
                form = hit.what(),
                "a value is kept out of the audit log, since it has a form that must not be written"
            );
            if !self.0.contains(&member) {
                self.0.push(member);
            }
        }
        hit.is_some()
    }

    fn text(&mut self, member: &'static str, text: String) -> String {
        if self.is_hit(member, &text) { WITHHELD.to_owned() } else { text }
    }

    fn name<T: std::fmt::Display>(&mut self, member: &'static str, name: Option<T>) -> Option<T> {
        name.filter(|name| !self.is_hit(member, &name.to_string()))
    }

    fn resource(&mut self, resource: Resource) -> Option<Resource> {
        if self.is_hit("resource", &resource.to_string()) {
            return None;
        }
        Some(Resource {
            version: resource.version.map(|text| self.text("resource.version", text)),
            ..resource
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{ActorKind, EventKind, Note};

    #[test]
    fn what_must_not_be_written_is_kept_back_and_named() {
        const CARD: &str = "4111-1111-1111-1111";
        let body = EventBody {
            code: Some(format!("code {CARD}")),
            subject: Some("sk_live_51abcdefgh".to_owned()),
            case_id: Some(CARD.parse().unwrap()),
            resource: Some(Resource {
                kind: "charge".parse().unwrap(),
                id: "ch_1".parse().unwrap(),
                version: Some("Bearer abcdefgh1".to_owned()),
            }),
            provider: Some(ProviderPart {
                status: Some(200),
                reference: Some("re_1".to_owned()),
                rule: Some("ok".to_owned()),
                body_sha256: None,
            }),
            ..EventBody::new(EventKind::Note(Note::AuthFailed), Actor::new(ActorKind::Anonymous, CARD))
        };
        let (kept, from) = withhold(body.clone());
        assert_eq!(from, ["actor.id", "code", "subject", "case_id", "resource.version"]);
        assert_eq!((kept.actor.id.as_str(), kept.code.as_deref()), (WITHHELD, Some(WITHHELD)));
        assert_eq!(kept.case_id, None);
        assert_eq!(kept.resource.unwrap().id.as_str(), "ch_1");
        assert_eq!(kept.provider, body.provider, "what may be written stays");
        let clean = EventBody::new(EventKind::Note(Note::AuthFailed), Actor::new(ActorKind::Anonymous, "10.0.0.1"));
        assert_eq!(withhold(clean.clone()), (clean, Vec::new()));
    }
}
