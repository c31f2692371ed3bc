from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from ragtune.core.errors import ConfigError, MissingExtraError
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus, Document
from ragtune.data.text import terms
from ragtune.retrievers.bm25 import BM25Retriever
from ragtune.retrievers.rank_bm25 import RankBM25Retriever

MakeContext = Callable[..., RAGtuneContext]
QUERIES = ["heart pressure", "honey bread", "tea leaves leaves", "knead the dough", "how do ships anchor", "zzyzx"]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4)])
def test_equals_robertson_bm25_times_k1_plus_1_where_no_term_is_in_over_half_of_the_documents(
    corpus: Corpus, make_context: MakeContext, query: str, k1: float, b: float
) -> None:
    assert max(_df(corpus).values()) <= len(corpus) / 2
    reference = RankBM25Retriever(corpus, k1=k1, b=b).retrieve(make_context(query), 100)
    fast = BM25Retriever(corpus, k1=k1, b=b, method="robertson").retrieve(make_context(query), 100)
    assert [doc.id for doc in fast] == [doc.id for doc in reference]
    assert [doc.score * (k1 + 1) for doc in fast] == pytest.approx([doc.score for doc in reference], rel=1e-6)


def test_differs_where_a_term_is_in_over_half_of_the_documents(make_context: MakeContext) -> None:
    corpus = Corpus(Document(id=str(i), text=f"common word{i} other{i}") for i in range(5))
    assert BM25Retriever(corpus, method="robertson").retrieve(make_context("common"), 10) == []
    assert len(RankBM25Retriever(corpus).retrieve(make_context("common"), 10)) == 5


def test_a_collection_without_terms_answers_nothing(make_context: MakeContext) -> None:
    corpus = Corpus([Document(id="a", text=""), Document(id="b", text="?")])
    assert RankBM25Retriever(corpus).retrieve(make_context("anything"), 5) == []


@pytest.mark.parametrize(("argument", "value"), [("k1", -1.0), ("b", 2.0), ("epsilon", -0.1)])
def test_bad_settings_are_refused_by_quoting_them(corpus: Corpus, argument: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{argument}={value!r}: allowed"):
        RankBM25Retriever(corpus, **{argument: value})


def _df(corpus: Corpus) -> dict[str, int]:
    vocabulary = {term for content in corpus.contents for term in terms(content)}
    return {term: sum(term in terms(content) for content in corpus.contents) for term in vocabulary}


def test_without_its_package_the_extra_is_named(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rank_bm25", None)
    with pytest.raises(MissingExtraError, match="retriever=rank_bm25 needs the extra 'experiments'"):
        RankBM25Retriever(corpus)
