//! `writ policy`: check the rules, run their cases, try a question.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::context::{At, Context};
use super::error::CliError;
use super::output::Output;
use crate::domain::money::{Currency, Money};
use crate::domain::name::{ClientId, OperationName, PrincipalId};
use crate::domain::policy::{Answer, Outcome, Question};
use crate::policy::cases::{self, CaseReport, Verdict};
use crate::policy::{Policy, PolicyMistakes};

/// Check, test and try the policy.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ policy test --dir policies/cedar\n  writ policy try --dir policies/cedar --operation refund.create --amount 24000 --currency usd"
)]
pub(super) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Subcommand)]
enum PolicyCommand {
    Check(Check),
    Test(Test),
    Try(Box<Try>),
}

/// Which policy is meant.
#[derive(Args)]
struct Which {
    /// The policy's directory; the one that the configuration names if not given.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    at: At,
}

/// Report everything that is wrong with the policy's files.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ policy check --dir policies/cedar\n  writ policy check --config work/writ.toml")]
struct Check {
    #[command(flatten)]
    which: Which,
}

/// Run the cases beside the policy, and report rules that no case fires.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ policy test --dir policies/cedar\n  writ policy test --config work/writ.toml --json")]
struct Test {
    #[command(flatten)]
    which: Which,
}

/// Ask the policy about a draft that does not exist.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ policy try --operation refund.create --amount 24000 --currency usd\n  writ policy try --operation email.update --field email --owner usr_ann"
)]
struct Try {
    #[command(flatten)]
    which: Which,
    /// The operation.
    #[arg(long)]
    operation: OperationName,
    /// The amount in minor units.
    #[arg(long, value_name = "MINOR", requires = "currency")]
    amount: Option<i64>,
    /// The currency.
    #[arg(long, requires = "amount")]
    currency: Option<Currency>,
    /// The client that asks.
    #[arg(long, default_value = "somebody")]
    client: ClientId,
    /// The person answerable for the client.
    #[arg(long, value_name = "PERSON")]
    owner: Option<PrincipalId>,
    /// How many drafts of this operation the same customer had in 24 hours, this one included.
    #[arg(long, default_value_t = 1)]
    recent: u64,
    /// A field that the operation changes; may be given again.
    #[arg(long = "field", value_name = "NAME")]
    fields: Vec<String>,
}

impl Which {
    fn dir(&self) -> Result<PathBuf, CliError> {
        match &self.dir {
            Some(dir) => Ok(dir.clone()),
            None => Ok(self.at.load()?.policy),
        }
    }
}

fn mistakes(mistakes: PolicyMistakes) -> CliError {
    CliError::Failed(mistakes.0.iter().map(ToString::to_string).collect())
}

impl PolicyArgs {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            PolicyCommand::Check(check) => {
                let policy = Policy::load(&check.which.dir()?).map_err(mistakes)?;
                let reference = policy.reference();
                let operations = policy.operations();
                let value = json!({ "ok": true, "policy": reference, "operations": operations, "queues": policy.queues() });
                context.out.answer(&value, |out| {
                    let name = format!("policy {} version {}", reference.id, reference.version);
                    format!(
                        "{}: {name}, {} operations, hash {}",
                        out.good("ok"),
                        operations.len(),
                        reference.sha256
                    )
                })
            }
            PolicyCommand::Test(test) => {
                let dir = test.which.dir()?;
                let policy = Policy::load(&dir).map_err(mistakes)?;
                let report = cases::run(&policy, &dir.join("cases")).map_err(mistakes)?;
                let passed = report.cases.iter().filter(|case| case.passed()).count();
                let failed = report.cases.len() - passed;
                let value = json!({ "passed": passed, "failed": failed, "unfired": report.unfired, "cases": report.cases });
                context.out.answer(&value, |out| tested(out, &report, passed, failed))?;
                if report.passed() {
                    return Ok(());
                }
                Err(CliError::failed(format!(
                    "{failed} case(s) failed, {} rule(s) without a case that fires them",
                    report.unfired.len()
                )))
            }
            PolicyCommand::Try(ask) => ask.run(context),
        }
    }
}

impl Try {
    fn run(self, context: &Context) -> Result<(), CliError> {
        let policy = Policy::load(&self.which.dir()?).map_err(mistakes)?;
        let amount = match (self.amount, self.currency) {
            (Some(minor), Some(currency)) => Some(Money::new(minor, currency).map_err(CliError::usage)?),
            _ => None,
        };
        let answer = policy.propose(&Question {
            operation: self.operation,
            client: self.client,
            owner: self.owner,
            amount,
            fields: self.fields.into_iter().collect(),
            recent: self.recent,
        });
        context.out.answer(&answer, |out| answered(out, &answer))
    }
}

fn answered(out: &Output, answer: &Answer) -> String {
    let outcome = match answer.outcome {
        Outcome::Allow => out.good("allow"),
        Outcome::Ask => out.strong("ask"),
        Outcome::Deny => out.bad("deny"),
    };
    let mut text = format!("{outcome}\n");
    for rule in &answer.rules {
        text.push_str(&format!("  {}: {}\n", rule.id, rule.reason));
    }
    for need in &answer.requirement.all_of {
        let fresh = if need.step_up { ", signed in afresh" } else { "" };
        text.push_str(&format!("  needs {} of {}{fresh}\n", need.count, need.queue));
    }
    text
}

fn tested(out: &Output, report: &CaseReport, passed: usize, failed: usize) -> String {
    let verdict = |v: &Verdict| {
        let needs = v.all_of.iter().map(|n| format!(" {}x{}", n.count, n.queue));
        let rules = v.rules.iter().cloned().collect::<Vec<_>>().join(", ");
        format!("{} by {rules}{}", v.outcome.as_str(), needs.collect::<String>())
    };
    let mut text = String::new();
    for case in report.cases.iter().filter(|case| !case.passed()) {
        text.push_str(&format!("{} {}: {}\n", out.bad("failed"), case.file, case.name));
        if case.wanted != case.got {
            text.push_str(&format!("  wanted {}\n  got    {}\n", verdict(&case.wanted), verdict(&case.got)));
        }
        for disagreement in &case.disagreements {
            text.push_str(&format!("  {disagreement}\n"));
        }
    }
    for rule in &report.unfired {
        text.push_str(&format!("{} rule `{rule}`: add a case that it decides\n", out.bad("never fired")));
    }
    text.push_str(&format!("{passed} passed, {failed} failed\n"));
    text
}
