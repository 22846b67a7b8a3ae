//! Backends that are not like the shipped ones: the key in the body, decimal amounts, errors inside a 200, other authentication.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use super::support::{answer, draft, operation};
use writ::backend::{Answer, Backends, Client, Finding, Need, Outcome, Replay, Sent, same_secret};
use writ::domain::draft::{KEY_PLACEHOLDER, KeyPlacement};
use writ::domain::time::Timestamp;

const SQUARISH: &str = r#"
name          = "square"
base_url      = "https://connect.example.com/base"
allow_private = true

[auth]
kind  = "header"
name  = "x-access-token"
facts = { env = "FACTS" }
read  = { env = "READ" }
write = { env = "WRITE" }

[currency.exponents]
0 = ["jpy"]
2 = ["usd"]
3 = ["tnd"]

[[operation]]
name        = "payment.refund"
consequence = "money"
on_failure  = "no refund is created"
resource    = { type = "payment", id = "payment" }
version     = "payment.version_token"

[operation.params]
payment  = { type = "id", pattern = "^[A-Za-z0-9:/._-]{1,192}$" }
amount   = { type = "minor", currency = "currency" }
currency = { type = "currency" }
notify   = { type = "bool", optional = true }

[[operation.facts]]
name = "payment"
path = "/v2/payments/{params.payment}"
keep = { version_token = "/payment/version_token" }

[[operation.expect]]
pointer = "/payment/version_token"
exists  = true
reason  = "the payment has no version"

[operation.precondition]
read      = "payment"
unchanged = ["version_token"]

[operation.request]
method   = "POST"
path     = "/v2/payments/{params.payment}/refunds"
encoding = "json"

[operation.request.body]
idempotency_key       = "{idem.key}"
payment_version_token = "{resource.version}"
note                  = "writ:{draft.id}:{idem.key}"
template              = { literal = "{not a hole}" }
notify                = "{params.notify}"
lines                 = [{ kind = "REFUND", amount = { from = "params.amount", as = "decimal" } }]
[operation.request.body.amount_money]
amount   = "{params.amount}"
currency = { from = "params.currency", as = "upper" }

[operation.idempotency]
place   = "body"
max_len = 45
window  = "unknown"
replay  = "current_state"

[[operation.classify]]
name    = "throttled inside a 200"
status  = "200"
when    = { pointer = "/errors/0/code", equals = "THROTTLED" }
outcome = "not_executed"

[[operation.classify]]
name      = "done"
status    = "200"
when      = [{ pointer = "/errors", exists = false }, { pointer = "/refund/status", equals = "COMPLETED" }]
require   = [
    { pointer = "/refund/payment_id", equals = "{params.payment}" },
    { pointer = "/refund/amount", equals = { from = "params.amount", as = "decimal" } },
    { pointer = "/refund/currency", equals = { from = "params.currency", as = "upper" } },
]
outcome   = "applied"
reference = "/refund/id"

[operation.retry]
on      = ["not_executed"]
give_up = "10m"

[[operation.reconcile]]
name    = "search by note"
kind    = "list"
path    = "/v2/refunds"
items   = "/refunds"
match   = { pointer = "/refund/note", equals = "writ:{draft.id}:{idem.key}" }
next    = { more = "/more", param = "begin", last = "/id" }
absent  = "proof"
settle  = "90s"
repeats = 3
"#;

