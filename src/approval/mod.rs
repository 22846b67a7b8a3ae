//! Approval records: signed, read and verified.
