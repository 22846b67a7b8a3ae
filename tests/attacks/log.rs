//! Attacks on the events, the tree and the heads in the database.

use rusqlite::Connection;
use writ::app::SystemEntropy;
use writ::audit::{LogKey, SignedHead};

use super::Attack;
use super::scene::{Copy, Scene, edit, edit_and_chain, first, latest, must, put_head, rebuild, size, tree};
use crate::cli::support::writ;

pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "nothing is done to it, and nothing is found",
        play: untouched,
    },
    Attack {
        name: "edit one event",
        play: edit_one,
    },
    Attack {
        name: "edit an event and rebuild the tree without the key",
        play: edit_and_rebuild,
    },
    Attack {
        name: "edit an event, rebuild, and sign with another key of the same name",
        play: edit_and_sign,
    },
    Attack {
        name: "delete one event",
        play: delete_one,
    },
    Attack {
        name: "delete one event, renumber the rest and rebuild",
        play: delete_and_renumber,
    },
    Attack {
        name: "swap two events",
        play: swap,
    },
    Attack {
        name: "an event that is no text any more",
        play: no_text,
    },
    Attack {
        name: "forge an event at the end",
        play: forge_at_the_end,
    },
    Attack {
        name: "forge an event at the end, with a head by another key",
        play: forge_and_sign,
    },
    Attack {
        name: "change a node of the tree",
        play: change_node,
    },
    Attack {
        name: "delete a node of the tree",
        play: delete_node,
    },
    Attack {
        name: "add nodes past the end of the tree",
        play: add_node,
    },
    Attack {
        name: "delete every head",
        play: delete_heads,
    },
    Attack {
        name: "change the size in the head",
        play: change_head,
    },
    Attack {
        name: "file the head under another size",
        play: refile_head,
    },
    Attack {
        name: "add an older head that nobody signed",
        play: add_head,
    },
    Attack {
        name: "change the name of the log in the head",
        play: rename,
    },
    Attack {
        name: "write the past anew with a key that was replaced",
        play: old_key,
    },
    Attack {
        name: "cut the end off and leave the head",
        play: cut_and_leave,
    },
    Attack {
        name: "hide an event from the search by a column",
        play: hide_by_column,
    },
    Attack {
        name: "hide an event from the search by an index that leaves it out",
        play: hide_by_index,
    },
    Attack {
        name: "hide an event by a row that its index does not have",
        play: hide_by_lost_row,
    },
    Attack {
        name: "let a computed column say something else",
        play: redefine_column,
    },
];

fn untouched(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    must(
        &scene.verify(&copy.database(), &["--state", "--index", "--case", "case-1"]),
        0,
        "SELF-CONSISTENT, NOT ANCHORED",
    )?;
    must(&copy.own(&["--state", "--index"]), 0, "VERIFIED, ANCHORED")?;
    must(
        &scene.verify(scene.path("case").as_ref(), &["--case", "case-1"]),
        0,
        "SELF-CONSISTENT, NOT ANCHORED",
    )?;
    must(&scene.verify(scene.path("range").as_ref(), &[]), 0, "SELF-CONSISTENT, NOT ANCHORED")?;
    copy.refuses_to_start("").err().map_or(Err("it must start".to_owned()), |_| Ok(()))
}

fn attacked(scene: &Scene, attack: impl FnOnce(&Connection)) -> Copy {
    let copy = scene.copy();
    copy.attack(attack);
    copy
}

fn found(scene: &Scene, code: i32, says: &str, attack: impl FnOnce(&Connection)) -> Result<(), String> {
    let copy = attacked(scene, attack);
    must(&scene.verify(&copy.database(), &[]), code, says)
}

/// A key of the attacker's own, under the log's name.
pub fn other_key(db: &Connection) -> LogKey {
    LogKey::generate(latest(db).origin(), &SystemEntropy::new()).unwrap().0
}

fn edit_one(scene: &Scene) -> Result<(), String> {
    found(scene, 2, "does not have the hash that the tree has for it", |db| {
        edit(db, first(db, "draft.propose"), "24000", "24001");
    })
}

fn edit_and_rebuild(scene: &Scene) -> Result<(), String> {
    let copy = attacked(scene, |db| {
        edit(db, first(db, "draft.propose"), "24000", "24001");
        rebuild(db, None);
    });
    must(
        &scene.verify(&copy.database(), &[]),
        2,
        "do not have the root that the head over them signs",
    )?;
    copy.refuses_to_start("is not the one that was signed")
}

