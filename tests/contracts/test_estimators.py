"""Every estimator that has a conf file keeps the contract."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.replay.build import component
from ragtune.core.interfaces import BaseEstimator
from ragtune.testing import EstimatorContract, WorldReranker


class TestEstimators(EstimatorContract):
    @pytest.fixture(autouse=True)
    def chosen(self, estimator_config: dict[str, Any]) -> None:
        self.config = estimator_config

    def make(self) -> BaseEstimator:
        resources = {"corpus": self.world.corpus, "qrels": {}, "reranker": WorldReranker(self.world)}
        made: BaseEstimator = component(self.config, "estimator", resources)
        return made
