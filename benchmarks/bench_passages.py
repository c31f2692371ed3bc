"""python benchmarks/bench_passages.py --data DIR --model MODEL --collections NAME ... [--queries 30] [--memo FILE]

Long documents: passages against truncation, at equal tokens. Each query's BM25 candidates are reranked live by a
cross-encoder (bfloat16) under budgets in tokens of query and document. Queries are a fixed sample of those with a
relevant document in the judgments. A row of CSV for each collection, budget and way of reading: nDCG@10, its
differences from the first and the second of the readings with bootstrap intervals of 95%, and the passages and tokens
that were read.
``--memo`` keeps the scores in a file. ``--seconds N`` measures, on N queries, CPU seconds for reading all candidates.
The table of docs/howto/long-documents.md.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import random
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.datasets.beir import BeirDataset
from experiments.datasets.dataset import Dataset
from ragtune import BudgetedReranker
from ragtune.core.tokens import token_spans
from ragtune.data.runs.runfile import read_run
from ragtune.embedders.passages import Passages

BUDGETS = (4_000, 16_000, 1_000_000)
HEADS = ("collection", "queries", "tokens", "reading", "ndcg10")
HEADS += ("less_first", "first_low", "first_high", "less_second", "second_low", "second_high", "docs", "spent")


def first(tokens: int) -> Callable[[str], str]:
    """The beginning of a text."""

    def cut(text: str) -> str:
        ends = [end for _, end in token_spans(text)]
        return text if len(ends) <= tokens else text[: ends[tokens - 1]]

    return cut


def whole(text: str) -> str:
    return text


READINGS: dict[str, tuple[Callable[[str], str], Passages | None]] = {
    "first 192": (first(192), None),
    "first 512": (first(512), None),
    "first 128": (first(128), None),
    "best passage of 128": (whole, Passages(128, most=1)),
    "passages of 128": (whole, Passages(128)),
    "passages of 128, mean of 2": (whole, Passages(128, average=2)),
}


class Scorer:
    """A cross-encoder's scores, each made once."""

    def __init__(self, model: str, memo: Path | None) -> None:
        self._name = model
        self._memo = sqlite3.connect(memo or ":memory:")
        self._memo.execute("CREATE TABLE IF NOT EXISTS scores (pair BLOB PRIMARY KEY, score REAL) WITHOUT ROWID")

    @cached_property
    def _model(self) -> Any:
        import torch
        from sentence_transformers import CrossEncoder

        return CrossEncoder(self._name, max_length=512, device="cpu", model_kwargs={"torch_dtype": torch.bfloat16})

    def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        pairs = {text: hashlib.sha256(f"{query}\0{text}".encode()).digest() for text in texts}
        find = self._memo.execute
        rows = {
            text: find("SELECT score FROM scores WHERE pair = ?", (pair,)).fetchone() for text, pair in pairs.items()
        }
        if missing := sorted((text for text, row in rows.items() if row is None), key=len):
            found = self.anew(query, missing)
            new = zip((pairs[text] for text in missing), found, strict=True)
            with self._memo:
                self._memo.executemany("INSERT INTO scores VALUES (?, ?)", new)
            rows |= {text: (score,) for text, score in zip(missing, found, strict=True)}
        return [rows[text][0] for text in texts]

    def anew(self, query: str, texts: Sequence[str]) -> list[float]:
        scores = self._model.predict([(query, text) for text in texts], batch_size=8, show_progress_bar=False)
        return [float(score) for score in scores]


class Bed:
    """A collection, its first stage, and a sample of its queries."""

    def __init__(self, folder: Path, queries: int) -> None:
        self.dataset: Dataset = BeirDataset(folder).load()
        run = read_run(folder / "runs" / "bm25.run")
        judged = [query for query in run if any(gain > 0 for gain in self.dataset.qrels.get(query, {}).values())]
        random.Random(0).shuffle(judged := sorted(judged))
        sample = sorted(judged[:queries])
        self.found = {query: {each.doc_id: each.score for each in run.by_rank(query)} for query in sample}

    def rank(self, scorer: Any, tokens: int, reading: str) -> Iterator[tuple[float, float, float]]:
        """nDCG@10, scored texts and tokens of each query."""
        cut, passages = READINGS[reading]
        reranker = BudgetedReranker(scorer, tokens=tokens, passages=passages)
        for query, found in self.found.items():
            doc_ids = list(found)
            texts = [cut(self.dataset.corpus[doc_id].content) for doc_id in doc_ids]
            ranking = reranker.rank(self.dataset.queries[query], texts, list(found.values()))
            order = {doc_ids[one.index]: -float(place) for place, one in enumerate(ranking)}
            yield self.measured(query, order), float(ranking.cost.docs), float(ranking.cost.tokens)

    def measured(self, query: str, scores: dict[str, float]) -> float:
        qrels = {query: self.dataset.qrels[query]}
        return float(ir_measures.calc_aggregate([ir_measures.nDCG @ 10], qrels, {query: scores})[ir_measures.nDCG @ 10])


def interval(differences: Any) -> tuple[float, float, float]:
    """The mean, and its interval."""
    draws = np.random.default_rng(0).choice(differences, (10_000, len(differences))).mean(axis=1)
    return float(differences.mean()), *np.quantile(draws, (0.025, 0.975)).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--collections", nargs="+", required=True)
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--readings", nargs="+", choices=READINGS, default=list(READINGS), metavar="READING")
    parser.add_argument("--memo", type=Path)
    parser.add_argument("--seconds", type=int, default=0)
    arguments = parser.parse_args()
    scorer, out = Scorer(arguments.model, arguments.memo), csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(("collection", "reading", "seconds") if arguments.seconds else HEADS)
    if arguments.seconds:
        scorer.anew("a query", ["a text"])  # the model is loaded
    for name in arguments.collections:
        bed = Bed(arguments.data / name, arguments.seconds or arguments.queries)
        if arguments.seconds:
            for reading in arguments.readings:
                started = time.process_time()
                list(bed.rank(scorer.anew, 10**9, reading))
                out.writerow((name, reading, f"{(time.process_time() - started) / arguments.seconds:.2f}"))
            continue
        base = np.mean([bed.measured(query, found) for query, found in bed.found.items()])
        out.writerow((name, len(bed.found), 0, "first stage", f"{base:.4f}", *[""] * 6, 0, 0))
        for tokens in BUDGETS:
            found = {each: np.array(list(bed.rank(scorer, tokens, each))).T for each in arguments.readings}
            for reading, (quality, docs, spent) in found.items():
                against = [interval(quality - found[each][0]) for each in arguments.readings[:2]]
                figures = [f"{each:.4f}" for each in (quality.mean(), *chain(*against))]
                out.writerow(
                    (name, len(quality), tokens, reading, *figures, f"{docs.mean():.1f}", f"{spent.mean():.0f}")
                )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
