"""The budgeted controller as a subject, the one of ``run.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.config.compose import results_key
from experiments.config.names import policy_name
from experiments.datasets.dataset import Dataset
from experiments.evaluate.record import QueryRecord
from experiments.replay.build import controller_of, session_for
from experiments.replay.subjects.subject import Subject
from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.pool.ordering import Ordering
from ragtune.core.request.budget import CostBudget
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.expanders.none import NoExpander
from ragtune.schedulers.one_shot import OneShotScheduler

_FIXED_DEPTH = {
    "expander": NoExpander(),
    "estimator": BaselineEstimator(),
    "scheduler": OneShotScheduler(),
    "assembler": GreedyAssembler(Ordering.RERANKED_FIRST),
}
"""The parts of ``conf/experiment/fixed_depth.yaml``, whatever the run's own policy expands."""


class ControllerSubject(Subject):
    """Replays each query as one request of the controller: retrieval rounds, rerank loop, assembly."""

    def open(self, config_json: str) -> Dataset:
        session = session_for(config_json)
        session.controller.forget_failures()
        return session.dataset

    def replay_shard(self, config_json: str, query_ids: Sequence[str]) -> list[QueryRecord]:
        session = session_for(config_json)
        queries = session.dataset.queries
        return [QueryRecord.of(session.controller.run(queries[q], query_id=q)) for q in query_ids]

    def incumbents(self, config: Mapping[str, Any], query_ids: Sequence[str]) -> dict[str, list[QueryRecord]]:
        session = session_for(results_key(config))
        if not all(reranker.is_recorded for reranker in session.rerankers.values()):
            return {}
        budgets = {"fixed depth": session.parts["budget"], "everything": CostBudget.unlimited()}
        queries = session.dataset.queries
        found = {}
        for name, budget in budgets.items():
            controller = controller_of(config, {**session.parts, **_FIXED_DEPTH, "budget": budget}, session.rerankers)
            found[name] = [QueryRecord.of(controller.run(queries[q], query_id=q)) for q in query_ids]
        return found

    def label(self, config: Mapping[str, Any]) -> str:
        return policy_name(config)

    def forecast(self, config: Mapping[str, Any], progress: Callable[[int, int], None]) -> dict[str, Any]:
        from experiments.replay.forecast import forecast

        return forecast(config, progress)
