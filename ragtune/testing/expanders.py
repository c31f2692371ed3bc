"""What every expander promises (:class:`~ragtune.core.interfaces.BaseExpander`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from ragtune.core.interfaces import BaseExpander
from ragtune.core.pool.items import ItemState, PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus
from ragtune.testing.collection import make_context, small_corpus, small_pool_items
from ragtune.testing.files import require_declared_files

RETRIEVED = 5


class ExpanderContract:
    """Derive from it and define :meth:`make`.

    Attributes:
        corpus: where the expander's documents come from.
    """

    @property
    def corpus(self) -> Corpus:
        return small_corpus()

    def make(self) -> BaseExpander:
        """A new expander over ``self.corpus``."""
        raise NotImplementedError

    def test_files_that_it_is_given_are_declared(self) -> None:
        require_declared_files(self.make)

    @pytest.mark.parametrize("limit", [0, 1, 100])
    def test_at_most_the_limit_of_documents_that_the_pool_lacks_each_once(self, limit: int) -> None:
        for pool, found in finds(self.make(), make_context(), limit):
            ids = [document.id for document in found]
            assert len(ids) <= limit
            assert len(set(ids)) == len(ids)
            assert not [doc_id for doc_id in ids if doc_id in pool]
            for document in found:
                expected = self.corpus.scored(document.id, 0.0)
                assert (document.content, document.token_count) == (expected.content, expected.token_count)

    def test_the_pool_is_left_as_it_was(self) -> None:
        expander, pool = self.make(), _pool()
        _score(pool)
        before = pool.columns()
        expander.expand(pool, make_context(), 3)
        assert all(old is new for old, new in zip(before, pool.columns(), strict=True))

    def test_another_request_is_not_noticed(self) -> None:
        shared = self.make()
        expected = [found for _, found in finds(self.make(), make_context(), 2)]
        both = zip(finds(shared, make_context(), 2), finds(shared, make_context(query_id="q2"), 2), strict=True)
        for (_, mine), (_, others), alone in ((*pair, alone) for pair, alone in zip(both, expected, strict=True)):
            assert mine == others == alone

    def test_nothing_of_the_budget_is_spent(self) -> None:
        context = make_context()
        list(finds(self.make(), context, 2))
        assert context.tracker.spent().docs == context.tracker.spent().calls == 0


def _pool() -> CandidatePool:
    return CandidatePool(small_pool_items()[:RETRIEVED])


def _score(pool: CandidatePool) -> None:
    """Score the next candidate."""
    chosen = [pool.doc_ids[pool.eligible[0]]]
    pool.transition(chosen, ItemState.IN_FLIGHT)
    pool.update_scores({doc_id: 1.0 - len(pool.reranked) / 20 for doc_id in chosen}, "default")


def finds(
    expander: BaseExpander, context: RAGtuneContext, limit: int
) -> Iterator[tuple[CandidatePool, Sequence[ScoredDocument]]]:
    """What is found after each batch of one document, and the pool before it has grown by that."""
    pool = _pool()
    while len(pool.eligible):
        _score(pool)
        found = expander.expand(pool, context, limit)
        yield pool, found
        pool.add(PoolItem.from_document(doc, len(pool) + i, {"found": doc.score}) for i, doc in enumerate(found))
