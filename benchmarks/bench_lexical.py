"""Lexical search of the PostgreSQL store against bm25s, on the same chunks and questions, in turns; and filters.

    python benchmarks/bench_lexical.py [--data ../shared/data/nfcorpus] [--generated 200000] [--repeats 5]
        [--folder DIR] [--json FILE] [--only lexical|filters]

Real: a BEIR folder's documents in chunks of at most 128 tokens, 50 of its test queries (short), and the first 30 words
of 50 documents (long). Generated: chunks as long as those, of whose words one half is drawn from a document, the other
from all of them, and one in a hundred is new, so that the vocabulary grows with the collection; the same questions, and
30 words drawn from all (random), which no chunk is about. bm25s searches in this process, over the terms of the same
analyzer; its times have no server, no filter and no rows to fetch.

Filters keep one generated chunk in a thousand or in ten, by tag or by metadata, or (far) the one in a hundred whose
vectors are farthest from every question's. Every mode is asked for 50; the recall is that of the exact nearest 50 that
pass, and the indexes are those whose scans the server counted. Vectors have 8 dimensions, which is enough to see which
plan is taken, and says nothing of the recall of models' vectors.

``load`` is the machine's load average when a part ended. Processor times are of this process and the server's.
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
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import psycopg
from machine import report
from numpy.typing import NDArray

from ragtune.canonical import Candidate, Chunk, ChunkPolicy, Embedding, Filters, SourceDocument, chunk, fuse
from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.embedded import EmbeddedServer
from ragtune.embedders.hashing import HashingEmbedder

ROOT = Path(__file__).resolve().parents[1]
K, BATCH, DIMS = 50, 1000, 8
LONG_WORDS = 30
QUESTIONS, FILTERED = 50, 10
ON_TOPIC, NEW, MOST_NEW = 0.5, 0.01, 5_000_000
FAR = 0.75  # first coordinate of a vector that is far from every question's
STATISTICS_S = 1.1  # after which a session tells the server what it has scanned

Figures = dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "nfcorpus")
    parser.add_argument("--generated", type=int, default=200_000, help="chunks; 0 for none")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="keep the server's data here, and search what is there already")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    parser.add_argument("--only", choices=("lexical", "filters"), help="measure this part alone")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="ragtune-bench-") as made:
        Path(made).chmod(0o711)  # where this is root, the server runs as another user
        with EmbeddedServer(arguments.folder or made) as server, PostgresDatabase(server.dsn, pool_size=1) as database:
            for name, size in ((arguments.data.name, None), ("generated", arguments.generated)):
                if size != 0:
                    texts = Texts(arguments.data, size)
                    parts = (arguments.only,) if arguments.only else ("lexical", "filters")
                    figures[name] = measured(database, server, name, texts, arguments.repeats, parts)
                    sys.stdout.write(f"{name}: {json.dumps(figures[name])}\n")
                    sys.stdout.flush()
    report(figures, arguments.json)
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
                doc_id=key_of(place)[0],
                chunk_index=key_of(place)[1],
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


def key_of(place: int) -> tuple[str, int]:
    return f"d{place // 5:07d}", place % 5


def with_vectors(texts: Texts) -> Iterator[tuple[list[Chunk], Embedding]]:
    start = 0
    for batch in texts:
        yield batch, vectors(start, len(batch))
        start += len(batch)


def measured(
    database: PostgresDatabase, server: EmbeddedServer, name: str, texts: Texts, repeats: int, parts: Sequence[str]
) -> dict[str, Any]:
    store = database.open(name, HashingEmbedder(dims=DIMS), create=True)
    figures: dict[str, Any] = {"chunks": texts.size}
    if store.counts().chunks != texts.size:
        used = cpu_seconds(server.pid)
        figures["load_s"] = round(seconds(lambda: store.load(with_vectors(texts))), 1)
        figures["load_cpu_s"] = round(cpu_seconds(server.pid) - used, 1)
        figures["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    if "lexical" in parts:
        search = peer(texts, store.analyzer.terms)
        for kind, questions in texts.questions.items():
            figures[kind] = compared(store, server.pid, search, questions, repeats)
    if "filters" in parts and texts.is_generated:
        figures["filters"] = filtered(store, server, texts, repeats)
    return figures


def filtered(store: BaseStore, server: EmbeddedServer, texts: Texts, repeats: int) -> dict[str, Any]:
    """Of every filter and mode the time of a question, the indexes used, and of vectors the recall."""
    places = np.arange(texts.size)
    matrix = np.concatenate([vectors(start, min(BATCH, texts.size - start)) for start in range(0, texts.size, BATCH)])
    kinds = {
        "all": (Filters(), places >= 0),
        "tag, 1 in 1000": (Filters(tags_any=("thousandth",)), places % 1000 == 0),
        "metadata, 1 in 1000": (Filters(metadata={"page": 7}), places % 1000 == 7),
        "tag, far, 1 in 100": (Filters(tags_any=("far",)), matrix[:, 0] > FAR),
        "tag, 1 in 10": (Filters(tags_any=("tenth",)), places % 10 == 0),
        "metadata, 1 in 10": (Filters(metadata={"part": 3}), places % 10 == 3),
    }
    asked = vectors(MOST_NEW, FILTERED)
    asked[:, 0] = -np.abs(asked[:, 0])
    questions = list(zip(asked, texts.questions["long"][:FILTERED], strict=True))
    figures: dict[str, Any] = {}
    for name, (filters, kept) in kinds.items():
        modes: dict[str, Callable[[Embedding, str], list[Candidate]]] = {
            "lexical": lambda _, text, f=filters: store.lexical_candidates(text, K, f),  # type: ignore[misc]
            "vector": lambda vector, _, f=filters: store.vector_candidates(vector, K, f),  # type: ignore[misc]
        }
        modes["hybrid"] = lambda vector, text, m=modes: fuse(  # type: ignore[misc]
            {"vector": m["vector"](vector, text), "lexical": m["lexical"](vector, text)}
        )
        row = figures[name] = {"chunks": int(kept.sum())}
        for mode, search in modes.items():
            with scans(store, server.dsn, row, mode):
                row |= timed(lambda pair, search=search: search(*pair), questions, repeats, server.pid, mode)  # type: ignore[misc]
        row["vector_recall"] = recall(
            [modes["vector"](*pair) for pair in questions], asked, matrix, np.flatnonzero(kept)
        )
    return figures | {"load": round(os.getloadavg()[0], 1)}


def recall(found: Sequence[Sequence[Candidate]], asked: Embedding, matrix: Embedding, kept: NDArray[np.intp]) -> float:
    """Mean share of the exact nearest of the kept that were found."""
    shares = []
    for vector, candidates in zip(asked, found, strict=True):
        nearest = kept[np.argsort(-(matrix[kept] @ vector), kind="stable")[:K]]
        shares.append(
            len({one.key for one in candidates} & {key_of(place) for place in nearest.tolist()}) / len(nearest)
        )
    return round(float(np.mean(shares)), 4)


@contextmanager
def scans(store: BaseStore, dsn: str, figures: dict[str, Any], mode: str) -> Iterator[None]:
    """Put down which indexes of chunks and postings the server used, and which tables it read from end to end."""
    before = scanned(store, dsn)
    yield
    figures[f"{mode}_scans"] = sorted(name for name, n in scanned(store, dsn).items() if n > before[name])


def scanned(store: BaseStore, dsn: str) -> dict[str, int]:
    time.sleep(STATISTICS_S)
    store.counts()  # the end of a transaction, with which the session tells what it has scanned
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT indexrelname, idx_scan FROM pg_stat_user_indexes WHERE relname ~ '^(chunks|postings)_' UNION ALL "
            "SELECT 'all of ' || relname, seq_scan FROM pg_stat_user_tables WHERE relname ~ '^(chunks|postings)_'"
        ).fetchall()
    return dict(rows)


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
    """Both sides, a repeat of one after a repeat of the other."""
    figures = {"terms": statistics.median(len(set(store.analyzer.terms(text))) for text in texts)}
    sides = {"store": lambda text: store.lexical_candidates(text, K, Filters()), "bm25s": search}
    turns = [timer(work, texts, repeats, server, side) for side, work in sides.items()]
    *_, last = zip(*turns, strict=True)
    for side in last:
        figures |= side
    return figures | {"load": round(os.getloadavg()[0], 1)}


def timed(work: Callable[[Any], object], questions: Sequence[Any], repeats: int, server: int, name: str) -> Figures:
    *_, figures = timer(work, questions, repeats, server, name)
    return figures


def timer(
    work: Callable[[Any], object], questions: Sequence[Any], repeats: int, server: int, name: str
) -> Iterator[Figures]:
    """Of every question the fastest of the repeats so far, after one pass to warm up; medians over the questions.

    The fastest, since other work on the machine can only add to a time; ``all_ms`` is the median of all. ``cpu_ms`` is
    the processor time of a question in this process and the server's, which other work hardly changes; a mean.
    """
    for question in questions:
        work(question)
    times = np.zeros((repeats, len(questions)))
    used = 0.0
    for turn in range(repeats):
        before = cpu_seconds(server)
        times[turn] = [seconds(lambda question=question: work(question)) for question in questions]  # type: ignore[misc]
        used += cpu_seconds(server) - before
        best = times[: turn + 1].min(axis=0)
        yield {
            f"{name}_ms": milliseconds(best),
            f"{name}_p95_ms": round(1000 * float(np.percentile(best, 95)), 2),
            f"{name}_all_ms": milliseconds(times[: turn + 1].ravel()),
            f"{name}_cpu_ms": round(1000 * used / ((turn + 1) * len(questions)), 2),
        }


def cpu_seconds(server: int) -> float:
    """Of this process, and of a server's with those that it has started."""
    used = 0.0
    for one in processes(server):
        with suppress(psutil.NoSuchProcess):  # what it used is then in its parent's
            used += sum(one.cpu_times()[:4])
    return used


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
