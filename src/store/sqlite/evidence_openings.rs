//! The openings beside the log, as the verifier compares them with the commitments.

use rusqlite::types::ValueRef;

use super::evidence::{Evidence, bytes, unsigned};
use super::step::whole;
use crate::audit::SensitiveField;
use crate::audit::openings::{Commitments, OpeningRow, OpeningsSeen, Standing};
use crate::audit::source::{LogSource as _, PAGE, Page, SourceError};
use crate::audit::vault::{SubjectKey, Tag, Vault, open_opening};
use crate::domain::digest::Digest;

/// A row as it stands in the table.
type Row = (u64, String, Digest, Option<Tag>, Option<Vec<u8>>);

/// Whatever somebody has put into the columns: what is no commitment or no tag is for the comparison to say.
fn opening(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let (digest, subject, sealed) = (row.get_ref(2)?, row.get_ref(3)?, row.get_ref(4)?);
    Ok((
        unsigned(row, 0)?,
        String::from_utf8_lossy(bytes(row.get_ref(1)?)).into_owned(),
        Digest::from_bytes(bytes(digest).try_into().unwrap_or_default()),
        bytes(subject).try_into().ok().map(Tag),
        (sealed != ValueRef::Null).then(|| bytes(sealed).to_vec()),
    ))
}

impl Evidence {
    /// Compares the commitments of every event with the openings; what is wrong is a sentence each. With the vault every opening is opened.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn openings(&self, vault: Option<&Vault>) -> Result<(OpeningsSeen, Vec<String>), SourceError> {
        let mut commitments = Commitments::default();
        let (mut page, mut next) = (Page::default(), 0);
        loop {
            self.leaves(next, PAGE, &mut page)?;
            let Some(last) = page.last() else { break };
            page.iter().for_each(|(seq, leaf)| commitments.event(seq, leaf));
            next = last + 1;
        }
        let rows: Vec<Row> = self.all(
            "SELECT seq, field, digest, subject, sealed FROM opening ORDER BY seq, field",
            [],
            opening,
        )?;
        let rows = rows.into_iter().map(|(seq, field, digest, subject, sealed)| {
            let standing = match (sealed, subject, vault) {
                (None, ..) => Standing::Erased,
                (Some(_), None, _) => Standing::Broken,
                (Some(_), Some(_), None) => Standing::Sealed,
                (Some(sealed), Some(subject), Some(vault)) => {
                    let key = self.subject_key(vault, subject)?;
                    let opened = key
                        .zip(SensitiveField::parse(&field))
                        .and_then(|(key, field)| open_opening(&key, seq, field, &digest, &sealed));
                    opened.map_or(Standing::Broken, |_| Standing::Sealed)
                }
            };
            Ok(OpeningRow {
                seq,
                digest,
                subject: subject.map_or_else(|| "that is none".to_owned(), |subject| subject.to_string()),
                standing,
            })
        });
        Ok(commitments.compare(rows.collect::<Result<Vec<_>, SourceError>>()?))
    }

    fn subject_key(&self, vault: &Vault, subject: Tag) -> Result<Option<SubjectKey>, SourceError> {
        let found = self.all("SELECT wrapped FROM subject_key WHERE tag = ?1", [&subject.0[..]], |row| {
            Ok(bytes(row.get_ref(0)?).to_vec())
        })?;
        Ok(found.first().and_then(|wrapped| vault.unwrap_key(&subject.0, wrapped)))
    }

    /// An event's bytes, if they are there.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn event(&self, seq: u64) -> Result<Option<Vec<u8>>, SourceError> {
        let found = self.all("SELECT CAST(body AS BLOB) FROM event WHERE seq = ?1", [whole(seq)], |row| {
            row.get(0)
        })?;
        Ok(found.into_iter().next())
    }

    /// The last event that was written before this moment.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn last_before(&self, moment: crate::domain::time::Timestamp) -> Result<Option<u64>, SourceError> {
        let found = self.all("SELECT max(seq) FROM event WHERE at < ?1", [moment.millis()], |row| {
            row.get::<_, Option<i64>>(0)
        })?;
        Ok(found.into_iter().next().flatten().and_then(|seq| u64::try_from(seq).ok()))
    }
}
