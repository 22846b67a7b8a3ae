//! Verifying a bundle: of a range by the whole tree, of a case by the receipt of each event.

use super::pass::Pass;
use super::range::of_leaf;
use super::report::{CaseSeen, Fault, Report};
use super::{Asked, SourceError, TrustPolicy};
use crate::audit::brief::{Brief, CaseChain};
use crate::audit::bundle::{self, Bundle, What};
use crate::audit::source::{LogSource as _, PAGE, Page};
use crate::audit::tree::{Hash, check_inclusion};
use crate::audit::{Event, Receipt, SignedHead};

/// Verifies a directory.
///
/// # Errors
/// [`SourceError`] if it cannot be read.
pub fn verify_bundle(bundle: &Bundle, trust: &TrustPolicy, asked: &Asked<'_>) -> Result<Report, SourceError> {
    if bundle.lacks_manifest() {
        // Without its list nobody knows what it should hold.
        let mut report = Report::default();
        bundle::check(bundle, report.events, |fault, what| report.find(fault, what))?;
        return Ok(report);
    }
    let mut report = match bundle.manifest().map(|list| &list.what) {
        Some(What::Case { case_id, tenant }) => verify_case(bundle, (case_id, tenant.as_deref()), trust, asked)?,
        Some(What::Range { .. } | What::Time { .. }) | None => {
            let mut report = Pass::new(bundle, trust, asked).run()?;
            entries(bundle, &mut report)?;
            report
        }
    };
    if let Some(list) = bundle.manifest()
        && list.events != report.events
    {
        let there = report.events;
        report.find(
            Fault::Incomplete,
            format!("it should hold {} events, and {there} are there", list.events),
        );
    }
    bundle::check(bundle, report.events, |fault, what| report.find(fault, what))?;
    report.settled()
}

/// Events that stand there twice, as lines and as tiles, must be the same.
fn entries(bundle: &Bundle, report: &mut Report) -> Result<(), SourceError> {
    if bundle.lines().is_none() {
        return Ok(());
    }
    let (first, until) = bundle.held()?;
    let until = until.min(bundle.size()?);
    let mut page = Page::default();
    let mut next = first;
    while next < until {
        bundle.leaves(next, PAGE, &mut page)?;
        let Some(last) = page.last() else { break };
        let mut tile: Option<(u64, Vec<Vec<u8>>)> = None;
        for (seq, leaf) in page.iter() {
            let n = seq / bundle::WIDTH;
            if tile.as_ref().is_none_or(|(held, _)| *held != n) {
                tile = bundle.entries(n)?.map(|found| (n, found));
            }
            let Some((_, found)) = &tile else { continue };
            let place = usize::try_from(seq % bundle::WIDTH).unwrap_or(usize::MAX);
            if found.get(place).is_none_or(|entry| entry != leaf) {
                report.find(
                    Fault::Tampered,
                    format!("event {seq} is another one in its tile than among the lines"),
                );
            }
        }
        next = last + 1;
    }
    Ok(())
}

/// A case: each event with the receipt that it is in the log, and none missing between the first and the last.
fn verify_case(
    bundle: &Bundle,
    (case_id, tenant): (&str, Option<&str>),
    trust: &TrustPolicy,
    asked: &Asked<'_>,
) -> Result<Report, SourceError> {
    let text = bundle.latest()?.map(|kept| kept.text).unwrap_or_default();
    let head = SignedHead::read(&text);
    let mut report = super::head::verify_head(&head, trust, asked);
    let Ok(head) = head else { return Ok(report) };
    // What leads to a root that nobody has vouched for shows nothing.
    if report.keys.is_empty() {
        return Ok(report);
    }
    if asked.case.as_deref().is_some_and(|asked| asked != case_id) {
        report.find(Fault::Incomplete, format!("it holds the case {case_id} and no other"));
    }
    if asked.state.is_some() {
        report.find(Fault::Incomplete, "a bundle has no state to be compared");
    }
    let mut chain = CaseChain::default();
    let Some(lines) = bundle.lines() else {
        report.find(Fault::Incomplete, "events.jsonl is missing");
        return Ok(report);
    };
    let (mut page, mut line) = (Page::default(), 0);
    loop {
        lines.fill(line, PAGE, &mut page)?;
        let Some(last) = page.last() else { break };
        for (n, leaf) in page.iter() {
            let told = one(bundle, &head, (case_id, tenant), leaf, &mut chain, &mut report)?;
            if let Err((fault, why)) = told {
                report.find(fault, format!("line {}: {why}", n + 1));
            }
            report.events += 1;
        }
        line = last + 1;
    }
    if report.events == 0 {
        report.find(Fault::Incomplete, format!("no event of the case {case_id} is there"));
        return Ok(report);
    }
    report.case.push(CaseSeen {
        case_id: case_id.to_owned(),
        tenant: tenant.map(str::to_owned),
        events: report.events,
    });
    report.cases = 1;
    Ok(report)
}

type Told = Result<(), (Fault, String)>;

fn one(
    bundle: &Bundle,
    head: &SignedHead,
    (case_id, tenant): (&str, Option<&str>),
    leaf: &[u8],
    chain: &mut CaseChain,
    report: &mut Report,
) -> Result<Told, SourceError> {
    let event = match Brief::read(leaf) {
        Ok(event) => event,
        Err(why) => return Ok(Err((Fault::Tampered, why))),
    };
    if event.v > u64::from(Event::VERSION) {
        report.newer(event.seq, event.v);
    }
    let (seq, hash) = (event.seq, Hash(of_leaf(leaf)));
    if report.last.is_some_and(|last| last >= seq) {
        return Ok(Err((
            Fault::Tampered,
            format!("event {seq} stands after event {}", report.last.unwrap_or_default()),
        )));
    }
    if report.first.is_none() {
        report.first = Some(seq);
        report.first_time = Some(event.time.to_string());
    }
    report.last = Some(seq);
    report.last_time = Some(event.time.to_string());
    if event.case_id.as_deref() != Some(case_id) || event.tenant.as_deref() != tenant {
        return Ok(Err((Fault::Tampered, format!("event {seq} is not of the case {case_id}"))));
    }
    if report.events == 0 {
        *chain = super::case_start::start(bundle, head, &event, report)?;
    }
    if let Err(why) = chain.next(event.case.as_ref(), hash) {
        return Ok(Err((Fault::Incomplete, format!("event {seq}: {why}"))));
    }
    let Some(receipt) = bundle.file(&format!("proofs/{seq}.tlog-proof"))? else {
        return Ok(Err((Fault::Incomplete, format!("the receipt of event {seq} is missing"))));
    };
    let receipt = match Receipt::read(&String::from_utf8_lossy(&receipt)) {
        Ok(receipt) => receipt,
        Err(error) => return Ok(Err((Fault::Tampered, format!("the receipt of event {seq}: {error}")))),
    };
    if receipt.head != *head || receipt.index != seq {
        return Ok(Err((
            Fault::Tampered,
            format!("the receipt of event {seq} is about another event or another head"),
        )));
    }
    let shown = check_inclusion(&receipt.proof, head.size(), head.root(), seq, hash);
    Ok(shown.map_err(|_| (Fault::Tampered, format!("event {seq} is not the one in the log, by its receipt"))))
}
