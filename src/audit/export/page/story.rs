//! The story of each draft of the case, chapter by chapter.

use std::collections::BTreeMap;

use super::chapter::Chapter;
use super::html::Html;
use super::part::{self, Decimals};
use super::{Told, link, words};
use crate::audit::export::Kind;
use crate::audit::{EventKind, EventOutcome};
use crate::domain::lifecycle::{CredentialTransition, ExecutionTransition};

/// A section for each draft in the order in which they first appear, and one for what names none.
pub(super) fn drafts(out: &mut Html, told: &[Told<'_>], decimals: Decimals<'_>) {
    let of_credential = drafts_of_credentials(told);
    let mut ids: Vec<&str> = Vec::new();
    for id in told.iter().filter_map(named_draft) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    for id in ids {
        let of_draft: Vec<&Told<'_>> = told.iter().filter(|told| draft_of(told, &of_credential) == Some(id)).collect();
        out.raw("<section>\n<h2>Draft ").text(id).raw("</h2>\n");
        summary(out, &of_draft, decimals);
        for chapter in Chapter::ALL {
            events(out, chapter, &of_draft, decimals);
        }
        out.raw("</section>\n");
    }
    let others: Vec<&Told<'_>> = told.iter().filter(|told| draft_of(told, &of_credential).is_none()).collect();
    if !others.is_empty() {
        out.raw("<section>\n<h2>Events of the case that name no draft</h2>\n");
        for chapter in Chapter::ALL {
            if others.iter().any(|told| chapter_of(told) == chapter) {
                events(out, chapter, &others, decimals);
            }
        }
        out.raw("</section>\n");
    }
}

fn named_draft<'t>(told: &'t Told<'_>) -> Option<&'t str> {
    told.read.event.draft.as_ref().map(|draft| draft.id.as_str())
}

/// The draft it is about. What is refused with a credential names that alone; the story it belongs to is that of the credential's draft.
fn draft_of<'t>(told: &'t Told<'_>, of_credential: &BTreeMap<&'t str, &'t str>) -> Option<&'t str> {
    let credential = told.read.event.credential.as_ref();
    named_draft(told).or_else(|| of_credential.get(credential?.id.as_str()).copied())
}

/// The draft of each credential, by the event that issued it.
fn drafts_of_credentials<'t>(told: &'t [Told<'_>]) -> BTreeMap<&'t str, &'t str> {
    let issued = |told: &&Told<'_>| told.read.kind == Kind::Known(EventKind::Credential(CredentialTransition::Issue));
    let pairs = told.iter().filter(issued).filter_map(|told| {
        let credential = told.read.event.credential.as_ref()?;
        Some((credential.id.as_str(), named_draft(told)?))
    });
    pairs.collect()
}

const fn chapter_of(told: &Told<'_>) -> Chapter {
    match told.read.kind {
        Kind::Known(kind) => Chapter::of(kind),
        Kind::Newer => Chapter::Other,
    }
}

/// The draft in a few lines: what, who said yes, how it stands.
fn summary(out: &mut Html, told: &[&Told<'_>], decimals: Decimals<'_>) {
    let first = told.iter().map(|told| &told.read.event).find(|event| event.operation.is_some());
    let mut rows: Vec<(&'static str, String)> = Vec::new();
    if let Some(event) = first {
        rows.extend(event.operation.clone().map(|operation| ("Operation", operation)));
        rows.extend(event.resource.as_ref().map(|resource| ("On", part::resource(resource))));
        rows.extend(part::amount(event, decimals).map(|amount| ("Amount", amount)));
    }
    let signed = |told: &&&Told<'_>| chapter_of(told) == Chapter::Approval && told.read.event.outcome == EventOutcome::Ok;
    let mut signers: Vec<String> = Vec::new();
    for approval in told.iter().filter(signed).filter_map(|told| told.read.event.approval.as_ref()) {
        if let (Some(approver), Some(kid), Some(decision)) = (&approval.approver, &approval.kid, approval.decision) {
            let signer = format!("{} by {approver} with key {kid}", decision.as_str());
            if !signers.contains(&signer) {
                signers.push(signer);
            }
        }
    }
    rows.push((
        "Signed",
        if signers.is_empty() {
            "by nobody".to_owned()
        } else {
            signers.join("; ")
        },
    ));
    let sent = told.iter().filter(|told| is_send(told.read.kind)).count();
    rows.push(("Attempts written down", sent.to_string()));
    rows.extend(last_state(told, "execution.").map(|state| ("The execution is", state)));
    rows.extend(last_state(told, "approval.").map(|state| ("The approval is", state)));
    rows.extend(last_state(told, "draft.").map(|state| ("The draft is", state)));
    out.raw("<dl>\n");
    for (label, value) in rows {
        out.raw("<dt>").raw(label).raw("</dt><dd>").text(&value).raw("</dd>\n");
    }
    out.raw("</dl>\n");
}

fn is_send(kind: Kind) -> bool {
    use ExecutionTransition as T;
    matches!(kind, Kind::Known(EventKind::Execution(T::Dispatch | T::Resend)))
}

/// The state after the last event whose type begins so.
fn last_state(told: &[&Told<'_>], family: &str) -> Option<String> {
    let mut events = told.iter().rev().map(|told| &told.read.event);
    let changed = events.find(|event| event.kind.starts_with(family) && event.state.is_some())?;
    changed.state.as_ref().map(|state| state.to.clone())
}

/// The chapter's events, each with what it tells.
fn events(out: &mut Html, chapter: Chapter, told: &[&Told<'_>], decimals: Decimals<'_>) {
    let mut of_chapter = told.iter().filter(|told| chapter_of(told) == chapter).peekable();
    if of_chapter.peek().is_none() {
        if let Some(nothing) = chapter.nothing() {
            out.raw("<h3>")
                .raw(chapter.title())
                .raw("</h3>\n<p class=\"none\">")
                .raw(nothing)
                .raw("</p>\n");
        }
        return;
    }
    out.raw("<h3>").raw(chapter.title());
    out.raw("</h3>\n<table>\n<thead><tr><th scope=\"col\">Event</th><th scope=\"col\">Time</th><th scope=\"col\">What happened</th></tr></thead>\n<tbody>\n");
    for told in of_chapter {
        let event = &told.read.event;
        out.raw("<tr><td class=\"number\">");
        link(out, told);
        out.raw("</td><td>")
            .text(&event.time)
            .raw("</td><td><span class=\"")
            .raw(event.outcome.as_str())
            .raw("\">");
        out.text(words::sentence(told.read.kind, &event.kind)).raw("</span>\n<dl>\n");
        for (label, value) in part::pairs(chapter, event, decimals) {
            out.raw("<dt>").raw(label).raw("</dt><dd>").text(&value).raw("</dd>\n");
        }
        out.raw("</dl></td></tr>\n");
    }
    out.raw("</tbody>\n</table>\n");
}
