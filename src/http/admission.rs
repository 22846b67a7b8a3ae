//! Load shedding: a call that changes something needs a place, and new drafts are the first to get none.

use axum::extract::{FromRef, FromRequestParts, MatchedPath};
use axum::http::request::Parts;

use super::{Code, Common, Problem};
use crate::edge::{Place, Work};

/// A call's place among those that are worked on; it ends with the handler, or earlier if the handler drops it.
pub(super) struct Admitted(pub(super) Place);

impl<S> FromRequestParts<S> for Admitted
where
    S: Send + Sync,
    Common: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let common = Common::from_ref(state);
        let work = work(parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str));
        let place = common.admission.admit(work, common.store.tally().waiting());
        place.map(Self).ok_or_else(|| {
            let detail = match work {
                Work::Begin => "there is too much to do, and new work is taken last; nothing was changed, try again later",
                Work::Continue | Work::Execute => "there is too much to do; nothing was changed, try again",
            };
            Problem::new(Code::Overloaded, detail)
        })
    }
}

fn work(route: &str) -> Work {
    match route {
        "/v1/drafts" | "/v1/reads" => Work::Begin,
        "/v1/executions" | "/v1/executions/{id}/resolve" => Work::Execute,
        _ => Work::Continue,
    }
}
