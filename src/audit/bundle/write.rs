//! Writing a bundle. What is written is checked on the way, so that nobody carries off what does not verify.

use std::path::Path;

use super::dir::{Draft, DraftFile, hex};
use super::layout::{self, Tile, WIDTH};
use super::manifest::{Manifest, What};
use super::pruned::Beginning;
use crate::audit::brief::Brief;
use crate::audit::case::CasePruned;
use crate::audit::files::policy_text;
use crate::audit::source::{LogSource, Nodes, PAGE, Page, SourceError};
use crate::audit::tree::{Edge, Hash, HashReader as _, check_inclusion, leaf_hash, leaf_index, prove_inclusion};
use crate::audit::{Receipt, SignedHead, VerifierKey};
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;

/// Heads are asked for so many at a time.
const HEADS: usize = 256;

/// A day, in milliseconds.
const DAY: i64 = 86_400_000;

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The log cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The log is not fit to be carried off.
    #[error("the log is not written out, since it does not verify: {0}; see `writ audit verify --help`")]
    Unsound(String),
    /// The events before this one were pruned.
    #[error("the log begins with event {0}: what was before it was pruned, and the bundle of that time has it")]
    Pruned(u64),
    /// There is nothing to write.
    #[error("{0}")]
    Nothing(String),
    /// The directory cannot be written.
    #[error("{0}")]
    Write(String),
}

impl From<String> for BundleError {
    fn from(why: String) -> Self {
        Self::Write(why)
    }
}

/// What is to be written.
pub struct Request<'a> {
    /// Which events.
    pub what: What,
    /// Their numbers, for those of a case.
    pub seqs: &'a [u64],
    /// The keys of the log, if they are at hand.
    pub keys: &'a [VerifierKey],
    /// The program and its version.
    pub tool: String,
    /// Now.
    pub now: Timestamp,
}

/// What was written.
#[derive(Debug, Clone)]
pub struct Written {
    /// The list of files.
    pub manifest: Manifest,
    /// SHA-256 over the list.
    pub sha256: Digest,
    /// What of a case was pruned before its first event that is there.
    pub pruned: Option<CasePruned>,
}

/// Writes a new directory at `to`, whole or not at all.
///
/// # Errors
/// [`BundleError`]; nothing is left at `to` then.
pub fn write(source: &(impl LogSource + ?Sized), request: &Request<'_>, to: &Path, mark: &str) -> Result<Written, BundleError> {
    let head = sound_head(source, request.keys)?;
    let mut draft = Draft::beside(to, mark)?;
    let mut pruned = None;
    draft.write("checkpoint", head.text().as_bytes())?;
    if !request.keys.is_empty() {
        draft.write("keys.txt", policy_text(request.keys).as_bytes())?;
    }
    old_heads(source, &head, &mut draft)?;
    let events = match request.what {
        What::Range { first, last } | What::Time { first, last, .. } => {
            let tiles = layout::all(head.size());
            hashes(source, tiles, &mut draft)?;
            range(source, &head, (first, last), &mut draft)?
        }
        What::Case { .. } => {
            let beginning = Beginning::of(source, request.seqs)?;
            let besides = beginning.as_ref().map(Beginning::proven);
            let proven = [besides.as_ref().map_or(&[][..], |besides| besides), request.seqs].concat();
            let tiles = layout::proving(head.size(), &proven);
            hashes(source, tiles.into_iter(), &mut draft)?;
            let events = case(source, &head, request.seqs, beginning.as_ref(), &mut draft)?;
            pruned = beginning.map(|beginning| beginning.pruned);
            events
        }
    };
    let manifest = Manifest {
        form: Manifest::FORM.to_owned(),
        what: request.what.clone(),
        origin: head.origin().to_string(),
        size: head.size(),
        root: head.root().to_string(),
        events,
        tool: request.tool.clone(),
        made_at: request.now,
        files: draft.listed(),
    };
    let mut text = serde_json::to_string_pretty(&manifest).map_err(|error| BundleError::Write(error.to_string()))?;
    text.push('\n');
    let sha256 = Digest::of(text.as_bytes());
    draft.write(Manifest::FILE, text.as_bytes())?;
    let sum = format!("{}  {}\n", hex(sha256.as_bytes()), Manifest::FILE);
    draft.write(Manifest::SUM, sum.as_bytes())?;
    draft.place()?;
    Ok(Written { manifest, sha256, pruned })
}

