//! What an operator does with old events: an honest prune keeps every proof, and what is held is not pruned.

use super::copy::{Copy, filled, told, unclear};
use super::proven::Proven;
use super::tamper::row;
use crate::audit::bundle::{self, Bundle, Request, What};
use crate::audit::source::{LogSource, Nodes, Page};
use crate::audit::tree::prove_inclusion;
use crate::audit::verify::{OutsideHead, Report, Verdict, verify_bundle, verify_receipt};
use crate::audit::{Actor, ActorKind, Receipt, SignedHead};
use crate::domain::digest::Digest;
use crate::domain::id::OperationId;
use crate::prove::deployment::Which;
use crate::prove::ground::Ground;
use crate::prove::outcome::{Amiss, Held};
use crate::store::retention::{Held as Holds, NewHold, Prune};
use crate::store::{Op, Rejection, StoreError};

/// A log with a receipt that was given out for one of its events, which is not among the last.
struct Old {
    log: Copy,
    proven: Proven,
    case: String,
}

impl Old {
    async fn of(ground: &Ground) -> Result<Self, Amiss> {
        let private = ground.private().await?;
        let draft = private.deployment().propose(Which::Once).await?;
        let proven = Proven::of(&draft.view)?;
        filled(private).await?;
        let log = Copy::of(private).await?;
        log.is_good("an untouched copy", &[])?;
        let event: serde_json::Value = serde_json::from_str(&proven.event).map_err(unclear)?;
        let case = event.pointer("/case_id").and_then(serde_json::Value::as_str);
        let case = case.ok_or_else(|| unclear("the event of a proposal names no case"))?.to_owned();
        Ok(Self { log, proven, case })
    }

    /// The last event that is to be pruned.
    const fn last(&self) -> u64 {
        self.proven.receipt.index
    }

    fn kept(&self) -> OutsideHead {
        OutsideHead::new("a receipt from before".to_owned(), vec![self.proven.receipt.head.clone()])
    }
}

fn op(copy: &Copy) -> Op {
    let outside = copy.outside();
    Op {
        id: OperationId::generate(&*outside.clock, &*outside.entropy),
        actor: Actor::new(ActorKind::System, "prove"),
        request: None,
    }
}

/// Exports the events up to `last`, and verifies what was exported; the hash of its list of files.
fn exported(copy: &Copy, last: u64, head: OutsideHead) -> Result<(Bundle, Digest), Amiss> {
    let (keys, dir) = (copy.keys()?, copy.path("bundle"));
    let request = Request {
        what: What::Range { first: 0, last },
        seqs: &[],
        keys: &keys,
        tool: concat!("writ ", env!("CARGO_PKG_VERSION")).to_owned(),
        now: copy.outside().clock.now(),
    };
    let written = bundle::write(&copy.evidence()?, &request, &dir, "prove").map_err(unclear)?;
    let bundle = Bundle::open(&dir)?;
    let report = verify_bundle(&bundle, &copy.trust()?, &copy.asked(&[head]))?;
    good(&report, "the bundle of what is to be pruned")?;
    Ok((bundle, written.sha256))
}

/// Holds if the verifier says that nothing is wrong.
fn good(report: &Report, what: &str) -> Result<(), Amiss> {
    match report.findings.first() {
        None => Ok(()),
        Some(finding) => Err(unclear(format!("{what} does not verify: {}", finding.what))),
    }
}

pub(in crate::prove) async fn pruned(ground: &Ground) -> Held {
    let old = Old::of(ground).await?;
    let last = old.last();

    let what = "a log whose first events were deleted behind its back";
    let behind = old.log.twin()?;
    behind.attack(|db| Ok(db.execute("DELETE FROM event WHERE seq <= ?1", [row(last)])?))?;
    told(&behind.verify_own()?, Verdict::Incomplete, what)?;

    let copy = old.log.twin()?;
    let (bundle, bundle_sha256) = exported(&copy, last, old.kept())?;
    let store = copy.store()?;
    let order = Prune { to: last, bundle_sha256 };
    let (_, gone) = store.prune(op(&copy), order).await.map_err(unclear)?;
    drop(store);
    copy.is_good("a pruned log", &[old.kept()])?;
    let first = copy.verify_own()?.pruned;
    if gone != last + 1 || first != Some(gone) {
        return Err(unclear(format!("of {} events {gone} were pruned", last + 1)));
    }
    let receipt = verify_receipt(&old.proven.receipt, old.proven.event.as_bytes(), &copy.trust()?, &copy.asked(&[]));
    good(&receipt, "a receipt from before the prune")?;
    proves_each(&copy, &bundle, gone)?;
    Ok(format!(
        "{gone} events pruned: the log verifies and says so, a receipt from before is good and is an anchor of it, and it still proves each event \
         that its bundle has; deleted without a word, the same is told as {}",
        Verdict::Incomplete.line()
    ))
}

