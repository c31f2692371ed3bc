"""Interpolated fixed depth: the order by both scores, computed by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from ragtune.core.errors import ConfigError
from ragtune.core.pool.items import ItemState, PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.estimators.interpolation import InterpolationEstimator

Keys = Callable[..., list[float]]


def _pool(**first_stage: float) -> CandidatePool:
    return CandidatePool(
        PoolItem(doc_id, retrieval_score=score, initial_rank=rank)
        for rank, (doc_id, score) in enumerate(first_stage.items())
    )


def _scored(pool: CandidatePool, **scores: float) -> CandidatePool:
    pool.transition(scores, ItemState.IN_FLIGHT)
    pool.update_scores(scores, "default")
    return pool


@pytest.fixture
def keys_of(make_context: Callable[..., RAGtuneContext]) -> Keys:
    def run(pool: CandidatePool, weight: float = 0.2) -> list[float]:
        pool.apply_priorities(InterpolationEstimator(weight).value(pool, make_context()))
        return pool.posteriors.tolist()

    return run


def _order(pool: CandidatePool, keys: list[float]) -> str:
    return "".join(sorted(pool.doc_ids, key=lambda doc_id: -keys[pool.roster.index[doc_id]]))


def _logistic(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))


def test_the_keys_of_scored_documents_are_those_computed_by_hand(keys_of: Keys) -> None:
    """First-stage scores 30, 20, 10 have z of r, 0, -r with r = sqrt(3/2); logits -1, 3, 1 have z of -r, r, 0."""
    pool = _scored(_pool(a=30.0, b=20.0, c=10.0, d=9.0), a=_logistic(-1.0), b=_logistic(3.0), c=_logistic(1.0))
    r = math.sqrt(1.5)
    keys = keys_of(pool, 0.2)
    assert keys[:3] == pytest.approx([(0.2 - 0.8) * r, 0.8 * r, -0.2 * r])
    assert keys[3] < min(keys[:3])


@pytest.mark.parametrize(
    ("scores", "order"),
    [
        pytest.param({}, "abcd", id="no score"),
        pytest.param({"c": 0.1}, "cabd", id="one score: its document leads, as under fixed depth"),
        pytest.param({"c": 0.0, "d": 0.0}, "cdab", id="equal scores: the first stage decides"),
        pytest.param({"b": 1.0, "c": 0.0}, "bcad", id="scores without a finite logit"),
    ],
)
def test_few_or_equal_scores_leave_the_rest_in_the_first_stages_order(
    keys_of: Keys, scores: dict[str, float], order: str
) -> None:
    pool = _scored(_pool(a=4.0, b=3.0, c=2.0, d=1.0), **scores)
    assert _order(pool, keys_of(pool)) == order


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_out_of_range_is_refused(weight: float) -> None:
    with pytest.raises(ConfigError, match=r"estimator.weight=.*: allowed is"):
        InterpolationEstimator(weight)
