//! A receipt: the proof that one event is in the log, with the head it is proven against. C2SP tlog-proof, verified without asking anybody.

use super::checkpoint::{CheckpointError, SignedHead};
use super::key::VerifierKey;
use super::tree::{self, Hash, MAX_PROOF, leaf_hash};

const HEADER: &str = "c2sp.org/tlog-proof@v1";

/// Why a receipt does not show what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// Not a receipt.
    #[error("it is no receipt: expected the lines of {HEADER}, a blank line and a signed checkpoint")]
    Malformed,
    /// The head in it.
    #[error("its checkpoint is not good: {0}")]
    Head(#[from] CheckpointError),
    /// The proof.
    #[error("it does not prove that this event is number {index} of the log's {size}")]
    Proof {
        /// Which number it names.
        index: u64,
        /// How large the log is, by its checkpoint.
        size: u64,
    },
}

/// Where an event stands in the log, and the way from its hash to a signed root.
#[derive(Debug, Clone, PartialEq)]
pub struct Receipt {
    /// The event's number, from 0.
    pub index: u64,
    /// The way up, leaf sibling first.
    pub proof: Vec<Hash>,
    /// The head.
    pub head: SignedHead,
}

impl Receipt {
    /// The text of a `.tlog-proof` file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{HEADER}\nindex {}\n", self.index);
        for hash in &self.proof {
            text.push_str(&format!("{hash}\n"));
        }
        text.push('\n');
        text.push_str(self.head.text());
        text
    }

    /// Reads the text of a `.tlog-proof` file.
    ///
    /// # Errors
    /// [`ReceiptError::Malformed`], [`ReceiptError::Head`].
    pub fn read(text: &str) -> Result<Self, ReceiptError> {
        let malformed = ReceiptError::Malformed;
        let rest = text
            .strip_prefix(HEADER)
            .and_then(|rest| rest.strip_prefix('\n'))
            .ok_or(malformed.clone())?;
        let (lines, head) = rest.split_once("\n\n").ok_or(malformed.clone())?;
        let mut lines = lines.split('\n').skip_while(|line| line.starts_with("extra "));
        let index = lines.next().and_then(|line| line.strip_prefix("index ")).ok_or(malformed.clone())?;
        let number: u64 = index.parse().map_err(|_| malformed.clone())?;
        if number.to_string() != index {
            return Err(malformed);
        }
        let mut proof = Vec::new();
        for line in lines {
            let hash = Hash::parse_hash(line).map_err(|_| malformed.clone())?;
            if proof.len() == MAX_PROOF || hash.to_string() != line {
                return Err(malformed);
            }
            proof.push(hash);
        }
        let head = SignedHead::read(head)?;
        Ok(Self {
            index: number,
            proof,
            head,
        })
    }

    /// Whether it shows that `event`, byte for byte, stands in a log whose head one of `keys` has signed.
    ///
    /// # Errors
    /// [`ReceiptError`]: what does not hold.
    pub fn verify(&self, event: &[u8], keys: &[VerifierKey]) -> Result<(), ReceiptError> {
        self.head.signers(keys)?;
        let (size, root) = (self.head.size(), self.head.root());
        let index = self.index;
        tree::check_inclusion(&self.proof, size, root, index, leaf_hash(event)).map_err(|_| ReceiptError::Proof { index, size })
    }
}
