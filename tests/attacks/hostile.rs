//! Input that is made to keep the verifier busy for ever, to stop it before it has looked, or to let it say more than it has seen.

use std::fs;
use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use writ::audit::tree::{Edge, Hash};
use writ::audit::{SignedHead, head_line};
use writ::domain::time::Timestamp;

use super::Attack;
use super::bundle::{lines, receipt, relist, whole, write_lines};
use super::log::other_key;
use super::scene::{Scene, edit, first, latest, must, now, put_head};
use crate::cli::support::writ;

pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "remove the head file",
        play: no_head_file,
    },
    Attack {
        name: "put an empty log in its place, under anybody's head",
        play: empty_log,
    },
    Attack {
        name: "anchor a log by a head over no events",
        play: empty_anchor,
    },
    Attack {
        name: "bring a case without events and list the files anew",
        play: empty_case,
    },
    Attack {
        name: "name a range that has no events and list the files anew",
        play: empty_range,
    },
    Attack {
        name: "change an event and let it be of a newer version",
        play: newer_version,
    },
    Attack {
        name: "change a node of the tree to another length",
        play: short_node,
    },
    Attack {
        name: "put an opening there whose commitment is none",
        play: odd_opening,
    },
    Attack {
        name: "make a line longer than any event",
        play: long_line,
    },
    Attack {
        name: "count up to the largest number there is",
        play: largest_numbers,
    },
    Attack {
        name: "bring a head over more events than there could be, and nothing else",
        play: large_heads,
    },
    Attack {
        name: "bring a head over many events with a tile far behind",
        play: far_tile,
    },
    Attack {
        name: "put a device, a pipe or a link in the place of a file",
        play: no_files,
    },
    Attack {
        name: "anchor the lines of a bundle by its own checkpoint",
        play: own_anchor,
    },
    Attack {
        name: "print a head that nobody signed among those of the log",
        play: noisy_lines,
    },
    Attack {
        name: "tear a place of the head file so that it still reads",
        play: torn_head_file,
    },
    Attack {
        name: "ask a receipt for a case, and a log for the event of a receipt",
        play: asked_in_vain,
    },
    Attack {
        name: "drown what was found in findings about the index",
        play: many_findings,
    },
];

fn no_head_file(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    fs::remove_file(copy.path("data/writ.head")).unwrap();
    must(&copy.own(&[]), 3, "the log has had one since its first head")
}

/// A head over nothing, by a key of the attacker's own.
fn nothing(db: &Connection) -> SignedHead {
    let root = Edge::default().root().unwrap();
    SignedHead::sign(0, root, &[&other_key(db)]).unwrap()
}

fn emptied(db: &Connection, head: &SignedHead) {
    db.execute_batch("DELETE FROM event; DELETE FROM node").unwrap();
    put_head(db, 0, head.text());
}

fn empty_log(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    copy.attack(|db| emptied(db, &nothing(db)));
    must(&scene.verify(&copy.database(), &[]), 2, "none of the trusted keys has signed it")?;
    let dir = copy.path("bundle");
    fs::create_dir(&dir).unwrap();
    let db = Connection::open(copy.database()).unwrap();
    fs::write(dir.join("checkpoint"), latest(&db).text()).unwrap();
    must(&scene.verify(&dir, &[]), 2, "none of the trusted keys has signed it")
}

fn empty_anchor(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    let head = SignedHead::sign(0, Edge::default().root().unwrap(), &[&copy.stolen_key()]).unwrap();
    let kept = copy.path("nothing.checkpoint");
    fs::write(&kept, head.text()).unwrap();
    let kept = kept.to_str().unwrap();
    must(
        &scene.verify(&copy.database(), &["--against", kept]),
        0,
        "SELF-CONSISTENT, NOT ANCHORED",
    )?;
    let (witnessed, _) = head.cosigned(&scene.witness.line(&head, now()), &scene.witness.key).unwrap();
    copy.attack(|db| {
        let plain = fs::read_to_string(scene.path("old.checkpoint")).unwrap();
        let size = latest(db).size() as i64;
        db.execute("UPDATE checkpoint SET note = ?1 WHERE size = ?2", (plain, size))
            .unwrap();
        db.execute("DELETE FROM checkpoint WHERE size < ?1", [size]).unwrap();
        let sql = "INSERT INTO checkpoint (size, at, kept, note) VALUES (0, 0, 1, ?1)";
        db.execute(sql, [witnessed.text()]).unwrap();
    });
    must(
        &scene.verify(&copy.database(), &["--witness", &scene.witness.key.to_string()]),
        3,
        "no head of it has the signatures",
    )
}

