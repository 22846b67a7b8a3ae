//! Attacks while the broker runs, or before it starts: it signs nothing that it did not write itself.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::json;
use writ::audit::LogKey;

use super::Attack;
use super::log::{forge, other_key};
use super::scene::{Copy, Scene, edit, latest, must, rebuild, size};
use crate::cli::support::{Server, http, writ};
use crate::support::vandal::without_guards;

pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "forge an event for the next commit",
        play: forge_live,
    },
    Attack {
        name: "forge an event with its nodes and a head by another key for the next commit",
        play: forge_signed_live,
    },
    Attack {
        name: "delete the last event under the broker",
        play: delete_live,
    },
    Attack {
        name: "plant a trigger that writes an event with every event",
        play: planted,
    },
    Attack {
        name: "unlink the database under the broker",
        play: unlink,
    },
    Attack {
        name: "put another database in its place",
        play: replace,
    },
    Attack {
        name: "take the head file away",
        play: no_head,
    },
    Attack {
        name: "put a head file by another key in its place",
        play: other_head,
    },
    Attack {
        name: "fill the head file with nothing",
        play: empty_head,
    },
    Attack {
        name: "change an event and take every head away",
        play: no_head_at_all,
    },
    Attack {
        name: "hollow an index out under the broker",
        play: hollow_live,
    },
    Attack {
        name: "hollow an index out before a start",
        play: hollow,
    },
    Attack {
        name: "drop a guard of the schema before a start",
        play: unguarded,
    },
    Attack {
        name: "make the last head in the database unreadable",
        play: unreadable_head,
    },
    Attack {
        name: "append an event under a key that was replaced",
        play: replaced_key,
    },
    Attack {
        name: "append an event under a key that was replaced, with a head file of it",
        play: replaced_key_and_file,
    },
    Attack {
        name: "append an event under a key that was replaced for the next commit",
        play: replaced_key_live,
    },
];

/// A broker on a copy.
struct Live {
    copy: Copy,
    server: Server,
}

fn live(scene: &Scene) -> Live {
    let copy = scene.copy();
    let server = Server::start(&["serve", "--config", &copy.config()]);
    Live { copy, server }
}

impl Live {
    /// Whether the broker takes a draft.
    fn proposes(&self, scene: &Scene) -> (u16, String) {
        let secret = scene.run.work.secret("support-agent");
        let basic = format!(
            "Basic {}",
            base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("support-agent:{secret}"))
        );
        let headers = [("authorization", basic.as_str()), ("content-type", "application/json")];
        let body = json!({
            "operation": "refund.create", "case_id": "case-3", "reason_code": "damaged",
            "parameters": { "charge": writ::sandbox::demo::CHARGE, "amount": 500, "currency": "usd" },
        });
        http(&self.server.url, "POST", "/v1/drafts", &headers, &body.to_string())
    }

    /// The broker refuses, and signs nothing any more.
    fn refuses(&self, scene: &Scene) -> Result<(), String> {
        self.refuses_a_draft(scene)?;
        let ready = http(&self.server.url, "GET", "/readyz", &[], "");
        if ready.0 != 503 {
            return Err(format!("it says that it is ready: {}", ready.1));
        }
        Ok(())
    }

    fn refuses_a_draft(&self, scene: &Scene) -> Result<(), String> {
        let before = self.head();
        let (status, answer) = self.proposes(scene);
        if status != 503 {
            return Err(format!("it answered {status}: {answer}"));
        }
        if self.head() != before {
            return Err("it has signed another head".to_owned());
        }
        Ok(())
    }

    /// The head outside the database.
    fn head(&self) -> Vec<u8> {
        fs::read(self.copy.path("data/writ.head")).unwrap()
    }

    /// Attacks while it runs, once what it does at its start is done.
    fn attack(&self, attack: impl FnOnce(&Connection)) {
        let db = Connection::open(self.copy.database()).unwrap();
        db.busy_timeout(Duration::from_secs(20)).unwrap();
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        attack(&db);
        db.execute_batch("COMMIT").unwrap();
    }
}

fn forge_live(scene: &Scene) -> Result<(), String> {
    let live = live(scene);
    live.attack(forge);
    live.refuses(scene)?;
    must(&scene.verify(&live.copy.database(), &[]), 2, "are under no signed head")
}

fn forge_signed_live(scene: &Scene) -> Result<(), String> {
    let live = live(scene);
    live.attack(|db| {
        without_guards(db, |db| {
            let key = other_key(db);
            forge(db);
            rebuild(db, Some(&key));
        });
    });
    live.refuses(scene)?;
    must(
        &scene.verify(&live.copy.database(), &[]),
        2,
        "none of the trusted keys has signed it",
    )
}

fn delete_live(scene: &Scene) -> Result<(), String> {
    let live = live(scene);
    live.attack(|db| {
        without_guards(db, |db| {
            db.execute("DELETE FROM event WHERE seq = ?1", [size(db) as i64 - 1]).unwrap();
        });
    });
    live.refuses(scene)
}

fn planted(scene: &Scene) -> Result<(), String> {
    let live = live(scene);
    live.attack(|db| {
        db.execute_batch(
            "CREATE TRIGGER more AFTER INSERT ON event WHEN NEW.type <> 'auth.failed' BEGIN
                INSERT INTO event (seq, id, at, type, actor, body) VALUES (NEW.seq + 1, NEW.id || 'x', NEW.at, 'auth.failed', 'x', '{}'); END",
        )
        .unwrap();
    });
    let before = size(&Connection::open(live.copy.database()).unwrap());
    // What writes no event still commits, and signs nothing.
    live.refuses_a_draft(scene)?;
    let after = size(&Connection::open(live.copy.database()).unwrap());
    if before == after {
        Ok(())
    } else {
        Err(format!("{} events were written", after - before))
    }
}

