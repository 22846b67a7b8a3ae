//! A line that can be cut: it carries each request to a server and, where it was told to, loses the answer.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A request that went over the line.
#[derive(Debug, Clone)]
pub struct Carried {
    /// Its method and path, without the query.
    pub what: String,
    /// Its `Idempotency-Key`.
    pub key: Option<String>,
    /// Its `Authorization`.
    pub authorization: Option<String>,
    /// Its body.
    pub body: String,
    /// The head of the server's answer, in lower case, lost or not.
    pub answer: String,
}

#[derive(Default)]
struct State {
    cuts: Vec<String>,
    carried: Vec<Carried>,
}

/// The line. Stops when dropped.
pub struct Line {
    /// Where it answers; no trailing slash.
    pub url: String,
    state: Arc<Mutex<State>>,
    _stop: DropGuard,
}

impl Line {
    /// A line to the server at this URL.
    pub async fn to(url: &str) -> Self {
        let server = url.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let stop = CancellationToken::new();
        let (shared, stopped) = (Arc::clone(&state), stop.clone());
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    () = stopped.cancelled() => return,
                    accepted = listener.accept() => accepted,
                };
                let (server, state) = (server.clone(), Arc::clone(&shared));
                tokio::spawn(carry(accepted.unwrap().0, server, state));
            }
        });
        Self {
            url,
            state,
            _stop: stop.drop_guard(),
        }
    }

    /// Loses the answer to the next request of this method and path.
    pub fn cut(&self, what: &str) {
        self.state.lock().unwrap().cuts.push(what.to_owned());
    }

    /// Everything that went over it with this method and path.
    pub fn carried(&self, what: &str) -> Vec<Carried> {
        let state = self.state.lock().unwrap();
        state.carried.iter().filter(|c| c.what == what).cloned().collect()
    }
}

/// One connection: one request, one answer.
async fn carry(mut client: TcpStream, server: String, state: Arc<Mutex<State>>) {
    let Some((head, body)) = request(&mut client).await else { return };
    let (first, rest) = head.split_once("\r\n").unwrap();
    let mut upstream = TcpStream::connect(server).await.unwrap();
    let again = format!("{first}\r\nconnection: close\r\n{rest}\r\n\r\n{body}");
    upstream.write_all(again.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer).await.unwrap();
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let what = format!("{method} {}", path.split('?').next().unwrap());
    let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    let lost = {
        let mut state = state.lock().unwrap();
        state.carried.push(Carried {
            what: what.clone(),
            key: header(rest, "idempotency-key"),
            authorization: header(rest, "authorization"),
            body,
            answer: text.split("\r\n\r\n").next().unwrap().to_owned(),
        });
        let cut = state.cuts.iter().position(|cut| *cut == what);
        cut.map(|at| state.cuts.remove(at)).is_some()
    };
    if !lost {
        // The client may have gone away meanwhile.
        let _ = client.write_all(&answer).await;
    }
}

async fn request(client: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        if client.read_buf(&mut bytes).await.unwrap() == 0 {
            return None;
        }
        let text = String::from_utf8(bytes.clone()).unwrap();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length").map_or(0, |n| n.parse().unwrap());
            if body.len() >= length {
                return Some((head.to_owned(), body.to_owned()));
            }
        }
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}