/// Holds if the log proves each event that it has not got any more, with the bytes from the bundle, under the head of now.
fn proves_each(copy: &Copy, bundle: &Bundle, events: u64) -> Result<(), Amiss> {
    let (evidence, trust) = (copy.evidence()?, copy.trust()?);
    let kept = evidence.latest()?.ok_or_else(|| unclear("a pruned log has no signed head"))?;
    let head = SignedHead::read(&kept.text).map_err(unclear)?;
    let mut page = Page::default();
    for seq in 0..events {
        let what = format!("event {seq}, which is pruned,");
        bundle.leaves(seq, 1, &mut page)?;
        let found = page.iter().next().filter(|(found, _)| *found == seq);
        let (_, event) = found.ok_or_else(|| unclear(format!("{what} is not in its bundle")))?;
        let proof = prove_inclusion(head.size(), seq, &Nodes(&evidence));
        let receipt = Receipt {
            index: seq,
            proof: proof.map_err(|error| unclear(format!("{what} has no proof any more: {error}")))?,
            head: head.clone(),
        };
        good(&verify_receipt(&receipt, event, &trust, &copy.asked(&[])), &what)?;
        evidence.leaves(seq, 1, &mut page)?;
        if page.iter().any(|(found, _)| found == seq) {
            return Err(unclear(format!("{what} is still in the log")));
        }
    }
    Ok(())
}

pub(in crate::prove) async fn held(ground: &Ground) -> Held {
    let old = Old::of(ground).await?;
    let case = old.case.parse().map_err(unclear)?;
    let last = old.last();
    refuses(&old, Holds::Range { from: last, to: last }, "a range").await?;
    refuses(&old, Holds::Case(case), "a case").await?;
    Ok("a prune of a held range, and of events of a held case, is refused with the hold's number and deletes nothing; released, it is done".to_owned())
}

async fn refuses(old: &Old, what: Holds, word: &str) -> Result<(), Amiss> {
    let copy = old.log.twin()?;
    let last = old.last();
    let (_, bundle_sha256) = exported(&copy, last, old.kept())?;
    let order = || Prune { to: last, bundle_sha256 };
    let store = copy.store()?;
    let reason = "a test by writ prove".to_owned();
    let hold = store.hold(op(&copy), NewHold { what, reason }).await.map_err(unclear)?.value;
    match store.prune(op(&copy), order()).await {
        Ok((_, gone)) => {
            return Err(Amiss::Through(format!(
                "{gone} events were pruned while {word} among them was held"
            )));
        }
        Err(StoreError::Rejected(Rejection::Held(by))) if by == hold => {}
        Err(other) => {
            return Err(unclear(format!(
                "the prune of {word} that is held was refused for another reason: {other}"
            )));
        }
    }
    match copy.guarded(&format!("DELETE FROM event WHERE seq = {last}"))? {
        Err(refusal) if refusal.to_string().contains("an event is never deleted") => {}
        Err(other) => return Err(other.into()),
        Ok(_) => return Err(Amiss::Through(format!("the database lets an event of {word} go that is held"))),
    }
    let report = copy.verify_own()?;
    if report.first != Some(0) || report.pruned.is_some() {
        return Err(Amiss::Through(format!(
            "the prune of {word} that is held was refused, and yet events are gone"
        )));
    }
    good(&report, "a log with a hold")?;
    store.release(op(&copy), hold).await.map_err(unclear)?;
    // It was the hold that stood in the way.
    store.prune(op(&copy), order()).await.map(drop).map_err(unclear)
}
