//! What is found when somebody asks: the store's own counts, what waits and for how long, and how long keys are still good.

use std::fmt::Error;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::audit::{EventOutcome, Note};
use crate::domain::lifecycle::ExecutionTransition;
use crate::domain::time::Timestamp;
use crate::store::backlog::{Backlog, OddEvents};
use crate::store::health::Disk;
use crate::store::tally::{COMMIT_BOUNDS, LEASE_EXPIRED, Tally, Told};

/// Something with an end: a signing key, a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeLeft {
    /// What it is for, such as `signing`.
    pub purpose: &'static str,
    /// When it ends; `None` if it has no end.
    pub until: Option<Timestamp>,
}

/// Yes or no about the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// What is watched, such as `store`.
    pub name: &'static str,
    /// Whether it is well.
    pub well: bool,
}

/// How a witness of the log stands to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lag {
    /// Its name, by the configuration.
    pub witness: String,
    /// How long ago it cosigned.
    pub lag: Duration,
    /// Whether it says that the log was taken back or rewritten.
    pub disagrees: bool,
}

/// How things stand at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// The moment.
    pub now: Timestamp,
    /// What the store has counted.
    pub tally: Arc<Tally>,
    /// What waits; `None` if the store cannot be read.
    pub backlog: Option<Backlog>,
    /// How much room is left.
    pub disk: Disk,
    /// Results of sent requests that the store has not taken yet.
    pub waiting_results: u64,
    /// Keys and certificates in use.
    pub left: Vec<TimeLeft>,
    /// What else is watched.
    pub watched: Vec<Watched>,
    /// The witnesses of the log.
    pub lags: Vec<Lag>,
}

type Labels = Vec<(&'static str, String)>;

/// One metric and its samples.
fn family<'a, M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, kind): (&str, &str, MetricType),
    samples: impl IntoIterator<Item = (Labels, M)> + 'a,
) -> Result<(), Error> {
    let mut metric = encoder.encode_descriptor(name, help, None::<&Unit>, kind)?;
    for (labels, value) in samples {
        let sample: MetricEncoder<'_> = metric.encode_family(&labels)?;
        value.encode(sample)?;
    }
    Ok(())
}

/// Seconds from then until now; nothing is older than it is.
fn age(now: Timestamp, since: Timestamp) -> ConstGauge<f64> {
    ConstGauge::new(now.since(since).as_secs_f64())
}

fn count(n: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(n).unwrap_or(i64::MAX))
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        self.work(&mut encoder)?;
        self.commits(&mut encoder)?;
        self.room(&mut encoder)?;
        self.waiting(&mut encoder)?;
        self.witnesses(&mut encoder)?;
        self.ends(&mut encoder)
    }
}

