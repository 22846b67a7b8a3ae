//! The part of an operation that decides what an answer means and what may be sent again.

use std::time::Duration;

use super::answer::{pointer, pointer_at};
use super::classify::{Outcome, Rule, Statuses};
use super::condition::Condition;
use super::graphql::Question;
use super::headers::{Taken, header_name};
use super::operation::Body;
use super::reconcile::{NextPage, Proof, Step, StepKind};
use super::retry::{Replay, Retry, Stop, Window};
use super::template::{Path, Reference, Scope, expressions};
use crate::domain::draft::KeyPlacement;
use crate::domain::operation::Consequence;
use crate::settings::Section;

/// How long a key written by this program is.
const KEY_LENGTH: i64 = 36;
/// What an undocumented window is taken for.
const UNKNOWN_WINDOW: Duration = Duration::from_secs(3600);

/// How long a proof of absence waits at least after the last send.
const SHORTEST_SETTLE: Duration = Duration::from_secs(60);

/// The ordered rules under `classify`.
pub(super) fn rules(
    section: &Section<'_>,
    scope: Scope<'_>,
    consequence: Consequence,
    resource: Option<&str>,
    amount: Option<&(String, String)>,
) -> Vec<Rule> {
    let mut out = Vec::new();
    for sub in section.subs("classify") {
        let name = sub.text("name", "what this answer means, in a few words");
        let statuses = sub.text("status", "statuses such as `200`, `5xx` or `401,403`").and_then(|text| {
            let parsed = Statuses::parse(text);
            if parsed.is_none() {
                sub.wrong(
                    "status",
                    format!("`{text}` is not a set of statuses: expected `200`, `5xx` or `401,403`"),
                );
            }
            parsed
        });
        let when = Condition::read_all(&sub, "when", scope);
        let require = Condition::read_all(&sub, "require", scope);
        let outcome = sub.word("outcome", Outcome::WORDS);
        let reference = sub
            .maybe_text("reference", "a JSON pointer to the id")
            .and_then(|text| pointer_at(&sub, "reference", text));
        if let Some(outcome @ (Outcome::Applied | Outcome::Pending)) = outcome {
            let mut wanted: Vec<&str> = resource.into_iter().collect();
            if let Some((minor, currency)) = amount {
                wanted.extend([minor.as_str(), currency.as_str()]);
            }
            for param in wanted {
                let compared = require
                    .iter()
                    .flat_map(Condition::equal_to)
                    .any(|reference| matches!(reference, Reference::Param(path) if path.join(".") == param));
                if !compared {
                    let word = outcome.as_str();
                    sub.wrong(
                        "require",
                        format!(
                            "does not compare anything with `{{params.{param}}}`: an answer is `{word}` only if it is about this draft"
                        ),
                    );
                }
            }
            if consequence == Consequence::Money && reference.is_none() {
                sub.wrong("reference", "is missing: name the pointer to the id of what was made");
            }
        }
        if let (Some(Outcome::Failed), Some(statuses)) = (outcome, &statuses) {
            failed(&sub, statuses, &when, &require);
        }
        sub.close();
        // What could not be read was noted, so nothing is loaded; it stands for anything here, so that no other check stumbles over it.
        out.push(Rule {
            name: name.unwrap_or_default().to_owned(),
            statuses: statuses.unwrap_or(Statuses(vec![(100, 599)])),
            when,
            require,
            outcome: outcome.unwrap_or(Outcome::Applied),
            reference,
        });
    }
    out
}

/// What may be called `failed`, which ends a draft as certainly not done.
fn failed(sub: &Section<'_>, statuses: &Statuses, when: &[Condition], require: &[Condition]) {
    if statuses.meets(500..=599) {
        sub.wrong(
            "outcome",
            "a status of 5xx does not say that nothing was done, so it cannot be `failed`: write `ambiguous`, or take it out of `status`",
        );
    }
    // An error within a 2xx repeats nothing of the draft: there the answer must both hold the error and lack what would have been made.
    let refusal = when.iter().any(Condition::asks_presence) && when.iter().any(Condition::asks_absence);
    if statuses.meets(200..=299) && require.is_empty() && !refusal {
        sub.wrong(
            "require",
            "is missing: a status of 2xx can be `failed` only if the answer is about this draft: compare it with `{draft.id}` or a parameter; or, for an error \
             within, ask under `when` that the error is there (`exists = true`) and that what would have been made is not (`exists = false`)",
        );
    }
}

