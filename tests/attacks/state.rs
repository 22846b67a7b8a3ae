//! Attacks on the state that the broker decides by, which is not in the tree: the replay of the log shows them.

use rusqlite::Connection;

use super::Attack;
use super::scene::{Scene, must};

pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "approve a draft in the table",
        play: approve,
    },
    Attack {
        name: "grant an approval in the table",
        play: grant,
    },
    Attack {
        name: "make a spent credential good again",
        play: unspend,
    },
    Attack {
        name: "make a credential last longer",
        play: lengthen,
    },
    Attack {
        name: "forget that a request was sent",
        play: unsend,
    },
    Attack {
        name: "take an execution for not done",
        play: undo,
    },
    Attack {
        name: "lower a fencing token",
        play: unfence,
    },
    Attack {
        name: "lift a stop in the table",
        play: lift,
    },
    Attack {
        name: "narrow a stop in the table",
        play: narrow,
    },
    Attack {
        name: "delete an execution",
        play: delete,
    },
    Attack {
        name: "add a draft that nobody proposed",
        play: add,
    },
    Attack {
        name: "let a draft be about other bytes",
        play: other_hash,
    },
    Attack {
        name: "add an approval record that nobody signed",
        play: vote,
    },
    Attack {
        name: "let an approval record be another approver's",
        play: other_approver,
    },
    Attack {
        name: "change a signed record",
        play: other_record,
    },
    Attack {
        name: "delete an approval record",
        play: unvote,
    },
    Attack {
        name: "register an approver's key",
        play: register_key,
    },
    Attack {
        name: "register an approver",
        play: register,
    },
    Attack {
        name: "widen an approver's authority",
        play: widen,
    },
    Attack {
        name: "widen a client's permissions",
        play: permit,
    },
    Attack {
        name: "give a client another secret",
        play: secret,
    },
    Attack {
        name: "let a revoked client call again",
        play: revive,
    },
    Attack {
        name: "remove a guard from the schema",
        play: unguard,
    },
    Attack {
        name: "plant a trigger that approves by itself",
        play: plant,
    },
];

/// The log is what was signed, and the state is not what it tells.
fn found(scene: &Scene, says: &str, attack: impl FnOnce(&Connection)) -> Result<(), String> {
    let copy = scene.copy();
    copy.attack(attack);
    must(&scene.verify(&copy.database(), &[]), 0, "SELF-CONSISTENT, NOT ANCHORED")?;
    must(&scene.verify(&copy.database(), &["--state"]), 2, says)
}

fn one(db: &Connection, sql: &str) {
    assert_eq!(db.execute(sql, []).unwrap(), 1, "{sql}");
}

fn approve(scene: &Scene) -> Result<(), String> {
    found(scene, "is awaiting_approval by the log and approved in the store", |db| {
        one(db, "UPDATE draft SET state = 'approved' WHERE state = 'awaiting_approval'");
    })
}

fn grant(scene: &Scene) -> Result<(), String> {
    found(scene, "is requested by the log and granted in the store", |db| {
        one(
            db,
            "UPDATE approval SET state = 'granted', execute_by = 1e15 WHERE state = 'requested'",
        );
    })
}

fn unspend(scene: &Scene) -> Result<(), String> {
    found(scene, "is redeemed by the log and issued in the store", |db| {
        one(db, "UPDATE credential SET state = 'issued' WHERE state = 'redeemed'");
    })
}

fn lengthen(scene: &Scene) -> Result<(), String> {
    found(scene, "is not the one in the store that the log tells of", |db| {
        one(
            db,
            "UPDATE credential SET expires_at = expires_at + 86400000 WHERE state = 'issued'",
        );
    })
}

fn unsend(scene: &Scene) -> Result<(), String> {
    found(scene, "is applied by the log and claimed in the store", |db| {
        one(
            db,
            "UPDATE execution SET state = 'claimed', first_sent_at = NULL, send_until = NULL WHERE state = 'applied'",
        );
    })
}

fn undo(scene: &Scene) -> Result<(), String> {
    found(scene, "is applied by the log and not_applied in the store", |db| {
        one(db, "UPDATE execution SET state = 'not_applied' WHERE state = 'applied'");
    })
}

fn unfence(scene: &Scene) -> Result<(), String> {
    found(scene, "is not the one in the store that the log tells of", |db| {
        one(db, "UPDATE execution SET fence = fence + 7");
    })
}

fn lift(scene: &Scene) -> Result<(), String> {
    found(scene, "is active by the log and lifted in the store", |db| {
        one(db, "UPDATE stop SET state = 'lifted', ended = '{}' WHERE state = 'active'");
    })
}

fn narrow(scene: &Scene) -> Result<(), String> {
    found(scene, "is not the one in the store that the log tells of", |db| {
        one(
            db,
            "UPDATE stop SET value = 'drf_ffffffffffffffffffffffffffffffff' WHERE state = 'active'",
        );
    })
}

fn delete(scene: &Scene) -> Result<(), String> {
    found(scene, "the log tells of a execution that the store has not", |db| {
        db.execute_batch("DELETE FROM attempt; DELETE FROM look_up").unwrap();
        one(db, "DELETE FROM execution");
    })
}