fn edit_and_sign(scene: &Scene) -> Result<(), String> {
    let copy = attacked(scene, |db| {
        edit(db, first(db, "draft.propose"), "24000", "24001");
        rebuild(db, Some(&other_key(db)));
    });
    must(&scene.verify(&copy.database(), &[]), 2, "none of the trusted keys has signed it")?;
    copy.refuses_to_start("is not the one that was signed")
}

fn delete_one(scene: &Scene) -> Result<(), String> {
    found(scene, 4, "are missing", |db| {
        db.execute("DELETE FROM event WHERE seq = 4", []).unwrap();
    })
}

fn delete_and_renumber(scene: &Scene) -> Result<(), String> {
    found(scene, 2, "says that it is event", |db| {
        db.execute("DELETE FROM event WHERE seq = 4", []).unwrap();
        for seq in 5..=size(db) as i64 {
            db.execute("UPDATE event SET seq = ?1 - 1 WHERE seq = ?1", [seq]).unwrap();
        }
        rebuild(db, None);
    })
}

fn swap(scene: &Scene) -> Result<(), String> {
    found(scene, 2, "says that it is event", |db| {
        let body = |seq: i64| -> String {
            db.query_row("SELECT body FROM event WHERE seq = ?1", [seq], |row| row.get(0))
                .unwrap()
        };
        let (one, two) = (body(4), body(5));
        db.execute("UPDATE event SET body = ?1 WHERE seq = 4", [two]).unwrap();
        db.execute("UPDATE event SET body = ?1 WHERE seq = 5", [one]).unwrap();
    })
}

fn no_text(scene: &Scene) -> Result<(), String> {
    found(scene, 2, "is no event of this program", |db| {
        db.execute("UPDATE event SET body = '[]' WHERE seq = 4", []).unwrap();
    })
}

/// Puts an event of its own at the end, like the last one.
pub fn forge(db: &Connection) {
    let next = size(db) as i64;
    let sql = "INSERT INTO event (seq, id, at, type, actor, draft, execution, body)
        SELECT ?1, 'evt_ffffffffffffffffffffffffffffffff', at, type, actor, draft, execution,
            json_set(body, '$.seq', ?1, '$.id', 'evt_ffffffffffffffffffffffffffffffff') FROM event WHERE seq = ?1 - 1";
    assert_eq!(db.execute(sql, [next]).unwrap(), 1);
}

fn forge_at_the_end(scene: &Scene) -> Result<(), String> {
    let copy = attacked(scene, forge);
    must(&scene.verify(&copy.database(), &[]), 2, "are under no signed head")?;
    copy.refuses_to_start("under no head that the key of the log has signed")
}

fn forge_and_sign(scene: &Scene) -> Result<(), String> {
    let copy = attacked(scene, |db| {
        forge(db);
        rebuild(db, Some(&other_key(db)));
    });
    must(&scene.verify(&copy.database(), &[]), 2, "none of the trusted keys has signed it")?;
    copy.refuses_to_start("under no head that the key of the log has signed")
}

fn change_node(scene: &Scene) -> Result<(), String> {
    // Number 2 is the first that stands above two events.
    found(scene, 2, "node 2 of the tree", |db| {
        db.execute("UPDATE node SET h = zeroblob(32) WHERE i = 2", []).unwrap();
    })
}

fn delete_node(scene: &Scene) -> Result<(), String> {
    found(scene, 4, "node 2 of the tree, above event 1, is missing", |db| {
        db.execute("DELETE FROM node WHERE i = 2", []).unwrap();
    })
}

fn add_node(scene: &Scene) -> Result<(), String> {
    found(scene, 2, "the tree has nodes past its", |db| {
        db.execute("INSERT INTO node (i, h) VALUES (100000, zeroblob(32))", []).unwrap();
    })
}

fn delete_heads(scene: &Scene) -> Result<(), String> {
    let copy = attacked(scene, |db| {
        db.execute("DELETE FROM checkpoint", []).unwrap();
    });
    must(&scene.verify(&copy.database(), &[]), 2, "there is no signed head")
}

fn change_head(scene: &Scene) -> Result<(), String> {
    found(scene, 2, "does not verify", |db| {
        let head = latest(db);
        let less = head.size() - 1;
        db.execute("DELETE FROM event WHERE seq = ?1", [less as i64]).unwrap();
        rebuild(db, None);
        let root = tree(db, less, |_, _| ()).root().unwrap();
        let text = head.text().replacen(&format!("\n{}\n", head.size()), &format!("\n{less}\n"), 1);
        put_head(db, less, &text.replacen(&head.root().to_string(), &root.to_string(), 1));
    })
}

fn refile_head(scene: &Scene) -> Result<(), String> {
    found(scene, 2, "is filed under", |db| {
        db.execute(
            "UPDATE checkpoint SET size = size - 1 WHERE size = (SELECT max(size) FROM checkpoint)",
            [],
        )
        .unwrap();
    })
}

