//! Tests of backend: what the files may say, what is sent, how answers read.

mod support;

mod answers;
mod lookups;
mod params;
mod shipped;
mod wire;
