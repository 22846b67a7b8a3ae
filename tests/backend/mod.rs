//! Tests of backend.
