//! Bodies that two programs could read differently are refused before anything is stored.

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use writ::domain::approval::Decision;
use writ::sandbox::demo;

use crate::support::world::{Reply, World};

const JSON: &str = "application/json";

async fn post(world: &World, content_type: &str, body: impl Into<Vec<u8>>) -> Reply {
    let request = Request::post("/v1/drafts")
        .header(header::AUTHORIZATION, world.basic("support-agent"))
        .header(header::CONTENT_TYPE, content_type)
        .body(Body::from(body.into()));
    world.send(request.unwrap()).await
}

/// The body of a refund whose amount is written like this.
fn with_amount(amount: &str) -> String {
    format!(
        r#"{{"operation":"refund.create","parameters":{{"charge":"{}","amount":{amount},"currency":"usd"}}}}"#,
        demo::CHARGE
    )
}

/// Nothing was stored, nothing was sent, and the log says why.
async fn refused(world: &World, reply: Reply, status: u16, code: &str) -> Value {
    world.denied(&reply, status, code, "draft.propose_denied", 0).await;
    let drafts = world.call("support-agent", "GET", "/v1/drafts", None).await.expect(200);
    assert_eq!(drafts["drafts"], json!([]), "{}", reply.body);
    reply.body
}

#[tokio::test]
async fn an_amount_that_is_not_a_plain_positive_integer_is_refused_at_its_place() {
    let world = World::new().await;
    for (amount, code) in [
        ("-1", "operation_parameters_invalid"),
        ("0", "operation_parameters_invalid"),
        ("-0", "json_invalid"),
        ("1e2", "json_invalid"),
        ("10.0", "json_invalid"),
        ("10.5", "json_invalid"),
        ("\"100\"", "operation_parameters_invalid"),
        ("9007199254740992", "json_invalid"),
        ("18446744073709551616", "json_invalid"),
        ("null", "operation_parameters_invalid"),
        ("true", "operation_parameters_invalid"),
        ("[100]", "operation_parameters_invalid"),
        ("{\"minor\":100}", "operation_parameters_invalid"),
        ("99999999999", "operation_parameters_invalid"),
    ] {
        let reply = post(&world, JSON, with_amount(amount)).await;
        let body = refused(&world, reply, 400, code).await;
        assert_eq!(body["errors"][0]["pointer"], "/parameters/amount", "{amount}: {body}");
    }
    for not_json in ["+1", "01", "0x10", ".5", "1.", "NaN", "Infinity", "1_000", ""] {
        let reply = post(&world, JSON, with_amount(not_json)).await;
        refused(&world, reply, 400, "json_invalid").await;
    }
}