/// Where the key goes and how long it is remembered.
pub(super) fn idempotency(section: &Section<'_>, taken: &mut Taken) -> Option<(KeyPlacement, Window)> {
    #[derive(Clone, Copy)]
    enum Place {
        Header,
        Body,
        None,
    }
    let sub = section.sub("idempotency", "a table with `place`, `window` and `replay`")?;
    let place = sub.word("place", &[("header", Place::Header), ("body", Place::Body), ("none", Place::None)]);
    if let Some(Place::None) = place {
        sub.close();
        let window = Window {
            window: Duration::ZERO,
            safety: Duration::ZERO,
            replay: Replay::Never,
        };
        return Some((KeyPlacement::None, window));
    }
    let placement = match place? {
        Place::Header => {
            let name = sub
                .text("name", "the header's name in lower case")
                .and_then(|name| header_name(&sub, "name", name));
            let quoted = sub.maybe_flag("quoted").unwrap_or(false);
            if let Some(name) = &name {
                taken.claim(name.as_str(), &sub.at("name"), sub.log());
            }
            name.map(|name| KeyPlacement::Header {
                name: name.as_str().to_owned(),
                quoted,
            })
        }
        Place::Body | Place::None => Some(KeyPlacement::Body),
    };
    let shortest = sub.maybe_integer("min_len").unwrap_or(1);
    let longest = sub.maybe_integer("max_len").unwrap_or(255);
    if longest < KEY_LENGTH || shortest > KEY_LENGTH {
        sub.wrong("max_len", format!("a key has {KEY_LENGTH} characters, and {shortest} to {longest} does not fit it: this backend's keys cannot be used, write `place = \"none\"`"));
    }
    let replay = sub.word(
        "replay",
        &[
            ("stored", Replay::Stored),
            ("current_state", Replay::CurrentState),
            ("reexecutes_failures", Replay::ReexecutesFailures),
        ],
    );
    let unknown = sub.maybe("window").and_then(toml::Value::as_str) == Some("unknown");
    let window = if unknown {
        Some(UNKNOWN_WINDOW)
    } else {
        let told = sub.value("window", "how long the backend remembers a key, such as `24h`, or `unknown`");
        told.and_then(|_| sub.duration("window", Duration::ZERO))
    };
    let safety = sub.duration("safety", if unknown { Duration::ZERO } else { Duration::from_secs(3600) });
    if let (Some(window), Some(safety)) = (window, safety)
        && safety >= window
    {
        sub.wrong("safety", "leaves nothing of the window: expected less than `window`");
    }
    sub.close();
    Some((
        placement?,
        Window {
            window: window?,
            safety: safety?,
            replay: replay?,
        },
    ))
}

/// How it is tried again.
pub(super) fn retry(section: &Section<'_>, placement: &KeyPlacement, window: &Window, total_timeout: Duration) -> Option<Retry> {
    let sub = section.sub("retry", "a table with `on`, `attempts` and `give_up`")?;
    let mut on = Vec::new();
    for word in sub.texts("on") {
        match Outcome::WORDS.iter().find(|(known, _)| *known == word).map(|(_, outcome)| *outcome) {
            Some(outcome @ (Outcome::InFlight | Outcome::NotExecuted | Outcome::Ambiguous)) => on.push(outcome),
            _ => sub.wrong(
                "on",
                format!("`{word}` is not repeatable: expected `in_flight`, `not_executed` or `ambiguous`"),
            ),
        }
    }
    if *placement == KeyPlacement::None && on.iter().any(|outcome| *outcome != Outcome::NotExecuted) {
        sub.wrong(
            "on",
            "without an idempotency key only `not_executed` may be repeated: anything else could act twice",
        );
    }
    let attempts = sub.maybe_integer("attempts").unwrap_or(1);
    let attempts = u32::try_from(attempts).ok().filter(|n| (1..=20).contains(n));
    if attempts.is_none() {
        sub.wrong("attempts", "expected 1 to 20, the first time included");
    }
    let base = sub.duration("backoff", Duration::from_millis(500));
    let cap = sub.duration("backoff_cap", Duration::from_secs(5));
    let retry_after_cap = sub.duration("retry_after_cap", Duration::from_secs(60));
    let give_up = sub.duration("give_up", Duration::from_secs(600));
    let stop = sub.maybe_sub("stop").and_then(|stop| {
        let header = stop.text("header", "a header's name").map(str::to_ascii_lowercase);
        let equals = stop.text("equals", "the value that says no").map(str::to_owned);
        stop.close();
        Some(Stop {
            header: header?,
            equals: equals?,
        })
    });
    sub.close();
    let give_up = give_up?;
    let left = window.window.saturating_sub(window.safety);
    if window.replay != Replay::Never && !left.is_zero() && give_up.saturating_add(total_timeout) >= left {
        section.wrong("retry.give_up", "the key could be sent after the backend forgot it: `give_up` plus `total_timeout` must be shorter than `window` minus `safety`");
    }
    Some(Retry {
        on,
        stop,
        attempts: attempts?,
        base: base?,
        cap: cap?,
        retry_after_cap: retry_after_cap?,
        give_up,
    })
}

