"""The forecast of ``dry_run=true``: what a run would cost, before anything is spent."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence, Set
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np

from experiments.config.progress import Progress
from experiments.evaluate.record import UNITS, told
from experiments.replay.build import build_session
from ragtune.core.interfaces import BaseReformulator, BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.clock import VirtualClock
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import FREE, CostObject, ScoredDocument

_SURPRISE = 1.0
"""Standard deviation of a score around its estimate, in logits; without it, they were up to 2.7 times too high."""

_CLIP = 1e-6


class ForecastReranker(BaseReranker):
    """Prices batches as the real reranker does, and invents scores: the current estimate plus a normal error.

    The forecast is exact for policies that do not look at scores. For policies that stop by scores it is a guess, and
    mostly too high. The errors are a function of query and document alone. The real reranker is not made ready, so no
    model is loaded.

    Args:
        real: the reranker that knows the prices.
        unknown: units in which a batch had no price; they are added here.
    """

    def __init__(self, real: BaseReranker, unknown: set[str]) -> None:
        self._real = real
        self._unknown = unknown
        self._unhurried = CostBudget.unlimited().create_tracker(clock=VirtualClock())

    @property
    def is_recorded(self) -> bool:
        """Always True, since nothing runs and time is simulated."""
        return True

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        self._unknown |= _missing(self.expected_cost(items, context), self._real.unpriced)
        return {item.doc_id: _surprising(item.priority_value, context.query_id, item.doc_id) for item in items}

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        # Under a time limit, a model might be loaded to see how fast it is.
        return self._real.expected_cost(items, context.model_copy(update={"tracker": self._unhurried}))

    def can_score(self, doc_id: str, context: RAGtuneContext) -> bool:
        return self._real.can_score(doc_id, context)


def _surprising(estimate: float, query_id: str, doc_id: str) -> float:
    """The estimate with a reproducible normal error on the logit scale."""
    digest = hashlib.blake2b(f"{query_id}\0{doc_id}".encode(), digest_size=6).digest()
    error = NormalDist(sigma=_SURPRISE).inv_cdf((int.from_bytes(digest, "big") + 0.5) / 2**48)
    certain = min(1.0 - _CLIP, max(_CLIP, estimate))
    return 1.0 / (1.0 + math.exp(-math.log(certain / (1.0 - certain)) - error))


class ForecastReformulator(BaseReformulator):
    """Prices rewriting as the real reformulator does, and runs it only where it is free.

    So a forecast with a language model's rewrites lacks the documents that only they would find.

    Args:
        real: the reformulator that knows the prices.
        unknown: units in which a rewriting had no price; they are added here.
    """

    def __init__(self, real: BaseReformulator, unknown: set[str]) -> None:
        self._real = real
        self._unknown = unknown

    @property
    def is_active(self) -> bool:
        return self._real.is_active

    def generate(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> list[str]:
        cost = self._real.expected_cost(context, first_round)
        if cost == FREE:
            return self._real.generate(context, first_round)
        self._unknown |= _missing(cost, self._real.unpriced)
        return []

    def expected_cost(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> CostObject:
        return self._real.expected_cost(context, first_round)


def _missing(cost: CostObject, unpriced: Set[str]) -> set[str]:
    return {unit for unit, amount in cost.by_unit().items() if not amount and unit in unpriced}


def forecast(config: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Forecast the cost of a run. Nothing that costs is done, and nothing is written.

    Args:
        config: plain data.
        progress: called with the number of queries done.

    Returns:
        ``dataset``, ``queries``, and by unit the ``total`` and the mean cost ``per_query``; None where the price of a
        part is not known.
    """
    unknown: set[str] = set()
    session = build_session(
        {**config, "clock": "virtual"},
        wrap=partial(ForecastReranker, unknown=unknown),
        wrap_reformulator=partial(ForecastReformulator, unknown=unknown),
    )
    queries = session.dataset.queries
    costs = np.zeros((len(queries), len(UNITS)))
    for i, (query_id, text) in enumerate(queries.items()):
        spent = session.controller.run(text, query_id=query_id).history[-1].cost
        costs[i] = [getattr(spent, unit) for unit in UNITS]
        progress(i + 1, len(queries))
    return {
        "dataset": session.dataset.name,
        "queries": len(queries),
        "total": _known(costs.sum(axis=0).tolist(), unknown),
        "per_query": _known(costs.mean(axis=0).tolist(), unknown),
    }


def _known(amounts: Sequence[float], unknown: Set[str]) -> dict[str, float | None]:
    return {UNITS[i]: None if UNITS[i] in unknown else amounts[i] for i in told(amounts)}
