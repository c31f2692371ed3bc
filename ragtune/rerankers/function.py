"""Reranking by a function of the caller."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set

from ragtune.core.arguments import check_number
from ragtune.core.component import RerankerFacts
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.plain import quoted
from ragtune.core.pool.items import PoolItem, facts_of, ids_of, lengths_of
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject
from ragtune.rerankers.scale import PAIR_SCALES, ScaleWatch, ScoreScale, calibrated, pair_scale


class FunctionReranker(BaseReranker):
    """Scores documents by a function of the caller."""

    def __init__(
        self,
        function: Callable[[str, list[str]], Sequence[float]],
        scale: ScoreScale | str = ScoreScale.IDENTITY,
        usd_per_doc: float = 0.0,
    ) -> None:
        self._scale = pair_scale(scale)
        self._watch = ScaleWatch(self._scale)
        self._function = function
        self.usd_per_doc = check_number("usd_per_doc", usd_per_doc, low=0.0)
        self.facts = RerankerFacts(unpriced=RerankerFacts.unpriced - {"tokens", *(["usd"] if self.usd_per_doc else [])})

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        returned = self._function(context.query, [facts.content for facts in facts_of(items)])
        try:
            if isinstance(returned, (Mapping, Set, str, bytes)):  # they have no scores in the order of the texts
                raise TypeError
            scores = [math.nan if score is None else float(score) for score in returned]
        except (TypeError, ValueError):
            raise ConfigError(
                f"the reranking function returned {quoted(returned)}: allowed is one number a text"
            ) from None
        if len(scores) != len(items):
            raise ConfigError(f"the reranking function returned {len(scores)} scores for {len(items)} texts")
        self._watch.see(scores, context)
        return dict(zip(ids_of(items), map(self._relevance, scores), strict=True))

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        tokens = len(items) * count_tokens(context.query) + sum(lengths_of(items))
        return CostObject(tokens=tokens, docs=len(items), calls=1, usd=self.usd_per_doc * len(items))

    def _relevance(self, score: float) -> float:
        if not math.isfinite(score):
            return score  # the loop refuses it for this document alone
        relevance = calibrated(score, self._scale)
        if relevance is None:
            raise ConfigError(
                f"the reranking function returned {score!r}, which scale={self._scale.value!r} does not allow: scales "
                f"are {', '.join(PAIR_SCALES)}"
            )
        return relevance
