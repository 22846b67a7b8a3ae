//! README and docs say what the program does: every command they show is run here, every test they name exists, every state they list is one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use writ::domain::lifecycle::{ApprovalTransition, CredentialTransition, DraftTransition, ExecutionTransition, StopTransition};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Markdown page that a reader is led to.
fn pages() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["README.md", "SECURITY.md", "CHANGELOG.md", "keys/README.md", "deploy/README.md"]
        .iter()
        .map(|p| root().join(p))
        .collect();
    let mut open = vec![root().join("docs")];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn the_lifecycle_page_lists_every_transition_as_the_code_has_it() {
    let page = read("docs/lifecycle.md");
    let mut rows: Vec<(&str, Vec<&str>, &str)> = Vec::new();
    rows.extend(
        DraftTransition::ALL
            .iter()
            .map(|t| (t.event(), t.from().iter().map(|s| s.as_str()).collect(), t.to().as_str())),
    );
    rows.extend(
        ApprovalTransition::ALL
            .iter()
            .map(|t| (t.event(), t.from().iter().map(|s| s.as_str()).collect(), t.to().as_str())),
    );
    rows.extend(
        CredentialTransition::ALL
            .iter()
            .map(|t| (t.event(), t.from().iter().map(|s| s.as_str()).collect(), t.to().as_str())),
    );
    rows.extend(
        ExecutionTransition::ALL
            .iter()
            .map(|t| (t.event(), t.from().iter().map(|s| s.as_str()).collect(), t.to().as_str())),
    );
    rows.extend(
        StopTransition::ALL
            .iter()
            .map(|t| (t.event(), t.from().iter().map(|s| s.as_str()).collect(), t.to().as_str())),
    );
    for (event, from, to) in &rows {
        let start = format!("| `{event}` | ");
        let row = page
            .lines()
            .find(|line| line.starts_with(&start))
            .unwrap_or_else(|| panic!("{event} has no row"));
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let listed: Vec<&str> = cells[2]
            .split(',')
            .map(|c| c.trim().trim_matches(|c| "`()".contains(c)))
            .filter(|c| !c.is_empty())
            .collect();
        assert_eq!(&listed, from, "{event}: from");
        assert_eq!(cells[3].trim_matches('`'), *to, "{event}: to");
    }
    let listed = page
        .lines()
        .filter(|l| {
            ["draft", "approval", "credential", "execution", "stop"]
                .iter()
                .any(|entity| l.starts_with(&format!("| `{entity}.")))
        })
        .count();
    assert_eq!(listed, rows.len(), "a row for a transition that does not exist");
}

#[test]
fn the_evidence_page_has_the_exit_codes_of_a_verification() {
    use writ::audit::verify::{EXIT_NO_KEY, EXIT_UNREADABLE, Verdict};
    let page = read("docs/evidence.md");
    let (_, table) = page.split_once("<!-- exit codes").unwrap();
    let rows: BTreeSet<(u8, String)> = table
        .lines()
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            (cells[1].parse().unwrap(), cells[2].trim_matches('`').to_owned())
        })
        .collect();
    let mut expected: BTreeSet<(u8, String)> = Verdict::ALL
        .iter()
        .map(|verdict| (verdict.exit(), verdict.line().to_owned()))
        .collect();
    expected.extend([(EXIT_UNREADABLE, String::new()), (EXIT_NO_KEY, String::new())]);
    assert_eq!(rows, expected);
    let help = writ::cli::command();
    let verify = help.find_subcommand("audit").unwrap().find_subcommand("verify").unwrap();
    let told = verify.get_long_about().unwrap().to_string();
    for (code, _) in &rows {
        assert!(told.contains(&format!(" {code} ")), "--help does not tell of {code}: {told}");
    }
    let options: BTreeSet<&str> = verify.get_arguments().filter_map(clap::Arg::get_long).collect();
    for option in options
        .iter()
        .filter(|option| !matches!(**option, "help" | "event" | "config" | "vkey"))
    {
        assert!(page.contains(&format!("--{option}")), "the page does not tell of --{option}");
    }
}

