//! What holds for every command: help with an example, JSON that parses, no secret where none was promised.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::support::{Running, Work, fed, http, writ};

/// Every command and subcommand, as arguments.
fn commands() -> Vec<Vec<String>> {
    fn walk(command: &clap::Command, path: &[String], found: &mut Vec<Vec<String>>) {
        found.push(path.to_vec());
        for below in command.get_subcommands().filter(|c| c.get_name() != "help") {
            walk(below, &[path, &[below.get_name().to_owned()]].concat(), found);
        }
    }
    let mut found = Vec::new();
    walk(&writ::cli::command(), &[], &mut found);
    found
}

#[test]
fn the_declaration_of_the_command_line_is_sound() {
    writ::cli::command().debug_assert();
}

#[test]
fn every_command_has_help_with_an_example_of_itself() {
    let commands = commands();
    assert!(commands.len() > 30, "{}", commands.len());
    for path in commands {
        let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let help = writ(&arguments).ok();
        let (_, examples) = help
            .split_once("Examples:")
            .unwrap_or_else(|| panic!("{path:?} has no example:\n{help}"));
        let itself = format!("  writ {}", path.join(" "));
        assert!(examples.contains(itself.trim_end()), "{path:?}: {examples}");
    }
}

#[test]
fn what_is_not_understood_ends_with_2() {
    for arguments in [
        &["frobnicate"][..],
        &["serve", "--role", "king"],
        &["draft", "show", "drf_1"],
        &["execution", "show", "exe_1"],
        &[],
    ] {
        assert_eq!(writ(arguments).code, Some(2), "{arguments:?}");
    }
}

/// The one JSON object on standard error.
fn complaint(ran: super::support::Ran) -> Value {
    assert_eq!(ran.out, "");
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    serde_json::from_str(&ran.err).unwrap_or_else(|error| panic!("{error} in {}", ran.err))
}

