"""The store against its peers on the same rows: SQL by hand on pgvector, SQLite, LanceDB (``pip install lancedb``).

    python benchmarks/bench_peers.py [--chunks 20000] [--dims 384] [--queries 100] [--repeats 3] [--json FILE]

Each side runs in a process of its own, on the collection of ``bench_store.py``: it takes all rows in, builds an index
on vectors and one on words, and answers questions by both, the best 50 of each fused by RRF to 12. Times of a question
are the fastest of the repeats; processor time is that of all processes of the side. Memory is what these hold after the
last question, above what they held before the first row. By hand, words are ranked by ``ts_rank_cd``, since PostgreSQL
has no BM25.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import psycopg
from bench_lexical import cpu_seconds, milliseconds, processes, seconds
from bench_store import POOL, Collection, GivenVectors, K, bare_ingest, collection_key
from machine import report
from pgvector.psycopg import register_vector

from ragtune.canonical import Candidate, Embedding, Filters, RetrievalPlan
from ragtune.canonical.store.database import EF_SEARCH, PostgresDatabase
from ragtune.canonical.store.embedded import EmbeddedServer

RRF_K = 60
BARE_NEAREST = "SELECT doc_id, chunk_index FROM bare ORDER BY embedding <=> %(vector)s LIMIT %(pool)s"
BARE_HYBRID = """
WITH near AS MATERIALIZED (
    SELECT doc_id, chunk_index, row_number() OVER (ORDER BY distance) AS place FROM (
        SELECT doc_id, chunk_index, embedding <=> %(vector)s AS distance FROM bare ORDER BY distance LIMIT %(pool)s) v),
worded AS MATERIALIZED (
    SELECT doc_id, chunk_index, row_number() OVER (ORDER BY rank DESC) AS place FROM (
        SELECT doc_id, chunk_index, ts_rank_cd(tsv, query) AS rank FROM bare, to_tsquery('english', %(words)s) query
        WHERE tsv @@ query ORDER BY rank DESC LIMIT %(pool)s) w)
