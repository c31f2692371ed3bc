"""Reranking by a function of the caller that orders texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from numbers import Integral
from typing import Any

from ragtune.core.arguments import check_number
from ragtune.core.component import RerankerFacts
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.plain import quoted
from ragtune.core.pool.items import PoolItem, lengths_of
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject


class OrderingReranker(BaseReranker):
    """Compares documents, given best first, by a function; scores are 1 / (1 + r) by rank in the batch."""

    def __init__(self, function: Callable[[str, list[str]], Sequence[int]], usd_per_call: float = 0.0) -> None:
        if not callable(function):
            raise ConfigError(f"function={quoted(function)}: allowed is a function (query, texts) -> positions")
        self._function = function
        self.usd_per_call = check_number("usd_per_call", usd_per_call, low=0.0)
        unpriced = RerankerFacts.unpriced - {"tokens", *(["usd"] if self.usd_per_call else [])}
        self.facts = RerankerFacts(compares=True, unpriced=unpriced)

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        if not items:
            return {}
        shown = by_standing(items)
        named = _positions(self._function(context.query, [item.content for item in shown]), len(shown))
        left = sorted(set(range(len(shown))) - set(named))
        scores = rank_scores([shown[position] for position in [*named, *left]], len(named))
        return {item.doc_id: scores[item.doc_id] for item in items}

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        tokens = count_tokens(context.query) + sum(lengths_of(items))
        return CostObject(tokens=tokens, docs=len(items), calls=1, usd=self.usd_per_call)


def _positions(returned: Any, n: int) -> list[int]:
    if isinstance(returned, Iterable) and not isinstance(returned, str | bytes | Mapping | Set):
        found = list(returned)
        positions = [int(one) for one in found if isinstance(one, Integral) and not isinstance(one, bool)]
        if len(set(positions)) == len(found) and all(0 <= position < n for position in positions):
            return positions
    raise ConfigError(
        f"the ordering function returned {quoted(returned)} for {n} texts: allowed are positions from 0 to {n - 1}, "
        "best first, each once at most"
    )


def by_standing(items: Sequence[PoolItem]) -> list[PoolItem]:
    """The documents best first: by the estimator's final key or the score, then ``initial_rank``, then ``doc_id``."""

    def standing(item: PoolItem) -> float:
        return item.final_score() if item.posterior is None else item.posterior

    return sorted(items, key=lambda item: (-standing(item), item.initial_rank, item.doc_id))


def in_order(items: Sequence[PoolItem], context: RAGtuneContext, shuffled: bool) -> list[PoolItem]:
    """The documents :func:`by_standing`, or in an order drawn for their set, which no standing can bias."""
    shown = by_standing(items)
    if shuffled:
        ids = "\x00".join(sorted(item.doc_id for item in items))
        shown.sort(key=lambda item: item.doc_id)
        context.rng(f"direction {ids}").shuffle(shown)
    return shown


def rank_scores(order: Sequence[PoolItem], told: int | None = None) -> dict[str, float]:
    """Return 1 / (1 + r) for the r-th document from 1: the scale ``rank`` of score tables, whose logit is -ln r."""
    last = len(order) if told is None else told + 1
    return {item.doc_id: 1.0 / (1.0 + min(rank, last)) for rank, item in enumerate(order, start=1)}
