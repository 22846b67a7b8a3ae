//! A log that real processes wrote, what people kept of it outside, and copies to be attacked.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;
use writ::audit::tree::{Edge, leaf_hash};
use writ::audit::{LogKey, SignedHead, VerifierKey};
use writ::domain::secret::Secret;

use crate::cli::support::{Ran, Running, http, writ};
use crate::support::vandal::without_guards;

/// The log and what was kept.
pub struct Scene {
    pub run: Running,
    /// The working directory as the processes left it.
    dir: PathBuf,
    /// A whole copy from the middle of the day: a backup.
    pub early: TempDir,
    /// What people keep outside.
    kept: TempDir,
    pub witness: Witness,
}

/// A witness that signs what it is shown.
pub struct Witness {
    pair: Ed25519KeyPair,
    pub key: VerifierKey,
}

impl Witness {
    fn new() -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap();
        let public = pair.public_key().as_ref().try_into().unwrap();
        let key = VerifierKey::witness("witness.example/w1".parse().unwrap(), public);
        Self { pair, key }
    }

    /// Its line under a head, C2SP tlog-cosignature.
    pub fn line(&self, head: &SignedHead, at: u64) -> String {
        let (body, _) = head.text().rsplit_once("\n\n").unwrap();
        let message = format!("cosignature/v1\ntime {at}\n{body}\n");
        let signature = self.pair.sign(message.as_bytes());
        let blob = [&self.key.id().to_be_bytes()[..], &at.to_be_bytes(), signature.as_ref()].concat();
        format!("\u{2014} {} {}\n", self.key.name(), STANDARD.encode(blob))
    }
}

/// Seconds since the epoch, by the machine's clock.
pub fn now() -> u64 {
    use writ::domain::clock::Clock as _;
    u64::try_from(writ::app::SystemClock.now().seconds()).unwrap()
}

