//! Which lies there are, and what must come of each.

use writ::sandbox::{Fault, FaultKind as K, RefundStatus};

use super::book::{Case, End};

const REFUNDS: &str = "/v1/refunds";
const APPLIED: End = End::In("applied");

/// The effect happens and nothing usable is said: a look-up finds it.
const DONE_AND_UNSAID: [K; 19] = [
    K::DropAfter,
    K::Error500After,
    K::Hang,
    K::Truncate,
    K::Oversize,
    K::WrongAmount,
    K::WrongCurrency,
    K::WrongTarget,
    K::WrongDraft,
    K::SeeOther,
    K::Malformed,
    K::Html,
    K::EmptyAnswer,
    K::GzipBomb,
    K::Garbage,
    K::HeaderFlood,
    K::EndlessHints,
    K::Drip,
    K::PendingUnanswered,
];

/// The effect happens and is said, in an odd way.
const DONE_AND_SAID: [K; 3] = [K::OtherContentType, K::EarlyHints, K::OtherId];

/// Nothing happens, and nobody can know: the same request goes again.
const UNDONE_AND_UNSAID: [K; 5] = [K::DropBefore, K::Error503Before, K::CloseAsWritten, K::Redirect, K::Hold];

/// Nothing happens, and the backend says so.
const TURNED_AWAY: [K; 2] = [K::RateLimit, K::RateLimitDate];

/// Nothing happens; the answer is a refusal for good.
const REFUSED: [K; 2] = [K::Refuse, K::AlreadyRefunded];

/// What may follow another lie: one of each sort, none that only lets us wait.
const SECOND: [K; 14] = [
    K::DropAfter,
    K::DropBefore,
    K::Error500After,
    K::Error503Before,
    K::Truncate,
    K::WrongAmount,
    K::Malformed,
    K::OtherId,
    K::RateLimit,
    K::RateLimitDate,
    K::InFlight,
    K::KeyReused,
    K::AlreadyRefunded,
    K::Redirect,
];

/// What a list, or the charge itself, may be answered with instead.
const UNREADABLE: [K; 14] = [
    K::DropAfter,
    K::DropBefore,
    K::Error503Before,
    K::RateLimit,
    K::Redirect,
    K::SeeOther,
    K::Truncate,
    K::Malformed,
    K::Html,
    K::EmptyAnswer,
    K::Garbage,
    K::HeaderFlood,
    K::GzipBomb,
    K::Oversize,
];

fn post(kind: K, times: u32) -> Fault {
    Fault::times(kind, "POST", REFUNDS, times)
}

fn list(kind: K, times: u32) -> Fault {
    Fault::times(kind, "GET", REFUNDS, times)
}

fn case(name: String, faults: Vec<Fault>, end: End, effects: usize, requests: Option<usize>) -> Case {
    Case {
        name,
        faults,
        bank: RefundStatus::Succeeded,
        end,
        effects,
        requests,
    }
}

/// Every case; those of one list share a backend, one after the other.
pub fn books() -> Vec<Vec<Case>> {
    let mut books: Vec<Vec<Case>> = firsts()
        .into_iter()
        .map(|kind| [once(kind), twice(kind), then(kind)].concat())
        .collect();
    books.push(bank());
    books.push(looks());
    books.push(hidden());
    books.push(preconditions());
    books
}

fn firsts() -> Vec<K> {
    // Those that let us wait come first.
    let mut all = vec![K::Hang, K::Hold, K::Drip, K::EndlessHints];
    let rest = [
        &DONE_AND_UNSAID[..],
        &DONE_AND_SAID,
        &UNDONE_AND_UNSAID,
        &TURNED_AWAY,
        &REFUSED,
        &[K::InFlight, K::KeyReused],
    ]
    .concat();
    all.extend(
        rest.into_iter()
            .filter(|kind| ![K::Hang, K::Hold, K::Drip, K::EndlessHints].contains(kind)),
    );
    all
}

fn once(kind: K) -> Vec<Case> {
    let (end, effects, requests) = match kind {
        _ if DONE_AND_UNSAID.contains(&kind) || DONE_AND_SAID.contains(&kind) => (APPLIED, 1, 1),
        K::KeyReused => (End::In("handed_off"), 0, 1),
        _ if REFUSED.contains(&kind) => (End::In("not_applied"), 0, 1),
        _ => (APPLIED, 1, 2),
    };
    vec![case(format!("{kind:?}"), vec![post(kind, 1)], end, effects, Some(requests))]
}

/// The second one is reached because the list does not show yet what the first one did.
fn twice(kind: K) -> Vec<Case> {
    if DONE_AND_SAID.contains(&kind) || REFUSED.contains(&kind) || kind == K::KeyReused {
        return Vec::new();
    }
    // A pending refund is followed, whatever its answers were.
    let requests = if DONE_AND_UNSAID.contains(&kind) { 2 } else { 3 };
    let mut faults = vec![post(kind, 2)];
    if requests == 2 {
        faults.push(list(K::EmptyList, 1));
    }
    vec![case(format!("{kind:?} twice"), faults, APPLIED, 1, Some(requests))]
}

