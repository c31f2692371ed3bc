-- The statements on one collection, each under its name. statements.py fills in the words in braces; values are parameters.
-- {own} selects the collection, {row} are the columns of a chunk in the table c.

-- create_tables
-- The partition is created apart and then attached: unlike CREATE TABLE ... PARTITION OF, this does not wait for readers of
-- other collections. Rows of up to a page stay whole, as every search reads vectors.
-- Postings say which chunks hold a term, in blocks of 8 bytes for each chunk (place 32 bits, tf 8, length 24). Every write
-- adds a block for each of its terms. A negative n marks a block of deleted chunks. level: how often blocks were joined.
CREATE TABLE {partition} (
    LIKE ragtune.chunks INCLUDING ALL,
    CHECK (collection_id = {collection_id}),
    CHECK (vector_dims(embedding) = {dims})
) WITH (toast_tuple_target = 8160);
ALTER TABLE ragtune.chunks ATTACH PARTITION {partition} FOR VALUES IN ({collection_id});
CREATE TABLE {postings} (
    term    text COLLATE "C" NOT NULL,
    n       integer NOT NULL,
    level   integer NOT NULL,
    content bytea STORAGE EXTERNAL NOT NULL
);
CREATE INDEX ON {postings} (term);
CREATE INDEX ON {postings} (level) WHERE level < {built}

-- index_words: without fastupdate a search never reads through a list of pending entries
CREATE INDEX chunks_{collection_id}_tsv ON {partition} USING gin (tsv) WITH (fastupdate = off);
CREATE INDEX chunks_{collection_id}_tags ON {partition} USING gin (tags) WITH (fastupdate = off);
CREATE INDEX chunks_{collection_id}_metadata ON {partition} USING gin (metadata jsonb_path_ops) WITH (fastupdate = off)

-- index_vectors
CREATE INDEX chunks_{collection_id}_hnsw ON {partition} USING hnsw ((embedding::{indexed_as}) {operators})

-- drop_tables
DROP TABLE {partition}, {postings};
DELETE FROM ragtune.collections WHERE {own}

-- set_indexed
UPDATE ragtune.collections SET is_indexed = true WHERE {own};
ANALYZE {partition}

-- lock
SELECT chunks, places, gone, is_indexed FROM ragtune.collections WHERE {own} FOR NO KEY UPDATE

-- count: adds to the counters and counts the write
UPDATE ragtune.collections SET
    documents = documents + %(documents)s, chunks = chunks + %(chunks)s, terms = terms + %(terms)s,
    places = places + %(places)s, gone = gone + %(gone)s, writes = writes + 1
WHERE {own} RETURNING writes

-- read_digests
SELECT doc_id, chunk_index, digest FROM {partition} WHERE {own} AND doc_id = ANY(%s)

-- write_documents
INSERT INTO ragtune.documents (collection_id, doc_id, digest, metadata)
SELECT {collection_id}, * FROM unnest(%s::text[], %s::text[], %s::jsonb[])
ON CONFLICT (collection_id, doc_id) DO UPDATE SET digest = excluded.digest, metadata = excluded.metadata

-- delete_documents
DELETE FROM ragtune.documents WHERE {own} AND doc_id = ANY(%s)

-- delete_rows: deletes chunks with their postings and returns how many terms they had
WITH gone AS (
    DELETE FROM {partition} c USING unnest(%s::text[], %s::int[]) old (doc_id, chunk_index)
    WHERE c.{own} AND c.doc_id = old.doc_id AND c.chunk_index = old.chunk_index
    RETURNING c.place, c.tsv, c.length
), unposted AS (
    INSERT INTO {postings} (term, n, level, content)
    SELECT e.lexeme, -count(*), 0, string_agg(int8send(place::bigint << 32), ''::bytea)
    FROM gone, LATERAL unnest(tsv) e GROUP BY e.lexeme
)
SELECT coalesce(sum(length), 0)::bigint FROM gone

-- copy_rows
COPY {partition} ({columns}) FROM STDIN (FORMAT binary)

-- add_postings: adds postings of the chunks whose place is in [first, end)
INSERT INTO {postings} (term, n, level, content)
SELECT e.lexeme, count(*), %(level)s, string_agg(
    int8send((c.place::bigint << 32) | (cardinality(e.positions)::bigint << 24) | c.length), ''::bytea)
FROM {partition} c, LATERAL unnest(c.tsv) e
WHERE c.{own} AND c.place >= %(first)s AND c.place < %(end)s GROUP BY e.lexeme

