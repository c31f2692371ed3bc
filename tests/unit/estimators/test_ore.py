from __future__ import annotations

import numpy as np
import pytest

from ragtune.core.errors import ConfigError
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.graph.ore import OREEstimator


@pytest.fixture
def make_ore(letters, folder):
    def make(**arguments) -> OREEstimator:
        return OREEstimator(letters, TfidfEmbedder, **({"k": 2, "graph": folder} | arguments))

    return make


def weights(estimator, pool, context) -> list[float]:
    return estimator.value(pool, context).diagnostics["weights"]


def test_before_any_score_the_first_stage_decides(make_ore, make_pool, make_context):
    values = make_ore().value(make_pool(), make_context())
    assert list(values.values()) == sorted(values.values(), reverse=True)


def test_neighbours_of_good_documents_rise(make_ore, make_pool, make_context, score):
    pool, context, ore = make_pool(), make_context(), make_ore()
    before = ore.value(pool, context)
    score(pool, a=1.0)
    after = ore.value(pool, context)
    assert after["e"] > before["e"]
    assert after["e"] / after["c"] > before["e"] / before["c"]


def test_the_regression_is_ridge_on_the_features_at_the_time_of_choice(make_ore, make_pool, make_context, score):
    pool, context, ore = make_pool(), make_context(), make_ore(ridge=2.0)
    ore.value(pool, context)
    score(pool, a=0.9, c=0.2)
    # No document had been scored when these two were chosen, so only the first stage's feature was not zero.
    x = np.array([[1.0, 0.0, 0.0], [0.6, 0.0, 0.0]])
    y = np.array([0.9, 0.2])
    expected = np.linalg.solve(2.0 * np.eye(3) + x.T @ x, 2.0 * np.full(3, 1 / 3) + x.T @ y)
    assert weights(ore, pool, context) == pytest.approx(expected.tolist(), abs=1e-6)


def test_affinity_and_relevance_are_means_over_the_near_heads(make_ore, make_pool, make_context, score):
    pool, context, ore = make_pool(), make_context(), make_ore(ridge=1e6)
    ore.value(pool, context)
    score(pool, a=0.8, b=0.4)
    values = ore.value(pool, context)
    affinity = (0.8 * 0.5 + 0.4 * 0.6) / 2
    relevance = (0.8 + 0.4) / 2
    assert values["f"] == pytest.approx((0.0 + affinity + relevance) / 3, abs=1e-4)


def test_only_the_best_documents_are_heads(make_ore, make_pool, make_context, score):
    pool, context, ore = make_pool(), make_context(), make_ore(ridge=1e6, top_s=1)
    ore.value(pool, context)
    score(pool, a=0.8, b=0.4)
    assert ore.value(pool, context)["f"] == pytest.approx((0.8 * 0.5 + 0.8) / 3, abs=1e-4)


def test_every_first_stage_source_is_a_feature(make_ore, letters, make_context):
    pool = CandidatePool(
        PoolItem(doc_id=d, initial_rank=i, retrieval_score=1.0, sources=s)
        for i, (d, s) in enumerate({"a": {"bm25": 9.0}, "b": {"bm25": 3.0, "dense": 0.7}, "c": {"dense": 0.9}}.items())
    )
    values = make_ore().value(pool, make_context())
    assert len(values.diagnostics["weights"]) == 4
    assert dict(values) == pytest.approx({"a": 0.25, "b": 0.0, "c": 0.25})


def test_weights_stay_in_the_unit_interval(make_ore, make_pool, make_context, score):
    pool, context, ore = make_pool(), make_context(), make_ore(ridge=1e-6)
    ore.value(pool, context)
    score(pool, a=0.0, e=1.0, f=1.0)
    assert all(0.0 <= w <= 1.0 for w in weights(ore, pool, context))


def test_unscored_documents_rank_by_the_estimate_behind_the_scored_ones(make_ore, make_pool, make_context, score):
    pool, context, ore = make_pool(), make_context(), make_ore()
    ore.value(pool, context)
    score(pool, a=0.9, d=0.0)
    posterior = ore.value(pool, context).posterior
    order = [pool.doc_ids[i] for i in np.argsort(-posterior, kind="stable")]
    assert order[:2] == ["a", "d"]
    assert order[2] == "e"


@pytest.mark.parametrize("arguments", [{"top_s": 0}, {"ridge": 0.0}, {"ridge": float("nan")}, {"k": -1}])
def test_bad_arguments_are_refused(make_ore, arguments):
    with pytest.raises(ConfigError, match=f"estimator.*{next(iter(arguments))}="):
        make_ore(**arguments)
