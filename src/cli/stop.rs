//! `writ stop`, `writ stops` and `writ resume`: the kill switch, for every tenant.

use std::time::Duration;

use clap::{ArgGroup, Args};
use serde_json::json;

use super::context::{At, Context, load, open};
use super::describe::{Decimals, section};
use super::error::CliError;
use super::output::{Output, shown};
use super::words::{moment, span};
use crate::backend::Backends;
use crate::config::Config;
use crate::domain::id::{ApprovalId, CredentialId, DraftId, StopId};
use crate::domain::name::{ClientId, PrincipalId, TenantId};
use crate::domain::principal::OperationPattern;
use crate::domain::stop::{Reason, StopScope};
use crate::domain::time::Timestamp;
use crate::http::{StopStandingView, StopView};
use crate::store::stop::{LiftStop, PlaceStop, StopFilter, StopRecord, StopStanding, Stops};
use crate::store::{PATIENCE, Rejection, Store, StoreError, insist};

/// Stop something at once: nothing of it is issued, spent or sent from now on, in any process on this store.
///
/// Prints what was in flight at that moment, with its money: what may have been sent cannot be called back. Outcomes are looked up and recorded as before.
#[derive(Args)]
#[command(
    group = ArgGroup::new("scope").required(true).args(["credential", "draft", "approval", "approver", "client", "operation", "tenant", "everything"]),
    group = ArgGroup::new("end").args(["until", "for_"]),
    after_help = "Examples:\n  writ stop --everything --reason 'refunds look wrong' --config work/writ.toml\n  writ stop --operation 'refund.*' --reason 'incident 7' --for 2h\n  writ stop --approver usr_mia --reason 'her laptop was stolen'"
)]
pub(super) struct Stop {
    /// One credential; another one of the same draft is not covered.
    #[arg(long, value_name = "CREDENTIAL")]
    credential: Option<CredentialId>,
    /// One draft.
    #[arg(long, value_name = "DRAFT")]
    draft: Option<DraftId>,
    /// What one approval released.
    #[arg(long, value_name = "APPROVAL")]
    approval: Option<ApprovalId>,
    /// Everything this person, service or rule said yes to.
    #[arg(long, value_name = "APPROVER")]
    approver: Option<PrincipalId>,
    /// Everything this client made.
    #[arg(long, value_name = "CLIENT")]
    client: Option<ClientId>,
    /// An operation, or a family such as `refund.*`.
    #[arg(long, value_name = "OPERATION")]
    operation: Option<OperationPattern>,
    /// Everything of one tenant.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<TenantId>,
    /// Everything.
    #[arg(long)]
    everything: bool,
    /// Why; kept with the stop.
    #[arg(long, value_name = "TEXT")]
    reason: Reason,
    /// First moment it no longer counts; without it and --for, until `writ resume`.
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    until: Option<Timestamp>,
    /// How long it counts, such as 30m or 2h.
    #[arg(long = "for", value_name = "DURATION", value_parser = span)]
    for_: Option<Duration>,
    #[command(flatten)]
    at: At,
}

/// Let go on what a stop covered.
///
/// What was given up meanwhile is approved again: it is exchanged and executed anew if somebody still wants it and its time is not over.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ resume stp_0192f0c1a2b37c4d8e5f60718293a4b5 --reason 'the price list was put right' --config work/writ.toml"
)]
pub(super) struct Resume {
    /// The stop.
    stop: StopId,
    /// Why; recorded.
    #[arg(long, value_name = "TEXT")]
    reason: Reason,
    #[command(flatten)]
    at: At,
}

/// List the stops that are in force, or show one with what is in flight.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ stops --config work/writ.toml\n  writ stops --ended\n  writ stops stp_0192f0c1a2b37c4d8e5f60718293a4b5"
)]
pub(super) struct StopsArgs {
    /// Show this one.
    stop: Option<StopId>,
    /// List those that have ended too.
    #[arg(long, conflicts_with = "stop")]
    ended: bool,
    #[command(flatten)]
    at: At,
}

