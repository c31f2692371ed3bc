-- From version 1 of the schema: until then all collections were analyzed alike, and had no postings.
ALTER TABLE ragtune.collections
    ADD COLUMN analyzer  text NOT NULL DEFAULT '{analyzer}',
    ADD COLUMN is_posted boolean NOT NULL DEFAULT false,
    ADD COLUMN places    bigint NOT NULL DEFAULT 0,
    ADD COLUMN writes    bigint NOT NULL DEFAULT 0;
ALTER TABLE ragtune.collections ALTER COLUMN analyzer DROP DEFAULT;
UPDATE ragtune.schema_version SET version = {version};
