//! Runs the binary, keeps its servers, and speaks just enough HTTP to them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tempfile::TempDir;

/// How a command ended.
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Its standard output, if it did what it was told.
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }

    /// Its standard output as JSON, if it did what it was told.
    pub fn json(self) -> Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    /// Its complaint, if it ended with this code.
    pub fn refused(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        let told = self.err.contains("error: ") || self.err.contains("\"error\":");
        assert!(told, "{}", self.err);
        self.err
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_writ"));
    command.args(arguments).env_remove("WRIT_CONFIG").env_remove("NO_COLOR");
    command
}

/// The events of a database, in order, as they are stored.
pub fn events(database: &Path) -> Vec<Value> {
    let connection = rusqlite::Connection::open(database).unwrap();
    let mut statement = connection.prepare("SELECT body FROM event ORDER BY seq").unwrap();
    let bodies = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    bodies.map(|body| serde_json::from_str(&body.unwrap()).unwrap()).collect()
}

/// Runs `writ` with these arguments.
pub fn writ(arguments: &[&str]) -> Ran {
    fed(arguments, "")
}

/// Runs `writ` with this on its standard input.
pub fn fed(arguments: &[&str], input: &str) -> Ran {
    ended(command(arguments), input)
}

fn ended(mut command: Command, input: &str) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its input may be gone already.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A server that runs until the test ends. Its log goes to a file, so that it can never fill a pipe and stand still.
pub struct Server {
    child: Child,
    log: tempfile::NamedTempFile,
    /// What it said when it was ready.
    pub said: Value,
    pub url: String,
}

impl Server {
    /// Starts `writ ARGUMENTS --json` and waits for its first line.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// As [`Server::start`], with these in its environment.
    pub fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut child = command(arguments)
            .envs(environment.iter().copied())
            .arg("--json")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let why = || std::fs::read_to_string(log.path()).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("writ {arguments:?} did not start: {}", why()));
        let url = said["url"].as_str().unwrap().to_owned();
        Self { child, log, said, url }
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The file of its log.
    pub fn log(&self) -> &Path {
        self.log.path()
    }

    /// Sends a signal without waiting for its effect.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Waits for its end; how it ended, and its log.
    pub fn ended(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        (status, std::fs::read_to_string(self.log.path()).unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A working directory made by `writ init`.
pub struct Work {
    pub temp: TempDir,
    pub config: String,
    /// What `init` printed.
    pub made: Value,
}

impl Work {
    /// For a sandbox that nobody starts.
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// Before this sandbox.
    pub fn before(sandbox: &Server) -> Self {
        let keys = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = keys.path().join(name);
            std::fs::write(&path, format!("{}\n", sandbox.said[name].as_str().unwrap())).unwrap();
            path.display().to_string()
        };
        let (read, write) = (file("read_key"), file("write_key"));
        Self::with(&[
            "--stripe-url",
            &sandbox.url,
            "--stripe-key-file",
            &write,
            "--stripe-read-key-file",
            &read,
        ])
    }

    /// Registers people as an operator would, each with a key in `approvers/`.
    fn register_people(&self) {
        std::fs::create_dir(self.path("approvers")).unwrap();
        for (id, authority) in [
            ("usr_mia", "refund.*:finance.refunds:usd:500000"),
            ("usr_tom", "refund.*:finance.refunds:usd:150000"),
            ("usr_ann", "refund.*:finance.refunds:usd:500000"),
            ("usr_ada", "email.*:account.admins"),
        ] {
            let out = self.text(&format!("approvers/{id}.pem"));
            let made = self.json(&["keys", "generate", "--approver", id, "--out", &out]);
            let public = made["public"].as_str().unwrap();
            self.run(&["approver", "add", id, "--public", public, "--authority", authority])
                .ok();
        }
    }

    fn with(more: &[&str]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("work").display().to_string();
        let made = writ(&[&["init", &dir, "--json", "--listen", "127.0.0.1:0"], more].concat()).json();
        let config = made["config"].as_str().unwrap().to_owned();
        Self { temp, config, made }
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.temp.path().join("work").join(below)
    }

    /// A path in the working directory as an argument.
    pub fn text(&self, below: &str) -> String {
        self.path(below).display().to_string()
    }

    /// Runs `writ ARGUMENTS --config` this directory.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        writ(&[arguments, &["--config", &self.config]].concat())
    }

    /// As [`Work::run`], where `sudo` was called by this user.
    pub fn run_as(&self, user: &str, arguments: &[&str]) -> Ran {
        let mut command = command(&[arguments, &["--config", &self.config]].concat());
        command.env("SUDO_USER", user);
        ended(command, "")
    }

    /// Its answer in JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[arguments, &["--json"]].concat()).json()
    }

    pub fn secret(&self, client: &str) -> &str {
        let clients = self.made["clients"].as_array().unwrap();
        clients.iter().find(|c| c["id"] == client).unwrap()["secret"].as_str().unwrap()
    }

    /// Replaces text in one of its files.
    pub fn edit(&self, below: &str, from: &str, to: &str) {
        let path = self.path(below);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{below} has no {from}");
        std::fs::write(path, text.replace(from, to)).unwrap();
    }
}

