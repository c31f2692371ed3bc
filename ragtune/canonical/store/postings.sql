-- What lexical search reads of one collection: made from its tsvectors by the server, kept by every write.
-- places: a number for every chunk, never given twice until all are made anew.
CREATE TABLE IF NOT EXISTS ragtune.places_{collection_id} (
    no          integer PRIMARY KEY,
    doc_id      text COLLATE "C" NOT NULL,
    chunk_index integer NOT NULL,
    UNIQUE (doc_id, chunk_index)
);

-- The chunks that hold a term, by ascending number, in blocks that are only ever added or joined, each of numbers that are
-- alike but for their last 16 bits. content: of each chunk those bits and, in the last 8, tf (int4). Where n is negative,
-- of chunks that are gone. Of the empty term, which no chunk has: the length (int4) of every number from 0 on. peak: the
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
