//! What lies in `deploy/` works: the example configuration is a good one, the units are sound, and the image's root holds what the program needs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::cli::support::writ;
use crate::support::certificates::{Authority, Holds};
use crate::support::peers::{missing, output, root};

/// A command of this machine. `None` after a visible line if it does not do this.
fn able(name: &str, probe: &[&str]) -> Option<Command> {
    let done = Command::new(name)
        .args(probe)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !done.is_ok_and(|status| status.success()) {
        return missing(&format!("`{name} {}`", probe.join(" ")), "run the tests on a machine that has it");
    }
    Some(Command::new(name))
}

#[test]
fn the_configuration_for_production_is_good_for_both_roles() {
    let temp = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = temp.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (key, read) = (file("key", "sk_one"), file("read", "rk_two"));
    let dir = temp.path().join("writ");
    let place = dir.display().to_string();
    let mut arguments = vec![
        "init",
        &place,
        "--public-url",
        "https://broker.example:8700",
        "--audience",
        "https://broker.example",
    ];
    arguments.extend([
        "--stripe-url",
        "https://api.stripe.com",
        "--stripe-key-file",
        &key,
        "--stripe-read-key-file",
        &read,
    ]);
    writ(&arguments).ok();
    fs::copy(root().join("deploy/writ.toml"), dir.join("writ.toml")).unwrap();
    let tls = dir.join("tls");
    fs::create_dir(&tls).unwrap();
    let (authority, clients) = (Authority::new(), Authority::new());
    authority.server(Holds::Always).write(&tls, "broker");
    authority.server(Holds::Always).write(&tls, "proxy");
    fs::write(tls.join("clients.pem"), &clients.pem).unwrap();
    let config = dir.join("writ.toml").display().to_string();
    for role in ["broker", "proxy"] {
        assert_eq!(writ(&["config", "check", "--config", &config, "--role", role]).ok(), "ok\n");
    }
    let loaded = writ::config::Config::load(&dir.join("writ.toml")).unwrap();
    assert_eq!(
        loaded.limits,
        writ::edge::Limits::default(),
        "what it says of limits is what holds without saying it"
    );
    fs::remove_file(tls.join("proxy.key")).unwrap();
    assert_eq!(writ(&["config", "check", "--config", &config, "--role", "broker"]).ok(), "ok\n");
    writ(&["config", "check", "--config", &config, "--role", "proxy"]).refused(1);
}

/// The values of a key in a unit.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let prefix = format!("{key}=");
    unit.lines().filter_map(|line| line.strip_prefix(&prefix)).collect()
}

#[test]
fn the_units_start_what_there_is_and_let_it_do_little_else() {
    let Some(mut verify) = able("systemd-analyze", &["--version"]) else {
        return;
    };
    let temp = TempDir::new().unwrap();
    verify.arg("verify");
    for role in ["broker", "proxy"] {
        let name = format!("writ-{role}.service");
        let unit = fs::read_to_string(root().join("deploy/systemd").join(&name)).unwrap();
        let start: Vec<&str> = values(&unit, "ExecStart")[0].split(' ').collect();
        assert!(start.ends_with(&["--role", role]), "{start:?}");
        writ::cli::command().try_get_matches_from(&start).unwrap();
        // Where it will be, and where it is now.
        let here = unit.replace("/usr/local/bin/writ", env!("CARGO_BIN_EXE_writ"));
        let here = here.replace(
            "Documentation=file:/usr/local/share/doc/writ",
            &format!("Documentation=file:{}", root().display()),
        );
        let path = temp.path().join(&name);
        fs::write(&path, here).unwrap();
        verify.arg(&path);
        let mut security = Command::new("systemd-analyze");
        security
            .args(["security", "--offline=yes", "--no-pager", "--threshold=20"])
            .arg(&path);
        output(&mut security);
    }
    let said = verify.output().unwrap();
    let about_ours: Vec<String> = String::from_utf8_lossy(&said.stderr)
        .lines()
        .filter(|line| line.contains("writ-"))
        .map(str::to_owned)
        .collect();
    assert!(said.status.success() && about_ours.is_empty(), "{about_ours:?}");
}

#[test]
fn the_image_s_root_holds_all_that_the_program_needs_and_no_shell() {
    let Some(mut inside) = able("unshare", &["--map-root-user", "true"]) else {
        return;
    };
    let temp = TempDir::new().unwrap();
    let image = temp.path().join("image");
    output(
        Command::new(root().join("deploy/rootfs"))
            .arg(env!("CARGO_BIN_EXE_writ"))
            .arg(&image),
    );
    let mut found = Vec::new();
    files(&image, &mut found);
    let known = ["etc/group", "etc/passwd", "etc/ssl/certs/ca-certificates.crt", "usr/local/bin/writ"];
    for file in &found {
        let below = file.strip_prefix(&image).unwrap().display().to_string();
        assert!(
            known.contains(&&*below) || below.starts_with("lib"),
            "{below} is not expected in the image"
        );
    }
    inside.args(["--map-root-user", "--root"]).arg(&image);
    inside.args(["/usr/local/bin/writ", "init", "/tmp/work"]);
    output(&mut inside);
    let mut check = Command::new("unshare");
    check.args(["--map-root-user", "--root"]).arg(&image);
    check.args(["/usr/local/bin/writ", "config", "check", "--config", "/tmp/work/writ.toml"]);
    assert_eq!(output(&mut check), "ok\n");
}

fn files(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn the_containerfile_runs_what_there_is_as_nobody_s_root() {
    let text = fs::read_to_string(root().join("deploy/Containerfile")).unwrap();
    let list = |word: &str| -> Vec<String> {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{word} "))).unwrap();
        serde_json::from_str(line).unwrap()
    };
    let words = [list("ENTRYPOINT"), list("CMD")].concat();
    writ::cli::command().try_get_matches_from(&words).unwrap();
    assert!(text.lines().any(|line| line == "USER 65532:65532"), "{text}");
    let last = text.rsplit("\nFROM ").next().unwrap();
    assert!(last.starts_with("scratch\n") && !last.contains("\nRUN "), "{last}");
    assert!(text.contains("deploy/rootfs target/release/writ /rootfs"), "{text}");
}
