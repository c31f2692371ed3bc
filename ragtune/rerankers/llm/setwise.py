"""Heap sort by a language model that picks the best of a set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ragtune.core.arguments import check_count
from ragtune.core.component import RerankerFacts
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import CostObject
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary
from ragtune.rerankers.llm.base import Best, Interview, LLMReranker
from ragtune.rerankers.ordering import rank_scores


class LLMSetwiseReranker(LLMReranker):
    """Setwise heap sort: the model picks the best of a parent and its children (Zhuang et al., SIGIR 2024).

    Documents behind the top k keep their order. Scores are 1 / (1 + r): use batches as large as the budget.
    """

    facts = RerankerFacts(compares=True)

    def __init__(
        self,
        llm: LLMClient,
        prompts: PromptLibrary,
        prompt: str = "reranking.llm_setwise",
        set_size: int = 4,
        top_k: int = 10,
        max_doc_tokens: int = 300,
        max_answer_tokens: int = 32,
    ) -> None:
        super().__init__(llm, prompts, prompt, ("query", "documents", "n"), max_doc_tokens, max_answer_tokens)
        self.set_size = check_count("reranker set_size", set_size, low=2)
        self.top_k = check_count("reranker top_k", top_k, low=1)

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        """The most calls of heap sort, each at the price of the longest documents."""
        return self._at_most(items, context, self.set_size, most_calls(len(items), self.top_k, self.set_size - 1))

    def _judge(self, items: Sequence[PoolItem], context: RAGtuneContext, interview: Interview) -> Mapping[str, float]:
        if len(items) < 2:
            return rank_scores(items)
        judged: set[str] = set()

        def best(family: Sequence[PoolItem]) -> int:
            answer = self._compared(family, context, interview, Best)
            if answer is None or not 1 <= answer.best <= len(family):
                if answer is not None:
                    self._note(context, family, f"best={answer.best} is no number from 1 to {len(family)}")
                return 0
            judged.update(item.doc_id for item in family)
            return answer.best - 1

        heap = _Heap(items, self.set_size - 1, best)
        order = heap.top(self.top_k)
        found = {item.doc_id for item in order}
        order += [item for item in items if item.doc_id not in found]
        return rank_scores([item for item in order if item.doc_id in judged])


class _Heap:
    """A heap in which each parent is the best of its family; ``best`` returns the position of a family's best."""

    def __init__(self, items: Sequence[PoolItem], children: int, best: Callable[[Sequence[PoolItem]], int]) -> None:
        self._items = list(items)
        self._children = children
        self._best = best
        for parent in range((len(items) - 2) // children, -1, -1):
            self._sift(parent)

    def top(self, k: int) -> list[PoolItem]:
        """Remove the best ``k`` and return them, best first."""
        order: list[PoolItem] = []
        while self._items and len(order) < k:
            order.append(self._items[0])
            last = self._items.pop()
            if self._items and len(order) < k:
                self._items[0] = last
                self._sift(0)
        return order

    def _sift(self, parent: int) -> None:
        while children := range(self._children * parent + 1, len(self._items))[: self._children]:
            family = [parent, *children]
            winner = family[self._best([self._items[i] for i in family])]
            if winner == parent:
                return
            self._items[parent], self._items[winner] = self._items[winner], self._items[parent]
            parent = winner


def most_calls(n: int, top_k: int, children: int) -> int:
    """Return the most questions of heap sort: every sift goes to the bottom."""
    build = sum(_depth(parent, children, n) for parent in range((n - 2) // children + 1))
    return build + sum(_depth(0, children, n - taken) for taken in range(1, min(top_k, n)))


def _depth(parent: int, children: int, size: int) -> int:
    """Families between a node and the bottom."""
    depth = 0
    while (parent := children * parent + 1) < size:
        depth += 1
    return depth
