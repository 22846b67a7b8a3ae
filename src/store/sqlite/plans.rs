//! What is asked again and again costs what is open, not what has been: it goes through an index, under the guarantee that a plan does not hang on
//! what is bound to it.

use rusqlite::config::DbConfig;

use super::{connection, draft, read, sweep};

#[test]
fn what_is_swept_for_is_found_through_an_index_of_what_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("writ.db");
    connection::prepare(&path).unwrap();
    let writer = connection::writer(&path).unwrap();
    assert!(writer.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG).unwrap());
    for (sql, index) in [
        (read::DUE, "execution_open"),
        (sweep::UNSPENT, "credential_live_until"),
        (draft::LIVE, "credential_one_live"),
    ] {
        let mut statement = writer.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let mut rows = statement.raw_query();
        let mut plan = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            plan.push(row.get::<_, String>("detail").unwrap());
        }
        assert!(plan.iter().any(|line| line.contains(index)), "{sql}: {plan:?}");
        let scans = |line: &String| line.starts_with("SCAN") && !line.contains("json_each");
        assert!(!plan.iter().any(scans), "{sql}: {plan:?}");
    }
}
