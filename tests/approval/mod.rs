//! Tests of approval.
