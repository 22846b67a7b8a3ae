//! The words of one exchange with a witness: what is asked, and what an answer means.

use crate::audit::SignedHead;
use crate::audit::tree::Hash;
use crate::domain::text::escaped;

/// No answer of a witness is longer: a few signature lines, or a number.
pub(super) const MAX_ANSWER: usize = 8 << 10;

/// The body of `add-checkpoint`: the size the witness knows, the proof that the log has only grown since, and the head.
pub(super) fn request(old: u64, proof: &[Hash], head: &SignedHead) -> String {
    let mut body = format!("old {old}\n");
    for hash in proof {
        body.push_str(&format!("{hash}\n"));
    }
    body.push('\n');
    body.push_str(head.text());
    body
}

/// What a witness said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// Lines that should hold its cosignature.
    Lines(String),
    /// It knows the log with this size, and not with the one that was named.
    Stands(u64),
    /// What it was shown is not an extension of what it has cosigned.
    Inconsistent,
    /// No, with what to do about it.
    Refused(String),
}

/// Reads an answer.
pub(super) fn understood(status: u16, body: &[u8]) -> Said {
    let text = std::str::from_utf8(body);
    let refused = |why: &str| Said::Refused(why.to_owned());
    match (status, text) {
        (200, Ok(lines)) => Said::Lines(lines.to_owned()),
        (409, Ok(text)) => {
            let number = text.strip_suffix('\n').unwrap_or(text);
            let size = number.parse::<u64>().ok().filter(|size| size.to_string() == number);
            size.map_or_else(|| refused("it answers 409 without a size"), Said::Stands)
        }
        (422, _) => Said::Inconsistent,
        (403, _) => refused("it answers 403: it trusts another key of this log; give it the public keys in log.pub"),
        (404, _) => refused("it answers 404: it does not know this log, or is at another address; have it add the log's name and keys"),
        (status, Ok(text)) => {
            let first: String = text.lines().next().unwrap_or_default().chars().take(120).collect();
            refused(&format!("it answers {status} {}", escaped(&first)))
        }
        (status, Err(_)) => refused(&format!("it answers {status} and no text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_as_the_standard_has_it_is_a_refusal() {
        for (status, body) in [
            (409, &b""[..]),
            (409, b"007\n"),
            (409, b"-1\n"),
            (409, b"99999999999999999999\n"),
            (409, b"5\n5\n"),
            (200, b"\xff\xfe"),
            (301, b"elsewhere"),
            (500, b"\x1b[2Jgone"),
        ] {
            assert!(matches!(understood(status, body), Said::Refused(_)), "{status} {body:?}");
        }
        let Said::Refused(shown) = understood(500, b"\x1b[2Jgone") else {
            panic!()
        };
        assert!(!shown.contains('\x1b'), "{shown:?}");
    }

    #[test]
    fn an_answer_as_the_standard_has_it_is_understood() {
        assert_eq!(understood(409, b"17\n"), Said::Stands(17));
        assert_eq!(understood(422, b""), Said::Inconsistent);
        assert_eq!(understood(200, b"x\n"), Said::Lines("x\n".to_owned()));
    }
}
