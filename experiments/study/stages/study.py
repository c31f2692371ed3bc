"""Runs a collection's queries with the language model in one stage after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.datasets.dataset import Dataset
from experiments.study.stages.support import (
    answer_support,
    bullet_precision,
    selection_precision,
    selection_recall,
)
from ragtune.core.errors import CacheMissError, LLMError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.request.clock import VirtualClock
from ragtune.llm.client import LLMClient
from ragtune.superprompt import SuperPrompt
from ragtune.superprompt.answering import Answerer
from ragtune.superprompt.build import build_pipeline
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.options.model import AGENT_STAGES, AgentStageName, PromptOptions
from ragtune.superprompt.reranking.documents import DocumentRerankStage
from ragtune.superprompt.reranking.top import TopRerankStage

MEASURES = ("attachments", "precision", "recall", "bullets", "support", "grounded")
NONE, ALL = "none", "all"


@dataclass(frozen=True)
class Outcome:
    """What came of one query under one choice of stages.

    Attributes:
        variant: which stages asked the model: ``none``, the name of one, or ``all``.
        query_id: id of the query.
        values: by measure; None where the measure says nothing about this query.
        asked: stages that put a question to the model.
        failed: stages whose answer could not be used, so that their rule stood in; with ``answer`` for the answer.
        calls: calls charged by the stages, repairs among them, without the answer's.
        tokens: tokens charged by the stages, without the answer's.
    """

    variant: str
    query_id: str
    values: Mapping[str, float | None]
    asked: tuple[str, ...]
    failed: tuple[str, ...]
    calls: int
    tokens: int


def variants() -> dict[str, tuple[AgentStageName, ...]]:
    """The choices that are compared: no stage, each by itself, all.

    A0 is none of them: it asks about unknown headers, and queries have no headers.
    """
    return {NONE: (), **{stage: (stage,) for stage in AGENT_STAGES[1:]}, ALL: tuple(AGENT_STAGES)}


def run_stages(
    dataset: Dataset,
    options: PromptOptions,
    client: LLMClient,
    reranker: BaseReranker | None = None,
    told: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """Every judged query under every choice; the final prompt is always answered by the same model.

    Args:
        dataset: a judged collection; one chunk a document, so that views can be measured.
        options: the pipeline's options; whose stages ask is varied here.
        client: client of the language model.
        reranker: scores the top N2 of every query; None keeps Retrieval's order.
        told: function that is called with every outcome.

    Raises:
        LLMError: if the record that is replayed lacks a call of a stage or an answer.
    """
    memory = DocumentMemory.from_corpus(dataset.corpus)
    memory.prepare()
    outcomes = []
    for query_id in dataset.judged:
        relevant = [doc_id for doc_id, grade in dataset.qrels[query_id].items() if grade > 0]
        for variant, stages in variants().items():
            stage = None
            if reranker is not None:
                stage = DocumentRerankStage(TopRerankStage(reranker), dataset.corpus, query_id)
            pipeline = build_pipeline(
                options,
                memory=memory,
                rerank_stage=stage,
                client=client,
                agents=options.agents,
                a2_passes=options.a2_passes,
                asking=stages,
                clock=VirtualClock(),
            )
            done = pipeline.run_all(SuperPrompt.raw(dataset.queries[query_id]))
            outcome = _outcome(variant, query_id, done, _answer(client, done), dataset, relevant)
            outcomes.append(outcome)
            if told is not None:
                told(outcome)
    return outcomes


def by_variant(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of every choice of stages, in their order."""
    grouped: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        grouped.setdefault(outcome.variant, []).append(outcome)
    return grouped


def known(outcomes: Iterable[Outcome], measure: str) -> dict[str, float]:
    """A measure by query id, where it says something about the query."""
    return {one.query_id: value for one in outcomes if (value := one.values[measure]) is not None}


def _answer(client: LLMClient, done: SuperPrompt) -> str | None:
    """The model's answer; None where it gave none that can be used. An incomplete record is bad input, not that."""
    try:
        return Answerer(client).answer(done).text
    except CacheMissError:
        raise
    except LLMError:
        return None


def _outcome(
    variant: str, query_id: str, done: SuperPrompt, answer: str | None, dataset: Dataset, relevant: Sequence[str]
) -> Outcome:
    attached = [chunk.snippet for chunk in done.chunks(done.final_selection_ids)]
    llm: Mapping[str, Mapping[str, Any]] = done.extras.get("llm", {})
    failed = [name for name, record in llm.items() if record["reason"] == "llm_failure"]
    said = answer or ""
    return Outcome(
        variant=variant,
        query_id=query_id,
        values={
            "attachments": float(len(attached)),
            "precision": selection_precision(done, relevant),
            "recall": selection_recall(done, relevant),
            "bullets": bullet_precision(done, relevant),
            "support": answer_support(said, [dataset.corpus[doc_id].content for doc_id in relevant]),
            "grounded": answer_support(said, attached),
        },
        asked=tuple(name for name, record in llm.items() if record["used"] or name in failed),
        failed=(*failed, *(["answer"] if answer is None else [])),
        calls=_charged(done, "calls"),
        tokens=_charged(done, "tokens"),
    )


def _charged(done: SuperPrompt, resource: str) -> int:
    """What the stages that may ask a model were charged: a reranker's batches are no calls of the model."""
    return sum(bill["charged"][resource] for bill in done.extras["costs"] if bill["stage"] in AGENT_STAGES)
