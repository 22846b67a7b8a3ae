//! Retire: drafts that are taken back, and what is past its time.

use super::{Broker, Caller};
use crate::audit::Actor;
use crate::domain::id::DraftId;
use crate::domain::lifecycle::DraftState;
use crate::store::StoreError;
use crate::store::intent::{Close, CloseAs, DraftFilter};
use crate::store::record::{DraftRecord, Swept};

/// Why a draft was not withdrawn.
#[derive(Debug, thiserror::Error)]
pub enum WithdrawError {
    /// There is no such draft of this caller.
    #[error("there is no such draft")]
    NotFound,
    /// The store refused, or did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Broker {
    /// Takes a draft back, on its maker's wish.
    ///
    /// # Errors
    /// [`WithdrawError`]; the draft stands as it stood.
    pub async fn withdraw(&self, caller: &Caller, id: DraftId) -> Result<DraftRecord, WithdrawError> {
        let mine = |d: &DraftRecord| d.tenant == caller.client.tenant && d.maker == caller.client.id;
        let draft = self.store.draft(id).await?.filter(mine).ok_or(WithdrawError::NotFound)?;
        if draft.state == DraftState::Withdrawn {
            return Ok(draft);
        }
        let close = Close {
            draft: id,
            how: CloseAs::Withdrawn,
            code: "withdrawn_by_maker".to_owned(),
            reason: None,
            answer: None,
        };
        Ok(self.store.close(self.op_of(caller), close).await?.value)
    }

    /// Ends what is past its time, and decides drafts that were stored by a process that died before it asked the policy.
    ///
    /// # Errors
    /// [`StoreError`]; what was done before it stays done.
    pub async fn sweep(&self) -> Result<Swept, StoreError> {
        let actor = Actor::system("broker.sweep");
        let swept = self.store.sweep(self.op(actor.clone(), None), 100).await?.value;
        let settled = self.clock.now().minus(std::time::Duration::from_secs(10));
        let undecided = DraftFilter {
            state: Some(DraftState::Proposed),
            limit: 100,
            ..DraftFilter::default()
        };
        for draft in self.store.drafts(undecided).await? {
            // A younger one is most likely being decided this moment by the request that stored it.
            if draft.created_at > settled {
                continue;
            }
            if let Err(error) = self.decide(None, draft).await {
                tracing::warn!(%error, "a proposed draft could not be decided; the next sweep tries again");
            }
        }
        Ok(swept)
    }
}
