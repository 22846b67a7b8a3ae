//! One case on one page, for people: what happened, in order, and how to check it. Plain HTML without scripts and without anything from elsewhere, which
//! prints. The page proves nothing by itself; the commands on it do.

mod chapter;
mod html;
mod part;
mod story;
mod words;

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::read::Read;
use super::{Entry, ExportError};
use crate::audit::EventOutcome;
use crate::domain::digest::Digest;
use crate::domain::money::Currency;
use crate::domain::time::Timestamp;
use html::Html;

const STYLE: &str = include_str!("style.css");

/// What the page is made of.
pub struct CasePage<'a> {
    /// The case.
    pub case_id: &'a str,
    /// The log's name.
    pub origin: &'a str,
    /// The signed checkpoint, as it is.
    pub checkpoint: &'a str,
    /// When the page was made.
    pub made_at: Timestamp,
    /// What the verification said when the page was made, a line each; such as that the log is not anchored.
    pub findings: &'a [String],
    /// The case's events, in the order of the log.
    pub entries: &'a [CaseEntry],
    /// How to check all of it.
    pub commands: &'a [Command],
    /// How many decimals a currency has for an operation; `None` if it is not known, and then amounts stand in minor units.
    pub decimals: &'a dyn Fn(&str, Currency) -> Option<u8>,
}

/// One event, and how to check that it is in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseEntry {
    /// The event.
    pub entry: Entry,
    /// The commands; none, if those of the whole case are enough.
    pub verify: Vec<String>,
}

/// A command, and what it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What it shows, a sentence.
    pub what: String,
    /// The command.
    pub command: String,
}

/// The content security policy the page says of itself, for the header of an answer that carries it.
#[must_use]
pub fn content_security_policy() -> String {
    let style = STANDARD.encode(Digest::of(STYLE.as_bytes()).as_bytes());
    format!("default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'")
}

/// An event that was read, beside its entry.
struct Told<'a> {
    entry: &'a CaseEntry,
    read: Read,
}

impl<'a> Told<'a> {
    fn of(entry: &'a CaseEntry) -> Result<Self, ExportError> {
        let read = Read::of(&entry.entry)?;
        Ok(Self { entry, read })
    }
}

/// The page.
///
/// # Errors
/// [`ExportError`] if one of the leaves is no event, or not that of its hash and number.
pub fn html(page: &CasePage<'_>) -> Result<String, ExportError> {
    let told = page.entries.iter().map(Told::of).collect::<Result<Vec<_>, _>>()?;
    let mut out = Html::new();
    out.raw(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"",
    );
    out.text(&content_security_policy());
    out.raw("\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>Case ");
    out.text(page.case_id)
        .raw("</title>\n<style>")
        .raw(STYLE)
        .raw("</style>\n</head>\n<body>\n");
    head(&mut out, page, &told);
    story::drafts(&mut out, &told, page.decimals);
    denials(&mut out, &told);
    checks(&mut out, page);
    events(&mut out, &told);
    out.raw("</body>\n</html>\n");
    Ok(out.finish())
}

fn head(out: &mut Html, page: &CasePage<'_>, told: &[Told<'_>]) {
    out.raw("<header>\n<h1>Case ").text(page.case_id).raw("</h1>\n<dl>\n");
    let mut row = |label: &'static str, value: &str| {
        out.raw("<dt>").raw(label).raw("</dt><dd>").text(value).raw("</dd>\n");
    };
    row("Log", page.origin);
    row("Events", &told.len().to_string());
    if let (Some(first), Some(last)) = (told.first(), told.last()) {
        row("From", &first.read.event.time);
        row("To", &last.read.event.time);
    }
    row("Numbered", &numbering(told));
    row("Made", &page.made_at.to_string());
    out.raw("</dl>\n");
    for finding in page.findings {
        out.raw("<p><strong>").text(finding).raw("</strong></p>\n");
    }
    out.raw(
        "<p>This page is a copy for reading and proves nothing by itself. What it says can be checked without trusting whoever made it: ",
    );
    out.raw("see <a href=\"#checks\">How to check this page</a>.</p>\n</header>\n");
}

