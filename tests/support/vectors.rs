//! Files of test vectors that the tests themselves write: they fail when a file drifts, and rewrite it when `WRIT_BLESS` is set.

use std::fs;

use serde_json::Value;

use super::peers::root;

/// Compares `tests/vectors/NAME` with what the code makes now.
pub fn hold(name: &str, made: &Value) {
    let path = root().join("tests/vectors").join(name);
    let text = serde_json::to_string_pretty(made).unwrap() + "\n";
    if std::env::var_os("WRIT_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "{} is not what the code makes now; if the change is meant, run the tests once with WRIT_BLESS=1 and read the difference",
        path.display()
    );
}

/// The cases that are accepted stand first, and there are this many of them.
pub fn only_the_first_are_accepted(document: &Value, count: usize) {
    let cases = document["cases"].as_array().unwrap();
    let accepted: Vec<bool> = cases.iter().map(|case| case["expected"] == "accepted").collect();
    let expected: Vec<bool> = (0..cases.len()).map(|at| at < count).collect();
    assert!(cases.len() > count, "there are cases to refuse");
    assert_eq!(accepted, expected, "the first {count} are accepted and no other");
}
