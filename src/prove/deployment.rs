//! A deployment as the prover meets it: over HTTP, as its agent, its review desk and its approvers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::outcome::{Amiss, Reply};
use super::settings::{Settings, Signatory, Stands};
use super::wire::{Body, By, Wire};
use crate::app::Outside;
use crate::approval::{Card, RecordSigner, Signatory as Signs};
use crate::domain::approval::{Claims, Decision};
use crate::domain::clock::random;
use crate::domain::id::RecordId;
use crate::domain::secret::Secret;

/// How long the outcome of an execution is waited for in one call, in seconds.
const WAIT: u32 = 20;

/// Between two looks at something that changes by itself.
const AGAIN: Duration = Duration::from_millis(50);

/// Which parameters of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Those that are executed.
    Once,
    /// Those that one person is asked about.
    Asked,
    /// Those that two are asked about.
    Two,
}

/// A draft, as it was answered last.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) id: String,
    pub(super) view: Value,
}

impl Draft {
    fn of(reply: Reply) -> Result<Self, Amiss> {
        let id = reply.text("/id").to_owned();
        if id.is_empty() {
            return Err(Amiss::Unclear("a draft was answered without an id".to_owned()));
        }
        Ok(Self { id, view: reply.body })
    }

    pub(super) fn text(&self, pointer: &str) -> &str {
        self.view.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}

/// A deployment, and what was done to it.
pub(super) struct Deployment {
    pub(super) settings: Settings,
    pub(super) outside: Outside,
    pub(super) wire: Wire,
    run: String,
    made: AtomicU64,
    executed: AtomicU64,
    open: Mutex<Vec<String>>,
}

impl Deployment {
    /// Opens no connection.
    pub(super) fn new(settings: Settings, outside: Outside) -> Result<Self, String> {
        let https = std::iter::once(&settings.broker)
            .chain(&settings.proxies)
            .any(|url| url.starts_with("https:"));
        let wire = match (&settings.ca, https) {
            (Some(ca), _) => Wire::new(Some(ca))?,
            (None, true) => Wire::new(None)?,
            (None, false) => Wire::plain()?,
        };
        let run = random::<4>(&*outside.entropy).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            settings,
            outside,
            wire,
            run,
            made: AtomicU64::new(0),
            executed: AtomicU64::new(0),
            open: Mutex::default(),
        })
    }

    /// What this run is called, in case ids and reports.
    pub(super) fn run(&self) -> &str {
        &self.run
    }

    /// How many executions were begun on purpose.
    pub(super) fn executed(&self) -> u64 {
        self.executed.load(Ordering::Relaxed)
    }

    /// A path at the broker.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.settings.broker)
    }

    fn parameters(&self, which: Which) -> Result<&Map<String, Value>, Amiss> {
        let operation = &self.settings.operation;
        let missing = |word: &str| {
            Amiss::NotApplicable(format!(
                "the settings name no `{word}` parameters of {} for which the policy asks people",
                operation.name
            ))
        };
        match which {
            Which::Once => Ok(&operation.once),
            Which::Asked => operation.asked.as_ref().ok_or_else(|| missing("asked")),
            Which::Two => operation.two.as_ref().ok_or_else(|| missing("two")),
        }
    }

    /// The body of a proposal, for somebody of its own: the same wish for the same person is the same open draft.
    pub(super) fn proposal(&self, which: Which) -> Result<Value, Amiss> {
        let n = self.made.fetch_add(1, Ordering::Relaxed);
        let parameters = self.parameters(which)?;
        Ok(json!({
            "operation": self.settings.operation.name, "case_id": format!("prove-{}", self.run),
            "on_behalf_of": format!("usr_prove.{}.{n}", self.run), "parameters": parameters,
        }))
    }

    /// The agent proposes.
    pub(super) async fn propose(&self, which: Which) -> Result<Draft, Amiss> {
        let body = Body::Json(self.proposal(which)?);
        let reply = self
            .wire
            .call(Method::POST, &self.at("/v1/drafts"), By::Client(&self.settings.agent), body)
            .await?;
        let draft = Draft::of(reply.done("a proposal")?)?;
        self.remember(&draft.id);
        Ok(draft)
    }

    /// A draft to be withdrawn when all is done.
    pub(super) fn remember(&self, draft: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push(draft.to_owned());
    }

    /// Withdraws what was proposed; what has ended by itself is let be.
    pub(super) async fn tidy(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        for draft in open {
            let url = self.at(&format!("/v1/drafts/{draft}/withdraw"));
            // Refused for what was executed or denied; and what stays open ends by itself within hours.
            let withdrawn = self
                .wire
                .call(Method::POST, &url, By::Client(&self.settings.agent), Body::Json(json!({})))
                .await;
            drop(withdrawn);
        }
    }

    /// A draft that waits for people; there is nothing to try where the policy asks nobody.
    pub(super) async fn waiting(&self, which: Which) -> Result<Draft, Amiss> {
        let draft = self.propose(which).await?;
        match draft.text("/state") {
            "awaiting_approval" => Ok(draft),
            state => Err(Amiss::NotApplicable(format!(
                "the policy asks nobody about the parameters that the settings give for it: the draft is {state}"
            ))),
        }
    }

    /// A draft that is approved, by the policy or by as many people as it asks for.
    pub(super) async fn approved(&self, which: Which) -> Result<Draft, Amiss> {
        let mut draft = self.propose(which).await?;
        if draft.text("/state") == "awaiting_approval" {
            // Says so where nobody could sign.
            self.signatory(Stands::Counts)?;
        }
        for signatory in self.settings.approvers.iter().filter(|s| s.stands == Stands::Counts) {
            if draft.text("/state") != "awaiting_approval" {
                break;
            }
            let claims = self.claims(signatory, &self.card(&draft.id).await?)?;
            let reply = self.hand_in(&self.sign(signatory, &claims)?).await?;
            reply.done("the approval of a draft")?;
            draft = self.look(&draft.id).await?;
        }
        match draft.text("/state") {
            "approved" => Ok(draft),
            state => Err(Amiss::Unclear(format!(
                "no draft could be approved with the approvers at hand: it is {state}"
            ))),
        }
    }

    /// A draft, as the agent sees it now.
    pub(super) async fn look(&self, draft: &str) -> Result<Draft, Amiss> {
        let url = self.at(&format!("/v1/drafts/{draft}"));
        let reply = self
            .wire
            .call(Method::GET, &url, By::Client(&self.settings.agent), Body::Nothing)
            .await?;
        Draft::of(reply.done("a look at a draft")?)
    }

    /// Holds if nothing of the draft was spent: it is as it was, and has no execution.
    pub(super) async fn untouched(&self, draft: &Draft, state: &str, what: &str) -> Result<(), Amiss> {
        let now = self.look(&draft.id).await?;
        if now.text("/state") == state && now.view.get("execution").is_none() {
            return Ok(());
        }
        Err(Amiss::Through(format!(
            "{what} was refused, and yet the draft is {} with execution {}",
            now.text("/state"),
            now.view.get("execution").unwrap_or(&Value::Null)
        )))
    }

    /// The open request, as the desk sees it.
    pub(super) async fn card(&self, draft: &str) -> Result<Card, Amiss> {
        let url = self.at(&format!("/v1/drafts/{draft}"));
        let reply = self
            .wire
            .call(Method::GET, &url, By::Client(&self.settings.desk), Body::Nothing)
            .await?;
        let reply = reply.done("the desk's look at a draft")?;
        Card::parse(reply.body.to_string().as_bytes()).map_err(|error| Amiss::Unclear(error.to_string()))
    }

    /// An approver of this standing.
    pub(super) fn signatory(&self, stands: Stands) -> Result<&Signatory, Amiss> {
        let found = self.settings.approvers.iter().find(|s| s.stands == stands);
        found.ok_or_else(|| Amiss::NotApplicable(format!("the settings name no approver that stands `{}`", stands.as_str())))
    }

    /// What an approver says to say yes to this card.
    pub(super) fn claims(&self, signatory: &Signatory, card: &Card) -> Result<Claims, Amiss> {
        let by = Signs {
            issuer: signatory.issuer.clone(),
            approver: signatory.id.clone(),
            audience: self.settings.audience.clone(),
        };
        let id = RecordId::generate(&*self.outside.clock, &*self.outside.entropy);
        let now = self.outside.clock.now();
        card.claims(&by, Decision::Approve, "a test by writ prove".to_owned(), id, now)
            .map_err(|error| Amiss::Unclear(error.to_string()))
    }

    pub(super) fn signer(&self, signatory: &Signatory) -> Result<RecordSigner, Amiss> {
        RecordSigner::from_pkcs8_pem(&signatory.key, signatory.kid.clone())
            .map_err(|error| Amiss::Unclear(format!("the key of {}: {error}", signatory.id)))
    }

    pub(super) fn sign(&self, signatory: &Signatory, claims: &Claims) -> Result<String, Amiss> {
        let signed = self.signer(signatory)?.sign(claims);
        signed.map_err(|error| Amiss::Unclear(error.to_string()))
    }

    /// The desk hands a record in.
    pub(super) async fn hand_in(&self, record: &str) -> Result<Reply, Amiss> {
        let body = Body::Json(json!({ "record": record }));
        self.wire
            .call(Method::POST, &self.at("/v1/approvals"), By::Client(&self.settings.desk), body)
            .await
    }

    /// The agent asks for a credential, for this audience if one is given.
    pub(super) async fn exchange(&self, draft: &str, audience: Option<&str>) -> Result<Reply, Amiss> {
        let mut form = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token", draft),
            ("subject_token_type", "urn:writ:token-type:draft"),
        ];
        form.extend(audience.map(|audience| ("audience", audience)));
        self.wire
            .call(
                Method::POST,
                &self.at("/oauth2/token"),
                By::Client(&self.settings.agent),
                Body::Form(&form),
            )
            .await
    }

    /// A credential for an approved draft.
    pub(super) async fn credential(&self, draft: &Draft) -> Result<Secret, Amiss> {
        let reply = self.exchange(&draft.id, None).await?.done("an exchange")?;
        match reply.text("/access_token") {
            "" => Err(Amiss::Unclear("an exchange was answered without a credential".to_owned())),
            token => Ok(Secret::new(token.to_owned())),
        }
    }

    /// The first proxy.
    pub(super) fn proxy(&self) -> &str {
        self.settings.proxies.first().map_or(&self.settings.broker, String::as_str)
    }

    /// An attempt to execute the draft at a proxy, which must be refused; it is not waited for.
    pub(super) async fn attempt(&self, proxy: &str, by: By<'_>, draft: &str) -> Result<Reply, Amiss> {
        let url = format!("{proxy}/v1/executions");
        self.wire
            .call(Method::POST, &url, by, Body::Json(json!({ "draft_id": draft })))
            .await
    }

    /// Notes that a draft is executed on purpose.
    pub(super) fn executes_one(&self) {
        self.executed.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins the execution of a draft on purpose, and does not wait.
    pub(super) async fn begin(&self, token: &Secret, draft: &str) -> Result<Reply, Amiss> {
        self.executes_one();
        self.attempt(self.proxy(), By::Bearer(token.expose()), draft)
            .await?
            .done("an execution")
    }

    /// Executes a draft on purpose and waits for its outcome, which must be what was asked for, or on its way.
    pub(super) async fn execute(&self, token: &Secret, draft: &str) -> Result<Reply, Amiss> {
        let begun = self.begin(token, draft).await?;
        let reply = self.outcome(begun.text("/id")).await?;
        match reply.text("/state") {
            "applied" | "pending" => Ok(reply),
            state => Err(Amiss::Unclear(format!("an execution with a good credential ended as {state}"))),
        }
    }

    /// An execution, once it has an outcome or the time for it is over.
    pub(super) async fn outcome(&self, execution: &str) -> Result<Reply, Amiss> {
        let url = format!("{}/v1/executions/{execution}?wait={WAIT}", self.proxy());
        let reply = self
            .wire
            .call(Method::GET, &url, By::Client(&self.settings.agent), Body::Nothing)
            .await?;
        reply.done("a look at an execution")
    }

    /// An execution as it stands, once `until` holds of its state.
    pub(super) async fn execution(&self, execution: &str, until: impl Fn(&str) -> bool) -> Result<Reply, Amiss> {
        let url = format!("{}/v1/executions/{execution}", self.proxy());
        let look = async {
            loop {
                let reply = self
                    .wire
                    .call(Method::GET, &url, By::Client(&self.settings.agent), Body::Nothing)
                    .await?;
                let reply = reply.done("a look at an execution")?;
                if until(reply.text("/state")) {
                    return Ok(reply);
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        let late = || Amiss::Unclear(format!("execution {execution} did not change within {WAIT} s"));
        tokio::time::timeout(Duration::from_secs(u64::from(WAIT)), look)
            .await
            .map_err(|_| late())?
    }

    /// The stored request of a draft: its method, its path and its key.
    pub(super) async fn request(&self, draft: &Draft) -> Result<(String, String), Amiss> {
        let url = self.at(&format!("/v1/drafts/{}/bytes", draft.id));
        let reply = self
            .wire
            .call(Method::GET, &url, By::Client(&self.settings.agent), Body::Nothing)
            .await?
            .done("the bytes of a draft")?;
        let path = url::Url::parse(reply.text("/request/url")).map(|url| url.path().to_owned());
        let path = path.map_err(|_| Amiss::Unclear("the draft's request has no URL".to_owned()))?;
        Ok((reply.text("/request/method").to_owned(), path))
    }
}

/// Asks the future again until it is over or the time is.
pub(super) async fn soon<F: Future<Output = Result<bool, Amiss>>>(what: &str, mut holds: impl FnMut() -> F) -> Result<(), Amiss> {
    let look = async {
        while !holds().await? {
            tokio::time::sleep(AGAIN).await;
        }
        Ok(())
    };
    tokio::time::timeout(Duration::from_secs(u64::from(WAIT)), look)
        .await
        .map_err(|_| Amiss::Unclear(format!("it did not come to this within {WAIT} s: {what}")))?
}
