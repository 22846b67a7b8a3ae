//! A witness of the test's own: it signs as one does, or as an enemy would, and writes down what it was shown.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use writ::domain::clock::Clock as _;

use crate::support::ManualClock;

/// What it does with a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Signs what it was shown.
    Signs,
    /// Answers this.
    Says(u16, String),
    /// Answers a signature of which one bit is wrong.
    SignsBadly,
    /// Signs with a key of its own making, under its own name and its true key's id.
    SignsWithAnotherKey,
    /// Signs, under the name of another witness.
    SignsAs(&'static str),
    /// Signs a head that it was not shown.
    SignsAnotherHead,
    /// Signs with a time so many seconds from now.
    SignsOf(i64),
    /// Answers megabytes.
    Floods,
    /// Takes the request and says nothing.
    Hangs,
}

/// The witness, listening at 127.0.0.1 until the tests end.
pub struct Witness {
    pub url: String,
    pub name: &'static str,
    key: Ed25519KeyPair,
    acts: Mutex<VecDeque<Act>>,
    bodies: Mutex<Vec<String>>,
    clock: Mutex<Option<Arc<ManualClock>>>,
    hanging: Mutex<Vec<TcpStream>>,
}

fn pair(name: &str) -> Ed25519KeyPair {
    let mut seed = [7; 32];
    for (to, from) in seed.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    Ed25519KeyPair::from_seed_unchecked(&seed).unwrap()
}

fn typed(key: &Ed25519KeyPair) -> Vec<u8> {
    [&[4], key.public_key().as_ref()].concat()
}

impl Witness {
    /// One that signs.
    pub fn new(name: &'static str) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let made = Arc::new(Self {
            url: format!("http://{}/w", listener.local_addr().unwrap()),
            name,
            key: pair(name),
            acts: Mutex::default(),
            bodies: Mutex::default(),
            clock: Mutex::default(),
            hanging: Mutex::default(),
        });
        let serving = made.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serving.serve(stream.unwrap());
            }
        });
        made
    }

    /// By which clock it signs.
    pub fn by(&self, clock: &Arc<ManualClock>) {
        *self.clock.lock().unwrap() = Some(clock.clone());
    }

    /// What it does next, and after that again and again.
    pub fn will(&self, acts: &[Act]) {
        *self.acts.lock().unwrap() = acts.iter().cloned().collect();
    }

    /// The bodies it was sent.
    pub fn shown(&self) -> Vec<String> {
        self.bodies.lock().unwrap().clone()
    }

    fn id(&self, name: &str) -> u32 {
        signed_note::key_id(name, &typed(&self.key))
    }

    /// Its key as the configuration has it.
    pub fn vkey(&self) -> String {
        format!("{}+{:08x}+{}", self.name, self.id(self.name), STANDARD.encode(typed(&self.key)))
    }

    /// The section of the configuration that names it.
    pub fn section(&self) -> String {
        format!("[[audit.witness]]\nurl = \"{}\"\nvkey = \"{}\"\n", self.url, self.vkey())
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first).unwrap();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some(n) = line.to_lowercase().strip_prefix("content-length: ") {
                length = n.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        assert_eq!(first.trim(), "POST /w/add-checkpoint HTTP/1.1");
        self.bodies.lock().unwrap().push(body.clone());
        let act = {
            let mut acts = self.acts.lock().unwrap();
            if acts.len() > 1 { acts.pop_front() } else { acts.front().cloned() }
        };
        let (status, answer) = match act.unwrap_or(Act::Signs) {
            Act::Hangs => return self.hanging.lock().unwrap().push(stream),
            Act::Says(status, answer) => (status, answer),
            Act::Floods => (200, "x".repeat(4 << 20)),
            act => (200, self.line(&act, &body)),
        };
        let head = format!(
            "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nlocation: {}/other\r\nconnection: close\r\n\r\n",
            answer.len(),
            self.url
        );
        // Whoever has seen enough of it hangs up.
        drop(stream.write_all((head + &answer).as_bytes()));
    }

    /// Its signature under a checkpoint.
    pub fn line_under(&self, checkpoint: &str) -> String {
        self.line(&Act::Signs, &format!("old 0\n\n{checkpoint}"))
    }

    fn line(&self, act: &Act, body: &str) -> String {
        let (_, checkpoint) = body.split_once("\n\n").unwrap();
        let (text, _) = checkpoint.rsplit_once("\n\n").unwrap();
        let mut text = format!("{text}\n");
        let now = self.clock.lock().unwrap().as_ref().unwrap().now().seconds();
        let (mut time, mut name, mut key) = (now, self.name, &self.key);
        let stranger = pair("somebody else");
        match act {
            Act::SignsOf(off) => time += off,
            Act::SignsAs(other) => name = other,
            Act::SignsWithAnotherKey => key = &stranger,
            Act::SignsAnotherHead => {
                let mut lines: Vec<&str> = text.lines().collect();
                lines[1] = "999999";
                text = lines.join("\n") + "\n";
            }
            _ => {}
        }
        let signed = key.sign(format!("cosignature/v1\ntime {time}\n{text}").as_bytes());
        let id = self.id(name);
        let mut blob = [&id.to_be_bytes()[..], &time.to_be_bytes(), signed.as_ref()].concat();
        if *act == Act::SignsBadly {
            *blob.last_mut().unwrap() ^= 1;
        }
        format!("\u{2014} {name} {}\n", STANDARD.encode(blob))
    }
}
