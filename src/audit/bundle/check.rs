//! Whether a bundle's files are those of its list.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use ring::digest::{Context, SHA256};

use super::dir::hex;
use super::manifest::{Manifest, What};
use super::read::{Bundle, LARGEST};
use crate::audit::SignedHead;
use crate::audit::source::SourceError;
use crate::audit::verify::Fault;
use crate::domain::text::escaped;

/// More files than this are no bundle of a log that could be verified here.
const MOST: usize = 10_000_000;

/// The events as lines.
const LINES: &str = "events.jsonl";

/// The longest line of an event, with its end.
const LINE: u64 = 1 << 16;

/// Compares the files with the list, the list with its own hash, and what it says with the checkpoint. So many events were read: a file of lines that
/// is longer than they can be is not read once more.
pub(crate) fn check(bundle: &Bundle, events: u64, mut tell: impl FnMut(Fault, String)) -> Result<(), SourceError> {
    let dir = bundle.dir();
    let Some(text) = bundle.list()? else {
        if bundle.lacks_manifest() {
            tell(Fault::Incomplete, format!("{} is missing", Manifest::FILE));
        }
        return Ok(());
    };
    let sum = hex(ring::digest::digest(&SHA256, &text).as_ref());
    match bundle.file(Manifest::SUM)? {
        None => tell(Fault::Incomplete, format!("{} is missing", Manifest::SUM)),
        Some(said) if said != format!("{sum}  {}\n", Manifest::FILE).into_bytes() => {
            tell(
                Fault::Tampered,
                format!("{} is not the list that {} names", Manifest::FILE, Manifest::SUM),
            );
        }
        Some(_) => {}
    }
    let Some(list) = bundle.manifest().filter(|list| list.form == Manifest::FORM) else {
        tell(
            Fault::Tampered,
            format!("{} is no list of a bundle that this program knows", Manifest::FILE),
        );
        return Ok(());
    };
    if let Some(why) = contradiction(list) {
        tell(Fault::Tampered, format!("{} contradicts itself: {why}", Manifest::FILE));
    }
    let mut found = BTreeMap::new();
    walk(dir, dir, events.saturating_add(1).saturating_mul(LINE), &mut found)?;
    found.remove(Manifest::FILE);
    found.remove(Manifest::SUM);
    for listed in &list.files {
        let Some((bytes, sha256)) = found.remove(&listed.path) else {
            tell(Fault::Incomplete, format!("{} is missing", escaped(&listed.path)));
            continue;
        };
        if listed.path == LINES && bytes == listed.bytes && sha256.is_empty() {
            tell(
                Fault::Incomplete,
                format!("{LINES} is longer than the {events} events that could be read of it"),
            );
        } else if (bytes, &sha256) != (listed.bytes, &listed.sha256) {
            tell(
                Fault::Tampered,
                format!("{} is not the file that {} lists", listed.path, Manifest::FILE),
            );
        }
    }
    for path in found.keys() {
        tell(Fault::Tampered, format!("{} is in no list", escaped(path)));
    }
    let head = bundle.file("checkpoint")?.and_then(|text| String::from_utf8(text).ok());
    if let Some(head) = head.and_then(|text| SignedHead::read(&text).ok())
        && (head.origin().as_str(), head.size(), head.root().to_string()) != (&list.origin, list.size, list.root.clone())
    {
        tell(
            Fault::Tampered,
            format!("{} is about another head than the checkpoint", Manifest::FILE),
        );
    }
    Ok(())
}

/// What of the list cannot be true, whatever the files are.
fn contradiction(list: &Manifest) -> Option<String> {
    let (events, size) = (list.events, list.size);
    match &list.what {
        What::Case { .. } if events > size => Some(format!("it names {events} events of the log's {size}")),
        What::Case { .. } => None,
        What::Range { first, last } | What::Time { first, last, .. } => {
            let is_there = first <= last && *last < size && events == last - first + 1;
            (!is_there).then(|| format!("it names {events} events, those from {first} to {last} of the log's {size}"))
        }
    }
}

/// The length and hash of every file below.
fn walk(root: &Path, dir: &Path, lines: u64, found: &mut BTreeMap<String, (u64, String)>) -> Result<(), SourceError> {
    let told = |path: &Path, error: &dyn std::fmt::Display| SourceError(format!("{}: {error}", path.display()));
    for entry in std::fs::read_dir(dir).map_err(|error| told(dir, &error))? {
        let entry = entry.map_err(|error| told(dir, &error))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(|error| told(&path, &error))?;
        if kind.is_dir() {
            walk(root, &path, lines, found)?;
            continue;
        }
        let below = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        // A link leads out of what is verified: it counts as a file of another content.
        let summed = if kind.is_file() {
            let limit = if below == LINES { lines.max(LARGEST) } else { LARGEST };
            summed(&path, limit).map_err(|error| told(&path, &error))?
        } else {
            (0, String::new())
        };
        found.insert(below, summed);
        if found.len() > MOST {
            return Err(told(root, &"it has more files than any bundle"));
        }
    }
    Ok(())
}

/// Its length and hash; of what is longer than any such file only the length.
fn summed(path: &Path, limit: u64) -> std::io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    if length > limit {
        return Ok((length, String::new()));
    }
    let (mut buffer, mut context, mut bytes) = (vec![0; 1 << 16], Context::new(&SHA256), 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((bytes, hex(context.finish().as_ref())));
        }
        context.update(buffer.get(..read).unwrap_or_default());
        bytes += read as u64;
    }
}
