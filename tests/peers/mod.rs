//! Tests of peers.
