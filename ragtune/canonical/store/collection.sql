-- The tables of one collection. The partition is created apart and then attached: unlike CREATE TABLE ... PARTITION OF,
-- this does not wait for readers of other collections. Rows of up to a page stay whole, as every search reads vectors.
CREATE TABLE {partition} (
    LIKE ragtune.chunks INCLUDING ALL,
    CHECK (collection_id = {collection_id}),
    CHECK (vector_dims(embedding) = {dims})
) WITH (toast_tuple_target = 8160);

ALTER TABLE ragtune.chunks ATTACH PARTITION {partition} FOR VALUES IN ({collection_id});

-- The postings: which chunks hold a term, in blocks of 8 bytes for each chunk (place 32 bits, tf 8, length 24). Every write
-- adds a block for each of its terms. A negative n marks a block of deleted chunks. level: how often blocks were joined.
CREATE TABLE {postings} (
    term    text COLLATE "C" NOT NULL,
    n       integer NOT NULL,
    level   integer NOT NULL,
    content bytea STORAGE EXTERNAL NOT NULL
);
CREATE INDEX ON {postings} (term);
CREATE INDEX ON {postings} (level) WHERE level < {built};
