"""What the components of other people's frameworks share: they translate, and leave every decision to the facade."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ragtune.core.errors import InputError
from ragtune.facade.ranking import Ranking
from ragtune.facade.reranker import BudgetedReranker

_log = logging.getLogger(__name__)

T = TypeVar("T")

ESTIMATED = "estimated"
"""The name under which every adapter marks a score that is an estimate, since the model did not score the document."""


def reranker_from(model: Any, options: dict[str, Any]) -> BudgetedReranker:
    """The reranker that an adapter is made with."""
    if not isinstance(model, BudgetedReranker):
        return BudgetedReranker(model, **options)
    if options:
        raise InputError(f"a BudgetedReranker has its options already: {', '.join(options)} cannot be given")
    return model


def name_of(model: Any) -> str:
    """A model's name for logs and files: a function's, the last part of a path or address, or a class's."""
    told = model if isinstance(model, str) else getattr(model, "__name__", type(model).__name__)
    return re.sub(r"[^\w.-]", "_", told.rstrip("/").rpartition("/")[2])


def warn_of(*rankings: Ranking) -> None:
    """Log what went wrong with the reranker, each thing once: the answers of frameworks have no place for it."""
    for told in dict.fromkeys(warning for ranking in rankings for warning in ranking.warnings):
        _log.warning("%s", told)


def signals_of(names: Sequence[str], records: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]] | None:
    """The signals by name: what each document's record has under that name, None where it has nothing."""
    listed = list(records)
    return {name: [record.get(name) for record in listed] for name in names} or None


def first_scores(given: Iterable[tuple[float | None, Mapping[str, Any]]]) -> list[float] | None:
    """The first stage's scores of all documents with their records; None where one has none, or an estimate of ours."""
    return if_all(None if record.get(ESTIMATED) else score for score, record in given)


def if_all(values: Iterable[T | None]) -> list[T] | None:
    """The values of all documents; None where one of them has none."""
    listed = list(values)
    return None if any(value is None for value in listed) else listed  # type: ignore[return-value]
