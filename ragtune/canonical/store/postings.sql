-- What lexical search reads of one collection: made from its tsvectors by the server, kept by every write.
-- places: a number for every chunk, never given twice until all are made anew.
CREATE TABLE IF NOT EXISTS ragtune.places_{collection_id} (
    no          integer PRIMARY KEY,
    doc_id      text COLLATE "C" NOT NULL,
    chunk_index integer NOT NULL,
    UNIQUE (doc_id, chunk_index)
);

-- The chunks that hold a term, by ascending number, in blocks that are only ever added or joined. content: of each the
-- number (int4), tf (int2) and length (int4). Where n is negative, numbers (int4) of chunks that are gone. peak: the
-- largest tf / (tf + norm) while the average length was average. level: how often blocks of writes have been joined.
CREATE TABLE IF NOT EXISTS ragtune.postings_{collection_id} (
    term    text COLLATE "C" NOT NULL,
    first   integer NOT NULL,
    n       integer NOT NULL,
    level   integer NOT NULL,
    peak    float8 NOT NULL,
    average float8 NOT NULL,
    content bytea STORAGE EXTERNAL NOT NULL
);
CREATE INDEX IF NOT EXISTS postings_{collection_id}_term ON ragtune.postings_{collection_id} (term, first);
CREATE INDEX IF NOT EXISTS postings_{collection_id}_level ON ragtune.postings_{collection_id} (level) WHERE level < {built};
