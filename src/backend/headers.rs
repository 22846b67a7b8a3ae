//! Which headers a backend file may set, and that none is set twice: on the wire the later one would replace the earlier.

use http::HeaderName;

use crate::settings::{Log, Section};

/// The headers that are spoken for, each with the setting it comes from.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken(Vec<(String, String)>);

impl Taken {
    /// Speaks for a header at a place of the file; one that is spoken for already is a mistake that names both places.
    pub(super) fn claim(&mut self, name: &str, place: &str, log: &Log) {
        match self.0.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
            Some((_, first)) => log.add(
                place,
                format!("the header `{name}` is also set by `{first}`, and only one of them would be sent: give it one place"),
            ),
            None => self.0.push((name.to_owned(), place.to_owned())),
        }
    }
}

/// A header's name, refused if requests carry it anyway or it could change where or how a request is read.
pub(super) fn header_name(section: &Section<'_>, key: &str, name: &str) -> Option<HeaderName> {
    let parsed = HeaderName::from_bytes(name.as_bytes()).ok();
    if parsed.is_none() || name.bytes().any(|b| b.is_ascii_uppercase()) {
        section.wrong(key, format!("`{name}` is not a header's name in lower case"));
        return None;
    }
    if is_reserved(name) {
        section.wrong(key, format!("`{name}` must not be set by a backend file: remove it"));
        return None;
    }
    parsed
}

/// Headers that only the client itself sets.
pub(super) fn is_reserved(name: &str) -> bool {
    matches!(
        name,
        "authorization"
            | "proxy-authorization"
            | "cookie"
            | "host"
            | "connection"
            | "content-length"
            | "content-type"
            | "transfer-encoding"
            | "te"
            | "trailer"
            | "upgrade"
            | "expect"
            | "keep-alive"
            | "proxy-connection"
    )
}
