//! `writ backend`: what a backend file would send, and what its answers would mean.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use super::context::Context;
use super::describe::section;
use super::error::CliError;
use super::output::{Output, shown};
use crate::backend::{AnswerLine, Backends, EXAMPLES, Explained, Operation};
use crate::domain::id::DraftId;
use crate::domain::json::Json;
use crate::domain::name::OperationName;

/// Look at backend files. No secret is needed.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ backend example square\n  writ backend check policies/backends/stripe.toml")]
pub(super) struct BackendArgs {
    #[command(subcommand)]
    command: BackendCommand,
}

#[derive(Subcommand)]
enum BackendCommand {
    Check(Check),
    Example(Example),
}

/// Report every mistake of a backend file; if there is none, explain what it would send for a sample and what each answer would mean.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ backend check policies/backends/square.toml\n  writ backend check policies/backends/square.toml --params '{\"payment\":\"p1\",\"amount\":100,\"currency\":\"usd\"}' --answer answer.json"
)]
struct Check {
    /// The file; its name without `.toml` is the backend's.
    file: PathBuf,
    /// One operation; all that send something if not given.
    #[arg(long)]
    operation: Option<OperationName>,
    /// Parameters in JSON, instead of the file's own sample.
    #[arg(long, value_name = "JSON", conflicts_with = "draft")]
    params: Option<String>,
    /// A file with a proposal in JSON: its `operation` and `parameters` are taken.
    #[arg(long, value_name = "FILE")]
    draft: Option<PathBuf>,
    /// A file with an answer, `{"status": 200, "headers": {}, "body": {}}`: only what this one would mean.
    #[arg(long, value_name = "FILE")]
    answer: Option<PathBuf>,
    /// With `--answer`, explain everything else too.
    #[arg(long, requires = "answer")]
    all: bool,
}

/// Print an example file, to be put into the directory of backend files.
#[derive(Args)]
#[command(after_help = "Examples:\n  writ backend example square")]
struct Example {
    /// `adyen`, `paypal`, `shopify` or `square`.
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SampleAnswer {
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: serde_json::Value,
}

impl BackendArgs {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            BackendCommand::Check(check) => check.run(context),
            BackendCommand::Example(example) => {
                let file = format!("{}.toml", example.name);
                let found = EXAMPLES.iter().find(|(name, _)| *name == file);
                let (name, text) = found.ok_or_else(|| {
                    let known: Vec<&str> = EXAMPLES.iter().map(|(name, _)| name.trim_end_matches(".toml")).collect();
                    CliError::failed(format!("there is no example `{}`: name one of {}", example.name, known.join(", ")))
                })?;
                context.out.answer(&json!({ "file": name, "text": text }), |_| (*text).to_owned())
            }
        }
    }
}

fn read(path: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(path).map_err(|error| CliError::failed(format!("{}: {error}", path.display())))
}

impl Check {
    fn run(self, context: &Context) -> Result<(), CliError> {
        let name = self
            .file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let dir = self.file.parent().unwrap_or_else(|| Path::new("."));
        let backends = Backends::from_texts([(name.as_str(), read(&self.file)?.as_str())], dir)
            .map_err(|mistakes| CliError::Failed(mistakes.0.iter().map(ToString::to_string).collect()))?;
        let (operation, params) = self.sample()?;
        let answer = self.answer.as_deref().map(answer).transpose()?;
        // A draft's id is part of what is sent, so a sample has one that no draft can have.
        let draft: DraftId = "drf_00000000000070008000000000000000"
            .parse()
            .map_err(|error| CliError::failed(format!("{error}")))?;
        let chosen: Vec<&Operation> = backends
            .operations()
            .filter(|found| operation.as_ref().map_or(!found.is_read(), |wanted| found.name() == wanted))
            .collect();
        if chosen.is_empty() {
            return Err(CliError::failed(format!("{name}: there is no such operation that sends anything")));
        }
        let (mut values, mut texts) = (Vec::new(), Vec::new());
        for found in chosen {
            let Some(params) = params.as_ref().or_else(|| found.sample()) else {
                values.push(json!({ "operation": found.name(), "sample": null }));
                texts.push(format!(
                    "{}: no sample; give its parameters with --operation {} --params",
                    found.name(),
                    found.name()
                ));
                continue;
            };
            let failed = |error| CliError::failed(format!("{name}: {}: {error}", found.name()));
            let (mut meaning, mut explained_whole) = (None, None);
            let mut text = String::new();
            if let Some(answer) = &answer {
                let (meant, then) = found
                    .explain_answer(params, &draft, answer.status, &answer.headers, &answer.body)
                    .map_err(failed)?;
                meaning =
                    Some(json!({ "outcome": meant.outcome.as_str(), "rule": meant.rule, "reference": meant.reference, "then": then }));
                text.push_str(&format!(
                    "{}: {} -> {}: {then}\n",
                    found.name(),
                    shown(&meant.rule),
                    meant.outcome.as_str()
                ));
            }
            if answer.is_none() || self.all {
                let explained = found.explain(params, &draft).map_err(failed)?;
                text.push_str(&told(&context.out, &explained));
                explained_whole = Some(explained);
            }
            values.push(json!({ "operation": found.name(), "meant": meaning, "explained": explained_whole }));
            texts.push(text);
        }
        context.out.answer(&json!({ "ok": true, "operations": values }), |out| {
            format!("{}: {name}\n\n{}", out.good("ok"), texts.join("\n"))
        })
    }

