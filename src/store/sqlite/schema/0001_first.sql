-- Times are milliseconds since 1970-01-01T00:00:00Z: datetime(created_at / 1000, 'unixepoch') reads them.

-- Every legal change of state, so that no statement by any program can make another one.
CREATE TABLE lifecycle (
    entity     TEXT NOT NULL,
    transition TEXT NOT NULL,
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    PRIMARY KEY (entity, from_state, to_state, transition)
) STRICT, WITHOUT ROWID;

INSERT INTO lifecycle (entity, transition, from_state, to_state) VALUES
    ('draft', 'auto_approve', 'proposed', 'approved'),
    ('draft', 'hold', 'proposed', 'awaiting_approval'),
    ('draft', 'deny', 'proposed', 'denied'),
    ('draft', 'approve', 'awaiting_approval', 'approved'),
    ('draft', 'refuse', 'awaiting_approval', 'denied'),
    ('draft', 'withdraw', 'proposed', 'withdrawn'),
    ('draft', 'withdraw', 'awaiting_approval', 'withdrawn'),
    ('draft', 'withdraw', 'approved', 'withdrawn'),
    ('draft', 'supersede', 'proposed', 'superseded'),
    ('draft', 'supersede', 'awaiting_approval', 'superseded'),
    ('draft', 'supersede', 'approved', 'superseded'),
    ('draft', 'expire', 'proposed', 'expired'),
    ('draft', 'expire', 'awaiting_approval', 'expired'),
    ('draft', 'expire', 'approved', 'expired'),
    ('draft', 'mark_stale', 'approved', 'stale'),
    ('draft', 'consume', 'approved', 'consumed'),
    ('draft', 'release', 'consumed', 'approved'),
    ('approval', 'grant', 'requested', 'granted'),
    ('approval', 'refuse', 'requested', 'refused'),
    ('approval', 'lapse', 'requested', 'lapsed'),
    ('approval', 'lapse', 'granted', 'lapsed'),
    ('approval', 'void', 'requested', 'voided'),
    ('approval', 'void', 'granted', 'voided'),
    ('approval', 'revoke', 'granted', 'revoked'),
    ('credential', 'redeem', 'issued', 'redeemed'),
    ('credential', 'revoke', 'issued', 'revoked'),
    ('credential', 'lapse', 'issued', 'lapsed'),
    ('execution', 'claim', 'aborted', 'claimed'),
    ('execution', 'reclaim', 'claimed', 'claimed'),
    ('execution', 'abort', 'claimed', 'aborted'),
    ('execution', 'dispatch', 'claimed', 'dispatched'),
    ('execution', 'resend', 'indeterminate', 'dispatched'),
    ('execution', 'confirm_applied', 'dispatched', 'applied'),
    ('execution', 'confirm_applied', 'pending', 'applied'),
    ('execution', 'confirm_pending', 'dispatched', 'pending'),
    ('execution', 'confirm_not_applied', 'dispatched', 'not_applied'),
    ('execution', 'lose_track', 'dispatched', 'indeterminate'),
    ('execution', 'reconcile_applied', 'indeterminate', 'applied'),
    ('execution', 'reconcile_applied', 'handed_off', 'applied'),
    ('execution', 'reconcile_not_applied', 'indeterminate', 'not_applied'),
    ('execution', 'reconcile_not_applied', 'handed_off', 'not_applied'),
    ('execution', 'reconcile_pending', 'indeterminate', 'pending'),
    ('execution', 'reconcile_pending', 'handed_off', 'pending'),
    ('execution', 'hand_off', 'indeterminate', 'handed_off'),
    ('execution', 'hand_off', 'pending', 'handed_off'),
    ('execution', 'resolve_applied', 'handed_off', 'applied'),
    ('execution', 'resolve_applied', 'pending', 'applied'),
    ('execution', 'resolve_applied', 'indeterminate', 'applied'),
    ('execution', 'resolve_not_applied', 'handed_off', 'not_applied'),
    ('execution', 'resolve_not_applied', 'pending', 'not_applied'),
    ('execution', 'resolve_not_applied', 'indeterminate', 'not_applied'),
    ('execution', 'reopen', 'applied', 'not_applied'),
    ('execution', 'reopen', 'pending', 'not_applied');

