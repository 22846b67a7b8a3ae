-- A mark of the secrets an attempt was sent with: under others the backend need not know its key, nor show what it made.
ALTER TABLE attempt ADD COLUMN secrets TEXT;

-- What backends told and only a person can make sense of.
CREATE INDEX backend_event_for_people ON backend_event (finding, received_at)
    WHERE finding IN ('waits', 'not_confirmed', 'contradicts', 'disagrees', 'not_executed', 'adapter_changed');

-- The stop that a wrong clock had ended and that this one takes up again.
ALTER TABLE stop ADD COLUMN renews TEXT REFERENCES stop (id);
