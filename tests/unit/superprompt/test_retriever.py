"""retriever=superprompt: the pipeline's own Retrieval as a first stage."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from superprompt_agents import chunk_memory

from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus
from ragtune.superprompt import SuperPrompt
from ragtune.superprompt.pipeline import build_pipeline
from ragtune.superprompt.retriever import SuperPromptRetriever

MakeContext = Callable[..., RAGtuneContext]

PROMPT = "## Task\nWhy does my honey bread stay moist?\n\n## Context\nIt rose overnight.\n\n## Format\nA ship's log"


def found(retriever: SuperPromptRetriever, context: RAGtuneContext, top_k: int = 100) -> list[tuple[str, float]]:
    return [(doc.id, doc.score) for doc in retriever.retrieve(context, top_k)]


def test_it_is_the_view_of_the_whole_pipeline(corpus: Corpus, make_context: MakeContext) -> None:
    texts = {doc.id: doc.content for doc in corpus}
    pipeline = build_pipeline(memory=chunk_memory(texts), rerank_stage=None)
    done = pipeline.run_all(SuperPrompt.raw(PROMPT))
    scores = done.extras["retrieval"]["scores"]
    expected = [(chunk_id.removesuffix("#0"), scores[chunk_id]) for chunk_id in done.views_by_stage["retrieval"]]
    assert found(SuperPromptRetriever(corpus), make_context(PROMPT)) == expected
    assert expected[0][0] == "bread-3"


def test_headers_of_the_query_are_read_as_headers(corpus: Corpus, make_context: MakeContext) -> None:
    ids = [doc_id for doc_id, _ in found(SuperPromptRetriever(corpus), make_context(PROMPT))]
    assert "ship-1" not in ids  # the format is no part of what is searched for


@pytest.mark.parametrize(("query", "why"), [("", "the prompt is empty"), ("Context: honey", "no task")])
def test_a_prompt_that_is_refused_finds_nothing_and_the_trace_says_why(
    corpus: Corpus, make_context: MakeContext, query: str, why: str
) -> None:
    context = make_context(query)
    assert SuperPromptRetriever(corpus).retrieve(context, 10) == []
    [event] = context.trace.find("refuse", "retriever")
    assert why in event.details["reason"]


def test_no_more_than_n1_documents_are_found(corpus: Corpus, make_context: MakeContext) -> None:
    context = make_context("heart bread ship honey star")
    everything = found(SuperPromptRetriever(corpus), context)
    assert len(everything) > 3
    few = SuperPromptRetriever(corpus, limits={"N1_RETR_MAX_CANDIDATES": 3, "N0_QUERY_PIECES": None})
    assert found(few, context) == everything[:3]
