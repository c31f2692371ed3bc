"""Reciprocal rank fusion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ragtune.core.arguments import check_number
from ragtune.core.interfaces import BaseFusion
from ragtune.core.types import ScoredDocument


class RRFFusion(BaseFusion):
    """Reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009): score(d) = sum over lists of w / (k + rank).

    Ranks count from 1; only ranks matter, so lists on different scales may be mixed. The result does not depend on
    the order of the lists; equal scores are ordered by document id. Of a document's copies, the one of its best rank
    is kept (then of the first list by name).
    """

    def __init__(self, k: float = 60.0, weights: Mapping[str, float] | None = None) -> None:
        self.k = check_number("rrf k", k, low=0.0)
        self.weights = {name: check_number(f"rrf weight of {name}", w, low=0.0) for name, w in (weights or {}).items()}

    def fuse(self, lists: Mapping[str, Sequence[ScoredDocument]]) -> list[ScoredDocument]:
        best: dict[str, tuple[int, ScoredDocument]] = {}
        sources: dict[str, dict[str, float]] = {}
        parts: dict[str, list[float]] = {}
        for name in sorted(lists):
            weight = self.weights.get(name, 1.0)
            for rank, doc in enumerate(lists[name], start=1):
                seen = sources.setdefault(doc.id, {})
                if name in seen:
                    continue
                seen[name] = doc.score
                parts.setdefault(doc.id, []).append(weight / (self.k + rank))
                if doc.id not in best or rank < best[doc.id][0]:
                    best[doc.id] = (rank, doc)
        scores = {doc_id: math.fsum(parts[doc_id]) for doc_id in best}
        first = sorted(scores, key=lambda doc_id: (-scores[doc_id], doc_id))
        told = [{"score": scores[i], "fusion_score": scores[i], "sources": sources[i]} for i in first]
        return [best[i][1].model_copy(update=one) for i, one in zip(first, told, strict=True)]
