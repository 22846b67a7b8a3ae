//! The state is a projection of the log: what the events say is replayed and compared with the tables that the program decides by.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use super::report::StateSeen;
use crate::audit::Note;
use crate::audit::brief::Text;
use crate::audit::source::SourceError;
use crate::domain::digest::Digest;
use crate::domain::lifecycle::{ApprovalTransition, CredentialTransition, DraftTransition, ExecutionTransition, StopTransition};

/// What has a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Thing {
    /// A draft.
    Draft,
    /// An approval.
    Approval,
    /// A credential.
    Credential,
    /// An execution.
    Execution,
    /// A stop.
    Stop,
}

impl Thing {
    /// Everything that has a state.
    pub const ALL: &'static [Self] = &[Self::Draft, Self::Approval, Self::Credential, Self::Execution, Self::Stop];

    /// The word for it, which is also that of its table.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Approval => "approval",
            Self::Credential => "credential",
            Self::Execution => "execution",
            Self::Stop => "stop",
        }
    }
}

/// A row of something that has a state.
pub struct StateRow<'r> {
    /// Its id.
    pub id: &'r str,
    /// Its state.
    pub state: &'r str,
    /// What else must be as the log says, in the order that [`StateTables::things`] tells.
    pub facts: &'r [Option<String>],
}

/// A signed approval record.
pub struct VoteRow<'r> {
    /// Its id.
    pub id: &'r str,
    /// The approval, the approver, the key, the decision, and SHA-256 over the record.
    pub facts: &'r [Option<String>],
}

/// Somebody or something that is registered.
pub enum Registered {
    /// A client.
    Client {
        /// Its id.
        id: String,
        /// Whether it is revoked.
        is_revoked: bool,
        /// SHA-256 over what it is registered with.
        content: Digest,
    },
    /// An approver.
    Approver {
        /// Its id.
        id: String,
        /// Whether they are revoked.
        is_revoked: bool,
        /// SHA-256 over authority and keys.
        content: Digest,
        /// The keys, and whether each is revoked.
        keys: Vec<(String, bool)>,
    },
}

/// The tables of the state, at the moment of the log.
pub trait StateTables {
    /// Tells every row of this kind. The facts: of a draft its hash; of an approval its draft; of a credential its draft, approval, hash, audience,
    /// root key and end; of an execution its draft and fencing token; of a stop its scope and value.
    ///
    /// # Errors
    /// [`SourceError`].
    fn things(&self, thing: Thing, each: &mut dyn FnMut(&StateRow<'_>)) -> Result<(), SourceError>;

    /// Tells every signed approval record.
    ///
    /// # Errors
    /// [`SourceError`].
    fn votes(&self, each: &mut dyn FnMut(&VoteRow<'_>)) -> Result<(), SourceError>;

    /// Everybody who is registered.
    ///
    /// # Errors
    /// [`SourceError`].
    fn registered(&self) -> Result<Vec<Registered>, SourceError>;
}

/// What of an event tells of state.
#[derive(Deserialize)]
struct Told<'e> {
    #[serde(borrow, rename = "type")]
    kind: Text<'e>,
    #[serde(borrow, default)]
    state: Option<Change<'e>>,
    #[serde(borrow, default)]
    draft: Option<DraftTold<'e>>,
    #[serde(borrow, default)]
    approval: Option<ApprovalTold<'e>>,
    #[serde(borrow, default)]
    credential: Option<CredentialTold<'e>>,
    #[serde(borrow, default)]
    execution: Option<ExecutionTold<'e>>,
    #[serde(borrow, default)]
    stop: Option<StopTold<'e>>,
    #[serde(borrow, default)]
    subject: Option<Text<'e>>,
    #[serde(borrow, default)]
    content_sha256: Option<Text<'e>>,
}

#[derive(Deserialize)]
struct Change<'e> {
    #[serde(borrow, default)]
    from: Option<Text<'e>>,
    #[serde(borrow)]
    to: Text<'e>,
}

#[derive(Deserialize)]
struct DraftTold<'e> {
    #[serde(borrow)]
    id: Text<'e>,
    #[serde(borrow)]
    hash: Text<'e>,
}

#[derive(Deserialize)]
struct ApprovalTold<'e> {
    #[serde(borrow)]
    id: Text<'e>,
    #[serde(borrow, default)]
    record_id: Option<Text<'e>>,
    #[serde(borrow, default)]
    approver: Option<Text<'e>>,
    #[serde(borrow, default)]
    kid: Option<Text<'e>>,
    #[serde(borrow, default)]
    decision: Option<Text<'e>>,
    #[serde(borrow, default)]
    record_sha256: Option<Text<'e>>,
}

