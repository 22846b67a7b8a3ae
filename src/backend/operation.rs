//! One operation of a backend as its file declares it, checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::answer::Fields;
use super::classify::Rule;
use super::condition::Condition;
use super::graphql::Question;
use super::money::Currencies;
use super::params::{ParamError, Params};
use super::reconcile::Step;
use super::retry::{Retry, Window};
use super::secrets::Auth;
use super::template::{Context, Expression, Path, query};
use super::told::Events;
use super::webhook::Webhook;
use crate::domain::draft::{AdapterRef, DraftDocument, KeyPlacement};
use crate::domain::json::Json;
use crate::domain::money::{Currency, Money};
use crate::domain::name::{BackendName, OperationName, ResourceId, ResourceType};
use crate::domain::operation::Consequence;

/// A configured backend: where it is, how it is spoken to.
#[derive(Debug)]
pub struct Backend {
    pub(super) name: BackendName,
    /// Without a slash at the end.
    pub(super) base_url: Url,
    pub(super) private: Private,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) connect_timeout: Duration,
    pub(super) total_timeout: Duration,
    pub(super) max_response: usize,
    pub(super) auth: Auth,
    pub(super) currencies: Currencies,
    pub(super) adapter: AdapterRef,
    pub(super) webhook: Option<Webhook>,
}

/// Whether a backend may be at a private or loopback address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Private {
    Allowed,
    Refused,
}

impl Backend {
    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &BackendName {
        &self.name
    }

    /// Where it is.
    #[must_use]
    pub const fn base_url(&self) -> &Url {
        &self.base_url
    }

    /// How many decimals the currency has here; `None` if the backend does not take it.
    #[must_use]
    pub fn exponent(&self, currency: Currency) -> Option<u8> {
        self.currencies.exponent(currency)
    }

    /// How long one request to it may take at most.
    #[must_use]
    pub const fn total_timeout(&self) -> Duration {
        self.total_timeout
    }

    /// The file that describes it and its hash.
    #[must_use]
    pub const fn adapter(&self) -> &AdapterRef {
        &self.adapter
    }

    pub(super) fn url(&self, path: &str, query: &str) -> String {
        let base = self.base_url.as_str().trim_end_matches('/');
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{base}{path}{mark}{query}")
    }
}

/// A read that the backend file describes, ready to be sent by a [`super::Client`]: a GET, or a question in GraphQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPlan {
    /// The backend it goes to.
    pub backend: BackendName,
    /// What the file calls it.
    pub name: String,
    /// The whole URL.
    pub url: String,
    /// A GraphQL question as JSON, which is sent by POST and changes nothing; none for a GET.
    pub question: Option<String>,
}

/// A read in the file: where it goes and which fields are kept.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub(super) name: String,
    pub(super) path: Path,
    pub(super) query: Vec<(String, Expression)>,
    pub(super) question: Option<Question>,
    pub(super) keep: Fields,
}

impl Read {
    pub(super) fn plan(&self, backend: &Backend, context: &Context<'_>) -> Option<ReadPlan> {
        Some(ReadPlan {
            backend: backend.name.clone(),
            name: self.name.clone(),
            url: backend.url(&self.path.render(context)?, &query(&self.query, context)),
            question: self.question.as_ref().map(|question| question.body(context)),
        })
    }
}

/// The write in the file.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: Path,
    pub(super) encoding: Encoding,
    pub(super) headers: Vec<(String, Expression)>,
    pub(super) body: Body,
    pub(super) placement: KeyPlacement,
}

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Form,
    Json,
}

/// The body's shape, members sorted by name.
#[derive(Debug, Clone)]
pub(super) enum Body {
    Value(Expression),
    Object(Vec<(String, Body)>),
    Array(Vec<Body>),
}

/// What must hold of the facts before a draft is made, and again before it is sent.
#[derive(Debug, Clone)]
pub(super) struct Expectation {
    pub(super) condition: Condition,
    pub(super) reason: String,
}

/// A read that is repeated before the request is sent, and the facts that must be as they were.
#[derive(Debug, Clone)]
pub(super) struct Precondition {
    pub(super) read: String,
    pub(super) unchanged: Vec<String>,
}

/// What an operation does besides its parameters.
#[derive(Debug)]
pub(super) enum Action {
    /// Looks: one GET and the fields of its answer.
    Read(Read),
    /// Changes something.
    Write(Box<Write>),
}

#[derive(Debug)]
pub(super) struct Write {
    pub(super) on_failure: String,
    pub(super) lifetime: Duration,
    pub(super) fields: BTreeSet<String>,
    /// Why nothing is read before the request.
    pub(super) unread: Option<String>,
    pub(super) version: Option<(String, String)>,
    pub(super) subject: Option<(String, String)>,
    pub(super) reads: Vec<Read>,
    pub(super) expect: Vec<Expectation>,
    pub(super) precondition: Option<Precondition>,
    pub(super) request: Request,
    pub(super) rules: Vec<Rule>,
    pub(super) retry: Retry,
    pub(super) window: Window,
    pub(super) steps: Vec<Step>,
    pub(super) events: Option<Events>,
}

