//! The journey through the front door.

mod journey;
