//! Every reason for which a transition does not take place; whoever is refused has written nothing.

mod credentials;
mod drafts;
mod executions;
mod votes;

use std::future::Future;

use writ::store::{Applied, Rejection, StoreError};

use super::world::*;

async fn refused<T: std::fmt::Debug>(world: &World, attempt: impl Future<Output = Result<Applied<T>, StoreError>>) -> Rejection {
    let before = world.events().await.len();
    let rejection = rejection(attempt.await);
    assert_eq!(world.events().await.len(), before, "{rejection} wrote an event");
    rejection
}

/// Checks one refusal: the transition, its input, and why.
macro_rules! refuses {
    ($world:ident, $transition:ident($($input:expr),*), $why:expr) => {{
        let op = $world.op();
        let attempt = $world.store().$transition(op.clone(), $($input),*);
        assert_eq!(refused(&$world, attempt).await, $why);
        // A refusal leaves no operation behind: asked for, the id is cancelled.
        assert_eq!($world.store().outcome_of(op.id).await.unwrap(), OperationOutcome::NeverApplied);
    }};
}

use refuses;
