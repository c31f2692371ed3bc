"""What every assembler promises (:class:`~ragtune.core.interfaces.BaseAssembler`)."""

from __future__ import annotations

import pytest

from ragtune.core.interfaces import BaseAssembler
from ragtune.core.output import assembled
from ragtune.core.pool.items import ItemState, PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.budget import CostBudget
from ragtune.testing.collection import make_context, small_pool_items

TOKENS = 40


class AssemblerContract:
    """Derive from it and define :meth:`make`."""

    def make(self) -> BaseAssembler:
        """A new assembler."""
        raise NotImplementedError

    @pytest.fixture
    def pool(self) -> CandidatePool:
        """Two that were reranked, one that could not be scored, and the others with priorities."""
        pool = CandidatePool(small_pool_items())
        pool.apply_priorities({doc_id: 0.9 - i / 20 for i, doc_id in enumerate(pool.doc_ids)})
        pool.transition(["ship-2", "tea-1", "star-1"], ItemState.IN_FLIGHT)
        pool.update_scores({"ship-2": 0.3, "tea-1": 1.0}, "default")
        pool.transition(["star-1"], ItemState.DROPPED)
        return pool

    @pytest.fixture
    def items(self, pool: CandidatePool) -> list[PoolItem]:
        """The items of that pool."""
        return list(pool)

    @pytest.mark.parametrize("tokens", [0, 1, TOKENS, None])
    def test_documents_of_the_pool_each_once_in_its_order_within_the_tokens(
        self, items: list[PoolItem], tokens: int | None
    ) -> None:
        assembler = self.make()
        budget = CostBudget.only(max_tokens=tokens, assembly_token_buffer=0)
        documents = assembler.assemble(items, make_context(tracker=budget.create_tracker()))
        ids = [document.id for document in documents]
        assert ids == [item.doc_id for item in assembler.ordering.sort(items) if item.doc_id in ids]
        keys = {item.doc_id: key for item, key in assembler.ordering.ranked(items)}
        assert [document.score for document in documents] == [keys[doc_id] for doc_id in ids]
        assert tokens is None or sum(item.token_count for item in items if item.doc_id in ids) <= tokens
        assert documents or tokens is not None, "where tokens are not limited, there is something to read"

    @pytest.mark.parametrize("tokens", [0, TOKENS, None])
    def test_a_request_gets_what_the_assembler_says(self, pool: CandidatePool, tokens: int | None) -> None:
        assembler = self.make()
        trackers = [CostBudget.only(max_tokens=tokens, assembly_token_buffer=0).create_tracker() for _ in range(2)]
        mine, expected = (make_context(tracker=tracker) for tracker in trackers)
        keys = assembler.ordering.keys(pool)
        assert assembled(assembler, pool, keys, mine) == assembler.assemble(list(pool), expected)
        assert trackers[0].snapshot()["tokens"] == trackers[1].snapshot()["tokens"]

    def test_the_order_of_the_items_means_nothing(self, items: list[PoolItem]) -> None:
        assembler = self.make()
        assert assembler.assemble(items[::-1], make_context()) == assembler.assemble(items, make_context())

    def test_nothing_in_nothing_out(self) -> None:
        assert self.make().assemble([], make_context()) == []
