//! A log that is less than it was: its end cut off, or an earlier copy in its place. What was kept outside shows it.

use super::copy::{Copy, filled, told, unclear};
use super::live::head;
use super::proven::Proven;
use super::tamper::{put_head, regrow, row};
use crate::audit::source::LogSource as _;
use crate::audit::verify::{OutsideHead, Verdict};
use crate::audit::{SignedHead, head_line, heads_in_lines};
use crate::prove::ground::Ground;
use crate::prove::outcome::{Amiss, Held};
use crate::prove::private::Private;

/// What the reason says of a log that has less than the head in its head file.
const TAKEN_BACK: &str = "the log was taken back";

/// A log, what it was before, and what people outside keep of it.
struct Past {
    early: Copy,
    late: Copy,
    kept: Vec<OutsideHead>,
}

impl Past {
    async fn of(private: &Private) -> Result<Self, Amiss> {
        filled(private).await?;
        let early = Copy::of(private).await?;
        early.is_good("an early copy", &[])?;
        let answer = filled(private).await?;
        let receipt = Proven::of(&answer.body)?.receipt.head;
        let checkpoint = head(private.deployment()).await?;
        let late = Copy::of(private).await?;
        let now = late.outside().clock.now();
        let lines = heads_in_lines(head_line(&checkpoint, now).as_bytes()).map_err(unclear)?;
        let line = lines
            .into_iter()
            .next()
            .ok_or_else(|| unclear("a head as a line is not read again"))?;
        let kept = [
            ("a receipt that came with an answer", receipt),
            ("a checkpoint that somebody kept", checkpoint),
            ("a head line that was collected", line),
        ];
        let kept = kept.map(|(from, head)| OutsideHead::new(from.to_owned(), vec![head]));
        let past = Self {
            early,
            late,
            kept: kept.to_vec(),
        };
        past.late.is_good("an untouched copy", &past.kept)?;
        Ok(past)
    }

    /// Each head that is kept outside, by itself, shows that the log was taken back.
    fn shows(&self, copy: &Copy, what: &str) -> Result<(), Amiss> {
        for kept in &self.kept {
            let report = copy.verify(std::slice::from_ref(kept))?;
            told(&report, Verdict::RolledBack, &format!("{what}, with {}", kept.from))?;
        }
        Ok(())
    }
}

/// The head of a copy.
fn latest(copy: &Copy) -> Result<SignedHead, Amiss> {
    let kept = copy.evidence()?.latest()?.ok_or_else(|| unclear("the copy has no signed head"))?;
    SignedHead::read(&kept.text).map_err(unclear)
}

pub(in crate::prove) async fn truncated(ground: &Ground) -> Held {
    let past = Past::of(ground.private().await?).await?;
    let head = latest(&past.early)?;
    let from = row(head.size());

    let what = "a log without its last events";
    let cut = past.late.twin()?;
    let gone = cut.attack(|db| Ok(db.execute("DELETE FROM event WHERE seq >= ?1", [from])?))?;
    told(&cut.verify(&[])?, Verdict::Incomplete, what)?;
    cut.refused_at_start(what, TAKEN_BACK)?;

    let what = "a log without its last events, nodes and heads, under a head of that time";
    let cut = past.late.twin()?;
    cut.attack(|db| {
        db.execute("DELETE FROM event WHERE seq >= ?1", [from])?;
        regrow(db)?;
        put_head(db, &head)
    })?;
    told(&cut.verify_own()?, Verdict::RolledBack, &format!("{what}, with its head file"))?;
    past.shows(&cut, what)?;
    cut.refused_at_start(what, TAKEN_BACK)?;
    Ok(format!(
        "without its last {gone} events it is told as {}; without their nodes and heads too as {}, by the head file, a receipt, a checkpoint and \
         a head line, each alone; no broker starts on either",
        Verdict::Incomplete.line(),
        Verdict::RolledBack.line()
    ))
}

pub(in crate::prove) async fn rolled_back(ground: &Ground) -> Held {
    let past = Past::of(ground.private().await?).await?;

    let what = "a log whose database was replaced by an earlier copy";
    let back = past.late.twin()?;
    back.put_back(&past.early)?;
    told(&back.verify_own()?, Verdict::RolledBack, &format!("{what}, with its head file"))?;
    back.refused_at_start(what, TAKEN_BACK)?;

    // By itself it is what it says: nothing in it can show that there was more.
    past.shows(&past.early, "an earlier copy with the head file of that time")?;
    Ok(format!(
        "an earlier copy of the database is refused at the start and told as {}; with the head file of its own time a receipt, a checkpoint and a \
         head line that were kept elsewhere show it, each alone",
        Verdict::RolledBack.line()
    ))
}
