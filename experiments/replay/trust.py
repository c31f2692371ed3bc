"""``estimator.trust=auto``: a first pass over a sample of queries says how far their reranker is to be trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from experiments.evaluate.record import amounts_of
from ragtune.core.arrays import FloatArray
from ragtune.core.controller import RAGtuneController
from ragtune.core.interfaces import BaseScheduler
from ragtune.core.policy.batching import propose
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.budget import CostBudget
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord
from ragtune.estimators.posterior.correlation import CORRELATION, SourceCorrelation

QUERIES, HEAD, TAIL = 100, 10, 10
"""Queries of the sample; documents scored of each: the first stage's best, and others spread evenly over the rest."""


class FirstPass(NamedTuple):
    """What the first pass has found, and its costs in each of :data:`experiments.evaluate.record.UNITS`."""

    correlation: SourceCorrelation
    charged: FloatArray
    actual: FloatArray


class _Spread(BaseScheduler):
    """One batch of the first stage's best and of some that are spread over its list, so that scores can vary."""

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        if pool.batches:
            return StopRecord(reason="one_shot_done", source="scheduler", details={})
        ranked = pool.top_candidates(len(pool))
        spread = np.unique(np.linspace(HEAD, max(len(ranked) - 1, HEAD), TAIL).astype(int)).tolist()
        return propose([*ranked[:HEAD], *(ranked[i] for i in spread if i < len(ranked))], budget)


def first_pass(
    parts: Mapping[str, Any],
    controller_of: Callable[[Mapping[str, Any]], RAGtuneController],
    queries: Mapping[str, str],
    seed: int,
) -> FirstPass:
    """Score a seeded sample of the queries, texts by id, and correlate the scores with the first stage.

    The parts are those of the policy; scheduler, budget and expander are replaced. ``controller_of`` makes a controller
    of them with the run's own depths, seed and failure policy.
    """
    chosen = {"scheduler": _Spread(), "budget": CostBudget.unlimited(), "expander": None}
    controller = controller_of({**parts, **chosen})
    query_ids = list(queries)
    drawn = np.random.default_rng(seed).permutation(len(query_ids))[:QUERIES]
    found, charged, actual = [], [], []
    for query_id in [query_ids[i] for i in sorted(drawn.tolist())]:
        output = controller.run(queries[query_id], query_id=query_id)
        told = (each.details for each in output.trace.events if CORRELATION in each.details)
        found += [details[CORRELATION] for details in told if details["scored"] > 2][-1:]
        charged.append(output.history[-1].amounts)
        actual.append(amounts_of(output.actual_cost))
    return FirstPass(SourceCorrelation.of(found), np.sum(charged, axis=0), np.sum(actual, axis=0))
