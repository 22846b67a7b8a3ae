//! Commitments on their way into an event, and the openings that stay behind, sealed.

use rusqlite::{Connection, named_params};

use super::Tools;
use super::failure::Failure;
use super::rows;
use super::step::{Step, whole};
use crate::audit::scan::scan;
use crate::audit::vault::{SubjectKey, Tag, Vault, open_opening, seal_opening, tag};
use crate::audit::{Disclosure, ErasedPart, EventBody, EventKind, Note, Sensitive, SensitiveField};
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;
use crate::store::Rejection;

/// For so long one key makes the search tags: 90 days, in milliseconds.
const PERIOD: i64 = 90 * 86_400_000;

/// What becomes of an event's sensitive values.
#[derive(Default)]
pub(super) struct Committed {
    /// The commitments, sorted: their order says nothing.
    pub(super) digests: Vec<Digest>,
    /// The names of those that must not be kept in any form.
    pub(super) withheld: Vec<&'static str>,
}

fn broken(what: &str) -> Failure {
    Failure::Corrupt(format!("{what} cannot be sealed or opened with the key in audit-subjects.key"))
}

/// Commits to the values of the event with this number. Without a vault nothing can be opened later, and nothing is committed to.
pub(super) fn commit(step: &Step<'_>, seq: u64, values: &[Sensitive]) -> Result<Committed, Failure> {
    let mut committed = Committed::default();
    let tools = step.tools();
    let Some(vault) = tools.vault.as_ref().filter(|_| !values.is_empty()) else {
        return Ok(committed);
    };
    let tags = tag_key(step, vault)?;
    for value in values {
        let name = value.field.as_str();
        if scan(&value.value).is_some() {
            committed.withheld.push(name);
            continue;
        }
        let subject = tag(&tags, "subject", &value.subject);
        let key = subject_key(step, vault, subject)?;
        let opening = Disclosure::of(value.field, &value.value, &*tools.entropy);
        let digest = opening.digest();
        let sealed = seal_opening(&key, seq, value.field, &opening, &*tools.entropy).ok_or_else(|| broken("an opening"))?;
        step.change(
            "INSERT INTO opening (seq, field, digest, subject, sealed) VALUES (:seq, :field, :digest, :subject, :sealed)",
            named_params! { ":seq": whole(seq), ":field": name, ":digest": &digest.as_bytes()[..], ":subject": &subject.0[..], ":sealed": sealed },
        )?;
        if value.field == SensitiveField::Customer {
            step.change(
                "INSERT OR IGNORE INTO event_tag (tag, seq) VALUES (?1, ?2)",
                (&tag(&tags, name, &value.value).0[..], whole(seq)),
            )?;
        }
        committed.digests.push(digest);
    }
    committed.digests.sort_unstable_by_key(ToString::to_string);
    Ok(committed)
}

fn period(now: Timestamp) -> i64 {
    now.millis().div_euclid(PERIOD)
}

/// The key of this period's tags; made with its first event.
fn tag_key(step: &Step<'_>, vault: &Vault) -> Result<SubjectKey, Failure> {
    let period = period(step.now);
    let of = period.to_be_bytes();
    let sql = "SELECT wrapped FROM tag_key WHERE period = ?1";
    if let Some(wrapped) = rows::opt_value::<Vec<u8>>(step.connection, sql, [period])? {
        return vault.unwrap_key(&of, &wrapped).ok_or_else(|| broken("the key of the search tags"));
    }
    let (key, wrapped) = vault
        .new_key(&of, &*step.tools().entropy)
        .ok_or_else(|| broken("the key of the search tags"))?;
    step.change("INSERT INTO tag_key (period, wrapped) VALUES (?1, ?2)", (period, wrapped))?;
    Ok(key)
}

fn subject_key(step: &Step<'_>, vault: &Vault, subject: Tag) -> Result<SubjectKey, Failure> {
    let found = stored_subject_key(step.connection, subject)?;
    if let Some(wrapped) = found {
        return vault.unwrap_key(&subject.0, &wrapped).ok_or_else(|| broken("a person's key"));
    }
    let (key, wrapped) = vault
        .new_key(&subject.0, &*step.tools().entropy)
        .ok_or_else(|| broken("a person's key"))?;
    step.change(
        "INSERT INTO subject_key (tag, period, wrapped) VALUES (?1, ?2, ?3)",
        (&subject.0[..], period(step.now), wrapped),
    )?;
    Ok(key)
}

