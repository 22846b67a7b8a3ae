//! A question in GraphQL: how backends are read that take nothing but POST. It asks and changes nothing, which the loader sees to.

use std::collections::BTreeSet;

use serde_json::Value as Answered;

use super::answer::pointer_at;
use super::template::{Context, Expression, Scope, expressions, object};
use crate::settings::Section;

/// A question, its variables, and where its answer must hold something.
#[derive(Debug, Clone)]
pub(super) struct Question {
    text: String,
    variables: Vec<(String, Expression)>,
    at: String,
}

/// What an answer to a question says before any field of it is looked at.
pub(super) enum Reply {
    /// The answer holds what was asked for.
    Whole,
    /// There is no such thing.
    Missing,
    /// It holds errors or is no answer: beside errors what is not there proves nothing.
    Errors,
}

impl Question {
    /// The table `graphql`.
    pub(super) fn read(section: &Section<'_>, scope: Scope<'_>) -> Option<Self> {
        let sub = section.maybe_sub("graphql")?;
        let text = sub.text("query", "the text of a query").map(str::trim);
        let variables = expressions(sub.maybe_sub("variables"), scope);
        let at = sub
            .text("at", "the JSON pointer to what was asked for, such as `/data/order`")
            .and_then(|text| pointer_at(&sub, "at", text));
        if let Some(text) = text {
            let words: Vec<&str> = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
            if words.first() != Some(&"query") || words.iter().any(|word| matches!(*word, "mutation" | "subscription")) {
                sub.wrong(
                    "query",
                    "is not one query: start with `query`; a read holds no `mutation` and no `subscription`",
                );
            }
            let used: BTreeSet<&str> = text.split('$').skip(1).map(name).collect();
            let given: BTreeSet<&str> = variables.iter().map(|(name, _)| name.as_str()).collect();
            for name in used.symmetric_difference(&given) {
                sub.wrong(
                    "variables",
                    format!("`{name}` stands in only one of `query` (as `${name}`) and `variables`: name it in both"),
                );
            }
        }
        sub.close();
        Some(Self {
            text: text?.to_owned(),
            variables,
            at: at?,
        })
    }

    /// The body that asks it.
    pub(super) fn body(&self, context: &Context<'_>) -> String {
        let variables = self
            .variables
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.render(context)?)));
        let text = crate::domain::json::Json::String(self.text.clone());
        object([("query".to_owned(), text), ("variables".to_owned(), object(variables))])
            .to_value()
            .to_string()
    }

    /// What the answer says as a whole.
    pub(super) fn reply(&self, body: &Answered) -> Reply {
        let errors = body
            .get("errors")
            .is_some_and(|errors| !errors.is_null() && errors.as_array().is_none_or(|all| !all.is_empty()));
        match body.pointer(&self.at) {
            _ if errors || !body.is_object() => Reply::Errors,
            None | Some(Answered::Null) => Reply::Missing,
            Some(_) => Reply::Whole,
        }
    }
}

fn name(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}
