//! A head of the log on one line, so that whoever collects what a process prints keeps it: a log that is later taken back does not have it.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::checkpoint::{CheckpointError, SignedHead};
use crate::domain::time::Timestamp;

/// What a line begins with, whatever a collector puts before it.
const WORD: &str = "head ";

/// The head as a line for people and programs: `head ORIGIN SIZE ROOT TIME SIGNATURE`. The signature is as in the checkpoint.
#[must_use]
pub fn head_line(head: &SignedHead, at: Timestamp) -> String {
    let signature = signature(head);
    format!("{WORD}{} {} {} {at} {signature}", head.origin(), head.size(), head.root())
}

/// The same as one JSON object.
#[must_use]
pub fn head_json(head: &SignedHead, at: Timestamp) -> String {
    let (origin, root) = (head.origin().as_str(), head.root().to_string());
    json!({ "head": { "origin": origin, "size": head.size(), "root": root, "time": at.to_string(), "signature": signature(head) } })
        .to_string()
}

/// The first signature beneath it, which is the log's own.
fn signature(head: &SignedHead) -> &str {
    let block = head.text().rsplit_once("\n\n").map_or("", |(_, block)| block);
    block.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap_or_default()
}

#[derive(Serialize, Deserialize)]
struct Line {
    head: Parts,
}

#[derive(Serialize, Deserialize)]
struct Parts {
    origin: String,
    size: u64,
    root: String,
    signature: String,
}

/// The head of the most events in a file of such lines, among whatever else a collector has put there; `None` if there is none.
///
/// # Errors
/// [`CheckpointError`] if a line begins like one and is none: somebody has cut or changed it.
pub fn latest_head(text: &str) -> Result<Option<SignedHead>, CheckpointError> {
    let mut latest: Option<SignedHead> = None;
    for line in text.lines() {
        let Some(parts) = parts(line) else { continue };
        let name = &parts.origin;
        let note = format!("{name}\n{}\n{}\n\n\u{2014} {name} {}\n", parts.size, parts.root, parts.signature);
        let head = SignedHead::read(&note)?;
        if latest.as_ref().is_none_or(|known| known.size() < head.size()) {
            latest = Some(head);
        }
    }
    Ok(latest)
}

fn parts(line: &str) -> Option<Parts> {
    if let Some(at) = line.find("{\"head\":{") {
        let rest = line.get(at..)?;
        let found = serde_json::Deserializer::from_str(rest).into_iter::<Line>().next()?;
        return found.ok().map(|line| line.head);
    }
    let mut starts = line.match_indices(WORD).map(|(at, _)| at);
    let at = starts.find(|at| line.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with(' ')))?;
    let mut words = line.get(at..)?.split_whitespace().skip(1);
    let (origin, size, root, _, signature) = (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    let size = size.parse().ok()?;
    Some(Parts {
        origin: origin.to_owned(),
        size,
        root: root.to_owned(),
        signature: signature.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::LogKey;
    use crate::audit::tree::Hash;

    struct Zero;

    impl crate::domain::clock::Entropy for Zero {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(3);
        }
    }

    fn heads() -> (LogKey, Vec<SignedHead>) {
        let (key, _) = LogKey::generate(&"broker.example/audit".parse().unwrap(), &Zero).unwrap();
        let made = (1..4)
            .map(|size| SignedHead::sign(size, Hash([size as u8; 32]), &[&key]).unwrap())
            .collect();
        (key, made)
    }

    #[test]
    fn the_latest_head_is_found_among_what_a_collector_makes_of_the_lines() {
        let (key, heads) = heads();
        let at = Timestamp::from_seconds(1_790_000_000);
        let [first, second, third] = heads.try_into().unwrap();
        let text = format!(
            "listening on http://127.0.0.1:8700\nNov 30 10:00:00 host writ[7]: {}\n{}\n{{\"time\":1,\"line\":{}}}\nahead of 5 6 7 8\n{} tail\n",
            head_line(&second, at),
            head_json(&third, at),
            head_json(&first, at),
            head_line(&first, at),
        );
        let found = latest_head(&text).unwrap().unwrap();
        assert_eq!(found, third);
        found.signers(std::slice::from_ref(key.verifier())).unwrap();
        assert_eq!(latest_head("overhead 1\nnothing").unwrap(), None);
    }

    #[test]
    fn a_line_that_was_changed_is_no_head_of_this_log() {
        let (key, heads) = heads();
        let line = head_line(&heads[1], Timestamp::from_seconds(0));
        let larger = line.replacen(" 2 ", " 9 ", 1);
        let found = latest_head(&larger).unwrap().unwrap();
        assert!(found.signers(std::slice::from_ref(key.verifier())).is_err());
        assert!(latest_head(&line.replacen(" 2 ", " 02 ", 1)).is_ok_and(|found| found.is_some_and(|head| head.size() == 2)));
        assert!(latest_head(line.trim_end_matches('=').get(..line.len() - 20).unwrap()).is_err());
    }
}
