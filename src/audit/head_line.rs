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

/// Every head in a file of such lines, among whatever else a collector has put there; whether somebody signed it is another question. A line that
/// was cut short, as the last one of a process that was killed, is passed over if there is another.
///
/// # Errors
/// [`CheckpointError`] if lines begin like one, and all of them were cut or changed.
pub fn heads_in_lines(bytes: &[u8]) -> Result<Vec<SignedHead>, CheckpointError> {
    let (mut found, mut broken) = (Vec::new(), None);
    for line in bytes.split(|byte| *byte == b'\n') {
        // What else is in the file need not be text.
        let line = String::from_utf8_lossy(line);
        for parts in from_words(&line).chain(from_json(&line)) {
            let name = &parts.origin;
            let note = format!("{name}\n{}\n{}\n\n\u{2014} {name} {}\n", parts.size, parts.root, parts.signature);
            match SignedHead::read(&note) {
                Ok(head) => found.push(head),
                Err(error) => broken = Some(error),
            }
        }
    }
    match broken {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

fn from_json(line: &str) -> impl Iterator<Item = Parts> {
    line.match_indices("{\"head\":{").filter_map(|(at, _)| {
        let found = serde_json::Deserializer::from_str(line.get(at..)?).into_iter::<Line>().next()?;
        found.ok().map(|line| line.head)
    })
}

fn from_words(line: &str) -> impl Iterator<Item = Parts> {
    let starts = line.match_indices(WORD).map(|(at, _)| at);
    let starts = starts.filter(|at| line.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with(' ')));
    starts.filter_map(|at| {
        let mut words = line.get(at..)?.split_whitespace().skip(1);
        let (origin, size, root, _, signature) = (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
        let size = size.parse().ok()?;
        Some(Parts {
            origin: origin.to_owned(),
            size,
            root: root.to_owned(),
            signature: signature.to_owned(),
        })
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
    fn every_head_is_found_among_what_a_collector_makes_of_the_lines() {
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
        let found = heads_in_lines(text.as_bytes()).unwrap();
        assert_eq!(found, [second, third.clone(), first.clone(), first]);
        for head in &found {
            head.signers(std::slice::from_ref(key.verifier())).unwrap();
        }
        assert_eq!(heads_in_lines(b"overhead 1\nnothing").unwrap(), []);
        // What stands before it, in the line or in the file, hides no head.
        let forged = format!("x head broker.example/audit 99999 {} 0 {}", third.root(), "A".repeat(96));
        let noisy = [b"\0\xff\xfe ", format!("{forged} {}", head_line(&third, at)).as_bytes(), b"\n\xff"].concat();
        let sizes: Vec<u64> = heads_in_lines(&noisy).unwrap().iter().map(SignedHead::size).collect();
        assert_eq!(sizes, [99_999, 3]);
    }

    #[test]
    fn a_line_that_was_changed_is_no_head_of_this_log() {
        let (key, heads) = heads();
        let line = head_line(&heads[1], Timestamp::from_seconds(0));
        let one = |line: &str| heads_in_lines(line.as_bytes()).map(|found| found.into_iter().next().unwrap());
        let larger = one(&line.replacen(" 2 ", " 9 ", 1)).unwrap();
        assert!(larger.signers(std::slice::from_ref(key.verifier())).is_err());
        assert_eq!(one(&line.replacen(" 2 ", " 02 ", 1)).unwrap().size(), 2);
        let cut = |by: usize| line.get(..line.len() - by).unwrap();
        assert!(one(cut(21)).is_err());
        let shorter = one(cut(20)).unwrap();
        assert!(shorter.signers(std::slice::from_ref(key.verifier())).is_err());
        assert_eq!(one(&format!("{line}\n{}", cut(21))).unwrap(), heads[1]);
    }
}