impl Snapshot {
    /// What was done, by this process since it started.
    fn work(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let told = self.tally.events();
        let mut by_outcome = std::collections::BTreeMap::<_, u64>::new();
        for (event, n) in &told {
            *by_outcome.entry((event.event, event.outcome)).or_default() += n;
        }
        family(
            encoder,
            (
                "writ_events",
                "Events this process wrote to the audit log: transitions, denials, reads",
                MetricType::Counter,
            ),
            by_outcome.into_iter().map(|((event, outcome), n)| {
                (
                    vec![("event", event.to_owned()), ("outcome", outcome.to_owned())],
                    ConstCounter::new(n),
                )
            }),
        )?;
        let denials = told.iter().filter(|(event, _)| event.outcome == EventOutcome::Denied.as_str());
        let denials = denials.filter_map(|(event, n)| {
            let code = event.code.clone()?;
            Some((vec![("event", event.event.to_owned()), ("code", code)], ConstCounter::new(*n)))
        });
        family(
            encoder,
            ("writ_denials", "Refusals among the events, by their code", MetricType::Counter),
            denials,
        )?;
        family(
            encoder,
            (
                "writ_audit_withheld",
                "Members of events that were kept back, since they had the form of a card number, a token or a secret",
                MetricType::Counter,
            ),
            [(vec![], ConstCounter::new(self.tally.all_withheld()))],
        )?;
        // A look at what is pending also begins with taking it over; nobody died for that.
        let died = |event: &Told| event.event == ExecutionTransition::Reclaim.event() || event.code.as_deref() == Some(LEASE_EXPIRED);
        let takeovers: u64 = told.iter().filter(|(event, _)| died(event)).map(|(_, n)| n).sum();
        let lost: u64 = told
            .iter()
            .filter(|(event, _)| event.event == ExecutionTransition::LoseTrack.event())
            .map(|(_, n)| n)
            .sum();
        family(
            encoder,
            (
                "writ_lease_takeovers",
                "Executions whose lease ran out before their outcome was written down, and that were taken over",
                MetricType::Counter,
            ),
            [(vec![], ConstCounter::new(takeovers))],
        )?;
        let proofs = |outcome: EventOutcome| {
            let reports = told
                .iter()
                .filter(|(event, _)| event.event == Note::ProofReported.as_str() && event.outcome == outcome.as_str());
            let labels = vec![("outcome", outcome.as_str().to_owned())];
            (labels, ConstCounter::new(reports.map(|(_, n)| *n).sum::<u64>()))
        };
        family(
            encoder,
            (
                "writ_proofs",
                "Reports of provers, by whether every guarantee held",
                MetricType::Counter,
            ),
            [proofs(EventOutcome::Ok), proofs(EventOutcome::Failed)],
        )?;
        family(
            encoder,
            (
                "writ_executions_lost_track",
                "Sent requests whose outcome was not known at first",
                MetricType::Counter,
            ),
            [(vec![], ConstCounter::new(lost))],
        )?;
        family(
            encoder,
            (
                "writ_store_calls",
                "Transitions asked of the store, by how it answered",
                MetricType::Counter,
            ),
            self.tally.calls().into_iter().map(|((transition, answer), n)| {
                let labels = vec![("transition", transition.to_owned()), ("answer", answer.to_owned())];
                (labels, ConstCounter::new(n))
            }),
        )
    }

    fn commits(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let commits = self.tally.commits();
        let mut buckets: Vec<(f64, u64)> = COMMIT_BOUNDS.into_iter().zip(commits.classes).collect();
        let within: u64 = commits.classes.iter().sum();
        buckets.push((f64::MAX, commits.count.saturating_sub(within)));
        let mut metric = encoder.encode_descriptor(
            "writ_store_commit_seconds",
            "How long the store's transactions took, from begin to commit",
            None,
            MetricType::Histogram,
        )?;
        metric.encode_histogram::<Labels>(commits.total.as_secs_f64(), commits.count, &buckets, None)?;
        family(
            encoder,
            (
                "writ_store_commits_failed",
                "Transactions that failed as a whole",
                MetricType::Counter,
            ),
            [(vec![], ConstCounter::new(commits.failed))],
        )?;
        family(
            encoder,
            ("writ_store_queue", "Requests that wait for the store's writer", MetricType::Gauge),
            [(vec![], count(self.tally.waiting() as u64))],
        )
    }

    fn room(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        family(
            encoder,
            (
                "writ_disk_free_bytes",
                "Room that is left on the file system of the store",
                MetricType::Gauge,
            ),
            self.disk.free.map(|free| (vec![], count(free))),
        )?;
        family(
            encoder,
            (
                "writ_disk_low_water_bytes",
                "With less room than this nothing new begins",
                MetricType::Gauge,
            ),
            [(vec![], count(self.disk.low_water))],
        )?;
        family(
            encoder,
            (
                "writ_results_waiting",
                "Results of sent requests that are kept beside the store until it takes them",
                MetricType::Gauge,
            ),
            [(vec![], count(self.waiting_results))],
        )
    }

    fn witnesses(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let witness = |lag: &Lag| vec![("witness", lag.witness.clone())];
        family(
            encoder,
            (
                "writ_witness_lag_seconds",
                "How long ago a witness cosigned the log, or since when it was asked in vain",
                MetricType::Gauge,
            ),
            self.lags.iter().map(|lag| (witness(lag), ConstGauge::new(lag.lag.as_secs_f64()))),
        )?;
        family(
            encoder,
            (
                "writ_witness_disagrees",
                "1 if a witness says that the log was taken back or rewritten",
                MetricType::Gauge,
            ),
            self.lags.iter().map(|lag| (witness(lag), count(u64::from(lag.disagrees)))),
        )
    }

