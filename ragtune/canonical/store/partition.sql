-- The partition of one collection. Made aside and attached, which unlike CREATE TABLE ... PARTITION OF does not wait for
-- readers of other collections. Rows of up to a page stay whole: vectors and tsvectors are read by every search.
CREATE TABLE {partition} (
    LIKE ragtune.chunks INCLUDING ALL,
    CHECK (collection_id = {collection_id}),
    CHECK (vector_dims(embedding) = {dims})
) WITH (toast_tuple_target = 8160);

ALTER TABLE ragtune.chunks ATTACH PARTITION {partition} FOR VALUES IN ({collection_id});
