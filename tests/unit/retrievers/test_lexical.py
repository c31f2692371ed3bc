"""Retrieval by words."""

import logging
import math
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from rank_bm25 import BM25Okapi

import ragtune.retrievers.bm25 as bm25
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus, Document
from ragtune.data.text import terms
from ragtune.retrievers.bm25 import BM25Retriever
from ragtune.retrievers.in_memory import InMemoryRetriever

MakeContext = Callable[..., RAGtuneContext]


def _corpus(*texts: str) -> Corpus:
    return Corpus(Document(id=f"d{i}", text=text) for i, text in enumerate(texts))


def test_scores_are_lucenes_bm25(make_context: MakeContext) -> None:
    corpus = _corpus("apple banana banana", "apple cherry", "cherry date elder fig")
    found = BM25Retriever(corpus, k1=1.2, b=0.6).retrieve(make_context("bananas"), 5)
    idf = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    tf = 2 / (2 + 1.2 * (1 - 0.6 + 0.6 * 3 / 3))
    assert [doc.id for doc in found] == ["d0"]
    assert found[0].score == pytest.approx(idf * tf, rel=1e-6)


def test_documents_without_a_query_term_are_not_returned(corpus: Corpus, make_context: MakeContext) -> None:
    found = BM25Retriever(corpus).retrieve(make_context("ships zzyzx"), 100)
    assert {doc.id for doc in found} == {"ship-1", "ship-2"}


def test_inflections_meet_at_their_stem(corpus: Corpus, make_context: MakeContext) -> None:
    assert BM25Retriever(corpus).retrieve(make_context("straining"), 1)[0].id == "heart-3"


def test_a_repeated_query_term_counts_as_often_as_it_is_repeated(corpus: Corpus, make_context: MakeContext) -> None:
    retriever = BM25Retriever(corpus)
    once, thrice = (retriever.retrieve(make_context(q), 1)[0].score for q in ("honey", "honey honey honey"))
    assert thrice == pytest.approx(3 * once, rel=1e-6)


@pytest.mark.parametrize("method", bm25.METHODS)
def test_an_index_built_in_pieces_is_the_one_that_bm25s_builds_at_once(
    method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import bm25s

    caplog.set_level(logging.INFO, "ragtune")

    rng = Random(3)
    texts = [" ".join(f"w{int(40 * rng.random() ** 3)}" for _ in range(rng.randrange(12))) for _ in range(60)]
    whole = bm25s.BM25(k1=0.9, b=0.4, method=method)
    whole.index([terms(text) for text in texts], show_progress=False)
    monkeypatch.setattr(bm25, "_TOKENS", 25)  # less than a tenth of them at once
    for index in (BM25Retriever(_corpus(*texts), 0.9, 0.4, method)._index for _ in range(2)):  # built, then loaded
        assert {*index.vocab_dict} == {*whole.vocab_dict} - {""}
        for term in index.vocab_dict:
            got, expected = (each.get_scores([term]) for each in (index, whole))
            assert got.tolist() == expected.tolist()
    assert re.search(r"bm25: 5\d documents read, \d+ terms", caplog.text)


@pytest.mark.parametrize("texts", [("", "?"), ("the of", "")])
def test_a_collection_without_terms_answers_nothing(texts: tuple[str, ...], make_context: MakeContext) -> None:
    assert BM25Retriever(_corpus(*texts)).retrieve(make_context("anything at all"), 5) == []


def test_the_index_is_built_once_for_a_corpus_and_settings(
    corpus: Corpus, private_cache: Path, make_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = BM25Retriever(corpus).retrieve(make_context("heart"), 5)
    monkeypatch.setattr(bm25, "terms", _only_queries)
    assert BM25Retriever(corpus).retrieve(make_context("heart"), 5) == before
    with pytest.raises(AssertionError, match="analysed a document"):
        BM25Retriever(corpus, k1=0.9)
    with pytest.raises(AssertionError, match="analysed a document"):
        BM25Retriever(_corpus("another corpus"))


def _only_queries(text: str) -> list[str]:
    assert text == "heart", "analysed a document"
    return ["heart"]


@pytest.mark.parametrize("query", ["heart pressure", "tea leaves leaves", "how do ships anchor"])
@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4)])
def test_robertsons_bm25_is_that_of_rank_bm25(
    corpus: Corpus, make_context: MakeContext, query: str, k1: float, b: float
) -> None:
    scores = BM25Okapi(list(map(terms, corpus.contents)), k1=k1, b=b).get_scores(terms(query))
    found = BM25Retriever(corpus, k1=k1, b=b, method="robertson").retrieve(make_context(query), 100)
    expected = {doc_id: score for doc_id, score in zip(corpus.doc_ids, scores.tolist(), strict=True) if score}
    assert {doc.id: doc.score * (k1 + 1) for doc in found} == pytest.approx(expected, rel=1e-6)


POOL = [ScoredDocument(id=f"doc_{i}", content=f"text {i}", token_count=10) for i in range(100)]


def _ids(found: list[ScoredDocument]) -> list[str]:
    return [doc.id for doc in found]


def test_finds_substrings_whatever_the_case(make_context: MakeContext) -> None:
    assert _ids(InMemoryRetriever(POOL).retrieve(make_context("TEXT 7"), 5)) == [
        "doc_7",
        *(f"doc_7{i}" for i in range(4)),
    ]


def test_falls_back_to_everything_in_order(make_context: MakeContext) -> None:
    assert _ids(InMemoryRetriever(POOL).retrieve(make_context("no such words"), 3)) == ["doc_0", "doc_1", "doc_2"]
