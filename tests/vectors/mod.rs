//! Tests of vectors.
