//! A server before a real deployment that passes every call on and every answer back, but for the answers it lies about.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::cli::support::http;

/// A call, and what the deployment said to it.
pub struct Told<'a> {
    pub method: &'a str,
    /// Without its query.
    pub path: &'a str,
    pub status: u16,
    pub answer: Value,
    /// The answer as it came, for what is no JSON.
    pub text: &'a str,
    /// What the liar remembers.
    pub memory: &'a mut Memory,
}

/// What a liar remembers between calls.
#[derive(Default)]
pub struct Memory {
    pub seen: BTreeSet<String>,
    pub calls: Vec<(String, String, String)>,
}

/// What is answered instead; nothing if the truth is told.
pub type Lie = fn(&mut Told<'_>) -> Option<(u16, Value)>;

pub struct Liar {
    pub url: String,
    pub memory: Arc<Mutex<Memory>>,
}

impl Liar {
    /// Listens on a free port until the test's process ends.
    pub fn before(deployment: &str, lie: Lie) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let memory = Arc::new(Mutex::new(Memory::default()));
        let (kept, deployment) = (memory.clone(), deployment.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, memory, deployment) = (stream.unwrap(), kept.clone(), deployment.clone());
                // A prover that hangs up is none of the liar's business.
                std::thread::spawn(move || drop(serve(stream, &deployment, lie, &memory)));
            }
        });
        Self { url, memory }
    }
}

fn serve(stream: TcpStream, deployment: &str, lie: Lie, memory: &Mutex<Memory>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap_or("/").to_owned());
    let mut headers: Vec<(String, String)> = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or("0", |(_, value)| value);
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).unwrap();
    let passed: Vec<(&str, &str)> = headers
        .iter()
        .filter(|(name, _)| ["authorization", "content-type"].contains(&name.as_str()))
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let (mut status, mut answer) = http(deployment, &method, &target, &passed, &body);
    {
        let mut memory = memory.lock().unwrap();
        let path = target.split('?').next().unwrap();
        memory.calls.push((method.clone(), path.to_owned(), body.clone()));
        let mut told = Told {
            method: &method,
            path,
            status,
            answer: serde_json::from_str(&answer).unwrap_or(Value::Null),
            text: &answer,
            memory: &mut memory,
        };
        let lied = lie(&mut told);
        if let Some((other, said)) = lied {
            (status, answer) = (other, said.to_string());
        }
    }
    let mut stream = stream;
    let length = answer.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(format!("{head}{answer}").as_bytes())
}
