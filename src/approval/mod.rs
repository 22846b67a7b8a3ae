//! Approval records: signed, read and verified.
//!
//! A record is a compact JWS (RFC 7515) of type `approval+jwt` over the claims of [`crate::domain::approval`]. It is evidence of what somebody
//! decided about one draft; whether that somebody may decide it is looked up at the broker and never read from the record.

mod card;
mod error;
mod header;
mod public_key;
mod record;
mod signature;
mod signer;
mod step_up;

pub use card::{Card, CardError, Signatory};
pub use error::RecordError;
pub use public_key::read_public_key;
pub use record::{UnverifiedRecord, VerifiedRecord};
pub use signer::{GeneratedKey, RecordSigner, SignerError, check_public_key};
pub use step_up::{STEP_UP_WINDOW, STRONG_METHODS, StepUp};

/// The longest record that is looked at, in bytes.
pub const MAX_RECORD_BYTES: usize = 8 * 1024;
/// The longest time a record may be good for, from `iat` to `exp`, in seconds.
pub const MAX_LIFETIME_SECONDS: i64 = 3600;
/// How far the signing service's clock may run ahead, in seconds. Applies to `iat` and `nbf`; never to `exp`.
pub const LEEWAY_SECONDS: i64 = 5;
/// The longest reason, in characters.
pub const MAX_REASON_CHARS: usize = 1000;
/// The header's `typ` (RFC 8725 section 3.11): no other token of the same issuer passes for an approval.
pub const RECORD_TYPE: &str = "approval+jwt";
/// The version of the `apr` object that is read and written.
pub const RECORD_VERSION: u8 = 1;
