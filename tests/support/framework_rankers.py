"""Ranks by each framework's adapter, and gives its answer in one form."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from overlap import QUERY, TEXTS, overlap

BUDGET: dict[str, Any] = {"docs": 6, "batch_size": 2}
SCORES = [3.0, 9.0, 2.0, 5.0, 8.0, 7.0, 6.0, 1.0]
VECTORS = [[float(i % 3), float(i % 2), 1.0] for i in range(len(TEXTS))]

Found = list[tuple[str, float | None]]
"""Texts, best first, with the model's score of each; None where its score is marked as an estimate."""


def own(score: float | None, estimated: Any) -> float | None:
    assert estimated in (True, False)
    assert score is not None
    return None if estimated else score


def columns(*given: Sequence[Any] | None) -> list[Sequence[Any]]:
    return [column if column is not None else [None] * len(TEXTS) for column in given]


def metadata_of(clicks: Sequence[Any] | None) -> list[dict[str, Any]]:
    return [{} if value is None else {"clicks": value} for value in columns(clicks)[0]]


def by_pyterrier(
    make: Callable[..., Any], texts: Sequence[str], scores: Any = None, vectors: Any = None, clicks: Any = None
) -> Found:
    import pandas as pd

    frame = pd.DataFrame({"qid": "q", "query": QUERY, "docno": [f"d{i}" for i in range(len(texts))], "text": texts})
    for name, column in (("score", scores), ("doc_vec", vectors), ("clicks", clicks)):
        if column is not None:
            frame[name] = list(column)
    ranked = make().transform(frame)
    assert ranked["rank"].tolist() == list(range(len(ranked)))
    assert ranked["score"].is_monotonic_decreasing
    columns_ = zip(ranked["text"], ranked["reranker_score"], ranked["estimated"], strict=True)
    return [(text, own(score, mark)) for text, score, mark in columns_]


def by_langchain(
    make: Callable[..., Any], texts: Sequence[str], scores: Any = None, vectors: Any = None, clicks: Any = None
) -> Found:
    from langchain_core.documents import Document

    assert vectors is None, "LangChain's documents carry none"
    first = [{}] * len(texts) if scores is None else [{"relevance_score": score} for score in scores]
    further = zip(texts, first, metadata_of(clicks), strict=False)
    documents = [Document(text, metadata=scored | clicked) for text, scored, clicked in further]
    ranked = make().compress_documents(documents, QUERY)
    return [(one.page_content, own(one.metadata["relevance_score"], one.metadata["estimated"])) for one in ranked]


def by_llamaindex(
    make: Callable[..., Any], texts: Sequence[str], scores: Any = None, vectors: Any = None, clicks: Any = None
) -> Found:
    from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

    scores, vectors = columns(scores, vectors)
    given = zip(texts, scores, vectors, metadata_of(clicks), strict=False)
    nodes = [
        NodeWithScore(
            node=TextNode(text=text, embedding=vector, metadata=metadata, excluded_embed_metadata_keys=["clicks"]),
            score=score,
        )
        for text, score, vector, metadata in given
    ]
    found = make().postprocess_nodes(nodes, query_str=QUERY)
    assert all(
        "estimated" not in one.node.get_content(mode)
        for one in found
        for mode in (MetadataMode.EMBED, MetadataMode.LLM)
    )
    return [(one.text, own(one.score, one.metadata["estimated"])) for one in found]


def by_haystack(
    make: Callable[..., Any], texts: Sequence[str], scores: Any = None, vectors: Any = None, clicks: Any = None
) -> Found:
    from haystack import Document

    scores, vectors = columns(scores, vectors)
    given = zip(texts, scores, vectors, metadata_of(clicks), strict=False)
    documents = [
        Document(content=text, score=score, embedding=vector, meta=meta) for text, score, vector, meta in given
    ]
    ranked = make().run(query=QUERY, documents=documents)["documents"]
    return [(document.content, own(document.score, document.meta["estimated"])) for document in ranked]


def by_sentence_transformers(
    make: Callable[..., Any], texts: Sequence[str], scores: Any = None, vectors: Any = None, clicks: Any = None
) -> Found:
    given = {} if clicks is None else {"signals": {"clicks": clicks}}
    ranked = make().rank(QUERY, texts, return_documents=True, scores=scores, vectors=vectors, **given)
    assert [hit["text"] for hit in ranked] == [texts[hit["corpus_id"]] for hit in ranked]
    return [(hit["text"], own(hit["score"], hit["estimated"])) for hit in ranked]


CLASSES = {
    "pyterrier": ("BudgetedTransformer", by_pyterrier),
    "langchain": ("BudgetedCompressor", by_langchain),
    "llamaindex": ("BudgetedPostprocessor", by_llamaindex),
    "haystack": ("BudgetedRanker", by_haystack),
    "sentence_transformers": ("BudgetedCrossEncoder", by_sentence_transformers),
}


def adapter(framework: str) -> Any:
    return getattr(importlib.import_module(f"ragtune.frameworks.{framework}"), CLASSES[framework][0])


def ranked_by(framework: str, *arguments: Any, **options: Any) -> Found:
    return CLASSES[framework][1](lambda: adapter(framework)(overlap, **BUDGET, **options), *arguments)
