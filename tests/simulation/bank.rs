//! A model of a payments backend, in the dialect of `policies/backends/stripe.toml`: charges, refunds, and keys that it remembers for a while.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use writ::backend::Answer;

/// How the backend differs from one schedule to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Habits {
    /// How long it remembers a key, in milliseconds; zero if it knows none.
    pub remembers: i64,
    /// Whether it refuses to give back more than was paid.
    pub counts: bool,
    /// Whether a refusal under a key is forgotten, so that the same request runs anew.
    pub retries_refusals: bool,
}

/// What it does with one request that changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treat {
    /// Runs it and answers.
    Well,
    /// Runs it; the bank has not answered yet.
    Pending,
    /// It never arrives.
    DropBefore,
    /// Runs it; the answer is lost.
    DropAfter,
    /// Holds it; the caller hears nothing, and it runs later.
    Hold,
    /// No connection.
    NoConnection,
    /// Runs it and answers 500, now and whenever the key comes again.
    ErrorAfter,
    /// Answers 503 and has done nothing.
    ErrorBefore,
    /// Answers 429.
    Limit,
    /// Answers 409 as if the same request were running.
    InFlight,
    /// Refuses it: the card network says no.
    Refuse,
    /// Answers 200 with a refund of another amount, and has done nothing.
    OtherAmount,
    /// Answers 200 with a refund of another draft, and has done nothing.
    OtherDraft,
    /// Runs it and answers 200 with half an answer.
    Torn,
}

/// How a look at it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Well,
    Lost,
    Error,
}

#[derive(Debug, Clone)]
pub struct Charge {
    pub id: String,
    pub amount: i64,
}

#[derive(Debug, Clone)]
pub struct Refund {
    pub id: String,
    pub charge: String,
    pub amount: i64,
    pub status: &'static str,
    pub draft: Option<String>,
    pub key: Option<String>,
}

impl Refund {
    /// Whether money has moved or may still.
    pub fn lives(&self) -> bool {
        !matches!(self.status, "failed" | "canceled")
    }

    pub fn json(&self) -> Value {
        json!({
            "object": "refund", "id": self.id, "charge": self.charge, "amount": self.amount, "currency": "usd", "status": self.status,
            "metadata": { "writ_draft": self.draft, "writ_key": self.key },
        })
    }
}

/// One request that wanted to change something, as it came off the wire.
#[derive(Debug, Clone)]
pub struct Request {
    pub at: i64,
    pub key: Option<String>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn field(&self, name: &str) -> Option<String> {
        form_urlencoded::parse(&self.body)
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.into_owned())
    }
}

struct Known {
    first: i64,
    body: Vec<u8>,
    answer: Option<(u16, Value)>,
}

/// The backend.
pub struct Bank {
    pub habits: Habits,
    pub charges: Vec<Charge>,
    pub refunds: Vec<Refund>,
    keys: BTreeMap<String, Known>,
    /// What arrived and has not run yet, with the moment by which it will have.
    held: Vec<(i64, Request)>,
    /// A request that came under a key which the backend had forgotten.
    pub forgotten: Option<String>,
}

impl Bank {
    pub fn new(habits: Habits, charges: Vec<Charge>) -> Self {
        Self {
            habits,
            charges,
            refunds: Vec::new(),
            keys: BTreeMap::new(),
            held: Vec::new(),
            forgotten: None,
        }
    }

    fn refunded(&self, charge: &str) -> i64 {
        self.refunds
            .iter()
            .filter(|r| r.charge == charge && r.lives())
            .map(|r| r.amount)
            .sum()
    }

    /// Charges of which more was given back than was paid.
    pub fn overdrawn(&self) -> Option<&Charge> {
        self.charges.iter().find(|charge| self.refunded(&charge.id) > charge.amount)
    }

    /// The answer to a GET.
    pub fn get(&self, path: &str, query: &str) -> (u16, Value) {
        if let Some(id) = path.strip_prefix("/v1/charges/") {
            return match self.charges.iter().find(|c| c.id == id) {
                None => (404, json!({ "error": { "type": "invalid_request_error" } })),
                Some(charge) => (
                    200,
                    json!({
                        "object": "charge", "id": charge.id, "amount": charge.amount, "amount_refunded": self.refunded(id), "currency": "usd",
                        "status": "succeeded", "customer": format!("cus_{id}"), "disputed": false,
                    }),
                ),
            };
        }
        let of = form_urlencoded::parse(query.as_bytes())
            .find(|(n, _)| n == "charge")
            .map(|(_, v)| v.into_owned());
        let data: Vec<Value> = self
            .refunds
            .iter()
            .filter(|r| Some(&r.charge) == of.as_ref())
            .map(Refund::json)
            .collect();
        (200, json!({ "object": "list", "has_more": false, "data": data }))
    }