/// The latest head, if the database's tree has its root and one of the log's keys has signed it. Without keys its signature is not looked at, which
/// whoever gets it must be told.
pub(crate) fn sound_head(source: &(impl LogSource + ?Sized), keys: &[VerifierKey]) -> Result<SignedHead, BundleError> {
    let size = source.size()?;
    let kept = source
        .latest()?
        .ok_or_else(|| BundleError::Nothing("the log has no signed head yet: start `writ serve` on it once".to_owned()))?;
    let head = SignedHead::read(&kept.text).map_err(|error| BundleError::Unsound(format!("its latest head: {error}")))?;
    if !keys.is_empty() {
        head.signers(keys)
            .map_err(|error| BundleError::Unsound(format!("its latest head: {error}")))?;
    }
    if head.size() != size {
        return Err(BundleError::Unsound(format!(
            "its latest head covers {} events and it has {size}",
            head.size()
        )));
    }
    if size == 0 {
        return Err(BundleError::Nothing("the log has no events yet".to_owned()));
    }
    let edge = Edge::read(size, &Nodes(source)).map_err(|_| BundleError::Unsound("nodes of its tree are missing".to_owned()))?;
    let has_root = edge.root().is_ok_and(|root| root == head.root());
    if has_root {
        Ok(head)
    } else {
        Err(BundleError::Unsound(
            "its tree does not have the root that its latest head signs".to_owned(),
        ))
    }
}

/// The heads that are kept for good, of the others the last of each day, and the last that witnesses have cosigned.
fn old_heads(source: &(impl LogSource + ?Sized), head: &SignedHead, draft: &mut Draft) -> Result<(), BundleError> {
    let mut above = None;
    let mut last: Option<(i64, u64, String)> = None;
    let mut cosigned: Option<(u64, String)> = None;
    let mut write = |size: u64, text: &str| draft.write(&format!("old-checkpoints/{size}"), text.as_bytes());
    loop {
        let page = source.heads(above, HEADS)?;
        let Some(end) = page.last() else { break };
        above = Some(end.size);
        for found in page.into_iter().filter(|found| found.size < head.size()) {
            let day = found.at.map_or(0, |at| at.millis().div_euclid(DAY));
            if let Some((of, size, text)) = last.take()
                && of != day
            {
                write(size, &text)?;
                // It is there already, and is not written a second time.
                cosigned.take_if(|(known, _)| *known == size);
            }
            if found.kept {
                write(found.size, &found.text)?;
                continue;
            }
            if SignedHead::read(&found.text).is_ok_and(|head| head.line_count() > 1) {
                cosigned = Some((found.size, found.text.clone()));
            }
            last = Some((day, found.size, found.text));
        }
    }
    if let Some((_, size, text)) = last {
        write(size, &text)?;
        cosigned.take_if(|(known, _)| *known == size);
    }
    if let Some((size, text)) = cosigned {
        write(size, &text)?;
    }
    Ok(())
}

/// The tiles of hashes.
fn hashes(source: &(impl LogSource + ?Sized), tiles: impl Iterator<Item = Tile>, draft: &mut Draft) -> Result<(), BundleError> {
    for tile in tiles {
        let found = Nodes(source)
            .read_hashes(&tile.indexes())
            .map_err(|_| BundleError::Unsound(format!("nodes of {} are missing from its tree", tile.path())))?;
        let bytes: Vec<u8> = found.iter().flat_map(|hash| hash.0).collect();
        draft.write(&tile.path(), &bytes)?;
    }
    Ok(())
}

/// An event's bytes, if the tree has its hash there.
pub(super) fn checked<'l>(source: &(impl LogSource + ?Sized), seq: u64, leaf: &'l [u8]) -> Result<&'l [u8], BundleError> {
    let is_there = source.node(leaf_index(seq))? == Some(leaf_hash(leaf));
    if !is_there {
        return Err(BundleError::Unsound(format!("event {seq} is not the one that its tree has there")));
    }
    if leaf.contains(&b'\n') || leaf.len() > usize::from(u16::MAX) {
        return Err(BundleError::Unsound(format!(
            "event {seq} does not fit into one line of at most 65535 bytes"
        )));
    }
    Ok(leaf)
}

