"""Long documents in passages."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtune import BudgetedReranker, ScoredDocument
from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.controller import RAGtuneController
from ragtune.core.errors import ConfigError
from ragtune.core.passages import PASSAGE
from ragtune.core.request.budget import CostBudget
from ragtune.core.rounds import RetrievalDepths
from ragtune.core.tokens import count_tokens
from ragtune.embedders.passages import Passages, spans
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.rerankers.function import FunctionReranker
from ragtune.retrievers.in_memory import InMemoryRetriever
from ragtune.schedulers.greedy import GreedyScheduler

TEXTS = st.text(alphabet="ab .茶\n", max_size=40)
LONG = "Bread is baked daily here. Salt is mined in the hills. Green tea is steamed."


def best_word(query: str, texts: Sequence[str]) -> list[float]:
    """A score that long texts have no advantage in."""
    return [max((hash_of(word) for word in text.split()), default=0.0) for text in texts]


def hash_of(word: str) -> float:
    return sum(map(ord, word)) % 97 / 97


@given(TEXTS, st.integers(1, 12))
def test_passages_cover_a_text_and_are_not_longer_than_asked(text: str, tokens: int) -> None:
    found = spans(text, tokens)
    assert (found[0][0], found[-1][1]) == (0, len(text))
    assert all(count_tokens(text[start:end]) <= tokens for start, end in found)
    for (start, end), (following, beyond) in pairwise(found):
        assert start < following
        assert end < beyond
        assert not text[end:following].strip()
    assert len(found) == 1 or count_tokens(text) > tokens


@settings(max_examples=60)
@given(st.lists(TEXTS, min_size=1, max_size=6), st.integers(1, 6), st.integers(0, 12), st.sampled_from([1, 3]))
def test_a_document_has_the_score_of_its_best_scored_passage(
    texts: list[str], tokens: int, docs: int, average: int
) -> None:
    scored: dict[str, float] = {}

    def note(query: str, asked: Sequence[str]) -> list[float]:
        scores = best_word(query, asked)
        scored.update(zip(asked, scores, strict=True))
        return scores

    passages = Passages(tokens, average=average)
    ranking = BudgetedReranker(note, docs=docs, batch_size=2, passages=passages).rank("ab", texts)
    again = BudgetedReranker(best_word, docs=docs, batch_size=2, passages=passages).rank("ab", texts)
    assert sorted(one.index for one in ranking) == list(range(len(texts)))
    assert list(ranking) == list(again)
    assert ranking.cost.docs <= docs
    for one in ranking:
        own = [texts[one.index][start:end] for start, end in spans(texts[one.index], tokens)]
        assert (one.passage is None) == (len(own) == 1)
        if one.passage is not None:
            assert texts[one.index][slice(*one.passage)] in own
        if one.reranked and average == 1 and one.passage is not None:
            assert one.score == scored[texts[one.index][slice(*one.passage)]]


def test_the_budget_counts_passages_and_so_do_cost_and_saving() -> None:
    everything = BudgetedReranker(best_word, docs=100, policy="fixed_depth", passages=8).rank("tea", [LONG, "tea", ""])
    count = len(spans(LONG, 8)) + 2
    assert (everything.cost.docs, everything.saved.docs) == (count, 0)
    some = BudgetedReranker(best_word, docs=3, policy="fixed_depth", passages=8).rank("tea", [LONG, "tea", ""])
    assert (some.cost.docs, some.saved.docs) == (3, count - 3)
    assert all(one.reranked for one in some)  # every document's best passage comes first
    assert ["tea" in LONG[slice(*one.passage)] for one in some if one.passage] == [True]


def test_a_passage_that_settles_its_document_ends_its_reading() -> None:
    texts = [f"{LONG} {number}" for number in range(8)]
    ranking = BudgetedReranker(lambda query, texts: [0.9] * len(texts), docs=1000, passages=8).rank("tea", texts)
    assert all(one.reranked for one in ranking)
    assert ranking.cost.docs < sum(len(spans(text, 8)) for text in texts)
    assert ranking.saved.docs == sum(len(spans(text, 8)) for text in texts) - ranking.cost.docs


def controller(passages: Passages, documents: dict[str, str], **parts: Any) -> RAGtuneController:
    found = [ScoredDocument(id=name, content=text, score=9.0 - i) for i, (name, text) in enumerate(documents.items())]
    plan = RetrievalDepths(num_reformulations=0)
    chosen = {"estimator": BaselineEstimator(), "scheduler": GreedyScheduler(batch_size=2), "expander": None} | parts
    return RAGtuneController(
        InMemoryRetriever(found),
        IdentityReformulator(),
        reranker=FunctionReranker(best_word),
        assembler=GreedyAssembler(),
        budget=CostBudget.unlimited(),
        passages=passages,
        plan=plan,
        **chosen,
    )


def test_ids_of_passages_are_new_and_answers_cite_documents_and_places() -> None:
    documents = {"a": LONG, "a#0": LONG, "b##1": "", "a##0": "tea"}
    assert len(spans(LONG, 8)) == 3
    output = controller(Passages(8), documents).run("no document has this")
    asked = [doc_id for event in output.trace.find("propose") for doc_id in event.details["doc_ids"]]
    assert len(set(asked)) == len(asked) == 2 * 3 + 2
    assert {"b##1", "a##0"} == {*asked} & {*documents}
    assert sorted(output.ranking) == sorted(documents)
    assert all(sorted(step.ranking) == sorted(documents) for step in output.history)
    for document in output.documents:
        place = document.metadata.get(PASSAGE)
        assert document.content == documents[document.id]
        assert (place is None) == (documents[document.id] != LONG)
        if place is not None:
            (score,) = best_word("", [LONG[place["start"] : place["end"]]])
            assert document.reranker_score == score


def test_a_lost_passage_loses_no_document() -> None:
    def fails_at_salt(query: str, texts: Sequence[str]) -> list[float | None]:
        return [None if "Salt" in text else 0.5 for text in texts]

    ranking = BudgetedReranker(fails_at_salt, docs=100, policy="fixed_depth", passages=8).rank("tea", [LONG, "Salt"])
    assert [(one.index, one.reranked) for one in ranking] == [(0, True), (1, False)]
    assert list(ranking.failures) == [1]


@pytest.mark.parametrize(
    ("passages", "policy", "said"),
    [
        (8, "sliding", "passages: allowed without an expander"),
        (0, "uncertainty", r"passages\.tokens"),
        ("128", "uncertainty", "passages='128': allowed is a ragtune"),
        (Passages, "uncertainty", "allowed is a ragtune"),
    ],
)
def test_what_cannot_be_folded_is_refused(passages: Any, policy: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        BudgetedReranker(best_word, docs=9, policy=policy, passages=passages)


class Lengths:
    """Vectors as an array."""

    def of(self, items: Sequence[Any]) -> np.ndarray:
        return np.array([[float(len(item.content) > 25)] for item in items])

    def of_query(self, text: str) -> np.ndarray:
        return np.ones((1, 1))


def test_vectors_of_passages_may_be_an_array() -> None:
    reading = Passages(np.int64(8), most=1, vectors=lambda corpus: Lengths())
    assert BudgetedReranker(best_word, docs=9, passages=reading).rank("tea", [LONG])[0].passage is not None
