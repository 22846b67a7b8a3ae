//! `writ init` and `writ sandbox`.

use std::path::{Path, PathBuf};

use super::support::{Server, Work, http, mode, writ};

/// A directory to be made, and as text: the files of a key that writes and of one that only reads, and that directory.
fn with_keys(temp: &Path) -> (PathBuf, [String; 3]) {
    let (key, read, dir) = (temp.join("key"), temp.join("read"), temp.join("work"));
    std::fs::write(&key, "sk_one").unwrap();
    std::fs::write(&read, "rk_two").unwrap();
    let texts = [&key, &read, &dir].map(|path| path.display().to_string());
    (dir, texts)
}

#[test]
fn a_directory_that_is_not_empty_is_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("mine"), "x").unwrap();
    let complaint = writ(&["init", &temp.path().display().to_string()]).refused(1);
    assert!(complaint.contains("is not empty"), "{complaint}");
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
}

#[test]
fn a_url_without_its_key_is_not_understood() {
    assert_eq!(writ(&["init", "never", "--stripe-url", "http://127.0.0.1:1"]).code, Some(2));
}

#[test]
fn a_public_url_that_is_none_is_not_understood_and_a_good_one_is_written_with_the_audience() {
    for bad in ["broker.example", "ftp://broker.example", "https://broker.example/ x"] {
        let complaint = writ(&["init", "never", "--public-url", bad]).refused(2);
        assert!(complaint.contains("expected an http or https URL"), "{complaint}");
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("work").display().to_string();
    let audience = "urn:example:\"broker\"\\1";
    writ(&["init", &dir, "--public-url", "https://broker.example", "--audience", audience]).ok();
    let config = writ::config::Config::load(&temp.path().join("work/writ.toml")).unwrap();
    assert_eq!(
        (&*config.public_url, config.audience.as_str()),
        ("https://broker.example", audience)
    );
    assert_eq!(writ(&["config", "check", "--config", &format!("{dir}/writ.toml")]).ok(), "ok\n");
}

#[test]
fn a_backend_without_a_key_that_only_reads_is_not_understood() {
    let ran = writ(&["init", "never", "--stripe-url", "http://127.0.0.1:1", "--stripe-key-file", "key"]);
    let complaint = ran.refused(2);
    assert!(complaint.contains("--stripe-read-key-file"), "{complaint}");
    let complaint = writ(&["init", "never", "--shop-url", "http://127.0.0.1:1", "--shop-key-file", "key"]).refused(2);
    assert!(complaint.contains("--shop-read-key-file"), "{complaint}");
}

#[test]
fn the_broker_is_never_given_a_key_that_executes() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("work");
    let file = |name: &str, text: &str| {
        let path = temp.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (writer, copy) = (file("write", "sk_one"), file("copy", "sk_one\n"));
    let (other, shop) = (file("read", "rk_two"), file("shop", "sk_three"));
    let stripe = |read: &str| {
        [
            "--stripe-url",
            "http://127.0.0.1:1",
            "--stripe-key-file",
            &writer,
            "--stripe-read-key-file",
            read,
        ]
        .map(str::to_owned)
    };
    let with_shop = [
        "--shop-url",
        "http://127.0.0.1:1",
        "--shop-key-file",
        &shop,
        "--shop-read-key-file",
        &copy,
    ]
    .map(str::to_owned);
    let dir_text = dir.display().to_string();
    for more in [stripe(&copy).to_vec(), [stripe(&other), with_shop].concat()] {
        let mut arguments = vec!["init", &dir_text];
        arguments.extend(more.iter().map(String::as_str));
        let complaint = writ(&arguments).refused(1);
        assert!(complaint.contains("restricted key that only reads"), "{complaint}");
        assert!(!complaint.contains("sk_one"), "{complaint}");
        assert!(!dir.exists());
    }
}

#[test]
fn before_a_real_backend_nobody_can_approve_and_no_approver_s_key_lies_about() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, [key, read, dir_text]) = with_keys(temp.path());
    let said = writ(&[
        "init",
        &dir_text,
        "--stripe-url",
        "http://127.0.0.1:1",
        "--stripe-key-file",
        &key,
        "--stripe-read-key-file",
        &read,
    ])
    .ok();
    assert!(said.contains("writ keys generate --approver"), "{said}");
    assert!(said.contains("writ approver add"), "{said}");
    assert!(!dir.join("approvers").exists());
    let config = dir.join("writ.toml").display().to_string();
    let list = writ(&["approver", "list", "--json", "--config", &config]).json();
    let ids: Vec<_> = list["approvers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["rule_policy"]);
    assert_eq!(writ(&["config", "check", "--config", &config]).ok(), "ok\n");
}