impl Stop {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let config = load(&self.at.config)?;
        let store = open(&config, context)?;
        let scope = self.scope()?;
        known(&scope, &config)?;
        let now = context.outside.clock.now();
        let place = PlaceStop {
            id: StopId::generate(&*context.outside.clock, &*context.outside.entropy),
            tenant: None,
            scope: scope.clone(),
            reason: self.reason,
            expires_at: self.until.or_else(|| self.for_.map(|span| now.plus(span))),
        };
        let id = place.id;
        let placed = insist(PATIENCE, context.op(), |op| store.place_stop(op, place.clone())).await;
        let placed = placed.map_err(|error| match error {
            StoreError::Ambiguous { .. } => CliError::failed(format!("{error}; `writ stops {id}` says whether it is in force")),
            StoreError::Rejected(Rejection::NotFound) => CliError::failed(format!("there is no {scope}; nothing is stopped")),
            StoreError::Rejected(rejection @ Rejection::StopEnded(_)) => CliError::failed(format!("{rejection}; nothing is stopped")),
            other => CliError::failed(other),
        })?;
        let standing = placed.value;
        let view = StopStandingView::at(&standing, context.outside.clock.now());
        context.out.answer(&view, |out| {
            text(out, &standing, &Decimals::of(&config), context.outside.clock.now())
        })
    }

    fn scope(&self) -> Result<StopScope, CliError> {
        let named = [
            self.credential.map(StopScope::Credential),
            self.draft.map(StopScope::Draft),
            self.approval.map(StopScope::Approval),
            self.approver.clone().map(StopScope::Approver),
            self.client.clone().map(StopScope::Client),
            self.operation.clone().map(StopScope::Operation),
            self.tenant.clone().map(StopScope::Tenant),
            self.everything.then_some(StopScope::Everything),
        ];
        let one = named.into_iter().flatten().next();
        one.ok_or_else(|| CliError::usage("say what to stop, such as --operation 'refund.*' or --everything"))
    }
}

/// A stop on a misspelt operation would stop nothing, and look as if it did. Where the backend files cannot be read it is placed all the same:
/// the kill switch must not wait for them.
fn known(scope: &StopScope, config: &Config) -> Result<(), CliError> {
    let (StopScope::Operation(pattern), Ok(backends)) = (scope, Backends::load(&config.backends)) else {
        return Ok(());
    };
    if backends.operations().any(|operation| pattern.covers(operation.name())) {
        return Ok(());
    }
    Err(CliError::failed(format!(
        "no backend file declares an operation that `{pattern}` covers; nothing is stopped"
    )))
}

impl Resume {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let store = self.at.store(context)?;
        let lift = LiftStop {
            stop: self.stop,
            reason: self.reason,
        };
        let lifted = insist(PATIENCE, context.op(), |op| store.lift_stop(op, lift.clone())).await;
        let stop = lifted
            .map_err(|error| match error {
                StoreError::Rejected(Rejection::NotFound) => unknown(self.stop),
                other => CliError::failed(other),
            })?
            .value;
        let now = context.outside.clock.now();
        context
            .out
            .answer(&StopView::at(&stop, now), |out| out.pairs(&pairs(out, &stop, now)))
    }
}

impl StopsArgs {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let config = load(&self.at.config)?;
        let store = open(&config, context)?;
        let now = context.outside.clock.now();
        if let Some(id) = self.stop {
            let found = store.stop(id, None).await.map_err(CliError::failed)?;
            let standing = found.ok_or_else(|| unknown(id))?;
            return context.out.answer(&StopStandingView::at(&standing, now), |out| {
                text(out, &standing, &Decimals::of(&config), now)
            });
        }
        let which = if self.ended { Stops::All } else { Stops::InForce };
        let stops = every(&*store, which).await?;
        let views: Vec<StopView> = stops.iter().map(|stop| StopView::at(stop, now)).collect();
        context.out.answer(&json!({ "stops": views }), |out| {
            let rows: Vec<Vec<String>> = stops.iter().map(|stop| row(stop, now)).collect();
            out.table(
                &["stop", "state", "covers", "tenant", "placed by", "placed at", "until", "reason"],
                &rows,
            )
        })
    }
}

