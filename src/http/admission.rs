//! Load shedding: a call that changes something needs a place, and new drafts are the first to get none.
//!
//! The place is taken once the call has come in whole and its caller is known: what is slow to come, or comes from nobody, keeps none from others.

use super::{Code, Common, Problem};
use crate::edge::{Place, Work};

/// A place among the calls that are worked on; it ends when it is dropped.
pub(super) fn admit(common: &Common, work: Work) -> Result<Place, Problem> {
    let place = common.admission.admit(work, common.store.tally().waiting());
    place.ok_or_else(|| {
        let detail = match work {
            Work::Begin => "there is too much to do, and new work is taken last; nothing was changed, try again later",
            Work::Continue | Work::Execute => "there is too much to do; nothing was changed, try again",
        };
        Problem::new(Code::Overloaded, detail)
    })
}
