"""A rerank stage over whole documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragtune.core.request.context import CostMeter
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus
from ragtune.superprompt.chunks import document_of
from ragtune.superprompt.reranking.base import BaseRerankStage, Reranked


class DocumentRerankStage(BaseRerankStage):
    """Asks a rerank stage about documents instead of chunks, under the query's id.

    So components that know documents and queries by id work in the pipeline: score tables, graphs, oracles.

    Args:
        rerank_stage: the stage that orders the documents.
        corpus: the documents; each is one chunk of the pipeline.
        query_id: id of the prompt's query.

    Attributes:
        outcome: the order of the documents; None before :meth:`order`.
    """

    def __init__(self, rerank_stage: BaseRerankStage, corpus: Corpus, query_id: str) -> None:
        self.rerank_stage = rerank_stage
        self.outcome: Reranked | None = None
        self._corpus = corpus
        self._query_id = query_id

    @property
    def label(self) -> str:
        return self.rerank_stage.label

    def order(
        self, query: str, candidates: Sequence[ScoredDocument], meter: CostMeter, query_id: str | None = None
    ) -> Reranked:
        chunk_ids = {document_of(chunk.id): chunk.id for chunk in candidates}
        documents = [self._corpus.scored(document_of(chunk.id), chunk.score) for chunk in candidates]
        self.outcome = self.rerank_stage.order(query, documents, meter, self._query_id)
        scores = {chunk_ids[doc_id]: score for doc_id, score in self.outcome.scores.items()}
        return replace(self.outcome, ids=[chunk_ids[doc_id] for doc_id in self.outcome.ids], scores=scores)
