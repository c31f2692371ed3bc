"""A Gaussian process per query, beside the textbook's formula."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ragtune.core.errors import ConfigError
from ragtune.core.request.budget import CostBudget
from ragtune.estimators.posterior.bagel import BAGELEstimator

ANGLES = {"a": 50.0, "b": 40.0, "c": 5.0, "d": 95.0, "e": 100.0, "f": 200.0}
"""Where documents stand on a circle; the query is at 0 degrees."""


def at(degrees: list[float]) -> np.ndarray:
    return np.column_stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


def make(**options: float) -> BAGELEstimator:
    circle = SimpleNamespace(of=lambda items: at([ANGLES[i.doc_id] for i in items]), of_query=lambda text: at([0.0]))
    return BAGELEstimator(None, lambda corpus: circle, **options)


def test_half_of_the_budget_goes_to_what_is_nearest_to_the_query(make_pool, make_context, score, advise):
    pool, context, bagel = make_pool(), make_context(tracker=CostBudget(max_reranker_docs=4).create_tracker()), make()
    assert advise(bagel, pool, context) == "cb"
    score(pool, c=0.9, b=0.1)
    assert len(advise(bagel, pool, context)) == 4, "then all that are left compete"


def test_the_posterior_is_that_of_a_gaussian_process_with_the_query_at_the_maximum(make_pool, make_context, score):
    pool, context = make_pool(), make_context()
    score(pool, a=0.6, d=0.1)
    found = make(noise=0.01).value(pool, context)
    told, every = at([ANGLES["a"], ANGLES["d"], 0.0]), at(list(ANGLES.values()))
    scores = np.array([0.6, 0.1, 1.0])
    observed = (scores - scores.mean()) / scores.std()

    def kernel(one, other, length):
        return np.exp(-(1.0 - one @ other.T) / length**2)

    def fit(length):
        covariance = kernel(told, told, length) + 0.01 * np.eye(3)
        likelihood = -0.5 * observed @ np.linalg.solve(covariance, observed) - 0.5 * np.linalg.slogdet(covariance)[1]
        return likelihood, kernel(every, told, length) @ np.linalg.solve(covariance, observed)

    length = found.diagnostics["length_scale"]
    assert fit(length)[0] >= max(fit(other)[0] for other in np.geomspace(0.01, 2.0, 24)) - 1e-4
    assert found.posterior == pytest.approx(scores.mean() + scores.std() * fit(length)[1], abs=1e-4)


@pytest.mark.parametrize(("option", "value"), [("warm", 1.5), ("beta", -1.0), ("noise", 0.0)])
def test_a_bad_option_is_refused_by_name(option, value):
    with pytest.raises(ConfigError, match=rf"estimator\.{option}={value}"):
        make(**{option: value})
