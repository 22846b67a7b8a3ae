//! What came of a run: a result for each guarantee, counted, and in JSON.

use serde::Serialize;

use super::guarantee::{Guarantee, Target};
use super::outcome::{Amiss, Held};
use crate::domain::time::Timestamp;

/// The version of the report's form.
const VERSION: u8 = 1;

/// How a guarantee stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It held.
    Pass,
    /// It did not, or could not be tried to its end.
    Fail,
    /// There is nothing to try it with.
    NotApplicable,
}

impl Verdict {
    /// The word in tables and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::NotApplicable => "not_applicable",
        }
    }
}

/// One guarantee and what came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Its name.
    pub name: &'static str,
    /// What is claimed.
    pub claim: &'static str,
    /// Where it was tried.
    pub on: Target,
    /// How it stands.
    pub result: Verdict,
    /// Whether something went through that must be refused.
    pub passed_through: bool,
    /// What was tried and refused, or what is amiss.
    pub reason: String,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

impl Finding {
    pub(super) fn of(guarantee: &Guarantee, held: Held, took_ms: u64) -> Self {
        let (result, passed_through, reason) = match held {
            Ok(reason) => (Verdict::Pass, false, reason),
            Err(Amiss::Through(reason)) => (Verdict::Fail, true, reason),
            Err(Amiss::Unclear(reason)) => (Verdict::Fail, false, reason),
            Err(Amiss::NotApplicable(reason)) => (Verdict::NotApplicable, false, reason),
        };
        Self {
            name: guarantee.name,
            claim: guarantee.claim,
            on: guarantee.on,
            result,
            passed_through,
            reason,
            took_ms,
        }
    }
}

/// How many there are of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Those that held.
    pub passed: usize,
    /// Those that did not, or could not be tried to their end.
    pub failed: usize,
    /// Those of the failed in which something went through.
    pub passed_through: usize,
    /// Those that there was nothing to try with.
    pub not_applicable: usize,
}

/// A run, as it is signed.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The version of this form: 1.
    pub v: u8,
    /// The program and its version.
    pub program: &'static str,
    /// The run's own name; its support cases start with it.
    pub run: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// The broker.
    pub broker: String,
    /// The proxies.
    pub proxies: Vec<String>,
    /// The operation that was tried.
    pub operation: String,
    /// How many executions were begun on purpose, each with an effect at the backend.
    pub executions: u64,
    /// How many guarantees ended how.
    pub counts: Counts,
    /// Each guarantee.
    pub guarantees: Vec<Finding>,
}

/// How a run ended as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// Everything that there was to try held, and there was something.
    Held,
    /// Something could not be shown.
    Unclear,
    /// Something went through that must be refused.
    PassedThrough,
}

impl Report {
    pub(super) fn new(run: String, started_at: Timestamp) -> Self {
        Self {
            v: VERSION,
            program: concat!("writ ", env!("CARGO_PKG_VERSION")),
            run,
            started_at,
            ended_at: started_at,
            broker: String::new(),
            proxies: Vec::new(),
            operation: String::new(),
            executions: 0,
            counts: Counts::default(),
            guarantees: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, finding: Finding) {
        let counts = &mut self.counts;
        match finding.result {
            Verdict::Pass => counts.passed += 1,
            Verdict::Fail => counts.failed += 1,
            Verdict::NotApplicable => counts.not_applicable += 1,
        }
        counts.passed_through += usize::from(finding.passed_through);
        self.guarantees.push(finding);
    }

    /// How it ended. A run in which nothing could be tried has shown nothing.
    #[must_use]
    pub const fn ending(&self) -> Ending {
        match self.counts {
            Counts { passed_through: 1.., .. } => Ending::PassedThrough,
            Counts { failed: 1.., .. } | Counts { passed: 0, .. } => Ending::Unclear,
            _ => Ending::Held,
        }
    }

    /// The last line of a run.
    #[must_use]
    pub fn line(&self) -> String {
        let Counts {
            passed,
            failed,
            passed_through,
            not_applicable,
        } = self.counts;
        let total = self.guarantees.len();
        format!(
            "proofs: {total} guarantees, {passed} passed, {failed} failed ({passed_through} passed through), {not_applicable} not applicable"
        )
    }
}
