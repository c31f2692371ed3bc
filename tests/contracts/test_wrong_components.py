"""The contracts catch components that answer nothing, otherwise each time they are made, or an earlier request, and
those that lie about what they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtune.core.interfaces import (
    BaseAssembler,
    BaseEmbedder,
    BaseFusion,
    BaseReformulator,
    BaseReranker,
    BaseRetriever,
    BaseScheduler,
    BaseSignal,
)
from ragtune.core.pool.items import RerankBatch
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.fusion.rrf import RRFFusion
from ragtune.retrievers.bm25 import BM25Retriever
from ragtune.testing import (
    AssemblerContract,
    EmbedderContract,
    FusionContract,
    ReformulatorContract,
    RerankerContract,
    RetrieverContract,
    SchedulerContract,
    SignalContract,
    make_context,
    small_corpus,
    small_pool_items,
)

SERIAL = count()


class Empty(BaseAssembler):
    def assemble(self, items: Any, context: Any) -> list[ScoredDocument]:
        return []


class Idle(BaseScheduler):
    def select_batch(self, pool: Any, budget: Any) -> None:
        return None


class Numbered:
    """Something that is another each time it is made, like one that forgot its seed."""

    def __init__(self) -> None:
        self.serial = next(SERIAL)


class Projection(Numbered, BaseEmbedder):
    name = "projection"

    def embed(self, texts: Sequence[str]) -> Any:
        return np.eye(1000, dtype=np.float32)[[self.serial] * len(texts)]


class Score(Numbered, BaseReranker):
    def rerank(self, items: Sequence[Any], context: Any, strategy: str) -> dict[str, float]:
        return {item.doc_id: 1 / (1 + self.serial) for item in items}


class Mixing(BaseReranker):
    """Scores the batches of others along with those of a request."""

    def rerank(self, items: Sequence[Any], context: Any, strategy: str) -> dict[str, float]:
        return {item.doc_id: 1 / len(items) for item in items}

    def rerank_many(self, batches: Sequence[RerankBatch]) -> list[Mapping[str, float] | Exception]:
        size = sum(len(batch.items) for batch in batches)
        return [{item.doc_id: 1 / size for item in batch.items} for batch in batches]


class Rewrite(Numbered, BaseReformulator):
    def generate(self, context: Any, first_round: Any) -> list[str]:
        return [f"rewrite {self.serial}"]


class Fusion(Numbered, BaseFusion):
    def fuse(self, lists: Mapping[str, Sequence[ScoredDocument]]) -> list[ScoredDocument]:
        return RRFFusion(k=1 + self.serial).fuse(lists)


class FirstQuery:
    """Something that keeps what it was asked first."""

    query = ""

    def first(self, context: RAGtuneContext) -> RAGtuneContext:
        self.query = self.query or context.query
        return make_context(self.query)


class Secretive(BaseSignal):
    """Reads a folder that it does not declare."""

    def __init__(self, folder: str = str(Path(__file__).parent)) -> None:
        self.files = sorted(Path(folder).iterdir())

    def values(self, context: RAGtuneContext, documents: Sequence[ScoredDocument]) -> Mapping[str, float]:
        return {}


class LateRetriever(FirstQuery, BaseRetriever):
    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        return BM25Retriever(small_corpus()).retrieve(self.first(context), top_k)


class LateScore(FirstQuery, BaseReranker):
    def rerank(self, items: Sequence[Any], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        return {item.doc_id: 1 / len(self.first(context).query) for item in items}


class LateRewrite(FirstQuery, BaseReformulator):
    def generate(self, context: RAGtuneContext, first_round: Any) -> list[str]:
        return [f"more on {self.first(context).query}"]


WRONG: dict[type, tuple[type, Callable[[Any], None]]] = {
    Empty: (
        AssemblerContract,
        lambda suite: suite.test_documents_of_the_pool_each_once_in_its_order_within_the_tokens(
            small_pool_items(), None
        ),
    ),
    Idle: (SchedulerContract, lambda suite: suite.test_something_is_proposed_where_nothing_is_limited()),
    Projection: (EmbedderContract, lambda suite: suite.test_is_deterministic(suite.make())),
    Score: (RerankerContract, lambda suite: suite.test_is_deterministic(suite.make(), small_pool_items())),
    Mixing: (
        RerankerContract,
        lambda suite: suite.test_batches_of_several_requests_are_scored_as_if_alone(suite.make(), small_pool_items()),
    ),
    Rewrite: (ReformulatorContract, lambda suite: suite.test_answers_the_same_twice(suite.make())),
    Fusion: (FusionContract, lambda suite: suite.test_answers_the_same_twice(suite.make())),
    Secretive: (SignalContract, lambda suite: suite.test_files_that_it_is_given_are_declared()),
    LateRetriever: (RetrieverContract, lambda suite: suite.test_an_earlier_request_is_not_noticed(suite.make())),
    LateScore: (
        RerankerContract,
        lambda suite: suite.test_an_earlier_request_is_not_noticed(suite.make(), small_pool_items()),
    ),
    LateRewrite: (ReformulatorContract, lambda suite: suite.test_an_earlier_request_is_not_noticed(suite.make())),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_component_is_caught(wrong: type) -> None:
    suite, check = WRONG[wrong]
    with pytest.raises(AssertionError):
        check(type("Suite", (suite,), {"make": lambda self: wrong()})())