#[tokio::test]
async fn a_key_that_stands_twice_is_refused_however_it_is_written() {
    let world = World::new().await;
    let parameters = format!(r#"{{"charge":"{}","amount":100,"currency":"usd"}}"#, demo::CHARGE);
    for body in [
        format!(r#"{{"operation":"refund.create","operation":"refund.create","parameters":{parameters}}}"#),
        format!(r#"{{"operation":"refund.create","\u006fperation":"email.update","parameters":{parameters}}}"#),
        with_amount("100,\"amount\":99"),
        with_amount("100,\"amoun\\u0074\":99"),
        with_amount("100,\"x\":{\"a\":1,\"a\":1}"),
        with_amount("100,\"x\":[{\"a\":1,\"\\u0061\":1}]"),
    ] {
        let reply = post(&world, JSON, body).await;
        let problem = refused(&world, reply, 400, "json_invalid").await;
        assert!(problem["detail"].as_str().unwrap().contains("twice"), "{problem}");
    }
}

#[tokio::test]
async fn an_unknown_key_and_a_known_one_in_other_letters_are_refused() {
    let world = World::new().await;
    let good = World::refund(100);
    for key in [
        "Operation",
        "PARAMETERS",
        "amount",
        "idempotency_key",
        "maker",
        "owner",
        "tenant",
        "state",
        "approved",
        "__proto__",
        "",
    ] {
        let mut body = good.clone();
        body[key] = json!("x");
        let reply = world.propose(body).await;
        refused(&world, reply, 400, "json_invalid").await;
    }
    for key in [
        "Amount",
        "AMOUNT",
        "amount ",
        "currency_",
        "Currency",
        "metadata",
        "refund_application_fee",
        "reverse_transfer",
        "a/b~c",
    ] {
        let mut body = good.clone();
        body["parameters"][key] = json!(1);
        let reply = world.propose(body).await;
        let problem = refused(&world, reply, 400, "operation_parameters_invalid").await;
        let pointer = format!("/parameters/{}", key.replace('~', "~0").replace('/', "~1"));
        assert_eq!(problem["errors"][0]["pointer"], pointer);
    }
    for missing in ["operation", "parameters"] {
        let mut body = good.clone();
        body.as_object_mut().unwrap().remove(missing);
        let reply = world.propose(body).await;
        refused(&world, reply, 400, "json_invalid").await;
    }
    let mut body = good.clone();
    body["parameters"].as_object_mut().unwrap().remove("currency");
    let reply = world.propose(body).await;
    refused(&world, reply, 400, "operation_parameters_invalid").await;
}

#[tokio::test]
async fn text_that_is_not_unicode_or_hides_something_is_refused() {
    let world = World::new().await;
    let with_case = |case: &str| with_amount("100").replace("{\"operation\"", &format!("{{\"case_id\":\"{case}\",\"operation\""));
    for case in [
        r"\ud800",
        r"\udc00",
        r"\ud800\ud800",
        r"x\udfff",
        r"\u0000",
        r"\u0007",
        r"\u0085",
        r"\ufdd0",
        r"\uffff",
        r"\ud83f\udfff",
    ] {
        let reply = post(&world, JSON, with_case(case)).await;
        refused(&world, reply, 400, "json_invalid").await;
    }
    for case in ["case\u{202e}1", "case\u{200b}1", "с1", "a b", "../1", ""] {
        let reply = post(&world, JSON, with_case(case)).await;
        refused(&world, reply, 400, "json_invalid").await;
    }
    for bytes in [&b"\xff"[..], b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"] {
        let (before, after) = (r#"{"operation":"refund.create","case_id":""#, r#"","parameters":{}}"#);
        let body = [before.as_bytes(), bytes, after.as_bytes()].concat();
        let reply = post(&world, JSON, body).await;
        refused(&world, reply, 400, "json_invalid").await;
    }
    let utf16: Vec<u8> = with_amount("100").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let reply = post(&world, JSON, utf16).await;
    refused(&world, reply, 400, "json_invalid").await;
    let bom = ["\u{feff}".as_bytes(), with_amount("100").as_bytes()].concat();
    let reply = post(&world, JSON, bom).await;
    refused(&world, reply, 400, "json_invalid").await;
}

#[tokio::test]
async fn a_body_that_is_no_object_has_more_than_one_or_nests_too_deep_is_refused() {
    let world = World::new().await;
    let two = format!("{}{}", with_amount("100"), with_amount("100"));
    let deep = with_amount(&format!("{}1{}", "[".repeat(9), "]".repeat(9)));
    let bottomless = "[".repeat(60_000);
    for body in [
        "",
        "null",
        "[]",
        "1",
        "\"x\"",
        "{",
        "{}x",
        "{'a':1}",
        "{\"a\":1,}",
        "// x\n{}",
        &two,
        &deep,
        &bottomless,
    ] {
        let reply = post(&world, JSON, body).await;
        refused(&world, reply, 400, "json_invalid").await;
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_or_of_another_type_is_not_read() {
    let world = World::new().await;
    let padded = format!("{}{}", with_amount("100"), " ".repeat(64 * 1024));
    let reply = post(&world, JSON, padded).await;
    refused(&world, reply, 413, "body_too_large").await;
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/merge-patch+json",
        "application/jsonx",
        "",
        "json",
    ] {
        let reply = post(&world, content_type, with_amount("100")).await;
        refused(&world, reply, 415, "media_type_unsupported").await;
    }
    let without = Request::post("/v1/drafts")
        .header(header::AUTHORIZATION, world.basic("support-agent"))
        .body(Body::from(with_amount("100")));
    let reply = world.send(without.unwrap()).await;
    refused(&world, reply, 415, "media_type_unsupported").await;
    let spelled = post(&world, "Application/JSON; charset=utf-8", with_amount("100")).await;
    assert_eq!(spelled.status, 201, "{}", spelled.body);
}

#[tokio::test]
async fn what_is_not_an_operation_to_be_drafted_is_refused() {
    let world = World::new().await;
    for (operation, code) in [
        ("refund.create_all", "operation_unknown"),
        ("payout.create", "operation_unknown"),
        ("order.read", "operation_is_read"),
        ("charge.read", "operation_is_read"),
        ("Refund.create", "json_invalid"),
        ("refund.create ", "json_invalid"),
        ("refund", "json_invalid"),
    ] {
        let mut body = World::refund(100);
        body["operation"] = json!(operation);
        let reply = world.propose(body).await;
        refused(&world, reply, 400, code).await;
    }
}

#[tokio::test]
async fn what_the_backend_contradicts_is_refused() {
    let world = World::new().await;
    for (charge, amount, currency) in [
        (demo::CHARGE, 40_001, "usd"),
        (demo::CHARGE, 100, "eur"),
        (demo::CHARGE_EUR, 12_901, "eur"),
        (demo::CHARGE_JPY, 9_001, "jpy"),
    ] {
        let reply = world.propose(World::refund_of(charge, amount, currency)).await;
        refused(&world, reply, 409, "facts_do_not_support").await;
    }
    for (charge, currency) in [
        ("ch_1/../../customers", "usd"),
        ("cus_88", "usd"),
        (demo::CHARGE, "usdx"),
        (demo::CHARGE, "xts"),
    ] {
        let reply = world.propose(World::refund_of(charge, 100, currency)).await;
        refused(&world, reply, 400, "operation_parameters_invalid").await;
    }
    let mut email = World::email("ada@example.org");
    email["parameters"]["old_email"] = json!("somebody.else@example.com");
    let reply = world.propose(email).await;
    refused(&world, reply, 409, "facts_do_not_support").await;
}

#[tokio::test]
async fn what_people_write_for_others_to_read_hides_nothing_from_them() {
    let world = World::new().await;
    let held = world.held_draft().await;
    for hidden in ["\u{202e}", "\u{200b}", "\u{2066}"] {
        let words = format!("all is well {hidden}desrever");
        let stop = json!({ "scope": "everything", "reason": words });
        let reply = world.call("security", "POST", "/v1/stops", Some(stop)).await;
        assert_eq!(reply.body["errors"][0]["pointer"], "/reason");
        reply.refused(400, "json_invalid");
        let card = world.card(&held).await;
        let claims = world.claims("usr_mia", &card, Decision::Deny);
        let mut claims = serde_json::to_value(&claims).unwrap();
        claims["apr"]["reason"] = json!(words);
        let claims = serde_json::from_value(claims).unwrap();
        let refused_record = world.signer("usr_mia").sign(&claims).unwrap_err();
        assert!(refused_record.to_string().contains("/apr/reason"), "{refused_record}");
        let mut body = World::refund(100);
        body["evidence"] = json!([{ "kind": format!("photo{hidden}"), "sha256": "A".repeat(43) }]);
        world.propose(body).await.refused(400, "json_invalid");
    }
    assert_eq!(world.draft(&held).await["state"], "awaiting_approval");
}
