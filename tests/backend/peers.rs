//! The shipped files against servers: two that nobody here wrote, and the sandbox.

use std::sync::Arc;

use serde_json::{Value, json};

use super::support::{checked, draft, operation, shipped_at};
use crate::support::servers::{Server, localstripe, stateful_mock};
use crate::support::{ManualClock, SeededEntropy};
use writ::backend::{Answer, Backends, Clients, Credential, Finding, Need, Operation, Outcome, Sent};
use writ::domain::draft::{DraftDocument, IdempotencyKey};
use writ::domain::secret::Secret;
use writ::sandbox::{Fault, FaultKind, RunningSandbox, Sandbox, SandboxConfig, demo};

struct Run {
    backends: Backends,
    clients: Clients,
}

impl Run {
    fn at(url: &str, key: &str) -> Self {
        let backends = shipped_at(url);
        let clients = Clients::connect(&backends, Need::All, &|_| Some(key.to_owned())).unwrap();
        Self { backends, clients }
    }

    fn operation(&self, name: &str) -> &Operation {
        operation(&self.backends, name)
    }

    async fn facts(&self, operation: &Operation, params: &Value) -> Answer {
        let plans = operation.fact_reads(&checked(operation, params.clone()));
        let client = self.clients.of(&plans[0].backend).unwrap();
        client.read(&plans[0], Credential::Facts).await.unwrap()
    }

    async fn draft(&self, name: &str, params: Value) -> (DraftDocument, IdempotencyKey) {
        let operation = self.operation(name);
        let facts = self.facts(operation, &params).await;
        let made = draft(operation, params, &facts);
        let key = made.seal().unwrap().key;
        (made, key)
    }

    async fn send(&self, draft: &DraftDocument, key: &IdempotencyKey) -> Sent {
        self.clients.of(&draft.request.backend).unwrap().send(&draft.request, key).await
    }

    async fn outcome(&self, draft: &DraftDocument, key: &IdempotencyKey) -> (Outcome, Option<String>) {
        match self.send(draft, key).await {
            Sent::Answer(answer) => {
                let said = self.operation(draft.operation.as_str()).classify(draft, &answer);
                (said.outcome, said.reference)
            }
            other => panic!("{other:?}"),
        }
    }

    async fn look(&self, draft: &DraftDocument, key: &IdempotencyKey) -> Finding {
        let operation = self.operation(draft.operation.as_str());
        let step = &operation.reconcile()[0];
        let plan = operation.look_up(step, draft, key, None).unwrap();
        let answer = self.clients.of(&plan.backend).unwrap().read(&plan, Credential::Read).await.unwrap();
        operation.evaluate(step, draft, key, &[answer])
    }

    async fn still_fresh(&self, draft: &DraftDocument) -> bool {
        let operation = self.operation(draft.operation.as_str());
        let plan = operation.precondition(draft).unwrap();
        let answer = self.clients.of(&plan.backend).unwrap().read(&plan, Credential::Read).await.unwrap();
        operation.precondition_holds(draft, &answer).is_ok()
    }
}

fn refund(charge: &str, amount: i64) -> Value {
    json!({ "charge": charge, "amount": amount, "currency": "usd" })
}

