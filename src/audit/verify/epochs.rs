//! Which key of the log may sign which sizes of it. A key's time ends at a boundary: a head that it and its successor have both signed, over a log
//! that names the successor. Whoever has only the old key cannot sign what came after, nor whoever has only the new one what came before.
//!
//! A log that was taken back goes on under another name, with a key that no earlier one vouches for: whoever verifies must believe it by themselves.

use super::report::{Fault, KeySpan};
use crate::audit::checkpoint::CheckpointError;
use crate::audit::{SignedHead, VerifierKey};

/// The keys, as they are found along the log.
pub(super) struct Epochs {
    /// Those that whoever verifies believes.
    trusted: Vec<VerifierKey>,
    /// Those that the log names as successors. Nothing is believed of them before a boundary.
    announced: Vec<VerifierKey>,
    /// The last of them, until a head bears its signature.
    pending: Option<VerifierKey>,
    /// The keys of the names under which it goes on.
    recovered: Vec<VerifierKey>,
    spans: Vec<Span>,
    /// The last head from before the first that a known key has signed.
    before: Option<SignedHead>,
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
            pending: None,
            recovered: Vec::new(),
            spans: Vec::new(),
            before: None,
        }
    }

    /// The log names a successor.
    pub(super) fn announce(&mut self, key: VerifierKey) {
        if !key.is_witness() && !self.announced.contains(&key) {
            self.announced.push(key.clone());
            self.pending = Some(key);
        }
    }

    /// The log goes on under the name of this key.
    pub(super) fn recovered(&mut self, key: VerifierKey) {
        self.recovered.push(key);
    }

    /// Takes the next head, larger than those before, whose root is that of the log.
    pub(super) fn head(&mut self, head: &SignedHead) -> Result<Standing, String> {
        let candidates: Vec<VerifierKey> = self.trusted.iter().chain(&self.announced).cloned().collect();
        let signers = match head.signers(&candidates) {
            Err(CheckpointError::Unsigned | CheckpointError::Origin { .. }) if self.spans.is_empty() => {
                self.before = Some(head.clone());
                return Ok(Standing::Before);
            }
            other => other.map_err(|error| error.to_string())?,
        };
        // The old key alone must not go on as if it had not handed over.
        if let Some(successor) = self.pending.take_if(|key| !signers.contains(&&*key)) {
            return Err(format!("the log hands over to {}, which has not signed it", named(&successor)));
        }
        self.pending = None;
        let Some(current) = self.spans.last().map(|span| span.key.clone()) else {
            let Some(first) = signers.iter().find(|key| self.trusted.contains(key)) else {
                self.before = Some(head.clone());
                return Ok(Standing::Before);
            };
            // Where a key begins, the one before has signed too: without it, what came before was signed by nobody.
            let orphan = self
                .before
                .take()
                .filter(|before| before.origin() == head.origin() && head.own_lines() < 2);
            self.spans.push(Span {
                key: (*first).clone(),
                from: head.size(),
                until: None,
            });
            let standing = self.boundary(head, &signers);
            return match orphan {
                Some(before) => Err(format!(
                    "the head over {} events before it is signed by no trusted key, and no key before this one has handed over",
                    before.size()
                )),
                None => Ok(standing),
            };
        };
        if signers.contains(&&current) {
            return Ok(self.boundary(head, &signers));
        }
        if let Some(next) = signers
            .iter()
            .find(|key| self.recovered.contains(key) && self.trusted.contains(key))
            && *next.name() != *current.name()
        {
            self.hand_over(head.size(), next);
            return Ok(Standing::Signed);
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
        if let Some(successor) = successor {
            self.hand_over(head.size(), successor);
        }
        Standing::Signed
    }

    fn hand_over(&mut self, size: u64, successor: &VerifierKey) {
        if let Some(current) = self.spans.last_mut() {
            current.until = Some(size);
        }
        self.spans.push(Span {
            key: successor.clone(),
            from: size,
            until: None,
        });
    }

    /// The keys that are believed, by now.
    fn known(&self) -> Vec<VerifierKey> {
        let spans = self.spans.iter().map(|span| span.key.clone());
        self.trusted.iter().cloned().chain(spans).collect()
    }

    /// Whether a head from elsewhere was signed by any of them, at any time.
    pub(super) fn is_signed(&self, head: &SignedHead) -> bool {
        head.signers(&self.known()).is_ok()
    }

    /// Whether a head from elsewhere was signed by the key of its time.
    pub(super) fn vouch(&self, head: &SignedHead) -> Result<(), (Fault, String)> {
        let keys = self.known();
        let signers = head.signers(&keys).map_err(|error| (Fault::Tampered, error.to_string()))?;
        let ended = |key: &VerifierKey| {
            let span = self.spans.iter().find(|span| span.key == *key);
            span.and_then(|span| span.until).filter(|until| head.size() > *until)
        };
        let ends = signers.iter().map(|key| ended(key)).collect::<Option<Vec<_>>>();
        let Some(end) = ends.and_then(|ends| ends.first().copied()) else {
            return Ok(());
        };
        let goes_on = self.spans.last().is_some_and(|span| *span.key.name() != *head.origin());
        Err(if goes_on {
            let why = format!(
                "it covers {} events, and the log went on under another name at {end}: it was taken back",
                head.size()
            );
            (Fault::RolledBack, why)
        } else {
            (Fault::Tampered, format!("it is signed by a key whose time ended at {end} events"))
        })
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
        named_key("broker.example/audit", n)
    }

    fn named_key(name: &str, n: u8) -> LogKey {
        let name: Origin = name.parse().unwrap();
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
        assert!(epochs.head(&head(9, &[&one])).unwrap_err().contains("over 1 events before it"));
        assert_eq!(epochs.head(&head(10, &[&one])), Ok(Standing::Signed));
        assert!(epochs.head(&head(15, &[&other])).is_err());
        // A line that anybody can add is no boundary: the log must name the successor.
        assert_eq!(epochs.head(&head(20, &[&one, &two])), Ok(Standing::Signed));
        assert!(epochs.head(&head(21, &[&two])).is_err());
        epochs.announce(two.verifier().clone());
        assert!(epochs.head(&head(22, &[&one])).unwrap_err().contains("hands over"));
        assert!(epochs.head(&head(23, &[&two])).unwrap_err().contains("not vouched"));
        assert_eq!(epochs.head(&head(30, &[&one, &two])), Ok(Standing::Signed));
        assert!(epochs.head(&head(31, &[&one])).unwrap_err().contains("ended at 30"));
        assert_eq!(epochs.head(&head(40, &[&two])), Ok(Standing::Signed));
        let spans: Vec<_> = epochs.spans().into_iter().map(|span| (span.from, span.until)).collect();
        assert_eq!(spans, [(9, Some(30)), (30, None)]);
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

    #[test]
    fn a_log_that_goes_on_under_another_name_needs_trust_in_that_name() {
        let (old, new) = (key(1), named_key("broker.example/audit/r2", 2));
        let both = [old.verifier().clone(), new.verifier().clone()];
        let mut unknown = Epochs::new(&both[..1]);
        let mut untold = Epochs::new(&both);
        let mut epochs = Epochs::new(&both);
        for epochs in [&mut unknown, &mut untold, &mut epochs] {
            assert_eq!(epochs.head(&head(10, &[&old])), Ok(Standing::Signed));
        }
        unknown.recovered(new.verifier().clone());
        assert!(unknown.head(&head(20, &[&new])).is_err());
        assert!(untold.head(&head(20, &[&new])).is_err(), "no event tells of it");
        epochs.recovered(new.verifier().clone());
        assert_eq!(epochs.head(&head(20, &[&new])), Ok(Standing::Signed));
        assert!(epochs.head(&head(21, &[&old])).is_err());
        assert!(epochs.vouch(&head(15, &[&old])).is_ok());
        assert_eq!(epochs.vouch(&head(25, &[&old])).unwrap_err().0, Fault::RolledBack);
        let mut newest = Epochs::new(&both[1..]);
        assert_eq!(newest.head(&head(10, &[&old])), Ok(Standing::Before));
        assert_eq!(newest.head(&head(20, &[&new])), Ok(Standing::Signed));
    }
}
