//! Makes a log of so many events, for `tests/bench-verify`: the events of a refund again and again, under the tree and a signed head, in the program's
//! own schema. Written past the store, which flushes each group.
//!
//!     cargo bench --bench make_log -- DIR COUNT
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a tool for one benchmark fails by panicking"
)]

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use writ::app::{SystemClock, SystemEntropy};
use writ::audit::tree::{Edge, leaf_hash};
use writ::audit::{
    Actor, ActorKind, ApprovalPart, CasePlace, ChangePart, CredentialPart, DraftPart, Event, EventBody, EventKind, LogFiles, LogKey,
    SignedHead, WriterPart,
};
use writ::domain::clock::{Clock, Entropy};
use writ::domain::digest::{Digest, DraftHash};
use writ::domain::draft::Resource;
use writ::domain::id::{ApprovalId, CredentialId, DraftId, EventId, WriterId};
use writ::domain::json::canonical;
use writ::domain::lifecycle::{ApprovalTransition, CredentialTransition, DraftTransition};
use writ::domain::secret::Secret;
use writ::domain::time::Timestamp;
use writ::store::health::Reserve;
use writ::store::sqlite::SqliteStore;

/// The events of one refund, with the states that each leads from and to.
const REFUND: &[(EventKind, Option<&str>, &str)] = &[
    (EventKind::Draft(DraftTransition::Propose), None, "proposed"),
    (EventKind::Draft(DraftTransition::Hold), Some("proposed"), "awaiting_approval"),
    (EventKind::Approval(ApprovalTransition::Request), None, "requested"),
    (EventKind::Approval(ApprovalTransition::Grant), Some("requested"), "granted"),
    (EventKind::Draft(DraftTransition::Approve), Some("awaiting_approval"), "approved"),
    (EventKind::Credential(CredentialTransition::Issue), None, "issued"),
    (EventKind::Credential(CredentialTransition::Redeem), Some("issued"), "redeemed"),
    (EventKind::Draft(DraftTransition::Consume), Some("approved"), "consumed"),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [dir, count] = words.as_slice() else {
        // `cargo bench` without arguments runs every target.
        println!("nothing to make: name a directory and a count");
        return;
    };
    let dir = Path::new(dir);
    let count: u64 = count.parse().expect("a count");
    std::fs::create_dir_all(dir).unwrap();
    let path = dir.join("writ.db");
    let log = LogFiles {
        key: dir.join("log.key"),
        head: dir.join("writ.head"),
    };
    log.generate(&"broker.example/audit".parse().unwrap(), &SystemEntropy::new())
        .unwrap();
    let key = LogKey::parse(&Secret::new(std::fs::read_to_string(&log.key).unwrap())).unwrap();
    let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy::new()));
    drop(SqliteStore::open(&path, &Reserve::default(), log, clock, entropy).unwrap());
    fill(&path, count, &key);
    println!("{count} events in {}", path.display());
}

fn fill(path: &Path, count: u64, key: &LogKey) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA synchronous = OFF; BEGIN").unwrap();
    let mut event_row = connection
        .prepare("INSERT INTO event (seq, id, at, type, actor, draft, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")
        .unwrap();
    let mut node_row = connection.prepare("INSERT INTO node (i, h) VALUES (?1, ?2)").unwrap();
    let (clock, entropy) = (SystemClock, SystemEntropy::new());
    let writer = WriterId::generate(&clock, &entropy);
    let begun = clock.now();
    let mut edge = Edge::default();
    let (mut case, mut previous) = (Refund::new(0, &clock, &entropy), None);
    for seq in 0..count {
        let place = usize::try_from(seq).unwrap() % REFUND.len();
        if place == 0 {
            (case, previous) = (Refund::new(seq / REFUND.len() as u64, &clock, &entropy), None);
        }
        let event = Event {
            v: Event::VERSION,
            seq,
            id: EventId::generate(&clock, &entropy),
            time: Timestamp::from_millis(begun.millis() + i64::try_from(seq).unwrap()),
            origin: key.origin().to_string(),
            writer: WriterPart { id: writer, n: seq },
            case: Some(CasePlace {
                n: place as u64 + 1,
                previous,
            }),
            withheld: Vec::new(),
            sd: Vec::new(),
            sd_alg: None,
            body: case.body(place),
        };
        let bytes = canonical(&event).unwrap();
        let hash = leaf_hash(&bytes);
        previous = Some(Digest::from_bytes(hash.0));
        let text = std::str::from_utf8(&bytes).unwrap();
        event_row
            .execute((
                i64::try_from(seq).unwrap(),
                event.id.to_string(),
                event.time.millis(),
                event.body.kind.as_str(),
                &event.body.actor.id,
                case.draft.to_string(),
                text,
            ))
            .unwrap();
        for (index, hash) in edge.push(hash).unwrap() {
            node_row.execute((i64::try_from(index).unwrap(), &hash.0[..])).unwrap();
        }
    }
    let head = SignedHead::sign(count, edge.root().unwrap(), &[key]).unwrap();
    connection
        .execute(
            "INSERT INTO checkpoint (size, at, kept, note) VALUES (?1, ?2, 0, ?3)",
            (i64::try_from(count).unwrap(), begun.millis(), head.text()),
        )
        .unwrap();
    connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
}

/// One refund.
struct Refund {
    case: u64,
    draft: DraftId,
    approval: ApprovalId,
    credential: CredentialId,
}

impl Refund {
    fn new(case: u64, clock: &dyn Clock, entropy: &dyn Entropy) -> Self {
        Self {
            case,
            draft: DraftId::generate(clock, entropy),
            approval: ApprovalId::generate(clock, entropy),
            credential: CredentialId::generate(clock, entropy),
        }
    }

    fn body(&self, place: usize) -> EventBody {
        let (kind, from, to) = REFUND.get(place).copied().unwrap();
        EventBody {
            tenant: Some("main".parse().unwrap()),
            case_id: Some(format!("case-{}", self.case).parse().unwrap()),
            operation: Some("refund.create".parse().unwrap()),
            resource: Some(Resource {
                kind: "charge".parse().unwrap(),
                id: format!("ch_{}", self.case).parse().unwrap(),
                version: None,
            }),
            draft: Some(DraftPart {
                id: self.draft,
                hash: DraftHash::of_canonical(&self.case.to_be_bytes()),
            }),
            approval: (place > 1).then_some(ApprovalPart {
                id: self.approval,
                record_id: None,
                approver: None,
                kid: None,
                decision: None,
                record_sha256: None,
                assertion: None,
            }),
            credential: (place > 4).then(|| CredentialPart {
                id: self.credential,
                root_key_id: Some(1),
                audience: Some("urn:writ:proxy".parse().unwrap()),
                expires_at: Some(Timestamp::from_millis(0)),
            }),
            state: Some(ChangePart { from, to }),
            ..EventBody::new(kind, Actor::new(ActorKind::Client, "support-agent"))
        }
    }
}
