//! Crash points: named places at which a test build ends itself with SIGKILL, so that every "if we die here" of `docs/lifecycle.md` is tried.
//!
//! Only the feature `crash-points` makes them real; without it every function that marks a place is empty. The environment says where to die:
//! `WRIT_CRASH_AT=execution.dispatch.after_commit`, or `…#2` to die at the second time the place is reached.

use crate::audit::Note;
use crate::domain::lifecycle::{ApprovalTransition, CredentialTransition, DraftTransition, ExecutionTransition, StopTransition};

macro_rules! points {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// A place between two durable steps. The durable steps themselves have a place before and one after their commit, see [`names`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Point { $($(#[$doc])* $variant,)* }

        impl Point {
            /// Every one, in the order of the journey.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in the documentation and in the environment.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

points! {
    /// The facts are read and the request is compiled; nothing is stored.
    ProposeCompiled = "propose.compiled",
    /// The policy has answered and its record is signed; nothing of it is stored.
    DecideAnswered = "decide.answered",
    /// A record is verified and its approver's authority looked up; it is not counted.
    ReviewVerified = "review.verified",
    /// Everything was checked again; there is no credential.
    ExchangeChecked = "exchange.checked",
    /// The token is made; nobody has it.
    ExchangeMinted = "exchange.minted",
    /// The token is verified; nothing is spent.
    RedeemVerified = "redeem.verified",
    /// The execution is claimed; its work has not begun.
    RedeemClaimed = "redeem.claimed",
    /// The precondition was read and holds; no attempt is written down.
    PreconditionRead = "dispatch.precondition_read",
    /// The attempt is written down, and the permit to send it is made.
    DispatchPermitted = "dispatch.permitted",
    /// The next thing is the first byte on the wire.
    SendLeaving = "send.leaving",
    /// The head of the answer has come, its body has not been read.
    SendHead = "send.head",
    /// The whole answer has come; nothing of it is written down.
    SendAnswered = "send.answered",
    /// The answer is classified; nothing of it is written down.
    SettleJudged = "settle.judged",
    /// A look-up was read; nothing of it is written down.
    LookUpRead = "look_up.read",
}

/// What is written besides the transitions on the way of a refund.
const NOTES: [Note; 3] = [Note::RecordCounted, Note::TakeOver, Note::LookUp];

/// Every place by its name, in the order of the lifecycle.
#[must_use]
pub fn names() -> Vec<String> {
    let durable = DraftTransition::ALL
        .iter()
        .map(|t| t.event())
        .chain(ApprovalTransition::ALL.iter().map(|t| t.event()))
        .chain(CredentialTransition::ALL.iter().map(|t| t.event()))
        .chain(ExecutionTransition::ALL.iter().map(|t| t.event()))
        .chain(StopTransition::ALL.iter().map(|t| t.event()))
        .chain(NOTES.iter().map(|note| note.as_str()));
    let around = durable.flat_map(|step| [format!("{step}.before_commit"), format!("{step}.after_commit")]);
    Point::ALL.iter().map(|point| point.as_str().to_owned()).chain(around).collect()
}

#[cfg(not(feature = "crash-points"))]
mod real {
    use super::Point;

    /// Nothing, in this build.
    pub const fn reached(_: Point) {}

    pub(crate) const fn begin() {}

    pub(crate) const fn emitted(_: &'static str) {}

    pub(crate) const fn mark() -> usize {
        0
    }

    pub(crate) const fn undo(_: usize) {}

    pub(crate) const fn committing() {}

    pub(crate) const fn committed() {}
}

#[cfg(feature = "crash-points")]
mod real {
    use std::cell::RefCell;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::Point;

    /// Where to die, and at which time of reaching it.
    struct Wish {
        point: String,
        nth: u32,
    }

    static REACHED: AtomicU32 = AtomicU32::new(0);

    thread_local! {
        /// The events of the transaction under way on this thread, which is the one that writes.
        static EMITTED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }

    fn wish() -> Option<&'static Wish> {
        static WISH: OnceLock<Option<Wish>> = OnceLock::new();
        WISH.get_or_init(|| {
            #[allow(
                clippy::disallowed_methods,
                reason = "a build for tests only, told by its environment where to die"
            )]
            let text = std::env::var("WRIT_CRASH_AT").ok()?;
            let (point, nth) = text.split_once('#').unwrap_or((&text, "1"));
            let Ok(nth) = nth.parse() else { return None };
            Some(Wish {
                point: point.to_owned(),
                nth,
            })
        })
        .as_ref()
    }

    fn at(name: impl FnOnce(&str) -> bool) {
        let Some(wish) = wish() else { return };
        if name(&wish.point) && REACHED.fetch_add(1, Ordering::SeqCst) + 1 == wish.nth {
            // No destructor runs and nothing is flushed. The signal is delivered before the call returns.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }

    /// Dies here, if the environment says so.
    pub fn reached(point: Point) {
        at(|asked| asked == point.as_str());
    }

    /// A transaction begins.
    pub(crate) fn begin() {
        EMITTED.with_borrow_mut(Vec::clear);
    }

    /// An event of the transaction under way was written.
    pub(crate) fn emitted(kind: &'static str) {
        EMITTED.with_borrow_mut(|all| all.push(kind));
    }

    /// Where the transaction stands, for [`undo`].
    pub(crate) fn mark() -> usize {
        EMITTED.with_borrow(Vec::len)
    }

    /// What was emitted since the mark was rolled back.
    pub(crate) fn undo(mark: usize) {
        EMITTED.with_borrow_mut(|all| all.truncate(mark));
    }

    /// Everything is written, and the commit is next.
    pub(crate) fn committing() {
        around("before_commit");
    }

    /// The commit took place, and nobody has been told.
    pub(crate) fn committed() {
        around("after_commit");
    }

    fn around(when: &str) {
        EMITTED.with_borrow(|all| {
            for step in all {
                at(|asked| asked.strip_prefix(step).and_then(|rest| rest.strip_prefix('.')) == Some(when));
            }
        });
    }
}

pub use real::reached;
pub(crate) use real::{begin, committed, committing, emitted, mark, undo};
