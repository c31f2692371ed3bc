"""A scheduler may send a scored document again: what is fitted to scores has learnt from its first one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ragtune import Corpus
from ragtune.core.interfaces import BaseEstimator
from ragtune.core.pool.items import ItemState
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.graph.ore import OREEstimator
from ragtune.estimators.posterior.bagel import BAGELEstimator
from ragtune.estimators.posterior.similarity import SimilarityEstimator
from ragtune.estimators.posterior.uncertainty import UncertaintyEstimator


@pytest.mark.parametrize("kind", [BAGELEstimator, OREEstimator, SimilarityEstimator, UncertaintyEstimator])
def test_what_is_fitted_to_scores_learns_from_the_first_one_of_a_document(
    kind: Callable[..., BaseEstimator],
    letters: Corpus,
    make_pool: Callable[..., CandidatePool],
    make_context: Callable[..., RAGtuneContext],
    score: Callable[..., None],
    discover: Callable[..., None],
) -> None:
    def means(seconds: dict[str, float]) -> list[list[float]]:
        """What it says after each event, in a request in which ``seconds`` are scores of a second time."""
        estimator, pool, context = kind(letters, TfidfEmbedder), make_pool(), make_context()
        said = []

        def ask() -> None:
            pool.apply_priorities(estimator.value(pool, context))
            said.append(pool.estimates.mean.tolist())

        ask()
        score(pool, a=0.9, d=0.2)
        ask()
        if seconds:
            pool.transition(seconds, ItemState.IN_FLIGHT, again=True)
            pool.update_scores(seconds, "default")
        ask()
        if kind is not OREEstimator:  # whose features, unlike its weights, go by the scores as they are
            discover(pool, "x", "y")
            ask()
            score(pool, b=0.4)
            ask()
        return said

    once, twice = means({}), means({"a": 0.1, "d": 0.8})
    assert not np.allclose(once[0], once[1])
    assert twice == once
