//! The token endpoint: what it takes, what it answers, and what it refuses in the words of the standards.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use writ::domain::approval::Decision;
use writ::domain::operation::Stage;

use crate::support::world::{Reply, World};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const RECORD: &str = "urn:writ:token-type:approval-record";
const DRAFT: &str = "urn:writ:token-type:draft";

/// The form that exchanges this draft, after a change.
fn form<'a>(draft: &'a str, change: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut form = vec![("grant_type", GRANT), ("subject_token", draft), ("subject_token_type", DRAFT)];
    for (name, value) in change {
        form.retain(|(known, _)| known != name);
        form.push((name, value));
    }
    form
}

/// Refused in both vocabularies, told in the log, not cached, and the draft stands as it stood.
async fn refused(world: &World, reply: &Reply, status: u16, code: &str, error: &str) {
    world.denied(reply, status, code, "credential.exchange_denied", 0).await;
    assert_eq!(reply.body["error"], error, "{}", reply.body);
    assert!(reply.body["error_description"].is_string());
    assert_eq!(reply.headers["cache-control"], "no-store");
    assert_eq!(reply.headers["content-type"], "application/json");
    assert!(reply.body.get("access_token").is_none());
}

#[tokio::test]
async fn a_form_that_is_not_a_token_exchange_is_refused() {
    let world = World::new().await;
    let draft = world.allowed_draft().await;
    for (change, code, error) in [
        (
            ("grant_type", "client_credentials"),
            "grant_type_unsupported",
            "unsupported_grant_type",
        ),
        (("grant_type", "password"), "grant_type_unsupported", "unsupported_grant_type"),
        (
            ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt"),
            "token_type_unsupported",
            "invalid_request",
        ),
        (
            ("subject_token_type", "urn:ietf:params:oauth:token-type:access_token"),
            "token_type_unsupported",
            "invalid_request",
        ),
        (
            ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
            "token_type_unsupported",
            "invalid_request",
        ),
        (("audience", "urn:writ:proxy:other"), "audience_unknown", "invalid_target"),
        (("audience", "urn:writ:proxy:main "), "audience_unknown", "invalid_target"),
        (("subject_token", "drf_x"), "parameter_invalid", "invalid_request"),
        (("subject_token", ""), "parameter_invalid", "invalid_request"),
        (("scope", "everything"), "parameter_invalid", "invalid_request"),
        (("actor_token", "x"), "parameter_invalid", "invalid_request"),
        (("expires_in", "86400"), "parameter_invalid", "invalid_request"),
        (("Grant_Type", GRANT), "parameter_invalid", "invalid_request"),
    ] {
        let reply = world.exchange_form("support-agent", &form(&draft, &[change])).await;
        refused(&world, &reply, 400, code, error).await;
    }
    let mut twice = form(&draft, &[]);
    twice.push(("subject_token", &draft));
    let reply = world.exchange_form("support-agent", &twice).await;
    refused(&world, &reply, 400, "parameter_invalid", "invalid_request").await;
    let as_json = Request::post("/oauth2/token")
        .header("authorization", world.basic("support-agent"))
        .header("content-type", "application/json")
        .body(Body::from(
            json!({ "grant_type": GRANT, "subject_token": draft, "subject_token_type": DRAFT }).to_string(),
        ));
    let reply = world.send(as_json.unwrap()).await;
    refused(&world, &reply, 415, "media_type_unsupported", "invalid_request").await;
    assert_eq!(world.draft(&draft).await["state"], "approved");
    assert!(!world.event_types().await.contains(&"credential.issue".to_owned()));
    world.exchange(&draft).await.expect(200);
}

#[tokio::test]
async fn a_caller_who_is_nobody_or_has_another_role_gets_the_standard_s_words() {
    let world = World::new().await;
    let draft = world.allowed_draft().await;
    let reply = world.exchange_form("review-desk", &form(&draft, &[])).await;
    world.denied(&reply, 400, "role_missing", "access.denied", 0).await;
    assert_eq!(reply.body["error"], "unauthorized_client");
    let request = Request::post("/oauth2/token")
        .header("authorization", "Basic c3VwcG9ydC1hZ2VudDp3cm9uZw==")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(""));
    let reply = world.send(request.unwrap()).await;
    world.denied(&reply, 401, "unauthenticated", "auth.failed", 0).await;
    assert_eq!(reply.body["error"], "invalid_client");
    assert!(reply.headers["www-authenticate"].to_str().unwrap().starts_with("Basic "));
}

