"""The budgeted controller as a subject, the one of ``run.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.config.names import policy_name
from experiments.datasets.dataset import Dataset
from experiments.evaluate.record import QueryRecord
from experiments.replay.build import session_for
from experiments.replay.subjects.subject import Subject


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

    def label(self, config: Mapping[str, Any]) -> str:
        return policy_name(config)

    def forecast(self, config: Mapping[str, Any], progress: Callable[[int, int], None]) -> dict[str, Any]:
        from experiments.replay.forecast import forecast

        return forecast(config, progress)