/// One refund from the facts to the look-up, on a server that keeps a charge of 400.00.
async fn refunded_once(server: Option<Server>) {
    let Some(server) = server else { return };
    let (server, charge) = tokio::task::spawn_blocking(move || {
        let charge = server.charge(40_000, "usd");
        (server, charge)
    })
    .await
    .unwrap();
    let run = Run::at(&server.url, "sk_test_12345678");
    let (made, key) = run.draft("refund.create", refund(&charge, 24_000)).await;
    assert!(run.still_fresh(&made).await);
    assert_eq!(run.look(&made, &key).await, Finding::Absent { proof: None });
    let (outcome, reference) = run.outcome(&made, &key).await;
    assert_eq!(outcome, Outcome::Applied);
    match run.look(&made, &key).await {
        Finding::Found(said) => assert_eq!((said.outcome, said.reference), (Outcome::Applied, reference)),
        other => panic!("{other:?}"),
    }
    assert!(!run.still_fresh(&made).await, "the refund moved the charge");
    let operation = run.operation("refund.create");
    let params = refund(&charge, 24_000);
    let facts = run.facts(operation, &params).await;
    assert!(operation.facts(&checked(operation, params), &[facts]).is_err(), "160.00 are left");
    tokio::task::spawn_blocking(move || drop(server)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shipped_file_refunds_at_localstripe() {
    refunded_once(tokio::task::spawn_blocking(localstripe).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shipped_file_refunds_at_the_stateful_mock() {
    refunded_once(tokio::task::spawn_blocking(stateful_mock).await.unwrap()).await;
}

async fn sandbox() -> (RunningSandbox, Run) {
    let config = SandboxConfig::new(Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(3)));
    let config = SandboxConfig {
        write_key: Secret::new("sk_sandbox_write".to_owned()),
        ..config
    };
    let running = Sandbox::start(config).await.unwrap();
    let run = Run::at(&running.url, "sk_sandbox_write");
    (running, run)
}

#[tokio::test]
async fn a_refund_whose_answer_is_lost_is_found_in_the_list() {
    let (sandbox, run) = sandbox().await;
    let (made, key) = run.draft("refund.create", refund(demo::CHARGE, 24_000)).await;
    sandbox.fault(Fault::once(FaultKind::DropAfter, "POST", "/v1/refunds"));
    assert!(matches!(run.send(&made, &key).await, Sent::Lost { .. }));
    assert!(matches!(run.look(&made, &key).await, Finding::Found(said) if said.outcome == Outcome::Applied));
    assert_eq!(
        run.outcome(&made, &key).await.0,
        Outcome::Applied,
        "the same request again is the stored answer"
    );
    assert_eq!(sandbox.refunds(demo::CHARGE).len(), 1);
}

#[tokio::test]
async fn a_request_lost_before_the_effect_is_not_in_the_list() {
    let (sandbox, run) = sandbox().await;
    let (made, key) = run.draft("refund.create", refund(demo::CHARGE, 24_000)).await;
    sandbox.fault(Fault::once(FaultKind::DropBefore, "POST", "/v1/refunds"));
    assert!(matches!(run.send(&made, &key).await, Sent::Lost { .. }));
    assert_eq!(run.look(&made, &key).await, Finding::Absent { proof: None });
    assert!(sandbox.refunds(demo::CHARGE).is_empty());
}

#[tokio::test]
async fn accounts_change_once_under_the_version_that_was_read() {
    let (sandbox, run) = sandbox().await;
    let old = json!({ "line1": "12 Harbour Street", "city": "Portland", "postal_code": "97201", "country": "US" });
    let new = json!({ "line1": "9 Quay Road", "line2": "Flat 2", "city": "Portland", "postal_code": "97202", "country": "US" });
    let (address, address_key) = run
        .draft(
            "shipping_address.update",
            json!({ "customer": demo::CUSTOMER, "old": old, "new": new }),
        )
        .await;
    let change = json!({ "customer": demo::CUSTOMER, "old_email": "ada.moreno@example.com", "new_email": "ada@example.org" });
    let (email, email_key) = run.draft("email.update", change).await;
    assert_eq!(run.look(&address, &address_key).await, Finding::Absent { proof: None });
    assert_eq!(run.outcome(&address, &address_key).await.0, Outcome::Applied);
    assert!(matches!(run.look(&address, &address_key).await, Finding::Found(_)));
    assert!(!run.still_fresh(&email).await, "the version moved");
    assert_eq!(run.outcome(&email, &email_key).await.0, Outcome::Failed, "412");
    let (version, customer) = sandbox.customer(demo::CUSTOMER).unwrap();
    assert_eq!(
        (version, &customer["shipping_address"], &customer["email"]),
        (2, &new, &json!("ada.moreno@example.com"))
    );
}

#[tokio::test]
async fn reads_show_an_order_and_its_charge() {
    let (_sandbox, run) = sandbox().await;
    for (name, params, id) in [
        ("order.read", json!({ "order": demo::ORDER }), demo::ORDER),
        ("charge.read", json!({ "charge": demo::CHARGE }), demo::CHARGE),
        ("customer.read", json!({ "customer": demo::CUSTOMER }), demo::CUSTOMER),
    ] {
        let read = run.operation(name);
        let plan = read.read_plan(&checked(read, params)).unwrap();
        let answer = run.clients.of(&plan.backend).unwrap().read(&plan, Credential::Read).await.unwrap();
        let shown = read.shape(&answer).unwrap();
        assert_eq!(shown.member("id").unwrap().as_str(), Some(id));
        assert_eq!(shown.member("complaint"), None);
    }
}
