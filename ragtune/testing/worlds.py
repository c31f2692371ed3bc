"""Collections that are out to break a policy: what estimators and schedulers are tried on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.component import RerankerFacts
from ragtune.core.controller import RAGtuneController
from ragtune.core.interfaces import BaseExpander, BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import GRAPH_SOURCE, RAGtuneContext, Request
from ragtune.core.rounds import RetrievalDepths
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus, Document
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.retrievers.given import GivenRetriever
from ragtune.schedulers.greedy import GreedyScheduler
from ragtune.schedulers.windows import WindowsScheduler

_WORDS = ["heart", "blood", "salt", "ship", "rope", "anchor", "bread", "honey", "tea", "star", "pressure", "loaf"]
_TEXTS = [f"{_WORDS[i % 12]} {_WORDS[(i * 5 + 1) % 12]} {_WORDS[(i * 7 + 3) % 12]} {_WORDS[i % 4]}" for i in range(14)]


@dataclass
class World:
    """A collection, what the first stage finds in it, and what the reranker thinks of it."""

    texts: Sequence[str]  # of the documents, whose ids are d00, d01, ...
    first: Mapping[str, Sequence[float | None]]  # first-stage scores of the pool by source, None if a source lacks one
    score_of: Callable[[int], float] = lambda i: (i * 7 % 10) / 10  # rerank score in [0, 1] by document number
    finds: int = 0  # documents that join the pool after each batch
    corpus: Corpus = field(init=False)

    def __post_init__(self) -> None:
        self.corpus = Corpus(Document(id=f"d{i:02d}", text=text) for i, text in enumerate(self.texts))

    def pool(self) -> CandidatePool:
        """A new pool as the first stage leaves it."""
        ids = self.corpus.doc_ids
        columns = list(zip(*self.first.values(), strict=True))
        found = [{s: v for s, v in zip(self.first, row, strict=True) if v is not None} for row in columns]
        docs = [self.corpus.scored(ids[i], max(sources.values())) for i, sources in enumerate(found)]
        return CandidatePool(PoolItem.from_document(doc, i, found[i]) for i, doc in enumerate(docs))

    def score(self, doc_id: str) -> float:
        return self.score_of(int(doc_id[1:]))

    def grow(self, pool: CandidatePool) -> bool:
        """Add the documents that join after a batch; whether there were any."""
        new = self.corpus.doc_ids[len(pool) : len(pool) + self.finds]
        docs = [self.corpus.scored(doc_id, 0.3) for doc_id in new]
        pool.add(PoolItem.from_document(doc, len(pool) + i, {"graph": doc.score}) for i, doc in enumerate(docs))
        return bool(new)


class WorldReranker(BaseReranker):
    """Gives the scores of a world."""

    facts = RerankerFacts(is_recorded=True)

    def __init__(self, world: World) -> None:
        self._world = world

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        return {item.doc_id: self._world.score(item.doc_id) for item in items}


def _falling(count: int) -> list[float]:
    return [20.0 - 1.3 * i for i in range(count)]


WORLDS: dict[str, Callable[[], World]] = {
    "plain": lambda: World(_TEXTS, {"bm25": _falling(14)}),
    "two sources": lambda: World(
        _TEXTS[:6], {"bm25": [9, 8, None, 5, 3, None], "dense": [0.9, None, 0.7, 0.2, 0.1, 0]}
    ),
    "constant first stage": lambda: World(_TEXTS, {"bm25": [3.0] * 14}),
    "one candidate": lambda: World(_TEXTS, {"bm25": [3.0]}),
    "smaller than the batch": lambda: World(_TEXTS, {"bm25": [3.0, 2.0]}),
    "empty pool": lambda: World(_TEXTS, {"bm25": []}),
    "equal texts": lambda: World(["salt and bread"] * 12, {"bm25": _falling(12)}),
    "empty texts": lambda: World([""] * 12, {"bm25": _falling(12)}),
    "duplicates": lambda: World([t for t in _TEXTS[:6] for _ in range(2)], {"bm25": _falling(12)}),
    "scores 0": lambda: World(_TEXTS, {"bm25": _falling(14)}, lambda i: 0.0),
    "scores 1": lambda: World(_TEXTS, {"bm25": _falling(14)}, lambda i: 1.0),
    "scores 0 or 1": lambda: World(_TEXTS, {"bm25": _falling(14)}, lambda i: float(i % 2)),
    "huge first stage": lambda: World(_TEXTS, {"bm25": [1e9, -1e9, *_falling(10)]}),
    "growing": lambda: World(_TEXTS, {"bm25": _falling(5)}, finds=2),
    "growing from one": lambda: World(_TEXTS[:4], {"bm25": [1.0]}, finds=1),
    "growing, equal texts": lambda: World(["salt"] * 10, {"bm25": _falling(4)}, finds=3),
    "growing, empty texts": lambda: World([""] * 10, {"bm25": [0.0] * 4}, finds=3),
}
"""Makers of the worlds by what is special about them."""


_BUDGETS = [
    [CostBudget.only(max_reranker_docs=docs) for docs in (0, 1, 3, 8, 100)],
    [CostBudget.only(max_reranker_calls=calls) for calls in (1, 3, 100)],
]
"""Budgets that may share their decisions."""


class _Growth(BaseExpander):
    def __init__(self, world: World) -> None:
        self._world = world

    def expand(self, pool: CandidatePool, context: RAGtuneContext, limit: int) -> list[ScoredDocument]:
        new = self._world.corpus.doc_ids[len(pool) : len(pool) + min(limit, self._world.finds)]
        return [self._world.corpus.scored(doc_id, 0.3, sources={GRAPH_SOURCE: 0.3}) for doc_id in new]


def controller_of(world: World, **parts: Any) -> RAGtuneController:
    """A controller over a world; ``parts`` take the place of its own."""
    compares = "estimator" in parts and parts["estimator"].compares
    usual: dict[str, Any] = {
        "retriever": GivenRetriever(),
        "reformulator": IdentityReformulator(),
        "estimator": BaselineEstimator(),
        "scheduler": WindowsScheduler() if compares else GreedyScheduler(batch_size=3),
        "expander": _Growth(world),
        "reranker": WorldReranker(world),
        "assembler": GreedyAssembler(),
        "budget": CostBudget.unlimited(),
        "plan": RetrievalDepths(original_query_depth=100),
    }
    return RAGtuneController(**(usual | parts))


def request_in(world: World, query_id: str = "q1", budget: CostBudget | None = None) -> Request:
    """A request for which the first stage finds the pool of a world."""
    found = [world.corpus.scored(item.doc_id, item.retrieval_score, item.sources) for item in world.pool()]
    return Request("salt bread", query_id, budget, found)


def require_same_under_all_budgets(world: World, **parts: Any) -> None:
    """Compare one replay for several budgets with a replay for each; ``parts`` are of the controller."""
    controller = controller_of(world, **parts)
    for budgets in _BUDGETS:
        together = controller.run_under(request_in(world), budgets)
        alone = [controller.run_under(request_in(world), [budget])[0] for budget in budgets]
        assert [one.model_dump_json() for one in together] == [one.model_dump_json() for one in alone]
