//! Tests of backend: what the files may say, what is sent, how answers read.

mod support;

mod answers;
mod dialects;
mod events;
mod examples;
mod loader;
mod lookups;
mod params;
mod peers;
mod shipped;
mod signed_fields;
mod wire;
