//! One `[[operation]]` of a backend file, with everything the loader insists on so that a mistake here cannot cost money.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::answer::Fields;
use super::classify::Outcome;
use super::condition::Condition;
use super::graphql::Question;
use super::headers::Taken;
use super::load_events::events;
use super::load_request::request;
use super::load_rules::{idempotency, reconcile, retry, rules};
use super::money::Currencies;
use super::operation::{Action, Backend, Expectation, Operation, Precondition, Read, Write};
use super::params::Params;
use super::retry::{Replay, Window};
use super::template::{Expression, Names, Path, Reference, expressions};
use crate::domain::draft::KeyPlacement;
use crate::domain::json::Json;
use crate::domain::name::{OperationName, ResourceType};
use crate::domain::operation::Consequence;
use crate::settings::{Section, one_of};

/// What the operations of a file have in common.
pub(super) struct Shared<'a> {
    pub(super) currencies: &'a Currencies,
    /// The headers that every request carries.
    pub(super) taken: &'a Taken,
    pub(super) total_timeout: Duration,
    /// The places of the backend's events that are signed; `None` where all of an event is.
    pub(super) signed: Option<&'a [String]>,
}

type Build = Box<dyn FnOnce(Arc<Backend>) -> Operation>;

/// Reads an operation; what it returns is finished once the backend is known. `None` goes with at least one mistake.
pub(super) fn operation(section: Section<'_>, shared: &Shared<'_>) -> Option<Build> {
    let name: Option<OperationName> = section.parsed("name", "the operation's name, such as `refund.create`");
    let consequence = section.word(
        "consequence",
        &[
            ("read", Consequence::Read),
            ("write", Consequence::Write),
            ("money", Consequence::Money),
            ("access", Consequence::Access),
        ],
    );
    let params = section
        .sub("params", "the closed table of parameters")
        .map(Params::read)
        .unwrap_or_default();
    let (resource, resource_param) = match section.sub("resource", "`{ type = \"charge\", id = \"charge\" }`") {
        Some(sub) => {
            let kind: Option<ResourceType> = sub.parsed("type", "the kind of thing that is touched, such as `charge`");
            let id = sub.text("id", "the parameter that holds its id");
            if let Some(id) = id
                && !params.may_be_id(id)
            {
                sub.wrong("id", format!("`{id}` is not a required parameter of type `id`"));
            }
            sub.close();
            (kind, id.map(str::to_owned))
        }
        None => (None, None),
    };
    let amount = params.amount().map_err(|problem| section.wrong("params", problem)).ok().flatten();
    match (consequence, &amount) {
        (Some(Consequence::Money), None) => section.wrong("params", "an operation that moves money needs a parameter of type `minor`"),
        (Some(_), Some(_)) if shared.currencies.exponents.is_empty() => {
            section.wrong("params", "amounts need the file's table `currency.exponents`");
        }
        _ => {}
    }
    let sample = section.maybe_sub("sample").and_then(|sub| sample(sub, &params, shared.currencies));
    let mut names = Names {
        params: params.leaves(),
        facts: BTreeSet::new(),
        version: Vec::new(),
    };
    let judged = consequence.or_else(|| likely(&section));
    let action = match judged {
        None => None,
        Some(Consequence::Read) => read(&section, &names, resource.as_ref()).map(Action::Read),
        Some(kind) => write(&section, shared, &mut names, kind, resource_param.as_deref(), amount.as_ref())
            .map(|write| Action::Write(Box::new(write))),
    };
    if judged.is_some() {
        section.close();
    }
    let (name, consequence, resource, resource_param, action) = (name?, consequence?, resource?, resource_param?, action?);
    Some(Box::new(move |backend| Operation {
        backend,
        name,
        consequence,
        resource,
        resource_param,
        params,
        amount,
        sample,
        action,
    }))
}

/// Parameters of an example, which must be such as a caller could send.
fn sample(sub: Section<'_>, params: &Params, currencies: &Currencies) -> Option<Json> {
    let table: toml::Table = sub.entries().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    let given = serde_json::to_value(table).ok().and_then(|value| Json::from_value(&value).ok());
    let Some(given) = given else {
        sub.wrong("", "holds what no parameter can: expected texts, whole numbers, true or false");
        return None;
    };
    let checked = params.check(&given, currencies);
    if let Err(mistakes) = &checked {
        for mistake in mistakes {
            sub.wrong("", mistake.to_string());
        }
    }
    sub.close();
    checked.ok()
}

/// What an operation without a readable consequence is judged as, so that its other mistakes show; it is not loaded either way. `None` if nothing tells.
fn likely(section: &Section<'_>) -> Option<Consequence> {
    const OF_A_WRITE: [&str; 6] = ["request", "idempotency", "classify", "retry", "reconcile", "on_failure"];
    if OF_A_WRITE.iter().any(|key| section.maybe(key).is_some()) {
        return Some(Consequence::Write);
    }
    (section.maybe("answer").is_some() || section.maybe("path").is_some()).then_some(Consequence::Read)
}

