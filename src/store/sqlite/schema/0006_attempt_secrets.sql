-- A mark of the secrets an attempt was sent with: under others the backend need not know its key, nor show what it made.
ALTER TABLE attempt ADD COLUMN secrets TEXT;
