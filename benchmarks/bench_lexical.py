"""Lexical search of the PostgreSQL store against bm25s, on the same chunks and questions, in turns.

    python benchmarks/bench_lexical.py [--data ../shared/data/nfcorpus] [--generated 200000] [--repeats 5]
        [--folder DIR] [--json FILE]

Real: a BEIR folder's documents in chunks of at most 128 tokens, 50 of its test queries (short), and the first 30 words
of 50 documents (long). Generated: chunks as long as those, of whose words one half is drawn from a document, the other
from all of them, and one in a hundred is new, so that the vocabulary grows with the collection; the same questions, and
30 words drawn from all (random), which no chunk is about. bm25s searches in this process, over the terms of the same
analyzer; its times have no server, no filter and no rows to fetch. Vectors have 8 dimensions: they are not what is
measured here.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ragtune.canonical import Chunk, ChunkPolicy, Embedding, Filters, SourceDocument, chunk
from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.embedded import EmbeddedServer
from ragtune.embedders.hashing import HashingEmbedder

ROOT = Path(__file__).resolve().parents[1]
K, BATCH, DIMS = 50, 1000, 8
LONG_WORDS = 30
QUESTIONS = 50
ON_TOPIC, NEW, MOST_NEW = 0.5, 0.01, 5_000_000
FAR = 0.75


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "nfcorpus")
    parser.add_argument("--generated", type=int, default=200_000, help="chunks; 0 for none")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="keep the server's data here, and search what is there already")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="ragtune-bench-") as made:
        Path(made).chmod(0o711)  # where this is root, the server runs as another user
        with EmbeddedServer(arguments.folder or made) as server, PostgresDatabase(server.dsn) as database:
            for name, size in ((arguments.data.name, None), ("generated", arguments.generated)):
                if size != 0:
                    texts = Texts(arguments.data, size)
                    figures[name] = measured(database, server.pid, name, texts, arguments.repeats)
                    sys.stdout.write(f"{name}: {json.dumps(figures[name])}\n")
                    sys.stdout.flush()
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


class Texts:
    """Chunks made of a BEIR folder's words, a batch at a time, the same every time.

    Args:
        data: the folder.
        size: number of chunks; None for those of the documents themselves.
    """

    def __init__(self, data: Path, size: int | None) -> None:
        sys.path.insert(0, str(ROOT))  # the harness is not installed
        from experiments.datasets.beir import BeirDataset

        dataset = BeirDataset(str(data)).load()
        documents = list(dataset.corpus)
        policy = ChunkPolicy(method="sentences", max_tokens=128)
        self._real = [c for d in documents for c in chunk(SourceDocument(doc_id=d.id, content=d.content), policy)]
        self.size = size or len(self._real)
        self.is_generated = size is not None
        texts = [document.content.split() for document in documents]
        self._words = np.array([word for text in texts for word in text], dtype=object)
        self._ends = np.cumsum([len(text) for text in texts])
        self._lengths = np.array([len(one.content.split()) for one in self._real])
        every = max(1, len(texts) // QUESTIONS)
        self.questions = {
            "short": [dataset.queries[key] for key in dataset.judged][:QUESTIONS],
            "long": [" ".join(text[:LONG_WORDS]) for text in texts[::every]][:QUESTIONS],
        }
        if self.is_generated:
            drawn = np.random.default_rng(3).choice(self._words, (QUESTIONS, LONG_WORDS))
            self.questions["random"] = [" ".join(words) for words in drawn]

    def __iter__(self) -> Iterator[list[Chunk]]:
        """Batches of whole documents."""
        if self.is_generated:
            yield from (self._made(start, min(start + BATCH, self.size)) for start in range(0, self.size, BATCH))
            return
        documents = [list(group) for _, group in groupby(self._real, key=lambda one: one.doc_id)]
        for start in range(0, len(documents), BATCH // 4):
            yield [one for document in documents[start : start + BATCH // 4] for one in document]

    def _made(self, start: int, end: int) -> list[Chunk]:
        rng = np.random.default_rng((11, start))
        lengths = rng.choice(self._lengths, end - start)
        total = int(lengths.sum())
        topics = np.repeat(rng.integers(len(self._ends), size=end - start), lengths)
        first = np.where(topics > 0, self._ends[topics - 1], 0)
        on_topic = first + (rng.random(total) * (self._ends[topics] - first)).astype(int)
        words = self._words[
            np.where(rng.random(total) < ON_TOPIC, on_topic, rng.integers(len(self._words), size=total))
        ]
        is_far = vectors(start, end - start)[:, 0] > FAR
        new = np.flatnonzero(rng.random(total) < NEW)
        words[new] = [f"x{int(MOST_NEW**u)}" for u in rng.random(len(new))]  # log-uniform: Zipf's law
        return [
            Chunk(
                doc_id=f"d{place // 5:07d}",
                chunk_index=place % 5,
                content=" ".join(words[until - length : until]),
                tags=tuple(
                    tag
                    for tag, has in (("thousandth", place % 1000 == 0), ("tenth", place % 10 == 0), ("far", far))
                    if has
                ),
                metadata={"page": place % 1000, "part": place % 10},
            )
            for place, length, until, far in zip(
                range(start, end), lengths.tolist(), np.cumsum(lengths).tolist(), is_far.tolist(), strict=True
            )
        ]


def vectors(start: int, n: int) -> Embedding:
    """Vectors of the chunks from a place on, shape (n, DIMS)."""
    made = np.random.default_rng((5, start)).standard_normal((n, DIMS))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def with_vectors(texts: Texts) -> Iterator[tuple[list[Chunk], Embedding]]:
    start = 0
    for batch in texts:
        yield batch, vectors(start, len(batch))
        start += len(batch)


def measured(database: PostgresDatabase, server: int, name: str, texts: Texts, repeats: int) -> dict[str, Any]:
    store = database.open(name, HashingEmbedder(dims=DIMS), create=True)
    figures: dict[str, Any] = {"chunks": texts.size}
    if store.counts().chunks != texts.size:
        used = cpu_seconds(server)
        figures["load_s"] = round(seconds(lambda: store.load(with_vectors(texts))), 1)
        figures["load_cpu_s"] = round(cpu_seconds(server) - used, 1)
        figures["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    search = peer(texts, store.analyzer.terms)
    for kind, questions in texts.questions.items():
        figures[kind] = compared(store, server, search, questions, repeats)
    for tag in ("thousandth", "tenth") if texts.is_generated else ():
        filters = Filters(tags_any=(tag,))
        figures[f"long_{tag}_ms"] = milliseconds(
            [seconds(lambda q=q, f=filters: store.lexical_candidates(q, K, f)) for q in texts.questions["long"]]  # type: ignore[misc]
        )
    return figures


def peer(texts: Texts, terms: Callable[[str], list[str]]) -> Callable[[str], Any]:
    """A search of bm25s with the scoring of the store."""
    import bm25s

    numbers: dict[str, int] = {}
    tokens = [
        [numbers.setdefault(term, len(numbers)) for term in terms(one.content)] for batch in texts for one in batch
    ]
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index((tokens, numbers), show_progress=False)
    ranks = min(K, texts.size)

    def search(query: str) -> Any:
        known = [numbers[term] for term in dict.fromkeys(terms(query)) if term in numbers]
        return index.retrieve([known], k=ranks, show_progress=False, n_threads=0)

    return search


def compared(
    store: BaseStore, server: int, search: Callable[[str], Any], texts: Sequence[str], repeats: int
) -> dict[str, float]:
    """Of every question the fastest of the repeats, in turns, after one pass to warm up; medians over the questions.

    The fastest, since other work on the machine can only add to a time; ``all_ms`` is the median of all. ``cpu_ms`` is
    the processor time of a question in this process and the server's, which other work hardly changes; a mean.
    """
    sides = {"store": lambda text: store.lexical_candidates(text, K, Filters()), "bm25s": search}
    times = {side: np.zeros((repeats + 1, len(texts))) for side in sides}
    used = dict.fromkeys(sides, 0.0)
    for turn in range(repeats + 1):
        for side, work in sides.items():
            before = cpu_seconds(server)
            times[side][turn] = [seconds(lambda text=text, work=work: work(text)) for text in texts]  # type: ignore[misc]
            used[side] += (cpu_seconds(server) - before) if turn else 0.0
    figures = {"terms": statistics.median(len(set(store.analyzer.terms(text))) for text in texts)}
    for side in sides:
        best = times[side][1:].min(axis=0)
        figures |= {
            f"{side}_ms": milliseconds(best),
            f"{side}_p95_ms": round(1000 * float(np.percentile(best, 95)), 2),
            f"{side}_all_ms": milliseconds(times[side][1:].ravel()),
            f"{side}_cpu_ms": round(1000 * used[side] / (repeats * len(texts)), 2),
        }
    return figures


def cpu_seconds(server: int) -> float:
    """Of this process, and of a server's with those that it has started."""
    return sum(sum(one.cpu_times()[:4]) for one in processes(server))


def processes(server: int) -> list[psutil.Process]:
    """This one, a server's, and those that the server has started."""
    parent = psutil.Process(server)
    return list({one.pid: one for one in (psutil.Process(), parent, *parent.children())}.values())


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def milliseconds(times: Any) -> float:
    return round(1000 * float(np.median(times)), 2)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
