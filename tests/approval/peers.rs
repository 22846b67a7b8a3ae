//! Python and Node sign and verify approval records.
