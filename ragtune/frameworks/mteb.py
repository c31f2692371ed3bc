"""A budgeted reranker as a model that MTEB evaluates on reranking tasks."""

from __future__ import annotations

from typing import Any

from ragtune.core.errors import InputError, MissingExtraError
from ragtune.core.types import FREE
from ragtune.frameworks.shared import name_of, reranker_from, warn_of

try:
    from mteb.models import ModelMeta
except ImportError as error:
    raise MissingExtraError("ragtune.frameworks.mteb", "mteb") from error


class BudgetedSearch:
    """Reranks the candidates of a task: ``mteb.evaluate(BudgetedSearch(model, docs=20), tasks)``.

    Each query has the whole budget; the task's candidates are the first stage. A score is the negative rank, since a
    ranking also holds documents that the model did not score. ``cost`` is what was charged since the object was made.

    ``model`` is a ``BudgetedReranker``, or its first argument beside the others as ``options``.
    """

    def __init__(self, model: Any, **options: Any) -> None:
        self.model, self.options = model, options
        self._reranker = reranker_from(model, options)
        self._texts: dict[str, str] = {}
        self.cost = FREE
        told = [name_of(model), *(f"{name}={value}" for name, value in options.items())]
        self.mteb_model_meta = ModelMeta.create_empty({"name": f"ragtune/{'-'.join(told)}"})

    def index(self, corpus: Any, **_: Any) -> None:
        self._texts = {row["id"]: f"{row.get('title') or ''} {row['text']}".strip() for row in corpus}

    def search(self, queries: Any, *, top_k: int, top_ranked: Any = None, **_: Any) -> dict[str, dict[str, float]]:
        """Scores by query and document, of documents that the task ranks already; others raise an InputError."""
        if top_ranked is None:
            raise InputError("a task without candidates: allowed are reranking tasks, or convert_to_reranking of MTEB")
        asked = {row["id"]: row["text"] for row in queries if row["id"] in top_ranked}
        jobs = [(text, [self._texts[doc_id] for doc_id in top_ranked[query_id]]) for query_id, text in asked.items()]
        rankings = self._reranker.rank_many(jobs, top_k=top_k)
        warn_of(*rankings)
        self.cost = sum((ranking.cost for ranking in rankings), self.cost)
        return {
            query_id: {top_ranked[query_id][one.index]: float(-rank) for rank, one in enumerate(ranking)}
            for query_id, ranking in zip(asked, rankings, strict=True)
        }
