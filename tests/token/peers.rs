//! The Python and WebAssembly Biscuit libraries judge our credentials, good and bad.

use crate::support::peers::{node, output, python, root, script};

fn judged(out: &str) {
    let line = out.lines().last().unwrap_or_default();
    assert!(line.ends_with(" credentials, 0 judged otherwise than written"), "{out}");
}

#[test]
fn biscuit_python_allows_and_refuses_the_published_credentials_as_written() {
    if let Some(mut python) = python() {
        judged(&output(
            python
                .arg(script("credential.py"))
                .arg(root().join("tests/vectors/credential.json")),
        ));
    }
}

#[test]
fn biscuit_wasm_allows_and_refuses_the_published_credentials_as_written() {
    if let Some(mut node) = node() {
        judged(&output(
            node.arg(script("credential.mjs")).arg(root().join("tests/vectors/credential.json")),
        ));
    }
}
