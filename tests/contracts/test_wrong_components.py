"""The contracts catch components that answer nothing, otherwise each time they are made, or an earlier request, and
those that do not declare what they read."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtune.core.interfaces import BaseEmbedder, BaseReranker, BaseRetriever, BaseScheduler, BaseSignal
from ragtune.core.pool.items import RerankBatch
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.retrievers.bm25 import BM25Retriever
from ragtune.testing import (
    EmbedderContract,
    RerankerContract,
    RetrieverContract,
    SchedulerContract,
    SignalContract,
    make_context,
    small_corpus,
    small_pool_items,
)

SERIAL = count()


class Idle(BaseScheduler):
    def select_batch(self, pool: Any, budget: Any) -> None:
        return None


class Unseeded(BaseEmbedder):
    """Another one each time it is made."""

    name = "unseeded"

    def __init__(self) -> None:
        self.serial = next(SERIAL)

    def embed(self, texts: Sequence[str]) -> Any:
        return np.eye(1000, dtype=np.float32)[[self.serial] * len(texts)]


class Mixing(BaseReranker):
    """Scores the batches of others along with those of a request."""

    def rerank(self, items: Sequence[Any], context: Any, strategy: str) -> dict[str, float]:
        return {item.doc_id: 1 / len(items) for item in items}

    def rerank_many(self, batches: Sequence[RerankBatch]) -> list[Mapping[str, float] | Exception]:
        size = sum(len(batch.items) for batch in batches)
        return [{item.doc_id: 1 / size for item in batch.items} for batch in batches]


class Secretive(BaseSignal):
    """Reads a folder that it does not declare."""

    def __init__(self, folder: str = str(Path(__file__).parent)) -> None:
        self.files = sorted(Path(folder).iterdir())

    def values(self, context: RAGtuneContext, documents: Sequence[ScoredDocument]) -> Mapping[str, float]:
        return {}


class Late(BaseRetriever):
    """Answers the query that it was asked first."""

    query = ""

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        self.query = self.query or context.query
        return BM25Retriever(small_corpus()).retrieve(make_context(self.query), top_k)


WRONG: dict[type, tuple[type, Callable[[Any], None]]] = {
    Idle: (SchedulerContract, lambda suite: suite.test_something_is_proposed_where_nothing_is_limited()),
    Unseeded: (EmbedderContract, lambda suite: suite.test_is_deterministic(suite.make())),
    Mixing: (
        RerankerContract,
        lambda suite: suite.test_batches_of_several_requests_are_scored_as_if_alone(suite.make(), small_pool_items()),
    ),
    Secretive: (SignalContract, lambda suite: suite.test_files_that_it_is_given_are_declared()),
    Late: (RetrieverContract, lambda suite: suite.test_an_earlier_request_is_not_noticed(suite.make())),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_component_is_caught(wrong: type) -> None:
    suite, check = WRONG[wrong]
    with pytest.raises(AssertionError):
        check(type("Suite", (suite,), {"make": lambda self: wrong()})())
