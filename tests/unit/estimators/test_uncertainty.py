"""How the posterior order weighs a document's own score, beyond what its likes say of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ragtune import Corpus
from ragtune.core.arrays import FloatArray
from ragtune.core.errors import ConfigError
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.uncertainty import UncertaintyEstimator


@pytest.fixture
def residuals(
    letters: Corpus,
    make_pool: Callable[..., CandidatePool],
    make_context: Callable[..., RAGtuneContext],
    score: Callable[..., None],
    discover: Callable[..., None],
) -> Callable[[float, str], FloatArray]:
    """What the final order adds to the means of the scored documents a and b, after a graph found some more."""

    def run(residual_weight: float, found: str) -> FloatArray:
        estimator = UncertaintyEstimator(letters, TfidfEmbedder, residual_weight=residual_weight, evidence_bonus=0.0)
        pool, context = make_pool("abcdef"), make_context()
        pool.apply_priorities(estimator.value(pool, context))
        score(pool, a=0.9, b=0.2)
        discover(pool, *found)
        belief = estimator.value(pool, context).belief
        assert belief is not None
        return belief.key[:2] - belief.mean[:2]

    return run


def test_in_the_first_stages_pool_a_share_of_the_own_residual_counts(
    residuals: Callable[[float, str], FloatArray],
) -> None:
    np.testing.assert_allclose(residuals(0.3, ""), 0.3 * residuals(1.0, ""))
    np.testing.assert_allclose(residuals(0.0, ""), 0.0)


def test_the_more_of_the_pool_a_graph_found_the_more_a_documents_own_score_counts(
    residuals: Callable[[float, str], FloatArray],
) -> None:
    np.testing.assert_allclose(residuals(0.3, "xy"), (0.3 + 0.7 * 2 / 8) * residuals(1.0, "xy"))
    np.testing.assert_allclose(residuals(0.3, "xyz"), (0.3 + 0.7 * 3 / 9) * residuals(1.0, "xyz"))


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("feedback_docs", 2.5, "a whole number"),
        ("feedback_docs", 0, ">= 1"),
        ("noise", 1e-300, ">= 1e-06"),
        ("scale", 0.0, ">= 1e-06"),
        ("evidence_slope", float("nan"), "a number"),
    ],
)
def test_a_prior_out_of_range_is_refused_before_any_query(
    letters: Corpus, name: str, value: float, allowed: str
) -> None:
    with pytest.raises(ConfigError, match=f"estimator.{name}={value!r}: allowed is .*{allowed}"):
        UncertaintyEstimator(letters, TfidfEmbedder, **{name: value})


def test_the_trace_says_how_often_the_covariance_was_regularised(
    letters: Corpus, make_pool: Callable[..., CandidatePool], make_context: Callable[..., RAGtuneContext]
) -> None:
    estimator = UncertaintyEstimator(letters, TfidfEmbedder)
    assert estimator.value(make_pool("abcdef"), make_context()).diagnostics["regularised"] == 0
