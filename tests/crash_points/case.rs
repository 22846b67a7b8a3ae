//! Which journey reaches which point.

use writ::sandbox::FaultKind;

use super::scenario::{self, Scenario};

/// A point, the journey that reaches it, and the point at which an earlier process dies so that it can.
pub struct Case {
    pub point: String,
    pub before: Option<&'static str>,
    pub scenario: Scenario,
}

/// One case for every point of the program. The slow ones, where a bank is waited for, come first.
pub fn cases() -> Vec<Case> {
    let mut all: Vec<Case> = writ::crash_points::names().into_iter().map(case).collect();
    all.sort_by_key(|case| case.scenario.bank.is_none());
    all
}

fn case(point: String) -> Case {
    let step = point.strip_suffix(".before_commit").or_else(|| point.strip_suffix(".after_commit"));
    let scenario = match step.unwrap_or(&point) {
        "review.verified" | "draft.hold" | "approval.request" | "approval.record_counted" | "approval.grant" | "draft.approve" => {
            scenario::signed()
        }
        "draft.refuse" | "approval.refuse" => scenario::refused(),
        "draft.deny" => scenario::forbidden(),
        "draft.withdraw" | "approval.void" | "credential.revoke" => scenario::withdrawn(),
        "draft.supersede" => scenario::superseded(),
        "draft.expire" | "approval.lapse" | "credential.lapse" => scenario::expired(),
        "draft.mark_stale" => scenario::stale(),
        "draft.release" | "execution.abort" => scenario::aborted(),
        "look_up.read" | "execution.lose_track" | "execution.take_over" | "execution.reconcile_applied" => scenario::lost(),
        "execution.look_up" | "execution.resend" => scenario::dropped(),
        "execution.confirm_pending" => scenario::pending(),
        "execution.confirm_not_applied" => scenario::refused_by_the_backend(),
        "execution.reconcile_not_applied" => scenario::turned_away(),
        "execution.reconcile_pending" => scenario::pending_and_lost(),
        "execution.reopen" => scenario::bounced(),
        "execution.hand_off" | "execution.resolve_applied" => scenario::unknowable(FaultKind::DropAfter),
        "execution.resolve_not_applied" => scenario::unknowable(FaultKind::DropBefore),
        "stop.place" | "stop.lift" => scenario::stopped(),
        "stop.lapse" => scenario::stopped_for_a_while(),
        "approval.revoke" | "draft.revoke" => scenario::taken_back(),
        _ => scenario::allowed(),
    };
    let before = point.starts_with("execution.reclaim").then_some("execution.claim.after_commit");
    Case { point, before, scenario }
}
