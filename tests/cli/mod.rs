//! Tests of cli.

mod demo;
