"""Fit the fusion of a collection to labelled questions, and measure all modes on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from statistics import fmean
from typing import Any

from ragtune.canonical.embedding import embed
from ragtune.canonical.fusion import LEXICAL, VECTOR, Lists, fused_scores
from ragtune.canonical.store.base import BaseSearcher
from ragtune.canonical.types import Filters
from ragtune.core.errors import DatasetError
from ragtune.data.files.textfile import read_json, read_lines

Questions = Sequence[tuple[str, Mapping[str, float]]]
"""Each question with the grades > 0 of the documents that answer it."""

_POOL, _DEPTH, _FOLDS = 50, 10, 5
_SHARES = [place / 20 for place in range(21)]  # weights of the vectors
Ranked = Lists[tuple[str, int]]


@dataclass(frozen=True)
class Fit:
    """``fusion``: changes of a :class:`ragtune.canonical.RetrievalPlan`. ``rows``: figures by mode, means of questions.

    Figures are the share of questions with an answer in the top 1 and top 3, and nDCG@10. ``fitted`` has weights of all
    questions, ``cross-validated`` for each fifth of them the weights of the others: what to expect of new questions.
    """

    fusion: dict[str, Any]
    rows: dict[str, tuple[float, float, float]]

    def table(self) -> str:
        """The rows as text, aligned."""
        lines = [f"{'':<24}{'top 1':>8}{'top 3':>8}{'nDCG@10':>9}"]
        lines += [f"{name:<24}{one:>8.3f}{three:>8.3f}{ndcg:>9.3f}" for name, (one, three, ndcg) in self.rows.items()]
        return "".join(f"{line}\n" for line in lines)


def read_questions(file: Path) -> Questions:
    """Read JSON lines of ``question`` and ``docs``, a list of ids or an object of grades."""
    found: list[tuple[str, Mapping[str, float]]] = []
    for number, line in read_lines(file):
        try:
            record = read_json(line)
            docs = record["docs"]
            grades = {str(one): float(docs[one]) if isinstance(docs, dict) else 1.0 for one in docs}
            found.append((str(record["question"]), {one: grade for one, grade in grades.items() if grade > 0}))
        except (ValueError, TypeError, KeyError):
            raise DatasetError(f'{file}:{number}: allowed is {{"question": "...", "docs": ["id", ...]}}') from None
    if not any(grades for _, grades in found):
        raise DatasetError(f"{file}: no question has an answering document")
    return found


def fit(store: BaseSearcher, questions: Questions) -> Fit:
    """Choose the weights of a fusion by scores with the best mean nDCG@10 of documents (a document: its best chunk).

    Args:
        store: a collection or table with texts and vectors.
        questions: at least one; 20 or more make the choice reliable.
    """
    vectors = embed([question for question, _ in questions], store.embedder)
    lists: list[Ranked] = []
    for (question, _), vector in zip(questions, vectors, strict=True):
        found = {
            VECTOR: store.vector_candidates(vector, _POOL, Filters()),
            LEXICAL: store.lexical_candidates(question, _POOL, Filters()),
        }
        lists.append({name: [(one.key, one.score) for one in candidates] for name, candidates in found.items()})
    grades = [given for _, given in questions]
    rows = {
        LEXICAL: _figures(lists, grades, _only(LEXICAL)),
        VECTOR: _figures(lists, grades, _only(VECTOR)),
        "hybrid, rrf": _figures(lists, grades, lambda one: fused_scores(one, "rrf", {})),
        "hybrid, equal scores": _figures(lists, grades, _weighted(0.5)),
    }
    pairs = list(zip(lists, grades, strict=True))
    by_share = [[_ndcg(_documents(_weighted(share)(one)), given) for share in _SHARES] for one, given in pairs]
    best = _best(by_share)
    rows[f"hybrid, fitted ({best:.2f})"] = _figures(lists, grades, _weighted(best))
    others = [_best([row for place, row in enumerate(by_share) if place % _FOLDS != fold]) for fold in range(_FOLDS)]
    held_out = [
        _figure(_documents(_weighted(others[place % _FOLDS])(one)), given) for place, (one, given) in enumerate(pairs)
    ]
    rows["hybrid, cross-validated"] = _mean(held_out)
    return Fit({"fusion": "scores", "weights": {VECTOR: best, LEXICAL: round(1 - best, 2)}}, rows)


Scores = Mapping[tuple[str, int], float]


def _only(name: str) -> Callable[[Ranked], Scores]:
    return lambda one: dict(one[name])


def _weighted(share: float) -> Callable[[Ranked], Scores]:
    return lambda one: fused_scores(one, "scores", {"weights": {VECTOR: share, LEXICAL: 1 - share}})


def _best(by_share: Sequence[Sequence[float]]) -> float:
    """The share with the best mean; of equal ones, the nearest to equal weights."""
    means = [round(fmean(column), 9) for column in zip(*by_share, strict=True)] or [0.0] * len(_SHARES)
    return max(zip(means, _SHARES, strict=True), key=lambda pair: (pair[0], -abs(pair[1] - 0.5)))[1]


def _documents(scores: Scores) -> list[str]:
    ranked = sorted(scores, key=lambda key: (-scores[key], key))
    return list(dict.fromkeys(doc_id for doc_id, _ in ranked))[:_DEPTH]


def _figures(
    lists: Sequence[Ranked], grades: Sequence[Mapping[str, float]], fuse: Callable[[Ranked], Scores]
) -> tuple[float, float, float]:
    return _mean([_figure(_documents(fuse(one)), given) for one, given in zip(lists, grades, strict=True)])


def _figure(ranked: Sequence[str], grades: Mapping[str, float]) -> tuple[float, float, float]:
    one, three = (float(any(doc_id in grades for doc_id in ranked[:most])) for most in (1, 3))
    return one, three, _ndcg(ranked, grades)


def _mean(figures: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    one, three, ndcg = (fmean(column) for column in zip(*figures, strict=True))
    return one, three, ndcg


def _ndcg(ranked: Sequence[str], grades: Mapping[str, float]) -> float:
    ideal = sum(grade / log2(rank + 2) for rank, grade in enumerate(sorted(grades.values(), reverse=True)[:_DEPTH]))
    return sum(grades.get(one, 0.0) / log2(rank + 2) for rank, one in enumerate(ranked)) / ideal if ideal else 0.0
