//! Hostile bytes, without a fuzzer: every input of the corpus, and thousands made of it, the same ones each time. `tests/fuzz` runs the same
//! checks under libFuzzer.

mod mutate;
#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use crate::support::peers::root;
use mutate::Mutator;

/// The inputs in the repository for one target, in order.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = root().join("fuzz/corpus").join(target);
    let mut paths: Vec<PathBuf> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 4, "{} holds next to nothing", dir.display());
    paths
        .into_iter()
        .map(|path| {
            let bytes = fs::read(&path).unwrap();
            (path, bytes)
        })
        .collect()
}

/// Replays the corpus of a target and then `made` inputs made of it; says which input it was, as a file to keep, if a check fails.
fn smoke(target: &str, made: usize, check: fn(&[u8])) {
    let corpus = corpus(target);
    for (path, input) in &corpus {
        let held = catch_unwind(|| check(input));
        assert!(held.is_ok(), "{} breaks the check of `{target}`", path.display());
    }
    let inputs: Vec<Vec<u8>> = corpus.into_iter().map(|(_, input)| input).collect();
    let mut mutator = Mutator::new(target, &inputs);
    for number in 0..made {
        let input = mutator.next();
        if catch_unwind(AssertUnwindSafe(|| check(&input))).is_err() {
            let kept = root().join("target").join(format!("hostile-{target}-{number}"));
            fs::write(&kept, &input).unwrap();
            panic!("input {number} breaks the check of `{target}`; it is in {}", kept.display());
        }
    }
}

#[test]
fn no_bytes_mislead_the_json_reader() {
    smoke("json", 40_000, targets::json::check);
}

#[test]
fn no_bytes_pass_for_an_approval_record() {
    smoke("record", 4_000, targets::record::check);
}

#[test]
fn no_bytes_pass_for_a_credential() {
    smoke("token", 2_000, targets::token::check);
}

#[test]
fn no_answer_is_taken_for_a_success_that_it_is_not() {
    assert_eq!(
        targets::answers::without_sample(),
        [""; 0],
        "give each a sample in fuzz/samples.json"
    );
    targets::answers::samples_are_good();
    smoke("answers", 8_000, targets::answers::check);
}

#[test]
fn no_configuration_file_loads_outside_its_bounds() {
    targets::config::the_example_loads();
    smoke("config", 3_000, targets::config::check);
}

#[test]
fn no_backend_file_loads_outside_its_bounds() {
    smoke("backends", 600, targets::backends::check);
}

#[test]
fn no_policy_file_loads_outside_its_bounds() {
    smoke("policy", 30, targets::policy::check);
}

#[test]
fn no_document_is_read_as_another_draft() {
    smoke("draft", 6_000, targets::draft::check);
}
