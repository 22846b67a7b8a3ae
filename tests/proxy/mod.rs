//! Tests of proxy.
