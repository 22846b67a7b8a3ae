-- When an execution was handed to a person, and why: the case stays readable after it is resolved.
ALTER TABLE execution ADD COLUMN handed_off_at INTEGER;
ALTER TABLE execution ADD COLUMN handed_off_code TEXT CHECK ((handed_off_code IS NULL) = (handed_off_at IS NULL));
UPDATE execution SET handed_off_at = changed_at, handed_off_code = coalesce(code, 'unresolved') WHERE state = 'handed_off';
CREATE INDEX execution_handed_off ON execution (id) WHERE handed_off_at IS NOT NULL;
