//! The key and the head of a log, beside a database that a test opens by itself.

use std::path::Path;
use std::sync::Arc;

use writ::audit::LogFiles;
use writ::domain::clock::{Clock, Entropy};
use writ::store::health::Reserve;
use writ::store::sqlite::{OpenError, SqliteStore};

use super::SeededEntropy;

/// The files beside this database; the key is made if there is none, the same for every test.
pub fn log_beside(database: &Path) -> LogFiles {
    let files = LogFiles {
        key: database.with_extension("log.key"),
        head: database.with_extension("log.head"),
    };
    // Of several who come at once one makes it.
    static MAKING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let one = MAKING.lock().unwrap();
    if !files.key.exists() && database.parent().unwrap().exists() {
        let made = files.generate(&"writ.test/audit".parse().unwrap(), &SeededEntropy::new(77));
        drop(one);
        made.unwrap();
    }
    files
}

/// Opens a database with its log beside it.
pub fn open_store(database: &Path, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(database, &Reserve::default(), log_beside(database), clock, entropy)
}