#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap();
            if target.starts_with("http") || target.starts_with('#') || target.is_empty() {
                continue;
            }
            let file = page.parent().unwrap().join(target.split('#').next().unwrap());
            assert!(file.exists(), "{}: {target} leads nowhere", page.display());
        }
    }
}

#[test]
fn every_decision_is_in_the_index() {
    let index = read("docs/decisions/README.md");
    for entry in fs::read_dir(root().join("docs/decisions")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            name == "README.md" || index.contains(&format!("({name})")),
            "{name} is not in the index"
        );
    }
}

/// The names in the column of crash points, and the rows of transitions, against what the program can die at.
#[test]
fn the_lifecycle_page_names_every_crash_point_and_no_other() {
    let page = read("docs/lifecycle.md");
    let known: BTreeSet<String> = writ::crash_points::names()
        .iter()
        .map(|name| name.trim_end_matches(".before_commit").trim_end_matches(".after_commit").to_owned())
        .collect();
    let mut named = BTreeSet::new();
    let mut lines = 0;
    for line in page.lines().filter(|l| {
        l.strip_prefix("| ")
            .is_some_and(|l| l.trim_start_matches(['S', 'R']).starts_with(|c: char| c.is_ascii_digit()))
    }) {
        let points = line.split('|').nth(6).unwrap();
        let points: Vec<_> = points.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        assert!(!points.is_empty(), "no crash point in: {line}");
        named.extend(points);
        lines += 1;
    }
    assert!(lines >= 20, "{lines} lines of the journey");
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "the program has no crash points {unknown:?}");
    // A transition that is no part of the journey has its row further down.
    let silent: Vec<_> = known
        .difference(&named)
        .filter(|name| !page.contains(&format!("\n| `{name}` | ")))
        .collect();
    assert!(silent.is_empty(), "the page does not name {silent:?}");
}

#[test]
fn every_claim_about_the_lifecycle_names_a_test() {
    let page = read("docs/lifecycle.md");
    let claims: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.ends_with(" Tests |") && !line.ends_with(" Test |"))
        .collect();
    assert!(claims.len() > 50, "{}", claims.len());
    for claim in claims {
        assert!(claim.contains("`test:"), "no test is named for: {claim}");
    }
}

#[test]
fn every_threat_names_the_test_of_its_control() {
    let page = read("docs/threats.md");
    let rows: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.ends_with("| Proof |"))
        .collect();
    assert!(rows.len() > 50, "{}", rows.len());
    for row in rows {
        assert!(row.contains("`test:"), "no test is named for: {row}");
    }
}

#[test]
fn every_test_that_the_lifecycle_and_threats_pages_name_exists() {
    let page = read("docs/threats.md") + &read("docs/lifecycle.md");
    let mut code = String::new();
    let mut open = vec![root().join("tests"), root().join("src")];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                code.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    let mut named = 0;
    for (at, _) in page.match_indices("`test:") {
        let name = page[at + 6..].split('`').next().unwrap().trim();
        assert!(code.contains(&format!("fn {name}(")), "no test is called {name}");
        named += 1;
    }
    assert!(named >= 30, "only {named} tests are named");
}

/// One `console` block: lines that start with `$ ` are commands (continued after a backslash), the others are what they print. `…` stands for anything
/// within a line, a line of `…` alone for any lines.
struct Step {
    command: String,
    expected: Vec<String>,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    let mut continued = false;
    for line in page.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
            continue;
        }
        if !inside {
            continue;
        }
        if continued {
            let step = steps.last_mut().unwrap();
            step.command.push('\n');
            step.command.push_str(line);
            continued = line.ends_with('\\');
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step {
                command: command.to_owned(),
                expected: Vec::new(),
            });
            continued = command.ends_with('\\');
        } else {
            steps
                .last_mut()
                .expect("a block begins with a command")
                .expected
                .push(line.to_owned());
        }
    }
    steps
}

