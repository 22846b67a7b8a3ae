//! A few read-only connections, each used by one blocking task at a time.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::connection;
use super::failure::Failure;
use crate::store::StoreError;

/// How many reads run at once.
const READERS: usize = 3;

/// The idle connections.
pub(super) struct Readers {
    idle: Arc<Mutex<Vec<Connection>>>,
    places: Arc<Semaphore>,
}

impl Readers {
    /// Opens the connections.
    pub(super) fn open(path: &Path) -> rusqlite::Result<Self> {
        let idle: Vec<Connection> = (0..READERS).map(|_| connection::reader(path)).collect::<Result<_, _>>()?;
        Ok(Self {
            idle: Arc::new(Mutex::new(idle)),
            places: Arc::new(Semaphore::new(READERS)),
        })
    }

    /// Reads one consistent snapshot.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let closed = || StoreError::Unavailable("the store is closed".to_owned());
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| closed())?;
        let idle = Arc::clone(&self.idle);
        let task = tokio::task::spawn_blocking(move || {
            let connection = idle.lock().unwrap_or_else(PoisonError::into_inner).pop().ok_or_else(closed)?;
            let result = snapshot(&connection, read);
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            // Only now: a caller that went away must not free the place before its connection is back.
            drop(place);
            result.map_err(Failure::rolled_back)
        });
        task.await
            .unwrap_or_else(|error| Err(StoreError::Unavailable(format!("a read ended early: {error}"))))
    }
}

fn snapshot<T>(connection: &Connection, read: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T, Failure> {
    let tx = connection.unchecked_transaction()?;
    let value = read(&tx)?;
    tx.commit()?;
    Ok(value)
}
