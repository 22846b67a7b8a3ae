//! A backend's answers: "applied" only about the draft's own target, amount and currency, with an id that can be written down, whatever came back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Map, Value};
use writ::backend::{Answer, Backends, EXAMPLES, Finding, Operation, Outcome, SHIPPED, retry_after};
use writ::domain::digest::Digest;
use writ::domain::draft::{DraftDocument, IdempotencyKey, Maker, Resource};
use writ::domain::id::DraftId;
use writ::domain::json::Json;
use writ::domain::policy::PolicyRef;
use writ::domain::time::Timestamp;

use super::edit;

/// One operation of a shipped file with a draft, good answers, and what a success must say, written down apart from the file.
struct Sample {
    name: String,
    draft: DraftDocument,
    key: IdempotencyKey,
    params: Json,
    facts: Vec<u8>,
    answer: Vec<u8>,
    /// The answers, in order, by which a look-up finds it.
    found: Vec<Vec<u8>>,
    /// Whether the request carries something that was read, such as a version.
    body_holds_facts: bool,
    /// The status and the outcome of the good answer.
    good: (u16, Outcome),
    /// What an answer about this draft says, and what a look-up's.
    effect: Map<String, Value>,
    found_effect: Map<String, Value>,
    reference: String,
}

static BACKENDS: LazyLock<Backends> = LazyLock::new(|| {
    Backends::from_texts(SHIPPED.into_iter().chain(EXAMPLES), Path::new(".")).unwrap_or_else(|mistakes| panic!("{mistakes}"))
});

static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(|| {
    let samples: Vec<Value> = serde_json::from_str(include_str!("../samples.json")).unwrap();
    samples.iter().map(sample).collect()
});

const DRAFT: &str = "drf_0192f0c1a2b37c4d8e5f60718293a4b5";
const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

fn operation(name: &str) -> &'static Operation {
    BACKENDS.operation(&name.parse().unwrap()).unwrap()
}

fn sample(sample: &Value) -> Sample {
    let name = sample["operation"].as_str().unwrap();
    let operation = operation(name);
    let params = Json::from_value(&sample["params"]).unwrap();
    let bytes = |value: &Value| serde_json::to_vec(value).unwrap();
    let facts = bytes(&sample["facts"]);
    let draft = draft(operation, &params, &facts);
    let key = draft.seal().unwrap().key;
    let filled = |value: &Value| value.to_string().replace("{draft}", DRAFT).replace("{key}", &key.to_string());
    let effect = |effect: &Value| serde_json::from_str::<Map<String, Value>>(&filled(effect)).unwrap();
    let outcome = if sample["outcome"] == "pending" {
        Outcome::Pending
    } else {
        Outcome::Applied
    };
    Sample {
        name: name.to_owned(),
        params,
        facts,
        answer: filled(&sample["answer"]).into_bytes(),
        found: sample["found"]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| filled(found).into_bytes())
            .collect(),
        body_holds_facts: sample["body_holds_facts"] == true,
        good: (sample["status"].as_u64().map_or(200, |status| status.try_into().unwrap()), outcome),
        effect: effect(&sample["effect"]),
        found_effect: effect(sample.get("found_effect").unwrap_or(&sample["effect"])),
        reference: sample["reference"].as_str().unwrap().to_owned(),
        draft,
        key,
    }
}

fn draft(operation: &Operation, params: &Json, facts: &[u8]) -> DraftDocument {
    let id: DraftId = DRAFT.parse().unwrap();
    let checked = operation.check(params).unwrap_or_else(|errors| panic!("{errors:?}"));
    let answers = vec![answer(200, 0, facts.to_vec()); operation.fact_reads(&checked).len()];
    let facts = operation.facts(&checked, &answers).unwrap_or_else(|error| panic!("{error}"));
    let request = operation.compile(&id, &checked, &facts).unwrap_or_else(|error| panic!("{error}"));
    DraftDocument {
        v: 1,
        id,
        salt: "AAAAAAAAAAAAAAAAAAAAAA".to_owned(),
        tenant: "default".parse().unwrap(),
        operation: operation.name().clone(),
        consequence: operation.consequence(),
        resource: Resource {
            kind: operation.resource_type().clone(),
            id: checked.resource().clone(),
            version: facts.resource_version.clone(),
        },
        amount: checked.amount(),
        parameters: checked.params().clone(),
        maker: Maker {
            client: "support".parse().unwrap(),
            owner: None,
        },
        on_behalf_of: None,
        case_id: None,
        reason_code: None,
        evidence: Vec::new(),
        facts: facts.json,
        request,
        on_failure: operation.on_failure().to_owned(),
        adapter: operation.backend().adapter().clone(),
        policy: PolicyRef {
            id: "refunds".to_owned(),
            version: 1,
            sha256: Digest::of(b"policy"),
            limits_sha256: Digest::of(b"limits"),
        },
        supersedes: None,
        created_at: NOW,
        expires_at: NOW.plus(std::time::Duration::from_secs(600)),
    }
}

