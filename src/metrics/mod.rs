//! Metrics: what a process counts while it serves and what it finds when it is asked, as Prometheus text (format 0.0.4).
//!
//! No label ever holds what a caller sent: routes are the program's own patterns, events and codes are closed lists.

mod requests;
mod snapshot;

pub use requests::Requests;
pub use snapshot::{Lag, Snapshot, TimeLeft, Watched};

use prometheus_client::encoding::prometheus_text;
use prometheus_client::registry::Registry;

/// The content type of [`text`].
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// Everything, as text.
///
/// # Errors
/// Only if the text cannot be built, which is a defect.
pub fn text(requests: &Requests, snapshot: Snapshot) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    prometheus_text::encode(&mut out, requests.registry())?;
    let mut found = Registry::default();
    found.register_collector(Box::new(snapshot));
    prometheus_text::encode(&mut out, &found)?;
    Ok(out)
}
