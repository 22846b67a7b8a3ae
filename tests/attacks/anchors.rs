//! Attacks that nothing inside a log can show: it is taken back to what it once was, or signed anew with the stolen key. Each passes without an
//! anchor, and is caught with each kind of anchor by itself.

use std::fs;

use rusqlite::Connection;

use super::Anchored;
use super::scene::{Copy, Scene, edit, edit_and_chain, first, must, rebuild, tree};

pub const ATTACKS: &[Anchored] = &[
    Anchored {
        name: "restore an old backup",
        play: restore,
    },
    Anchored {
        name: "cut the end off, under a head of that time",
        play: cut,
    },
    Anchored {
        name: "edit, rebuild and sign with the stolen key",
        play: stolen,
    },
    Anchored {
        name: "delete the end and write another with the stolen key",
        play: other_end,
    },
    Anchored {
        name: "write the whole log anew with the stolen key, head file and all",
        play: all_anew,
    },
];

/// Passes without an anchor; is caught with each.
pub fn caught(scene: &Scene, attack: &Anchored) -> Result<(), String> {
    let copy = (attack.play)(scene);
    let database = copy.database();
    must(&scene.verify(&database, &[]), 0, "SELF-CONSISTENT, NOT ANCHORED")?;
    println!("{}: passes without an anchor (SELF-CONSISTENT, NOT ANCHORED)", attack.name);
    let witness = scene.witness.key.to_string();
    let kept = |name: &str| scene.path(name);
    let kinds: [(&str, Vec<String>); 5] = [
        ("the head file", vec!["--against".to_owned(), kept("writ.head")]),
        ("an old checkpoint", vec!["--against".to_owned(), kept("old.checkpoint")]),
        ("a receipt", vec!["--against".to_owned(), kept("receipt.tlog-proof")]),
        ("an older bundle", vec!["--against".to_owned(), kept("range")]),
        ("a witness", vec!["--witness".to_owned(), witness]),
    ];
    for (kind, arguments) in kinds {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        must(&scene.verify(&database, &arguments), 3, "ROLLED BACK, FORKED OR STALE").map_err(|why| format!("with {kind}: {why}"))?;
        println!("{}: caught with {kind}", attack.name);
        // The anchor is not one that refuses everything.
        let good = scene.copy();
        must(&scene.verify(&good.database(), &arguments), 0, "VERIFIED, ANCHORED")
            .map_err(|why| format!("untouched, with {kind}: {why}"))?;
    }
    Ok(())
}

fn restore(scene: &Scene) -> Copy {
    let copy = scene.copy();
    for more in ["-wal", "-shm"] {
        drop(fs::remove_file(copy.path(&format!("data/writ.db{more}"))));
    }
    fs::copy(scene.early.path().join("writ.db"), copy.database()).unwrap();
    copy.refuses_to_start("was taken back").unwrap();
    copy
}

fn cut(scene: &Scene) -> Copy {
    let early = Connection::open(scene.early.path().join("writ.db")).unwrap();
    let head = super::scene::latest(&early);
    let copy = scene.copy();
    copy.attack(|db| {
        db.execute("DELETE FROM event WHERE seq >= ?1", [head.size() as i64]).unwrap();
        rebuild(db, None);
        assert_eq!(tree(db, head.size(), |_, _| ()).root().unwrap(), head.root());
        super::scene::put_head(db, head.size(), head.text());
    });
    copy.refuses_to_start("was taken back").unwrap();
    copy
}

fn stolen(scene: &Scene) -> Copy {
    let copy = scene.copy();
    let key = copy.stolen_key();
    copy.attack(|db| {
        edit_and_chain(db, first(db, "draft.propose"), "24000", "24001");
        rebuild(db, Some(&key));
    });
    copy.refuses_to_start("is not the one that was signed").unwrap();
    copy
}

fn other_end(scene: &Scene) -> Copy {
    let copy = scene.copy();
    let key = copy.stolen_key();
    copy.attack(|db| {
        edit(db, super::scene::size(db) - 1, "\"outcome\":\"ok\"", "\"outcome\":\"no\"");
        rebuild(db, Some(&key));
    });
    copy
}

fn all_anew(scene: &Scene) -> Copy {
    let copy = stolen(scene);
    let db = Connection::open(copy.database()).unwrap();
    let mut bytes = super::scene::latest(&db).text().as_bytes().to_vec();
    bytes.resize(4096, 0);
    fs::write(copy.path("data/writ.head"), bytes).unwrap();
    // The operator's own look is fooled, and so is the broker: what is kept on the same machine goes with it.
    must(&copy.own(&[]), 0, "VERIFIED, ANCHORED").unwrap();
    copy
}