fn stored_subject_key(connection: &Connection, subject: Tag) -> Result<Option<Vec<u8>>, Failure> {
    rows::opt_value(connection, "SELECT wrapped FROM subject_key WHERE tag = ?1", [&subject.0[..]])
}

/// The tags of a value under the key of each period that is left.
pub(super) fn tags(connection: &Connection, vault: &Vault, field: &str, value: &str) -> Result<Vec<Tag>, Failure> {
    let keys = rows::all(connection, "SELECT period, wrapped FROM tag_key ORDER BY period", [], |row| {
        Ok((row.get::<_, i64>("period")?, row.get::<_, Vec<u8>>("wrapped")?))
    })?;
    let each = keys.iter().map(|(period, wrapped)| {
        let key = vault.unwrap_key(&period.to_be_bytes(), wrapped);
        key.map(|key| tag(&key, field, value))
            .ok_or_else(|| broken("the key of the search tags"))
    });
    each.collect()
}

/// The events that are about a value with one of these tags.
pub(super) fn tagged(connection: &Connection, tags: &[Tag]) -> Result<Vec<u64>, Failure> {
    let mut found = Vec::new();
    for tag in tags {
        found.extend(rows::all(
            connection,
            "SELECT seq FROM event_tag WHERE tag = ?1 ORDER BY seq",
            [&tag.0[..]],
            |row| rows::number::<u64>(row, "seq"),
        )?);
    }
    Ok(found)
}

/// The opening of one value of one event.
pub(super) fn opening(connection: &Connection, tools: &Tools, seq: u64, field: SensitiveField) -> Result<Disclosure, Failure> {
    let found = rows::first(
        connection,
        "SELECT digest, subject, sealed FROM opening WHERE seq = ?1 AND field = ?2",
        (whole(seq), field.as_str()),
        |row| {
            Ok((
                row.get::<_, [u8; 32]>("digest")?,
                row.get::<_, [u8; 16]>("subject")?,
                row.get::<_, Option<Vec<u8>>>("sealed")?,
            ))
        },
    )?;
    let (digest, subject, sealed) = found.ok_or(Rejection::NotFound)?;
    let sealed = sealed.ok_or(Rejection::Erased(seq))?;
    let vault = tools.vault.as_ref().ok_or_else(|| broken("an opening"))?;
    let wrapped = stored_subject_key(connection, Tag(subject))?.ok_or(Rejection::Erased(seq))?;
    let key = vault.unwrap_key(&subject, &wrapped).ok_or_else(|| broken("a person's key"))?;
    open_opening(&key, seq, field, &Digest::from_bytes(digest), &sealed).ok_or_else(|| broken("an opening"))
}

/// Whose openings are destroyed: the tags under which they and their key are kept, and those that events are found by.
#[derive(Debug, serde::Serialize)]
pub(super) struct Erase {
    pub(super) subjects: Vec<Tag>,
    pub(super) search: Vec<Tag>,
    pub(super) basis: String,
}

/// Destroys a person's keys and openings, and tells of it: one event for each period in which something was said of them.
pub(super) fn erase(step: &mut Step<'_>, erase: &Erase) -> Result<u64, Failure> {
    let mut all = 0;
    for tag in &erase.search {
        step.change("DELETE FROM event_tag WHERE tag = ?1", [&tag.0[..]])?;
    }
    for subject in &erase.subjects {
        let fields = step.change(
            "UPDATE opening SET sealed = NULL WHERE subject = ?1 AND sealed IS NOT NULL",
            [&subject.0[..]],
        )?;
        step.change("DELETE FROM subject_key WHERE tag = ?1", [&subject.0[..]])?;
        if fields == 0 {
            continue;
        }
        all += fields as u64;
        let event = step.event(EventKind::Note(Note::PiiErased));
        step.emit(EventBody {
            erased: Some(ErasedPart {
                subject: *subject,
                fields: fields as u64,
                basis: erase.basis.clone(),
            }),
            ..event
        })?;
    }
    if all == 0 { Err(Rejection::NotFound.into()) } else { Ok(all) }
}
