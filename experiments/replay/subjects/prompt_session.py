"""Replays a collection's queries through the SuperPrompt pipeline."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from experiments.config.names import leaf
from experiments.config.targets import require_allowed
from experiments.datasets.dataset import Dataset
from experiments.evaluate.record import QueryRecord
from experiments.replay.build import Session
from experiments.replay.component import component
from experiments.replay.subjects.prompt_record import refusal_record, replay_record
from ragtune.core.errors import ConfigError, InputError, StageError
from ragtune.core.request.clock import VirtualClock
from ragtune.superprompt import Pipeline, SuperPrompt
from ragtune.superprompt.build import build_pipeline
from ragtune.superprompt.reranking.base import BaseRerankStage
from ragtune.superprompt.reranking.documents import DocumentRerankStage
from ragtune.superprompt.retrievers.superprompt import SuperPromptRetriever
from ragtune.superprompt.stages.base import ORDER, BaseStage, FailedStageError
from ragtune.superprompt.stages.reranker import ReRanker


@dataclass(frozen=True)
class PipelineSession:
    """Everything that replaying a query needs.

    Attributes:
        dataset: the collection.
        pipeline: all stages; the ReRanker's rerank stage is put in query by query.
        rerank_stage: how the ReRanker stage spends, asked about documents.
    """

    dataset: Dataset
    pipeline: Pipeline
    rerank_stage: BaseRerankStage

    def run(self, query_id: str) -> QueryRecord:
        """One query through all stages. A prompt that A0 refuses is a record without documents.

        Raises:
            StageError: if a stage fails on bad input, naming the query; what else goes wrong is raised as it is.
        """
        documents = DocumentRerankStage(self.rerank_stage, self.dataset.corpus, query_id)
        stages = [ReRanker(documents) if name == ReRanker.name else stage for name, stage in self._stages]
        pipeline = Pipeline(stages, self.pipeline.config, VirtualClock())
        try:
            done = pipeline.run_all(SuperPrompt.raw(self.dataset.queries[query_id]))
        except FailedStageError as error:
            cause = error.__cause__
            if error.stage == ORDER[0] and isinstance(cause, StageError):
                return refusal_record(query_id, error)
            if cause is None or isinstance(cause, InputError):
                raise StageError(f"query {query_id!r}, stage {error.stage}: {cause or error}") from error
            raise cause from None
        return replay_record(query_id, done, documents.outcome)

    @cached_property
    def _stages(self) -> list[tuple[str, BaseStage]]:
        return list(self.pipeline.stages.items())


def build_pipeline_session(config: Mapping[str, Any], session: Session) -> PipelineSession:
    """The pipeline of a resolved configuration of ``conf/pipeline.yaml``.

    Args:
        config: plain data.
        session: the session of the same configuration, whose components the rerank stage uses.

    Raises:
        ConfigError: on a choice that the pipeline has no place for.
    """
    if "rerank_stage" not in config:
        raise ConfigError("subject=pipeline has groups of its own: use ragtune pipeline")
    if config["signal"]:
        raise ConfigError(f"signal={','.join(config['signal'])}: candidates are what Retrieval found: allowed is none")
    retriever = session.controller.rounds.retriever
    if not isinstance(retriever, SuperPromptRetriever):
        raise ConfigError(
            f"retriever={leaf(config, 'retriever')}: the pipeline has a Retrieval of its own: allowed is superprompt"
        )
    _require_followed(config)
    first, *others = session.rerankers
    resources = {
        **session.parts,
        "reranker": session.rerankers[first],
        "rerankers": {name: session.rerankers[name] for name in others},
        "ordering": session.controller.assembler.ordering,
        "seed": config["seed"],
    }
    rerank_stage: BaseRerankStage = component(config, "rerank_stage", resources)
    client = None if config["llm"] is None else component(config, "llm")
    pipeline = build_pipeline(retriever.config, memory=retriever.memory, rerank_stage=None, client=client)
    return PipelineSession(session.dataset, pipeline, rerank_stage)


def rerank_stage_takes(config: Mapping[str, Any]) -> set[str]:
    """Names of what the configured rerank stage is made from, e.g. ``estimator``, ``budget``."""
    from hydra.utils import get_class

    require_allowed(config["rerank_stage"], "rerank_stage")
    return set(inspect.signature(get_class(config["rerank_stage"]["_target_"])).parameters)


def _require_followed(config: Mapping[str, Any]) -> None:
    """Refuse what would be ignored."""
    for group, allowed in (("reformulator", "identity"), ("expander", "none")):
        if leaf(config, group) != allowed:
            raise ConfigError(
                f"{group}={leaf(config, group)}: candidates are what Retrieval found: allowed is {allowed}"
            )
    if config["clock"] != "auto":
        raise ConfigError(f"clock={config['clock']!r}: the pipeline takes the reranker's: allowed is auto")
    taken, stage = rerank_stage_takes(config), leaf(config, "rerank_stage")
    limits = [
        f"budget.{key}={value}"
        for key, value in config["budget"].items()
        if key.startswith("max_") and value is not None
    ]
    if limits and "budget" not in taken:
        raise ConfigError(f"{', '.join(limits)}: rerank_stage={stage} has no budget: allowed is budget=unlimited")
    if config["rerankers"] and "rerankers" not in taken:
        raise ConfigError(f"rerankers={', '.join(config['rerankers'])}: rerank_stage={stage} takes no further ones")
