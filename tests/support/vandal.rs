//! Somebody who can write to the database file and holds no key.

use rusqlite::Connection;

/// Runs with every trigger dropped and no foreign keys, and makes the triggers again as they were.
pub fn without_guards(connection: &Connection, attack: impl FnOnce(&Connection)) {
    connection.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    let mut statement = connection
        .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        .unwrap();
    let rows = statement
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .unwrap();
    let triggers: Vec<(String, String)> = rows.map(Result::unwrap).collect();
    for (name, _) in &triggers {
        connection.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
    }
    attack(connection);
    for (_, sql) in &triggers {
        connection.execute_batch(sql).unwrap();
    }
}
