//! Every guarantee that is tried: its name, what is claimed, where it is tried.

use std::pin::Pin;

use serde::Serialize;

use super::ground::Ground;
use super::outcome::Held;
use super::{access, ambiguity, authority, clocks, credentials, effects, log, records, resources, versions};

/// Where a guarantee is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The deployment that the settings name.
    Live,
    /// A throw-away deployment of the same program, for what cannot be tried on a live one without harm.
    Private,
    /// Records that came with the program.
    Recorded,
}

impl Target {
    /// The word in tables and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Private => "private",
            Self::Recorded => "recorded",
        }
    }
}

/// A try on its way.
pub(super) type Tried<'a> = Pin<Box<dyn Future<Output = Held> + Send + 'a>>;

/// One guarantee.
pub struct Guarantee {
    /// Its name, which never changes its meaning.
    pub name: &'static str,
    /// Where it is tried.
    pub on: Target,
    /// What is claimed.
    pub claim: &'static str,
    pub(super) hold: for<'a> fn(&'a Ground) -> Tried<'a>,
}

macro_rules! guarantees {
    ($($name:literal, $on:ident, $claim:literal, $hold:path;)*) => {
        /// All of them, in the order in which they are tried. One more is one more line.
        pub const GUARANTEES: &[Guarantee] = &[$({
            fn hold(ground: &Ground) -> Tried<'_> {
                Box::pin($hold(ground))
            }
            Guarantee { name: $name, on: Target::$on, claim: $claim, hold }
        },)*];
    };
}

guarantees! {
    "principal.missing", Live, "nobody calls without a client's id and secret", access::nobody;
    "principal.wrong_role", Live, "a client makes only the calls of its own role", access::wrong_role;
    "operation.unknown", Live, "an operation that no backend file declares cannot be proposed", access::unknown_operation;

    "credential.missing", Live, "nothing is executed without a credential", credentials::missing;
    "credential.mutated", Live, "a credential with any bit turned over is refused and spends nothing", credentials::mutated;
    "credential.widened", Live, "a credential with an appended block is refused, however well signed", credentials::widened;
    "credential.forged", Live, "a grant signed by another key is refused", credentials::forged;
    "credential.reencoded", Live, "a copy in other bytes is no second credential", credentials::reencoded;
    "credential.replayed", Live, "neither a spent credential nor its approval works again", credentials::replayed;
    "credential.other_draft", Live, "a credential is good for its own draft only, to the byte", credentials::other_draft;
    "credential.expired", Live, "a credential that is over is refused, and so is a new one", credentials::expired;
    "credential.revoked", Live, "a revoked credential is refused at every proxy", credentials::revoked;
    "credential.replaced", Live, "only the newest credential of a draft is good", credentials::replaced;
    "credential.unknown_audience", Live, "no credential is issued for an audience that does not exist", credentials::audience;
    "credential.wrong_audience", Private, "a credential is refused at a proxy of another audience", credentials::wrong_audience;

    "record.missing", Live, "what the policy asks people for gets no credential before they signed", records::missing;
    "record.mutated", Live, "an approval record with anything edited is refused", records::mutated;
    "record.unsigned", Live, "a record without a signature by its key is none", records::unsigned;
    "record.forged", Live, "a record under a key that is not the approver's is refused", records::forged;
    "record.reencoded", Live, "the same claims in other bytes are no record", records::reencoded;
    "record.widened", Live, "a record that claims more than a record can is refused", records::widened;
    "record.replayed", Live, "neither a record nor its id counts twice", records::replayed;
    "record.expired", Live, "a record that is over is refused", records::expired;
    "record.from_the_future", Live, "a record by a clock that runs ahead is refused and named", records::from_the_future;
    "record.revoked", Live, "an approval that was taken back releases nothing", records::revoked;
    "record.wrong_audience", Live, "a record for another broker is refused", records::wrong_audience;
    "record.other_draft", Live, "a record is good for its own draft and its own card only", records::other_draft;
    "record.unactivated_policy", Live, "a policy that nobody activated decides nothing", records::unactivated_policy;

    "authority.none", Live, "a registered key without authority approves nothing", authority::none;
    "authority.requester", Live, "the person answerable for the agent does not approve what it proposes", authority::requester;
    "authority.beyond", Live, "nobody approves more than was delegated to them", authority::beyond;
    "authority.expired", Live, "authority that is over approves nothing", authority::ended;
    "authority.counted_once", Live, "one person is counted once", authority::counted_once;

    "effect.duplicate", Live, "executing twice has one effect, and is told of the same execution", effects::duplicate;
    "effect.one_winner", Live, "of many who redeem at once, at all proxies, one wins", effects::one_winner;

    "ambiguous.lost_answer", Live, "a lost answer is looked up, not sent again, and keeps the resource closed", ambiguity::lost_answer;
    "ambiguous.unknown_error", Live, "an error that nobody can read is no failure", ambiguity::unknown_error;
    "ambiguous.one_byte", Live, "a request of which a byte was written is never taken for unsent", ambiguity::one_byte;

    "resource.stale", Live, "a resource that has moved since its draft is not touched", resources::stale;
    "clock.behind", Private, "a clock that diverges is named, and nothing new begins on it", clocks::behind;
    "backend.swapped_address", Private, "an approval is not carried out at another address", resources::swapped;
    "version.older", Recorded, "drafts, records and credentials of older versions still verify", versions::older;

    "log.altered", Private, "an event that was changed is found, also where the tree over it was made to fit", log::altered;
    "log.truncated", Private, "a log whose end was cut off is found out", log::truncated;
    "log.rolled_back", Private, "a log that was put back to what it once was is found out", log::rolled_back;
    "log.pruned", Private, "an honest prune keeps every proof", log::pruned;
    "log.held", Private, "what is held is not pruned", log::held;
    "log.receipt", Live, "an answer's receipt shows its event to be in the log, and a changed one shows nothing", log::receipt;
    "log.consistent", Live, "the log only grows", log::consistent;
}
