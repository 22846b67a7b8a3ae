-- The kill switch, and approvals that are taken back.

INSERT INTO lifecycle (entity, transition, from_state, to_state) VALUES
    ('draft', 'revoke', 'approved', 'denied'),
    ('stop', 'lift', 'active', 'lifted'),
    ('stop', 'lapse', 'active', 'lapsed');

CREATE TABLE stop (
    id         TEXT PRIMARY KEY,
    -- the only tenant whose drafts it covers; every tenant's where there is none
    tenant     TEXT,
    scope      TEXT NOT NULL CHECK (scope IN ('credential', 'draft', 'approval', 'approver', 'client', 'operation', 'tenant', 'everything')),
    value      TEXT CHECK ((value IS NULL) = (scope = 'everything')),
    reason     TEXT NOT NULL,
    placed_by  TEXT NOT NULL,
    placed_at  INTEGER NOT NULL,
    expires_at INTEGER,
    -- Only what follows ever changes.
    state      TEXT NOT NULL CHECK (state IN ('active', 'lifted', 'lapsed')),
    ended      TEXT CHECK ((ended IS NULL) = (state = 'active') AND (ended IS NULL OR json_valid(ended)))
) STRICT, WITHOUT ROWID;
CREATE INDEX stop_active ON stop (id) WHERE state = 'active';
CREATE TRIGGER stop_moves_legally BEFORE UPDATE OF state ON stop
WHEN OLD.state <> NEW.state
    AND NOT EXISTS (SELECT 1 FROM lifecycle WHERE entity = 'stop' AND from_state = OLD.state AND to_state = NEW.state)
BEGIN SELECT RAISE(ABORT, 'no transition of a stop leads there'); END;
CREATE TRIGGER stop_scope_is_final BEFORE UPDATE OF id, tenant, scope, value, reason, placed_by, placed_at, expires_at ON stop
BEGIN SELECT RAISE(ABORT, 'what a stop covers never changes'); END;
CREATE TRIGGER stop_stays BEFORE DELETE ON stop
BEGIN SELECT RAISE(ABORT, 'a stop is never deleted'); END;

-- Who took a granted approval back, and why.
ALTER TABLE approval ADD COLUMN revocation TEXT CHECK (revocation IS NULL OR json_valid(revocation));
CREATE TRIGGER approval_revocation_is_final BEFORE UPDATE OF revocation ON approval WHEN OLD.revocation IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'who took an approval back never changes'); END;
