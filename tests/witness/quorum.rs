//! What waits for witnesses, how many are enough, for how long, and what is kept of them.

use std::path::Path;
use std::time::Duration;

use writ::audit::tree::{Hash, check_consistency};
use writ::audit::{SignedHead, VerifierKey};
use writ::config::Config;
use writ::domain::clock::Clock as _;

use super::{Act, Witness, head, look, refund, told, witnessed};
use crate::metrics::{sample, scrape};
use crate::support::world::World;

#[tokio::test]
async fn no_credential_is_issued_without_a_fresh_quorum_and_everything_else_goes_on() {
    let [one, two, three] = ["witness.example/w1", "witness.example/w2", "witness.example/w3"].map(Witness::new);
    let world = witnessed("require = \"quorum\"\nquorum = 2\nmax_age = \"1m\"", &[&one, &two, &three]).await;
    let first = refund(&world, 1_001).await;
    assert_eq!(world.exchange(&first).await.status, 503, "nobody has seen the log yet");
    two.will(&[Act::Says(503, String::new())]);
    three.will(&[Act::Says(503, String::new())]);
    look(&world).await;
    let refused = world.exchange(&first).await;
    assert_eq!(refused.status, 503, "one is not two");
    assert!(refused.headers.contains_key("retry-after"), "{:?}", refused.headers);
    three.will(&[Act::Signs]);
    look(&world).await;
    world.credential(&first).await;
    world.clock.advance(Duration::from_secs(59));
    let other = refund(&world, 1_002).await;
    let spare = world.credential(&other).await;
    world.clock.advance(Duration::from_secs(1));
    let third = refund(&world, 1_003).await;
    world.exchange(&third).await.refused(503, "audit_unavailable");
    let done = world.execute(&spare, &other).await;
    assert!(done.status < 300, "what was issued is spent and recorded: {}", done.body);
    assert_eq!(sample(&scrape(&world).await, "writ_well{watched=\"witnesses\"}"), Some(0.0));
    assert_eq!(
        sample(&scrape(&world).await, "writ_witness_lag_seconds{witness=\"witness.example/w2\"}"),
        Some(60.0)
    );
    let ready = world.call("operations", "GET", "/readyz", None).await;
    assert_eq!(ready.status, 503);
    assert!(ready.body.to_string().contains("witnesses: too few"), "{}", ready.body);
    look(&world).await;
    // The charge is another since the third was drafted.
    let fourth = refund(&world, 1_004).await;
    world.exchange(&fourth).await.expect(200);
    assert_eq!(sample(&scrape(&world).await, "writ_well{watched=\"witnesses\"}"), Some(1.0));
}

#[tokio::test]
async fn where_nothing_waits_for_them_that_they_are_gone_is_an_event_once() {
    let witness = Witness::new("witness.example/w1");
    let world = witnessed("", &[&witness]).await;
    witness.will(&[Act::Says(503, String::new())]);
    look(&world).await;
    assert_eq!(told(&world, "log.unwitnessed").await, 0, "they are given a minute");
    world.clock.advance(Duration::from_secs(60));
    for _ in 0..3 {
        look(&world).await;
    }
    assert_eq!((told(&world, "log.unwitnessed").await, told(&world, "log.witnessed").await), (1, 0));
    let draft = world.allowed_draft().await;
    world.exchange(&draft).await.expect(200);
    witness.will(&[Act::Signs]);
    for _ in 0..3 {
        look(&world).await;
    }
    assert_eq!((told(&world, "log.unwitnessed").await, told(&world, "log.witnessed").await), (1, 1));
}

/// The size that was named, the proof and the head of a request.
fn read(body: &str) -> (u64, Vec<Hash>, SignedHead) {
    let (lines, head) = body.split_once("\n\n").unwrap();
    let mut lines = lines.lines();
    let old = lines.next().unwrap().strip_prefix("old ").unwrap().parse().unwrap();
    let proof = lines.map(|line| Hash::parse_hash(line).unwrap()).collect();
    (old, proof, SignedHead::read(head).unwrap())
}

