//! People with the example's keys, for tests that talk to real processes.

use serde_json::Value;
use writ::app::Outside;
use writ::domain::approval::{Approval, ApproverType, AskedBy, By, Claims, Decision};
use writ::domain::digest::{Digest, DraftHash};
use writ::domain::id::RecordId;
use writ::setup::LOCAL_ISSUER;

/// The claims with which an approver of the example would answer this card.
pub fn claims(outside: &Outside, audience: String, approver: &str, card: &Value, decision: Decision) -> Claims {
    let now = outside.clock.now().seconds();
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    Claims {
        iss: LOCAL_ISSUER.to_owned(),
        sub: approver.parse().unwrap(),
        aud: audience,
        jti: RecordId::generate(&*outside.clock, &*outside.entropy),
        iat: now,
        nbf: now,
        exp: now + 600,
        apr: Approval {
            v: 1,
            decision,
            draft_id: text(&card["id"]).parse().unwrap(),
            draft_hash: DraftHash::from_digest(Digest::parse(&text(&card["draft_hash"])).unwrap()),
            request_nonce: text(&card["approval"]["request_nonce"]),
            verdict_id: text(&card["verdict"]["id"]).parse().unwrap(),
            policy: AskedBy {
                id: text(&card["verdict"]["policy_id"]),
                version: card["verdict"]["policy_version"].as_u64().unwrap(),
                sha256: Digest::parse(&text(&card["verdict"]["policy_sha256"])).unwrap(),
            },
            by: By {
                kind: ApproverType::Human,
                id: approver.parse().unwrap(),
                queue: None,
                amr: vec!["hwk".to_owned(), "user".to_owned()],
                auth_time: Some(now - 10),
                rule: None,
            },
            reason: Some("the photo shows the crack".to_owned()),
            execute_by: None,
        },
    }
}
