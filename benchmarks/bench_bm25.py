"""BM25 over millions of generated passages: how long building and searching take, and in how much memory.

    python benchmarks/bench_bm25.py [--passages 20000 200000 ...] [--words 55] [--folder DIR] [--json FILE]

Words are drawn by Zipf's law from 200,000; a passage has some ``--words`` of them, a query 4. Each size is built in
steps in a process of its own, whose peak of memory that is not a mapped file is reported; then the index is loaded by
another process and searched, first with cold caches of that process. Needs some 1.2 GB of disk a million passages.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from machine import report

from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Document
from ragtune.data.storedcorpus import StoredCorpus, stored
from ragtune.retrievers.bm25 import BM25Retriever

VOCABULARY, PIECE, DEPTH, QUERIES = 200_000, 50_000, 100, 50
CONSONANTS, VOWELS = "bcdfghklmnprstvz", "aeiou"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--words", type=int, default=55)
    parser.add_argument("--folder", type=Path, help="where the files go and stay; else a temporary folder")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    parser.add_argument("--step", choices=("build", "search"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        step = built if arguments.step == "build" else searched
        sys.stdout.write(json.dumps(step(arguments.passages[0], arguments.words, arguments.folder)))
        return 0
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for size in arguments.passages:
            figures[f"{size:,}"] = {
                step: in_a_process(step, size, arguments.words, arguments.folder or Path(scratch))
                for step in ("build", "search")
            }
            sys.stdout.write(f"{size:,}: {json.dumps(figures[f'{size:,}'])}\n")
            sys.stdout.flush()
    report(figures, arguments.json)
    return 0


def in_a_process(step: str, size: int, words: int, folder: Path) -> Any:
    command = [sys.executable, __file__, "--step", step, "--passages", str(size), "--words", str(words)]
    ended = subprocess.run([*command, "--folder", str(folder)], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(ended.stdout)


def passages(size: int, words: int) -> Iterator[Document]:
    """Generated passages, the same for the same arguments."""
    rng = np.random.default_rng(11)
    weights = np.cumsum(1.0 / (np.arange(VOCABULARY) + 2.7))
    names = np.array([name(place) for place in range(VOCABULARY)], dtype=object)
    for start in range(0, size, PIECE):
        lengths = rng.integers(words // 2, words + words // 2 + 1, size=min(PIECE, size - start))
        drawn = names[np.searchsorted(weights, rng.random(int(lengths.sum())) * weights[-1])].tolist()
        end = 0
        for place, length in enumerate(lengths.tolist(), start):
            begin, end = end, end + length
            yield Document.model_construct(id=str(place), title="", text=" ".join(drawn[begin:end]))


def name(place: int) -> str:
    """A word of syllables, the shorter the more frequent."""
    spelled = ""
    while place or not spelled:
        place, syllable = divmod(place, len(CONSONANTS) * len(VOWELS))
        consonant, vowel = divmod(syllable, len(VOWELS))
        spelled += CONSONANTS[consonant] + VOWELS[vowel]
    return spelled + "x"


def corpus(size: int, words: int, folder: Path) -> StoredCorpus:
    return stored(lambda: passages(size, words), f"generated {size} {words}", folder)


def built(size: int, words: int, folder: Path) -> dict[str, float]:
    peak = Peak()
    started, cpu = time.perf_counter(), time.process_time()
    collection = corpus(size, words, folder)
    stored_s, stored_cpu_s, stored_mb = time.perf_counter() - started, time.process_time() - cpu, peak.megabytes()
    BM25Retriever(collection, cache_dir=folder)
    return {
        "corpus_s": round(stored_s, 1),
        "corpus_cpu_s": round(stored_cpu_s, 1),
        "corpus_peak_mb": stored_mb,
        "index_s": round(time.perf_counter() - started - stored_s, 1),
        "index_cpu_s": round(time.process_time() - cpu - stored_cpu_s, 1),
        "index_peak_mb": peak.megabytes(),
        "disk_mb": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) // 2**20,
    }


def searched(size: int, words: int, folder: Path) -> dict[str, float]:
    peak = Peak()
    started = time.perf_counter()
    retriever = BM25Retriever(corpus(size, words, folder), cache_dir=folder)
    loaded = time.perf_counter() - started
    rng = np.random.default_rng(5)
    # Three frequent words and a rare one, as questions have them.
    queries = [
        " ".join(name(int(place)) for place in (*rng.integers(20, 2000, size=3), rng.integers(VOCABULARY)))
        for _ in range(QUERIES)
    ]
    times, cpu = [], []
    for query in queries:
        context = RAGtuneContext(query=query, query_id="", tracker=CostBudget.unlimited().create_tracker())
        begun, spent = time.perf_counter(), time.process_time()
        assert len(retriever.retrieve(context, DEPTH)) == DEPTH
        times.append(1000 * (time.perf_counter() - begun))
        cpu.append(1000 * (time.process_time() - spent))
    return {
        "load_s": round(loaded, 2),
        "first_ms": round(times[0], 1),
        "p50_ms": round(float(np.median(times)), 1),
        "p95_ms": round(float(np.percentile(times, 95)), 1),
        "cpu_ms": round(float(np.median(cpu)), 1),
        "peak_mb": peak.megabytes(),
    }


class Peak(threading.Thread):
    """The most memory of this process, without what is mapped from files, looked at ten times a second (Linux)."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._pages = 0
        self.start()

    def run(self) -> None:
        while True:
            status = Path("/proc/self/status").read_text(encoding="ascii")
            self._pages = max(self._pages, int(status.split("RssAnon:")[1].split()[0]))
            time.sleep(0.1)

    def megabytes(self) -> int:
        return self._pages // 1024


if __name__ == "__main__":
    sys.exit(main())