fn add_head(scene: &Scene) -> Result<(), String> {
    found(scene, 2, "the head over 20 events before it is signed by no trusted key", |db| {
        let root = tree(db, 20, |_, _| ()).root().unwrap();
        let head = SignedHead::sign(20, root, &[&other_key(db)]).unwrap();
        let sql = "INSERT INTO checkpoint (size, at, kept, note) VALUES (20, 0, 1, ?1)";
        db.execute(sql, [head.text()]).unwrap();
    })
}

fn rename(scene: &Scene) -> Result<(), String> {
    found(scene, 2, "is the head of `other.example/audit`", |db| {
        let head = latest(db);
        let text = head.text().replace(head.origin().as_str(), "other.example/audit");
        db.execute("UPDATE checkpoint SET note = ?1 WHERE size = ?2", (text, head.size() as i64))
            .unwrap();
    })
}

fn old_key(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    let old = copy.stolen_key();
    writ(&["keys", "rotate", "--log", "--config", &copy.config()]).ok();
    let trust = copy.path("keys/log.pub");
    let verify = || {
        writ(&[
            "audit",
            "verify",
            copy.database().to_str().unwrap(),
            "--trust",
            trust.to_str().unwrap(),
        ])
    };
    must(&verify(), 0, "SELF-CONSISTENT, NOT ANCHORED")?;
    // Who believes the first key learns the second from the log.
    must(&scene.verify(&copy.database(), &[]), 0, "SELF-CONSISTENT, NOT ANCHORED")?;
    copy.attack(|db| {
        edit_and_chain(db, first(db, "draft.propose"), "24000", "24001");
        rebuild(db, Some(&old));
    });
    must(&verify(), 2, "which has not signed it")?;
    must(&scene.verify(&copy.database(), &[]), 2, "which has not signed it")
}

fn cut_and_leave(scene: &Scene) -> Result<(), String> {
    let copy = attacked(scene, |db| {
        db.execute("DELETE FROM event WHERE seq > 20", []).unwrap();
    });
    must(&scene.verify(&copy.database(), &[]), 4, "are missing")?;
    copy.refuses_to_start("was taken back")
}

fn hidden(scene: &Scene, says: &str, attack: impl FnOnce(&Connection)) -> Result<(), String> {
    let copy = attacked(scene, attack);
    // The bytes are what was signed: only what finds them is not.
    must(&scene.verify(&copy.database(), &[]), 0, "SELF-CONSISTENT, NOT ANCHORED")?;
    must(&scene.verify(&copy.database(), &["--index"]), 2, says)
}

fn hide_by_column(scene: &Scene) -> Result<(), String> {
    hidden(scene, "is not found by what it says", |db| {
        db.execute("UPDATE event SET draft = NULL WHERE type = 'credential.redeem'", [])
            .unwrap();
    })
}

fn hide_by_index(scene: &Scene) -> Result<(), String> {
    hidden(scene, "the index event_by_type of the schema is not there, or was changed", |db| {
        db.execute_batch("DROP INDEX event_by_type; CREATE INDEX event_by_type ON event (type, seq) WHERE type <> 'credential.redeem'")
            .unwrap();
    })
}

fn hide_by_lost_row(scene: &Scene) -> Result<(), String> {
    hidden(scene, "missing from index event_by_type", |db| {
        let sql: String = db
            .query_row("SELECT sql FROM sqlite_schema WHERE name = 'event_by_type'", [], |row| row.get(0))
            .unwrap();
        db.execute_batch("DROP INDEX event_by_type; CREATE INDEX event_by_type ON event (type, seq) WHERE type <> 'credential.redeem'")
            .unwrap();
        db.execute_batch("PRAGMA writable_schema = ON").unwrap();
        db.execute("UPDATE sqlite_schema SET sql = ?1 WHERE name = 'event_by_type'", [sql])
            .unwrap();
        db.execute_batch("PRAGMA writable_schema = RESET").unwrap();
    })
}

fn redefine_column(scene: &Scene) -> Result<(), String> {
    hidden(scene, "the table event of the schema is not there, or was changed", |db| {
        db.execute_batch("PRAGMA writable_schema = ON").unwrap();
        let changed = db
            .execute(
                "UPDATE sqlite_schema SET sql = replace(sql, '$.case_id', '$.no_case') WHERE name = 'event' AND instr(sql, '$.case_id') > 0",
                [],
            )
            .unwrap();
        assert_eq!(changed, 1);
        db.execute_batch("PRAGMA writable_schema = RESET").unwrap();
    })
}
