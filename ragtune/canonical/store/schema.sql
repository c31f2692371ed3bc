-- Rule D13: the reference schema. It is applied once to a database, under an advisory lock.
-- Identifiers and terms compare by code point (COLLATE "C"), so that ties have the same order on every server.

CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA ragtune;

CREATE TABLE ragtune.schema_version (
    version integer NOT NULL
);

-- embed_model, embed_dims and analyzer never change. documents, chunks and terms count what the collection holds. places
-- counts the numbers given to chunks, writes the writes to the postings, gone the deleted chunks that the postings still
-- have. settings: how the embedder is made, and fitted weights. Every write updates the counters in its own transaction and locks the row, so that one write follows the other.
CREATE TABLE ragtune.collections (
    collection_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          text COLLATE "C" NOT NULL UNIQUE,
    embed_model   text NOT NULL,
    embed_dims    integer NOT NULL CHECK (embed_dims BETWEEN 1 AND 16000),
    analyzer      text NOT NULL,
    documents     bigint NOT NULL DEFAULT 0,
    chunks        bigint NOT NULL DEFAULT 0,
    terms         bigint NOT NULL DEFAULT 0,
    places        bigint NOT NULL DEFAULT 0,
    writes        bigint NOT NULL DEFAULT 0,
    gone          bigint NOT NULL DEFAULT 0,
    is_indexed    boolean NOT NULL DEFAULT false,
    settings      jsonb NOT NULL DEFAULT '{{}}'
);

-- metadata: what all chunks of the document share. digest: of its chunks without their vectors.
CREATE TABLE ragtune.documents (
    collection_id integer NOT NULL REFERENCES ragtune.collections ON DELETE CASCADE,
    doc_id        text COLLATE "C" NOT NULL,
    digest        text NOT NULL,
    metadata      jsonb NOT NULL,
    PRIMARY KEY (collection_id, doc_id)
);

-- One partition for each collection (create_tables), with vectors of one length and its own indexes.
-- lexemes is the output of ragtune.canonical.analyzers as a tsvector literal. place is the chunk's number in the postings.
CREATE TABLE ragtune.chunks (
    collection_id integer NOT NULL,
    doc_id        text COLLATE "C" NOT NULL,
    chunk_index   integer NOT NULL CHECK (chunk_index >= 0),
    place         integer NOT NULL,
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
    UNIQUE (collection_id, place)
) PARTITION BY LIST (collection_id);

INSERT INTO ragtune.schema_version VALUES ({version});