#[test]
fn a_url_that_is_none_is_refused_before_anything_is_made() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, [key, read, dir_text]) = with_keys(temp.path());
    for url in ["api.stripe.com", "ftp://api.stripe.com", "https://"] {
        let named = ["init", &dir_text, "--stripe-url", url];
        let keys = ["--stripe-key-file", &key, "--stripe-read-key-file", &read];
        let complaint = writ(&[&named[..], &keys].concat()).refused(1);
        assert!(complaint.contains("stripe.toml: base_url"), "{complaint}");
        assert!(!dir.exists(), "{url}");
    }
}

#[test]
fn a_key_file_with_more_than_a_key_is_refused_before_anything_is_made() {
    let temp = tempfile::tempdir().unwrap();
    let (key, dir) = (temp.path().join("key"), temp.path().join("work"));
    std::fs::write(&key, "sk_one sk_two").unwrap();
    let (key, dir_text) = (key.display().to_string(), dir.display().to_string());
    let complaint = writ(&[
        "init",
        &dir_text,
        "--stripe-url",
        "http://127.0.0.1:1",
        "--stripe-key-file",
        &key,
        "--stripe-read-key-file",
        &key,
    ])
    .refused(1);
    assert!(complaint.contains("expected one key"), "{complaint}");
    assert!(!complaint.contains("sk_one"), "{complaint}");
    assert!(!dir.exists());
}

#[test]
fn what_is_private_can_be_read_by_its_owner_only() {
    let work = Work::new();
    for private in ["keys", "approvers", "secrets", "data"] {
        assert_eq!(mode(&work.path(private)), 0o700, "{private}");
    }
    for private in [
        "keys/credential-1.pem",
        "keys/policy-approver.pem",
        "approvers/usr_mia.pem",
        "data/writ.db",
    ] {
        assert_eq!(mode(&work.path(private)), 0o600, "{private}");
    }
    for secret in std::fs::read_dir(work.path("secrets")).unwrap() {
        assert_eq!(mode(&secret.unwrap().path()), 0o600);
    }
    assert_eq!(work.run(&["config", "check"]).ok(), "ok\n");
}

#[test]
fn only_the_backend_that_is_named_is_written() {
    let sandbox = Server::start(&["sandbox", "--port", "0"]);
    let work = Work::before(&sandbox);
    let clients = work.json(&["client", "list"]);
    let agent = clients["clients"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["id"] == "support-agent")
        .unwrap();
    assert_eq!(
        agent["permissions"],
        serde_json::json!(["charge.read:read", "refund.create:draft,execute"]),
        "what no backend declares is not allowed"
    );
    let files: Vec<_> = std::fs::read_dir(work.path("policies/backends"))
        .unwrap()
        .map(|file| file.unwrap().file_name())
        .collect();
    assert_eq!(files, ["stripe.toml"]);
    assert_eq!(work.run(&["config", "check"]).ok(), "ok\n");
}

#[test]
fn a_directory_with_real_keys_gives_them_to_no_sandbox() {
    let work = Work::new();
    std::fs::write(work.path("secrets/stripe-write"), "sk_live_real").unwrap();
    let complaint = work.run(&["sandbox", "--port", "0"]).refused(1);
    assert!(complaint.contains("was not made for the sandbox"), "{complaint}");
    assert!(!complaint.contains("sk_live_real"), "{complaint}");
}

#[test]
fn the_sandbox_has_the_keys_that_the_directory_expects() {
    let work = Work::new();
    let sandbox = Server::start(&["sandbox", "--port", "0", "--config", &work.config]);
    let key = std::fs::read_to_string(work.path("secrets/stripe-write")).unwrap();
    assert_eq!(sandbox.said["write_key"].as_str(), Some(key.as_str()));
    let charge = format!("/v1/charges/{}", sandbox.said["demo"]["charge"].as_str().unwrap());
    assert_eq!(http(&sandbox.url, "GET", &charge, &[], "").0, 401);
    let bearer = format!("Bearer {key}");
    assert_eq!(http(&sandbox.url, "GET", &charge, &[("authorization", &bearer)], "").0, 200);
    sandbox.signal("TERM");
    assert!(sandbox.ended().0.success());
}
