"""Every estimator that has a conf file keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ragtune.core.interfaces import BaseEstimator
from ragtune.testing import EstimatorContract, WorldReranker


class TestEstimators(EstimatorContract):
    @pytest.fixture(autouse=True)
    def chosen(self, new_estimator: Callable[..., BaseEstimator]) -> None:
        self.new_estimator = new_estimator

    def make(self) -> BaseEstimator:
        return self.new_estimator(corpus=self.world.corpus, qrels={}, reranker=WorldReranker(self.world))