#[derive(Deserialize)]
struct CredentialTold<'e> {
    #[serde(borrow)]
    id: Text<'e>,
    #[serde(default)]
    root_key_id: Option<u32>,
    #[serde(borrow, default)]
    audience: Option<Text<'e>>,
    #[serde(borrow, default)]
    expires_at: Option<Text<'e>>,
}

#[derive(Deserialize)]
struct ExecutionTold<'e> {
    #[serde(borrow)]
    id: Text<'e>,
    fence: u64,
}

#[derive(Deserialize)]
struct StopTold<'e> {
    #[serde(borrow)]
    id: Text<'e>,
    #[serde(borrow, default)]
    scope: Option<Text<'e>>,
    #[serde(borrow, default)]
    value: Option<Text<'e>>,
}

/// One legal change.
struct Legal {
    thing: Thing,
    from: Vec<&'static str>,
    to: &'static str,
}

/// How a thing stands by the log.
struct Standing {
    state: &'static str,
    /// A short hash over its facts.
    facts: u128,
    fence: u64,
}

/// How somebody who is registered stands by the log.
#[derive(Default)]
struct Entry {
    is_revoked: bool,
    content: Option<Digest>,
}

/// The state as the events so far tell it.
pub(super) struct Replay {
    legal: HashMap<&'static str, Legal>,
    things: HashMap<(Thing, u128), Standing>,
    votes: HashMap<u128, u128>,
    clients: HashMap<String, Entry>,
    approvers: HashMap<String, Entry>,
    revoked_keys: HashSet<String>,
}

macro_rules! legal {
    ($into:ident, $($transition:ident on $thing:ident),*) => {$(
        for t in $transition::ALL {
            let legal = Legal {
                thing: Thing::$thing,
                from: t.from().iter().map(|state| state.as_str()).collect(),
                to: t.to().as_str(),
            };
            $into.insert(t.event(), legal);
        }
    )*};
}

impl Default for Replay {
    fn default() -> Self {
        let mut legal = HashMap::new();
        legal!(
            legal,
            DraftTransition on Draft, ApprovalTransition on Approval, CredentialTransition on Credential, ExecutionTransition on Execution,
            StopTransition on Stop
        );
        Self {
            legal,
            things: HashMap::new(),
            votes: HashMap::new(),
            clients: HashMap::new(),
            approvers: HashMap::new(),
            revoked_keys: HashSet::new(),
        }
    }
}

/// The 32 digits of an id as a number, which is how many of them are remembered.
fn number(id: &str) -> Option<u128> {
    let (_, digits) = id.split_once('_')?;
    (digits.len() == 32).then(|| u128::from_str_radix(digits, 16).ok()).flatten()
}

/// A short hash over facts in their order.
fn short<'f>(facts: impl IntoIterator<Item = Option<Cow<'f, str>>>) -> u128 {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for fact in facts {
        let fact = fact.as_deref();
        context.update(&[u8::from(fact.is_some())]);
        context.update(&(fact.map_or(0, str::len) as u64).to_be_bytes());
        context.update(fact.unwrap_or_default().as_bytes());
    }
    let hash = context.finish();
    let (first, _) = hash.as_ref().split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
    u128::from_be_bytes(*first)
}

fn text<'t>(fact: Option<&'t Text<'_>>) -> Option<Cow<'t, str>> {
    fact.map(|text| Cow::Borrowed(&**text))
}

fn row(facts: &[Option<String>]) -> u128 {
    short(facts.iter().map(|fact| fact.as_deref().map(Cow::Borrowed)))
}

