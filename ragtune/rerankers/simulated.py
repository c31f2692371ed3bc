"""A simulated language model: it orders windows by recorded scores, with the faults of real models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ragtune.core.arguments import check_count, check_flag, check_number
from ragtune.core.component import RerankerFacts
from ragtune.core.errors import LLMError
from ragtune.core.policy.scaling import logits
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject
from ragtune.llm.types import Price
from ragtune.rerankers.ordering import in_order, rank_scores
from ragtune.rerankers.replay import TableReranker

_INSTRUCTIONS, _SHOWN = 100, 300
"""Tokens of the instructions, and of a document that are shown."""

_DOC_MARKS = 8  # tokens of the fence and the number that a prompt puts around each document


class SimulatedReranker(TableReranker):
    """Compares the documents of a batch in one call by a score table, as a listwise, setwise or pairwise model would.

    The i-th of b documents has the utility u = z - ``position_bias`` i / (b - 1) + ``noise`` g: z its standardised
    logit, g standard Gumbel, so that orders follow the Plackett-Luce model (Plackett 1975; Yellott 1977).
    """

    def __init__(
        self,
        scores: str,
        scale: str | None = None,
        told: int | None = None,
        noise: float = 0.0,
        position_bias: float = 0.0,
        refused: float = 0.0,
        tokens_per_doc: float | None = None,
        ms_per_call: float = 0.0,
        prices: Mapping[str, float] | None = None,
        shuffled: bool = False,
    ) -> None:
        super().__init__(scores, scale)
        self.told = None if told is None else check_count("reranker.told", told, low=1)
        self.noise = check_number("reranker.noise", noise, low=0.0)
        self.position_bias = check_number("reranker.position_bias", position_bias, low=0.0)
        self.refused = check_number("reranker.refused", refused, low=0.0, high=1.0)
        given = None if tokens_per_doc is None else check_number("reranker.tokens_per_doc", tokens_per_doc, low=0.0)
        self.tokens_per_doc = given
        self.ms_per_call = check_number("reranker.ms_per_call", ms_per_call, low=0.0)
        self.shuffled = check_flag("reranker.shuffled", shuffled)
        self.price = None if prices is None else Price.of("simulated", prices)
        unknown = {"latency_ms": not self.ms_per_call, "usd": self.price is None}
        self.facts = RerankerFacts(
            compares=True,
            is_recorded=True,
            unpriced=frozenset(unit for unit, is_unknown in unknown.items() if is_unknown),
            can_score=self.table.has,
        )

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        shown = in_order(items, context, self.shuffled)
        prompt = "\x00".join(item.doc_id for item in shown)
        if self.refused and context.rng(f"refusal {prompt}").random() < self.refused:
            raise LLMError(f"the call was refused, as reranker.refused={self.refused:g} of all are")
        self.table.scores(context.query_id, [item.doc_id for item in shown])  # names a pair that is missing
        known: dict[str, float] = context.remember(self, lambda: self._of_query(context.query_id))
        utility = np.array([known[item.doc_id] for item in shown])
        utility -= self.position_bias * np.linspace(0.0, 1.0, len(shown))
        if self.noise:
            utility += self.noise * context.rng(f"comparison {prompt}").gumbel(size=len(shown))
        order = [shown[i] for i in np.argsort(-utility, kind="stable")]
        scores = rank_scores(order, self.told)
        return {item.doc_id: scores[item.doc_id] for item in items}

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        """Exact: one call, its tokens, and their price."""
        if not items:
            return CostObject()
        prompt = _INSTRUCTIONS + count_tokens(context.query) + sum(map(self._shown_tokens, items))
        answer = 16 + 4 * (len(items) if self.told is None else min(self.told, len(items)))
        usd = self.price.usd(prompt, answer) if self.price else 0.0
        return CostObject(tokens=prompt + answer, docs=len(items), calls=1, latency_ms=self.ms_per_call, usd=usd)

    def _shown_tokens(self, item: PoolItem) -> int:
        tokens = item.token_count if self.tokens_per_doc is None else round(self.tokens_per_doc)
        return min(tokens, _SHOWN) + _DOC_MARKS

    def _of_query(self, query_id: str) -> dict[str, float]:
        scores = self.table.of_query(query_id)
        found = logits(np.fromiter(scores.values(), float, len(scores)))
        deviation = float(found.std()) or 1.0
        return dict(zip(scores, ((found - found.mean()) / deviation).tolist(), strict=True))
