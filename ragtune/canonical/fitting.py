"""Fit the fusion of a collection to labelled questions, and measure all modes on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError

from ragtune.canonical.embedding import embed
from ragtune.canonical.fusion import LEXICAL, VECTOR, fused_scores
from ragtune.canonical.store.base import BaseSearcher
from ragtune.canonical.types import Filters
from ragtune.core.errors import DatasetError
from ragtune.data.files.textfile import read_lines

Questions = Sequence[tuple[str, Mapping[str, float]]]
"""Each question with the grades > 0 of the documents that answer it."""

_POOL, _DEPTH, _FOLDS = 50, 10, 5
_CHOICES = {f"{method} {place / 20:g}": (method, place / 20) for method in ("rrf", "scores") for place in range(21)}
"""By name, methods of fusion with weights of the vectors."""


class ModeFigures(NamedTuple):
    """Shares of questions with an answer in the top 1 and top 3, and nDCG@10."""

    top1: float
    top3: float
    ndcg: float


class _Question(BaseModel):
    question: str
    docs: list[str] | dict[str, FiniteFloat]

    model_config = ConfigDict(coerce_numbers_to_str=True)


def read_questions(file: Path) -> Questions:
    """Read JSON lines of ``question`` and ``docs``, a list of ids or an object of grades."""
    found: list[tuple[str, Mapping[str, float]]] = []
    for number, line in read_lines(file):
        try:
            record = _Question.model_validate_json(line)
        except ValidationError:
            raise DatasetError(f'{file}:{number}: allowed is {{"question": "...", "docs": ["id", ...]}}') from None
        grades = record.docs if isinstance(record.docs, dict) else dict.fromkeys(record.docs, 1.0)
        found.append((record.question, {one: grade for one, grade in grades.items() if grade > 0}))
    if not any(grades for _, grades in found):
        raise DatasetError(f"{file}: no question has an answering document")
    return found


def fit(store: BaseSearcher, questions: Questions) -> tuple[dict[str, Any], dict[str, ModeFigures]]:
    """Choose the fusion, by ranks or scores, and its weights by mean nDCG@10 of documents (a document: its best chunk).

    Args:
        store: a collection or table with texts and vectors.
        questions: at least one; 20 or more make the choice reliable.

    Returns:
        Changes of a :class:`ragtune.canonical.RetrievalPlan`, and mean figures by mode. ``cross-validated`` has for
        each fifth of the questions the weights that suit the others: what to expect of new questions.

    Examples:
        >>> from ragtune.canonical import chunk, index
        >>> from ragtune.canonical.fitting import fit
        >>> from ragtune.canonical.store.memory import MemoryDatabase
        >>> from ragtune.embedders.hashing import HashingEmbedder
        >>> store = MemoryDatabase().open("docs", HashingEmbedder(dims=64), create=True)
        >>> _ = index(chunk("Green tea.", doc_id="tea"), store)
        >>> fit(store, [("green tea", {"tea": 1.0})])[1]["lexical"]
        ModeFigures(top1=1.0, top3=1.0, ndcg=1.0)
    """
    vectors = embed([question for question, _ in questions], store.embedder)
    by_question: list[dict[str, ModeFigures]] = []
    for (question, grades), vector in zip(questions, vectors, strict=True):
        found = {
            VECTOR: store.vector_candidates(vector, _POOL, Filters()),
            LEXICAL: store.lexical_candidates(question, _POOL, Filters()),
        }
        lists = {name: [(one.key, one.score) for one in candidates] for name, candidates in found.items()}
        scores = {LEXICAL: dict(lists[LEXICAL]), VECTOR: dict(lists[VECTOR])}
        for choice, (method, share) in _CHOICES.items():
            scores[choice] = fused_scores(lists, method, {"weights": {VECTOR: share, LEXICAL: 1 - share}})
        by_question.append({name: _figures(given, grades) for name, given in scores.items()})
    best = _best(by_question)
    others = [_best([one for place, one in enumerate(by_question) if place % _FOLDS != fold]) for fold in range(_FOLDS)]
    rows = {name: _mean([one[name] for one in by_question]) for name in (LEXICAL, VECTOR)}
    rows |= {f"hybrid, {name}": _mean([one[name] for one in by_question]) for name in ("rrf 0.5", "scores 0.5", best)}
    held_out = [one[others[place % _FOLDS]] for place, one in enumerate(by_question)]
    rows["hybrid, cross-validated"] = _mean(held_out)
    method, share = _CHOICES[best]
    return {"fusion": method, "weights": {VECTOR: share, LEXICAL: round(1 - share, 2)}}, rows


def _best(by_question: Sequence[Mapping[str, ModeFigures]]) -> str:
    """The choice with the best mean; of equal ones, that with weights nearest to one half."""
    means = {name: round(fmean([one[name].ndcg for one in by_question] or [0.0]), 9) for name in _CHOICES}
    return max(_CHOICES, key=lambda name: (means[name], -abs(_CHOICES[name][1] - 0.5)))


def _figures(scores: Mapping[tuple[str, int], float], grades: Mapping[str, float]) -> ModeFigures:
    keys = sorted(scores, key=lambda key: (-scores[key], key))
    gains = [grades.get(doc_id, 0.0) for doc_id in list(dict.fromkeys(doc_id for doc_id, _ in keys))[:_DEPTH]]
    ideal = _dcg(sorted(grades.values(), reverse=True)[:_DEPTH])
    return ModeFigures(float(any(gains[:1])), float(any(gains[:3])), _dcg(gains) / ideal if ideal else 0.0)


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / log2(rank + 2) for rank, gain in enumerate(gains))


def _mean(figures: Sequence[ModeFigures]) -> ModeFigures:
    return ModeFigures(*(fmean(column) for column in zip(*figures, strict=True)))