-- join_postings: joins the blocks of a level to blocks of the next
WITH old AS (DELETE FROM {postings} WHERE level = %(level)s RETURNING term, n, content)
INSERT INTO {postings} (term, n, level, content)
SELECT term, sum(n), %(level)s + 1, string_agg(content, ''::bytea) FROM old GROUP BY term, n < 0

-- clear_postings
DELETE FROM {postings};
UPDATE ragtune.collections SET writes = 0, gone = 0 WHERE {own}

-- save_settings
UPDATE ragtune.collections SET settings = settings || %s WHERE {own} RETURNING 1

-- read_is_indexed
SELECT is_indexed FROM ragtune.collections WHERE {own}

-- read_counts
SELECT documents, chunks FROM ragtune.collections WHERE {own}

-- read_chunks
SELECT {row} FROM {partition} c WHERE {own} AND doc_id = %s ORDER BY chunk_index

-- read_contents
SELECT {row}, vector_send(embedding) FROM {partition} c WHERE {own} ORDER BY doc_id, chunk_index

-- read_doc_ids: a page of the ids that follow a text, in the order of the primary key. A limit of null reads all.
-- One row of nulls where there is no such document, no row where there is no such collection.
SELECT d.* FROM ragtune.collections c LEFT JOIN LATERAL (
    SELECT doc_id FROM ragtune.documents WHERE {own} AND doc_id > %s ORDER BY doc_id LIMIT %s::bigint
) d ON true WHERE c.{own} ORDER BY d.doc_id

-- read_document_digests: as read_doc_ids
SELECT d.* FROM ragtune.collections c LEFT JOIN LATERAL (
    SELECT doc_id, digest FROM ragtune.documents WHERE {own} AND doc_id = ANY(%s)
) d ON true WHERE c.{own} ORDER BY d.doc_id

-- exact: compares every row, and returns the k closest and those that may tie with the last
-- The planner cannot use the index, which is on an expression. A zero vector has the distance NaN.
WITH near AS MATERIALIZED (
    SELECT doc_id, chunk_index, embedding <=> %(query)s AS distance FROM {partition} WHERE {condition}
)
SELECT {row}, vector_send(c.embedding) FROM (
    SELECT doc_id, chunk_index FROM near WHERE distance <= (
        SELECT max(distance) + {slack} FROM (
            SELECT distance FROM near WHERE distance <> 'NaN' ORDER BY distance LIMIT %(k)s
        ) best
    ) ORDER BY distance, doc_id, chunk_index LIMIT %(most)s
) top JOIN {partition} c ON c.{own} AND c.doc_id = top.doc_id AND c.chunk_index = top.chunk_index

-- nearest: searches the HNSW index
SELECT * FROM (
    SELECT {row}, vector_send(c.embedding) FROM {partition} c WHERE {condition}
    ORDER BY (embedding::{indexed_as}) <=> (%(query)s)::{indexed_as} FETCH FIRST %(fetch)s ROWS WITH TIES
) found LIMIT %(most)s

-- read_postings: blocks of the given terms, with the collection's numbers of chunks and terms
SELECT p.term, p.n, p.content, c.chunks, c.terms FROM ragtune.collections c, {postings} p
WHERE c.{own} AND p.term = ANY(%(terms)s)

-- read_lists: places and vectors of the nearest chunks, and the blocks of the given terms
SELECT c.chunks, c.terms, (
    SELECT string_agg(int4send(place) || vector_send(embedding), ''::bytea) FROM (
        SELECT * FROM (
            SELECT place, embedding FROM {partition}
            ORDER BY (embedding::{indexed_as}) <=> (%(query)s)::{indexed_as} FETCH FIRST %(fetch)s ROWS WITH TIES
        ) found LIMIT %(most)s
    ) near
), p.* FROM ragtune.collections c, LATERAL (
    SELECT array_agg(term), array_agg(n), array_agg(content) FROM {postings} WHERE term = ANY(%(terms)s)
) p WHERE c.{own}

-- read_keys
SELECT place, doc_id, chunk_index FROM {partition} WHERE {own} AND place = ANY(%s::int[])

-- read_places
SELECT c.place, {row} FROM {partition} c WHERE {own} AND place = ANY(%s::int[])

-- read_passing: places of the chunks that pass a filter, 4 bytes each
SELECT string_agg(int4send(place), ''::bytea) FROM {partition} WHERE {condition}

-- read_best: the k best of the chunks at given places with given scores (rule D12)
SELECT {row}, found.score FROM unnest(%(places)s::int[], %(scores)s::float8[]) found (place, score)
JOIN {partition} c ON c.{own} AND c.place = found.place
ORDER BY found.score DESC, c.doc_id, c.chunk_index LIMIT %(k)s