/// An answer with the headers that `which` picks.
fn answer(status: u16, which: u8, body: Vec<u8>) -> Answer {
    let mut headers = BTreeMap::from([("etag".to_owned(), if which & 1 == 0 { "\"1\"" } else { "\"2\"" }.to_owned())]);
    let extra = [
        ("stripe-should-retry", "false"),
        ("retry-after", "120"),
        ("retry-after", "Mon, 21 Sep 2026 14:20:00 GMT"),
        ("retry-after", "-1"),
    ];
    let picked = extra.iter().enumerate().filter(|(bit, _)| which >> (bit + 1) & 1 == 1);
    headers.extend(picked.map(|(_, (name, value))| ((*name).to_owned(), (*value).to_owned())));
    Answer { status, headers, body }
}

/// Which operation and what is asked, status, headers; then the bodies, each as it stands or as changes to a good one, parted by 0xFF.
pub fn check(input: &[u8]) {
    let ([which, kind, class, detail, headers], rest) =
        input.split_first_chunk::<5>().map_or(([0; 5], input), |(head, rest)| (*head, rest));
    let sample = &SAMPLES[usize::from(which) % SAMPLES.len()];
    let status = if class < 128 {
        sample.good.0
    } else {
        100 + u16::from_be_bytes([class, detail]) % 500
    };
    let edited = kind & 1 == 1;
    let body = |good: &[u8], script: &[u8]| if edited { edit::apply(good, script) } else { script.to_vec() };
    match kind >> 1 & 3 {
        0 | 1 => classify(sample, &answer(status, headers, body(&sample.answer, rest))),
        2 => {
            let bodies = rest.split(|byte| *byte == 0xff).take(12);
            let last = sample.found.last().unwrap_or(&sample.answer);
            let good = sample.found.iter().chain(std::iter::repeat(last));
            let answers: Vec<Answer> = bodies
                .zip(good)
                .map(|(script, good)| answer(status, headers, body(good, script)))
                .collect();
            look_up(sample, &answers);
        }
        _ => {
            read(sample, &answer(status, headers, body(&sample.facts, rest)));
        }
    }
}

fn classify(sample: &Sample, answer: &Answer) {
    let operation = operation(&sample.name);
    let first = operation.classify(&sample.draft, answer);
    assert_eq!(operation.classify(&sample.draft, answer), first, "two readings of one answer");
    if let Some(asked) = retry_after(answer, NOW) {
        assert!(
            operation
                .retry()
                .is_none_or(|retry| retry.wait(2, Some(answer), NOW, &Nothing) <= asked)
        );
    }
    writable(first.reference.as_deref());
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if matches!(first.outcome, Outcome::Applied | Outcome::Pending) {
        assert!(answer.is_success(), "{first:?} of status {}", answer.status);
        assert!(
            same(&body, &sample.effect, first.outcome),
            "{first:?} although the answer is about something else: {body}"
        );
        assert_eq!(body.pointer(&sample.reference).and_then(text), first.reference, "{body}");
    }
}

fn look_up(sample: &Sample, answers: &[Answer]) {
    let operation = operation(&sample.name);
    for step in operation.reconcile() {
        let found = operation.evaluate(step, &sample.draft, &sample.key, answers);
        assert_eq!(
            operation.evaluate(step, &sample.draft, &sample.key, answers),
            found,
            "two readings of the same answers"
        );
        match found {
            Finding::Found(classified) => {
                assert!(answers.iter().all(Answer::is_success));
                writable(classified.reference.as_deref());
                let bodies: Vec<Value> = answers
                    .iter()
                    .filter_map(|answer| serde_json::from_slice(&answer.body).ok())
                    .collect();
                let about = |value: &Value| same(value, &sample.found_effect, classified.outcome);
                if matches!(classified.outcome, Outcome::Applied | Outcome::Pending) {
                    assert!(
                        bodies.iter().any(|body| anywhere(body, &about)),
                        "{classified:?} was found nowhere in {bodies:?}"
                    );
                    assert!(classified.reference.is_some(), "{classified:?} names nothing");
                }
            }
            Finding::More(plan) => assert!(
                plan.url.starts_with(operation.backend().base_url().as_str().trim_end_matches('/')),
                "{plan:?}"
            ),
            Finding::Absent { proof } => assert_eq!(proof, None, "no shipped file says that what is not found was not done"),
            Finding::Inconclusive { why } => assert!(!why.is_empty() && why.len() < 1024, "{why}"),
        }
    }
}