/// The mode of a file or directory.
pub fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A request, and the status and body of its answer.
pub fn http(url: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// A writ with a sandbox behind it, both running.
pub struct Running {
    pub work: Work,
    pub sandbox: Server,
    pub server: Server,
}

impl Running {
    pub fn new() -> Self {
        Self::logging("info")
    }

    /// With this filter on its log.
    pub fn logging(filter: &str) -> Self {
        Self::edited(|work| work.edit("writ.toml", "filter = \"info\"", &format!("filter = \"{filter}\"")))
    }

    /// With changes to its files.
    pub fn edited(edit: impl FnOnce(&Work)) -> Self {
        let sandbox = Server::start(&["sandbox", "--port", "0"]);
        let work = Work::before(&sandbox);
        work.register_people();
        edit(&work);
        let server = Server::start(&["serve", "--config", &work.config]);
        Self { work, sandbox, server }
    }

    /// A call by a client; the body of its answer if the status is this one.
    pub fn call(&self, client: &str, method: &str, path: &str, kind: &str, body: &str, status: u16) -> String {
        let basic = format!("Basic {}", STANDARD.encode(format!("{client}:{}", self.work.secret(client))));
        let headers = [("authorization", basic.as_str()), ("content-type", kind)];
        let (got, answer) = http(&self.server.url, method, path, &headers, body);
        assert_eq!(got, status, "{answer}");
        answer
    }

    /// A refund of 240.00 USD that waits for people.
    pub fn held(&self) -> String {
        self.proposed(24_000)
    }

    /// A refund of so many cents.
    pub fn proposed(&self, amount: u32) -> String {
        let body = serde_json::json!({
            "operation": "refund.create", "case_id": "case-1", "reason_code": "damaged",
            "parameters": { "charge": writ::sandbox::demo::CHARGE, "amount": amount, "currency": "usd" },
        });
        let answer = self.call("support-agent", "POST", "/v1/drafts", "application/json", &body.to_string(), 201);
        serde_json::from_str::<Value>(&answer).unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// What the review desk gets at a path.
    pub fn seen(&self, path: &str) -> String {
        self.call("review-desk", "GET", path, "application/json", "", 200)
    }

    /// A credential for an approved draft.
    pub fn credential(&self, draft: &str) -> String {
        let form = format!(
            "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token={draft}&subject_token_type=urn:writ:token-type:draft"
        );
        let kind = "application/x-www-form-urlencoded";
        let answer = self.call("support-agent", "POST", "/oauth2/token", kind, &form, 200);
        serde_json::from_str::<Value>(&answer).unwrap()["access_token"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}
