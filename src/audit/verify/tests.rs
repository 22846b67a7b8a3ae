use std::time::Duration;

use super::*;
use crate::audit::source::{KeptHead, LogSource, Page};
use crate::audit::tree::{Edge, Node, leaf_hash};
use crate::audit::{LogKey, Origin, SignedHead, VerifierKey};
use crate::domain::clock::Entropy;
use crate::domain::digest::Digest;

const NOW: i64 = 1_790_000_000_000;

struct Byte(u8);
impl Entropy for Byte {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(self.0);
    }
}

fn key(n: u8) -> LogKey {
    let name: Origin = "broker.example/audit".parse().unwrap();
    LogKey::generate(&name, &Byte(n)).unwrap().0
}

/// A log in memory.
#[derive(Default)]
struct Memory {
    events: Vec<String>,
    nodes: Vec<Node>,
    edge: Edge,
    heads: Vec<KeptHead>,
}

impl Memory {
    /// Adds an event with these members beside its number and time.
    fn add(&mut self, more: &str) {
        let seq = self.events.len();
        let time = Timestamp::from_millis(NOW - 60_000);
        let event = format!(r#"{{{more},"seq":{seq},"time":"{time}","type":"read.performed"}}"#);
        self.nodes.extend(self.edge.push(leaf_hash(event.as_bytes())).unwrap());
        self.events.push(event);
    }

    /// Adds an event of a process.
    fn written(&mut self, writer: &str, n: u64) {
        self.add(&format!(
            r#""v":2,"origin":"broker.example/audit","writer":{{"id":"{writer}","n":{n}}}"#
        ));
    }

    fn head(&self) -> SignedHead {
        SignedHead::sign(self.edge.size(), self.edge.root().unwrap(), &[&key(1)]).unwrap()
    }

    fn keep(&mut self, head: &SignedHead) {
        self.heads.push(KeptHead {
            size: head.size(),
            at: None,
            kept: false,
            text: head.text().to_owned(),
        });
    }

    /// Under a head of its own.
    fn signed(mut self) -> Self {
        let head = self.head();
        self.keep(&head);
        self
    }

    fn verify(&self, policy: &TrustPolicy, change: impl FnOnce(&mut Asked<'_>)) -> Report {
        let mut asked = Asked {
            anchors: Vec::new(),
            max_age: None,
            now: Timestamp::from_millis(NOW),
            case: None,
            state: None,
        };
        change(&mut asked);
        verify(self, policy, &asked).unwrap()
    }

    fn found(&self) -> Report {
        self.verify(&trust(), |_| ())
    }
}

fn trust() -> TrustPolicy {
    TrustPolicy::of_logs(vec![key(1).verifier().clone()])
}

impl LogSource for Memory {
    fn size(&self) -> Result<u64, SourceError> {
        Ok(self.events.len() as u64)
    }

    fn latest(&self) -> Result<Option<KeptHead>, SourceError> {
        Ok(self.heads.last().cloned())
    }

    fn heads(&self, above: Option<u64>, limit: usize) -> Result<Vec<KeptHead>, SourceError> {
        let due = self.heads.iter().filter(|head| above.is_none_or(|above| head.size > above));
        Ok(due.take(limit).cloned().collect())
    }

    fn leaves(&self, from: u64, limit: usize, page: &mut Page) -> Result<(), SourceError> {
        page.clear();
        for (seq, event) in (0..).zip(&self.events).skip(from as usize).take(limit) {
            page.push(seq, event.as_bytes());
        }
        Ok(())
    }

    fn nodes(&self, from: u64, limit: usize) -> Result<Vec<Node>, SourceError> {
        Ok(self.nodes.iter().skip(from as usize).take(limit).copied().collect())
    }
}

/// What is wrong with it, as the verdict and the sentences say.
fn faults(report: &Report) -> (Verdict, String) {
    let told: Vec<&str> = report.findings.iter().map(|finding| finding.what.as_str()).collect();
    (report.verdict(), told.join("; "))
}

#[test]
fn a_log_from_before_there_were_processes_and_cases_in_it_verifies() {
    let mut log = Memory::default();
    for _ in 0..5 {
        log.add(r#""v":1,"case_id":"c","tenant":"t""#);
    }
    log.written("a", 0);
    let previous = Digest::from_bytes(leaf_hash(log.events[4].as_bytes()).0);
    log.add(&format!(
        r#""v":2,"case_id":"c","tenant":"t","case":{{"n":1,"previous":"{previous}"}},"writer":{{"id":"a","n":1}}"#
    ));
    let report = log.signed().found();
    assert_eq!(faults(&report), (Verdict::SelfConsistent, String::new()));
    assert_eq!((report.events, report.writers, report.cases), (7, 1, 1));
}

#[test]
fn a_process_whose_numbers_have_a_gap_has_lost_an_event() {
    for (numbers, says) in [
        (&[0, 2][..], "whose next is 1"),
        (&[1], "whose next is 0"),
        (&[0, 0], "whose next is 1"),
    ] {
        let mut log = Memory::default();
        for n in numbers {
            log.written("a", *n);
            log.written("b", log.events.len() as u64 / 2);
        }
        let (verdict, told) = faults(&log.signed().found());
        assert_eq!(verdict, Verdict::Incomplete);
        assert!(told.contains(says), "{told}");
    }
}

#[test]
fn an_event_of_another_log_is_none_of_this_one() {
    let mut log = Memory::default();
    log.written("a", 0);
    log.add(r#""v":2,"origin":"other.example/audit","writer":{"id":"a","n":1}"#);
    let (verdict, told) = faults(&log.signed().found());
    assert_eq!(verdict, Verdict::Tampered);
    assert!(told.contains("other.example/audit"), "{told}");
}

#[test]
fn what_a_newer_program_wrote_is_not_judged() {
    let mut log = Memory::default();
    log.add(r#""v":3"#);
    let log = log.signed();
    let asked = Asked {
        anchors: Vec::new(),
        max_age: None,
        now: Timestamp::from_millis(NOW),
        case: None,
        state: None,
    };
    assert!(verify(&log, &trust(), &asked).unwrap_err().0.contains("newer program"));
}

#[test]
fn a_case_that_was_asked_for_must_be_there() {
    let mut log = Memory::default();
    log.add(r#""v":2,"case_id":"c","tenant":"t","case":{"n":1},"writer":{"id":"a","n":0}"#);
    let log = log.signed();
    let of = |case: &str| log.verify(&trust(), |asked| asked.case = Some(case.to_owned()));
    assert_eq!(of("c").case.first().map(|case| case.events), Some(1));
    assert_eq!(of("d").verdict(), Verdict::Incomplete);
}

/// A witness, and the head with its line of this time.
fn cosigned(head: &SignedHead, seed: u8, seconds: i64) -> (SignedHead, VerifierKey) {
    let (line, witness) = line(head, seed, seconds);
    let (cosigned, _) = head.cosigned(&line, &witness).unwrap();
    (cosigned, witness)
}

fn line(head: &SignedHead, seed: u8, seconds: i64) -> (String, VerifierKey) {
    use base64::Engine as _;
    use ring::signature::KeyPair as _;
    let pair = ring::signature::Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
    let name: Origin = format!("witness.example/w{seed}").parse().unwrap();
    let witness = VerifierKey::witness(name, pair.public_key().as_ref().try_into().unwrap());
    let (body, _) = head.text().rsplit_once("\n\n").unwrap();
    let signature = pair.sign(format!("cosignature/v1\ntime {seconds}\n{body}\n").as_bytes());
    let blob = [&witness.id().to_be_bytes()[..], &seconds.to_be_bytes(), signature.as_ref()].concat();
    let line = format!(
        "\u{2014} {} {}\n",
        witness.name(),
        base64::engine::general_purpose::STANDARD.encode(blob)
    );
    (line, witness)
}

#[test]
fn as_many_witnesses_as_must_have_signed_and_lately_if_that_was_asked() {
    let mut log = Memory::default();
    log.written("a", 0);
    let plain = log.head();
    let (once, first) = cosigned(&plain, 7, NOW / 1000 - 3600);
    let (twice, second) = cosigned(&once, 8, NOW / 1000 - 10);
    let needs = |n| trust().witnessed_by(vec![first.clone(), second.clone()], n).unwrap();
    let with = |head: &SignedHead, n, max_age: Option<u64>| {
        let mut log = Memory {
            events: log.events.clone(),
            nodes: log.nodes.clone(),
            edge: log.edge.clone(),
            heads: Vec::new(),
        };
        log.keep(head);
        log.verify(&needs(n), |asked| asked.max_age = max_age.map(Duration::from_secs))
    };
    assert_eq!(with(&plain, 1, None).verdict(), Verdict::RolledBack);
    assert_eq!(with(&once, 2, None).verdict(), Verdict::RolledBack);
    assert_eq!(with(&once, 1, None).verdict(), Verdict::Anchored);
    assert_eq!(with(&once, 1, Some(900)).verdict(), Verdict::RolledBack, "an hour old");
    let fresh = with(&twice, 1, Some(900));
    assert_eq!(fresh.verdict(), Verdict::Anchored);
    assert_eq!(with(&twice, 2, Some(900)).verdict(), Verdict::RolledBack, "one of two is old");
    assert_eq!(with(&twice, 2, None).anchors.len(), 2);
    let mut other = Memory::default();
    other.written("b", 0);
    let (stolen, _) = line(&other.head(), 7, NOW / 1000);
    let forged = SignedHead::read(&format!("{}{stolen}", plain.text())).unwrap();
    assert_eq!(
        with(&forged, 1, None).verdict(),
        Verdict::Tampered,
        "a line from under another head"
    );
}

#[test]
fn what_was_signed_in_times_to_come_is_not_fresh() {
    let mut log = Memory::default();
    log.written("a", 0);
    let head = log.head();
    let with = |seconds: i64, max_age: Option<u64>| {
        let (cosigned, witness) = cosigned(&head, 7, NOW / 1000 + seconds);
        let mut log = Memory {
            events: log.events.clone(),
            nodes: log.nodes.clone(),
            edge: log.edge.clone(),
            heads: Vec::new(),
        };
        log.keep(&cosigned);
        let policy = trust().witnessed_by(vec![witness], 1).unwrap();
        let whole = log
            .verify(&policy, |asked| asked.max_age = max_age.map(Duration::from_secs))
            .verdict();
        let asked = Asked {
            anchors: Vec::new(),
            max_age: max_age.map(Duration::from_secs),
            now: Timestamp::from_millis(NOW),
            case: None,
            state: None,
        };
        assert_eq!(head::verify_head(&Ok(cosigned), &policy, &asked).verdict(), whole);
        whole
    };
    assert_eq!(with(3600, Some(900)), Verdict::RolledBack, "an hour ahead");
    assert_eq!(with(299, Some(900)), Verdict::Anchored, "as far as clocks differ");
    assert_eq!(with(3600, None), Verdict::Anchored, "nobody asked how old it is");
    let early = |now: i64| {
        let log = Memory {
            events: log.events.clone(),
            nodes: log.nodes.clone(),
            edge: log.edge.clone(),
            heads: Vec::new(),
        };
        let report = log.signed().verify(&trust(), |asked| {
            asked.now = Timestamp::from_millis(now);
            asked.max_age = Some(Duration::from_secs(900));
        });
        report.verdict()
    };
    assert_eq!(early(NOW), Verdict::SelfConsistent);
    assert_eq!(early(NOW - 7_200_000), Verdict::RolledBack, "its last event is of the future");
}

#[test]
fn without_witnesses_a_log_that_stands_still_is_old_by_its_own_clock() {
    let mut log = Memory::default();
    log.written("a", 0);
    let log = log.signed();
    let aged = |seconds| log.verify(&trust(), |asked| asked.max_age = Some(Duration::from_secs(seconds)));
    assert_eq!(aged(120).verdict(), Verdict::SelfConsistent);
    assert_eq!(aged(30).verdict(), Verdict::RolledBack);
}

#[test]
fn a_head_from_outside_must_be_of_this_history_and_by_a_known_key() {
    let mut log = Memory::default();
    for n in 0..6 {
        log.written("a", n);
    }
    let full = log.head();
    let mut short = Memory::default();
    let mut other = Memory::default();
    for n in 0..4 {
        short.written("a", n);
        other.written("b", n);
    }
    let old = short.head();
    let foreign = SignedHead::sign(4, short.edge.root().unwrap(), &[&key(2)]).unwrap();
    let (log, short) = (log.signed(), short.signed());
    let against = |log: &Memory, head: &SignedHead| {
        let anchor = OutsideHead::new("kept".to_owned(), vec![head.clone()]);
        log.verify(&trust(), |asked| asked.anchors.push(anchor))
    };
    let good = against(&log, &old);
    assert_eq!((good.verdict(), good.anchored()), (Verdict::Anchored, Some(4)));
    assert_eq!(against(&short, &full).verdict(), Verdict::RolledBack, "taken back");
    assert_eq!(against(&log, &other.head()).verdict(), Verdict::RolledBack, "another history");
    assert_eq!(against(&log, &foreign).verdict(), Verdict::Tampered, "signed by somebody else");
}

#[test]
fn many_findings_are_counted_and_few_are_told() {
    let mut log = Memory::default();
    for n in 0..50 {
        log.written("a", n * 2);
    }
    let report = log.signed().found();
    assert_eq!((report.findings.len(), report.more_findings), (10, 39));
}