/// Copies a directory as it is.
fn copied(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

impl Scene {
    /// A day: a refund that is approved, spent and sent, others that wait, a stop, somebody registered; in the middle of it a backup.
    pub fn new() -> Self {
        let run = Running::new();
        let work = &run.work;
        work.run(&["client", "add", "old-desk", "--role", "auditor"]).ok();
        work.run(&["client", "revoke", "old-desk"]).ok();
        let draft = run.held();
        let mia = work.text("approvers/usr_mia.pem");
        work.run(&["approve", &draft, "--key", &mia, "--reason", "fine"]).ok();
        let early = tempfile::tempdir().unwrap();
        let witness = Witness::new();
        // The store keeps one head a minute, so the backup is made through it, like an operator's.
        work.run(&["store", "backup", early.path().join("writ.db").to_str().unwrap()]).ok();
        let token = run.credential(&draft);
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let body = json!({ "draft_id": draft }).to_string();
        let (status, answer) = http(&run.server.url, "POST", "/v1/executions?wait=10", &headers, &body);
        assert_eq!(status, 200, "{answer}");
        let waits = run.proposed(15_100);
        work.run(&["approve", &waits, "--key", &mia, "--reason", "fine"]).ok();
        run.credential(&waits);
        run.proposed(15_200);
        work.run(&["stop", "--draft", &waits, "--reason", "looks odd"]).ok();
        run.server.signal("TERM");
        let kept = tempfile::tempdir().unwrap();
        let dir = work.path("");
        let scene = Self {
            dir,
            early,
            kept,
            witness,
            run,
        };
        scene.keep();
        scene
    }

    /// What people keep: the head file, a checkpoint, a receipt, and the witness's signature, which the broker writes down under its head.
    fn keep(&self) {
        let db = self.dir.join("data/writ.db");
        // The server writes until it is gone.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while self.answers() {
            assert!(std::time::Instant::now() < deadline, "the server does not end");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let trust = self.path("log.pub");
        std::fs::copy(self.dir.join("keys/log.pub"), &trust).unwrap();
        std::fs::copy(self.dir.join("data/writ.head"), self.path("writ.head")).unwrap();
        let connection = Connection::open(&db).unwrap();
        let head = latest(&connection);
        std::fs::write(self.path("old.checkpoint"), head.text()).unwrap();
        let (witnessed, _) = head.cosigned(&self.witness.line(&head, now()), &self.witness.key).unwrap();
        let told = connection.execute(
            "UPDATE checkpoint SET note = ?1 WHERE size = ?2",
            (witnessed.text(), head.size() as i64),
        );
        assert_eq!(told.unwrap(), 1);
        std::fs::write(self.path("witnessed.checkpoint"), witnessed.text()).unwrap();
        drop(connection);
        let out = self.path("case");
        let db = db.to_str().unwrap();
        writ(&[
            "audit", "export", "--db", db, "--case", "case-1", "--format", "bundle", "--out", &out,
        ])
        .ok();
        let mut receipts: Vec<_> = std::fs::read_dir(format!("{out}/proofs"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        receipts.sort();
        std::fs::copy(receipts.last().unwrap(), self.path("receipt.tlog-proof")).unwrap();
        let range = self.path("range");
        writ(&[
            "audit", "export", "--db", db, "--range", "3..9", "--format", "bundle", "--out", &range,
        ])
        .ok();
    }

    fn answers(&self) -> bool {
        std::net::TcpStream::connect(self.run.server.url.strip_prefix("http://").unwrap()).is_ok()
            || Path::new(&format!("/proc/{}/fd", self.run.server.id()))
                .read_dir()
                .is_ok_and(|mut files| files.next().is_some())
    }

    /// A file that was kept outside.
    pub fn path(&self, name: &str) -> String {
        self.kept.path().join(name).to_str().unwrap().to_owned()
    }

    /// A copy of the working directory to be attacked.
    pub fn copy(&self) -> Copy {
        let temp = tempfile::tempdir().unwrap();
        copied(&self.dir, &temp.path().join("work"));
        Copy { temp }
    }

    /// A copy of something that was kept outside, such as a bundle.
    pub fn copy_of(&self, name: &str) -> (TempDir, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        copied(Path::new(&self.path(name)), &temp.path().join(name));
        let path = temp.path().join(name);
        (temp, path)
    }

    /// What the verifier says to somebody who has the log's public key and nothing else, with these arguments.
    pub fn verify(&self, what: &Path, more: &[&str]) -> Ran {
        let trust = self.path("log.pub");
        writ(&[&["audit", "verify", what.to_str().unwrap(), "--trust", &trust], more].concat())
    }
}

/// The latest head in a database.
pub fn latest(connection: &Connection) -> SignedHead {
    let text: String = connection
        .query_row("SELECT note FROM checkpoint ORDER BY size DESC LIMIT 1", [], |row| row.get(0))
        .unwrap();
    SignedHead::read(&text).unwrap()
}

/// Whether it ended with this code and said this.
pub fn must(ran: &Ran, code: i32, says: &str) -> Result<(), String> {
    if ran.code == Some(code) && (ran.out.contains(says) || ran.err.contains(says)) {
        return Ok(());
    }
    Err(format!("expected {code} and `{says}`, got {:?}:\n{}{}", ran.code, ran.out, ran.err))
}

/// A working directory that is attacked.
pub struct Copy {
    temp: TempDir,
}

impl Copy {
    pub fn path(&self, below: &str) -> PathBuf {
        self.temp.path().join("work").join(below)
    }

    pub fn database(&self) -> PathBuf {
        self.path("data/writ.db")
    }

    pub fn config(&self) -> String {
        self.path("writ.toml").to_str().unwrap().to_owned()
    }

    /// Changes the database without its guards, and puts these back: an attacker leaves no traces that he can avoid.
    pub fn attack(&self, attack: impl FnOnce(&Connection)) {
        let connection = Connection::open(self.database()).unwrap();
        without_guards(&connection, attack);
    }

    /// What the operator's own look says.
    pub fn own(&self, more: &[&str]) -> Ran {
        writ(&[&["audit", "verify", "--config", &self.config()], more].concat())
    }

    /// The log's private key, which whoever has the working directory has.
    pub fn stolen_key(&self) -> LogKey {
        LogKey::parse(&Secret::new(std::fs::read_to_string(self.path("keys/log.key")).unwrap())).unwrap()
    }

    /// The broker does not start on it, and says this.
    pub fn refuses_to_start(&self, says: &str) -> Result<(), String> {
        // A command opens the store just as a server does.
        must(&writ(&["client", "list", "--config", &self.config()]), 1, says)
    }
}

/// The tree over whatever the events are now, up to so many.
pub fn tree(connection: &Connection, size: u64, mut grown: impl FnMut(u64, [u8; 32])) -> Edge {
    let mut statement = connection.prepare("SELECT body FROM event ORDER BY seq LIMIT ?1").unwrap();
    let rows = statement.query_map([size as i64], |row| row.get::<_, String>(0)).unwrap();
    let mut edge = Edge::default();
    for body in rows.map(Result::unwrap) {
        for (index, hash) in edge.push(leaf_hash(body.as_bytes())).unwrap() {
            grown(index, hash.0);
        }
    }
    edge
}

/// Puts a head in the place of all there are.
pub fn put_head(connection: &Connection, size: u64, text: &str) {
    connection.execute("DELETE FROM checkpoint", []).unwrap();
    let sql = "INSERT INTO checkpoint (size, at, kept, note) VALUES (?1, 0, 0, ?2)";
    connection.execute(sql, (size as i64, text)).unwrap();
}

/// Makes the tree anew over whatever the events are now, and puts a head over it that this key signs, if there is one.
pub fn rebuild(connection: &Connection, key: Option<&LogKey>) {
    connection.execute("DELETE FROM node", []).unwrap();
    let edge = tree(connection, u64::MAX >> 1, |index, hash| {
        connection
            .execute("INSERT INTO node (i, h) VALUES (?1, ?2)", (index as i64, &hash[..]))
            .unwrap();
    });
    let Some(key) = key else { return };
    let head = SignedHead::sign(edge.size(), edge.root().unwrap(), &[key]).unwrap();
    put_head(connection, edge.size(), head.text());
}

/// Changes the text of one event.
pub fn edit(connection: &Connection, seq: u64, from: &str, to: &str) {
    let sql = "UPDATE event SET body = replace(body, ?2, ?3) WHERE seq = ?1 AND instr(body, ?2) > 0";
    assert_eq!(connection.execute(sql, (seq as i64, from, to)).unwrap(), 1, "{from}");
}

/// Changes the text of one event, and lets each later one of its case name the one before as it is now: whoever has the key can do that too.
pub fn edit_and_chain(connection: &Connection, seq_to_edit: u64, from: &str, to: &str) {
    let mut statement = connection
        .prepare("SELECT seq, body FROM event WHERE case_id IS NOT NULL ORDER BY seq")
        .unwrap();
    let rows = statement
        .query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
        .unwrap();
    let mut before: Option<(String, String)> = None;
    let hash = |body: &str| writ::domain::digest::Digest::from_bytes(leaf_hash(body.as_bytes()).0).to_string();
    for (seq, body) in rows.map(Result::unwrap).collect::<Vec<_>>() {
        let mut now = before.map_or_else(|| body.clone(), |(was, is)| body.replace(&was, &is));
        if seq as u64 == seq_to_edit {
            assert!(now.contains(from));
            now = now.replace(from, to);
        }
        connection
            .execute("UPDATE event SET body = ?2 WHERE seq = ?1", (seq, &now))
            .unwrap();
        before = Some((hash(&body), hash(&now)));
    }
}

/// The number of the first event of this type.
pub fn first(connection: &Connection, kind: &str) -> u64 {
    let found: i64 = connection
        .query_row("SELECT min(seq) FROM event WHERE type = ?1", [kind], |row| row.get(0))
        .unwrap();
    found as u64
}

/// How many events there are.
pub fn size(connection: &Connection) -> u64 {
    connection
        .query_row("SELECT count(*) FROM event", [], |row| row.get::<_, i64>(0))
        .unwrap() as u64
}
