"""Lexical search of the PostgreSQL store against bm25s, on the same chunks and questions, in turns.

    python benchmarks/bench_lexical.py [--data ../shared/data/nfcorpus] [--generated 200000] [--repeats 3] [--json FILE]

Real: a BEIR folder's documents in chunks of at most 128 tokens, its test queries (short), and the first 30 words of
every 50th document (long). Generated: words drawn by Zipf's law from 200,000, 20 to 140 a chunk; questions of 4 words,
and of 30 consecutive words of a chunk. bm25s searches in this process, over the terms of the same analyzer; its times
have no server, no filter and no rows to fetch. Vectors have 8 dimensions: they are not what is measured here.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragtune.canonical import Chunk, ChunkPolicy, Filters, SourceDocument, chunk
from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.embedded import EmbeddedServer
from ragtune.embedders.hashing import HashingEmbedder

ROOT = Path(__file__).resolve().parents[1]
K, BATCH, DIMS = 50, 1000, 8
LONG_WORDS = 30
VOCABULARY = 200_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "nfcorpus")
    parser.add_argument("--generated", type=int, default=200_000, help="chunks; 0 for none")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="ragtune-bench-") as folder:
        Path(folder).chmod(0o711)  # where this is root, the server runs as another user
        with EmbeddedServer(folder) as server, PostgresDatabase(server.dsn) as database:
            for name, corpus in corpora(arguments):
                chunks, questions = corpus()
                figures[name] = measured(database, name, chunks, questions, arguments.repeats)
                sys.stdout.write(f"{name}: {json.dumps(figures[name])}\n")
                sys.stdout.flush()
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def corpora(arguments: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names, with what makes chunks and questions by kind."""
    if arguments.data.is_dir():
        yield arguments.data.name, lambda: real(arguments.data)
    if arguments.generated:
        yield "generated", lambda: generated(arguments.generated)


def real(data: Path) -> tuple[list[Chunk], dict[str, list[str]]]:
    sys.path.insert(0, str(ROOT))  # the harness is not installed
    from experiments.datasets.beir import BeirDataset

    dataset = BeirDataset(str(data)).load()
    policy = ChunkPolicy(method="sentences", max_tokens=128)
    documents = list(dataset.corpus)
    chunks = [
        piece
        for document in documents
        for piece in chunk(SourceDocument(doc_id=document.id, content=document.content), policy)
    ]
    long = [" ".join(document.content.split()[:LONG_WORDS]) for document in documents[::50]]
    return chunks, {"short": [dataset.queries[key] for key in dataset.judged][:100], "long": long}


def generated(size: int) -> tuple[list[Chunk], dict[str, list[str]]]:
    rng = np.random.default_rng(11)
    weights = 1.0 / (np.arange(VOCABULARY) + 2.7)
    lengths = rng.integers(20, 141, size=size)
    drawn = np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(int(lengths.sum())))
    ends = np.cumsum(lengths)
    words = np.array([f"w{place}" for place in range(VOCABULARY + 1)], dtype=object)
    chunks = [
        Chunk(
            doc_id=f"d{place:07d}",
            chunk_index=0,
            content=" ".join(words[drawn[end - length : end]]),
            tags=tuple(tag for tag, each in (("thousandth", 1000), ("tenth", 10)) if place % each == 0),
        )
        for place, (length, end) in enumerate(zip(lengths.tolist(), ends.tolist(), strict=True))
    ]
    picked = [chunks[place].content.split() for place in rng.integers(size, size=100).tolist()]
    return chunks, {
        "short": [" ".join(one[:4]) for one in picked],
        "long": [" ".join(one[:LONG_WORDS]) for one in picked],
    }


def measured(
    database: PostgresDatabase, name: str, chunks: Sequence[Chunk], questions: dict[str, list[str]], repeats: int
) -> dict[str, Any]:
    store = database.open(name, HashingEmbedder(dims=DIMS), create=True)
    vectors = np.random.default_rng(5).standard_normal((BATCH, DIMS)).astype(np.float32)
    batches = (
        (chunks[start : start + BATCH], vectors[: len(chunks[start : start + BATCH])])
        for start in range(0, len(chunks), BATCH)
    )
    figures: dict[str, Any] = {"chunks": len(chunks), "load_s": round(seconds(lambda: store.load(batches)), 1)}
    search = peer(chunks, store.analyzer.terms)
    for kind, texts in questions.items():
        figures[kind] = compared(store, search, texts, repeats)
    if chunks[0].tags:
        for tag in ("thousandth", "tenth"):
            filters = Filters(tags_any=(tag,))
            figures[f"long_{tag}_ms"] = milliseconds(
                [seconds(lambda q=q, f=filters: store.lexical_candidates(q, K, f)) for q in questions["long"]]  # type: ignore[misc]
            )
    return figures


def peer(chunks: Sequence[Chunk], terms: Callable[[str], list[str]]) -> Callable[[str], Any]:
    """A search of bm25s with the scoring of the store."""
    import bm25s

    numbers: dict[str, int] = {}
    tokens = [[numbers.setdefault(term, len(numbers)) for term in terms(one.content)] for one in chunks]
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index((tokens, numbers), show_progress=False)
    ranks = min(K, len(chunks))

    def search(query: str) -> Any:
        known = [numbers[term] for term in dict.fromkeys(terms(query)) if term in numbers]
        return index.retrieve([known], k=ranks, show_progress=False, n_threads=0)

    return search


def compared(store: BaseStore, search: Callable[[str], Any], texts: Sequence[str], repeats: int) -> dict[str, float]:
    """Of every question the fastest of the repeats, in turns, after one pass to warm up; medians over the questions.

    The fastest, since other work on the machine can only add to a time; ``store_all_ms`` is the median of all.
    """
    ours = np.zeros((repeats + 1, len(texts)))
    theirs = np.zeros_like(ours)
    for turn in range(repeats + 1):
        for place, text in enumerate(texts):
            theirs[turn, place] = seconds(lambda text=text: search(text))  # type: ignore[misc]
            ours[turn, place] = seconds(lambda text=text: store.lexical_candidates(text, K, Filters()))  # type: ignore[misc]
    best, peer_best = ours[1:].min(axis=0), theirs[1:].min(axis=0)
    return {
        "terms": statistics.median(len(set(store.analyzer.terms(text))) for text in texts),
        "store_ms": milliseconds(best),
        "store_p95_ms": round(1000 * float(np.percentile(best, 95)), 2),
        "store_all_ms": milliseconds(ours[1:].ravel()),
        "bm25s_ms": milliseconds(peer_best),
        "ratio": round(float(np.median(best) / np.median(peer_best)), 2),
    }


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def milliseconds(times: Any) -> float:
    return round(1000 * float(np.median(times)), 2)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
