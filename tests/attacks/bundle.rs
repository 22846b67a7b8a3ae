//! Attacks on what was carried off: bundles and receipts.

use std::fs;
use std::path::{Path, PathBuf};

use writ::domain::digest::Digest;

use super::Attack;
use super::scene::{Copy, Scene, must};
use crate::cli::audit::files;
use crate::cli::support::writ;

pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "flip one bit of any file of a case's bundle",
        play: flip_case,
    },
    Attack {
        name: "flip one bit of any file of a range's bundle",
        play: flip_range,
    },
    Attack {
        name: "remove any file of a bundle",
        play: remove,
    },
    Attack {
        name: "add a file to a bundle",
        play: add,
    },
    Attack {
        name: "leave an event of a case out and list the files anew",
        play: leave_out,
    },
    Attack {
        name: "put another case's event into a case and list the files anew",
        play: put_in,
    },
    Attack {
        name: "change an event of a range and list the files anew",
        play: edit,
    },
    Attack {
        name: "let lines and tiles of a bundle differ and list the files anew",
        play: differ,
    },
    Attack {
        name: "leave the last events of a range out and list the files anew",
        play: shorten,
    },
    Attack {
        name: "bring the key with the bundle",
        play: own_key,
    },
    Attack {
        name: "change the event of a receipt",
        play: other_event,
    },
    Attack {
        name: "change the number in a receipt",
        play: other_number,
    },
];

/// Changes one bit in the middle of each file in turn.
fn flip(scene: &Scene, name: &str) -> Result<(), String> {
    let (_temp, dir) = scene.copy_of(name);
    for (path, bytes) in files(&dir) {
        // Its last byte, its first, and one between: wherever it is, it shows.
        for at in [0, bytes.len() / 2, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            fs::write(dir.join(&path), changed).unwrap();
            let ran = scene.verify(&dir, &[]);
            if ran.code != Some(2) {
                return Err(format!("{path} at {at}: {:?}\n{}{}", ran.code, ran.out, ran.err));
            }
        }
        fs::write(dir.join(&path), bytes).unwrap();
    }
    must(&scene.verify(&dir, &[]), 0, "SELF-CONSISTENT, NOT ANCHORED")
}

fn flip_case(scene: &Scene) -> Result<(), String> {
    flip(scene, "case")
}

fn flip_range(scene: &Scene) -> Result<(), String> {
    flip(scene, "range")
}

fn remove(scene: &Scene) -> Result<(), String> {
    let (_temp, dir) = scene.copy_of("case");
    for (path, bytes) in files(&dir) {
        if path == "checkpoint" {
            continue;
        }
        fs::remove_file(dir.join(&path)).unwrap();
        let ran = scene.verify(&dir, &[]);
        if ran.code != Some(4) {
            return Err(format!("{path}: {:?}\n{}{}", ran.code, ran.out, ran.err));
        }
        fs::write(dir.join(&path), bytes).unwrap();
    }
    fs::remove_file(dir.join("checkpoint")).unwrap();
    must(&scene.verify(&dir, &[]), 1, "no `checkpoint` in it")
}

fn add(scene: &Scene) -> Result<(), String> {
    let (_temp, dir) = scene.copy_of("case");
    fs::write(dir.join("note.txt"), "all is well").unwrap();
    must(&scene.verify(&dir, &[]), 2, "note.txt is in no list")
}

/// Lists the files anew, as the program would: whoever changes a bundle can do that too.
pub fn relist(dir: &Path, events: u64) {
    let path = dir.join("MANIFEST.json");
    let mut list: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    list["events"] = events.into();
    let there = files(dir).into_iter().filter(|(path, _)| !path.starts_with("MANIFEST"));
    list["files"] = there
        .map(|(path, bytes)| serde_json::json!({ "path": path, "bytes": bytes.len(), "sha256": hex(&bytes) }))
        .collect();
    let text = serde_json::to_string_pretty(&list).unwrap();
    fs::write(&path, &text).unwrap();
    fs::write(dir.join("MANIFEST.sha256"), format!("{}  MANIFEST.json\n", hex(text.as_bytes()))).unwrap();
}

