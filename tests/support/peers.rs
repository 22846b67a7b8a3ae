//! Python and Node with the pinned packages of `tests/peers/`, for tests against code that nobody here wrote.
//!
//! A machine without them skips such a test and says so on standard error, past the test harness; with `CI` set it is a failure.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The Python interpreter of `.peers/venv`, in the checkout's directory. `None` after a visible line if it is not there.
pub fn python() -> Option<Command> {
    let interpreter = root().join(".peers/venv/bin/python");
    if !interpreter.exists() {
        return missing(
            "Python and its packages (.peers/venv)",
            "python3 -m venv .peers/venv && .peers/venv/bin/pip install -r tests/peers/requirements.txt",
        );
    }
    let mut command = Command::new(interpreter);
    command.current_dir(root()).env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
    Some(command)
}

/// Node, in the checkout's directory, set up so that a script anywhere imports the packages of `.peers/node_modules` by name and
/// WebAssembly modules load. `None` after a visible line if Node or the packages are not there.
pub fn node() -> Option<Command> {
    let packages = root().join(".peers/node_modules");
    let runs = Command::new("node")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !packages.exists() || !runs.is_ok_and(|status| status.success()) {
        return missing(
            "Node 20 or newer and its packages (.peers/node_modules)",
            "install Node, then: mkdir -p .peers && cp tests/peers/package.json .peers/ && npm --prefix .peers install",
        );
    }
    let mut command = Command::new("node");
    command
        .arg("--no-warnings")
        .arg("--experimental-wasm-modules")
        .arg("--import")
        .arg(root().join("tests/peers/resolve.mjs"))
        .current_dir(root())
        .stdin(Stdio::null());
    Some(command)
}

/// Prometheus' own tool: `.peers/promtool`, or the one that is installed. `None` after a visible line if there is none.
pub fn promtool() -> Option<Command> {
    let own = root().join(".peers/promtool");
    let installed = || {
        let mut probe = Command::new("promtool");
        probe.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    if own.exists() {
        return Some(Command::new(own));
    }
    if installed() {
        return Some(Command::new("promtool"));
    }
    missing(
        "promtool",
        "install Prometheus (Debian: prometheus), or run tests/run, which fetches it",
    )
}

/// The path of a script in `tests/peers/`.
pub fn script(name: &str) -> PathBuf {
    root().join("tests/peers").join(name)
}

/// Runs the command to its end and returns its standard output; a failure carries everything the peer printed.
pub fn output(command: &mut Command) -> String {
    let done = command.output().expect("the peer could not be started");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{command:?} ended with {}\n{out}\n{err}", done.status);
    out.into_owned()
}

/// The checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Says that something is not on this machine, and how to get it; where nothing may be skipped it is a failure.
#[allow(
    clippy::explicit_write,
    reason = "the harness swallows what `eprintln` prints when the test passes"
)]
pub fn missing(what: &str, how: &str) -> Option<Command> {
    assert!(
        std::env::var_os("CI").is_none(),
        "{what} is missing, and in CI no peer may be skipped. To get it: {how}"
    );
    writeln!(std::io::stderr(), "SKIPPED a peer test: {what} is missing. To get it: {how}").unwrap();
    None
}