/// The steps that look a lost result up.
pub(super) fn reconcile(
    section: &Section<'_>,
    scope: Scope<'_>,
    body: Option<&Body>,
    placement: &KeyPlacement,
    rules: &[Rule],
    total_timeout: Duration,
) -> Vec<Step> {
    #[derive(Clone, Copy)]
    enum Kind {
        Replay,
        Get,
        List,
        Follow,
        Show,
    }
    const KINDS: &[(&str, Kind)] = &[
        ("replay", Kind::Replay),
        ("get", Kind::Get),
        ("list", Kind::List),
        ("follow", Kind::Follow),
        ("show", Kind::Show),
    ];
    let mut out = Vec::new();
    let subs = section.subs("reconcile");
    if subs.is_empty() {
        section.wrong(
            "reconcile",
            "is missing: say how a lost result is looked up, with at least one step",
        );
    }
    for sub in subs {
        let name = sub.text("name", "a name for the step");
        let place = |path: &str| Path::read(path, &sub.at("path"), scope, sub.log());
        let kind = match sub.word("kind", KINDS) {
            None => continue,
            Some(Kind::Replay) => {
                if *placement == KeyPlacement::None {
                    sub.wrong("kind", "a replay without an idempotency key is a second request: remove the step");
                }
                Some(StepKind::Replay)
            }
            Some(Kind::Get) => {
                let path = sub.text("path", "a path").and_then(place);
                let query = expressions(sub.maybe_sub("query"), scope);
                let found = Condition::read_all(&sub, "found", scope);
                if found.is_empty() {
                    sub.wrong("found", "is missing: say by what the effect is recognised");
                }
                let reference = sub
                    .maybe_text("reference", "a JSON pointer")
                    .and_then(|text| pointer_at(&sub, "reference", text));
                path.map(|path| StepKind::Get {
                    path,
                    query,
                    found,
                    reference,
                })
            }
            Some(Kind::List) => list(&sub, scope, body, rules),
            Some(Kind::Follow) => follow(&sub, scope, body, rules),
            Some(Kind::Show) => {
                judged_by(&sub, rules);
                found_path(&sub, "path", scope).map(|path| StepKind::Show { path })
            }
        };
        let absent = match kind {
            Some(StepKind::Show { .. }) => None,
            _ => absent(&sub, placement, total_timeout),
        };
        if let (Some(_), Some(StepKind::List { next: None, .. })) = (absent, &kind) {
            sub.wrong(
                "next",
                "is missing: an entry on a page that was not read is not absent: say how the list goes on, or write `absent = \"inconclusive\"`",
            );
        }
        sub.close();
        if let (Some(name), Some(kind)) = (name, kind) {
            out.push(Step {
                name: name.to_owned(),
                kind,
                absent,
            });
        }
    }
    out
}

fn list(sub: &Section<'_>, scope: Scope<'_>, body: Option<&Body>, rules: &[Rule]) -> Option<StepKind> {
    let path = sub
        .text("path", "a path")
        .and_then(|path| Path::read(path, &sub.at("path"), scope, sub.log()));
    let query = expressions(sub.maybe_sub("query"), scope);
    let items = pointer(sub, "items");
    let within = sub
        .maybe_text("within", "a JSON pointer")
        .and_then(|text| pointer_at(sub, "within", text));
    let matching = marked(sub, scope, body);
    judged_by(sub, rules);
    let question = Question::read(sub, scope);
    let next = sub.maybe_sub("next").and_then(next_page);
    if question.is_some() && next.is_some() {
        sub.wrong("next", "stands beside `graphql`: one question must show the whole list");
    }
    Some(StepKind::List {
        path: path?,
        query,
        question,
        items: items?,
        within,
        matching,
        next,
    })
}

/// How a list goes on.
fn next_page(next: Section<'_>) -> Option<NextPage> {
    let more = pointer(&next, "more");
    let param = next.text("param", "the query's name for where the next page starts");
    let last = pointer(&next, "last");
    let pages = next.maybe_integer("pages").unwrap_or(10);
    let pages = usize::try_from(pages).ok().filter(|n| (1..=100).contains(n));
    if pages.is_none() {
        next.wrong("pages", "expected 1 to 100");
    }
    next.close();
    Some(NextPage {
        more: more?,
        param: param?.to_owned(),
        last: last?,
        pages: pages?,
    })
}

