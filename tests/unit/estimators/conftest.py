"""Pools over a tiny graph, and a way to score them."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ragtune import Corpus, Document
from ragtune.core.pool.items import ItemState, PoolItem
from ragtune.core.pool.pool import CandidatePool

EDGES: Mapping[str, Mapping[str, float]] = {
    "a": {"e": 0.9, "f": 0.5},
    "b": {"f": 0.6, "d": 0.4},
    "c": {"x": 0.9},
    "e": {"x": 0.8, "d": 0.7},
}


@pytest.fixture
def letters() -> Corpus:
    return Corpus(Document(id=letter, text=f"text {letter}") for letter in "abcdefxyz")


@pytest.fixture
def folder(letters: Corpus, make_graph: Callable[..., str], tmp_path: Path) -> str:
    return make_graph(tmp_path / "graph", letters, EDGES, 2)


@pytest.fixture
def make_pool(letters: Corpus) -> Callable[..., CandidatePool]:
    def make(ids: str = "abcdef", start: int = 0) -> CandidatePool:
        docs = [letters.scored(doc_id, 1.0 - i / 10) for i, doc_id in enumerate(ids)]
        return CandidatePool(
            PoolItem.from_document(doc, start + rank, {"original": doc.score}) for rank, doc in enumerate(docs)
        )

    return make


@pytest.fixture
def score() -> Callable[..., None]:
    def run(pool: CandidatePool, **scores: float) -> None:
        pool.transition(scores, ItemState.IN_FLIGHT)
        pool.update_scores(scores, "default")

    return run


@pytest.fixture
def discover(letters: Corpus) -> Callable[..., None]:
    def run(pool: CandidatePool, *ids: str) -> None:
        behind = pool.entries[-1].initial_rank + 1
        pool.add(
            PoolItem.from_document(letters.scored(doc_id, 0.4), behind + i, {"graph": 0.4})
            for i, doc_id in enumerate(ids)
        )

    return run


@pytest.fixture
def advise() -> Callable[..., str]:
    """The estimator's next batch, were it unlimited: the documents of the source whose turn it is, best first."""

    def run(estimator, pool: CandidatePool, context) -> str:
        pool.apply_priorities(estimator.value(pool, context))
        return "".join(
            pool.top_candidates(len(pool) if pool.estimates.batch_limit is None else pool.estimates.batch_limit)
        )

    return run
