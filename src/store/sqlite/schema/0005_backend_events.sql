-- What a backend told by itself, once for each of its events. `look_at` is set while the backend has yet to be looked at because of it.
CREATE TABLE backend_event (
    backend        TEXT NOT NULL,
    id             TEXT NOT NULL,
    type           TEXT NOT NULL,
    content_sha256 TEXT NOT NULL,
    received_at    INTEGER NOT NULL,
    execution      TEXT REFERENCES execution (id),
    said           TEXT CHECK (said IN ('applied', 'pending', 'failed')),
    reference      TEXT,
    finding        TEXT NOT NULL CHECK (finding IN ('not_ours', 'not_executed', 'disagrees', 'adapter_changed', 'agrees', 'waits', 'believed',
                                                    'confirmed', 'late', 'not_confirmed', 'contradicts')),
    look_at        INTEGER CHECK ((look_at IS NOT NULL) = (finding = 'waits') AND (look_at IS NULL OR (execution IS NOT NULL AND said IS NOT NULL))),
    PRIMARY KEY (backend, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX backend_event_waiting ON backend_event (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX backend_event_by_execution ON backend_event (execution) WHERE execution IS NOT NULL;
CREATE TRIGGER backend_event_is_final BEFORE UPDATE OF backend, id, type, content_sha256, received_at, execution, said, reference
    ON backend_event
BEGIN SELECT RAISE(ABORT, 'what a backend told never changes'); END;
CREATE TRIGGER backend_event_stays BEFORE DELETE ON backend_event
BEGIN SELECT RAISE(ABORT, 'what a backend told is never deleted'); END;
CREATE INDEX execution_by_reference ON execution (reference) WHERE reference IS NOT NULL;
