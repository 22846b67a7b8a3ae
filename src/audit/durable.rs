//! Files that are still there after the power was cut.

use std::fs::File;
use std::path::Path;

/// Flushes the directory that a path is in. Until then a new file, or a new name of one, is there for everybody and may be gone after a power cut.
///
/// # Errors
/// A sentence with the directory and what the system said.
pub fn sync_dir_of(path: &Path) -> Result<(), String> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|error| {
        format!(
            "{}: {error}, so that {} may be gone after a power cut",
            dir.display(),
            path.display()
        )
    })
}