/// One resource that lists ids, and each of what it lists.
fn follow(sub: &Section<'_>, scope: Scope<'_>, body: Option<&Body>, rules: &[Rule]) -> Option<StepKind> {
    let path = sub
        .text("path", "a path")
        .and_then(|path| Path::read(path, &sub.at("path"), scope, sub.log()));
    let require = Condition::read_all(sub, "require", scope);
    if !require
        .iter()
        .flat_map(Condition::equal_to)
        .any(|reference| matches!(reference, Reference::Param(_)))
    {
        sub.wrong(
            "require",
            "does not compare anything with a parameter: a list counts only if the answer is about this draft's resource",
        );
    }
    let ids = pointer(sub, "ids");
    let each = found_path(sub, "each", scope);
    let most = sub.maybe_integer("most").unwrap_or(20);
    let most = usize::try_from(most).ok().filter(|n| (1..=100).contains(n));
    if most.is_none() {
        sub.wrong("most", "expected 1 to 100");
    }
    let matching = marked(sub, scope, body);
    judged_by(sub, rules);
    Some(StepKind::Follow {
        path: path?,
        require,
        ids: ids?,
        each: each?,
        most: most?,
        matching,
    })
}

/// A path with `{found.id}` in it.
fn found_path(sub: &Section<'_>, key: &str, scope: Scope<'_>) -> Option<Path> {
    let others = [scope.others, &[("found.id", Reference::Found)]].concat();
    let scope = Scope { others: &others, ..scope };
    let path = Path::read(sub.text(key, "a path with `{found.id}`")?, &sub.at(key), scope, sub.log())?;
    if !path.holds(&Reference::Found) {
        sub.wrong(key, "does not hold `{found.id}`: every look would be at the same thing");
        return None;
    }
    Some(path)
}

/// By what this draft's result is recognised among others.
fn marked(sub: &Section<'_>, scope: Scope<'_>, body: Option<&Body>) -> Vec<Condition> {
    let matching = Condition::read_all(sub, "match", scope);
    let marks: Vec<&Reference> = matching
        .iter()
        .flat_map(Condition::equal_to)
        .filter(|reference| matches!(reference, Reference::DraftId | Reference::Key))
        .collect();
    if marks.is_empty() {
        sub.wrong(
            "match",
            "does not compare with `{draft.id}` or `{idem.key}`: another draft's result could be taken for this one's",
        );
    } else if let Some(body) = body
        && !marks.iter().all(|mark| body.count(&|reference| reference == *mark) > 0)
    {
        sub.wrong(
            "match",
            "compares with a mark that `request.body` does not send: put `{draft.id}` or `{idem.key}` there",
        );
    }
    matching
}

/// What was found is read by the rules for the write's own answer.
fn judged_by(sub: &Section<'_>, rules: &[Rule]) {
    if !rules
        .iter()
        .any(|rule| rule.outcome == Outcome::Applied && rule.statuses.covers(200))
    {
        sub.wrong("", "needs a `classify` rule for status 200 that judges the entry that was found");
    }
}

/// What "not found" means: nothing, unless the file says after how long and how often it is a proof.
fn absent(sub: &Section<'_>, placement: &KeyPlacement, total_timeout: Duration) -> Option<Proof> {
    #[derive(Clone, Copy, PartialEq)]
    enum Absent {
        Inconclusive,
        Proof,
    }
    let word = sub.maybe_word("absent", &[("inconclusive", Absent::Inconclusive), ("proof", Absent::Proof)])?;
    let settle = sub.duration("settle", Duration::ZERO);
    let repeats = sub.maybe_integer("repeats").and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    if word == Absent::Inconclusive {
        return None;
    }
    let settle = settle?;
    if *placement == KeyPlacement::None {
        sub.wrong(
            "absent",
            "without an idempotency key nothing proves that a request will not act later: write `inconclusive`",
        );
    }
    if settle < SHORTEST_SETTLE || settle <= total_timeout {
        sub.wrong(
            "settle",
            "a proof needs at least `60s` and more than `total_timeout`: longer than any sender can still be under way",
        );
    }
    if repeats < 2 {
        sub.wrong("repeats", "a proof needs at least 2 looks with the same answer: lists lag behind");
    }
    Some(Proof { settle, repeats })
}
