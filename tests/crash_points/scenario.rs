//! The journeys that together reach every point: what the caller wants, how the backend behaves, and how it must end.

use writ::domain::lifecycle::{DraftState, ExecutionState};
use writ::sandbox::{Fault, FaultKind, RefundStatus};

/// What the caller, and the people, do with the draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Exchange it and execute it, signed by a person where the policy asks.
    Execute,
    /// A person says no.
    Refuse,
    /// Its maker exchanges it and then takes it back.
    Withdraw,
    /// Its maker replaces it and executes the other one.
    Supersede,
    /// Nobody executes it in time.
    LetExpire,
    /// The charge is refunded elsewhere before the exchange.
    MoveOn,
    /// The charge cannot be read at the first execution.
    Blind,
    /// Somebody throws the kill switch, and lifts it again.
    Stop,
    /// Somebody throws the kill switch for two seconds.
    StopBriefly,
    /// Its approval is taken back after the exchange.
    TakeBack,
}

/// A journey and its end.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub name: &'static str,
    /// Minor units.
    pub amount: i64,
    pub act: Act,
    /// What the backend does to requests that change something, and to look-ups.
    pub faults: Vec<Fault>,
    /// What becomes of a refund that is pending.
    pub bank: Option<RefundStatus>,
    /// What the operator finds out about what was handed over.
    pub finding: Option<&'static str>,
    /// Edits of `writ.toml` and of the backend file: what stands there, what shall.
    pub edits: Vec<(&'static str, &'static str)>,
    /// Where the draft that counts ends, and its execution.
    pub draft: DraftState,
    pub execution: Option<ExecutionState>,
    /// How many refunds by us hold the money in the end.
    pub effects: usize,
}

const REFUNDS: &str = "/v1/refunds";

/// 40.00 USD, which a rule allows, and the backend does it.
fn plain(name: &'static str) -> Scenario {
    Scenario {
        name,
        amount: 4_000,
        act: Act::Execute,
        faults: Vec::new(),
        bank: None,
        finding: None,
        edits: Vec::new(),
        draft: DraftState::Consumed,
        execution: Some(ExecutionState::Applied),
        effects: 1,
    }
}

fn with_fault(name: &'static str, kind: FaultKind) -> Scenario {
    Scenario {
        faults: vec![Fault::once(kind, "POST", REFUNDS)],
        ..plain(name)
    }
}

fn ends(name: &'static str, act: Act, draft: DraftState) -> Scenario {
    Scenario {
        act,
        draft,
        execution: None,
        effects: 0,
        ..plain(name)
    }
}

pub fn allowed() -> Scenario {
    plain("a rule allows it")
}

pub fn signed() -> Scenario {
    Scenario {
        amount: 24_000,
        ..plain("a person signs it")
    }
}

pub fn lost() -> Scenario {
    with_fault("the answer is lost", FaultKind::DropAfter)
}

pub fn dropped() -> Scenario {
    with_fault("the request is lost", FaultKind::DropBefore)
}

pub fn turned_away() -> Scenario {
    Scenario {
        faults: vec![Fault::times(FaultKind::RateLimit, "POST", REFUNDS, 100)],
        execution: Some(ExecutionState::NotApplied),
        effects: 0,
        ..plain("it is turned away until it gives up")
    }
}

/// Where the refusal was lost with the process, the replay of it proves nothing any more: a person finds out.
pub fn refused_by_the_backend() -> Scenario {
    Scenario {
        finding: Some("not_applied"),
        edits: vec![("give_up         = \"10m\"", "give_up         = \"4s\"")],
        execution: Some(ExecutionState::NotApplied),
        effects: 0,
        ..with_fault("the backend refuses it", FaultKind::Refuse)
    }
}

pub fn pending() -> Scenario {
    Scenario {
        bank: Some(RefundStatus::Succeeded),
        ..with_fault("the bank takes its time", FaultKind::Pending)
    }
}

pub fn pending_and_lost() -> Scenario {
    Scenario {
        bank: Some(RefundStatus::Succeeded),
        ..with_fault("the bank takes its time and the answer is lost", FaultKind::PendingUnanswered)
    }
}

pub fn bounced() -> Scenario {
    Scenario {
        bank: Some(RefundStatus::Failed),
        execution: Some(ExecutionState::NotApplied),
        effects: 0,
        ..with_fault("the bank sends it back", FaultKind::Pending)
    }
}

/// Nothing in the program can find out: the list of refunds cannot be read.
pub fn unknowable(kind: FaultKind) -> Scenario {
    let done = kind == FaultKind::DropAfter;
    Scenario {
        faults: vec![
            Fault::times(kind, "POST", REFUNDS, 100),
            Fault::times(FaultKind::Error503Before, "GET", REFUNDS, 1000),
        ],
        finding: Some(if done { "applied" } else { "not_applied" }),
        edits: vec![("give_up         = \"10m\"", "give_up         = \"4s\"")],
        execution: Some(if done {
            ExecutionState::Applied
        } else {
            ExecutionState::NotApplied
        }),
        effects: usize::from(done),
        ..plain("only a person can find out")
    }
}

pub fn refused() -> Scenario {
    Scenario {
        amount: 24_000,
        ..ends("a person refuses it", Act::Refuse, DraftState::Denied)
    }
}

/// Above what any approval can release; the charge is large enough.
pub fn forbidden() -> Scenario {
    Scenario {
        amount: 600_000,
        ..ends("the policy forbids it", Act::Execute, DraftState::Denied)
    }
}

pub fn withdrawn() -> Scenario {
    ends("its maker takes it back", Act::Withdraw, DraftState::Withdrawn)
}

pub fn superseded() -> Scenario {
    Scenario {
        act: Act::Supersede,
        ..plain("its maker replaces it")
    }
}

pub fn expired() -> Scenario {
    Scenario {
        edits: vec![("execution_window = \"5m\"", "execution_window = \"15s\"")],
        ..ends("nobody executes it in time", Act::LetExpire, DraftState::Expired)
    }
}

pub fn stale() -> Scenario {
    ends("the charge has moved", Act::MoveOn, DraftState::Stale)
}

pub fn aborted() -> Scenario {
    Scenario {
        act: Act::Blind,
        ..plain("the charge cannot be read at first")
    }
}

pub fn stopped() -> Scenario {
    Scenario {
        act: Act::Stop,
        ..plain("it is stopped and goes on")
    }
}

pub fn stopped_for_a_while() -> Scenario {
    Scenario {
        act: Act::StopBriefly,
        ..plain("it is stopped until the stop's time is over")
    }
}

pub fn taken_back() -> Scenario {
    ends("its approval is taken back", Act::TakeBack, DraftState::Denied)
}