#[tokio::test]
async fn the_answer_has_what_rfc_8693_asks_for_and_is_not_cached() {
    let world = World::new().await;
    let draft = world.allowed_draft().await;
    let credential = "urn:writ:token-type:credential";
    let whole = form(&draft, &[("requested_token_type", credential), ("audience", "urn:writ:proxy:main")]);
    let reply = world.exchange_form("support-agent", &whole).await;
    assert_eq!(
        (&reply.headers["cache-control"], &reply.headers["pragma"]),
        (&"no-store".parse().unwrap(), &"no-cache".parse().unwrap())
    );
    let body = reply.expect(200);
    assert_eq!(
        (&body["issued_token_type"], &body["token_type"]),
        (&json!(credential), &json!("Bearer"))
    );
    assert!((1..=60).contains(&body["expires_in"].as_i64().unwrap()), "{body}");
    let details = &body["authorization_details"][0];
    assert_eq!(details["draft_id"], json!(draft));
    assert_eq!(details["amount"], json!({ "minor": 4_000, "currency": "usd" }));
    let token = body["access_token"].as_str().unwrap();
    let kept = std::fs::read(world.path("data/writ.db")).unwrap();
    let wal = std::fs::read(world.path("data/writ.db-wal")).unwrap_or_default();
    for file in [kept, wal] {
        assert!(!file.windows(40).any(|w| w == &token.as_bytes()[..40]), "the token is stored");
    }
}

#[tokio::test]
async fn authorization_details_must_repeat_the_draft() {
    let world = World::new().await;
    let draft = world.allowed_draft().await;
    let ours = world.exchange(&draft).await.expect(200)["authorization_details"].clone();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut wish = ours.clone();
        change(&mut wish);
        wish.to_string()
    };
    for wish in [
        changed(&|w| w[0]["amount"]["minor"] = json!(4_001)),
        changed(&|w| w[0]["amount"]["minor"] = json!(3_999)),
        changed(&|w| w[0]["amount"]["currency"] = json!("eur")),
        changed(&|w| w[0]["operation"] = json!("refund.*")),
        changed(&|w| w[0]["resource"] = json!("charge:*")),
        changed(&|w| w[0]["extra"] = json!(1)),
        changed(&|w| drop(w[0].as_object_mut().unwrap().remove("amount"))),
        changed(&|w| w.as_array_mut().unwrap().push(ours[0].clone())),
        "[]".to_owned(),
        "{}".to_owned(),
        "[{".to_owned(),
        format!("[{{\"type\":\"x\",{}", &ours[0].to_string()[1..]),
    ] {
        let reply = world
            .exchange_form("support-agent", &form(&draft, &[("authorization_details", &wish)]))
            .await;
        refused(&world, &reply, 400, "authorization_details_differ", "invalid_authorization_details").await;
    }
    let same = ours.to_string();
    let reply = world
        .exchange_form("support-agent", &form(&draft, &[("authorization_details", &same)]))
        .await;
    assert_eq!(reply.expect(200)["authorization_details"], ours);
}

#[tokio::test]
async fn a_record_is_a_subject_token_the_first_time_and_again() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let record = world.record("usr_mia", &draft, Decision::Approve).await;
    let with_record = [
        ("grant_type", GRANT),
        ("subject_token", record.as_str()),
        ("subject_token_type", RECORD),
    ];
    world.exchange_form("support-agent", &with_record).await.expect(200);
    assert_eq!(world.draft(&draft).await["state"], "approved");
    let again = world.exchange_form("support-agent", &with_record).await.expect(200);
    let counted = |e: &&String| *e == "approval.record_counted";
    assert_eq!(world.event_types().await.iter().filter(counted).count(), 1);
    let token = again["access_token"].as_str().unwrap();
    world.execute(token, &draft).await.expect(202);
    let reply = world.exchange_form("support-agent", &with_record).await;
    world
        .denied(&reply, 400, "draft_not_approved", "credential.exchange_denied", 1)
        .await;
    assert_eq!(reply.body["draft_state"], "consumed", "one approval, one execution");
}

#[tokio::test]
async fn a_record_that_does_not_count_is_no_subject_token() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let record = world.record("usr_mia", &draft, Decision::Approve).await;
    let (signed, signature) = record.rsplit_once('.').unwrap();
    let first = if signature.starts_with('A') { "B" } else { "A" };
    let tampered = format!("{signed}.{first}{}", &signature[1..]);
    let own = world.record("usr_ann", &draft, Decision::Approve).await;
    let stranger = world.record("usr_ada", &draft, Decision::Approve).await;
    for (subject, status, code) in [
        ("not.a.record", 400, "record_malformed"),
        (tampered.as_str(), 400, "record_signature_invalid"),
        (own.as_str(), 400, "self_approval"),
        (stranger.as_str(), 400, "approver_without_authority"),
    ] {
        let with = [("grant_type", GRANT), ("subject_token", subject), ("subject_token_type", RECORD)];
        let reply = world.exchange_form("support-agent", &with).await;
        refused(&world, &reply, status, code, "invalid_request").await;
    }
    let as_draft = [
        ("grant_type", GRANT),
        ("subject_token", record.as_str()),
        ("subject_token_type", DRAFT),
    ];
    let reply = world.exchange_form("support-agent", &as_draft).await;
    refused(&world, &reply, 400, "parameter_invalid", "invalid_request").await;
    assert_eq!(world.draft(&draft).await["state"], "awaiting_approval");
}

