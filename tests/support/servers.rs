//! Payment servers that nobody here wrote, each started on a free port of 127.0.0.1 and stopped with its handle.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::peers::{node, output, python, script};

/// How long a server may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that answers.
pub struct Server {
    /// Where it answers; no trailing slash.
    pub url: String,
    child: Child,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Localstripe,
    StatefulMock,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only if it has ended by itself, and then there is nothing to stop.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// localstripe: ignores idempotency keys, so every POST is a refund more. `None` after a visible line if it cannot run here.
pub fn localstripe() -> Option<Server> {
    let mut command = python()?;
    command.arg(script("start_localstripe.py"));
    Some(Server::start(command, Kind::Localstripe))
}

/// stripe-stateful-mock: honours idempotency keys. `None` after a visible line if it cannot run here.
pub fn stateful_mock() -> Option<Server> {
    let mut command = node()?;
    command.arg(script("ssm.js"));
    Some(Server::start(command, Kind::StatefulMock))
}

/// The official Python client (`tests/peers/client.py`) against `url`; its answer.
pub fn python_client(url: &str, arguments: &[&str]) -> Option<serde_json::Value> {
    let mut command = python()?;
    command.arg(script("client.py")).arg(url).args(arguments);
    Some(serde_json::from_str(&output(&mut command)).unwrap())
}

/// The official Node client (`tests/peers/client.mjs`) against `url`; its answer.
pub fn node_client(url: &str, arguments: &[&str]) -> Option<serde_json::Value> {
    let mut command = node()?;
    command.arg(script("client.mjs")).arg(url).args(arguments);
    Some(serde_json::from_str(&output(&mut command)).unwrap())
}

impl Server {
    /// Starts a script that prints its URL once it listens and ends when its standard input is closed, so that it cannot outlive the tests.
    fn start(mut command: Command, kind: Kind) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the peer could not be started");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // From here on the child is stopped whatever happens.
        let mut server = Self {
            url: String::new(),
            child,
            kind,
        };
        let (sender, first_line) = mpsc::channel();
        std::thread::spawn(move || {
            // The receiver may have given up; later lines are read so that the server never blocks on a full pipe.
            let _ = sender.send(lines.next());
            lines.for_each(drop);
        });
        let line = first_line.recv_timeout(PATIENCE).expect("the peer did not say where it listens");
        server.url = line.expect("the peer ended at once").unwrap();
        server.answers();
        server
    }

    /// Makes a charge with the official client and returns its id.
    pub fn charge(&self, minor: i64, currency: &str) -> String {
        let amount = minor.to_string();
        // The client comes from the registry that the server came from, so it is there.
        let charge = match self.kind {
            Kind::Localstripe => python_client(&self.url, &["charge", &amount, currency, "card"]),
            Kind::StatefulMock => node_client(&self.url, &["charge", &amount, currency, "tok_visa"]),
        };
        charge.unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// Waits for an answer to a first request, whatever it says.
    fn answers(&self) {
        let mut stream = TcpStream::connect(self.url.strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut start = [0; 5];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/", "{} is no HTTP server", self.url);
    }
}
