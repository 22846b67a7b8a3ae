//! Which key of the log may sign which sizes of it. A key's time ends at a boundary: a head that it and its successor have both signed, over a log
//! that names the successor. Whoever has only the old key cannot sign what came after, nor whoever has only the new one what came before.

use super::report::KeySpan;
use crate::audit::checkpoint::CheckpointError;
use crate::audit::{SignedHead, VerifierKey};

/// The keys, as they are found along the log.
pub(super) struct Epochs {
    /// Those that whoever verifies believes.
    trusted: Vec<VerifierKey>,
    /// Those that the log names as successors. Nothing is believed of them before a boundary.
    announced: Vec<VerifierKey>,
    spans: Vec<Span>,
}

struct Span {
    key: VerifierKey,
    from: u64,
    until: Option<u64>,
}

/// Whose head it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Signed by the key of its time.
    Signed,
    /// From before the first head that a known key has signed.
    Before,
}

impl Epochs {
    pub(super) fn new(trusted: &[VerifierKey]) -> Self {
        Self {
            trusted: trusted.to_vec(),
            announced: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// The log names a successor.
    pub(super) fn announce(&mut self, key: VerifierKey) {
        if !key.is_witness() && !self.announced.contains(&key) {
            self.announced.push(key);
        }
    }

    /// Takes the next head, larger than those before, whose root is that of the log.
    pub(super) fn head(&mut self, head: &SignedHead) -> Result<Standing, String> {
        let candidates: Vec<VerifierKey> = self.trusted.iter().chain(&self.announced).cloned().collect();
        let signers = match head.signers(&candidates) {
            Err(CheckpointError::Unsigned | CheckpointError::Origin { .. }) if self.spans.is_empty() => return Ok(Standing::Before),
            other => other.map_err(|error| error.to_string())?,
        };
        let Some(current) = self.spans.last().map(|span| span.key.clone()) else {
            let Some(first) = signers.iter().find(|key| self.trusted.contains(key)) else {
                return Ok(Standing::Before);
            };
            self.spans.push(Span {
                key: (*first).clone(),
                from: head.size(),
                until: None,
            });
            return Ok(self.boundary(head, &signers));
        };
        if signers.contains(&&current) {
            return Ok(self.boundary(head, &signers));
        }
        let name = signers.first().map(|key| named(key)).unwrap_or_default();
        let retired = self.spans.iter().find(|span| signers.contains(&&span.key));
        Err(match retired.and_then(|span| span.until) {
            Some(until) => format!("it is signed by {name} alone, whose time ended at {until} events"),
            None => format!("it is signed by {name} alone, for which the key before it has not vouched"),
        })
    }

    /// Ends the current key's time if a successor has signed too.
    fn boundary(&mut self, head: &SignedHead, signers: &[&VerifierKey]) -> Standing {
        let successor = signers.iter().find(|key| !self.spans.iter().any(|span| span.key == ***key));
        if let (Some(successor), Some(current)) = (successor, self.spans.last_mut()) {
            current.until = Some(head.size());
            self.spans.push(Span {
                key: (*successor).clone(),
                from: head.size(),
                until: None,
            });
        }
        Standing::Signed
    }

    /// Whether a head from elsewhere was signed by the key of its time.
    pub(super) fn vouch(&self, head: &SignedHead) -> Result<(), String> {
        let mut keys: Vec<VerifierKey> = self.trusted.clone();
        keys.extend(self.spans.iter().map(|span| span.key.clone()));
        let signers = head.signers(&keys).map_err(|error| error.to_string())?;
        let ended = |key: &VerifierKey| {
            let span = self.spans.iter().find(|span| span.key == *key);
            span.and_then(|span| span.until).filter(|until| head.size() > *until)
        };
        match signers.iter().map(|key| ended(key)).collect::<Option<Vec<_>>>() {
            Some(ends) => Err(format!(
                "it is signed by a key whose time ended at {} events",
                ends.first().copied().unwrap_or_default()
            )),
            None => Ok(()),
        }
    }

    /// The keys that signed, in their order.
    pub(super) fn spans(&self) -> Vec<KeySpan> {
        let spans = self.spans.iter().map(|span| KeySpan {
            key: span.key.to_string(),
            from: span.from,
            until: span.until,
        });
        spans.collect()
    }
}

fn named(key: &VerifierKey) -> String {
    format!("{}+{:08x}", key.name(), key.id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::tree::Hash;
    use crate::audit::{LogKey, Origin};
    use crate::domain::clock::Entropy;

    struct Byte(u8);
    impl Entropy for Byte {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(self.0);
        }
    }

    fn key(n: u8) -> LogKey {
        let name: Origin = "broker.example/audit".parse().unwrap();
        LogKey::generate(&name, &Byte(n)).unwrap().0
    }

    fn head(size: u64, keys: &[&LogKey]) -> SignedHead {
        SignedHead::sign(size, Hash([7; 32]), keys).unwrap()
    }

    #[test]
    fn a_key_signs_between_its_boundaries_and_nowhere_else() {
        let (one, two, other) = (key(1), key(2), key(3));
        let mut epochs = Epochs::new(&[one.verifier().clone()]);
        assert_eq!(epochs.head(&head(1, &[&other])), Ok(Standing::Before));
        assert_eq!(epochs.head(&head(10, &[&one])), Ok(Standing::Signed));
        assert!(epochs.head(&head(15, &[&other])).is_err());
        // A line that anybody can add is no boundary: the log must name the successor.
        assert_eq!(epochs.head(&head(20, &[&one, &two])), Ok(Standing::Signed));
        assert!(epochs.head(&head(21, &[&two])).is_err());
        epochs.announce(two.verifier().clone());
        assert!(epochs.head(&head(22, &[&two])).unwrap_err().contains("not vouched"));
        assert_eq!(epochs.head(&head(30, &[&one, &two])), Ok(Standing::Signed));
        assert!(epochs.head(&head(31, &[&one])).unwrap_err().contains("ended at 30"));
        assert_eq!(epochs.head(&head(40, &[&two])), Ok(Standing::Signed));
        let spans: Vec<_> = epochs.spans().into_iter().map(|span| (span.from, span.until)).collect();
        assert_eq!(spans, [(10, Some(30)), (30, None)]);
        assert!(epochs.vouch(&head(25, &[&one])).is_ok() && epochs.vouch(&head(50, &[&two])).is_ok());
        assert!(epochs.vouch(&head(50, &[&one])).is_err() && epochs.vouch(&head(50, &[&other])).is_err());
    }

    #[test]
    fn trust_in_the_newest_key_alone_is_enough() {
        let (one, two) = (key(1), key(2));
        let mut epochs = Epochs::new(&[two.verifier().clone()]);
        assert_eq!(epochs.head(&head(10, &[&one])), Ok(Standing::Before));
        epochs.announce(two.verifier().clone());
        assert_eq!(epochs.head(&head(30, &[&one, &two])), Ok(Standing::Signed));
        assert_eq!(epochs.head(&head(40, &[&two])), Ok(Standing::Signed));
        assert_eq!(epochs.spans().len(), 1);
    }
}
