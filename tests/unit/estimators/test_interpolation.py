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
    return "".join(sorted(pool.doc_ids, key=lambda doc_id: -keys[pool.index_of(doc_id)]))


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
    ("weight", "order"),
    [
        pytest.param(0.0, "bcade", id="fixed depth"),
        pytest.param(0.2, "bcade", id="the default"),
        pytest.param(0.5, "bacde", id="half and half"),
        pytest.param(1.0, "abcde", id="the first stage"),
    ],
)
def test_the_weight_moves_the_order_from_the_rerankers_to_the_first_stages(
    keys_of: Keys, weight: float, order: str
) -> None:
    pool = _pool(a=30.0, b=20.0, c=10.0, d=9.0, e=8.0)
    _scored(pool, a=_logistic(-1.0), b=_logistic(3.0), c=_logistic(1.0))
    assert _order(pool, keys_of(pool, weight)) == order


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


def test_neither_the_first_stages_unit_nor_the_models_temperature_matters(keys_of: Keys) -> None:
    logits = {"a": -2.0, "b": 0.5, "c": 1.5, "d": 0.7}
    first = {"a": 9.0, "b": 7.5, "c": 3.0, "d": 2.9}
    keys = [
        keys_of(
            _scored(
                _pool(**{doc_id: unit * score - 3.0 for doc_id, score in first.items()}),
                **{doc_id: _logistic(heat * logit + 0.3) for doc_id, logit in logits.items()},
            )
        )
        for unit, heat in ((1.0, 1.0), (0.01, 2.0))
    ]
    assert keys[0] == pytest.approx(keys[1])


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_out_of_range_is_refused(weight: float) -> None:
    with pytest.raises(ConfigError, match=r"estimator.weight=.*: allowed is"):
        InterpolationEstimator(weight)