#[tokio::test]
async fn a_witness_is_shown_that_the_log_has_only_grown_since_what_it_says_itself() {
    let witness = Witness::new("witness.example/w1");
    let world = witnessed("", &[&witness]).await;
    look(&world).await;
    let first = head(&world).await;
    world.allowed_draft().await;
    look(&world).await;
    let mut world = world;
    world.restart();
    refund(&world, 1_001).await;
    let size = first.size();
    witness.will(&[Act::Says(409, format!("{size}\n")), Act::Signs]);
    look(&world).await;
    let shown: Vec<_> = witness.shown().iter().map(|body| read(body)).collect();
    let olds: Vec<u64> = shown.iter().map(|(old, _, _)| *old).collect();
    assert_eq!(olds, [0, size, 0, size], "after a restart it asks the witness");
    for (old, proof, later) in shown {
        let earlier = if old == 0 {
            writ::audit::tree::Edge::default().root().unwrap()
        } else {
            first.root()
        };
        check_consistency(&proof, (old, earlier), (later.size(), later.root())).unwrap();
    }
}

#[tokio::test]
async fn a_head_that_was_cosigned_is_kept_and_shown_again_only_before_it_grows_old() {
    let witness = Witness::new("witness.example/w1");
    let world = witnessed("", &[&witness]).await;
    let key: VerifierKey = witness.vkey().parse().unwrap();
    let at = |head: &SignedHead| head.cosigners(std::slice::from_ref(&key)).unwrap().first().map(|(_, at)| *at);
    for _ in 0..2 {
        look(&world).await;
    }
    assert_eq!(witness.shown().len(), 1, "nothing is new");
    let first = head(&world).await;
    world.clock.advance(Duration::from_secs(31));
    look(&world).await;
    let again = head(&world).await;
    assert_eq!((again.size(), again.line_count()), (first.size(), 2), "the line is replaced");
    assert!(at(&again) > at(&first));
    // Later heads of the same minute replace each other, and not this one.
    refund(&world, 1_001).await;
    refund(&world, 1_002).await;
    assert_eq!(head(&world).await.line_count(), 1);
    let database = rusqlite::Connection::open(&world.config.store).unwrap();
    let notes = |sql: &str| -> Vec<String> {
        let mut statement = database.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let heads = notes("SELECT note FROM checkpoint ORDER BY size");
    assert!(heads.contains(&again.text().to_owned()), "{heads:?}");
    // What is cosigned later in the minute makes room for itself.
    look(&world).await;
    let later = notes("SELECT note FROM checkpoint ORDER BY size");
    let cosigned: Vec<_> = later.iter().filter(|note| note.contains(witness.name)).collect();
    assert_eq!(cosigned.len(), 1, "{later:?}");
    assert_eq!(cosigned[0], head(&world).await.text());
}

#[tokio::test]
async fn a_head_of_another_root_is_never_put_in_place_of_one_that_stands() {
    let (one, other) = (Witness::new("witness.example/w1"), Witness::new("witness.example/w2"));
    let (here, there) = (witnessed("", &[&one]).await, witnessed("", &[&other]).await);
    here.propose(World::refund(4_000)).await.expect(201);
    there.propose(World::refund(4_001)).await.expect(201);
    let stands = head(&here).await;
    let foreign = head(&there).await;
    assert!(stands.size() == foreign.size() && stands.root() != foreign.root());
    let answer = here.app.store.keep_cosigned(foreign).await;
    assert!(matches!(answer, Err(writ::store::StoreError::Corrupt(_))), "{answer:?}");
    assert_eq!(head(&here).await, stands);
}

#[test]
fn what_is_wrong_with_witnesses_is_said_at_once() {
    let witness = Witness::new("witness.example/w1");
    let base = "[broker]\nlisten = \"127.0.0.1:1\"\npublic_url = \"http://127.0.0.1\"\naudience = \"x\"\npolicy_approver = \"rule_policy\"\n\
                [proxy]\nlisten = \"127.0.0.1:2\"\naudience = \"urn:writ:proxy:main\"\nname = \"p\"\n[audit]\n";
    let config = |more: &str| Config::parse("writ.toml", &format!("{base}{more}"), Path::new("."));
    let good = witness.section();
    let key: VerifierKey = witness.vkey().parse().unwrap();
    let renamed = VerifierKey::witness("witness.example/another".parse().unwrap(), *key.public()).to_string();
    let of_log = "broker.example/a+4e4f8d0b+AUCAnoDSTE/x9pLDZ2kvxKBT1y7uZEO+nDyjnLyM3ZL8";
    for (more, said) in [
        ("require = \"any\"\n".to_owned(), "audit.require: there is no [[audit.witness]]"),
        (format!("require = \"always\"\n{good}"), "audit.require: `always` is not known"),
        (
            format!("quorum = 2\n{good}"),
            "audit.quorum: expected from 1 to the number of witnesses, which is 1",
        ),
        (format!("quorum = 0\n{good}"), "audit.quorum"),
        (format!("require = \"any\"\nquorum = 1\n{good}"), "audit.quorum: means nothing"),
        (format!("max_age = \"5s\"\n{good}"), "audit.max_age"),
        (format!("{good}{good}"), "is there twice"),
        (format!("{good}{}", good.replace(&witness.vkey(), &renamed)), "would count twice"),
        (good.replace("http://127.0.0.1", "http://10.0.0.1"), "is not https"),
        (good.replace("http://", "https://me:secret@"), "is not an address"),
        (good.replace("+", "-"), "vkey: expected a key of the form"),
        (good.replace(&witness.vkey(), of_log), "vkey"),
        (format!("{good}surprise = 1\n"), "audit.witness[0].surprise"),
    ] {
        let mistakes = config(&more).unwrap_err().to_string();
        assert!(mistakes.contains(said), "{said} is not in\n{mistakes}");
        assert!(!mistakes.contains("me:secret"), "{mistakes}");
    }
    let found = config(&good).unwrap().witnesses;
    assert_eq!((found.witnesses.len(), found.quorum), (1, 1));
}

#[tokio::test]
async fn the_logs_own_key_is_no_witness_of_it() {
    let world = World::new().await;
    let own = writ::audit::read_public(&writ::app::log_files(&world.config).public()).unwrap();
    let vkey = VerifierKey::witness("witness.example/self".parse().unwrap(), *own[0].public()).to_string();
    let file = world.path("writ.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let section = format!("[[audit.witness]]\nurl = \"http://127.0.0.1:9/w\"\nvkey = \"{vkey}\"\n");
    std::fs::write(&file, text.replacen(super::PLACE, &format!("{}{section}", super::PLACE), 1)).unwrap();
    let config = Config::load(&file).unwrap();
    let outside = writ::app::Outside {
        clock: world.clock.clone(),
        entropy: world.entropy.clone(),
    };
    let faults = writ::app::check(&config, writ::app::Part::Broker, &outside, &|name| world.env.get(name).cloned()).unwrap_err();
    assert!(faults.to_string().contains("is a key of the log itself"), "{faults}");
}

#[tokio::test]
async fn two_processes_do_not_take_each_others_cosignatures_away() {
    let [one, two] = ["witness.example/w1", "witness.example/w2"].map(Witness::new);
    let world = witnessed("", &[&one, &two]).await;
    world.propose(World::refund(4_000)).await.expect(201);
    let bare = head(&world).await;
    let keys: Vec<VerifierKey> = [&one, &two].iter().map(|one| one.vkey().parse().unwrap()).collect();
    let cosigned = |witness: &Witness, key: &VerifierKey| bare.cosigned(&witness.line_under(bare.text()), key).unwrap().0;
    let (other, _router) = world.another();
    let earlier = cosigned(&one, &keys[0]);
    world.app.store.keep_cosigned(earlier.clone()).await.unwrap();
    other.store.keep_cosigned(cosigned(&two, &keys[1])).await.unwrap();
    let kept = head(&world).await;
    assert_eq!(kept.cosigners(&keys).unwrap().len(), 2, "{}", kept.text());
    // A later line of one witness takes the place of its own earlier one.
    world.clock.advance(Duration::from_secs(5));
    other.store.keep_cosigned(cosigned(&one, &keys[0])).await.unwrap();
    let again = head(&world).await;
    let times: Vec<i64> = again.cosigners(&keys).unwrap().into_iter().map(|(_, at)| at.seconds()).collect();
    assert_eq!((again.line_count(), times.len()), (3, 2), "{}", again.text());
    assert!(times.contains(&world.clock.now().seconds()), "{times:?}");
    // A line that a process still had from before is not put over it.
    world.app.store.keep_cosigned(earlier).await.unwrap();
    assert_eq!(head(&world).await.text(), again.text());
    assert!(
        !again
            .signers(&writ::audit::read_public(&writ::app::log_files(&world.config).public()).unwrap())
            .unwrap()
            .is_empty()
    );
}