    fn waiting(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let Some(backlog) = &self.backlog else { return Ok(()) };
        let state = |state: &str| vec![("state", state.to_owned())];
        let executions = &backlog.executions;
        family(
            encoder,
            (
                "writ_executions_unresolved",
                "Executions whose outcome is not known, by state",
                MetricType::Gauge,
            ),
            executions.iter().map(|open| (state(open.state.as_str()), count(open.count))),
        )?;
        family(
            encoder,
            (
                "writ_executions_unresolved_oldest_seconds",
                "Age of the oldest of them since it was claimed, by state",
                MetricType::Gauge,
            ),
            executions
                .iter()
                .map(|open| (state(open.state.as_str()), age(self.now, open.since))),
        )?;
        family(
            encoder,
            (
                "writ_executions_unresolved_minor_units",
                "Their money in minor units, by currency",
                MetricType::Gauge,
            ),
            backlog
                .money
                .iter()
                .map(|open| (vec![("currency", open.currency.clone())], ConstGauge::new(open.minor))),
        )?;
        family(
            encoder,
            ("writ_drafts_open", "Drafts that wait, by state", MetricType::Gauge),
            backlog.drafts.iter().map(|open| (state(open.state.as_str()), count(open.count))),
        )?;
        family(
            encoder,
            (
                "writ_drafts_open_oldest_seconds",
                "How long the oldest of them has been in its state",
                MetricType::Gauge,
            ),
            backlog
                .drafts
                .iter()
                .map(|open| (state(open.state.as_str()), age(self.now, open.since))),
        )?;
        let queue = |open: &crate::store::backlog::OpenQueue| vec![("queue", open.queue.to_string())];
        family(
            encoder,
            (
                "writ_approvals_waiting",
                "Approval requests that wait for people, by queue",
                MetricType::Gauge,
            ),
            backlog.queues.iter().map(|open| (queue(open), count(open.count))),
        )?;
        family(
            encoder,
            (
                "writ_approvals_waiting_oldest_seconds",
                "How long the oldest of them has waited",
                MetricType::Gauge,
            ),
            backlog.queues.iter().map(|open| (queue(open), age(self.now, open.since))),
        )?;
        self.odd(encoder, backlog)
    }

    /// What a person should know of, though nothing waits for it.
    fn odd(&self, encoder: &mut DescriptorEncoder<'_>, backlog: &Backlog) -> Result<(), Error> {
        let finding = |odd: &OddEvents| vec![("finding", odd.finding.as_str().to_owned())];
        family(
            encoder,
            (
                "writ_backend_events_odd",
                "Events of backends that do not fit what is known or that nothing confirms, by what was made of them",
                MetricType::Gauge,
            ),
            backlog.events.iter().map(|odd| (finding(odd), count(odd.count))),
        )?;
        family(
            encoder,
            (
                "writ_backend_events_odd_last_seconds",
                "How long ago the last of them came",
                MetricType::Gauge,
            ),
            backlog.events.iter().map(|odd| (finding(odd), age(self.now, odd.last))),
        )?;
        let stops = backlog.stops.as_ref();
        family(
            encoder,
            (
                "writ_stops_in_force",
                "Stops that keep something from being executed",
                MetricType::Gauge,
            ),
            [(vec![], count(stops.map_or(0, |open| open.count)))],
        )?;
        family(
            encoder,
            (
                "writ_stops_in_force_oldest_seconds",
                "How long ago the oldest of them was placed",
                MetricType::Gauge,
            ),
            stops.map(|open| (vec![], age(self.now, open.since))),
        )
    }

    fn ends(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let ends = self.left.iter().filter_map(|left| {
            let until = left.until?;
            let (sign, span) = if until < self.now {
                (-1.0, self.now.since(until))
            } else {
                (1.0, until.since(self.now))
            };
            let seconds = ConstGauge::new(sign * span.as_secs_f64());
            Some((vec![("purpose", left.purpose.to_owned())], seconds))
        });
        family(
            encoder,
            (
                "writ_expires_seconds",
                "Time until the newest key or the certificate for a purpose ends, below 0 once it has",
                MetricType::Gauge,
            ),
            ends,
        )?;
        family(
            encoder,
            ("writ_well", "1 if what is watched is well, 0 if not", MetricType::Gauge),
            self.watched
                .iter()
                .map(|watched| (vec![("watched", watched.name.to_owned())], count(u64::from(watched.well)))),
        )
    }
}