impl Replay {
    /// Takes the next event.
    pub(super) fn next(&mut self, leaf: &[u8], mut tell: impl FnMut(String)) {
        let Ok(told) = serde_json::from_slice::<Told<'_>>(leaf) else {
            return tell("its parts are not those of an event".to_owned());
        };
        self.registry(&told);
        if let Err(why) = self.vote(&told) {
            tell(why);
        }
        if let Err(why) = self.change(&told) {
            tell(why);
        }
        // Whoever takes over gets a newer token also where the state stays.
        if told.kind == Note::TakeOver.as_str()
            && let Some(execution) = &told.execution
            && let Some(standing) = number(&execution.id).and_then(|id| self.things.get_mut(&(Thing::Execution, id)))
        {
            standing.fence = standing.fence.max(execution.fence);
        }
    }

    fn change(&mut self, told: &Told<'_>) -> Result<(), String> {
        let Some(change) = &told.state else { return Ok(()) };
        let kind = &*told.kind;
        let legal = self.legal.get(kind).ok_or_else(|| format!("`{kind}` changes no state"))?;
        let thing = legal.thing;
        let id = match thing {
            Thing::Draft => told.draft.as_ref().map(|draft| &draft.id),
            Thing::Approval => told.approval.as_ref().map(|approval| &approval.id),
            Thing::Credential => told.credential.as_ref().map(|credential| &credential.id),
            Thing::Execution => told.execution.as_ref().map(|execution| &execution.id),
            Thing::Stop => told.stop.as_ref().map(|stop| &stop.id),
        };
        let key = id
            .and_then(|id| number(id))
            .ok_or_else(|| format!("`{kind}` does not say of which {}", thing.word()))?;
        let was = self.things.get(&(thing, key)).map(|standing| standing.state);
        let from = change.from.as_deref();
        let is_legal = was == from && from.is_none_or(|from| legal.from.contains(&from)) && change.to == legal.to;
        if !is_legal {
            return Err(format!(
                "`{kind}` leads from {} to {}, but the {} was {} by the events before",
                from.unwrap_or("nothing"),
                change.to,
                thing.word(),
                was.unwrap_or("not there")
            ));
        }
        let draft = told.draft.as_ref();
        let facts = match thing {
            Thing::Draft => short([text(draft.map(|draft| &draft.hash))]),
            Thing::Approval | Thing::Execution => short([text(draft.map(|draft| &draft.id))]),
            Thing::Credential => {
                let credential = told.credential.as_ref();
                short([
                    text(draft.map(|draft| &draft.id)),
                    text(told.approval.as_ref().map(|approval| &approval.id)),
                    text(draft.map(|draft| &draft.hash)),
                    text(credential.and_then(|credential| credential.audience.as_ref())),
                    credential
                        .and_then(|credential| credential.root_key_id)
                        .map(|id| Cow::Owned(id.to_string())),
                    text(credential.and_then(|credential| credential.expires_at.as_ref())),
                ])
            }
            Thing::Stop => {
                let stop = told.stop.as_ref();
                short([
                    text(stop.and_then(|stop| stop.scope.as_ref())),
                    text(stop.and_then(|stop| stop.value.as_ref())),
                ])
            }
        };
        let fence = told.execution.as_ref().filter(|_| thing == Thing::Execution).map_or(0, |e| e.fence);
        let standing = Standing {
            state: legal.to,
            facts,
            fence,
        };
        self.things.insert((thing, key), standing);
        Ok(())
    }

    fn vote(&mut self, told: &Told<'_>) -> Result<(), String> {
        let Some(approval) = &told.approval else { return Ok(()) };
        let Some(record) = &approval.record_id else { return Ok(()) };
        // A record that was refused is told of, and counts for nothing.
        if told.kind == Note::RecordDenied.as_str() {
            return Ok(());
        }
        let key = number(record).ok_or("it does not say which record was counted")?;
        let facts = short([
            Some(Cow::Borrowed(&*approval.id)),
            text(approval.approver.as_ref()),
            text(approval.kid.as_ref()),
            text(approval.decision.as_ref()),
            text(approval.record_sha256.as_ref()),
        ]);
        match self.votes.insert(key, facts) {
            Some(known) if known != facts => Err(format!("the record {record} is told of in two ways")),
            _ => Ok(()),
        }
    }

    fn registry(&mut self, told: &Told<'_>) {
        let Some(subject) = &told.subject else { return };
        let is = |note: Note| told.kind == note.as_str();
        let entries = if told.kind.starts_with("client.") {
            &mut self.clients
        } else if is(Note::ApproverKeyRevoked) {
            self.revoked_keys.insert(subject.to_string());
            return;
        } else if told.kind.starts_with("approver.") {
            &mut self.approvers
        } else {
            return;
        };
        let entry = entries.entry(subject.to_string()).or_default();
        if is(Note::ClientRevoked) || is(Note::ApproverRevoked) {
            entry.is_revoked = true;
        } else {
            entry.content = told.content_sha256.as_deref().and_then(Digest::parse);
        }
    }

    /// Compares it with the tables, and tells what is not the same.
    pub(super) fn compare(mut self, tables: &dyn StateTables, mut tell: impl FnMut(String)) -> Result<StateSeen, SourceError> {
        let mut seen = StateSeen::default();
        for thing in Thing::ALL {
            let word = thing.word();
            tables.things(*thing, &mut |found| {
                seen.things += 1;
                let id = found.id;
                let Some(standing) = number(id).and_then(|key| self.things.remove(&(*thing, key))) else {
                    return tell(format!("the log tells of no {word} {id}, and the store has it"));
                };
                if standing.state != found.state {
                    tell(format!(
                        "the {word} {id} is {} by the log and {} in the store",
                        standing.state, found.state
                    ));
                }
                let (facts, fence) = match (thing, found.facts.split_last()) {
                    (Thing::Execution, Some((fence, rest))) => (rest, fence.as_deref().and_then(|fence| fence.parse().ok())),
                    _ => (found.facts, Some(standing.fence)),
                };
                if standing.facts != row(facts) || fence != Some(standing.fence) {
                    tell(format!("the {word} {id} is not the one in the store that the log tells of"));
                }
            })?;
        }
        for ((thing, key), standing) in &self.things {
            let word = thing.word();
            tell(format!(
                "the log tells of a {word} that the store has not: …_{key:032x}, {}",
                standing.state
            ));
        }
        tables.votes(&mut |found| {
            seen.records += 1;
            let id = found.id;
            match number(id).and_then(|key| self.votes.remove(&key)) {
                None => tell(format!("the log tells of no approval record {id}, and the store has it")),
                Some(facts) if facts != row(found.facts) => {
                    tell(format!("the approval record {id} is not the one in the store that was counted"))
                }
                Some(_) => {}
            }
        })?;
        for key in self.votes.keys() {
            tell(format!("the log tells of an approval record that the store has not: …_{key:032x}"));
        }
        for found in tables.registered()? {
            seen.registered += 1;
            self.compare_registered(&found, &mut tell);
        }
        for (what, left) in [("client", self.clients), ("approver", self.approvers)] {
            for id in left.keys() {
                tell(format!("the log tells of the {what} {id}, and the store has none"));
            }
        }
        Ok(seen)
    }

    fn compare_registered(&mut self, found: &Registered, tell: &mut impl FnMut(String)) {
        let (what, id, is_revoked, content, entries) = match found {
            Registered::Client { id, is_revoked, content } => ("client", id, *is_revoked, content, &mut self.clients),
            Registered::Approver {
                id, is_revoked, content, ..
            } => ("approver", id, *is_revoked, content, &mut self.approvers),
        };
        let Some(entry) = entries.remove(id) else {
            return tell(format!("the log tells of no {what} {id}, and the store has one"));
        };
        let said = |is_revoked: bool| if is_revoked { "revoked" } else { "not revoked" };
        if entry.is_revoked != is_revoked {
            tell(format!(
                "the {what} {id} is {} by the log and {} in the store",
                said(entry.is_revoked),
                said(is_revoked)
            ));
        }
        if entry.content.is_some_and(|told| told != *content) {
            tell(format!(
                "the {what} {id} is registered in the store with something else than the log tells of"
            ));
        }
        let Registered::Approver { keys, .. } = found else { return };
        for (kid, is_key_revoked) in keys {
            let told = entry.is_revoked || self.revoked_keys.contains(kid);
            if told != *is_key_revoked {
                tell(format!(
                    "the key {kid} is {} by the log and {} in the store",
                    said(told),
                    said(*is_key_revoked)
                ));
            }
        }
    }
}
