"""A budgeted reranker as a Haystack component."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from inspect import isroutine
from math import inf
from typing import Any

from ragtune.core.arguments import check_count
from ragtune.core.errors import MissingExtraError
from ragtune.frameworks.shared import ESTIMATED, first_scores, if_all, reranker_from, signals_of, warn_of

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.utils import deserialize_callable, serialize_callable
except ImportError as error:
    raise MissingExtraError("ragtune.frameworks.haystack", "haystack") from error

_FUNCTION = "function"


@component
class BudgetedRanker:
    """Reranks the documents that a retriever found.

    Where all documents have a score, it is taken for the first stage's, else their order counts; where all have an
    embedding, these tell which documents are alike. A pipeline with this component can be written down if its ``model``
    is a name, an address or a function that can be imported; ``Pipeline.load`` reads it with
    ``allowed_modules=["ragtune.frameworks.haystack"]``.

    ``model`` is a ``BudgetedReranker``, or its first argument beside the others as ``options``. ``signals`` are keys
    of the metadata.
    """

    def __init__(self, model: Any, *, top_k: int | None = None, signals: Sequence[str] = (), **options: Any) -> None:
        self._model, self._top_k, self._signals, self._options = model, top_k, list(signals), options
        self._reranker = reranker_from(model, options)
        if top_k is not None:
            check_count("top_k", top_k, low=1)

    def warm_up(self) -> None:
        self._reranker.warm_up()

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document], top_k: int | None = None) -> dict[str, list[Document]]:
        """The documents, best first, as copies with their new ``score``: the model's, or an estimate.

        ``meta["estimated"]`` is true where it is an estimate. Of documents with the same id the one with the highest
        score is kept, as by Haystack's rankers.
        """
        best: dict[str, Document] = {}
        for document in documents:
            if document.id not in best or _score(document) > _score(best[document.id]):
                best[document.id] = document
        documents = list(best.values())
        ranking = self._reranker.rank(
            query,
            [document.content for document in documents],  # type: ignore[misc]  # one without is refused by name
            first_scores((document.score, document.meta) for document in documents),
            vectors=if_all(document.embedding for document in documents),
            signals=signals_of(self._signals, [document.meta for document in documents]),
            top_k=self._top_k if top_k is None else top_k,
        )
        warn_of(ranking)
        found = [
            replace(given := documents[one.index], score=one.score, meta={**given.meta, ESTIMATED: one.estimated})
            for one in ranking
        ]
        return {"documents": found}

    def to_dict(self) -> dict[str, Any]:
        """What a pipeline's file keeps of this component."""
        model = {_FUNCTION: serialize_callable(self._model)} if isroutine(self._model) else self._model
        return default_to_dict(self, model=model, top_k=self._top_k, signals=self._signals, **self._options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> BudgetedRanker:
        arguments = data["init_parameters"]
        model = arguments.get("model")
        if isinstance(model, dict):
            arguments = {**arguments, "model": deserialize_callable(model[_FUNCTION])}
        return default_from_dict(cls, {**data, "init_parameters": arguments})


def _score(document: Document) -> float:
    return -inf if document.score is None else document.score
