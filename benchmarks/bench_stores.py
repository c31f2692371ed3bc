"""Ingest and hybrid search of a ragd collection, of SQL by hand, and of an embedded store, on real documentation.

    pip install lancedb==0.40.0
    python benchmarks/bench_stores.py DIRECTORY [--rounds 3] [--json FILE]

``DIRECTORY`` holds the documentation of npm, pytest and Django; ``judged_prompts.fetch`` downloads what is missing. All
stores get the same chunks and the same vectors, of the embedder ``hashing``. The judged prompts are the questions, and
their vectors are made beforehand. Both PostgreSQL stores use one embedded server. Each round ingests into every store,
then asks every store each question in turn. CPU is user and system time; that of PostgreSQL includes its workers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lancedb
import psutil
import psycopg
import pyarrow
from judged_prompts import fetch, prompts
from lancedb.index import FTS
from lancedb.rerankers import RRFReranker
from pgvector.psycopg import register_vector

from ragtune.canonical import Chunk, Embedding, RetrievalPlan, chunk, retrieve
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.store.database import EF_SEARCH, PostgresDatabase
from ragtune.canonical.store.embedded import EmbeddedServer
from ragtune.embedders.hashing import HashingEmbedder

BATCH = 500
K, POOL = 12, 50
POLICY = ChunkPolicy(method="paragraphs", max_tokens=150)
TABLE = """
DROP TABLE IF EXISTS bare;
CREATE TABLE bare (doc_id text NOT NULL, chunk_index int NOT NULL, content text NOT NULL, embedding vector({dims}),
    tsv tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED)
"""
INDEXES = """
ALTER TABLE bare ADD PRIMARY KEY (doc_id, chunk_index);
CREATE INDEX ON bare USING hnsw (embedding vector_cosine_ops);
CREATE INDEX ON bare USING gin (tsv);
ANALYZE bare
"""
SEARCH = """
WITH query AS (SELECT {terms} AS terms),
by_vector AS (
    SELECT doc_id, chunk_index, row_number() OVER (ORDER BY distance) AS rank FROM (
        SELECT doc_id, chunk_index, embedding <=> %(vector)s AS distance FROM bare
        ORDER BY embedding <=> %(vector)s LIMIT 50) nearest),
by_terms AS (
    SELECT doc_id, chunk_index, row_number() OVER (ORDER BY score DESC, doc_id, chunk_index) AS rank FROM (
        SELECT doc_id, chunk_index, ts_rank_cd(tsv, terms) AS score FROM bare, query WHERE tsv @@ terms
        ORDER BY score DESC, doc_id, chunk_index LIMIT 50) best)
