//! What a credential allows, as authorization details (RFC 9396): told with the credential, and compared with a wish.

use crate::domain::json::{Json, JsonError};
use crate::store::record::DraftRecord;

/// What a credential for this draft allows, in the form of RFC 9396.
pub(super) fn details(draft: &DraftRecord) -> Json {
    let text = |s: String| Json::String(s);
    let mut members = std::collections::BTreeMap::from([
        ("type".to_owned(), text("urn:writ:authorization:draft".to_owned())),
        ("operation".to_owned(), text(draft.operation.to_string())),
        ("resource".to_owned(), text(draft.resource.to_string())),
        ("draft_id".to_owned(), text(draft.id.to_string())),
        ("draft_hash".to_owned(), text(draft.hash.to_string())),
    ]);
    if let Some(money) = draft.amount {
        let amount = std::collections::BTreeMap::from([
            ("minor".to_owned(), Json::Integer(money.minor())),
            ("currency".to_owned(), text(money.currency().to_string())),
        ]);
        members.insert("amount".to_owned(), Json::Object(amount));
    }
    Json::Array(vec![Json::Object(members)])
}

/// The wish must be exactly what the draft allows: nothing more, nothing less, nothing else.
pub(super) fn same_details(wish: &Json, ours: &Json) -> Result<(), JsonError> {
    if wish == ours {
        return Ok(());
    }
    let members = |json: &Json| match json {
        Json::Array(items) => match items.as_slice() {
            [Json::Object(members)] => Some(members.clone()),
            _ => None,
        },
        _ => None,
    };
    let (Some(wish), Some(ours)) = (members(wish), members(ours)) else {
        return Err(JsonError {
            pointer: String::new(),
            reason: "expected an array of one object".to_owned(),
        });
    };
    let differs = wish.iter().find(|(key, value)| ours.get(*key) != Some(value)).map(|(key, _)| key);
    let place = differs
        .or_else(|| ours.keys().find(|key| !wish.contains_key(*key)))
        .map_or_else(String::new, |key| format!("/0/{key}"));
    Err(JsonError {
        pointer: place,
        reason: "differs from the approved draft; leave authorization_details out or repeat what the draft says".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_wish_that_differs_is_refused_at_its_place() {
        let ours = json(r#"[{"type":"t","amount":{"minor":1,"currency":"usd"}}]"#);
        assert!(same_details(&ours, &ours).is_ok());
        let wider = json(r#"[{"type":"t","amount":{"minor":2,"currency":"usd"}}]"#);
        assert_eq!(same_details(&wider, &ours).unwrap_err().pointer, "/0/amount");
        let more = json(r#"[{"type":"t","amount":{"minor":1,"currency":"usd"},"extra":1}]"#);
        assert_eq!(same_details(&more, &ours).unwrap_err().pointer, "/0/extra");
        let less = json(r#"[{"type":"t"}]"#);
        assert_eq!(same_details(&less, &ours).unwrap_err().pointer, "/0/amount");
        assert!(same_details(&json("[]"), &ours).is_err());
    }
}
