//! The denial prover: tries what must be refused against a live deployment, over HTTP, and says of each named guarantee whether it held.
//!
//! It proposes nothing but the one operation that its settings name. What cannot be tried on a live deployment without harm is tried on a
//! throw-away one of the same program, and the result says so.

mod access;
mod ambiguity;
mod authority;
mod clocks;
mod credentials;
mod deployment;
mod effects;
mod ground;
mod guarantee;
mod junit;
mod leave;
mod log;
mod outcome;
mod private;
mod records;
mod report;
mod resources;
mod settings;
mod versions;
mod wire;

use std::path::PathBuf;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

pub use guarantee::{GUARANTEES, Guarantee, Target};
pub use junit::junit;
pub use leave::{Left, REPORT_TYPE};
pub use report::{Counts, Ending, Finding, Report, Verdict};
pub use settings::Settings;

use crate::app::Outside;
use deployment::Deployment;
use ground::Ground;

/// How a run is made.
pub struct Prove {
    /// Which deployment, as whom, with what.
    pub settings: Settings,
    /// The guarantees to try; all of them if it is empty.
    pub only: Vec<String>,
    /// The machine's clock and chance.
    pub outside: Outside,
    /// Where throw-away directories are made, such as the system's directory for temporary files.
    pub parent: PathBuf,
    /// Ends the run early.
    pub stop: CancellationToken,
}

/// A run, and where its report is.
pub struct Proved {
    /// What came of it.
    pub report: Report,
    /// Where it was left.
    pub left: Left,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    /// It could not begin, or its report not be written.
    #[error("{0}")]
    Setup(String),
    /// It was told to stop.
    #[error("the run was interrupted; what it had proposed is withdrawn, and there is no report")]
    Interrupted,
}

/// Tries each guarantee, one after the other, and leaves a signed report. Whatever happens, what it proposed is withdrawn.
///
/// # Errors
/// [`ProveError`]. A guarantee that does not hold is none: the report says it.
pub async fn prove(prove: Prove) -> Result<Proved, ProveError> {
    let live = Deployment::new(prove.settings, prove.outside.clone()).map_err(ProveError::Setup)?;
    let ground = Ground::new(live, prove.parent);
    let wanted = |guarantee: &&Guarantee| prove.only.is_empty() || prove.only.iter().any(|name| name == guarantee.name);
    let tried = tokio::select! {
        biased;
        () = prove.stop.cancelled() => None,
        report = try_each(&ground, GUARANTEES.iter().filter(wanted)) => Some(report),
    };
    let proved = match tried {
        None => Err(ProveError::Interrupted),
        Some(report) => leave::leave(&ground.live, &report)
            .await
            .map(|left| Proved { report, left })
            .map_err(ProveError::Setup),
    };
    ground.leave().await;
    proved
}

async fn try_each<'g>(ground: &Ground, guarantees: impl Iterator<Item = &'g Guarantee>) -> Report {
    let live = &ground.live;
    let mut report = Report::new(live.run().to_owned(), live.outside.clock.now());
    ground.begin().await;
    for guarantee in guarantees {
        let began = Instant::now();
        let held = (guarantee.hold)(ground).await;
        let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        report.add(Finding::of(guarantee, held, took));
    }
    report.broker.clone_from(&live.settings.broker);
    report.proxies.clone_from(&live.settings.proxies);
    report.operation = live.settings.operation.name.to_string();
    report.executions = live.executed();
    report.ended_at = live.outside.clock.now();
    report
}
