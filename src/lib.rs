//! writ
