//! The published vectors of approval records.
