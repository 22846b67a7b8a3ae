//! The layers: imports point downwards only, and each foreign library has one home.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which modules of the crate a module may name. What is not listed may name nothing.
const MAY_USE: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("settings", &[]),
    ("edge", &["domain", "settings"]),
    ("audit", &["domain"]),
    ("crash_points", &["audit", "domain"]),
    ("policy", &["domain"]),
    ("approval", &["domain"]),
    ("token", &["domain", "settings"]),
    ("backend", &["crash_points", "domain", "settings"]),
    ("store", &["audit", "crash_points", "domain"]),
    ("sandbox", &["domain"]),
    ("metrics", &["audit", "domain", "store"]),
    // Broker and proxy do not know each other: they meet in the store.
    (
        "broker",
        &["approval", "audit", "backend", "crash_points", "domain", "policy", "store", "token"],
    ),
    ("witness", &["audit", "backend", "domain", "settings", "store"]),
    ("proxy", &["audit", "backend", "crash_points", "domain", "store", "token"]),
    (
        "http",
        &[
            "approval", "audit", "backend", "broker", "domain", "edge", "metrics", "proxy", "store", "token",
        ],
    ),
    ("config", &["domain", "edge", "settings", "witness"]),
    (
        "app",
        &[
            "approval", "audit", "backend", "broker", "config", "domain", "edge", "http", "metrics", "policy", "proxy", "settings",
            "store", "token", "witness",
        ],
    ),
    (
        "setup",
        &["app", "approval", "audit", "backend", "config", "domain", "store", "token"],
    ),
    (
        "demo",
        &[
            "app", "approval", "audit", "backend", "config", "domain", "sandbox", "setup", "store", "token",
        ],
    ),
    (
        "prove",
        &[
            "app", "approval", "audit", "config", "domain", "sandbox", "settings", "setup", "store", "token",
        ],
    ),
    (
        "cli",
        &[
            "app", "approval", "audit", "backend", "broker", "config", "demo", "domain", "http", "policy", "prove", "proxy", "sandbox",
            "settings", "setup", "store", "token",
        ],
    ),
];

/// Where a foreign library may be named: its wrapper, so that changing it changes one module.
const HOMES: &[(&str, &[&str])] = &[
    ("biscuit_auth", &["token"]),
    ("cedar_policy", &["policy"]),
    // The prover writes to copies of a database as an attacker does: past the store.
    ("rusqlite", &["store", "prove"]),
    ("signed_note", &["audit"]),
    ("tlog_tiles", &["audit"]),
    ("prometheus_client", &["metrics"]),
    ("reqwest", &["backend", "demo", "prove", "witness"]),
    ("axum", &["http", "app", "sandbox"]),
    ("clap", &["cli"]),
    ("x509_parser", &["edge"]),
    ("tokio_rustls", &["app"]),
];

fn sources() -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let below = path.strip_prefix(&root).unwrap();
                let first = below.components().next().unwrap().as_os_str().to_str().unwrap();
                let module = first.trim_end_matches(".rs").to_owned();
                let text = fs::read_to_string(&path).unwrap();
                found.push((module, below.to_owned(), code_of(&text)));
            }
        }
    }
    found
}

/// The text without comment lines, so that a sentence may name what the code may not.
fn code_of(text: &str) -> String {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Every `word` that follows `prefix` in the text.
fn words_after(text: &str, prefix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices(prefix) {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &text[at + prefix.len()..];
        let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if word.is_empty() {
            panic!("a grouped import from the crate's root hides what it names: write one line for each module");
        }
        found.insert(word);
    }
    found
}

#[test]
fn imports_point_downwards_only() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> = MAY_USE.iter().map(|(m, uses)| (*m, uses.iter().copied().collect())).collect();
    let mut wrong = Vec::new();
    for (module, path, text) in sources() {
        if module == "lib" || module == "main" {
            continue;
        }
        let may = allowed
            .get(module.as_str())
            .unwrap_or_else(|| panic!("src/{module} is not in the table of layers"));
        for used in words_after(&text, "crate::") {
            if used != module && !may.contains(used.as_str()) {
                wrong.push(format!("{}: {module} must not know {used}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_foreign_library_has_one_home() {
    let mut wrong = Vec::new();
    for (module, path, text) in sources() {
        for (library, homes) in HOMES {
            let named = text
                .match_indices(&format!("{library}::"))
                .any(|(at, _)| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':'));
            if named && !homes.contains(&module.as_str()) {
                wrong.push(format!("{}: {library} belongs in {}", path.display(), homes.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_problem_map_knows_status_codes() {
    for (module, path, text) in sources() {
        if module != "http" || path.starts_with("http/problem") {
            continue;
        }
        // Success is a handler's to say; a refusal's status belongs to its code.
        for status in [
            "BAD_REQUEST",
            "UNAUTHORIZED",
            "FORBIDDEN",
            "NOT_FOUND",
            "CONFLICT",
            "INTERNAL_SERVER_ERROR",
            "SERVICE_UNAVAILABLE",
        ] {
            assert!(
                !text.contains(&format!("StatusCode::{status}")),
                "{} names {status}",
                path.display()
            );
        }
    }
}

#[test]
fn secrets_leave_in_few_known_places() {
    // `expose` is the only way out of a secret; a new place must be added here by somebody who has thought about it.
    let known: BTreeSet<&str> = [
        "approval/signer.rs",
        "audit/disclosure.rs",
        "audit/files.rs",
        "audit/key.rs",
        // The key file is read, and an opening is sealed.
        "audit/vault.rs",
        "backend/secrets.rs",
        "broker/revoke.rs",
        "backend/webhook.rs",
        "domain/secret.rs",
        "edge/files.rs",
        "http/auth.rs",
        "http/token.rs",
        "proxy/redeem.rs",
        "setup/example.rs",
        "setup/mod.rs",
        "setup/prover.rs",
        "setup/sandbox.rs",
        "token/key_ring.rs",
        "token/mint.rs",
    ]
    .into();
    let mut found = BTreeSet::new();
    for (module, path, text) in sources() {
        if matches!(module.as_str(), "cli" | "demo" | "prove" | "sandbox") {
            continue;
        }
        if text.contains(".expose()") {
            found.insert(path.to_str().unwrap().to_owned());
        }
    }
    let new: Vec<_> = found.iter().filter(|p| !known.contains(p.as_str())).collect();
    assert!(new.is_empty(), "secrets are exposed in {new:?}");
}