SELECT doc_id, chunk_index, content, coalesce(1.0 / (60 + v.rank), 0) + coalesce(1.0 / (60 + t.rank), 0) AS score
FROM by_vector v FULL JOIN by_terms t USING (doc_id, chunk_index) JOIN bare USING (doc_id, chunk_index)
ORDER BY score DESC, doc_id, chunk_index LIMIT 12
"""
ALL_TERMS = "plainto_tsquery('english', %(text)s)"
ANY_TERM = f"replace({ALL_TERMS}::text, '&', '|')::tsquery"


class Store(ABC):
    """A store under test: ``ingest`` replaces what it holds."""

    @abstractmethod
    def ingest(self, chunks: Sequence[Chunk], vectors: Embedding) -> None: ...

    @abstractmethod
    def search(self, text: str, vector: Embedding) -> list[tuple[str, int]]: ...


class Ragd(Store):
    """A collection of ragd, as ``ragtune ingest`` and the services use it."""

    def __init__(self, database: PostgresDatabase, known: dict[str, Embedding]) -> None:
        self._database, self._known = database, known

    def ingest(self, chunks: Sequence[Chunk], vectors: Embedding) -> None:
        self._database.drop("bench")
        self._store = self._database.open("bench", _Given(self._known), create=True)
        self._store.load((chunks[at : at + BATCH], vectors[at : at + BATCH]) for at in range(0, len(chunks), BATCH))

    def search(self, text: str, vector: Embedding) -> list[tuple[str, int]]:
        found = retrieve(text, RetrievalPlan(mode="hybrid", k=K), self._store, cache_dir=None)
        return [candidate.key for candidate in found]


class _Given(HashingEmbedder):
    """The embedder ``hashing`` with the vectors of the questions at hand."""

    def __init__(self, known: dict[str, Embedding]) -> None:
        super().__init__()
        self._known = known

    def embed(self, texts: Sequence[str]) -> Any:
        if len(texts) == 1 and texts[0] in self._known:
            return self._known[texts[0]][None, :]
        return super().embed(texts)


class ByHand(Store):
    """One table with two indexes, and one statement that fuses both lists by reciprocal rank."""

    def __init__(self, dsn: str, terms: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)
        register_vector(self._connection)
        self._connection.execute(f"SET hnsw.ef_search = {EF_SEARCH}")
        self._sql = SEARCH.format(terms=terms)

    def ingest(self, chunks: Sequence[Chunk], vectors: Embedding) -> None:
        self._connection.execute(TABLE.format(dims=vectors.shape[1]))
        sql = "COPY bare (doc_id, chunk_index, content, embedding) FROM STDIN (FORMAT binary)"
        with self._connection.cursor().copy(sql) as copy:
            copy.set_types(["text", "int4", "text", "vector"])
            for one, vector in zip(chunks, vectors, strict=True):
                copy.write_row((one.doc_id, one.chunk_index, one.content, vector))
        self._connection.execute(INDEXES)

    def search(self, text: str, vector: Embedding) -> list[tuple[str, int]]:
        rows = self._connection.execute(self._sql, {"text": text, "vector": vector}, binary=True, prepare=True)
        return [(row[0], row[1]) for row in rows.fetchall()]


class Lance(Store):
    """LanceDB in this process, with its full-text index. Below 100,000 rows its vectors need no index."""

    def __init__(self, folder: str) -> None:
        self._database, self._fusion = lancedb.connect(folder), RRFReranker()

    def ingest(self, chunks: Sequence[Chunk], vectors: Embedding) -> None:
        columns = {
            "doc_id": [one.doc_id for one in chunks],
            "chunk_index": [one.chunk_index for one in chunks],
            "content": [one.content for one in chunks],
            "vector": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1]),
        }
        self._table = self._database.create_table("bench", pyarrow.table(columns), mode="overwrite")
        self._table.create_index("content", config=FTS())

    def search(self, text: str, vector: Embedding) -> list[tuple[str, int]]:
        query = self._table.search(query_type="hybrid", fts_columns="content").vector(vector).text(text)
        found = query.distance_type("cosine").rerank(self._fusion).limit(POOL).to_arrow().slice(0, K)
        return list(zip(found["doc_id"].to_pylist(), found["chunk_index"].to_pylist(), strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    parser.add_argument("--chunks", type=int, help="the first so many chunks only")
    arguments = parser.parse_args()
    chunks = [
        one
        for name, documents in fetch(arguments.directory, "npm", "pytest", "django").items()
        for path, text in documents.items()
        for one in chunk(text, doc_id=f"{name}/{path}", policy=POLICY)
    ][: arguments.chunks]
    embedder = HashingEmbedder()
    vectors = embedder.embed([one.content for one in chunks])
    texts = [one["prompt"] for one in prompts() if one["split"] in ("tune", "held")]
    known = dict(zip(texts, embedder.embed(texts), strict=True))
    with tempfile.TemporaryDirectory(prefix="ragtune-bench-") as folder:
        Path(folder).chmod(0o711)  # where this is root, the server runs as another user
        with EmbeddedServer(folder) as server, PostgresDatabase(server.dsn) as database:
            stores: dict[str, Store] = {
                "ragd": Ragd(database, known),
                "SQL by hand, all words": ByHand(server.dsn, ALL_TERMS),
                "SQL by hand, any word": ByHand(server.dsn, ANY_TERM),
                "LanceDB": Lance(f"{folder}/lance"),
            }
            figures = measured(stores, chunks, vectors, known, arguments.rounds, psutil.Process(server.pid))
    _print(figures, len(chunks), len(texts))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def measured(
    stores: dict[str, Store],
    chunks: Sequence[Chunk],
    vectors: Embedding,
    known: dict[str, Embedding],
    rounds: int,
    postmaster: psutil.Process,
) -> dict[str, dict[str, float]]:
    """Each store's figures: ingest in seconds for 1,000 chunks, a search in milliseconds, and what it found."""
    ingests: dict[str, list[list[float]]] = {name: [] for name in stores}
    searches: dict[str, list[list[float]]] = {name: [] for name in stores}
    shared: dict[str, list[int]] = {name: [] for name in stores}
    for _ in range(rounds):
        for name, store in stores.items():
            ingests[name].append(_spent(lambda store=store: store.ingest(chunks, vectors), postmaster))  # type: ignore[misc]
        for text, vector in known.items():
            best: set[tuple[str, int]] = set()
            for name, store in stores.items():
                found: list[tuple[str, int]] = []
                searches[name].append(_spent(lambda s=store: found.extend(s.search(text, vector)), postmaster))  # type: ignore[misc] # noqa: B023
                best = best or set(found)
                shared[name].append(len(best & set(found)))
    figures = {}
    for name in stores:
        wall, client, server = zip(*ingests[name], strict=True)
        seconds = [
            statistics.median(each) / len(chunks) * 1e6 for each in (wall, map(sum, zip(client, server, strict=True)))
        ]
        asked = searches[name][len(known) :] or searches[name]  # the first round warms up
        wall, client, server = zip(*asked, strict=True)
        figures[name] = {
            "ingest_s": seconds[0] / 1000,
            "ingest_cpu_s": seconds[1] / 1000,
            "search_p50_ms": 1000 * statistics.median(wall),
            "search_client_cpu_ms": 1000 * statistics.mean(client),
            "search_cpu_ms": 1000 * (statistics.mean(client) + statistics.mean(server)),
            "shared": statistics.mean(shared[name]),
        }
    return figures


def _spent(work: Callable[[], object], postmaster: psutil.Process) -> list[float]:
    """Seconds by the clock, of this process's CPU, and of PostgreSQL's."""
    before, busy, started = _server_cpu(postmaster), time.process_time(), time.perf_counter()
    work()
    elapsed, busy = time.perf_counter() - started, time.process_time() - busy
    return [elapsed, busy, _server_cpu(postmaster) - before]


def _server_cpu(postmaster: psutil.Process) -> float:
    """CPU seconds of the server, those of its processes included that have ended."""
    own = postmaster.cpu_times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in postmaster.children():
        times = child.cpu_times()
        total += times.user + times.system
    return float(total)


def _print(figures: dict[str, dict[str, float]], chunks: int, questions: int) -> None:
    print(f"{chunks:,} chunks, {questions} questions; in brackets: as a share of ragd's\n")
    print("| store | ingest, s / 1,000 chunks | CPU | search p50, ms | client CPU, ms | all CPU, ms | of 12 as ragd |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    first = next(iter(figures.values()))
    for name, row in figures.items():
        cells = [f"{value:.2f} ({value / first[key]:.2f})" for key, value in row.items() if key != "shared"]
        print(f"| {name} | {' | '.join(cells)} | {row['shared']:.1f} |")


if __name__ == "__main__":
    sys.exit(main())
