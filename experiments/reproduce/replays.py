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
from experiments.reproduce.paper import Cell, Paper
from ragtune.core.output import ControllerOutput

QUERIES = 20
"""Made-up queries of a cell."""

_NOISE = {"perfect": 0.0, "noisy": 0.25, "random": 1e9}
"""Errors of a made-up first stage, in standard deviations of the true values."""


def _windows(output: ControllerOutput) -> list[list[int]]:
    """The calls of a request, each as its documents' places in the first stage, from 1, in ascending order."""
    places = {doc_id: place for place, doc_id in enumerate(output.history[-1].doc_ids, 1)}
    return [sorted(places[doc_id] for doc_id in sent.details["doc_ids"]) for sent in output.trace.find("propose")]


def _text(window: Sequence[int]) -> str:
    whole = len(window) == window[-1] - window[0] + 1
    return f"{window[0]}-{window[-1]}" if whole else ",".join(map(str, window))


def _shown(output: ControllerOutput) -> float:
    counts = np.bincount(np.concatenate(_windows(output)))
    return float(counts[counts > 0].mean())


COUNTS: Mapping[str, Callable[[Sequence[ControllerOutput]], float | str]] = {
    "calls": lambda outputs: float(np.mean([output.history[-1].cost.calls for output in outputs])),
    "fewest calls": lambda outputs: min(output.history[-1].cost.calls for output in outputs),
    "most calls": lambda outputs: max(output.history[-1].cost.calls for output in outputs),
    "documents": lambda outputs: float(np.mean([output.history[-1].cost.docs for output in outputs])),
    "largest call": lambda outputs: max(len(window) for each in outputs for window in _windows(each)),
    "times shown": lambda outputs: float(np.mean(list(map(_shown, outputs)))),
    "windows": lambda outputs: " ".join(map(_text, _windows(outputs[0]))),
    "first window": lambda outputs: _text(_windows(outputs[0])[0]),
}
"""Values of a cell that are no measures; means over the queries where nothing else is said."""


@dataclass(frozen=True)
class Replays:
    """Replays of cells: collections lie below ``data``, made-up ones are written to ``scratch``."""

    data: Path | None
    scratch: Path

    def flaw(self, paper: Paper, cell: Cell) -> str:
        """Which input of a cell is missing ("needs FILE") or has other bytes; empty if none."""
        text = " ".join(word for name in (*cell.run, *cell.against) for word in paper.settings[name])
        for name, digest in paper.inputs.items():
            of_all = not name.partition("/")[2].startswith(("runs/", "scores/"))
            if f"$data/{name.partition('/')[0] if of_all else name}" not in text:
                continue
            if self.data is None or not (file := self.data / name).is_file():
                return f"needs {name}"
            if _digest(file) != digest:
                return f"input {name} has other bytes"
        return ""

    def ours(self, paper: Paper, cell: Cell) -> float | str:
        """Our value of a cell; with ``against``, the share that is saved of these settings' value."""
        own = self._value(paper, cell, cell.run)
        return 1.0 - float(own) / float(self._value(paper, cell, cell.against)) if cell.against else own

    def _value(self, paper: Paper, cell: Cell, settings: Sequence[str]) -> float | str:
        words = [] if cell.items is None else self._made_up(cell.items, cell.order)
        words += [Template(word).safe_substitute(data=self.data) for name in settings for word in paper.settings[name]]
        outputs, qrels = _replayed(("tracking=none", "budget=unlimited", *words))
        if cell.value in COUNTS:
            return COUNTS[cell.value](outputs)
        rankings = {output.query_id: output.ranking for output in outputs}
        return float(Measures([cell.value], qrels).of_topics(rankings, {query: query for query in rankings}).mean())

    def _made_up(self, n: int, order: str) -> list[str]:
        """Overrides that choose queries with n documents, d0000 the best; the ten best are judged by their rank."""
        folder, rng = self.scratch / f"{n}-{order}", np.random.default_rng(0)
        (folder / "qrels").mkdir(parents=True, exist_ok=True)
        docs, queries = [f"d{i:04d}" for i in range(n)], [f"q{i:02d}" for i in range(QUERIES)]
        worth = np.linspace(0.9, 0.1, n)
        seen = worth + _NOISE[order] * worth.std() * rng.standard_normal((QUERIES, n))
        texts = {
            "corpus.jsonl": [json.dumps({"_id": doc, "text": doc}) for doc in docs],
            "queries.jsonl": [json.dumps({"_id": query, "text": query}) for query in queries],
            "qrels/test.tsv": [f"{q}\t{doc}\t{10 - i}" for q in queries for i, doc in enumerate(docs[:10])],
        }
        for name, values in {"first.run": seen, "scores.run": np.tile(worth, (QUERIES, 1))}.items():
            places = np.argsort(np.argsort(-values, axis=1), axis=1) + 1
            texts[name] = [
                f"{query} Q0 {doc} {places[q, d]} {float(values[q, d])!r} made-up"
                for q, query in enumerate(queries)
                for d, doc in enumerate(docs)
            ]
        for name, lines in texts.items():
            (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        words = {"dataset.path": folder, "retriever.paths": folder / "first.run", "reranker.scale": "identity"}
        words |= {"reranker.scores": folder / "scores.run", "retrieval.original_query_depth": n}
        return ["dataset=beir", "retriever=runs", *(f"{name}={value}" for name, value in words.items())]


@lru_cache(maxsize=4)  # cells of the same settings follow each other
def _replayed(words: tuple[str, ...]) -> tuple[Sequence[ControllerOutput], Mapping[str, Mapping[str, int]]]:
    session = build_session(compose(words))
    queries = session.dataset.queries
    outputs = [session.controller.run(queries[query], query_id=query) for query in session.dataset.judged]
    return outputs, session.dataset.qrels


@cache
def _digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()