    /// Takes a request in; gives the answer, or nothing if the caller hears nothing.
    pub fn post(&mut self, request: Request, treat: Treat) -> Option<(u16, Value)> {
        match treat {
            Treat::DropBefore | Treat::NoConnection => None,
            Treat::ErrorBefore => Some((503, json!({ "error": { "type": "api_error" } }))),
            Treat::Limit => Some((429, json!({ "error": { "type": "rate_limit" } }))),
            Treat::InFlight => Some((409, json!({ "error": { "type": "conflict" } }))),
            Treat::OtherAmount | Treat::OtherDraft => {
                let mut other = self.refund_of(&request, "succeeded");
                "re_other".clone_into(&mut other.id);
                if treat == Treat::OtherAmount {
                    other.amount += 1;
                } else {
                    other.draft = Some("drf_00000000000000000000000000000000".to_owned());
                }
                Some((200, other.json()))
            }
            Treat::Hold => {
                self.held.push((request.at + 45_000, request));
                None
            }
            Treat::DropAfter | Treat::Torn => {
                let ran = self.run(request, "succeeded", None);
                (treat == Treat::Torn && ran.0 == 200).then(|| (200, Value::String("half".to_owned())))
            }
            Treat::ErrorAfter => Some(self.run(request, "succeeded", Some(500))),
            Treat::Refuse => Some(self.run(request, "refused", None)),
            Treat::Pending => Some(self.run(request, "pending", None)),
            Treat::Well => Some(self.run(request, "succeeded", None)),
        }
    }

    /// Runs what it holds: all that is due at `now`, or simply all.
    pub fn release(&mut self, now: i64) {
        let (due, held) = std::mem::take(&mut self.held).into_iter().partition(|(until, _)| *until <= now);
        self.held = held;
        let due: Vec<(i64, Request)> = due;
        for (_, request) in due {
            self.run(request, "succeeded", None);
        }
    }

    pub fn holds(&self) -> usize {
        self.held.len()
    }

    /// The key, the window, then the request itself.
    fn run(&mut self, request: Request, status: &'static str, instead: Option<u16>) -> (u16, Value) {
        let known = request.key.clone().filter(|_| self.habits.remembers > 0);
        if let Some(key) = &known
            && let Some(entry) = self.keys.get(key)
        {
            if request.at >= entry.first + self.habits.remembers {
                // From here on the same key is a new request.
                self.forgotten = Some(key.clone());
                self.keys.remove(key);
            } else if entry.body != request.body {
                return (400, json!({ "error": { "type": "idempotency_error" } }));
            } else if let Some((status, value)) = &entry.answer {
                return (*status, value.clone());
            }
        }
        let answer = self.execute(&request, status);
        let answer = instead.map_or(answer, |status| (status, json!({ "error": { "type": "api_error" } })));
        if let Some(key) = known {
            let first = self.keys.get(&key).map_or(request.at, |entry| entry.first);
            let kept = !(self.habits.retries_refusals && answer.0 / 100 == 4);
            self.keys.insert(
                key,
                Known {
                    first,
                    body: request.body,
                    answer: kept.then(|| answer.clone()),
                },
            );
        }
        answer
    }

    fn execute(&mut self, request: &Request, status: &'static str) -> (u16, Value) {
        if status == "refused" {
            return (402, json!({ "error": { "type": "card_error", "code": "card_declined" } }));
        }
        let refund = self.refund_of(request, status);
        let Some(charge) = self.charges.iter().find(|c| c.id == refund.charge) else {
            return (404, json!({ "error": { "type": "invalid_request_error" } }));
        };
        if self.habits.counts && self.refunded(&charge.id) + refund.amount > charge.amount {
            return (
                400,
                json!({ "error": { "type": "invalid_request_error", "code": "charge_already_refunded" } }),
            );
        }
        let answer = refund.json();
        self.refunds.push(refund);
        (200, answer)
    }

    fn refund_of(&self, request: &Request, status: &'static str) -> Refund {
        Refund {
            id: format!("re_{}", self.refunds.len() + 1),
            charge: request.field("charge").unwrap_or_default(),
            amount: request.field("amount").and_then(|a| a.parse().ok()).unwrap_or_default(),
            status,
            draft: request.field("metadata[writ_draft]"),
            key: request.field("metadata[writ_key]"),
        }
    }

    /// Somebody else gives money back.
    pub fn elsewhere(&mut self, charge: usize, amount: i64) {
        let id = self.charges[charge].id.clone();
        if self.refunded(&id) + amount <= self.charges[charge].amount {
            self.refunds.push(Refund {
                id: format!("re_{}", self.refunds.len() + 1),
                charge: id,
                amount,
                status: "succeeded",
                draft: None,
                key: None,
            });
        }
    }
}

/// A whole answer.
pub fn answer((status, value): (u16, Value)) -> Answer {
    let body = match value {
        Value::String(text) => format!("{{\"object\": \"{text}").into_bytes(),
        value => value.to_string().into_bytes(),
    };
    let mut headers = BTreeMap::from([("content-type".to_owned(), "application/json".to_owned())]);
    if status == 429 {
        headers.insert("retry-after".to_owned(), "1".to_owned());
    }
    Answer { status, headers, body }
}