fn add(scene: &Scene) -> Result<(), String> {
    found(scene, "the log tells of no draft drf_ffffffffffffffffffffffffffffffff", |db| {
        db.execute_batch("CREATE TEMP TABLE more AS SELECT * FROM draft WHERE state = 'awaiting_approval'")
            .unwrap();
        db.execute_batch("UPDATE more SET id = 'drf_ffffffffffffffffffffffffffffffff', content = 'x', idempotency_key = 'x', request_key = NULL, request_sha256 = NULL")
            .unwrap();
        one(db, "INSERT INTO draft SELECT * FROM more");
    })
}

fn other_hash(scene: &Scene) -> Result<(), String> {
    found(scene, "is not the one in the store that the log tells of", |db| {
        one(
            db,
            "UPDATE draft SET hash = replace(hash, substr(hash, 1, 4), 'AAAA') WHERE state = 'awaiting_approval'",
        );
    })
}

fn vote(scene: &Scene) -> Result<(), String> {
    found(
        scene,
        "the log tells of no approval record apr_ffffffffffffffffffffffffffffffff",
        |db| {
            one(
            db,
            "INSERT INTO approval_record (id, approval, approver, kid, decision, queues, step_up, received_at, jws)
             SELECT 'apr_ffffffffffffffffffffffffffffffff', id, 'usr_tom', 'k', 'approve', '[]', 0, 0, 'x' FROM approval WHERE state = 'requested'",
        );
        },
    )
}

fn other_approver(scene: &Scene) -> Result<(), String> {
    found(scene, "is not the one in the store that was counted", |db| {
        let changed = db.execute("UPDATE approval_record SET approver = 'usr_tom' WHERE approver = 'usr_mia'", []);
        assert!(changed.unwrap() > 0);
    })
}

fn other_record(scene: &Scene) -> Result<(), String> {
    found(scene, "is not the one in the store that was counted", |db| {
        let changed = db.execute("UPDATE approval_record SET jws = jws || 'A' WHERE approver = 'usr_mia'", []);
        assert!(changed.unwrap() > 0);
    })
}

fn unvote(scene: &Scene) -> Result<(), String> {
    found(scene, "the log tells of an approval record that the store has not", |db| {
        let changed = db.execute("DELETE FROM approval_record WHERE approver = 'usr_mia'", []);
        assert!(changed.unwrap() > 0);
    })
}

fn register_key(scene: &Scene) -> Result<(), String> {
    found(scene, "the approver usr_mia is registered in the store with something else", |db| {
        one(
            db,
            "INSERT INTO approver_key (kid, approver, issuer, kind, public, not_before)
             SELECT 'mine', approver, issuer, kind, 'x' || substr(public, 2), not_before FROM approver_key WHERE approver = 'usr_mia'",
        );
    })
}

fn register(scene: &Scene) -> Result<(), String> {
    found(scene, "the log tells of no approver usr_eve", |db| {
        one(
            db,
            "INSERT INTO approver (id, authority, created_at) SELECT 'usr_eve', authority, created_at FROM approver WHERE id = 'usr_mia'",
        );
    })
}

fn widen(scene: &Scene) -> Result<(), String> {
    found(scene, "the approver usr_tom is registered in the store with something else", |db| {
        one(
            db,
            "UPDATE approver SET authority = replace(authority, '150000', '900000') WHERE id = 'usr_tom'",
        );
    })
}

fn permit(scene: &Scene) -> Result<(), String> {
    found(
        scene,
        "the client review-desk is registered in the store with something else",
        |db| {
            one(
                db,
                "UPDATE client SET roles = (SELECT roles FROM client WHERE id = 'operations') WHERE id = 'review-desk'",
            );
        },
    )
}

fn secret(scene: &Scene) -> Result<(), String> {
    found(
        scene,
        "the client operations is registered in the store with something else",
        |db| {
            one(
                db,
                "UPDATE client SET secret_sha256 = (SELECT secret_sha256 FROM client WHERE id = 'security') WHERE id = 'operations'",
            );
        },
    )
}

fn revive(scene: &Scene) -> Result<(), String> {
    found(
        scene,
        "the client old-desk is revoked by the log and not revoked in the store",
        |db| {
            one(db, "UPDATE client SET revoked_at = NULL WHERE id = 'old-desk'");
        },
    )
}

fn unguard(scene: &Scene) -> Result<(), String> {
    let copy = scene.copy();
    let db = Connection::open(copy.database()).unwrap();
    db.execute_batch("DROP TRIGGER draft_moves_legally").unwrap();
    drop(db);
    must(
        &scene.verify(&copy.database(), &["--state"]),
        2,
        "the trigger draft_moves_legally of the schema is not there",
    )
}

fn plant(scene: &Scene) -> Result<(), String> {
    found(scene, "the trigger helpful is none of the schema's", |db| {
        db.execute_batch(
            "CREATE TRIGGER helpful AFTER INSERT ON approval BEGIN UPDATE approval SET state = 'granted' WHERE id = NEW.id; END",
        )
        .unwrap();
    })
}
