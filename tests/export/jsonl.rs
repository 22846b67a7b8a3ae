//! JSON lines.

use serde_json::Value;
use writ::audit::export::{Entry, ExportError, jsonl};

use super::samples;

#[test]
fn a_leaf_that_is_not_the_one_of_its_hash_is_not_written() {
    let mut entry = Entry::of(3, b"{}".to_vec());
    entry.leaf = b"{ }".to_vec();
    assert!(matches!(jsonl::line(&entry), Err(ExportError::OtherHash { seq: 3 })));
    let entry = Entry::of(3, vec![b'"', 0xff, b'"']);
    assert!(matches!(jsonl::line(&entry), Err(ExportError::NotText { seq: 3, .. })));
}

#[tokio::test]
async fn a_line_gives_back_the_exact_bytes_and_their_hash() {
    for entry in samples::journey().await {
        let line = jsonl::line(&entry).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["seq"], entry.seq);
        assert_eq!(read["leaf"].as_str().unwrap().as_bytes(), entry.leaf);
        let hash: Vec<u8> = (0..32)
            .map(|n| u8::from_str_radix(&read["leaf_hash"].as_str().unwrap()[2 * n..2 * n + 2], 16).unwrap())
            .collect();
        let leaf = [&[0], entry.leaf.as_slice()].concat();
        assert_eq!(hash, ring::digest::digest(&ring::digest::SHA256, &leaf).as_ref());
    }
}