fn empty_case(scene: &Scene) -> Result<(), String> {
    let (_temp, dir) = scene.copy_of("case");
    fs::write(dir.join("events.jsonl"), "").unwrap();
    fs::remove_dir_all(dir.join("proofs")).unwrap();
    relist(&dir, 0);
    must(
        &scene.verify(&dir, &["--case", "case-1"]),
        4,
        "no event of the case case-1 is there",
    )
}

fn empty_range(scene: &Scene) -> Result<(), String> {
    let (_temp, dir) = scene.copy_of("range");
    fs::write(dir.join("events.jsonl"), "").unwrap();
    for (from, to) in [("9", "3"), ("18446744073709551614", "18446744073709551614"), ("3", "9")] {
        let list = dir.join("MANIFEST.json");
        let mut told: serde_json::Value = serde_json::from_slice(&fs::read(&list).unwrap()).unwrap();
        told["what"]["first"] = from.parse::<u64>().unwrap().into();
        told["what"]["last"] = to.parse::<u64>().unwrap().into();
        fs::write(&list, told.to_string()).unwrap();
        relist(&dir, 0);
        must(&scene.verify(&dir, &[]), 2, "MANIFEST.json contradicts itself").map_err(|why| format!("{from} to {to}: {why}"))?;
    }
    Ok(())
}

fn newer_version(scene: &Scene) -> Result<(), String> {
    for version in ["9", "900"] {
        let version = format!("\"v\":{version}");
        let copy = scene.copy();
        copy.attack(|db| edit(db, 4, "\"v\":2", &version));
        must(
            &scene.verify(&copy.database(), &["--state"]),
            2,
            "event 4 does not have the hash that the tree has for it",
        )?;
        for name in ["range", "case"] {
            let (_temp, dir) = scene.copy_of(name);
            let mut lines = lines(&dir);
            lines[2] = lines[2].replace("\"v\":2", &version);
            write_lines(&dir, &lines);
            relist(&dir, lines.len() as u64);
            must(&scene.verify(&dir, &[]), 2, "TAMPERED")?;
        }
    }
    Ok(())
}

fn short_node(scene: &Scene) -> Result<(), String> {
    for (node, says) in [(2, "node 2 of the tree"), (3, "event 2 does not have the hash")] {
        let copy = scene.copy();
        copy.attack(|db| {
            db.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
            assert_eq!(db.execute("UPDATE node SET h = x'00' WHERE i = ?1", [node]).unwrap(), 1);
        });
        must(&scene.verify(&copy.database(), &[]), 2, says)?;
    }
    Ok(())
}

fn odd_opening(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    copy.attack(|db| {
        db.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
        let sql = "INSERT INTO opening (seq, field, digest, subject, sealed) VALUES (?1, 'odd', ?2, ?2, ?2)";
        db.execute(sql, (first(db, "draft.propose") as i64, &[0_u8][..])).unwrap();
        db.execute("UPDATE opening SET subject = x'00' WHERE field <> 'odd'", []).unwrap();
    });
    must(&scene.verify(&copy.database(), &["--openings"]), 4, "which has no such commitment")
}

fn long_line(scene: &Scene) -> Result<(), String> {
    let (_temp, dir) = scene.copy_of("range");
    let mut lines = lines(&dir);
    lines[2].push_str(&" ".repeat(1 << 20));
    write_lines(&dir, &lines);
    relist(&dir, lines.len() as u64);
    must(&scene.verify(&dir, &[]), 2, "event 5 does not have the hash")?;
    let (_temp, dir) = scene.copy_of("case");
    // A file that is nothing but length: it must not be read to its end.
    let file = fs::File::options().write(true).open(dir.join("events.jsonl")).unwrap();
    file.set_len(1 << 43).unwrap();
    must(&scene.verify(&dir, &[]), 2, "TAMPERED")
}

/// Puts something else into an event, whatever stands there.
fn rewritten(db: &Connection, seq: u64, change: impl FnOnce(&mut serde_json::Value)) {
    let body: String = db
        .query_row("SELECT body FROM event WHERE seq = ?1", [seq as i64], |row| row.get(0))
        .unwrap();
    let mut event: serde_json::Value = serde_json::from_str(&body).unwrap();
    change(&mut event);
    db.execute("UPDATE event SET body = ?2 WHERE seq = ?1", (seq as i64, event.to_string()))
        .unwrap();
}

