//! Why a file cannot be read or written, and for a user who may not: who may.

use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What the system said of this file; where it forbids it, who is forbidden, and as whom to run.
pub(crate) fn why_not(path: &Path, error: &Error) -> String {
    if error.kind() != ErrorKind::PermissionDenied {
        return error.to_string();
    }
    // A file in a directory that is closed to this user shows no owner; the directory does.
    let closed = path
        .ancestors()
        .find_map(|place| Some((place, std::fs::metadata(place).ok()?.uid())));
    let user = std::fs::metadata("/proc/self").ok().map(|own| own.uid());
    let remedy = match closed {
        Some((place, owner)) if Some(owner) != user && !place.as_os_str().is_empty() => format!(
            "run this as user {owner}, to whom {} belongs, such as with `sudo -u '#{owner}'`",
            place.display()
        ),
        _ => "run this as the user it belongs to, or correct its mode".to_owned(),
    };
    let who = user.map_or_else(|| "this user".to_owned(), |user| format!("user {user}"));
    format!("{who} has no permission for it: {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_forbidden_is_told_as_whom_to_run_and_nothing_else_is() {
        let denied = Error::from(ErrorKind::PermissionDenied);
        let own = std::fs::metadata("/proc/self").unwrap().uid();
        let mine = tempfile::NamedTempFile::new().unwrap();
        let told = why_not(mine.path(), &denied);
        assert!(told.starts_with(&format!("user {own} has no permission")), "{told}");
        assert!(told.contains("correct its mode") && !told.contains("sudo"), "{told}");
        let below = mine.path().join("closed");
        assert_eq!(
            why_not(&below, &denied),
            told,
            "its owner is that of the nearest place that shows one"
        );
        let top = std::fs::metadata("/").unwrap().uid();
        let closed = why_not(Path::new("/closed-to-us"), &denied);
        assert_eq!(
            closed.contains(&format!("run this as user {top}, to whom / belongs")),
            top != own,
            "{closed}"
        );
        let absent = Error::from(ErrorKind::NotFound);
        assert_eq!(why_not(mine.path(), &absent), absent.to_string());
    }
}