fn square() -> Backends {
    Backends::from_texts([("square.toml", SQUARISH)], Path::new(".")).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn params(amount: i64, currency: &str) -> Value {
    json!({ "payment": "GLb:1/x", "amount": amount, "currency": currency })
}

fn facts() -> Answer {
    answer(200, json!({ "payment": { "version_token": "v9" } }))
}

#[test]
fn a_key_in_a_json_body_stands_in_every_place_and_nowhere_else() {
    let backends = square();
    let made = draft(operation(&backends, "payment.refund"), params(1050, "USD"), &facts());
    let request = &made.request;
    assert_eq!(request.url, "https://connect.example.com/base/v2/payments/GLb%3A1%2Fx/refunds");
    assert_eq!(request.idempotency_key, KeyPlacement::Body);
    assert_eq!(
        request.body,
        format!(
            r#"{{"amount_money":{{"amount":1050,"currency":"USD"}},"idempotency_key":"{KEY_PLACEHOLDER}","lines":[{{"amount":"10.50","kind":"REFUND"}}],"note":"writ:{}:{KEY_PLACEHOLDER}","payment_version_token":"v9","template":"{{not a hole}}"}}"#,
            made.id
        )
    );
    assert_eq!(request.key_offsets.len(), 2);
    let key = made.seal().unwrap().key;
    let sent = String::from_utf8(request.wire_body(&key)).unwrap();
    assert_eq!(sent, request.body.replace(KEY_PLACEHOLDER, &key.to_string()));
}

#[test]
fn a_fact_that_holds_the_placeholder_is_not_compiled() {
    let backends = square();
    let refund = operation(&backends, "payment.refund");
    let parts = super::support::checked(refund, params(1, "usd"));
    let facts = refund
        .facts(&parts, &[answer(200, json!({ "payment": { "version_token": KEY_PLACEHOLDER } }))])
        .unwrap();
    let error = refund.compile(&super::support::draft_id(), &parts, &facts).unwrap_err();
    assert!(error.to_string().contains("3 places instead of 2"), "{error}");
}

#[test]
fn decimal_amounts_follow_the_backend_s_exponent() {
    let backends = square();
    for (amount, currency, text) in [(5, "usd", "0.05"), (1050, "jpy", "1050"), (1050, "tnd", "1.050")] {
        let made = draft(operation(&backends, "payment.refund"), params(amount, currency), &facts());
        assert!(
            made.request.body.contains(&format!(r#""lines":[{{"amount":"{text}""#)),
            "{}",
            made.request.body
        );
    }
}

#[test]
fn an_error_inside_a_200_is_not_a_success() {
    let backends = square();
    let refund = operation(&backends, "payment.refund");
    let made = draft(refund, params(1050, "usd"), &facts());
    let done = json!({ "id": "r1", "status": "COMPLETED", "payment_id": "GLb:1/x", "amount": "10.50", "currency": "USD" });
    let outcome = |body: Value| refund.classify(&made, &answer(200, body)).outcome;
    assert_eq!(outcome(json!({ "errors": [{ "code": "THROTTLED" }] })), Outcome::NotExecuted);
    assert_eq!(
        outcome(json!({ "errors": [{ "code": "ODD" }], "refund": done })),
        Outcome::Ambiguous
    );
    assert_eq!(outcome(json!({ "refund": done })), Outcome::Applied);
    let mut rounded = done;
    rounded["amount"] = json!("10.5");
    assert_eq!(outcome(json!({ "refund": rounded })), Outcome::Ambiguous);
}

#[test]
fn a_proof_of_absence_says_after_how_long_and_how_often() {
    let backends = square();
    let refund = operation(&backends, "payment.refund");
    let made = draft(refund, params(1050, "usd"), &facts());
    let found = refund.evaluate(
        &refund.reconcile()[0],
        &made,
        &made.seal().unwrap().key,
        &[answer(200, json!({ "refunds": [], "more": false }))],
    );
    match found {
        Finding::Absent { proof: Some(proof) } => assert_eq!((proof.settle.as_secs(), proof.repeats), (90, 3)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_undocumented_window_counts_as_one_hour() {
    let backends = square();
    let window = operation(&backends, "payment.refund").window().unwrap();
    let first = Timestamp::from_seconds(0);
    assert_eq!(window.resend_before(first), Some(Timestamp::from_seconds(3600)));
    let never = writ::backend::Window {
        replay: Replay::Never,
        ..*window
    };
    assert_eq!(never.resend_before(first), None);
}

#[tokio::test]
async fn other_kinds_of_authentication_go_out_as_declared() {
    for (auth, expected) in [
        ("kind = \"header\"\nname = \"x-access-token\"", Some("x-access-token: user:pass")),
        ("kind = \"basic\"", Some("authorization: Basic dXNlcjpwYXNz")),
        ("kind = \"none\"", None),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 8192];
            let read = stream.read(&mut head).unwrap();
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
            String::from_utf8_lossy(&head[..read]).into_owned()
        });
        let text = SQUARISH
            .replace("kind  = \"header\"\nname  = \"x-access-token\"", auth)
            .replace("https://connect.example.com/base", &url);
        let text = if expected.is_none() {
            text.replace("facts = { env = \"FACTS\" }\n", "")
                .replace("read  = { env = \"READ\" }\n", "")
                .replace("write = { env = \"WRITE\" }\n", "")
        } else {
            text
        };
        let backends = Backends::from_texts([("square.toml", text.as_str())], Path::new(".")).unwrap_or_else(|m| panic!("{m}"));
        let made = draft(operation(&backends, "payment.refund"), params(1, "usd"), &facts());
        let backend = backends.backend(&"square".parse().unwrap()).unwrap();
        let client = Client::connect(backend, Need::Proxy, &|_| Some("user:pass".to_owned())).unwrap();
        let sent = client.send(&made.request, &made.seal().unwrap().key).await;
        assert!(matches!(sent, Sent::Answer(_)), "{sent:?}");
        let head = server.join().unwrap();
        match expected {
            Some(line) => assert!(head.contains(&format!("\r\n{line}\r\n")), "{head}"),
            None => assert!(!head.contains("authorization") && !head.contains("x-access-token"), "{head}"),
        }
    }
}

#[test]
fn a_secret_file_that_others_can_change_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let text = SQUARISH.replace("{ env = \"WRITE\" }", "{ file = \"write.secret\" }");
    let backends = Backends::from_texts([("square.toml", text.as_str())], dir.path()).unwrap();
    let backend = backends.backend(&"square".parse().unwrap()).unwrap();
    let path = dir.path().join("write.secret");
    std::fs::write(&path, "sk_1\n").unwrap();
    let connect = |mode: u32| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        Client::connect(backend, Need::Proxy, &|_| Some("x".to_owned()))
    };
    for mode in [0o620, 0o602, 0o666] {
        let mistakes = connect(mode).unwrap_err();
        let said = mistakes[0].to_string();
        assert!(
            mistakes.len() == 1 && said.contains(&format!("can be changed by other accounts (mode {mode:03o})")),
            "{said}"
        );
        assert!(!said.contains("sk_1"));
    }
    for mode in [0o600, 0o400, 0o640, 0o444] {
        assert!(connect(mode).is_ok(), "{mode:o}");
    }
}

#[test]
fn two_secrets_with_one_value_are_named_and_not_printed() {
    let other = SQUARISH
        .replacen("\"square\"", "\"circle\"", 1)
        .replace("payment.refund", "round.refund")
        .replace("FACTS", "CIRCLE_FACTS")
        .replace("\"WRITE\"", "\"CIRCLE_WRITE\"");
    let backends = Backends::from_texts([("square.toml", SQUARISH), ("circle.toml", &other)], Path::new(".")).unwrap();
    let lines =
        |env: &dyn Fn(&str) -> Option<String>| -> Vec<String> { same_secret(&backends, env).iter().map(ToString::to_string).collect() };
    let own = |name: &str| Some(format!("sk_{name}"));
    assert_eq!(lines(&own), Vec::<String>::new());
    assert_eq!(lines(&|_| None), Vec::<String>::new());
    let end = "so the broker would hold what can execute: give it one that can only read";
    // A blank at the end is no other value: it is not sent.
    let within = |name: &str| {
        if name == "FACTS" {
            Some("sk_WRITE\n".to_owned())
        } else {
            own(name)
        }
    };
    assert_eq!(
        lines(&within),
        [format!("square.toml: auth.facts: has the same value as `write`, {end}")]
    );
    let across = |name: &str| if name == "CIRCLE_FACTS" { own("WRITE") } else { own(name) };
    assert_eq!(
        lines(&across),
        [format!(
            "circle.toml: auth.facts: has the same value as `auth.write` in square.toml, {end}"
        )]
    );
    let readers = |name: &str| {
        if name == "READ" || name.ends_with("FACTS") {
            Some("sk_r".to_owned())
        } else {
            own(name)
        }
    };
    assert_eq!(lines(&readers), Vec::<String>::new(), "two that only read");
}

#[test]
fn a_secret_file_is_read_from_beside_the_backend_file() {
    let dir = tempfile::tempdir().unwrap();
    let text = SQUARISH.replace("{ env = \"WRITE\" }", "{ file = \"write.secret\" }");
    let backends = Backends::from_texts([("square.toml", text.as_str())], dir.path()).unwrap();
    let backend = backends.backend(&"square".parse().unwrap()).unwrap();
    let env = |_: &str| Some("x".to_owned());
    let missing = Client::connect(backend, Need::Proxy, &env).unwrap_err();
    assert!(
        missing[0].to_string().starts_with("square.toml: auth.write: the file `"),
        "{}",
        missing[0]
    );
    std::fs::write(dir.path().join("write.secret"), "\n").unwrap();
    assert!(
        Client::connect(backend, Need::Proxy, &env).unwrap_err()[0]
            .problem
            .contains("is empty")
    );
    std::fs::write(dir.path().join("write.secret"), "sk_1\n").unwrap();
    assert!(Client::connect(backend, Need::Proxy, &env).is_ok());
    assert!(
        Client::connect(backend, Need::Broker, &|name| (name == "FACTS").then(|| "x".to_owned())).is_ok(),
        "the broker needs no write secret"
    );
}
