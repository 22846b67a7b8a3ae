-- Which certificate a client must show beside its secret; one certificate is one client's.
ALTER TABLE client ADD COLUMN certificate TEXT;
CREATE UNIQUE INDEX client_certificate ON client (certificate) WHERE certificate IS NOT NULL;
