"""What the facade is given beside the query: documents, first stages, vectors and signals, in every form."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from overlap import QUERY, TEXTS, Spy, check, make, overlap, seen

from ragtune import BudgetedReranker, Document
from ragtune.core.errors import InputError
from ragtune.facade.ranking import Ranking
from ragtune.facade.reranker import Job


@pytest.mark.parametrize(
    "documents",
    [
        TEXTS,
        tuple(TEXTS),
        [{"text": text, "page": 3} for text in TEXTS],
        [{"title": text.split()[0], "text": " ".join(text.split()[1:])} for text in TEXTS],
        [Document(id=f"d{i}", text=text) for i, text in enumerate(TEXTS)],
    ],
    ids=["texts", "a tuple", "dicts", "dicts with titles", "Documents"],
)
def test_documents_of_every_shape_are_ranked_alike_and_given_back_as_they_came(documents: Any) -> None:
    ranking = make().rank(QUERY, documents)
    assert seen(ranking) == seen(make().rank(QUERY, TEXTS))
    assert all(document.document is documents[document.index] for document in ranking)
    assert [document.index for document in ranking if document.reranked] == [
        document.index for document in ranking if document.reranker_score == overlap(QUERY, [TEXTS[document.index]])[0]
    ]


NAN = float("nan")


def first_read(scores: Any) -> list[int]:
    spy = Spy()
    make(spy, policy="fixed_depth", docs=3).rank(QUERY, TEXTS, scores)
    return [TEXTS.index(text) for text in spy.calls[0]]


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        (None, [0, 1, 2]),
        ([1, 2, 3, 4, 5, 6, 7, 8], [7, 6, 5]),
        (np.arange(8.0), [7, 6, 5]),
        ([1.0] * 8, [0, 1, 2]),
        ([None, 2, None, NAN, 5, None, None, None], [4, 1, 0]),
        ({"bm25": [8, 7, 6, 0, 0, 0, 0, 0], "dense": [None, None, 9, None, None, None, None, 8]}, [2, 7, 0]),
        ({"bm25": [None] * 8, "dense": [0, 1, 2, 3, 4, 5, 6, 7]}, [7, 6, 5]),
    ],
)
def test_scores_say_what_the_first_stage_thinks(scores: Any, best: list[int]) -> None:
    assert first_read(scores) == best
    check(make().rank(QUERY, TEXTS, scores), len(TEXTS))


@pytest.mark.parametrize("scores", [[-1.0, None, -2.0], {"x": [-1.0, None, -2.0], "y": [-3.0, None, -4.0]}])
def test_what_no_stage_found_is_no_better_than_what_one_found_whatever_the_sign_of_its_scores(scores: Any) -> None:
    read: list[str] = []

    def equal(query: str, texts: list[str]) -> list[float]:
        read.extend(texts)
        return [0.5] * len(texts)

    BudgetedReranker(equal, docs=2, batch_size=1).rank("query", ["tea", "ship", "bread"], scores)
    assert read == ["tea", "bread"]


@pytest.mark.parametrize("kind", [list, np.array])
def test_vectors_say_which_documents_are_alike(kind: Any) -> None:
    alike = kind([[1.0, 0.0] if i in (0, 7) else [0.0, 1.0 + i] for i in range(8)])
    ranking = make(lambda query, texts: [float(text == TEXTS[0]) for text in texts], docs=2).rank(
        QUERY, TEXTS, vectors=alike
    )
    assert [document.index for document in ranking][:2] == [0, 7]
    assert not ranking[1].reranked


def order_by(signals: Any = None, **given: Any) -> list[int]:
    spy = Spy()
    make(spy, policy="fixed_depth", docs=len(TEXTS)).rank(QUERY, TEXTS, signals=signals, **given)
    return [TEXTS.index(text) for text in spy.calls[0]]


def test_a_signal_is_evidence_beside_the_order_that_was_given() -> None:
    recency = [2001.0, 2002.0, 2003.0, 2004.0, 2005.0, 2006.0, 2007.0, 2031.0]
    assert order_by({"recency": recency})[:2] == [0, 7]
    assert order_by({"recency": recency}, scores=[0, 1, 2, 3, 4, 5, 6, 7])[:2] == [7, 6]
    assert seen(make().rank(QUERY, TEXTS, signals={"recency": recency})) == seen(
        make().rank_many([Job(QUERY, TEXTS, signals={"recency": recency})])[0]
    )


def test_the_querys_vector_speaks_for_the_documents_near_it() -> None:
    vectors = [[1.0, float(i)] for i in range(8)]
    cosines = [1.0 / np.hypot(1.0, i) for i in range(8)]
    near = make().rank(QUERY, TEXTS, vectors=vectors, query_vector=[3.0, 0.0])
    assert seen(near) == seen(make().rank(QUERY, TEXTS, vectors=vectors, signals={"vectors": np.round(cosines, 6)}))
    assert order_by(vectors=vectors, query_vector=np.array([0.0, 2.0]))[:2] == [0, 7]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"documents": "bread"}, "documents of type str"),
    ({"documents": {"text": "bread"}}, "documents of type dict"),
    ({"documents": ["bread", None]}, "document 1 is None"),
    ({"documents": [{"title": "bread"}]}, r"document 0 is \{'title': 'bread'\}"),
    ({"documents": [{"title": 3, "text": "bread"}]}, "document 0 is"),
    ({"scores": [1.0]}, "1 scores of 'original' for 8 documents"),
    ({"scores": {"bm25": [1.0] * 8, "dense": [1.0] * 9}}, "9 scores of 'dense' for 8 documents"),
    ({"scores": ["high"] * 8}, "scores of 'original' are"),
    ({"scores": 7}, "scores of 'original' are 7"),
    ({"scores": [float("inf")] * 8}, "hold an infinite number"),
    ({"scores": [10**400] * 8}, "scores of 'original' are"),
    ({"scores": "87654321"}, "scores of 'original' are '87654321': allowed is a list of numbers"),
    ({"scores": np.ones((8, 1))}, r"scores of 'original' are array\(\[\[1.\], \[1.\]"),
    ({"vectors": [[1.0]] * 7}, "7 vectors for 8 documents"),
    ({"vectors": [[1.0]] * 7 + [[1.0, 2.0]]}, r"not finite numbers of one length \(vector 7 has 2, vector 0 has 1\)"),
    ({"vectors": [[1.0]] * 7 + [[NAN]]}, r"not finite numbers of one length \(vector 7 is \[nan\]\)"),
    ({"vectors": [["x"]] * 8}, r"not finite numbers of one length \(vector 0 is \['x'\]\)"),
    ({"vectors": 8}, "vectors"),
    ({"signals": {"clicks": [1.0]}}, "1 values of signal 'clicks' for 8 documents"),
    ({"signals": {"clicks": [1.0] * 7 + [NAN]}}, "signal 'clicks': value nan of document 7"),
    ({"signals": {"clicks": [1.0] * 7 + [float("inf")]}}, "values of signal 'clicks' hold an infinite number"),
    ({"signals": {"clicks": ["many"] * 8}}, "values of signal 'clicks' are"),
    ({"signals": [1.0] * 8}, "signals=.*: allowed is a dict"),
    ({"signals": {"original": list(range(8))}}, "signal 'original' has the name of a first stage"),
    ({"query_vector": [1.0]}, "a query_vector without vectors"),
    ({"query_vector": [1.0], "vectors": [[1.0, 2.0]] * 8}, "query_vector has 1 numbers and .* have 2"),
    ({"query_vector": 1.0, "vectors": [[1.0]] * 8}, "query_vector=1.0: allowed is a list of finite numbers"),
    ({"signals": {"clicks": "87654321"}}, "values of signal 'clicks' are '87654321'"),
    ({"query_vector": [1.0], "vectors": [[1.0]] * 8, "signals": {"vectors": [1.0] * 8}}, "allowed is one of them"),
]
"""What is no document, score, vector or signal, and how it is named."""


@pytest.mark.parametrize(("given", "said"), BAD)
def test_what_cannot_be_used_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make().rank(QUERY, **{"documents": TEXTS, **given})


GIVEN = [4.0, 1.0, 3.0, 2.0, 0.0, 7.0, 6.0, 5.0]


@pytest.mark.parametrize(
    ("plain", "given"),
    [
        ({"top_k": 2}, {"top_k": np.int64(2)}),
        ({"scores": GIVEN}, {"scores": np.array(GIVEN, dtype=np.float32)}),
        ({"scores": GIVEN}, {"scores": pd.Series(GIVEN, index=range(8)[::-1])}),
        ({"scores": [4, None, 3, 2] * 2}, {"scores": pd.Series([4, None, 3, 2] * 2, dtype="Int64")}),
        ({"scores": [4, None, 3, 2] * 2}, {"scores": [np.int64(4), pd.NA, 3, 2] * 2}),
        ({"scores": {"a": GIVEN, "b": GIVEN[::-1]}}, {"scores": pd.DataFrame({"a": GIVEN, "b": GIVEN[::-1]})}),
        ({"signals": {"clicks": [1, None, 2, 3] * 2}}, {"signals": {"clicks": pd.Series([1, None, 2, 3] * 2)}}),
        ({"signals": {"clicks": GIVEN}}, {"signals": pd.DataFrame({"clicks": GIVEN})}),
        ({"vectors": np.eye(8).tolist()}, {"vectors": pd.DataFrame(np.eye(8))}),
        ({"documents": TEXTS}, {"documents": np.array(TEXTS)}),
        ({"documents": TEXTS}, {"documents": pd.Series(TEXTS, index=range(8)[::-1])}),
        ({"documents": TEXTS}, {"documents": (text for text in TEXTS)}),
    ],
)
def test_arrays_and_series_are_lists_by_position(plain: Any, given: Any) -> None:
    def ranked(documents: Any = TEXTS, **further: Any) -> Ranking:
        return make().rank(QUERY, documents, **further)

    assert ranked(**given).documents == ranked(**plain).documents


def test_records_of_a_frame_may_lack_a_title() -> None:
    records = pd.DataFrame({"text": TEXTS, "title": [None, "x", np.nan, pd.NA] * 2}).to_dict("records")
    assert [d.index for d in make().rank(QUERY, records)] == [d.index for d in make().rank(QUERY, TEXTS)]
