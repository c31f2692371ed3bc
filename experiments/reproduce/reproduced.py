"""Published figures beside ours: replays of recorded scores, or of made-up queries, and the verdict on each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from string import Template

import numpy as np

from experiments.config.compose import compose
from experiments.evaluate.measures import Measures
from experiments.replay.build import build_session
from experiments.reproduce.paper import Paper, PublishedCell
from experiments.reproduce.paper import ReproductionVerdict as Verdict
from ragtune.core.errors import ConfigError
from ragtune.core.output import ControllerOutput
from ragtune.core.plain import first_line
from ragtune.data.caches.diskcache import Stamp, sha256_of, stamp_of

COLUMNS = ("cell", "published", "ours", "difference", "verdict", "why")

QUERIES = 20  # made-up ones of a cell
_NOISE = {"perfect": 0.0, "noisy": 0.25, "random": 1e9}  # errors of their first stage, in deviations of the true values


@dataclass(frozen=True)
class Reproduced:
    """A cell with our value, its distance from the published one, and the verdict with its reason."""

    cell: PublishedCell
    verdict: Verdict
    why: str
    ours: float | str = ""
    difference: float | None = None  # of numbers; from the nearer end of a range

    @property
    def is_unexpected(self) -> bool:
        is_known = self.difference is not None and abs(self.difference) <= self.cell.within
        return self.verdict is Verdict.DIFFERENT and not (self.cell.expect is Verdict.DIFFERENT and is_known)

    @property
    def row(self) -> Sequence[str]:
        """The texts under :data:`COLUMNS`."""
        published = self.cell.published
        shown = " to ".join(map(_shown, published)) if isinstance(published, list) else _shown(published)
        difference = "" if self.difference is None else f"{round(self.difference, 4) + 0.0:+.4f}"
        named = f"{self.cell.cell} ({self.cell.table})"
        return [named, shown, _shown(self.ours), difference, self.verdict, self.why]


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4f}".rstrip("0").rstrip(".")


def reproduced(paper: Paper, cell: PublishedCell, data: Path | None, scratch: Path) -> Reproduced:
    """Replay a cell of a paper: collections lie below ``data``, made-up ones are written to ``scratch``."""
    if cell.expect is Verdict.NOT_HERE:
        return Reproduced(cell, Verdict.NOT_HERE, cell.why)
    if flaw := _flaw(paper, cell, data):
        return Reproduced(cell, Verdict.NOT_HERE if flaw.startswith("needs") else Verdict.DIFFERENT, flaw)
    try:
        published, ours = cell.published, _value(paper, cell, cell.run, data, scratch)
        if cell.against:
            ours = 1.0 - float(ours) / float(_value(paper, cell, cell.against, data, scratch))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(f"{paper.name}: no value of cell {cell.cell!r}: {first_line(error)}") from None
    if isinstance(published, str) or isinstance(ours, str):
        return Reproduced(cell, Verdict.EQUAL if published == ours else Verdict.DIFFERENT, cell.why, ours)
    low, high = published if isinstance(published, list) else (published, published)
    difference = ours - min(max(ours, low), high)
    distance = abs(difference) - 1e-9  # what floating point leaves of a decimal
    is_explained = cell.expect is Verdict.EXPLAINED and distance <= cell.within
    verdict = Verdict.EXPLAINED if is_explained else Verdict.DIFFERENT
    return Reproduced(cell, Verdict.EQUAL if distance <= cell.tolerance else verdict, cell.why, ours, difference)


def _windows(output: ControllerOutput) -> list[list[int]]:
    """The calls of a request, each as its documents' places in the first stage, from 1, in ascending order."""
    places = {doc_id: place for place, doc_id in enumerate(output.history[-1].doc_ids, 1)}
    return [sorted(places[doc_id] for doc_id in sent.details["doc_ids"]) for sent in output.trace.find("propose")]


def _text(window: Sequence[int]) -> str:
    whole = len(window) == window[-1] - window[0] + 1
    return f"{window[0]}-{window[-1]}" if whole else ",".join(map(str, window))


COUNTS: Mapping[str, Callable[[Sequence[ControllerOutput]], float | str]] = {
    "calls": lambda outputs: float(np.mean([output.history[-1].cost.calls for output in outputs])),
    "fewest calls": lambda outputs: min(output.history[-1].cost.calls for output in outputs),
    "most calls": lambda outputs: max(output.history[-1].cost.calls for output in outputs),
    "documents": lambda outputs: float(np.mean([output.history[-1].cost.docs for output in outputs])),
    "largest call": lambda outputs: max(len(window) for each in outputs for window in _windows(each)),
    "windows": lambda outputs: " ".join(map(_text, _windows(outputs[0]))),
    "first window": lambda outputs: _text(_windows(outputs[0])[0]),
}
"""Values of a cell that are no measures; means over the queries where nothing else is said."""


def _flaw(paper: Paper, cell: PublishedCell, data: Path | None) -> str:
    """Which input of a cell is missing ("needs FILE") or has other bytes; empty if none."""
    text = " ".join(word for name in (*cell.run, *cell.against) for word in paper.settings[name])
    for name, digest in paper.inputs.items():
        of_all = not name.partition("/")[2].startswith(("runs/", "scores/"))
        if f"$data/{name.partition('/')[0] if of_all else name}" not in text:
            continue
        if data is None or not (file := data / name).is_file():
            return f"needs {name}"
        if _digest(file, stamp_of(file)) != digest:
            return f"input {name} has other bytes"
    return ""


@lru_cache  # cells share their inputs; a changed file has another stamp
def _digest(file: Path, stamp: Stamp) -> str:
    return sha256_of(file)


def _value(paper: Paper, cell: PublishedCell, settings: Sequence[str], data: Path | None, scratch: Path) -> float | str:
    words = [] if cell.items is None else _made_up(cell.items, cell.order, scratch / f"{cell.items}-{cell.order}")
    words += [Template(word).safe_substitute(data=data) for name in settings for word in paper.settings[name]]
    outputs, qrels = _replayed(("tracking=none", "budget=unlimited", *words))
    if cell.value in COUNTS:
        return COUNTS[cell.value](outputs)
    rankings = {output.query_id: output.ranking for output in outputs}
    return float(Measures([cell.value], qrels).of_topics(rankings, {query: query for query in rankings}).mean())


def _made_up(n: int, order: str, folder: Path) -> list[str]:
    """Overrides that choose queries with n documents, d0000 the best; the ten best are judged by their rank."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    docs, queries = [f"d{i:04d}" for i in range(n)], [f"q{i:02d}" for i in range(QUERIES)]
    worth = np.linspace(0.9, 0.1, n)
    seen = worth + _NOISE[order] * worth.std() * np.random.default_rng(0).standard_normal((QUERIES, n))
    texts = {
        "corpus.jsonl": [json.dumps({"_id": doc, "text": doc}) for doc in docs],
        "queries.jsonl": [json.dumps({"_id": query, "text": query}) for query in queries],
        "qrels/test.tsv": [f"{query}\t{doc}\t{10 - i}" for query in queries for i, doc in enumerate(docs[:10])],
    }
    for name, values in {"first.run": seen, "scores.run": np.tile(worth, (QUERIES, 1))}.items():
        rows = zip(queries, values.tolist(), strict=True)
        texts[name] = [
            f"{query} Q0 {doc} 1 {value!r} x" for query, row in rows for doc, value in zip(docs, row, strict=True)
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