fn largest_numbers(scene: &Scene) -> Result<(), String> {
    let changed = |says: &str, change: fn(&mut serde_json::Value)| {
        let copy = scene.copy();
        copy.attack(|db| rewritten(db, first(db, "draft.propose"), change));
        must(&scene.verify(&copy.database(), &["--state", "--openings"]), 2, says)
    };
    changed("which no process reaches", |event| event["writer"]["n"] = u64::MAX.into())?;
    changed("events of the case are missing", |event| event["case"]["n"] = u64::MAX.into())?;
    changed("which it pruned", |event| {
        event["type"] = "retention.pruned".into();
        event["pruned"] = serde_json::json!({ "from": 0, "to": u64::MAX, "root": "A" });
    })?;
    changed("which it pruned", |event| {
        event["type"] = "retention.pruned".into();
        event["pruned"] = serde_json::json!({ "from": 0, "to": u64::MAX - 2, "root": "A" });
    })?;
    // A receipt under a root that nobody signed, over as many events as there are numbers.
    let (_temp, path, event) = receipt(scene);
    let text = fs::read_to_string(&path).unwrap();
    let (proof, _) = text.split_once("\n\n").unwrap();
    for size in [u64::MAX, 1 << 62, 3] {
        let head = unsigned(scene, size);
        fs::write(&path, format!("{proof}\n\n{}", head.text())).unwrap();
        must(&scene.verify(path.as_ref(), &["--event", &event]), 2, "TAMPERED")?;
    }
    Ok(())
}

/// A head that only the attacker has signed.
fn unsigned(scene: &Scene, size: u64) -> SignedHead {
    let db = Connection::open(scene.early.path().join("writ.db")).unwrap();
    SignedHead::sign(size, Hash([7; 32]), &[&other_key(&db)]).unwrap()
}

fn large_heads(scene: &Scene) -> Result<(), String> {
    let temp = tempfile::tempdir().unwrap();
    for (size, code) in [(u64::MAX, 2), (1 << 62, 2), (1 << 48, 4), (1 << 40, 4)] {
        fs::write(temp.path().join("checkpoint"), unsigned(scene, size).text()).unwrap();
        must(&scene.verify(temp.path(), &[]), code, &size.to_string())?;
    }
    let copy = scene.copy();
    copy.attack(|db| put_head(db, i64::MAX as u64, unsigned(scene, u64::MAX).text()));
    must(&scene.verify(&copy.database(), &[]), 2, "more than any log has")
}

fn far_tile(scene: &Scene) -> Result<(), String> {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("checkpoint"), unsigned(scene, 1 << 48).text()).unwrap();
    for tile in ["tile/0/000", "tile/entries/x999/x999/999"] {
        let path = temp.path().join(tile);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, [0; 8192]).unwrap();
    }
    must(&scene.verify(temp.path(), &[]), 4, "what follows cannot be verified")
}

fn no_files(scene: &Scene) -> Result<(), String> {
    let pipe = |at: &Path| assert!(Command::new("mkfifo").arg(at).status().unwrap().success());
    let link = |at: &Path| std::os::unix::fs::symlink("/dev/zero", at).unwrap();
    for put in [&pipe as &dyn Fn(&Path), &link] {
        for name in [
            "MANIFEST.json",
            "MANIFEST.sha256",
            "events.jsonl",
            "old-checkpoints/20",
            "proofs",
            "checkpoint",
        ] {
            let (_temp, dir) = scene.copy_of("case");
            let at = dir.join(name);
            if name == "proofs" {
                fs::remove_dir_all(&at).unwrap();
            } else {
                drop(fs::remove_file(&at));
            }
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            put(&at);
            let ran = scene.verify(&dir, &[]);
            // Without a checkpoint it is no bundle.
            let is_refused = if name == "checkpoint" {
                ran.code == Some(1)
            } else {
                matches!(ran.code, Some(2 | 4))
            };
            if !is_refused {
                return Err(format!("{name}: {:?}\n{}{}", ran.code, ran.out, ran.err));
            }
        }
    }
    let (_temp, dir) = scene.copy_of("case");
    fs::remove_file(dir.join("MANIFEST.sha256")).unwrap();
    fs::remove_file(dir.join("MANIFEST.json")).unwrap();
    link(&dir.join("MANIFEST.json"));
    must(&scene.verify(&dir, &[]), 4, "MANIFEST.json is missing")
}