SELECT b.doc_id, b.chunk_index, b.content, b.tags, b.metadata, score FROM bare b JOIN (
    SELECT doc_id, chunk_index, sum(1.0 / (%(rrf_k)s + place)) AS score
    FROM (SELECT * FROM near UNION ALL SELECT * FROM worded) lists GROUP BY 1, 2 ORDER BY score DESC LIMIT %(k)s
) best USING (doc_id, chunk_index) ORDER BY score DESC
"""

Search = Callable[[Embedding, str], object]
Nearest = Callable[[Embedding], set[tuple[str, int]]]


@contextmanager
def ragd(collection: Collection, folder: str) -> Iterator[tuple[int, Callable[[], object], Search, Nearest]]:
    with EmbeddedServer(folder) as server, PostgresDatabase(server.dsn) as database:
        store = database.open("peers", GivenVectors(collection.vectors.shape[1]), create=True)

        def search(vector: Embedding, words: str) -> list[Candidate]:
            return store.hybrid_candidates(words, vector, RetrievalPlan(mode="hybrid", k=K, candidate_pool=POOL))

        def nearest(vector: Embedding) -> set[tuple[str, int]]:
            return {found.key for found in store.vector_candidates(vector, POOL, Filters())}

        yield server.pid, lambda: store.load(collection.batches()), search, nearest


@contextmanager
def by_hand(collection: Collection, folder: str) -> Iterator[tuple[int, Callable[[], object], Search, Nearest]]:
    with EmbeddedServer(folder) as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        register_vector(connection)
        connection.execute(f"SET hnsw.ef_search = {EF_SEARCH}; SET enable_seqscan = off")

        def search(vector: Embedding, words: str) -> Any:
            values = {"vector": vector, "words": " | ".join(words.split()), "pool": POOL, "k": K, "rrf_k": RRF_K}
            return connection.execute(BARE_HYBRID, values, binary=True, prepare=True).fetchall()

        def nearest(vector: Embedding) -> set[tuple[str, int]]:
            return set(connection.execute(BARE_NEAREST, {"vector": vector, "pool": POOL}).fetchall())

        yield server.pid, lambda: bare_ingest(server.dsn, collection), search, nearest


@contextmanager
def lance(collection: Collection, folder: str) -> Iterator[tuple[int, Callable[[], object], Search, Nearest]]:
    import lancedb
    import pyarrow as pa
    from lancedb.index import FTS, HnswSq
    from lancedb.rerankers import RRFReranker

    database, dims = lancedb.connect(folder), collection.vectors.shape[1]
    fields = {"doc_id": pa.string(), "chunk_index": pa.int32(), "content": pa.string()}
    schema = pa.schema(
        {**fields, "tags": pa.list_(pa.string()), "page": pa.int32(), "vector": pa.list_(pa.float32(), dims)}
    )

    def rows() -> Iterator[Any]:
        for chunks, vectors in collection.batches():
            columns = {name: [getattr(one, name) for one in chunks] for name in fields}
            columns |= {"tags": [list(one.tags) for one in chunks], "page": [one.metadata["page"] for one in chunks]}
            flat = pa.array(np.asarray(vectors).ravel(), pa.float32())
            values = [*columns.values(), pa.FixedSizeListArray.from_arrays(flat, dims)]
            yield pa.record_batch(values, schema=schema)

    def load() -> None:
        table = database.create_table("peers", pa.RecordBatchReader.from_batches(schema, rows()))
        table.create_index("vector", config=HnswSq(distance_type="cosine"))
        table.create_index("content", config=FTS())

    reranker = RRFReranker(K=RRF_K)

    def search(vector: Embedding, words: str) -> Any:
        asked = (
            database.open_table("peers").search(query_type="hybrid", fts_columns="content").vector(vector).text(words)
        )
        return asked.limit(POOL).rerank(reranker).to_list()[:K]

    def nearest(vector: Embedding) -> set[tuple[str, int]]:
        found = database.open_table("peers").search(vector).distance_type("cosine").limit(POOL).to_list()
        return {(row["doc_id"], row["chunk_index"]) for row in found}

    yield psutil.Process().pid, load, search, nearest


@contextmanager
def sqlite(collection: Collection, folder: str) -> Iterator[tuple[int, Callable[[], object], Search, Nearest]]:
    """FTS5 for words, and an exact search over a matrix in memory, which is also a file."""
    database = sqlite3.connect(f"{folder}/peers.sqlite")
    matrices: list[Embedding] = []

    def load() -> None:
        database.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, doc_id, chunk_index, content, tags, metadata)")
        database.execute(
            "CREATE VIRTUAL TABLE words USING fts5(content, content=rows, content_rowid=id, tokenize=porter)"
        )
        for chunks, vectors in collection.batches():
            rows = [(c.doc_id, c.chunk_index, c.content, json.dumps(c.tags), json.dumps(c.metadata)) for c in chunks]
            database.executemany("INSERT INTO rows VALUES (NULL, ?, ?, ?, ?, ?)", rows)
            matrices.append(np.asarray(vectors))
        database.execute("INSERT INTO words (words) VALUES ('rebuild')")
        database.commit()
        matrices[:] = [np.vstack(matrices)]
        np.save(f"{folder}/vectors.npy", matrices[0])

    def best(vector: Embedding) -> list[int]:
        products = matrices[0] @ vector
        first = np.argpartition(-products, POOL)[:POOL]
        return [int(place) + 1 for place in first[np.argsort(-products[first])]]

    def search(vector: Embedding, words: str) -> Any:
        sql = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
        lists = [best(vector), [row for (row,) in database.execute(sql, (" OR ".join(words.split()), POOL))]]
        scores: dict[int, float] = {}
        for ranked in lists:
            for rank, row in enumerate(ranked, start=1):
                scores[row] = scores.get(row, 0.0) + 1 / (RRF_K + rank)
        first = sorted(scores, key=lambda row: -scores[row])[:K]
        return [database.execute("SELECT * FROM rows WHERE id = ?", (row,)).fetchone() for row in first]

    def nearest(vector: Embedding) -> set[tuple[str, int]]:
        return {collection_key(row - 1) for row in best(vector)}

    yield psutil.Process().pid, load, search, nearest


SIDES = {"ragd": ragd, "by_hand": by_hand, "sqlite": sqlite, "lancedb": lance}


def measured(side: str, chunks: int, dims: int, queries: int, repeats: int) -> dict[str, Any]:
    collection = Collection(chunks, dims, queries)
    rng = np.random.default_rng(3)
    texts = [" ".join(f"word{rank}" for rank in rng.integers(20, 3000, size=4)) for _ in range(queries)]
    exact = collection.queries @ collection.vectors.T
    with tempfile.TemporaryDirectory(prefix="ragtune-bench-") as folder:
        Path(folder).chmod(0o711)  # where this is root, the server runs as another user
        with SIDES[side](collection, folder) as (server, load, search, nearest):
            before, used = memory_mb(server), cpu_seconds(server)
            figures: dict[str, Any] = {"ingest_s": round(seconds(load), 1)}
            figures["ingest_cpu_s"] = round(cpu_seconds(server) - used, 1)
            times = np.zeros((repeats + 1, queries))
            for turn in range(repeats + 1):
                if turn == 1:
                    used = cpu_seconds(server)
                for place, (vector, words) in enumerate(zip(collection.queries, texts, strict=True)):
                    times[turn, place] = seconds(lambda v=vector, w=words: search(v, w))  # type: ignore[misc]
            best = times[1:].min(axis=0)
            figures |= {
                "hybrid_ms": milliseconds(best),
                "hybrid_p95_ms": round(1000 * float(np.percentile(best, 95)), 2),
                "hybrid_cpu_ms": round(1000 * (cpu_seconds(server) - used) / (repeats * queries), 2),
            }
            places = np.argsort(-exact, axis=1)[:, :POOL].tolist()
            shares = [
                len(nearest(vector) & set(map(collection_key, best))) / POOL
                for vector, best in zip(collection.queries, places, strict=True)
            ]
            figures["recall50"] = round(float(np.mean(shares)), 4)
            figures["memory_mb"] = memory_mb(server) - before
            figures["disk_mb"] = sum(f.stat().st_size for f in Path(folder).resolve().rglob("*") if f.is_file()) >> 20
    return figures


def memory_mb(server: int) -> int:
    """What this process and a server's have in memory, what they share counted once."""
    return round(sum(one.memory_full_info().pss for one in processes(server)) / 2**20)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--dims", type=int, default=384)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--side", choices=SIDES, help="only this one, in this process")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    arguments = parser.parse_args()
    sizes = [arguments.chunks, arguments.dims, arguments.queries, arguments.repeats]
    if arguments.side:
        sys.stdout.write(json.dumps(measured(arguments.side, *sizes)) + "\n")
        return 0
    figures = {}
    for side in SIDES:
        if side == "lancedb" and importlib.util.find_spec("lancedb") is None:
            sys.stderr.write("lancedb is not installed: left out\n")
            continue
        names = ["--chunks", "--dims", "--queries", "--repeats"]
        command = [sys.executable, __file__, "--side", side, *(f"{n}={v}" for n, v in zip(names, sizes, strict=True))]
        figures[side] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        sys.stdout.write(f"{side}: {json.dumps(figures[side])}\n")
        sys.stdout.flush()
    report(figures, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