    /// The operation and the parameters that were given.
    fn sample(&self) -> Result<(Option<OperationName>, Option<Json>), CliError> {
        if let Some(text) = &self.params {
            let params = Json::parse(text.as_bytes()).map_err(|error| CliError::failed(format!("--params: {error}")))?;
            return Ok((self.operation.clone(), Some(params)));
        }
        let Some(path) = &self.draft else {
            return Ok((self.operation.clone(), None));
        };
        let at = |problem: String| CliError::failed(format!("{}: {problem}", path.display()));
        let proposal = Json::parse(read(path)?.as_bytes()).map_err(|error| at(error.to_string()))?;
        let params = proposal
            .member("parameters")
            .cloned()
            .ok_or_else(|| at("has no `parameters`".to_owned()))?;
        let named = proposal.member("operation").and_then(Json::as_str);
        let named = named.map(|text| text.parse().map_err(|error| at(format!("{error}")))).transpose()?;
        Ok((self.operation.clone().or(named), Some(params)))
    }
}

fn answer(path: &Path) -> Result<SampleAnswer, CliError> {
    serde_json::from_str(&read(path)?).map_err(|error| CliError::failed(format!("{}: {error}", path.display())))
}

fn told(out: &Output, explained: &Explained) -> String {
    let request = &explained.request;
    let mut sent = vec![format!("{} {}", request.method, request.url)];
    sent.extend(request.headers.iter().map(|(name, value)| format!("{name}: {}", shown(value))));
    sent.push("(the secret `auth.write`)".to_owned());
    sent.push(format!("key: {}", explained.key));
    sent.push(String::new());
    sent.push(shown(&request.body));
    let mut answers = lines(&explained.answers);
    answers.push("anything else -> ambiguous: looked up; if nothing decides, a person's case".to_owned());
    let mut text = format!("{}\n", out.strong(&explained.operation));
    text.push_str(&section(out, "read when a draft is made", &explained.reads));
    text.push_str(&section(
        out,
        "read again right before it is sent, and unchanged",
        &explained.unchanged,
    ));
    text.push_str(&section(out, "sent", &sent));
    text.push_str(&section(out, "answers, the first that fits decides", &answers));
    text.push_str(&section(out, "a lost answer is looked up", &explained.look_ups));
    let mut events = lines(&explained.events);
    if !events.is_empty() {
        events.push("anything else, and what says anything but the draft, is written down and changes nothing".to_owned());
    }
    if !explained.signed.is_empty() {
        events.push(format!("signed, and so all that is looked at: {}", explained.signed.join(", ")));
    }
    text.push_str(&section(out, "told by the backend, signed", &events));
    text
}

fn lines(rules: &[AnswerLine]) -> Vec<String> {
    let line = |rule: &AnswerLine| {
        let decides = format!("{} ({}) -> {}: {}", rule.rule, rule.when, rule.outcome, rule.then);
        let requires = rule.require.iter().map(|require| format!("  only if {require}"));
        std::iter::once(decides).chain(requires).collect::<Vec<String>>()
    };
    rules.iter().flat_map(line).collect()
}
