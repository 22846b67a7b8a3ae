//! The disk fails under a real `writ serve`: full, read-only, failing, flushes that fail, the file taken away. `tests/disk-faults` runs this alone.

mod dirs;
mod faults;
mod gone;
mod real;
mod results;
mod rig;
