//! What the log commits to and does not hold: it can be shown, it can be erased, and neither changes what was signed.

use serde_json::{Value, json};
use writ::audit::openings::OpeningsSeen;
use writ::audit::vault::Vault;
use writ::audit::{Disclosure, LogKeys, SensitiveField, TrustPolicy, verify};
use writ::domain::approval::Decision;
use writ::domain::clock::Clock as _;
use writ::store::sqlite::{Evidence, SqliteStore};
use writ::store::{Rejection, Store as _, StoreError};

use crate::store::world::World;
use crate::support::log::{log_beside, open_store};
use crate::support::peers::{output, python, script};

/// The store by itself, beside the world's own connections.
pub fn sqlite(world: &World) -> SqliteStore {
    open_store(&world.file, world.clock.clone(), world.entropy.clone()).unwrap()
}

/// What a verification of everything finds wrong, with the openings.
pub fn findings(world: &World) -> (OpeningsSeen, Vec<String>) {
    let files = log_beside(&world.file);
    let trust = TrustPolicy::of_logs(LogKeys::load(&files, None).unwrap().known);
    let asked = verify::Asked {
        anchors: vec![verify::OutsideHead::read(&files.head).unwrap()],
        max_age: None,
        now: world.clock.now(),
        case: None,
        state: None,
    };
    let evidence = Evidence::open(&world.file).unwrap();
    let report = verify::verify(&evidence, &trust, &asked).unwrap();
    let vault = Vault::load(&files.subjects()).unwrap().unwrap();
    let (seen, wrong) = evidence.openings(Some(&vault)).unwrap();
    let told = report.findings.into_iter().map(|finding| finding.what);
    (seen, told.chain(wrong).collect())
}

/// A refund that was refused by a person, with words: the events commit to its customer and to the words.
async fn refused(world: &World) -> (u64, u64) {
    let draft = world.held(1).await;
    let mut vote = world.vote(&draft, "mia", Decision::Deny);
    vote.record.reason = Some("the customer Ann Example has called".to_owned());
    world.store().vote(world.op(), vote).await.unwrap();
    let events = world.events().await;
    let of = |kind: &str| events.iter().rfind(|e| e["type"] == kind).unwrap()["seq"].as_u64().unwrap();
    (of("draft.propose"), of("approval.refuse"))
}

