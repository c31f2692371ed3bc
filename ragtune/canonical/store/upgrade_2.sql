-- From version 2 of the schema, whose blocks of postings were laid out otherwise.
UPDATE ragtune.collections SET is_posted = false;
UPDATE ragtune.schema_version SET version = {version};
