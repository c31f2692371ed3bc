-- rule D13: the canonical contract as PostgreSQL tables. Applied once a database, under an advisory lock.
-- Identifiers and terms compare by code point (COLLATE "C"), so that ties come out the same on every server.

CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA ragtune;

CREATE TABLE ragtune.schema_version (
    version integer NOT NULL
);

-- embed_model, embed_dims and analyzer are fixed for good. documents, chunks and terms count what the collection holds;
-- every write keeps them in its own transaction and locks the row, so that writes to a collection come one after the
-- other. is_posted: there are postings (postings.sql), which have given out so many places in so many writes.
CREATE TABLE ragtune.collections (
    collection_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          text COLLATE "C" NOT NULL UNIQUE,
    embed_model   text NOT NULL,
    embed_dims    integer NOT NULL CHECK (embed_dims BETWEEN 1 AND 16000),
    analyzer      text NOT NULL,
    documents     bigint NOT NULL DEFAULT 0,
    chunks        bigint NOT NULL DEFAULT 0,
    terms         bigint NOT NULL DEFAULT 0,
    is_indexed    boolean NOT NULL DEFAULT false,
    is_posted     boolean NOT NULL DEFAULT false,
    places        bigint NOT NULL DEFAULT 0,
    writes        bigint NOT NULL DEFAULT 0
);

-- metadata: what all chunks of the document have. digest: of its chunks without their vectors.
CREATE TABLE ragtune.documents (
    collection_id integer NOT NULL REFERENCES ragtune.collections ON DELETE CASCADE,
    doc_id        text COLLATE "C" NOT NULL,
    digest        text NOT NULL,
    metadata      jsonb NOT NULL,
    PRIMARY KEY (collection_id, doc_id)
);

-- One partition a collection (partition.sql), which has vectors of one length and its own indexes.
-- lexemes is the text analysis of ragtune.canonical.analyzers as a tsvector literal; the server only reads it.
CREATE TABLE ragtune.chunks (
    collection_id integer NOT NULL,
    doc_id        text COLLATE "C" NOT NULL,
    chunk_index   integer NOT NULL CHECK (chunk_index >= 0),
    content       text NOT NULL,
    tags          text[] NOT NULL,
    metadata      jsonb NOT NULL CHECK (jsonb_typeof(metadata) = 'object'),
    span_start    integer NOT NULL,
    span_end      integer NOT NULL,
    embedding     vector NOT NULL,
    length        integer NOT NULL,
    lexemes       text NOT NULL,
    tsv           tsvector GENERATED ALWAYS AS (lexemes::tsvector) STORED,
    digest        bytea NOT NULL,
    UNIQUE (collection_id, doc_id, chunk_index),
    FOREIGN KEY (collection_id, doc_id) REFERENCES ragtune.documents ON DELETE CASCADE
) PARTITION BY LIST (collection_id);

INSERT INTO ragtune.schema_version VALUES ({version});
