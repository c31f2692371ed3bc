"""The pipeline's first three stages as a first stage of the harness."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ragtune.core.component import declare_files
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseEmbedder, BaseRetriever
from ragtune.core.request.clock import VirtualClock
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.caches.diskcache import AUTO
from ragtune.data.corpus import Corpus
from ragtune.data.docvectors import DocumentVectors
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.options import PipelineConfig, load_options
from ragtune.superprompt.pipeline import build_pipeline
from ragtune.superprompt.stages.base import ORDER, FailedStageError
from ragtune.superprompt.super_prompt import ContextChunk, SuperPrompt


@declare_files(reads=["config"])
class SuperPromptRetriever(BaseRetriever):
    """A0, A2 and Retrieval (rules E5 to E7) of the raw prompt, one chunk a document, with scores in [-1, 1]."""

    def __init__(
        self,
        corpus: Corpus,
        embedder: BaseEmbedder | None = None,
        config: str | Path | None = None,
        limits: Mapping[str, float | None] | None = None,
        cache_dir: str | Path | None = AUTO,
    ) -> None:
        if embedder is not None and not isinstance(embedder, BaseEmbedder):
            raise ConfigError(f"embedder={embedder!r}: allowed is one that needs no collection, or null for TF-IDF")
        replaced = {name: value for name, value in (limits or {}).items() if value is not None}
        self.config: PipelineConfig = load_options(config, {"limits": replaced})
        vectors = None if embedder is None else DocumentVectors(corpus, embedder, cache_dir)
        chunks = [
            ContextChunk(doc_id=doc.id, chunk_index=0, content=doc.content, end=len(doc.content), source="memory")
            for doc in corpus
        ]
        self.memory = DocumentMemory(chunks, embedder, None if vectors is None else lambda: vectors.matrix)
        self._corpus = corpus
        self._pipeline = build_pipeline(self.config, memory=self.memory, rerank_stage=None, clock=VirtualClock())

    def prepare(self) -> None:
        self.memory.prepare()

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        sp = SuperPrompt.raw(context.query)
        try:
            sp = self._pipeline.run_stage(ORDER[0], sp)
        except FailedStageError as error:
            context.trace.add("retriever", "refuse", reason=str(error))
            return []
        for name in ORDER[1:3]:
            sp = self._pipeline.run_stage(name, sp)
        scores = sp.extras["retrieval"]["scores"]
        return [self._corpus.scored(i.rpartition("#")[0], scores[i]) for i in sp.views_by_stage["retrieval"][:top_k]]
