//! Tests of token.