fn unlink(scene: &Scene) -> Result<(), String> {
    let live = live(scene);
    fs::remove_file(live.copy.database()).unwrap();
    live.refuses(scene)
}

fn replace(scene: &Scene) -> Result<(), String> {
    let live = live(scene);
    let other = live.copy.path("other.db");
    fs::copy(scene.early.path().join("writ.db"), &other).unwrap();
    fs::rename(&other, live.copy.database()).unwrap();
    live.refuses(scene)
}

fn no_head(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    fs::remove_file(copy.path("data/writ.head")).unwrap();
    copy.refuses_to_start("head file")
}

/// What is sealed anew must not be what was sealed once.
fn no_head_at_all(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    copy.attack(|db| {
        without_guards(db, |db| {
            edit(db, 5, "\"outcome\":\"ok\"", "\"outcome\":\"denied\"");
            db.execute_batch("DELETE FROM node; DELETE FROM checkpoint").unwrap();
        });
    });
    fs::remove_file(copy.path("data/writ.head")).unwrap();
    copy.refuses_to_start("and no signed head")
}

/// An index that leaves everything out and says nothing of it, so that what it should find does not seem to be there.
fn hollow_out(db: &Connection) {
    let name = "stop_active";
    let sql: String = db
        .query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [name], |row| row.get(0))
        .unwrap();
    db.execute_batch(&format!("DROP INDEX {name}; {sql} AND id IS NULL; PRAGMA writable_schema = ON"))
        .unwrap();
    db.execute("UPDATE sqlite_schema SET sql = ?2 WHERE name = ?1", [name, &sql])
        .unwrap();
    let version: i64 = db.query_row("PRAGMA schema_version", [], |row| row.get(0)).unwrap();
    db.execute_batch(&format!("PRAGMA writable_schema = OFF; PRAGMA schema_version = {}", version + 1))
        .unwrap();
}

/// Everything is stopped, and the stop is hidden.
fn stopped(copy: &Copy) {
    writ(&["stop", "--everything", "--reason", "halt", "--config", &copy.config()]).ok();
}

fn hollow_live(scene: &Scene) -> Result<(), String> {
    let live = live(scene);
    stopped(&live.copy);
    live.attack(hollow_out);
    live.refuses(scene)?;
    for option in ["--state", "--index"] {
        must(&live.copy.own(&[option]), 2, "missing from index stop_active")?;
    }
    Ok(())
}

fn hollow(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    stopped(&copy);
    let db = Connection::open(copy.database()).unwrap();
    hollow_out(&db);
    drop(db);
    copy.refuses_to_start("missing from index stop_active")
}

fn unguarded(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    Connection::open(copy.database())
        .unwrap()
        .execute_batch("DROP TRIGGER event_stays")
        .unwrap();
    copy.refuses_to_start("the trigger event_stays of the schema is not there")
}

fn unreadable_head(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    copy.attack(|db| {
        db.execute(
            "UPDATE checkpoint SET note = 'x' WHERE size = (SELECT max(size) FROM checkpoint)",
            [],
        )
        .unwrap();
    });
    copy.refuses_to_start("is no checkpoint")
}

/// A copy whose log's key was replaced, and the old one.
fn rotated(scene: &Scene) -> (Copy, LogKey) {
    let copy = scene.copy();
    let old = copy.stolen_key();
    writ(&["keys", "rotate", "--log", "--config", &copy.config()]).ok();
    (copy, old)
}

fn append_under(db: &Connection, key: &LogKey) {
    without_guards(db, |db| {
        forge(db);
        rebuild(db, Some(key));
    });
}

const UNDER_NO_HEAD: &str = "under no head that the key of the log has signed";

fn replaced_key(scene: &Scene) -> Result<(), String> {
    let (copy, old) = rotated(scene);
    copy.attack(|db| append_under(db, &old));
    copy.refuses_to_start(UNDER_NO_HEAD)
}

fn replaced_key_and_file(scene: &Scene) -> Result<(), String> {
    let (copy, old) = rotated(scene);
    copy.attack(|db| append_under(db, &old));
    let head = latest(&Connection::open(copy.database()).unwrap());
    slots(&copy.path("data/writ.head"), head.text());
    copy.refuses_to_start(UNDER_NO_HEAD)
}

fn replaced_key_live(scene: &Scene) -> Result<(), String> {
    let (copy, old) = rotated(scene);
    let server = Server::start(&["serve", "--config", &copy.config()]);
    let live = Live { copy, server };
    live.attack(|db| append_under(db, &old));
    live.refuses(scene)
}

fn slots(path: &Path, text: &str) {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(4096, 0);
    fs::write(path, bytes).unwrap();
}

fn other_head(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    let db = Connection::open(copy.database()).unwrap();
    let head = latest(&db);
    let forged = writ::audit::SignedHead::sign(head.size() - 4, head.root(), &[&other_key(&db)]).unwrap();
    drop(db);
    slots(&copy.path("data/writ.head"), forged.text());
    must(&copy.own(&[]), 2, "none of the trusted keys has signed it")?;
    copy.refuses_to_start("holds no head that a key of this log has signed")
}

fn empty_head(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    slots(&copy.path("data/writ.head"), "");
    must(&copy.own(&[]), 1, "it holds no head of a log")?;
    copy.refuses_to_start("holds no head that a key of this log has signed")
}
