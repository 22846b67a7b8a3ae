//! What earlier versions wrote still verifies: drafts by their hashes, records by their signatures, credentials by their keys.

use serde::Deserialize;
use serde_json::Value;

use super::ground::Ground;
use super::outcome::{Amiss, Held};
use crate::approval::UnverifiedRecord;
use crate::domain::digest::DraftHash;
use crate::domain::draft::{DraftDocument, IdempotencyKey};
use crate::domain::name::{Audience, KeyId};
use crate::domain::principal::ApproverKey;
use crate::domain::time::Timestamp;
use crate::token::{KeySet, Verifier};

/// What each version wrote, one file each, never edited.
const RECORDED: &[(u32, &str)] = &[(1, include_str!("recorded/v1.json"))];

#[derive(Deserialize)]
struct Recorded {
    drafts: Vec<RecordedDraft>,
    records: Records,
    credentials: Credentials,
}

#[derive(Deserialize)]
struct RecordedDraft {
    name: String,
    canonical: String,
    draft_hash: DraftHash,
    idempotency_key: String,
}

#[derive(Deserialize)]
struct Records {
    audience: Audience,
    keys: Vec<ApproverKey>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    key: KeyId,
    at: Timestamp,
    record: String,
}

#[derive(Deserialize)]
struct Credentials {
    audience: Audience,
    keys: Value,
    at: Timestamp,
    tokens: Vec<String>,
    grant: Value,
}

pub(super) async fn older(_: &Ground) -> Held {
    let mut told = Vec::new();
    for (version, text) in RECORDED {
        let recorded: Recorded =
            serde_json::from_str(text).map_err(|error| Amiss::Unclear(format!("what version {version} wrote cannot be read: {error}")))?;
        let (drafts, records) = (recorded.drafts.len(), recorded.records.cases.len());
        verified(&recorded).map_err(|why| Amiss::Unclear(format!("version {version}: {why}")))?;
        if let Some(what) = edited(&recorded) {
            return Err(Amiss::Through(format!("version {version}: {what} verifies after it was edited")));
        }
        told.push(format!(
            "version {version}: {drafts} drafts, {records} records, {} credentials",
            recorded.credentials.tokens.len()
        ));
    }
    Ok(told.join("; "))
}

fn verified(recorded: &Recorded) -> Result<(), String> {
    recorded.drafts.iter().try_for_each(draft)?;
    for case in &recorded.records.cases {
        record(&recorded.records, case, &case.record).map_err(|why| format!("record `{}`: {why}", case.name))?;
    }
    credentials(&recorded.credentials)
}

fn draft(recorded: &RecordedDraft) -> Result<(), String> {
    let at = |why: String| format!("draft `{}`: {why}", recorded.name);
    let document = DraftDocument::parse(recorded.canonical.as_bytes()).map_err(|error| at(error.to_string()))?;
    let sealed = document.seal().map_err(|error| at(error.to_string()))?;
    let hash = DraftHash::of_canonical(recorded.canonical.as_bytes());
    if hash != recorded.draft_hash || sealed.hash != hash {
        return Err(at("its bytes hash to something else".to_owned()));
    }
    if IdempotencyKey::of(&hash).to_string() != recorded.idempotency_key {
        return Err(at("its idempotency key is another".to_owned()));
    }
    Ok(())
}

fn record(records: &Records, case: &Case, jws: &str) -> Result<(), String> {
    let key = records
        .keys
        .iter()
        .find(|key| key.kid == case.key)
        .ok_or("its key is not recorded")?;
    let read = UnverifiedRecord::parse(jws).map_err(|error| error.to_string())?;
    read.verify(key, &records.audience, case.at)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// What verifies with a character in its middle replaced; what verifies everything shows nothing.
fn edited(recorded: &Recorded) -> Option<String> {
    let records = &recorded.records;
    let mut cases = records.cases.iter();
    let case = cases.find(|case| record(records, case, &replaced_in_the_middle(&case.record)).is_ok());
    if let Some(case) = case {
        return Some(format!("record `{}`", case.name));
    }
    let credentials = &recorded.credentials;
    let verifier = verifier(credentials).ok()?;
    let mut tokens = credentials.tokens.iter();
    tokens
        .find(|token| verifier.read(&replaced_in_the_middle(token), credentials.at).is_ok())
        .map(|_| "a credential".to_owned())
}

fn replaced_in_the_middle(text: &str) -> String {
    let middle = text.len() / 2;
    let swap = |(at, c)| match (at == middle, c) {
        (false, c) => c,
        (true, 'A') => 'B',
        (true, _) => 'A',
    };
    text.chars().enumerate().map(swap).collect()
}

fn verifier(recorded: &Credentials) -> Result<Verifier, String> {
    let keys = KeySet::from_json(recorded.keys.to_string().as_bytes()).map_err(|error| format!("the recorded keys: {error}"))?;
    Ok(Verifier::new(keys, recorded.audience.clone()))
}

fn credentials(recorded: &Credentials) -> Result<(), String> {
    let verifier = verifier(recorded)?;
    for token in &recorded.tokens {
        let read = verifier
            .read(token, recorded.at)
            .map_err(|error| format!("a credential: {error}"))?;
        if serde_json::to_value(read.grant()).ok().as_ref() != Some(&recorded.grant) {
            return Err("a credential grants something else than it did".to_owned());
        }
    }
    Ok(())
}
