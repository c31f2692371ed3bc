"""What the code of today gives for a cell: a replay of recorded scores, or of made-up queries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from string import Template

import numpy as np

from experiments.config.compose import compose
from experiments.evaluate.measures import Measures
from experiments.replay.build import build_session
from experiments.reproduce.paper import Cell, Items, Paper
from ragtune.core.output import ControllerOutput

QUERIES = 20
"""Made-up queries of a cell."""

_NOISE = {"perfect": 0.0, "noisy": 0.25, "random": 1e9}
"""Deviation of a first stage's errors, in deviations of the true values."""


def _windows(output: ControllerOutput) -> list[list[int]]:
    """The calls of a request, each as the documents' places in the first stage, from 1."""
    places = {doc_id: place for place, doc_id in enumerate(output.history[-1].doc_ids, 1)}
    return [[places[doc_id] for doc_id in event.details["doc_ids"]] for event in output.trace.find("propose")]


def _text(window: Sequence[int]) -> str:
    found = sorted(window)
    is_run = found == list(range(found[0], found[-1] + 1))
    return f"{found[0]}-{found[-1]}" if is_run else ",".join(map(str, window))


COUNTS: Mapping[str, Callable[[Sequence[ControllerOutput]], float | str]] = {
    "calls": lambda outputs: float(np.mean([output.history[-1].cost.calls for output in outputs])),
    "fewest calls": lambda outputs: min(output.history[-1].cost.calls for output in outputs),
    "most calls": lambda outputs: max(output.history[-1].cost.calls for output in outputs),
    "documents": lambda outputs: float(np.mean([output.history[-1].cost.docs for output in outputs])),
    "documents of a call": lambda outputs: max(len(window) for each in outputs for window in _windows(each)),
    "times a document is shown": lambda outputs: float(np.mean([np.mean(_shown(output)) for output in outputs])),
    "share of top 10 found": lambda outputs: float(np.mean([_found(output) for output in outputs])),
    "windows": lambda outputs: " ".join(_text(window) for window in _windows(outputs[0])),
    "first window": lambda outputs: _text(_windows(outputs[0])[0]),
}
"""Values of a cell that are no measures: means over the queries where nothing else is said."""


def _shown(output: ControllerOutput) -> Sequence[int]:
    counts = np.bincount(np.concatenate(_windows(output)))
    return list(counts[counts > 0])


def _found(output: ControllerOutput) -> float:
    """Share of the ten best made-up documents in the top 10."""
    return len({f"d{i:04d}" for i in range(10)} & set(output.ranking[:10])) / 10


@dataclass(frozen=True)
class Replays:
    """Replays for the cells of papers, with the collections below ``data``; made-up ones are written to ``scratch``."""

    data: Path | None
    scratch: Path

    def flaw(self, paper: Paper, cell: Cell) -> tuple[str, str] | None:
        """The first input of a cell that is missing (``needs``) or has other bytes (``changed``), and its name."""
        text = " ".join(word for name in (*cell.run, *cell.against) for word in paper.settings[name])
        for file, digest in paper.inputs.items():
            folder = file.partition("/")[0]
            is_table = "/scores/" in file or "/runs/" in file
            if f"${{data}}/{file if is_table else folder}" not in text:
                continue
            if self.data is None or not (self.data / file).is_file():
                return "needs", file
            if _digest(self.data / file) != digest:
                return "changed", file
        return None

    def ours(self, paper: Paper, cell: Cell) -> float | str:
        """Our value of a cell; with ``against``, the share saved of the value of these settings."""
        own = self._value(paper, cell, cell.run)
        if not cell.against:
            return own
        theirs = self._value(paper, cell, cell.against)
        return 1.0 - float(own) / float(theirs)

    def _value(self, paper: Paper, cell: Cell, settings: Sequence[str]) -> float | str:
        words = [word for name in settings for word in paper.settings[name]]
        given = self._made_up(cell.items) if cell.items else []
        words = [Template(word).safe_substitute(data=self.data) for word in words]
        outputs, qrels = _replayed(("tracking=none", "budget=unlimited", *given, *words))
        if cell.value in COUNTS:
            return COUNTS[cell.value](outputs)
        rankings = {output.query_id: output.ranking for output in outputs}
        measures = Measures([cell.value], qrels)
        return float(measures.of_topics(rankings, {query: query for query in rankings}).mean())

    def _made_up(self, items: Items) -> list[str]:
        """Overrides that choose a made-up collection, which is written once: document i is the i-th best."""
        folder = self.scratch / f"{items.documents}-{items.order}"
        n, rng = items.documents, np.random.default_rng(0)
        if not folder.is_dir():
            (folder / "qrels").mkdir(parents=True)
            docs = [f"d{i:04d}" for i in range(n)]
            queries = [f"q{i:02d}" for i in range(QUERIES)]
            first, scores, worth = [], [], np.linspace(0.9, 0.1, n)
            for query in queries:
                found = worth + _NOISE[items.order] * worth.std() * rng.standard_normal(n)
                best = np.argsort(-found, kind="stable")
                first += [f"{query} Q0 {docs[d]} {place} {n - place} first" for place, d in enumerate(best, 1)]
                scores += [f"{query} Q0 {doc} {i} {worth[i - 1]:.6f} true" for i, doc in enumerate(docs, 1)]
            files = {
                "corpus.jsonl": [json.dumps({"_id": doc, "text": f"text {doc}"}) for doc in docs],
                "queries.jsonl": [json.dumps({"_id": query, "text": f"query {query}"}) for query in queries],
                "qrels/test.tsv": ["query-id\tcorpus-id\tscore", *(f"{query}\t{docs[0]}\t1" for query in queries)],
                "first.run": first,
                "scores.run": scores,
            }
            for name, lines in files.items():
                (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return [
            *("dataset=beir", f"dataset.path={folder}", "retriever=runs", f"retriever.paths={folder / 'first.run'}"),
            *("reranker=simulated", f"reranker.scores={folder / 'scores.run'}", "reranker.scale=identity"),
            f"retrieval.original_query_depth={n}",
        ]


@lru_cache(maxsize=1)  # the cells of one run follow each other
def _replayed(words: tuple[str, ...]) -> tuple[Sequence[ControllerOutput], Mapping[str, Mapping[str, int]]]:
    session = build_session(compose(words))
    queries = session.dataset.queries
    outputs = [session.controller.run(queries[query], query_id=query) for query in session.dataset.judged]
    return outputs, session.dataset.qrels


@cache
def _digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()
