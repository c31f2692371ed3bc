"""A ranking as the dialects of the rerank API write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ragtune.core.policy.scaling import logits
from ragtune.core.types import CostObject
from ragtune.core.units import UNITS
from ragtune.services.rerank_payloads import RerankQuery

if TYPE_CHECKING:
    from ragtune.services.chain import ServedRanking

_SURE = 1e-9  # a score nearer to 0 or 1 has no useful logit


@dataclass(frozen=True)
class Answer:
    """A request, its ranking, and the model's name."""

    request: RerankQuery
    ranking: ServedRanking
    model: str

    def rows(
        self,
        score: str = "relevance_score",
        field: str | None = None,
        write: Callable[[Any], Any] = lambda given: given,
    ) -> list[dict[str, Any]]:
        """The results, best first, at most ``top_n``; ``field`` has the document, as ``write`` writes it."""
        rows = []
        for one in self.ranking[: self.request.top_n or None]:
            value = float(logits(np.array(one.score), _SURE)) if self.request.wants_logits else one.score
            row = {"index": one.index, score: value, "estimated": one.estimated}
            rows.append(row if field is None else row | {field: write(self.request.documents[one.index])})
        return rows

    def common(self) -> dict[str, Any]:
        """What every answer has beside its results, but for TEI's list."""
        tokens = self.ranking.cost.tokens
        usage = {"total_tokens": tokens, "prompt_tokens": tokens}
        return {"model": self.model, "usage": usage, "ragtune": self.account()}

    def warnings(self) -> list[str]:
        unknown = islice(self.request.model_extra or {}, 20)
        return [*(f"{name[:100]!r} is unknown here and ignored" for name in unknown), *self.ranking.warnings]

    def account(self) -> dict[str, Any]:
        """RAGtune's own: what the ranking cost, and what reranking the other documents was expected to cost on top.

        ``nothing_relevant`` is there if no scored document reaches the ``min_score``; ``possible`` is what an upstream
        may bill beyond ``spent``; ``passages`` has start and end, in characters, by the index of the document.
        """
        stop = (
            {} if self.ranking.stop is None else self.ranking.stop.model_dump(include={"reason", "source", "message"})
        )
        found: dict[str, Any] = {"nothing_relevant": True} if self.ranking.nothing_relevant else {}
        found |= {
            "spent": _spending(self.ranking.cost),
            "saved": _spending(self.ranking.saved),
            "stop": stop,
            "reranked": [one.index for one in self.ranking if one.reranked],
            "failed": sorted(self.ranking.failures),
            "answered_by": self.ranking.answered_by,
            "hops": [hop._asdict() for hop in self.ranking.hops],
        }
        if self.ranking.possible.calls:
            found["possible"] = _spending(self.ranking.possible)
        if passages := {str(one.index): one.passage for one in self.ranking if one.passage is not None}:
            found["passages"] = passages
        if warnings := self.warnings():
            found["warnings"] = warnings
        return found


def _spending(cost: CostObject) -> dict[str, int | float]:
    """The cost by unit; those without a price are left out."""
    return {unit.short: amount for unit in UNITS if (amount := getattr(cost, unit.name)) or unit.is_always_told}