fn read(section: &Section<'_>, names: &Names, resource: Option<&ResourceType>) -> Option<Read> {
    let path = section.text("path", "a path such as `/v1/charges/{params.charge}`");
    let path = path.and_then(|path| Path::read(path, &section.at("path"), names.with(&[]), section.log()));
    let query = expressions(section.maybe_sub("query"), names.with(&[]));
    let question = Question::read(section, names.with(&[]));
    let keep = section.sub("answer", "a table of the fields the answer holds").map(Fields::read);
    Some(Read {
        name: resource?.to_string(),
        path: path?,
        query,
        question,
        keep: keep?,
    })
}

fn write(
    section: &Section<'_>,
    shared: &Shared<'_>,
    names: &mut Names,
    consequence: Consequence,
    resource_param: Option<&str>,
    amount: Option<&(String, String)>,
) -> Option<Write> {
    let on_failure = section.text("on_failure", "what stands when it fails, such as `no refund is created`");
    if on_failure.is_some_and(|text| text.trim().is_empty()) {
        section.wrong(
            "on_failure",
            "is empty: say what stands when it fails, such as `no refund is created`",
        );
    }
    let lifetime = section.duration("credential_lifetime", Duration::from_secs(60));
    let (longest, what) = match consequence {
        Consequence::Money => (60, "a credential for money"),
        _ => (120, "a credential"),
    };
    if lifetime.is_some_and(|l| l < Duration::from_secs(5) || l > Duration::from_secs(longest)) {
        section.wrong(
            "credential_lifetime",
            format!("is out of range: {what} lives from `5s` to `{longest}s`"),
        );
    }
    let unread = unread(section);
    if consequence == Consequence::Money {
        for (key, remedy) in MONEY_GUARDS {
            let empty = section.maybe(key).is_none_or(|value| value.as_array().is_some_and(Vec::is_empty));
            if empty && unread.is_none() {
                section.wrong(key, format!("is missing: an operation that moves money needs it: {remedy}"));
            }
        }
    }
    let fields = section.texts("fields").into_iter().map(str::to_owned).collect();
    let declared = section.subs("facts");
    let count = declared.len();
    let reads: Vec<Sketch> = declared.into_iter().filter_map(|sub| fact_read(sub, names)).collect();
    // A read that could not be read is a mistake already, and what stands under its name is not known.
    let known_reads = (reads.len() == count).then_some(reads.as_slice());
    for read in &reads {
        names.facts.extend(read.keep.names().map(|name| format!("{}.{name}", read.name)));
    }
    let version = fact(section, "version", names);
    if version.is_some() {
        names.version.push(("resource.version", Reference::Version));
    }
    let subject = fact(section, "subject", names);
    let expect = section
        .subs("expect")
        .into_iter()
        .filter_map(|sub| {
            let condition = Condition::read(&sub, names.with(&names.version));
            if let (Some(condition), Some(reads)) = (&condition, known_reads) {
                on_kept_facts(&sub, condition, reads);
            }
            let reason = sub.text("reason", "what a caller is told when it does not hold");
            sub.close();
            Some(Expectation {
                condition: condition?,
                reason: reason?.to_owned(),
            })
        })
        .collect();
    let precondition = section.maybe_sub("precondition").and_then(|sub| precondition(sub, &reads));
    let mut taken = shared.taken.clone();
    let request = section
        .sub("request", "a table with `method`, `path`, `encoding` and `body`")
        .and_then(|sub| request(sub, names, &mut taken));
    let known = [names.version.as_slice(), &[("draft.id", Reference::DraftId)]].concat();
    let rules = rules(section, names.with(&known), consequence, resource_param, amount);
    let key = idempotency(section, &mut taken);
    // What follows is judged as if a key were sent, so that one mistake does not hide the next.
    let (placement, window) = key.clone().unwrap_or_else(assumed);
    let with_key = [known.as_slice(), &[("idem.key", Reference::Key)]].concat();
    let steps = reconcile(
        section,
        names.with(&with_key),
        request.as_ref().map(|r| &r.body),
        &placement,
        &rules,
        shared.total_timeout,
    );
    let events = events(section, names.with(&with_key), resource_param, amount, &steps, shared.signed);
    let retry = retry(section, &placement, &window, shared.total_timeout);
    if !rules.iter().any(|rule| matches!(rule.outcome, Outcome::Applied | Outcome::Pending)) {
        section.wrong(
            "classify",
            "has no rule with the outcome `applied` or `pending`: say how a success reads",
        );
    }
    let (mut request, retry) = (request?, retry?);
    if placement == KeyPlacement::Body && request.body.keys() == 0 {
        section.wrong("request.body", "does not hold `{idem.key}`, though `idempotency.place` is `body`");
    }
    key?;
    request.placement = placement;
    Some(Write {
        on_failure: on_failure?.trim().to_owned(),
        lifetime: lifetime?,
        fields,
        unread: unread.map(str::to_owned),
        version,
        subject,
        reads: reads.into_iter().filter_map(Sketch::finish).collect(),
        expect,
        precondition,
        request,
        rules,
        retry,
        window,
        steps,
        events,
    })
}

