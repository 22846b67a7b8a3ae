//! The published vectors of credentials.