/// One operation.
#[derive(Debug)]
pub struct Operation {
    pub(super) backend: Arc<Backend>,
    pub(super) name: OperationName,
    pub(super) consequence: Consequence,
    pub(super) resource: ResourceType,
    pub(super) resource_param: String,
    pub(super) params: Params,
    pub(super) amount: Option<(String, String)>,
    pub(super) sample: Option<Json>,
    pub(super) action: Action,
}

/// Parameters that fit the operation's declaration; only [`Operation::check`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    params: Json,
    amount: Option<Money>,
    resource: ResourceId,
    fields: BTreeSet<String>,
}

impl Checked {
    /// The parameters as the draft holds them: as they were sent, the currency in lower case.
    #[must_use]
    pub const fn params(&self) -> &Json {
        &self.params
    }

    /// The amount, on operations that move money.
    #[must_use]
    pub const fn amount(&self) -> Option<Money> {
        self.amount
    }

    /// The backend's id of what the operation touches.
    #[must_use]
    pub const fn resource(&self) -> &ResourceId {
        &self.resource
    }

    /// The fields of the resource that a patch touches.
    #[must_use]
    pub const fn fields(&self) -> &BTreeSet<String> {
        &self.fields
    }
}

impl Operation {
    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &OperationName {
        &self.name
    }

    /// The backend it belongs to.
    #[must_use]
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// How far it reaches.
    #[must_use]
    pub const fn consequence(&self) -> Consequence {
        self.consequence
    }

    /// The kind of thing it touches.
    #[must_use]
    pub const fn resource_type(&self) -> &ResourceType {
        &self.resource
    }

    /// How long a credential for it is good; at most 120 seconds, 60 where money moves, zero for reads, which need none.
    #[must_use]
    pub fn credential_lifetime(&self) -> Duration {
        self.write().map_or(Duration::ZERO, |write| write.lifetime)
    }

    /// What stands if it fails, such as `no refund is created`.
    #[must_use]
    pub fn on_failure(&self) -> &str {
        self.write().map_or("nothing is changed", |write| &write.on_failure)
    }

    /// Whether it only looks.
    #[must_use]
    pub const fn is_read(&self) -> bool {
        matches!(self.action, Action::Read(_))
    }

    /// How many decimals the currency has at this backend; `None` if the backend does not take it.
    #[must_use]
    pub fn exponent(&self, currency: Currency) -> Option<u8> {
        self.backend.exponent(currency)
    }

    /// Parameters of an example, if the file gives any; they fit the declaration.
    #[must_use]
    pub const fn sample(&self) -> Option<&Json> {
        self.sample.as_ref()
    }

    /// When and how often it may be sent again; `None` for reads.
    #[must_use]
    pub fn retry(&self) -> Option<&Retry> {
        self.write().map(|write| &write.retry)
    }

    /// How long the backend recognises the idempotency key; `None` for reads.
    #[must_use]
    pub fn window(&self) -> Option<&Window> {
        self.write().map(|write| &write.window)
    }

    /// The steps that look a lost result up, in order; empty for reads.
    #[must_use]
    pub fn reconcile(&self) -> &[Step] {
        self.write().map_or(&[], |write| &write.steps)
    }

    /// Checks what a caller sent against the closed list of parameters.
    ///
    /// # Errors
    /// Every mistake, each with its JSON pointer.
    pub fn check(&self, params: &Json) -> Result<Checked, Vec<ParamError>> {
        let params = self.params.check(params, &self.backend.currencies)?;
        let wrong = |at: &str, reason: String| {
            vec![ParamError {
                pointer: format!("/{at}"),
                reason,
            }]
        };
        let resource = params.member(&self.resource_param).and_then(Json::as_str).unwrap_or_default();
        let resource: ResourceId = resource.parse().map_err(|error| wrong(&self.resource_param, format!("{error}")))?;
        if resource.as_str().chars().all(|c| c == '.') {
            return Err(wrong(
                &self.resource_param,
                "is not such an id: it would be read as a path".to_owned(),
            ));
        }
        let amount = match &self.amount {
            None => None,
            Some((minor, currency)) => {
                let code = params.member(currency).and_then(Json::as_str).unwrap_or_default();
                let code = code.parse().map_err(|error| wrong(currency, format!("{error}")))?;
                let units = params.member(minor).and_then(Json::as_integer).unwrap_or_default();
                Some(Money::new(units, code).map_err(|error| wrong(minor, format!("{error}")))?)
            }
        };
        let fields = self.write().map(|write| write.fields.clone()).unwrap_or_default();
        Ok(Checked {
            params,
            amount,
            resource,
            fields,
        })
    }

    pub(super) const fn write(&self) -> Option<&Write> {
        match &self.action {
            Action::Write(write) => Some(write),
            Action::Read(_) => None,
        }
    }

    pub(super) fn exponent_of(&self, amount: Option<Money>) -> Option<u8> {
        amount.and_then(|amount| self.exponent(amount.currency()))
    }

    /// Everything a stored draft says, to compare an answer with.
    pub(super) fn context<'a>(&self, draft: &'a DraftDocument) -> Context<'a> {
        Context {
            params: Some(&draft.parameters),
            facts: Some(&draft.facts),
            draft: Some(&draft.id),
            key: None,
            version: draft.resource.version.as_deref(),
            exponent: self.exponent_of(draft.amount),
            found: None,
        }
    }
}
