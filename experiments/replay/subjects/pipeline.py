"""The SuperPrompt pipeline, as ``ragtune pipeline`` replays it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from experiments.config.compose import results_key
from experiments.config.names import leaf, policy_name
from experiments.datasets.dataset import Dataset
from experiments.evaluate.record import QueryRecord
from experiments.replay.sessions import session_for
from experiments.replay.subjects.prompt_record import VIEW_POSITIONS
from experiments.replay.subjects.prompt_session import PipelineSession, build_pipeline_session, rerank_stage_takes
from experiments.replay.subjects.subject import Subject


class PipelineSubject(Subject):
    """All eight stages, one prompt a query. A run is judged by the final selection; its views are the stages'."""

    views: ClassVar[Mapping[str, int]] = VIEW_POSITIONS

    def open(self, config_json: str) -> Dataset:
        session = _session_for(config_json)
        session.rerank_stage.forget_failures()
        return session.dataset

    def replay_shard(self, config_json: str, query_ids: Sequence[str]) -> list[QueryRecord]:
        session = _session_for(config_json)
        return [session.run(query_id) for query_id in query_ids]

    def label(self, config: Mapping[str, Any]) -> str:
        depth = _session_for(results_key(config)).pipeline.config.limits.n2_rerank_top_k
        kind = leaf(config, "rerank_stage")
        stage = f"{kind}, {policy_name(config)}" if "estimator" in rerank_stage_takes(config) else kind
        return f"pipeline, {stage}, N2 {depth}"

    def tags(self, config: Mapping[str, Any]) -> dict[str, str]:
        idle = [group for group in ("estimator", "scheduler", "reranker") if group not in rerank_stage_takes(config)]
        llm = "off" if config["llm"] is None else str(config["llm"]["model"])
        return {"rerank_stage": leaf(config, "rerank_stage"), "llm": llm, **dict.fromkeys(idle, "none")}

    def compares_apart(self, config: Mapping[str, Any]) -> bool:
        return session_for(results_key(config)).compares_apart


@lru_cache(maxsize=2)
def _session_for(config_json: str) -> PipelineSession:
    return build_pipeline_session(json.loads(config_json), session_for(config_json))