fn read(sample: &Sample, answer: &Answer) {
    for name in BACKENDS.operations().filter(|operation| operation.is_read()) {
        if let Ok(shown) = name.shape(answer) {
            assert_eq!(
                Json::parse_deeper(&shown.canonical()).as_ref(),
                Ok(&shown),
                "what is shown has no canonical form"
            );
            assert!(
                !shown.to_value().to_string().contains("ada.moreno@"),
                "an address is shown unmasked: {shown:?}"
            );
        }
    }
    let operation = operation(&sample.name);
    let checked = operation.check(&sample.params).unwrap();
    if let Ok(facts) = operation.facts(&checked, std::slice::from_ref(answer)) {
        assert_eq!(
            Json::parse_deeper(&facts.json.canonical()).as_ref(),
            Ok(&facts.json),
            "the facts have no canonical form"
        );
        if let Ok(request) = operation.compile(&sample.draft.id, &checked, &facts) {
            assert_eq!(
                (&request.method, &request.url),
                (&sample.draft.request.method, &sample.draft.request.url)
            );
            let same = request.body == sample.draft.request.body;
            assert!(same || sample.body_holds_facts, "the facts changed the body: {}", request.body);
        }
    }
    if operation.precondition(&sample.draft).is_some() && operation.precondition_holds(&sample.draft, answer).is_ok() {
        assert!(answer.is_success());
    }
}

/// Whether this is about the draft: every place that counts says what the draft says.
fn same(body: &Value, effect: &Map<String, Value>, outcome: Outcome) -> bool {
    effect.iter().all(|(pointer, wanted)| {
        let found = body.pointer(pointer).unwrap_or(&Value::Null);
        match (pointer.as_str(), found, wanted) {
            (place, Value::String(found), Value::String(wanted)) if place.contains("currency") => found.eq_ignore_ascii_case(wanted),
            (place, Value::String(found), Value::String(wanted)) if place.ends_with("/value") || place.ends_with("/amount") => {
                plain_decimal(found) == plain_decimal(wanted)
            }
            (place, Value::String(_), _) if place.ends_with("/status") && outcome == Outcome::Pending => true,
            _ => found == wanted,
        }
    })
}

/// A decimal number without the zeros that say nothing.
fn plain_decimal(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

fn anywhere(value: &Value, about: &dyn Fn(&Value) -> bool) -> bool {
    about(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| anywhere(item, about)),
            Value::Object(members) => members.values().any(|member| anywhere(member, about)),
            _ => false,
        }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// What is kept of an answer can stand in an event.
fn writable(reference: Option<&str>) {
    if let Some(reference) = reference {
        assert!(!reference.is_empty() && reference.len() <= 255, "{reference:?} is no id");
        let event = Json::String(reference.to_owned()).canonical();
        assert!(Json::parse(&event).is_ok(), "{reference:?} cannot be written down");
    }
}

/// No jitter.
struct Nothing;

impl writ::domain::clock::Entropy for Nothing {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(0);
    }
}

/// The operations that change something and have no sample: the target would not look at them.
pub fn without_sample() -> Vec<String> {
    let known = |operation: &&Operation| SAMPLES.iter().any(|sample| sample.name == operation.name().as_str());
    let open = BACKENDS.operations().filter(|operation| !operation.is_read() && !known(operation));
    open.map(|operation| operation.name().to_string()).collect()
}

/// The good answers are taken as what they are, so that changes to them start near the edge.
pub fn samples_are_good() {
    for sample in SAMPLES.iter() {
        let operation = operation(&sample.name);
        let classified = operation.classify(&sample.draft, &answer(sample.good.0, 1, sample.answer.clone()));
        assert_eq!(classified.outcome, sample.good.1, "{}: {classified:?}", sample.name);
        let found: Vec<Answer> = sample.found.iter().map(|found| answer(200, 1, found.clone())).collect();
        let evaluated = |step| operation.evaluate(step, &sample.draft, &sample.key, &found);
        let is_found = operation
            .reconcile()
            .iter()
            .any(|step| matches!(evaluated(step), Finding::Found(_)));
        assert_eq!(is_found, !found.is_empty(), "{} is found by no step", sample.name);
    }
}
