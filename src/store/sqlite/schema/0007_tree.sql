-- The tree over the log (RFC 6962): its nodes, numbered as they come to be, and its signed heads. Written in the transaction of the events.
CREATE TABLE node (
    i INTEGER PRIMARY KEY CHECK (i >= 0),
    h BLOB NOT NULL CHECK (length(h) = 32)
) STRICT;
CREATE TRIGGER node_is_final BEFORE UPDATE ON node
BEGIN SELECT RAISE(ABORT, 'a node of the tree never changes'); END;
CREATE TRIGGER node_stays BEFORE DELETE ON node
BEGIN SELECT RAISE(ABORT, 'a node of the tree is never deleted'); END;

-- The latest head, one for each minute before, and those that are `kept`: where a key was replaced.
CREATE TABLE checkpoint (
    size INTEGER PRIMARY KEY CHECK (size >= 0),
    at   INTEGER NOT NULL,
    kept INTEGER NOT NULL CHECK (kept IN (0, 1)),
    note TEXT NOT NULL
) STRICT;
CREATE TRIGGER checkpoint_is_final BEFORE UPDATE OF size, at, kept ON checkpoint
BEGIN SELECT RAISE(ABORT, 'a head of the log never changes'); END;

-- What events are searched by, taken from their own bytes and nowhere else.
ALTER TABLE event ADD COLUMN tenant     TEXT AS (json_extract(body, '$.tenant')) VIRTUAL;
ALTER TABLE event ADD COLUMN case_id    TEXT AS (json_extract(body, '$.case_id')) VIRTUAL;
ALTER TABLE event ADD COLUMN approval   TEXT AS (json_extract(body, '$.approval.id')) VIRTUAL;
ALTER TABLE event ADD COLUMN approver   TEXT AS (json_extract(body, '$.approval.approver')) VIRTUAL;
ALTER TABLE event ADD COLUMN credential TEXT AS (json_extract(body, '$.credential.id')) VIRTUAL;
ALTER TABLE event ADD COLUMN operation  TEXT AS (json_extract(body, '$.operation')) VIRTUAL;
ALTER TABLE event ADD COLUMN resource   TEXT AS (json_extract(body, '$.resource.type') || ':' || json_extract(body, '$.resource.id')) VIRTUAL;
ALTER TABLE event ADD COLUMN outcome    TEXT AS (json_extract(body, '$.outcome')) VIRTUAL;
CREATE INDEX event_by_case ON event (case_id, tenant, seq) WHERE case_id IS NOT NULL;
CREATE INDEX event_by_approval ON event (approval, seq) WHERE approval IS NOT NULL;
CREATE INDEX event_by_approver ON event (approver, seq) WHERE approver IS NOT NULL;
CREATE INDEX event_by_credential ON event (credential, seq) WHERE credential IS NOT NULL;
CREATE INDEX event_by_actor ON event (actor, seq);
CREATE INDEX event_by_resource ON event (resource, seq) WHERE resource IS NOT NULL;
CREATE INDEX event_by_time ON event (at, seq);