#[test]
fn with_json_a_failure_is_one_object_on_standard_error() {
    let work = Work::new();
    work.edit("writ.toml", "lease    = \"60s\"", "lease = \"1h\"\nleese = 1");
    let ran = work.run(&["config", "check", "--json"]);
    assert_eq!(ran.code, Some(1));
    let told = complaint(ran);
    assert_eq!(told["exit"], 1);
    let errors = told["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 2, "{told}");
    for error in errors {
        assert!(told["error"].as_str().unwrap().contains(error.as_str().unwrap()), "{told}");
    }
    for arguments in [&["--json", "frobnicate"][..], &["approver", "add", "usr_lea", "--json"]] {
        let ran = writ(arguments);
        assert_eq!(ran.code, Some(2));
        let told = complaint(ran);
        assert_eq!(told["exit"], 2);
        assert!(!told["error"].as_str().unwrap().starts_with("error:"), "{told}");
    }
    assert!(writ(&["frobnicate", "--", "--json"]).err.starts_with("error: "));
}

#[test]
fn the_version_is_the_packages() {
    assert_eq!(writ(&["--version"]).ok(), format!("writ {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(writ(&["completions", shell]).ok().contains("sandbox"), "{shell}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_writ"))
        .arg("openapi")
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
}

#[test]
fn text_that_goes_to_no_terminal_has_neither_colour_nor_lines() {
    let work = Work::new();
    for arguments in [
        &["client", "list"][..],
        &["keys", "list"],
        &["config", "check"],
        &["policy", "test"],
    ] {
        let said = work.run(arguments).ok();
        assert!(!said.contains('\u{1b}') && !said.contains('\u{2500}'), "{said}");
    }
}

/// Takes the commands through a day, in JSON: everything they printed, except where a secret is promised.
fn day(run: &Running) -> Vec<String> {
    let work = &run.work;
    let mut said = Vec::new();
    let mut tell = |arguments: &[&str]| -> Value {
        let ran = work.run(&[arguments, &["--json"]].concat());
        said.push(ran.err.clone());
        let value = ran.json();
        said.push(value.to_string());
        value
    };
    let (draft, denied) = (run.held(), run.proposed(25_000));
    let (mia, lea, backup) = (
        work.text("approvers/usr_mia.pem"),
        work.text("keys/lea.pem"),
        work.text("backup.db"),
    );
    tell(&["config", "check"]);
    let made = tell(&["keys", "generate", "--approver", "usr_lea", "--out", &lea]);
    tell(&["approver", "add", "usr_lea", "--public", made["public"].as_str().unwrap()]);
    tell(&["approver", "list"]);
    tell(&["approver", "revoke", "usr_lea"]);
    tell(&["client", "list"]);
    tell(&["client", "revoke", "security"]);
    tell(&["draft", "list", "--state", "awaiting_approval"]);
    tell(&["draft", "show", &draft]);
    tell(&["approve", &draft, "--key", &mia, "--reason", "fine", "--print"]);
    tell(&["approve", &draft, "--key", &mia, "--reason", "fine"]);
    tell(&["deny", &denied, "--key", &mia, "--reason", "not fine"]);
    tell(&["policy", "check"]);
    tell(&["policy", "test"]);
    tell(&["policy", "try", "--operation", "refund.create"]);
    tell(&["store", "backup", &backup]);
    tell(&["keys", "list"]);
    let token = run.credential(&draft);
    said.push(fed(&["token", "inspect", "--json"], &token).json().to_string());
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = json!({ "draft_id": draft }).to_string();
    http(&run.server.url, "POST", "/v1/executions?wait=10", &headers, &body);
    for arguments in [
        &["execution", "show", &draft][..],
        &["execution", "list"],
        &["keys", "rotate"],
        &["keys", "retire", "2"],
        &["openapi"],
    ] {
        let arguments = if arguments == ["openapi"] {
            vec!["openapi", "--json"]
        } else {
            [arguments, &["--config", &work.config, "--json"]].concat()
        };
        said.push(writ(&arguments).json().to_string());
    }
    said.push(writ(&["completions", "fish", "--json"]).json().to_string());
    for arguments in [
        &["draft", "show", &draft][..],
        &["execution", "show", &draft],
        &["client", "list"],
        &["approver", "list"],
    ] {
        said.push(work.run(arguments).ok());
    }
    for arguments in [&["audit", "show", &draft][..], &["audit", "search", "--draft", &draft]] {
        said.push(work.run(&[arguments, &["--json"]].concat()).json().to_string());
    }
    let events = work.run(&["audit", "tail", "-n", "1000", "--json"]).ok();
    assert!(events.lines().count() > 20, "{events}");
    for line in events.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error} in {line}"));
    }
    said.push(events);
    for text in &said {
        assert!(!text.contains(&token), "the credential is printed in: {text}");
    }
    said
}

/// Every secret there is: the clients', the backend's, the private keys.
fn secrets(run: &Running) -> Vec<String> {
    let work = &run.work;
    let mut secrets: Vec<String> = Vec::new();
    for client in ["support-agent", "review-desk", "security", "operations"] {
        secrets.push(work.secret(client).to_owned());
    }
    for key in ["read_key", "write_key"] {
        secrets.push(run.sandbox.said[key].as_str().unwrap().to_owned());
    }
    for dir in ["keys", "approvers"] {
        for file in fs::read_dir(work.path(dir)).unwrap().map(|f| f.unwrap().path()) {
            if file.extension().is_some_and(|e| e == "pem") {
                let pem = fs::read_to_string(file).unwrap();
                secrets.extend(pem.lines().filter(|line| !line.starts_with('-')).map(str::to_owned));
            }
        }
    }
    for arguments in [
        ["client", "add", "extra", "--role=auditor"],
        ["client", "replace-secret", "extra", "--json"],
    ] {
        let printed = work.run(&arguments).ok();
        secrets.extend(printed.split(['"', ' ', '\n']).find(|word| word.len() == 43).map(str::to_owned));
    }
    assert!(secrets.len() > 15, "{}", secrets.len());
    secrets
}

#[test]
fn json_parses_and_no_secret_is_printed_or_logged_where_none_is_promised() {
    let run = Running::logging("trace");
    let mut said = day(&run);
    let secrets = secrets(&run);
    said.push(run.work.run(&["client", "list"]).ok());
    run.server.signal("TERM");
    let (status, log) = run.server.ended();
    assert!(status.success());
    assert!(log.contains("answered a request"), "{log}");
    said.push(log);
    for secret in secrets {
        for text in &said {
            assert!(!text.contains(&secret), "a secret is printed in: {text}");
        }
    }
}
