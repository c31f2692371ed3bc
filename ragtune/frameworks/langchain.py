"""A budgeted reranker as LangChain's document compressor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragtune.core.errors import MissingExtraError
from ragtune.facade.reranker import BudgetedReranker
from ragtune.frameworks.shared import ESTIMATED, first_scores, reranker_from, signals_of, warn_of

try:
    from langchain_core.callbacks import Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from pydantic import Field, PrivateAttr
except ImportError as error:
    raise MissingExtraError("ragtune.frameworks.langchain", "langchain") from error

SCORE = "relevance_score"
"""The key of a document's metadata that LangChain's rerankers leave their score in."""


class BudgetedCompressor(BaseDocumentCompressor):
    """Reranks what a retriever found, e.g. in a ``ContextualCompressionRetriever``.

    Documents come back best first, as copies with ``relevance_score`` in their metadata: the model's score, or an
    estimate where ``estimated`` is true. Where all documents have a ``relevance_score`` already, and none is an
    estimate, it is taken for the first stage's score; else their order counts. ``acompress_documents`` runs in a
    thread.

    ``model`` is a ``BudgetedReranker``, or its first argument beside the others as ``options``. ``signals`` are keys
    of the metadata.
    """

    model: Any = Field(frozen=True)
    top_k: int | None = None
    signals: Sequence[str] = ()
    options: dict[str, Any] = Field(frozen=True)
    _reranker: BudgetedReranker = PrivateAttr()

    def __init__(
        self,
        model: Any,
        *,
        top_k: int | None = None,
        signals: Sequence[str] = (),
        options: dict[str, Any] | None = None,
        **further: Any,
    ) -> None:
        options = {**(options or {}), **further}  # as model_dump() has them, or one by one
        super().__init__(model=model, top_k=top_k, signals=signals, options=options)  # type: ignore[call-arg]
        self._reranker = reranker_from(model, options)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        documents = list(documents)
        texts = [document.page_content for document in documents]
        scores = first_scores((one.metadata.get(SCORE), one.metadata) for one in documents)
        signals = signals_of(self.signals, [document.metadata for document in documents])
        ranking = self._reranker.rank(query, texts, scores, signals=signals, top_k=self.top_k)
        warn_of(ranking)
        marks = [{SCORE: one.score, ESTIMATED: one.estimated} for one in ranking]
        found = [documents[one.index] for one in ranking]
        return [
            one.model_copy(update={"metadata": one.metadata | mark}) for one, mark in zip(found, marks, strict=True)
        ]