fn hex(bytes: &[u8]) -> String {
    Digest::of(bytes).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn lines(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(dir.join("events.jsonl")).unwrap();
    text.lines().map(str::to_owned).collect()
}

pub fn write_lines(dir: &Path, lines: &[String]) {
    fs::write(dir.join("events.jsonl"), lines.join("\n") + "\n").unwrap();
}

fn leave_out(scene: &Scene) -> Result<(), String> {
    let (_temp, dir) = scene.copy_of("case");
    let mut lines = lines(&dir);
    lines.remove(3);
    write_lines(&dir, &lines);
    relist(&dir, lines.len() as u64);
    must(&scene.verify(&dir, &[]), 4, "events of the case are missing between them")
}

fn put_in(scene: &Scene) -> Result<(), String> {
    let (_temp, dir) = scene.copy_of("case");
    let mut lines = lines(&dir);
    lines[3] = lines[3].replace("case-1", "case-2");
    write_lines(&dir, &lines);
    relist(&dir, lines.len() as u64);
    must(&scene.verify(&dir, &[]), 2, "is not of the case case-1")
}

fn edit(scene: &Scene) -> Result<(), String> {
    let (_temp, dir) = scene.copy_of("range");
    let mut lines = lines(&dir);
    lines[2] = lines[2].replace("\"outcome\":\"ok\"", "\"outcome\":\"no\"");
    write_lines(&dir, &lines);
    relist(&dir, lines.len() as u64);
    must(
        &scene.verify(&dir, &[]),
        2,
        "event 5 does not have the hash that the tree has for it",
    )
}

/// The bundle of all events, and the number of the last.
pub fn whole(scene: &Scene) -> (Copy, PathBuf, u64) {
    let copy = scene.copy();
    let dir = copy.path("whole");
    let (db, out) = (copy.database(), dir.to_str().unwrap());
    let last = super::scene::size(&rusqlite::Connection::open(&db).unwrap()) - 1;
    let range = format!("0..{last}");
    writ(&[
        "audit",
        "export",
        "--db",
        db.to_str().unwrap(),
        "--range",
        &range,
        "--format",
        "bundle",
        "--out",
        out,
    ])
    .ok();
    (copy, dir, last)
}

fn differ(scene: &Scene) -> Result<(), String> {
    let (_copy, dir, last) = whole(scene);
    must(&scene.verify(&dir, &[]), 0, "SELF-CONSISTENT, NOT ANCHORED")?;
    let (tile, mut bytes) = files(&dir).into_iter().find(|(path, _)| path.starts_with("tile/entries/")).unwrap();
    bytes[10] ^= 1;
    fs::write(dir.join(tile), bytes).unwrap();
    relist(&dir, last + 1);
    must(
        &scene.verify(&dir, &[]),
        2,
        "event 0 is another one in its tile than among the lines",
    )
}

fn shorten(scene: &Scene) -> Result<(), String> {
    let (_temp, dir) = scene.copy_of("range");
    let lines = lines(&dir);
    write_lines(&dir, &lines[..lines.len() - 2]);
    relist(&dir, lines.len() as u64);
    must(&scene.verify(&dir, &[]), 4, "the events from 8 to")
}

fn own_key(scene: &Scene) -> Result<(), String> {
    let (_temp, dir) = scene.copy_of("case");
    let key = dir.join("keys.txt");
    fs::copy(scene.path("log.pub"), &key).unwrap();
    let dir = dir.to_str().unwrap();
    must(
        &writ(&["audit", "verify", dir, "--trust", key.to_str().unwrap()]),
        1,
        "proves nothing",
    )?;
    must(&writ(&["audit", "verify", dir]), 5, "--trust")
}

/// The receipt of the last event of the case, with the event.
pub fn receipt(scene: &Scene) -> (tempfile::TempDir, String, String) {
    let temp = tempfile::tempdir().unwrap();
    let event = lines(scene.path("case").as_ref()).pop().unwrap();
    let at = |name: &str| temp.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("event.json"), event).unwrap();
    fs::copy(scene.path("receipt.tlog-proof"), at("receipt.tlog-proof")).unwrap();
    let (receipt, event) = (at("receipt.tlog-proof"), at("event.json"));
    (temp, receipt, event)
}

fn other_event(scene: &Scene) -> Result<(), String> {
    let (_temp, receipt, event) = receipt(scene);
    must(
        &scene.verify(receipt.as_ref(), &["--event", &event]),
        0,
        "SELF-CONSISTENT, NOT ANCHORED",
    )?;
    must(&scene.verify(receipt.as_ref(), &[]), 1, "--event")?;
    let text = fs::read_to_string(&event).unwrap();
    fs::write(&event, text.replace("case-1", "case-2")).unwrap();
    must(
        &scene.verify(receipt.as_ref(), &["--event", &event]),
        2,
        "does not show that this event is number",
    )
}

fn other_number(scene: &Scene) -> Result<(), String> {
    let (_temp, receipt, event) = receipt(scene);
    let text = fs::read_to_string(&receipt).unwrap();
    let line = text.lines().nth(1).unwrap().to_owned();
    fs::write(&receipt, text.replacen(&line, "index 3", 1)).unwrap();
    must(
        &scene.verify(receipt.as_ref(), &["--event", &event]),
        2,
        "does not show that this event is number 3",
    )
}
