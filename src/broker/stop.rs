//! Stop: the kill switch over HTTP, bounded to the caller's tenant. At the command line it has no such bound.

use super::{Broker, Caller};
use crate::audit::{EventBody, EventKind, Note, StopPart};
use crate::domain::id::StopId;
use crate::domain::principal::OperationPattern;
use crate::domain::stop::{Reason, StopScope};
use crate::domain::time::Timestamp;
use crate::store::stop::{LiftStop, PlaceStop, StopFilter, StopRecord, StopStanding, Stops};
use crate::store::{PATIENCE, StoreError, insist};

/// A stop that is wished for.
#[derive(Debug, Clone)]
pub struct StopRequest {
    /// What it shall cover.
    pub scope: StopScope,
    /// Why.
    pub reason: Reason,
    /// First moment it shall no longer count.
    pub expires_at: Option<Timestamp>,
}

/// Why a stop was not placed or lifted.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// No declared operation is meant: such a stop would stop nothing, and look as if it did.
    #[error("no backend file declares an operation that `{0}` covers")]
    UnknownOperation(OperationPattern),
    /// There is no such stop for this caller.
    #[error("there is no such stop")]
    NotFound,
    /// It covers other tenants too.
    #[error("stop {0} covers every tenant; `writ resume` at the command line lifts it")]
    OfAllTenants(StopId),
    /// The store refused, or did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Broker {
    /// Places a stop over what the caller's tenant has, and tells what is in flight.
    ///
    /// # Errors
    /// [`StopError`]; nothing is stopped.
    pub async fn place_stop(&self, caller: &Caller, request: StopRequest) -> Result<StopStanding, StopError> {
        if let StopScope::Operation(pattern) = &request.scope
            && !self.backends.operations().any(|operation| pattern.covers(operation.name()))
        {
            return Err(StopError::UnknownOperation(pattern.clone()));
        }
        let place = PlaceStop {
            id: StopId::generate(&*self.clock, &*self.entropy),
            tenant: Some(caller.client.tenant.clone()),
            scope: request.scope,
            reason: request.reason,
            expires_at: request.expires_at,
        };
        let place = |op| self.store.place_stop(op, place.clone());
        Ok(insist(PATIENCE, self.op_of(caller), place).await?.value)
    }

    /// Lifts a stop of the caller's tenant.
    ///
    /// # Errors
    /// [`StopError`]; the stop stands as it stood.
    pub async fn lift_stop(&self, caller: &Caller, stop: StopId, reason: Reason) -> Result<StopRecord, StopError> {
        let seen = self.stop(caller, stop).await?;
        if seen.stop.tenant.is_none() {
            let event = EventBody::new(EventKind::Note(Note::AccessDenied), caller.actor()).denied("stop_of_all_tenants");
            let part = Some(StopPart::named(stop));
            self.note_denial(caller, EventBody { stop: part, ..event }).await;
            return Err(StopError::OfAllTenants(stop));
        }
        let lift = LiftStop { stop, reason };
        let lift = |op| self.store.lift_stop(op, lift.clone());
        Ok(insist(PATIENCE, self.op_of(caller), lift).await?.value)
    }

    /// A stop that the caller's tenant may see, with what is in flight of that tenant.
    ///
    /// # Errors
    /// [`StopError::NotFound`], or [`StopError::Store`].
    pub async fn stop(&self, caller: &Caller, stop: StopId) -> Result<StopStanding, StopError> {
        let found = self.store.stop(stop, Some(caller.client.tenant.clone())).await?;
        found.ok_or(StopError::NotFound)
    }

    /// The stops that the caller's tenant may see.
    ///
    /// # Errors
    /// [`StopError::Store`].
    pub async fn stops(&self, caller: &Caller, which: Stops, after: Option<StopId>, limit: u32) -> Result<Vec<StopRecord>, StopError> {
        let filter = StopFilter {
            viewer: Some(caller.client.tenant.clone()),
            which,
            after,
            limit,
        };
        Ok(self.store.stops(filter).await?)
    }
}
