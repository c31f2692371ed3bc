"""The SuperPrompt pipeline, as ``ragtune pipeline`` replays it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from experiments.config.names import leaf, policy_name
from experiments.config.run_config import RunConfig
from experiments.datasets.dataset import Dataset
from experiments.evaluate.record import QueryRecord
from experiments.replay.build import session_for
from experiments.replay.subjects.prompt_record import VIEW_POSITIONS
from experiments.replay.subjects.prompt_session import PipelineSession, build_pipeline_session, rerank_stage_takes
from experiments.replay.subjects.subject import Subject


class PipelineSubject(Subject):
    """All eight stages, one prompt a query. A run is judged by the final selection; its views are the stages'."""

    views: ClassVar[Mapping[str, int]] = VIEW_POSITIONS

    def open(self, config: RunConfig) -> Dataset:
        session = _session_for(config)
        session.rerank_stage.forget_failures()
        return session.dataset

    def replay_shard(self, config: RunConfig, query_ids: Sequence[str]) -> list[QueryRecord]:
        session = _session_for(config)
        return [session.run(query_id) for query_id in query_ids]

    def label(self, config: RunConfig) -> str:
        depth = _session_for(config).pipeline.config.limits.n2_rerank_top_k
        kind = leaf(config, "rerank_stage")
        stage = f"{kind}, {policy_name(config)}" if "estimator" in rerank_stage_takes(config) else kind
        return f"pipeline, {stage}, N2 {depth}"

    def tags(self, config: RunConfig) -> dict[str, str]:
        idle = [group for group in ("estimator", "scheduler", "reranker") if group not in rerank_stage_takes(config)]
        llm = "off" if config["llm"] is None else str(config["llm"]["model"])
        return {"rerank_stage": leaf(config, "rerank_stage"), "llm": llm, **dict.fromkeys(idle, "none")}

    def compares_apart(self, config: RunConfig) -> bool:
        return session_for(config).compares_apart


@lru_cache(maxsize=2)
def _session_for(config: RunConfig) -> PipelineSession:
    return build_pipeline_session(config, session_for(config))