fn rejection<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> Rejection {
    match answer {
        Err(StoreError::Rejected(rejection)) => rejection,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn without_the_key_file_nothing_is_committed_to_and_the_log_goes_on() {
    let world = World::with_one_connection().await;
    std::fs::remove_file(log_beside(&world.file).subjects()).unwrap();
    let keyless = sqlite(&world);
    keyless.propose(world.op(), world.new_draft()).await.unwrap();
    let event = world.events().await.pop().unwrap();
    assert_eq!((&event["type"], event.get("_sd")), (&json!("draft.propose"), None));
    assert_eq!(
        rejection(keyless.erase(world.op(), "cus_0", "x".to_owned()).await),
        Rejection::NoSubjectsKey
    );
    assert_eq!(rejection(keyless.about_customer("cus_0").await), Rejection::NoSubjectsKey);
    std::fs::write(log_beside(&world.file).subjects(), "nonsense").unwrap();
    let opened = open_store(&world.file, world.clock.clone(), world.entropy.clone());
    assert!(
        opened.unwrap_err().to_string().contains("audit-subjects.key"),
        "a key that is no key is not passed over"
    );
}

#[tokio::test]
async fn a_value_is_in_no_event_and_its_disclosure_is_the_one_that_was_committed_to() {
    let world = World::with_two_connections().await;
    let (proposed, refused) = refused(&world).await;
    let store = sqlite(&world);
    for wrong in [
        (proposed, SensitiveField::Reason),
        (refused, SensitiveField::Customer),
        (0, SensitiveField::Customer),
    ] {
        assert_eq!(rejection(store.disclose(world.op(), wrong.0, wrong.1).await), Rejection::NotFound);
    }
    let before = world.events().await;
    for event in &before {
        let text = event.to_string();
        assert!(!text.contains("Ann Example") && !text.contains("cus_0"), "{text}");
    }
    for (seq, field, value) in [
        (proposed, SensitiveField::Customer, "cus_0"),
        (refused, SensitiveField::Reason, "the customer Ann Example has called"),
    ] {
        let shown = store.disclose(world.op(), seq, field).await.unwrap();
        assert_eq!(shown.parts(), Some((field, value.to_owned())));
        let event = &before[usize::try_from(seq).unwrap()];
        assert_eq!(
            (&event["_sd"], &event["_sd_alg"]),
            (&json!([shown.digest().to_string()]), &json!("sha-256"))
        );
        // By a program that is not ours.
        if let Some(mut python) = python() {
            let theirs = output(python.arg(script("disclosure.py")).arg(shown.expose()));
            let theirs: Value = serde_json::from_str(&theirs).unwrap();
            assert_eq!(theirs, json!([shown.digest().to_string(), field.as_str(), value]));
        }
        let told = world.events().await.pop().unwrap();
        assert_eq!(told["type"], "audit.disclosed");
        assert_eq!(
            told["disclosed"],
            json!({ "seq": seq, "field": field.as_str(), "digest": shown.digest().to_string() })
        );
        assert!(!told.to_string().contains(value), "{told}");
    }
    assert_eq!(store.about_customer(" CUS_0").await.unwrap(), [proposed]);
    assert_eq!(store.about_customer("cus_9").await.unwrap(), [0; 0]);
    let (seen, wrong) = findings(&world);
    assert_eq!((seen.commitments, seen.sealed, seen.erased), (2, 2, 0));
    assert_eq!(wrong, [""; 0]);
}

#[tokio::test]
async fn what_is_erased_can_be_shown_by_nobody_and_every_proof_stays_good() {
    let world = World::with_one_connection().await;
    let (proposed, refused) = refused(&world).await;
    let (other, _) = self::refused(&world).await;
    let store = sqlite(&world);
    let opening = store.disclose(world.op(), proposed, SensitiveField::Customer).await.unwrap();
    let connection = rusqlite::Connection::open(&world.file).unwrap();
    let wrapped: Vec<Vec<u8>> = connection
        .prepare("SELECT k.wrapped FROM subject_key k JOIN opening o ON o.subject = k.tag WHERE o.seq = ?1")
        .unwrap()
        .query_map([i64::try_from(proposed).unwrap()], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(wrapped.len(), 1);
    drop(connection);
    let erased = store.erase(world.op(), "Cus_0 ", "GDPR Art. 17(1)(a)".to_owned()).await.unwrap();
    assert_eq!((erased.fields, &erased.left), (2, &None), "the customer, and what was said of them");
    let told = world.events().await.pop().unwrap();
    assert_eq!((&told["type"], &told["seq"]), (&json!("pii.erased"), &json!(erased.seq)));
    assert_eq!(
        (&told["erased"]["fields"], &told["erased"]["basis"]),
        (&json!(2), &json!("GDPR Art. 17(1)(a)"))
    );
    for (seq, field) in [(proposed, SensitiveField::Customer), (refused, SensitiveField::Reason)] {
        assert_eq!(rejection(store.disclose(world.op(), seq, field).await), Rejection::Erased(seq));
    }
    assert!(
        store.disclose(world.op(), other, SensitiveField::Customer).await.is_ok(),
        "another person's stays"
    );
    assert_eq!(store.about_customer("cus_0").await.unwrap(), [0; 0]);
    assert_eq!(
        rejection(store.erase(world.op(), "cus_0", "again".to_owned()).await),
        Rejection::NotFound
    );
    let (seen, wrong) = findings(&world);
    assert_eq!((seen.commitments, seen.sealed, seen.erased), (4, 2, 2));
    assert_eq!(wrong, [""; 0]);
    // Neither the key nor the opening is left in the file or in its log.
    for file in [world.file.clone(), world.file.with_extension("db-wal")] {
        let bytes = std::fs::read(&file).unwrap_or_default();
        for gone in [wrapped[0].as_slice(), opening.expose().as_bytes()] {
            assert!(!bytes.windows(gone.len()).any(|part| part == gone), "{}", file.display());
        }
    }
    assert!(Disclosure::parse(opening.expose()).is_some(), "whoever was shown it still has it");
}

#[tokio::test]
async fn an_opening_that_is_taken_away_or_exchanged_is_a_finding() {
    let world = World::with_one_connection().await;
    let (proposed, refused) = refused(&world).await;
    let by_hand = |sql: &str| rusqlite::Connection::open(&world.file).unwrap().execute_batch(sql);
    for forbidden in [
        "DELETE FROM opening".to_owned(),
        "UPDATE opening SET sealed = x'00'".to_owned(),
        format!("UPDATE opening SET subject = zeroblob(16) WHERE seq = {proposed}"),
    ] {
        assert!(by_hand(&forbidden).is_err(), "{forbidden}");
    }
    // Whoever has the file can do anything; it shows.
    let without = "DROP TRIGGER opening_is_final; DROP TRIGGER opening_stays;";
    by_hand(without).unwrap();
    let wrong = |what: &str| {
        let (_, wrong) = findings(&world);
        assert!(wrong.iter().any(|told| told.contains(what)), "{what}: {wrong:?}");
    };
    by_hand(&format!(
        "CREATE TABLE kept AS SELECT * FROM opening; UPDATE opening SET sealed = NULL WHERE seq = {proposed}"
    ))
    .unwrap();
    wrong("tells that 0 were erased");
    by_hand(&format!("DELETE FROM opening WHERE seq = {proposed}")).unwrap();
    wrong("is missing, and nothing says that it was erased");
    by_hand(&format!("INSERT INTO opening SELECT * FROM kept WHERE seq = {proposed}")).unwrap();
    by_hand(&format!(
        "UPDATE opening SET sealed = (SELECT sealed FROM kept WHERE seq = {proposed}) WHERE seq = {refused}"
    ))
    .unwrap();
    wrong("does not open it");
}