/// Whether the events' own numbers say that none of the case is missing.
fn numbering(told: &[Told<'_>]) -> String {
    let numbers: Vec<u64> = told.iter().filter_map(|told| told.read.place_in_case()).collect();
    if numbers.len() < told.len() {
        let without = told.len() - numbers.len();
        return format!("{without} of the events do not say which of the case they are, so they cannot show that none is missing");
    }
    let there: BTreeSet<u64> = numbers.iter().copied().collect();
    let last = there.last().copied().unwrap_or(0);
    // What is counted here is what the page was given, so a number that claims millions does not make it count that far.
    match u64::try_from(there.len()) {
        Ok(count) if count == last && there.first() == Some(&1) && there.len() == numbers.len() => {
            format!("1 to {last} within the case, none missing between them; only the log can say that {last} is the last")
        }
        _ => format!("NOT COMPLETE: {} different numbers up to {last} within the case", there.len()),
    }
}

fn denials(out: &mut Html, told: &[Told<'_>]) {
    out.raw("<section>\n<h2>Every denial</h2>\n");
    let denied: Vec<&Told<'_>> = told.iter().filter(|told| told.read.event.outcome == EventOutcome::Denied).collect();
    if denied.is_empty() {
        out.raw("<p class=\"none\">Nothing was denied.</p>\n</section>\n");
        return;
    }
    out.raw("<table>\n<thead><tr><th scope=\"col\">Event</th><th scope=\"col\">Time</th><th scope=\"col\">What</th><th scope=\"col\">Code</th><th scope=\"col\">By</th></tr></thead>\n<tbody>\n");
    for told in denied {
        let event = &told.read.event;
        out.raw("<tr><td class=\"number\">");
        link(out, told);
        out.raw("</td><td>").text(&event.time).raw("</td><td>");
        out.text(words::sentence(told.read.kind, &event.kind))
            .raw("</td><td class=\"denied\">");
        out.text(event.code.as_deref().unwrap_or("no code")).raw("</td><td>");
        out.text(&part::actor(event)).raw("</td></tr>\n");
    }
    out.raw("</tbody>\n</table>\n</section>\n");
}

fn checks(out: &mut Html, page: &CasePage<'_>) {
    out.raw("<section id=\"checks\">\n<h2>How to check this page</h2>\n");
    out.raw("<p>The log's key must come from somewhere else than this page or what came with it.</p>\n");
    for command in page.commands {
        out.raw("<p>")
            .text(&command.what)
            .raw("</p>\n<pre>")
            .lines(&command.command)
            .raw("</pre>\n");
    }
    out.raw("<p>The signed checkpoint that the events below are under:</p>\n<pre>")
        .lines(page.checkpoint)
        .raw("</pre>\n");
    out.raw("<p>An event's leaf hash is the SHA-256 of a zero byte and the event's exact bytes (RFC 6962).</p>\n</section>\n");
}

fn events(out: &mut Html, told: &[Told<'_>]) {
    out.raw("<section>\n<h2>Every event</h2>\n");
    out.raw("<table>\n<thead><tr><th scope=\"col\">Event</th><th scope=\"col\">Time</th><th scope=\"col\">Type and outcome</th><th scope=\"col\">Leaf hash, and how to check it</th></tr></thead>\n<tbody>\n");
    for told in told {
        let event = &told.read.event;
        out.raw("<tr id=\"event-")
            .number(event.seq)
            .raw("\"><td class=\"number\">")
            .number(event.seq);
        out.raw("</td><td>")
            .text(&event.time)
            .raw("</td><td><code>")
            .text(&event.kind)
            .raw("</code><br><span class=\"");
        out.raw(event.outcome.as_str())
            .raw("\">")
            .raw(event.outcome.as_str())
            .raw("</span>");
        if let Some(code) = &event.code {
            out.raw(" <code>").text(code).raw("</code>");
        }
        out.raw("</td><td><code>").text(&told.entry.entry.leaf_hash_hex()).raw("</code>");
        for command in &told.entry.verify {
            out.raw("<pre>").lines(command).raw("</pre>");
        }
        out.raw("</td></tr>\n");
    }
    out.raw("</tbody>\n</table>\n</section>\n");
}

/// The event's number, leading to its row.
fn link(out: &mut Html, told: &Told<'_>) {
    let seq = told.read.event.seq;
    out.raw("<a href=\"#event-").number(seq).raw("\">").number(seq).raw("</a>");
}
