"""A budget behind the ``rank()`` of sentence-transformers' ``CrossEncoder``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragtune.facade.reranker import BudgetedReranker, Given
from ragtune.frameworks.shared import ESTIMATED, reranker_from, warn_of

_UNUSED = frozenset({"batch_size", "show_progress_bar", "num_workers", "convert_to_numpy", "convert_to_tensor"})


class BudgetedCrossEncoder:
    """Takes the place of a ``CrossEncoder`` in code that calls its ``rank()``."""

    def __init__(self, model: Any, **options: Any) -> None:
        self.reranker: BudgetedReranker = reranker_from(model, options)

    def rank(
        self,
        query: str,
        documents: Sequence[Given],
        top_k: int | None = None,
        return_documents: bool = False,
        **further: Any,
    ) -> list[dict[str, Any]]:
        """``corpus_id`` and ``score`` of every document, best first, and its ``text`` if ``return_documents``.

        ``score`` is the model's, or an estimate where ``estimated`` is true.
        """
        further = {name: value for name, value in further.items() if name not in _UNUSED}
        ranking = self.reranker.rank(query, documents, top_k=top_k, **further)
        warn_of(ranking)
        return [
            {"corpus_id": ranked.index, "score": ranked.score, ESTIMATED: ranked.estimated}
            | ({"text": ranked.document} if return_documents else {})
            for ranked in ranking
        ]