fn own_anchor(scene: &Scene) -> Result<(), String> {
    let (_copy, dir, _) = whole(scene);
    let own = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    fs::copy(scene.path("log.pub"), own("keys.txt")).unwrap();
    let lines = own("events.jsonl");
    must(
        &scene.verify(lines.as_ref(), &["--against", &own("checkpoint")]),
        1,
        "proves nothing",
    )?;
    let kept = scene.path("old.checkpoint");
    must(
        &writ(&["audit", "verify", &lines, "--trust", &own("keys.txt"), "--against", &kept]),
        1,
        "proves nothing",
    )?;
    must(&scene.verify(lines.as_ref(), &["--against", &kept]), 0, "VERIFIED, ANCHORED")?;
    let case = scene.path("case");
    let mut proofs: Vec<_> = fs::read_dir(format!("{case}/proofs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    proofs.sort();
    let (_temp, _, event) = receipt(scene);
    let against = format!("{case}/checkpoint");
    must(
        &scene.verify(proofs.last().unwrap(), &["--event", &event, "--against", &against]),
        1,
        "proves nothing",
    )?;
    must(
        &scene.verify(proofs.last().unwrap(), &["--event", &event, "--against", &kept]),
        0,
        "VERIFIED, ANCHORED",
    )
}

/// What a collector has, with something that anybody may have printed before it.
fn noisy_lines(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    let head = latest(&Connection::open(copy.database()).unwrap());
    let at = Timestamp::from_seconds(1_790_000_000);
    let good = head_line(&head, at);
    let forged = format!("x {}", good.replacen(&format!(" {} ", head.size()), " 99999 ", 1));
    let printed = copy.path("printed");
    let verify = |text: &[u8], what: &Path| {
        fs::write(&printed, text).unwrap();
        scene.verify(what, &["--against", printed.to_str().unwrap()])
    };
    let noisy = [
        forged.as_bytes(),
        b"\n\0\xff\n",
        forged.as_bytes(),
        b" ",
        good.as_bytes(),
        b"\n\xff\n",
    ]
    .concat();
    must(&verify(&noisy, &copy.database()), 0, "VERIFIED, ANCHORED")?;
    let (_copy, dir, _) = whole(scene);
    must(&verify(&noisy, &dir.join("events.jsonl")), 0, "VERIFIED, ANCHORED")?;
    must(&verify(&noisy, &dir), 0, "VERIFIED, ANCHORED")?;
    must(&verify(&noisy, scene.path("case").as_ref()), 0, "VERIFIED, ANCHORED")?;
    // Alone it is an alarm, and so is one of another history that is signed, however small it is.
    must(&verify(forged.as_bytes(), &copy.database()), 2, "does not verify")?;
    let other = SignedHead::sign(5, Hash([7; 32]), &[&copy.stolen_key()]).unwrap();
    let forked = format!("{forged}\n{good}\n{}\n", head_line(&other, at));
    must(
        &verify(forked.as_bytes(), &copy.database()),
        3,
        "another history of the first 5 events",
    )
}

fn torn_head_file(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    let head = latest(&Connection::open(copy.database()).unwrap());
    let torn = head.text().replacen(&format!("\n{}\n", head.size()), "\n99999\n", 1);
    let mut bytes = torn.into_bytes();
    bytes.resize(4096, 0);
    bytes.extend_from_slice(head.text().as_bytes());
    bytes.resize(8192, 0);
    fs::write(copy.path("data/writ.head"), bytes).unwrap();
    must(&copy.own(&[]), 0, "VERIFIED, ANCHORED")
}

fn asked_in_vain(scene: &Scene) -> Result<(), String> {
    let (_temp, path, event) = receipt(scene);
    must(
        &scene.verify(path.as_ref(), &["--event", &event, "--case", "case-9"]),
        1,
        "--case needs a database",
    )?;
    for what in [scene.path("case"), scene.path("range")] {
        must(&scene.verify(what.as_ref(), &["--event", &event]), 1, "--event goes with a receipt")?;
    }
    must(
        &scene.verify(&scene.copy().database(), &["--event", &event]),
        1,
        "--event goes with a receipt",
    )
}

fn many_findings(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    copy.attack(|db| {
        db.execute("UPDATE event SET actor = 'nobody'", []).unwrap();
    });
    let ran = scene.verify(&copy.database(), &["--index"]);
    must(&ran, 2, "more findings")?;
    let told = ran.out.lines().filter(|line| line.contains("is not found by what it says")).count();
    if told > 10 {
        Err(format!("{told} findings one by one"))
    } else {
        Ok(())
    }
}
