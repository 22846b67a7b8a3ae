//! Anchors: heads of the log that somebody kept outside it.

use std::path::Path;

use crate::audit::source::SourceError;
use crate::audit::{HeadFile, Receipt, SignedHead, latest_head};

/// A head from outside.
#[derive(Debug, Clone)]
pub struct OutsideHead {
    /// Where it comes from.
    pub from: String,
    /// The head.
    pub head: SignedHead,
}

impl OutsideHead {
    /// Reads a checkpoint, a receipt, the head file of a log, the checkpoint of a directory, or the latest of the head lines that a process printed.
    ///
    /// # Errors
    /// [`SourceError`] if there is no head in it.
    pub fn read(path: &Path) -> Result<Self, SourceError> {
        let told = |why: &dyn std::fmt::Display| SourceError(format!("{}: {why}", path.display()));
        let file = if path.is_dir() { path.join("checkpoint") } else { path.to_owned() };
        let bytes = std::fs::read(&file).map_err(|error| told(&error))?;
        let from = path.display().to_string();
        if bytes.contains(&0) {
            let heads = HeadFile::at(file).heads().map_err(SourceError)?;
            let latest = heads.into_iter().max_by_key(SignedHead::size);
            let head = latest.ok_or_else(|| told(&"it holds no head of a log"))?;
            return Ok(Self { from, head });
        }
        let text = String::from_utf8(bytes).map_err(|_| told(&"it is no text"))?;
        let head = match Receipt::read(&text) {
            Ok(receipt) => receipt.head,
            Err(_) => match latest_head(&text).map_err(|error| told(&error))? {
                Some(head) => head,
                None => SignedHead::read(&text).map_err(|error| told(&error))?,
            },
        };
        Ok(Self { from, head })
    }
}