fn line_fits(pattern: &str, line: &str) -> bool {
    let mut rest = line;
    let parts: Vec<&str> = pattern.split('…').collect();
    for (index, part) in parts.iter().enumerate() {
        let found = if index == 0 {
            rest.strip_prefix(part)
        } else {
            rest.find(part).map(|at| &rest[at + part.len()..])
        };
        match found {
            Some(after) => rest = after,
            None => return false,
        }
    }
    pattern.ends_with('…') || rest.is_empty() || parts.len() > 1 && line.ends_with(parts[parts.len() - 1])
}

fn fits(expected: &[String], got: &[&str]) -> bool {
    match (expected.split_first(), got.split_first()) {
        (None, None) => true,
        (None, Some(_)) | (Some(_), None) => expected.iter().all(|l| l == "…") && got.is_empty(),
        (Some((first, rest)), Some((line, more))) if first == "…" => {
            fits(rest, got) || fits(expected, more) || {
                let _ = line;
                false
            }
        }
        (Some((first, rest)), Some((line, more))) => line_fits(first, line) && fits(rest, more),
    }
}

/// Runs all steps of a page in one shell, in an empty directory, with this build's `writ` on the path.
fn run(page: &str) {
    let steps = steps(&read(page));
    assert!(!steps.is_empty(), "{page} shows no command");
    let dir = tempfile::tempdir().unwrap();
    let mut script = String::from("exec 2>&1\ntrap 'kill $(jobs -p) 2> /dev/null' EXIT\n");
    for (index, step) in steps.iter().enumerate() {
        script.push_str(&format!("echo; echo '@@@ {index}'\n{}\n", step.command));
    }
    let binaries = Path::new(env!("CARGO_BIN_EXE_writ")).parent().unwrap().to_owned();
    let path = std::env::join_paths(std::iter::once(binaries).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap()))).unwrap();
    let output = Command::new("timeout")
        .args(["--kill-after=5", "120", "bash", "-c", &script])
        .current_dir(dir.path())
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.code().is_some_and(|code| code != 124),
        "{page}: the commands did not end within two minutes"
    );
    let printed = String::from_utf8_lossy(&output.stdout);
    let log = fs::read_to_string(dir.path().join("serve.log")).unwrap_or_default();
    let taken = printed.lines().chain(log.lines()).find(|line| line.contains("cannot listen on"));
    if let Some(line) = taken {
        panic!("{page}: another program took a port that the page uses while this test ran ({line}): stop it, and run the tests again");
    }
    let lines: Vec<&str> = printed.lines().collect();
    let mut current = String::new();
    let mut outputs: Vec<String> = vec![String::new(); steps.len()];
    for line in &lines {
        if let Some(mark) = line.strip_prefix("@@@ ") {
            mark.clone_into(&mut current);
        } else if let Ok(index) = current.parse::<usize>() {
            outputs[index].push_str(line);
            outputs[index].push('\n');
        }
    }
    for (step, output) in steps.iter().zip(&outputs) {
        let got: Vec<&str> = output.trim_end().lines().collect();
        assert!(
            fits(&step.expected, &got),
            "{page}: `{}` should print\n{}\nand prints\n{}",
            step.command,
            step.expected.join("\n"),
            got.join("\n")
        );
    }
}

/// The commands of the README name these ports; another program on one of them would make every step fail in its own way.
fn free_ports() {
    for port in [8700, writ::setup::SANDBOX_PORT] {
        if let Err(error) = std::net::TcpListener::bind(("127.0.0.1", port)) {
            panic!(
                "the README uses 127.0.0.1:{port}, which cannot be taken ({error}): stop what listens there, such as a `writ serve` or `writ sandbox`, and run the tests again"
            );
        }
    }
}

#[test]
fn the_backends_page_does_what_it_shows() {
    run("docs/backends.md");
}

#[test]
fn the_readme_does_what_it_shows() {
    free_ports();
    run("README.md");
}