/// Another lie follows, where there is a second request at all.
fn then(kind: K) -> Vec<Case> {
    if DONE_AND_SAID.contains(&kind) || REFUSED.contains(&kind) || kind == K::KeyReused {
        return Vec::new();
    }
    let done = DONE_AND_UNSAID.contains(&kind);
    let follow = |second: K| {
        let mut faults = vec![post(kind, 1), post(second, 1)];
        if done {
            faults.push(list(K::EmptyList, 1));
        }
        let (end, effects) = match second {
            // The backend knows the key with other content: nothing is repeated and nothing is believed.
            K::KeyReused => (End::In("handed_off"), usize::from(done)),
            // The replay names another id than the list shows later.
            K::OtherId if kind == K::PendingUnanswered => (End::In("handed_off"), 1),
            // Nothing was ever run, and now it is refused for good.
            K::AlreadyRefunded if TURNED_AWAY.contains(&kind) => (End::In("not_applied"), 0),
            _ => (APPLIED, 1),
        };
        case(format!("{kind:?}, then {second:?}"), faults, end, effects, None)
    };
    SECOND.into_iter().filter(|second| *second != kind).map(follow).collect()
}

/// A refund that the bank has to confirm.
fn bank() -> Vec<Case> {
    let mut all = Vec::new();
    for kind in [K::Pending, K::PendingUnanswered] {
        for (bank, end) in [
            (RefundStatus::Succeeded, "applied"),
            (RefundStatus::Failed, "not_applied"),
            (RefundStatus::Canceled, "not_applied"),
        ] {
            let mut faults = vec![post(kind, 1)];
            all.push(Case {
                bank,
                ..case(format!("{kind:?}, then {bank:?}"), faults.clone(), End::In(end), 1, Some(1))
            });
            // What was taken is not undone by a list that does not show it, nor by one that cannot be read.
            faults.extend([list(K::Error503Before, 1), list(K::Malformed, 1)]);
            if kind == K::Pending {
                faults.push(list(K::EmptyList, 2));
            }
            all.push(Case {
                bank,
                ..case(format!("{kind:?}, unreadable, then {bank:?}"), faults, End::In(end), 1, Some(1))
            });
        }
    }
    // Two ids for one thing: whatever becomes of either, only a person can tell which is ours.
    for bank in [RefundStatus::Succeeded, RefundStatus::Failed] {
        let faults = vec![post(K::Pending, 1), list(K::OtherId, 1)];
        all.push(Case {
            bank,
            ..case(
                format!("Pending, look-up OtherId, then {bank:?}"),
                faults,
                End::In("handed_off"),
                1,
                Some(1),
            )
        });
    }
    all
}

/// Look-ups lie, once and twice, about what was done and about what was not.
fn looks() -> Vec<Case> {
    let mut all = Vec::new();
    for (first, requests) in [(K::DropAfter, 1), (K::DropBefore, 2)] {
        for kind in UNREADABLE {
            for times in [1, 2] {
                let faults = vec![post(first, 1), list(kind, times)];
                all.push(case(
                    format!("{first:?}, look-ups {kind:?} {times}"),
                    faults,
                    APPLIED,
                    1,
                    Some(requests),
                ));
            }
        }
        let faults = vec![post(first, 1), list(K::OtherContentType, 1)];
        all.push(case(
            format!("{first:?}, look-up OtherContentType"),
            faults,
            APPLIED,
            1,
            Some(requests),
        ));
        let faults = vec![post(first, 1), list(K::EmptyList, 3)];
        all.push(case(format!("{first:?}, look-ups EmptyList 3"), faults, APPLIED, 1, Some(2)));
    }
    all
}

/// The list never shows anything, or never can be read: "not found" is no proof, and a person must find out.
fn hidden() -> Vec<Case> {
    let mut all = Vec::new();
    for (first, effects) in [(K::DropAfter, 1), (K::Truncate, 1), (K::DropBefore, 0), (K::Error503Before, 0)] {
        for (then, look) in [
            (K::Error503Before, K::EmptyList),
            (K::AlreadyRefunded, K::EmptyList),
            (K::AlreadyRefunded, K::Error503Before),
            (K::RateLimit, K::EmptyList),
            (K::InFlight, K::Malformed),
        ] {
            let faults = vec![post(first, 1), post(then, 100), list(look, 1000)];
            all.push(case(
                format!("{first:?}, {then:?} for ever, look-ups {look:?} for ever"),
                faults,
                End::In("handed_off"),
                effects,
                None,
            ));
        }
    }
    all
}

/// What was approved cannot be looked at: nothing is sent, and the approval is not used up.
fn preconditions() -> Vec<Case> {
    let strike = |kind: K| {
        let faults = vec![Fault::once(kind, "GET", "/v1/charges/*")];
        case(format!("precondition {kind:?}"), faults, End::Released, 0, Some(0))
    };
    UNREADABLE.into_iter().map(strike).collect()
}
