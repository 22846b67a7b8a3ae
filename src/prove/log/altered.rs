//! An event that was changed is found, also where the tree over it was made to fit.

use super::copy::{Copy, filled, told, unclear};
use super::tamper::{edit, put, put_head, regrow};
use crate::audit::source::LogSource as _;
use crate::audit::verify::Verdict;
use crate::audit::{HeadFile, LogKey, SignedHead};
use crate::prove::ground::Ground;
use crate::prove::outcome::{Amiss, Held};

pub(in crate::prove) async fn altered(ground: &Ground) -> Held {
    let private = ground.private().await?;
    filled(private).await?;
    let log = Copy::of(private).await?;
    log.is_good("an untouched copy", &[])?;
    let events = log.evidence()?.size()?;
    one_by_one(&log.twin()?, events)?;
    under_the_old_head(&log.twin()?, events / 2)?;
    under_another_key(&log.twin()?, events / 2)?;
    Ok(format!(
        "each of {events} events with one character changed, and an event with its tree made anew, under the old head and under one by \
         another key, is told as {}; on what was made anew no broker starts",
        Verdict::Tampered.line()
    ))
}

fn one_by_one(copy: &Copy, events: u64) -> Result<(), Amiss> {
    for seq in 0..events {
        let before = copy.attack(|db| edit(db, seq))?;
        told(
            &copy.verify(&[])?,
            Verdict::Tampered,
            &format!("a log with a character of event {seq} changed"),
        )?;
        copy.attack(|db| put(db, seq, &before))?;
    }
    copy.is_good("a copy in which every event was put back", &[])
}

fn under_the_old_head(copy: &Copy, seq: u64) -> Result<(), Amiss> {
    let what = format!("a log with event {seq} changed and its tree made anew");
    copy.attack(|db| {
        edit(db, seq)?;
        regrow(db).map(drop)
    })?;
    told(&copy.verify(&[])?, Verdict::Tampered, &what)?;
    copy.refused_at_start(&what, "is not the one that was signed")
}

fn under_another_key(copy: &Copy, seq: u64) -> Result<(), Amiss> {
    let what = format!("a log with event {seq} changed, its tree made anew and signed by another key of the log's name");
    let keys = copy.keys()?;
    let name = keys.first().ok_or_else(|| unclear("the copy has no public key"))?.name();
    let (key, _) = LogKey::generate(name, &*copy.outside().entropy).map_err(unclear)?;
    let head = copy.attack(|db| {
        edit(db, seq)?;
        let edge = regrow(db)?;
        let head = SignedHead::sign(edge.size(), edge.root().map_err(unclear)?, &[&key]).map_err(unclear)?;
        put_head(db, &head)?;
        Ok(head)
    })?;
    told(&copy.verify(&[])?, Verdict::Tampered, &what)?;
    copy.refused_at_start(&what, "is not the one that was signed")?;
    // And with the head file replaced too.
    HeadFile::at(copy.head_file().to_owned()).replace(&head).map_err(unclear)?;
    copy.refused_at_start(&what, "holds no head that a key of this log has signed")
}
