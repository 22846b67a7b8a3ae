//! Every state and every legal transition, once. The transition's name is the word used in code, SQL, events and documentation.

use serde::{Deserialize, Serialize};

macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every state, in the order of the lifecycle.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word used in the store, in events and in answers.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The state with this word.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

macro_rules! transitions {
    ($(#[$doc:meta])* $name:ident on $state:ident as $entity:literal { $($(#[$vdoc:meta])* $variant:ident = $text:literal: [$($from:ident),*] => $to:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every transition, in the order of the lifecycle.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The transition's name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The name with what it happens to: `draft.approve`.
            #[must_use]
            pub const fn event(self) -> &'static str {
                match self { $(Self::$variant => concat!($entity, ".", $text),)* }
            }

            /// The states it may start from; empty when it creates the thing.
            #[must_use]
            pub const fn from(self) -> &'static [$state] {
                match self { $(Self::$variant => &[$($state::$from),*],)* }
            }

            /// The state it ends in.
            #[must_use]
            pub const fn to(self) -> $state {
                match self { $(Self::$variant => $state::$to,)* }
            }
        }
    };
}

states! {
    /// Where a draft stands.
    DraftState {
        /// Stored; the policy has not answered yet.
        Proposed = "proposed",
        /// The policy asked; people are to sign.
        AwaitingApproval = "awaiting_approval",
        /// A rule or people allowed it.
        Approved = "approved",
        /// An execution was claimed for it.
        Consumed = "consumed",
        /// The policy or a person said no.
        Denied = "denied",
        /// Its maker took it back.
        Withdrawn = "withdrawn",
        /// A newer draft took its place.
        Superseded = "superseded",
        /// Nobody decided, or nobody executed, in time. Not the same as denied.
        Expired = "expired",
        /// It was approved, but the resource, the policy or an approver has changed since.
        Stale = "stale",
    }
}

impl DraftState {
    /// The states from which a draft can still come to run.
    pub const OPEN: &'static [Self] = &[Self::Proposed, Self::AwaitingApproval, Self::Approved];

    /// Whether the draft can still come to run.
    #[must_use]
    pub fn is_open(self) -> bool {
        Self::OPEN.contains(&self)
    }
}

transitions! {
    /// What can happen to a draft.
    DraftTransition on DraftState as "draft" {
        /// It is stored.
        Propose = "propose": [] => Proposed,
        /// The policy allows it; a rule signs.
        AutoApprove = "auto_approve": [Proposed] => Approved,
        /// The policy asks; a card opens.
        Hold = "hold": [Proposed] => AwaitingApproval,
        /// The policy denies it.
        Deny = "deny": [Proposed] => Denied,
        /// Enough people signed.
        Approve = "approve": [AwaitingApproval] => Approved,
        /// A person said no.
        Refuse = "refuse": [AwaitingApproval] => Denied,
        /// Its maker takes it back.
        Withdraw = "withdraw": [Proposed, AwaitingApproval, Approved] => Withdrawn,
        /// A newer draft takes its place.
        Supersede = "supersede": [Proposed, AwaitingApproval, Approved] => Superseded,
        /// Its time is over.
        Expire = "expire": [Proposed, AwaitingApproval, Approved] => Expired,
        /// What the approval was given for no longer holds.
        MarkStale = "mark_stale": [Approved] => Stale,
        /// Its approval was taken back.
        Revoke = "revoke": [Approved] => Denied,
        /// An execution is claimed for it.
        Consume = "consume": [Approved] => Consumed,
        /// The execution was aborted before anything was sent.
        Release = "release": [Consumed] => Approved,
    }
}

states! {
    /// Where an approval stands.
    ApprovalState {
        /// A card is open.
        Requested = "requested",
        /// It is given.
        Granted = "granted",
        /// It is refused.
        Refused = "refused",
        /// Nobody decided in time.
        Lapsed = "lapsed",
        /// The draft went away, so there is nothing to decide.
        Voided = "voided",
        /// It was given and taken back.
        Revoked = "revoked",
    }
}

transitions! {
    /// What can happen to an approval.
    ApprovalTransition on ApprovalState as "approval" {
        /// A card opens.
        Request = "request": [] => Requested,
        /// A rule allowed it at once; no card was opened.
        GrantByPolicy = "grant_by_policy": [] => Granted,
        /// The last signature that was needed came.
        Grant = "grant": [Requested] => Granted,
        /// A person said no.
        Refuse = "refuse": [Requested] => Refused,
        /// The deadline passed.
        Lapse = "lapse": [Requested, Granted] => Lapsed,
        /// The draft went away.
        Void = "void": [Requested, Granted] => Voided,
        /// It is taken back.
        Revoke = "revoke": [Granted] => Revoked,
    }
}

states! {
    /// Where a credential stands. Only `issued` is usable: a lost row denies.
    CredentialState {
        /// It may be redeemed until it expires.
        Issued = "issued",
        /// It was redeemed.
        Redeemed = "redeemed",
        /// It was revoked, or a repeated exchange replaced it.
        Revoked = "revoked",
        /// It expired unused.
        Lapsed = "lapsed",
    }
}

