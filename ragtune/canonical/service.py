"""The canonical blocks over one database, as every service adapter calls them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence, Sized
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar

from ragtune.canonical.analyzers import same_model
from ragtune.canonical.chunking import chunk
from ragtune.canonical.embedding import embed
from ragtune.canonical.permit import current
from ragtune.canonical.policies import ChunkPolicy, RetrievalPlan
from ragtune.canonical.retrieval import index, retrieve
from ragtune.canonical.store.base import BaseDatabase, BaseStore
from ragtune.canonical.types import Candidate, Chunk, Collection, SourceDocument
from ragtune.core.arguments import check_choice
from ragtune.core.errors import ConfigError, InputError, UnknownCollectionError
from ragtune.core.interfaces import BaseEmbedder, BaseReranker
from ragtune.data.caches.diskcache import AUTO

T = TypeVar("T")


class LimitExceededError(InputError):
    """A request exceeds a limit of the service; the message names the value and the limit."""


_PROBE, _CHUNKS_EACH = 16, 20  # texts whose time predicts that of all; chunks that a request may make of a batch's one
MAX_K = 1000
"""The most candidates that a request may ask for."""


class RagService:
    """A database with embedders (the first is the default) and rerankers that clients choose by name; thread-safe.

    A function that opens the database is called when a collection is first asked for. ``max_batch`` is the most texts,
    chunks, documents or candidates of a request. A write whose texts would take longer than ``timeout_s`` to embed is
    refused after the first of them.
    """

    def __init__(
        self,
        database: BaseDatabase | Callable[[], BaseDatabase],
        embedders: Mapping[str, BaseEmbedder],
        rerankers: Mapping[str, BaseReranker] = MappingProxyType({}),
        max_batch: int = 1000,
        cache_dir: str | Path | None = AUTO,
        timeout_s: float | None = None,
    ) -> None:
        if not embedders:
            raise ConfigError("embedders={}: allowed is at least one")
        self._database = database
        self._opening = threading.Lock()
        self.embedders = dict(embedders)
        self.rerankers = dict(rerankers)
        self._max_batch = max_batch
        self._default = next(iter(self.embedders))
        self.cache_dir = cache_dir
        self._timeout_s = timeout_s
        self._stores: dict[str, BaseStore] = {}

    @property
    def database(self) -> BaseDatabase:
        with self._opening:
            if callable(self._database):
                self._database = self._database()
            return self._database

    def check(self) -> None:
        if not callable(self._database):
            self._database.check()

    def close(self) -> None:
        if not callable(self._database):
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def create_collection(
        self, collection: str, embedder: str | None = None, analyzer: str | None = None
    ) -> Collection:
        """Return a collection, created with the embedder and analyzer if it is missing."""
        return self.database.open(collection, self.embedder(embedder)[1], create=True, analyzer=analyzer).collection

    def drop_collection(self, collection: str) -> bool:
        """Delete a collection and return whether it existed."""
        self._stores.pop(collection, None)
        return self.database.drop(collection)

    def index(self, collection: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
        self.check_batch("chunks", chunks)
        return self.on(collection, lambda store: self._index(chunks, store))

    def _index(self, chunks: Sequence[Chunk], store: BaseStore) -> dict[str, Any]:
        self.check_limit("chunks", len(chunks), _CHUNKS_EACH * self._max_batch)
        if self._timeout_s is not None and len(chunks) > _PROBE:
            started = time.monotonic()
            embed(chunks[:_PROBE], store.embedder)
            seconds = (time.monotonic() - started) * len(chunks) / _PROBE
            if seconds > self._timeout_s:
                fitting = int(len(chunks) * self._timeout_s / seconds)
                raise LimitExceededError(
                    f"{len(chunks)} chunks would take about {seconds:.0f} s to embed, allowed are {self._timeout_s:g}: "
                    f"send at most {fitting} at once, raise --timeout, or use ragtune ingest, which has no limit"
                )
        return index(chunks, store)

    def ingest(self, collection: str, documents: Sequence[SourceDocument], policy: ChunkPolicy) -> dict[str, Any]:
        """Normalize, chunk, embed and index documents; those without a visible character are deleted."""
        self.check_batch("documents", documents)
        chunked: dict[str, list[Chunk]] = {}
        for document in documents:
            if document.doc_id in chunked:
                raise InputError(f"documents: {document.doc_id[:100]!r} occurs twice, allowed is once")
            current().check()
            chunked[document.doc_id] = chunk(document, policy)
        empty = [doc_id for doc_id, chunks in chunked.items() if not chunks]

        def work(store: BaseStore) -> dict[str, Any]:
            counts = self._index([one for chunks in chunked.values() for one in chunks], store)
            gone = sum(len(store.chunks(doc_id)) for doc_id in empty)
            if gone:
                store.delete(empty)
            return {**counts, "documents": len(documents), "deleted": counts["deleted"] + gone}

        return self.on(collection, work)

    def retrieve(self, collection: str, query: str, plan: RetrievalPlan) -> list[Candidate]:
        self.check_limit("k", plan.k, MAX_K)
        self.check_limit("candidate_pool", plan.candidate_pool, MAX_K)
        return self.on(collection, lambda store: retrieve(query, plan, store, cache_dir=None))

    def embedder(self, name: str | None) -> tuple[str, BaseEmbedder]:
        """An embedder with its name for clients; None is the default."""
        chosen = self._default if name is None else check_choice("embedder", name, self.embedders)
        return chosen, self.embedders[chosen]

    def on(self, collection: str, work: Callable[[BaseStore], T]) -> T:
        """``work(store)``, repeated if the collection was dropped and created again since it was opened."""
        store = self._stores.get(collection)
        if store is not None:
            try:
                return work(store)
            except UnknownCollectionError:
                self._stores.pop(collection, None)
        kept = next((one.embed_model for one in self.database.collections() if one.name == collection), None)
        fitting = (embedder for embedder in self.embedders.values() if kept and same_model(kept, embedder.name))
        store = self.database.open(collection, next(fitting, self.embedders[self._default]))
        self._stores[collection] = store
        return work(store)

    def check_batch(self, name: str, items: Sized) -> None:
        """Refuse more items than a request may have."""
        self.check_limit(name, len(items), self._max_batch)

    def check_limit(self, name: str, value: int, limit: int | None = None) -> None:
        limit = self._max_batch if limit is None else limit
        if value > limit:
            raise LimitExceededError(f"{name}: {value} asked for, allowed are at most {limit}")