#[tokio::test]
async fn a_signed_denial_is_no_subject_token_and_still_a_denial() {
    let world = World::new().await;
    let draft = world.held_draft().await;
    let record = world.record("usr_mia", &draft, Decision::Deny).await;
    let with_record = [
        ("grant_type", GRANT),
        ("subject_token", record.as_str()),
        ("subject_token_type", RECORD),
    ];
    for _ in 0..2 {
        let reply = world.exchange_form("support-agent", &with_record).await;
        refused(&world, &reply, 400, "draft_not_approved", "invalid_request").await;
        assert_eq!(reply.body["draft_state"], "denied");
    }
    assert_eq!(world.draft(&draft).await["reason"], "the photo shows the crack");
}

#[tokio::test]
async fn another_client_s_draft_looks_like_none_by_its_id_and_by_its_record() {
    let mut world = World::new().await;
    world.add_client("support-agent", |c| c.id = "other-agent".parse().unwrap()).await;
    let draft = world.held_draft().await;
    let record = world.record("usr_mia", &draft, Decision::Approve).await;
    let nothing = world
        .exchange_form("other-agent", &form("drf_0192f0c1a2b37c4d8e5f60718293a4b5", &[]))
        .await;
    refused(&world, &nothing, 400, "not_found", "invalid_request").await;
    let by_id = world.exchange_form("other-agent", &form(&draft, &[])).await;
    refused(&world, &by_id, 400, "not_found", "invalid_request").await;
    assert_eq!(by_id.body, nothing.body);
    let with_record = [
        ("grant_type", GRANT),
        ("subject_token", record.as_str()),
        ("subject_token_type", RECORD),
    ];
    let by_record = world.exchange_form("other-agent", &with_record).await;
    refused(&world, &by_record, 400, "not_found", "invalid_request").await;
    assert_eq!(
        world.draft(&draft).await["state"],
        "awaiting_approval",
        "and the record was not counted on the way"
    );
}

#[tokio::test]
async fn a_client_that_may_draft_and_not_execute_gets_no_credential() {
    let mut world = World::new().await;
    let only_drafts = |c: &mut writ::domain::principal::Client| {
        c.id = "drafting-agent".parse().unwrap();
        for row in &mut c.permissions {
            row.stages.remove(&Stage::Execute);
        }
    };
    world.add_client("support-agent", only_drafts).await;
    let draft = world
        .call("drafting-agent", "POST", "/v1/drafts", Some(World::refund(4_000)))
        .await
        .expect(201);
    let reply = world
        .exchange_form("drafting-agent", &form(draft["id"].as_str().unwrap(), &[]))
        .await;
    refused(&world, &reply, 400, "not_permitted", "unauthorized_client").await;
}

#[tokio::test]
async fn a_repeated_exchange_revokes_the_earlier_credential() {
    let world = World::new().await;
    let draft = world.allowed_draft().await;
    let first = world.credential(&draft).await;
    let second = world.credential(&draft).await;
    world.execute(&first, &draft).await.refused(401, "credential_not_live");
    assert_eq!(world.writes(), 0);
    world.execute(&second, &draft).await.expect(202);
    assert_eq!(world.writes(), 1);
    let types = world.event_types().await;
    assert_eq!(types.iter().filter(|e| *e == "credential.revoke").count(), 1);
}

#[tokio::test]
async fn metadata_and_keys_are_where_the_standards_put_them() {
    let world = World::new().await;
    let get = |path: &str| Request::get(path).body(Body::empty()).unwrap();
    let metadata = world.send(get("/.well-known/oauth-authorization-server")).await.expect(200);
    let issuer = metadata["issuer"].as_str().unwrap();
    assert_eq!(metadata["token_endpoint"], format!("{issuer}/oauth2/token"));
    assert_eq!(metadata["grant_types_supported"], json!([GRANT]));
    assert_eq!(metadata["token_endpoint_auth_methods_supported"], json!(["client_secret_basic"]));
    assert_eq!(
        metadata["authorization_details_types_supported"],
        json!(["urn:writ:authorization:draft"])
    );
    assert_eq!(metadata["response_types_supported"], json!([]));
    assert_eq!(metadata["biscuit_web_keys_uri"], format!("{issuer}/.well-known/biscuit-web-keys"));
    let reply = world.send(get("/.well-known/biscuit-web-keys")).await;
    assert_eq!(reply.headers["content-type"], "application/json");
    let keys = reply.expect(200);
    assert_eq!(
        keys,
        serde_json::from_slice::<Value>(&std::fs::read(world.path("keys/credential-keys.json")).unwrap()).unwrap()
    );
    assert!(!keys.to_string().to_lowercase().contains("private"), "{keys}");
}
