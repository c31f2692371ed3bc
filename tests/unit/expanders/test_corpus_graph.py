from pathlib import Path

import pytest

from ragtune import Corpus, CostBudget, Document, ScoredDocument
from ragtune.core.pool.items import ItemState, PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.expanders.corpus_graph import CorpusGraphExpander
from ragtune.rerankers.replay import ReplayReranker

EDGES = {
    "a": {"x": 0.9, "y": 0.5, "b": 0.4},
    "b": {"y": 0.9, "z": 0.2},
    "c": {"w": 1.0},
}


@pytest.fixture
def letters() -> Corpus:
    return Corpus(Document(id=letter, text=f"text {letter}") for letter in "abcdwxyz")


@pytest.fixture
def folder(letters: Corpus, make_graph, tmp_path: Path) -> str:
    return make_graph(tmp_path / "graph", letters, EDGES, 3)


@pytest.fixture
def context(make_context):
    return make_context()


@pytest.fixture
def expander(letters, folder, fakes):
    def make(reranker=None, **arguments) -> CorpusGraphExpander:
        arguments = {"k": 3, "top": None, "ordering": "reranked_first"} | arguments
        return CorpusGraphExpander(letters, folder, reranker or fakes.Reranker(), **arguments)

    return make


@pytest.fixture
def pool(letters) -> CandidatePool:
    docs = [letters.scored(doc_id, 1.0 - i / 10) for i, doc_id in enumerate("abcd")]
    return CandidatePool(PoolItem.from_document(doc, rank, {"original": doc.score}) for rank, doc in enumerate(docs))


def score(pool: CandidatePool, **scores: float) -> None:
    pool.transition(scores, ItemState.IN_FLIGHT)
    pool.update_scores(scores, "default")


def ids(found) -> list[str]:
    return [doc.id for doc in found]


def test_neighbours_of_reranked_documents_are_found_best_first(expander, pool, context):
    score(pool, a=0.5, b=1.0)
    found = expander().expand(pool, context, 10)
    assert [(doc.id, pytest.approx(doc.score)) for doc in found] == [("y", 0.9), ("x", 0.45), ("z", 0.2)]
    assert all(doc.sources == {"graph": doc.score} for doc in found)
    assert found[0].content == "text y"


def test_equal_promises_go_by_the_corpus_order(expander, pool, context):
    score(pool, a=0.0, b=0.0)
    assert ids(expander().expand(pool, context, 10)) == ["x", "y", "z"]


def test_only_documents_in_the_top_of_the_final_order_open_their_neighbours(expander, pool, context):
    score(pool, a=0.5, b=0.9, c=0.7)
    assert ids(expander(top=1).expand(pool, context, 10)) == ["y", "z"]
    assert ids(expander(top=2).expand(pool, context, 10)) == ["y", "w", "z"]


def test_the_limit_lets_the_best_in_and_the_others_wait(expander, pool, context):
    score(pool, a=0.5, b=1.0)
    slow = expander()
    assert ids(slow.expand(pool, context, 1)) == ["y"]
    assert ids(slow.expand(pool, context, 1)) == ["x"]
    assert ids(slow.expand(pool, context, 0)) == []
    assert ids(slow.expand(pool, context, 10)) == ["z"]
    assert slow.expand(pool, context, 10) == []


def test_a_better_neighbour_found_later_lifts_one_that_waits(expander, pool, context):
    slow = expander()
    score(pool, a=0.5)
    assert ids(slow.expand(pool, context, 1)) == ["x"]
    score(pool, b=1.0)
    assert [(doc.id, doc.score) for doc in slow.expand(pool, context, 1)] == [("y", pytest.approx(0.9))]


def test_what_the_table_lacks_is_no_candidate_and_counted_once(expander, pool, context, tmp_path):
    table = tmp_path / "scores.run"
    table.write_text("".join(f"q1 Q0 {doc_id} 1 0.5 t\n" for doc_id in "abcdx"), encoding="utf-8")
    replay = ReplayReranker(str(table))
    assert replay.facts.can_score("x", context)
    assert not replay.facts.can_score("y", context)
    found = expander(replay)
    score(pool, a=0.5)
    assert ids(found.expand(pool, context, 10)) == ["x"]
    score(pool, b=0.5)
    assert found.expand(pool, context, 10) == []
    assert [event.details["count"] for event in context.trace.find("ineligible", "expander")] == [1, 1]


def test_in_a_run_the_finds_are_charged_and_reranked(expander, fakes, letters):
    docs = [ScoredDocument(id=doc_id, score=1.0 - i / 10, content=doc_id) for i, doc_id in enumerate("abcd")]
    output = fakes.controller(
        documents=docs,
        expander=expander(),
        budget=CostBudget.only(max_expanded_docs=3),
        scheduler=fakes.Scheduler(batch_size=2),
    ).run("q")
    assert output.final_budget_state["expanded_docs"] == 3
    assert set(output.ranking) == {"a", "b", "c", "d", "x", "y", "z"}
    assert output.stop.reason == "pool_exhausted"