/// Why nothing is read before the request, at a backend that shows nothing. It is said in so many words, and stands in the draft for whoever approves it.
fn unread<'a>(section: &Section<'a>) -> Option<&'a str> {
    let why = section.maybe_text("unread", "why the backend shows nothing before the request")?;
    if why.trim().is_empty() || super::text::unfit(why).is_some() {
        section.wrong(
            "unread",
            "is not a sentence that a reviewer can read: say why the backend shows nothing",
        );
    }
    for key in ["facts", "expect", "precondition", "version", "subject"] {
        if section.maybe(key).is_some() {
            section.wrong(
                "unread",
                format!("stands beside `{key}`: either something is read before the request or nothing is"),
            );
        }
    }
    Some(why)
}

/// What an operation that moves money must have, and what it is for.
const MONEY_GUARDS: [(&str, &str); 3] = [
    ("facts", "read what is about to be changed"),
    ("expect", "say what must hold of the facts"),
    ("precondition", "say which facts must be unchanged right before it is sent"),
];

/// An expectation looks at kept facts and at nothing else: what is never there could make it hold whatever the backend says.
fn on_kept_facts(sub: &Section<'_>, condition: &Condition, reads: &[Sketch]) {
    let Some(pointers) = condition.pointers() else {
        sub.wrong(
            "header",
            "an expectation is about kept facts: keep the header under `facts` and write its `pointer`",
        );
        return;
    };
    for pointer in pointers {
        let path: Vec<String> = pointer
            .split('/')
            .skip(1)
            .map(|step| step.replace("~1", "/").replace("~0", "~"))
            .collect();
        let kept = path
            .split_first()
            .is_some_and(|(name, below)| reads.iter().any(|read| read.name == *name && read.keep.reach(below)));
        if !kept {
            sub.wrong(
                "",
                format!("`{pointer}` is not a kept fact, so nothing would be checked: expected `/read/name` of one under `facts`"),
            );
        }
    }
}

fn assumed() -> (KeyPlacement, Window) {
    let day = Window {
        window: Duration::from_secs(86_400),
        safety: Duration::ZERO,
        replay: Replay::Stored,
    };
    (
        KeyPlacement::Header {
            name: String::new(),
            quoted: false,
        },
        day,
    )
}

/// A read whose path may have been refused; its facts count as kept all the same, so that one mistake is reported once.
struct Sketch {
    name: String,
    path: Option<Path>,
    query: Vec<(String, Expression)>,
    question: Option<Question>,
    keep: Fields,
}

impl Sketch {
    fn finish(self) -> Option<Read> {
        Some(Read {
            name: self.name,
            path: self.path?,
            query: self.query,
            question: self.question,
            keep: self.keep,
        })
    }
}

fn fact_read(sub: Section<'_>, names: &Names) -> Option<Sketch> {
    let name = sub.text("name", "a name such as `charge`");
    let path = sub.text("path", "a path such as `/v1/charges/{params.charge}`");
    let path = path.and_then(|path| Path::read(path, &sub.at("path"), names.with(&[]), sub.log()));
    let query = expressions(sub.maybe_sub("query"), names.with(&[]));
    let question = Question::read(&sub, names.with(&[]));
    let keep = sub.sub("keep", "a table of the fields that are kept").map(Fields::read);
    sub.close();
    Some(Sketch {
        name: name?.to_owned(),
        path,
        query,
        question,
        keep: keep?,
    })
}

/// A setting that names a kept fact as `read.name`.
fn fact(section: &Section<'_>, key: &str, names: &Names) -> Option<(String, String)> {
    let text = section.maybe_text(key, "a kept fact, as `read.name`")?;
    match text.split_once('.') {
        Some((read, name)) if names.facts.contains(text) => Some((read.to_owned(), name.to_owned())),
        _ => {
            let kept = one_of(names.facts.iter().map(String::as_str));
            section.wrong(key, format!("`{text}` is not a kept fact: expected {kept}"));
            None
        }
    }
}

fn precondition(sub: Section<'_>, reads: &[Sketch]) -> Option<Precondition> {
    let name = sub.text("read", "the name of a read under `facts`");
    let unchanged = sub.texts("unchanged");
    let read = name.and_then(|name| reads.iter().find(|read| read.name == name));
    if let (Some(name), None) = (name, read) {
        let known = one_of(reads.iter().map(|read| read.name.as_str()));
        sub.wrong("read", format!("`{name}` is not a read under `facts`: expected {known}"));
    }
    if unchanged.is_empty() {
        sub.wrong("unchanged", "is missing or empty: list the facts that must be as they were");
    }
    if let Some(read) = read {
        for fact in unchanged.iter().filter(|fact| !read.keep.names().any(|name| name == **fact)) {
            let known = one_of(read.keep.names());
            sub.wrong("unchanged", format!("`{fact}` is not kept by that read: expected {known}"));
        }
    }
    sub.close();
    Some(Precondition {
        read: name?.to_owned(),
        unchanged: unchanged.into_iter().map(str::to_owned).collect(),
    })
}
