"""Every scheduler that has a conf file keeps the contract, whichever estimator it listens to."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.replay.build import component
from ragtune.core.interfaces import BaseEstimator, BaseScheduler
from ragtune.testing import SchedulerContract, World, WorldReranker


class TestSchedulers(SchedulerContract):
    @pytest.fixture(autouse=True)
    def chosen(self, scheduler_config: dict[str, Any]) -> None:
        self.config = scheduler_config

    def make(self) -> BaseScheduler:
        made: BaseScheduler = component(self.config, "scheduler", {})
        return made

    @pytest.fixture
    def estimator(self, world: World, estimator_config: dict[str, Any]) -> BaseEstimator:
        self.estimator_config = estimator_config
        return self.make_estimator()

    def make_estimator(self) -> BaseEstimator:
        resources = {"corpus": self.world.corpus, "qrels": {}, "reranker": WorldReranker(self.world)}
        made: BaseEstimator = component(self.estimator_config, "estimator", resources)
        return made
