"""Several first stages, merged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ragtune.core.arguments import check_count
from ragtune.core.component import queries_of
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseFusion, BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus


class HybridRetriever(BaseRetriever):
    """Runs every retriever and fuses the lists; each document's ``sources`` names the retrievers that found it."""

    def __init__(
        self,
        corpus: Corpus,
        retrievers: Mapping[str, Callable[[Corpus], BaseRetriever]],
        fusion: BaseFusion,
        depth_each: int = 100,
    ) -> None:
        if not retrievers:
            raise ConfigError("hybrid retrievers={}: name at least one, e.g. retrievers={bm25: ...}")
        self.depth_each = check_count("hybrid depth_each", depth_each, low=1)
        self._retrievers = {name: make(corpus) for name, make in retrievers.items()}
        self._fusion = fusion

    def prepare(self) -> None:
        for retriever in self._retrievers.values():
            retriever.prepare()

    def recorded_queries(self) -> Mapping[str, Collection[str]]:
        return {name: ids for part in self._retrievers.values() for name, ids in queries_of(part).items()}

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        depth = max(top_k, self.depth_each)
        lists = {name: retriever.retrieve(context, depth) for name, retriever in self._retrievers.items()}
        return self._fusion.fuse(lists)[:top_k]