transitions! {
    /// What can happen to a credential.
    CredentialTransition on CredentialState as "credential" {
        /// It is issued.
        Issue = "issue": [] => Issued,
        /// It is spent.
        Redeem = "redeem": [Issued] => Redeemed,
        /// It is taken back.
        Revoke = "revoke": [Issued] => Revoked,
        /// It expired unused.
        Lapse = "lapse": [Issued] => Lapsed,
    }
}

states! {
    /// Where an execution stands.
    ExecutionState {
        /// A proxy has it; nothing was sent.
        Claimed = "claimed",
        /// A request was sent, or may have been.
        Dispatched = "dispatched",
        /// The backend did it.
        Applied = "applied",
        /// The backend took it and has not finished.
        Pending = "pending",
        /// The backend certainly did not do it.
        NotApplied = "not_applied",
        /// Whether the backend did it is not known.
        Indeterminate = "indeterminate",
        /// Nobody but a person can find out.
        HandedOff = "handed_off",
        /// Given up before anything was sent.
        Aborted = "aborted",
    }
}

impl ExecutionState {
    /// The states in which the outcome is open, so that nothing else may touch the same resource.
    pub const UNRESOLVED: &'static [Self] = &[Self::Claimed, Self::Dispatched, Self::Indeterminate, Self::HandedOff];

    /// Whether the outcome is open.
    #[must_use]
    pub fn is_unresolved(self) -> bool {
        Self::UNRESOLVED.contains(&self)
    }
}

transitions! {
    /// What can happen to an execution.
    ExecutionTransition on ExecutionState as "execution" {
        /// A proxy takes it, together with `credential.redeem` and `draft.consume`.
        Claim = "claim": [Aborted] => Claimed,
        /// The lease ran out and nothing was sent: another proxy takes it.
        Reclaim = "reclaim": [Claimed] => Claimed,
        /// Given up before anything was sent.
        Abort = "abort": [Claimed] => Aborted,
        /// An attempt is written down; only then is it sent.
        Dispatch = "dispatch": [Claimed] => Dispatched,
        /// The same bytes with the same key again, inside the window.
        Resend = "resend": [Indeterminate] => Dispatched,
        /// The answer says it is done.
        ConfirmApplied = "confirm_applied": [Dispatched, Pending] => Applied,
        /// The answer says it is under way.
        ConfirmPending = "confirm_pending": [Dispatched] => Pending,
        /// The answer proves it was not done.
        ConfirmNotApplied = "confirm_not_applied": [Dispatched] => NotApplied,
        /// No answer, or one that proves nothing.
        LoseTrack = "lose_track": [Dispatched] => Indeterminate,
        /// A look-up proves it is done.
        ReconcileApplied = "reconcile_applied": [Indeterminate, HandedOff] => Applied,
        /// A look-up proves it was not done.
        ReconcileNotApplied = "reconcile_not_applied": [Indeterminate, HandedOff] => NotApplied,
        /// A look-up finds it under way.
        ReconcilePending = "reconcile_pending": [Indeterminate, HandedOff] => Pending,
        /// Only a person can find out.
        HandOff = "hand_off": [Indeterminate, Pending] => HandedOff,
        /// An operator found out: done.
        ResolveApplied = "resolve_applied": [HandedOff, Indeterminate, Pending] => Applied,
        /// An operator found out: not done.
        ResolveNotApplied = "resolve_not_applied": [HandedOff, Indeterminate, Pending] => NotApplied,
        /// The backend later said that it failed after all.
        Reopen = "reopen": [Applied, Pending] => NotApplied,
    }
}

states! {
    /// Where a stop stands.
    StopState {
        /// It stops what it covers, until its time is over.
        Active = "active",
        /// Somebody lifted it.
        Lifted = "lifted",
        /// Its time is over.
        Lapsed = "lapsed",
    }
}

transitions! {
    /// What can happen to a stop.
    StopTransition on StopState as "stop" {
        /// The kill switch is thrown.
        Place = "place": [] => Active,
        /// What it covered may go on.
        Lift = "lift": [Active] => Lifted,
        /// Its time is over.
        Lapse = "lapse": [Active] => Lapsed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_reads_back_as_it_was_written() {
        for state in DraftState::ALL {
            assert_eq!(DraftState::parse(state.as_str()), Some(*state));
        }
        for state in ExecutionState::ALL {
            assert_eq!(ExecutionState::parse(state.as_str()), Some(*state));
        }
    }

    #[test]
    fn nothing_leaves_a_state_in_which_money_may_be_moving_except_by_evidence() {
        for transition in ExecutionTransition::ALL {
            let from_dispatched = transition.from().contains(&ExecutionState::Dispatched);
            if from_dispatched {
                assert_ne!(transition.to(), ExecutionState::Claimed, "{}", transition.event());
                assert_ne!(transition.to(), ExecutionState::Aborted, "{}", transition.event());
            }
        }
    }

    #[test]
    fn a_consumed_draft_comes_back_only_by_release() {
        let back: Vec<_> = DraftTransition::ALL
            .iter()
            .filter(|t| t.from().contains(&DraftState::Consumed))
            .collect();
        assert_eq!(back, [&DraftTransition::Release]);
    }
}
