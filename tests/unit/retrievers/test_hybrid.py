from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus
from ragtune.fusion.concat import ConcatFusion
from ragtune.fusion.rrf import RRFFusion
from ragtune.retrievers.bm25 import BM25Retriever
from ragtune.retrievers.hybrid import HybridRetriever

MakeContext = Callable[..., RAGtuneContext]


class Fixed(BaseRetriever):
    """Returns the same list whatever is asked, and remembers how deep."""

    def __init__(self, corpus: Corpus, ids: list[str]) -> None:
        self.documents = [corpus.scored(doc_id, 1.0 / rank) for rank, doc_id in enumerate(ids, start=1)]
        self.asked: list[int] = []

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        self.asked.append(top_k)
        return self.documents[:top_k]


def test_provenance_names_the_retrievers_that_found_a_document(corpus: Corpus, make_context: MakeContext) -> None:
    retriever = HybridRetriever(
        corpus,
        {"bm25": BM25Retriever, "fixed": lambda c: Fixed(c, ["ship-2", "tea-1"])},
        RRFFusion(),
    )
    found = {doc.id: doc for doc in retriever.retrieve(make_context("ships"), 10)}
    assert set(found) == {"ship-1", "ship-2", "tea-1"}
    assert set(found["ship-2"].sources) == {"bm25", "fixed"}
    assert found["tea-1"].sources == {"fixed": 0.5}


def test_agreement_wins_under_reciprocal_rank_fusion(corpus: Corpus, make_context: MakeContext) -> None:
    members = {"a": ["tea-1", "star-1", "ship-1"], "b": ["heart-1", "star-1", "ship-2"]}
    makers = {name: partial(Fixed, ids=ids) for name, ids in members.items()}
    retriever = HybridRetriever(corpus, makers, RRFFusion())
    assert retriever.retrieve(make_context("any"), 1)[0].id == "star-1"


def test_lists_are_taken_as_deep_as_set_or_as_asked(corpus: Corpus, make_context: MakeContext) -> None:
    member = Fixed(corpus, corpus.doc_ids)
    retriever = HybridRetriever(corpus, {"only": lambda c: member}, ConcatFusion(), depth_each=5)
    assert len(retriever.retrieve(make_context("any"), 2)) == 2
    assert len(retriever.retrieve(make_context("any"), 8)) == 8
    assert member.asked == [5, 8]


def test_bad_settings_are_refused_by_quoting_them(corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match="name at least one"):
        HybridRetriever(corpus, {}, RRFFusion())
    with pytest.raises(ConfigError, match="depth_each=0: allowed"):
        HybridRetriever(corpus, {"bm25": BM25Retriever}, RRFFusion(), depth_each=0)
