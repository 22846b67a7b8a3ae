//! What came of a schedule.

use std::collections::BTreeSet;

/// One schedule's end.
#[derive(Debug, Default)]
pub struct Report {
    pub seed: u64,
    pub steps: usize,
    pub variant: &'static str,
    pub faults: Vec<String>,
    pub trace: Vec<String>,
    pub reached: BTreeSet<&'static str>,
    pub second_effects: usize,
    pub without_event: usize,
    pub left: usize,
}