/// The events of a range, as lines and, where a tile lies in it as a whole, as tiles.
fn range(source: &(impl LogSource + ?Sized), head: &SignedHead, (first, last): (u64, u64), draft: &mut Draft) -> Result<u64, BundleError> {
    let size = head.size();
    if last >= size || first > last {
        return Err(BundleError::Nothing(format!("the log has the events 0..{}", size - 1)));
    }
    let mut lines = draft.file("events.jsonl")?;
    let mut entries: Option<(DraftFile, u64)> = None;
    let mut page = Page::default();
    let mut next = first;
    while next <= last {
        source.leaves(next, PAGE, &mut page)?;
        if page.iter().next().is_none_or(|(seq, _)| seq != next) {
            return Err(missing(source, next));
        }
        for (seq, leaf) in page.iter().take_while(|(seq, _)| *seq <= last) {
            if seq != next {
                return Err(missing(source, next));
            }
            let leaf = checked(source, seq, leaf)?;
            lines.write(leaf)?;
            lines.write(b"\n")?;
            if seq % WIDTH == 0 {
                let end = size.min(seq + WIDTH);
                entries = (end <= last + 1)
                    .then(|| draft.file(&layout::entries_path(seq / WIDTH, end - seq)).map(|file| (file, end)))
                    .transpose()?;
            }
            if let Some((file, end)) = &mut entries {
                let length = u16::try_from(leaf.len()).unwrap_or(u16::MAX);
                file.write(&length.to_be_bytes())?;
                file.write(leaf)?;
                if seq + 1 == *end
                    && let Some((file, _)) = entries.take()
                {
                    draft.finish(file)?;
                }
            }
            next += 1;
        }
    }
    draft.finish(lines)?;
    Ok(last - first + 1)
}

/// Why this event is not there.
pub(crate) fn missing(source: &(impl LogSource + ?Sized), seq: u64) -> BundleError {
    let mut page = Page::default();
    match source.leaves(0, 1, &mut page) {
        Err(error) => error.into(),
        Ok(()) => match page.iter().next() {
            Some((first, _)) if seq < first => BundleError::Pruned(first),
            _ => BundleError::Unsound(format!("event {seq} is missing")),
        },
    }
}

/// An event's bytes.
pub(super) fn leaf_of<'p>(source: &(impl LogSource + ?Sized), seq: u64, page: &'p mut Page) -> Result<&'p [u8], BundleError> {
    source.leaves(seq, 1, page)?;
    let found = page.iter().next().filter(|(found, _)| *found == seq);
    found.map(|(_, leaf)| leaf).ok_or_else(|| missing(source, seq))
}

/// The receipt of an event with this hash.
pub(super) fn receipt(source: &(impl LogSource + ?Sized), head: &SignedHead, seq: u64, leaf: Hash) -> Result<Receipt, BundleError> {
    let proof = prove_inclusion(head.size(), seq, &Nodes(source))
        .map_err(|_| BundleError::Unsound(format!("nodes above event {seq} are missing from its tree")))?;
    check_inclusion(&proof, head.size(), head.root(), seq, leaf)
        .map_err(|_| BundleError::Unsound(format!("event {seq} is not under the root that its latest head signs")))?;
    Ok(Receipt {
        index: seq,
        proof,
        head: head.clone(),
    })
}

/// A case's events as lines, each with its receipt.
fn case(
    source: &(impl LogSource + ?Sized),
    head: &SignedHead,
    seqs: &[u64],
    beginning: Option<&Beginning>,
    draft: &mut Draft,
) -> Result<u64, BundleError> {
    let mut lines = draft.file("events.jsonl")?;
    let mut page = Page::default();
    let mut chain = beginning.map(|beginning| beginning.chain).unwrap_or_default();
    for seq in seqs {
        let leaf = checked(source, *seq, leaf_of(source, *seq, &mut page)?)?;
        let place = Brief::read(leaf).ok().and_then(|event| event.case);
        chain
            .next(place.as_ref(), leaf_hash(leaf))
            .map_err(|why| BundleError::Unsound(format!("event {seq}: {why}")))?;
        lines.write(leaf)?;
        lines.write(b"\n")?;
        let receipt = receipt(source, head, *seq, leaf_hash(leaf))?;
        draft.write(&format!("proofs/{seq}.tlog-proof"), receipt.text().as_bytes())?;
    }
    draft.finish(lines)?;
    if let Some(beginning) = beginning {
        beginning.write(source, head, draft)?;
    }
    Ok(seqs.len() as u64)
}
