-- What is committed to in the events and not written there, sealed under keys that a file outside the database wraps; and pruning.

-- The keys of the search tags, one for each period.
CREATE TABLE tag_key (
    period  INTEGER PRIMARY KEY,
    wrapped BLOB NOT NULL
) STRICT;

-- A person's key. It is deleted, and with it whatever it sealed is erased.
CREATE TABLE subject_key (
    tag     BLOB PRIMARY KEY CHECK (length(tag) = 16),
    period  INTEGER NOT NULL,
    wrapped BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- One row a commitment, as long as its event is there. Without `sealed` it was erased.
CREATE TABLE opening (
    seq     INTEGER NOT NULL,
    field   TEXT NOT NULL,
    digest  BLOB NOT NULL CHECK (length(digest) = 32),
    subject BLOB NOT NULL CHECK (length(subject) = 16),
    sealed  BLOB,
    PRIMARY KEY (seq, field)
) STRICT, WITHOUT ROWID;
CREATE INDEX opening_by_subject ON opening (subject);

-- Which events are about a value, by its tag.
CREATE TABLE event_tag (
    tag BLOB NOT NULL CHECK (length(tag) = 16),
    seq INTEGER NOT NULL,
    PRIMARY KEY (tag, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_tag_by_seq ON event_tag (seq);

-- The last event of each case whose events are all pruned: its next one follows that.
CREATE TABLE case_tail (
    case_key TEXT PRIMARY KEY,
    n        INTEGER NOT NULL,
    leaf     BLOB NOT NULL CHECK (length(leaf) = 32)
) STRICT, WITHOUT ROWID;

-- Events that must not be pruned.
CREATE TABLE hold (
    id          INTEGER PRIMARY KEY,
    case_id     TEXT,
    first       INTEGER CHECK ((first IS NULL) = (case_id IS NOT NULL)),
    last        INTEGER CHECK ((last IS NULL) = (first IS NULL) AND (last IS NULL OR last >= first)),
    reason      TEXT NOT NULL,
    placed_by   TEXT NOT NULL,
    placed_at   INTEGER NOT NULL,
    released_at INTEGER
) STRICT;
CREATE TRIGGER hold_is_final BEFORE UPDATE OF id, case_id, first, last, reason, placed_by, placed_at ON hold
BEGIN SELECT RAISE(ABORT, 'what is held never changes'); END;
CREATE TRIGGER hold_is_released_once BEFORE UPDATE OF released_at ON hold WHEN OLD.released_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a hold is released once'); END;
CREATE TRIGGER hold_stays BEFORE DELETE ON hold
BEGIN SELECT RAISE(ABORT, 'a hold is never deleted'); END;

-- An event goes only after the log itself has said so, and never while it is held.
DROP TRIGGER event_stays;
CREATE TRIGGER event_stays BEFORE DELETE ON event
WHEN OLD.seq > coalesce((SELECT json_extract(body, '$.pruned.to') FROM event WHERE type = 'retention.pruned' ORDER BY seq DESC LIMIT 1), -1)
    OR EXISTS (SELECT 1 FROM hold WHERE released_at IS NULL AND (case_id = OLD.case_id OR OLD.seq BETWEEN first AND last))
BEGIN SELECT RAISE(ABORT, 'an event is never deleted, unless it is pruned and not held'); END;
CREATE TRIGGER opening_is_final BEFORE UPDATE ON opening
WHEN NEW.sealed IS NOT NULL OR NEW.seq <> OLD.seq OR NEW.field <> OLD.field OR NEW.digest <> OLD.digest OR NEW.subject <> OLD.subject
BEGIN SELECT RAISE(ABORT, 'an opening never changes; it may be erased'); END;
CREATE TRIGGER opening_stays BEFORE DELETE ON opening
WHEN EXISTS (SELECT 1 FROM event WHERE seq = OLD.seq)
BEGIN SELECT RAISE(ABORT, 'an opening stays as long as its event'); END;
