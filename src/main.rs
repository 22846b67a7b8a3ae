//! writ
fn main() {}