/// Page by page until there are no more.
async fn every(store: &dyn Store, which: Stops) -> Result<Vec<StopRecord>, CliError> {
    let mut filter = StopFilter::first(which);
    let mut all = Vec::new();
    loop {
        let page = store.stops(filter.clone()).await.map_err(CliError::failed)?;
        let is_full = page.len() == filter.limit as usize;
        filter.after = page.last().map(|stop| stop.id);
        all.extend(page);
        if !is_full {
            return Ok(all);
        }
    }
}

fn unknown(id: StopId) -> CliError {
    CliError::failed(format!("there is no stop {id}; `writ stops --ended` names them"))
}

fn standing_word(stop: &StopRecord, now: Timestamp) -> String {
    // An active one whose time is over counts as little as one that a sweep has tidied away.
    if stop.ended.is_none() && !stop.in_force(now) {
        return "over".to_owned();
    }
    stop.state.to_string()
}

fn until(stop: &StopRecord) -> String {
    stop.expires_at.map_or_else(|| "lifted".to_owned(), |at| at.to_string())
}

fn row(stop: &StopRecord, now: Timestamp) -> Vec<String> {
    vec![
        stop.id.to_string(),
        standing_word(stop, now),
        stop.scope.to_string(),
        stop.tenant.as_ref().map_or_else(|| "every".to_owned(), ToString::to_string),
        shown(&stop.placed_by),
        stop.placed_at.to_string(),
        until(stop),
        shown(stop.reason.as_str()),
    ]
}

fn pairs(out: &Output, stop: &StopRecord, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut pairs = vec![
        ("stop", stop.id.to_string()),
        ("state", out.strong(&standing_word(stop, now))),
        ("covers", stop.scope.to_string()),
        (
            "tenant",
            stop.tenant.as_ref().map_or_else(|| "every".to_owned(), ToString::to_string),
        ),
        ("reason", shown(stop.reason.as_str())),
        ("placed by", shown(&stop.placed_by)),
        ("placed at", stop.placed_at.to_string()),
        ("until", until(stop)),
    ];
    if let Some(end) = &stop.ended {
        pairs.push(("ended by", shown(&end.by)));
        pairs.push(("ended at", end.at.to_string()));
        pairs.extend(end.reason.as_ref().map(|reason| ("because", shown(reason.as_str()))));
    }
    pairs
}

fn text(out: &Output, standing: &StopStanding, decimals: &Decimals, now: Timestamp) -> String {
    let mut text = out.pairs(&pairs(out, &standing.stop, now));
    if standing.in_flight.is_empty() {
        text.push_str("\nnothing is in flight\n");
        return text;
    }
    let lines: Vec<String> = standing
        .in_flight
        .iter()
        .map(|open| {
            let amount = open.amount.map(|money| decimals.amount(&open.operation, money)).unwrap_or_default();
            let line = format!("{} {} {} {} {amount}", open.execution, open.state, open.operation, open.resource);
            line.trim_end().to_owned()
        })
        .collect();
    text.push_str(&section(out, "in flight", &lines));
    let totals: Vec<String> = standing
        .totals()
        .into_iter()
        .map(|(currency, total)| {
            let sum = |minor| {
                let paid = standing
                    .in_flight
                    .iter()
                    .filter(|open| open.amount.is_some_and(|money| money.currency() == currency));
                decimals.sum(paid.map(|open| &open.operation), currency, minor)
            };
            format!(
                "{} in {} {}; {} of it not sent, nor will it be while the stop counts",
                sum(total.minor),
                total.executions,
                if total.executions == 1 { "execution" } else { "executions" },
                if total.unsent_minor == 0 {
                    "nothing".to_owned()
                } else {
                    sum(total.unsent_minor)
                }
            )
        })
        .collect();
    text.push_str(&section(out, "money", &totals));
    text
}