CREATE TABLE client (
    id            TEXT PRIMARY KEY,
    tenant        TEXT NOT NULL,
    roles         TEXT NOT NULL CHECK (json_valid(roles)),
    owner         TEXT,
    permissions   TEXT NOT NULL CHECK (json_valid(permissions)),
    secret_sha256 TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    revoked_at    INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE approver (
    id         TEXT PRIMARY KEY,
    authority  TEXT NOT NULL CHECK (json_valid(authority)),
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE approver_key (
    kid        TEXT PRIMARY KEY,
    approver   TEXT NOT NULL REFERENCES approver (id),
    issuer     TEXT NOT NULL,
    kind       TEXT NOT NULL,
    -- one key fills one place
    public     TEXT NOT NULL UNIQUE,
    not_before INTEGER NOT NULL,
    not_after  INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX approver_key_by_approver ON approver_key (approver);

CREATE TABLE draft (
    id               TEXT PRIMARY KEY,
    tenant           TEXT NOT NULL,
    maker            TEXT NOT NULL,
    owner            TEXT,
    on_behalf_of     TEXT,
    case_id          TEXT,
    operation        TEXT NOT NULL,
    consequence      TEXT NOT NULL,
    resource_type    TEXT NOT NULL,
    resource_id      TEXT NOT NULL,
    resource_version TEXT,
    amount_minor     INTEGER CHECK (amount_minor > 0),
    currency         TEXT CHECK ((currency IS NULL) = (amount_minor IS NULL)),
    fields           TEXT NOT NULL CHECK (json_valid(fields)),
    subject          TEXT,
    backend          TEXT NOT NULL,
    content          TEXT NOT NULL,
    request_key      TEXT,
    request_sha256   TEXT CHECK ((request_sha256 IS NULL) = (request_key IS NULL)),
    hash             TEXT NOT NULL,
    idempotency_key  TEXT NOT NULL UNIQUE,
    supersedes       TEXT REFERENCES draft (id),
    recent           INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    expires_at       INTEGER NOT NULL,
    -- Only what follows ever changes.
    state            TEXT NOT NULL CHECK (state IN ('proposed', 'awaiting_approval', 'approved', 'consumed', 'denied', 'withdrawn',
                                                    'superseded', 'expired', 'stale')),
    verdict          TEXT CHECK (verdict IS NULL OR json_valid(verdict)),
    closed           TEXT CHECK (closed IS NULL OR json_valid(closed)),
    changed_at       INTEGER NOT NULL,
    -- Set once nothing can come of it any more: it ended, or its execution's outcome is final.
    settled_at       INTEGER,
    UNIQUE (id, hash)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX draft_one_open ON draft (tenant, maker, content) WHERE settled_at IS NULL;
CREATE UNIQUE INDEX draft_request_key ON draft (maker, request_key) WHERE request_key IS NOT NULL;
CREATE INDEX draft_by_resource ON draft (resource_type, resource_id);
CREATE INDEX draft_by_subject ON draft (operation, subject, created_at) WHERE subject IS NOT NULL;
CREATE INDEX draft_by_case ON draft (case_id, id) WHERE case_id IS NOT NULL;
CREATE INDEX draft_unsettled ON draft (state, expires_at) WHERE settled_at IS NULL;

CREATE TRIGGER draft_content_is_final BEFORE UPDATE OF id, tenant, maker, owner, on_behalf_of, case_id, operation, consequence, resource_type,
    resource_id, resource_version, amount_minor, currency, fields, subject, backend, content, request_key, request_sha256, hash,
    idempotency_key, supersedes, recent, created_at, expires_at ON draft
BEGIN SELECT RAISE(ABORT, 'the content of a draft never changes'); END;
CREATE TRIGGER draft_stays BEFORE DELETE ON draft
BEGIN SELECT RAISE(ABORT, 'a draft is never deleted'); END;
CREATE TRIGGER draft_moves_legally BEFORE UPDATE OF state ON draft
WHEN OLD.state <> NEW.state
    AND NOT EXISTS (SELECT 1 FROM lifecycle WHERE entity = 'draft' AND from_state = OLD.state AND to_state = NEW.state)
BEGIN SELECT RAISE(ABORT, 'no transition of a draft leads there'); END;

-- The canonical bytes, apart from the row that changes.
CREATE TABLE draft_document (
    draft TEXT PRIMARY KEY REFERENCES draft (id),
    bytes BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER draft_document_is_final BEFORE UPDATE ON draft_document
BEGIN SELECT RAISE(ABORT, 'the content of a draft never changes'); END;
CREATE TRIGGER draft_document_stays BEFORE DELETE ON draft_document
BEGIN SELECT RAISE(ABORT, 'a draft is never deleted'); END;

CREATE TABLE approval (
    id           TEXT PRIMARY KEY,
    draft        TEXT NOT NULL UNIQUE,
    hash         TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('requested', 'granted', 'refused', 'lapsed', 'voided', 'revoked')),
    nonce        TEXT NOT NULL,
    requirement  TEXT NOT NULL CHECK (json_valid(requirement)),
    requested_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    execute_by   INTEGER CHECK (execute_by IS NOT NULL OR state <> 'granted'),
    changed_at   INTEGER NOT NULL,
    FOREIGN KEY (draft, hash) REFERENCES draft (id, hash)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER approval_moves_legally BEFORE UPDATE OF state ON approval
WHEN OLD.state <> NEW.state
    AND NOT EXISTS (SELECT 1 FROM lifecycle WHERE entity = 'approval' AND from_state = OLD.state AND to_state = NEW.state)
BEGIN SELECT RAISE(ABORT, 'no transition of an approval leads there'); END;
CREATE TRIGGER approval_question_is_final BEFORE UPDATE OF id, draft, hash, nonce, requirement, requested_at, expires_at ON approval
BEGIN SELECT RAISE(ABORT, 'what an approval asks for never changes'); END;

CREATE TABLE approval_record (
    id          TEXT PRIMARY KEY,
    approval    TEXT NOT NULL REFERENCES approval (id),
    approver    TEXT NOT NULL,
    kid         TEXT NOT NULL,
    decision    TEXT NOT NULL CHECK (decision IN ('approve', 'deny')),
    reason      TEXT,
    queues      TEXT NOT NULL CHECK (json_valid(queues)),
    step_up     INTEGER NOT NULL CHECK (step_up IN (0, 1)),
    execute_by  INTEGER,
    received_at INTEGER NOT NULL,
    jws         TEXT NOT NULL,
    UNIQUE (approval, approver)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER approval_record_is_final BEFORE UPDATE ON approval_record
BEGIN SELECT RAISE(ABORT, 'a signed record never changes'); END;
CREATE TRIGGER approval_record_stays BEFORE DELETE ON approval_record
BEGIN SELECT RAISE(ABORT, 'a signed record is never deleted'); END;

CREATE TABLE credential (
    id          TEXT PRIMARY KEY,
    draft       TEXT NOT NULL,
    hash        TEXT NOT NULL,
    approval    TEXT NOT NULL REFERENCES approval (id),
    audience    TEXT NOT NULL,
    root_key_id INTEGER NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('issued', 'redeemed', 'revoked', 'lapsed')),
    issued_at   INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    changed_at  INTEGER NOT NULL,
    FOREIGN KEY (draft, hash) REFERENCES draft (id, hash)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX credential_one_live ON credential (draft) WHERE state = 'issued';
CREATE INDEX credential_live_until ON credential (expires_at) WHERE state = 'issued';
CREATE TRIGGER credential_moves_legally BEFORE UPDATE OF state ON credential
WHEN OLD.state <> NEW.state
    AND NOT EXISTS (SELECT 1 FROM lifecycle WHERE entity = 'credential' AND from_state = OLD.state AND to_state = NEW.state)
BEGIN SELECT RAISE(ABORT, 'no transition of a credential leads there'); END;
CREATE TRIGGER credential_grant_is_final BEFORE UPDATE OF id, draft, hash, approval, audience, root_key_id, issued_at, expires_at ON credential
BEGIN SELECT RAISE(ABORT, 'what a credential grants never changes'); END;

CREATE TABLE execution (
    id             TEXT PRIMARY KEY,
    draft          TEXT NOT NULL UNIQUE,
    hash           TEXT NOT NULL,
    credential     TEXT NOT NULL REFERENCES credential (id),
    state          TEXT NOT NULL CHECK (state IN ('claimed', 'dispatched', 'applied', 'pending', 'not_applied', 'indeterminate',
                                                  'handed_off', 'aborted')),
    fence          INTEGER NOT NULL CHECK (fence > 0),
    holder         TEXT NOT NULL,
    lease_until    INTEGER NOT NULL,
    claimed_at     INTEGER NOT NULL,
    first_sent_at  INTEGER,
    send_until     INTEGER CHECK ((send_until IS NULL) = (first_sent_at IS NULL)),
    next_action_at INTEGER,
    reference      TEXT,
    code           TEXT,
    evidence       TEXT,
    changed_at     INTEGER NOT NULL,
    FOREIGN KEY (draft, hash) REFERENCES draft (id, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX execution_open ON execution (lease_until)
    WHERE state IN ('claimed', 'dispatched', 'pending', 'indeterminate', 'handed_off');
CREATE TRIGGER execution_moves_legally BEFORE UPDATE OF state ON execution
WHEN OLD.state <> NEW.state
    AND NOT EXISTS (SELECT 1 FROM lifecycle WHERE entity = 'execution' AND from_state = OLD.state AND to_state = NEW.state)
BEGIN SELECT RAISE(ABORT, 'no transition of an execution leads there'); END;
CREATE TRIGGER execution_fence_grows BEFORE UPDATE OF fence ON execution WHEN NEW.fence < OLD.fence
BEGIN SELECT RAISE(ABORT, 'a fencing token never goes back'); END;
CREATE TRIGGER execution_window_is_final BEFORE UPDATE OF first_sent_at, send_until ON execution
WHEN OLD.first_sent_at IS NOT NULL AND (NEW.first_sent_at IS NOT OLD.first_sent_at OR NEW.send_until IS NOT OLD.send_until)
BEGIN SELECT RAISE(ABORT, 'the window for sending never moves'); END;
CREATE TRIGGER execution_stays BEFORE DELETE ON execution
BEGIN SELECT RAISE(ABORT, 'an execution is never deleted'); END;

-- Written before the first byte leaves; what came of it is filled in once.
CREATE TABLE attempt (
    execution      TEXT NOT NULL REFERENCES execution (id),
    n              INTEGER NOT NULL CHECK (n > 0),
    request_sha256 TEXT NOT NULL,
    sent_at        INTEGER NOT NULL,
    result_at      INTEGER,
    outcome        TEXT CHECK ((outcome IS NULL) = (result_at IS NULL)),
    conclusive     INTEGER CHECK (conclusive IN (0, 1) AND (conclusive IS NULL) = (result_at IS NULL)),
    status         INTEGER,
    rule           TEXT,
    body_sha256    TEXT,
    PRIMARY KEY (execution, n)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER attempt_result_is_final BEFORE UPDATE ON attempt WHEN OLD.result_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'what came of an attempt never changes'); END;
CREATE TRIGGER attempt_stays BEFORE DELETE ON attempt
BEGIN SELECT RAISE(ABORT, 'an attempt is never deleted'); END;

CREATE TABLE look_up (
    execution   TEXT NOT NULL REFERENCES execution (id),
    n           INTEGER NOT NULL CHECK (n > 0),
    at          INTEGER NOT NULL,
    step        TEXT NOT NULL,
    finding     TEXT NOT NULL,
    status      INTEGER,
    body_sha256 TEXT,
    PRIMARY KEY (execution, n)
) STRICT, WITHOUT ROWID;

-- One row an intent: with what it was asked (fingerprint), what it led to, and its last event; or that it was cancelled for ever.
CREATE TABLE operation (
    id           TEXT PRIMARY KEY,
    kind         TEXT,
    fingerprint  TEXT,
    result       TEXT CHECK (result IS NULL OR json_valid(result)),
    seq          INTEGER,
    at           INTEGER NOT NULL,
    cancelled    INTEGER NOT NULL CHECK (cancelled IN (0, 1)),
    CHECK (cancelled = (kind IS NULL) AND cancelled = (fingerprint IS NULL) AND cancelled = (result IS NULL) AND cancelled = (seq IS NULL))
) STRICT, WITHOUT ROWID;

-- The log: the exact bytes of each event in `body`; the other columns repeat what is in there, to be searched by.
CREATE TABLE event (
    seq       INTEGER PRIMARY KEY CHECK (seq >= 0),
    id        TEXT NOT NULL UNIQUE,
    at        INTEGER NOT NULL,
    type      TEXT NOT NULL,
    actor     TEXT NOT NULL,
    draft     TEXT,
    execution TEXT,
    body      TEXT NOT NULL CHECK (json_valid(body))
) STRICT;
CREATE INDEX event_by_draft ON event (draft, seq) WHERE draft IS NOT NULL;
CREATE INDEX event_by_type ON event (type, seq);
CREATE TRIGGER event_is_final BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'an event never changes'); END;
CREATE TRIGGER event_stays BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'an event is never deleted'); END;
CREATE TRIGGER event_without_gap BEFORE INSERT ON event
WHEN NEW.seq <> (SELECT coalesce(max(seq) + 1, 0) FROM event)
BEGIN SELECT RAISE(ABORT, 'events are numbered without gaps'); END;

-- One row: when somebody last asked whether the store can commit.
CREATE TABLE probe (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at INTEGER NOT NULL,
    n  INTEGER NOT NULL
) STRICT;
INSERT INTO probe (id, at, n) VALUES (1, 0, 0);
