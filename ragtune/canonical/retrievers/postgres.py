"""The harness's first stage on a canonical store."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ragtune.canonical.normalization import normalize
from ragtune.canonical.policies import RetrievalPlan
from ragtune.canonical.retrieval import retrieve
from ragtune.canonical.store.base import BaseDatabase, BaseStore
from ragtune.canonical.store.embedded import connect
from ragtune.canonical.types import Candidate
from ragtune.core.arguments import check_choice, check_count, check_number
from ragtune.core.errors import DatasetError, UnknownCollectionError
from ragtune.core.interfaces import BaseEmbedder, BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus

MODES = ("lexical", "vector", "hybrid")

_NOT_IN_NAMES = re.compile("[^A-Za-z0-9_.-]+")
_NAME_MAX = 50


class PostgresRetriever(BaseRetriever):
    """Searches a PostgreSQL collection with the chunks of the corpus, which ``ragtune ingest`` creates.

    A document has the score of its best chunk; equal scores are ordered by document id. The number of requested chunks
    doubles until there are ``top_k`` documents or no more chunks. In ``hybrid`` mode, ``sources`` has the document's
    best score in the lists ``vector`` and ``lexical``, and its score is the fused one.
    Documents have the text of the corpus, and the collection must hold the same text.

    Args:
        corpus: the corpus that the collection was made from.
        embedder: the embedder that the collection was made with.
        collection: name of the collection; None takes :func:`collection_name`.
        dataset_name: name of the corpus's dataset, for the collection's name.
        dsn: connection string or URI; None for ``$RAGTUNE_DSN``, else the embedded server in ``folder``.
        folder: folder of the embedded server; None takes :func:`ragtune.canonical.store.embedded.default_folder`.
        mode: ``lexical``, ``vector`` or ``hybrid``.
        candidate_pool: number of chunks of each list at first, >= 1; at least ``top_k`` are taken.
        rrf_k: constant k of reciprocal rank fusion, >= 0.

    Raises:
        MissingExtraError: without the extra ``postgres``.
        ConfigError: on an argument out of range.
        UnknownCollectionError: if there is no such collection; the message names the command that creates it.
        CollectionMismatchError: if it has another embedder; the message names both.
        DatasetError: if its documents are not those of the corpus.
        StoreError: if the server cannot be reached.
    """

    keeps_files = ("folder",)  # of the embedded server

    def __init__(
        self,
        corpus: Corpus,
        embedder: BaseEmbedder,
        collection: str | None = None,
        dataset_name: str = "",
        dsn: str | None = None,
        folder: str | Path | None = None,
        mode: str = "lexical",
        candidate_pool: int = 50,
        rrf_k: float = 60.0,
    ) -> None:
        self._corpus = corpus
        self._mode = check_choice("retriever.mode", mode, MODES)
        self._pool = check_count("retriever.candidate_pool", candidate_pool, low=1)
        self._rrf_k = check_number("retriever.rrf_k", rrf_k, low=0.0)
        self._checked: set[tuple[str, int]] = set()
        name = collection_name(dataset_name, corpus) if collection is None else collection
        try:
            self._store = _database(dsn, folder).open(name, embedder)
        except UnknownCollectionError as error:
            raise UnknownCollectionError(f"{error}; {_advice(name)}") from None
        _check_documents(self._store, corpus)

    def prepare(self) -> None:
        """Make the embedder ready, where queries are embedded."""
        if self._mode != "lexical":
            self._store.embedder.prepare()

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        pool = max(top_k, self._pool)
        while True:
            found = retrieve(context.query, self._plan(pool), self._store)
            documents = _by_document(found)
            if len(documents) >= top_k or len(found) < pool:
                break
            pool *= 2
        ranked = sorted(documents, key=lambda doc_id: (-documents[doc_id][0].score, doc_id))[:top_k]
        return [self._document(doc_id, documents[doc_id]) for doc_id in ranked]

    def _plan(self, pool: int) -> RetrievalPlan:
        return RetrievalPlan.model_validate(
            {"mode": self._mode, "k": pool, "candidate_pool": pool, "rrf_k": self._rrf_k}
        )

    def _document(self, doc_id: str, chunks: Sequence[Candidate]) -> ScoredDocument:
        self._check_text(chunks)
        sources: dict[str, float] = {}
        if self._mode == "hybrid":
            for chunk in chunks:
                for name, score in chunk.sources.items():
                    sources[name] = max(score, sources.get(name, score))
        return self._corpus.scored(doc_id, chunks[0].score, sources)

    def _check_text(self, chunks: Sequence[Candidate]) -> None:
        """Refuse a chunk whose text is not in the document."""
        for chunk in chunks:
            if chunk.key not in self._checked:
                if chunk.content not in normalize(self._corpus[chunk.doc_id].content).text:
                    name = self._store.collection.name
                    raise DatasetError(
                        f"collection {name!r} holds another text of document {chunk.doc_id!r} than the dataset; "
                        f"{_advice(name)}"
                    )
                self._checked.add(chunk.key)


def collection_name(dataset_name: str, corpus: Corpus) -> str:
    """The default name of a collection, e.g. ``demo-1f3a5c7e`` for ``demo/test``.

    It consists of the first part of the dataset's name, as all splits share a corpus, and of the corpus's digest.
    """
    first = _NOT_IN_NAMES.sub("-", dataset_name.partition("/")[0]).strip("-_.")[:_NAME_MAX]
    return f"{first or 'corpus'}-{corpus.digest[:8]}"


def _database(dsn: str | None, folder: str | Path | None) -> BaseDatabase:
    """The database, shared by all retrievers of a process."""
    return _connected(dsn or os.environ.get("RAGTUNE_DSN"), None if folder is None else Path(folder).resolve())


@cache
def _connected(dsn: str | None, folder: Path | None) -> BaseDatabase:
    return connect(dsn, folder)


def _by_document(found: Sequence[Candidate]) -> dict[str, list[Candidate]]:
    """Chunks by document, best first."""
    documents: dict[str, list[Candidate]] = {}
    for candidate in found:
        documents.setdefault(candidate.doc_id, []).append(candidate)
    return documents


def _check_documents(store: BaseStore, corpus: Corpus) -> None:
    name = store.collection.name
    stored = store.doc_ids()
    others = [doc_id for doc_id in stored if doc_id not in corpus]
    if others:
        raise DatasetError(
            f"collection {name!r} holds {len(others)} documents that the dataset lacks, e.g. {others[0]!r}: choose "
            f"another one, retriever.collection=NAME, or ingest it with prune=true: {_advice(name)}"
        )
    known = set(stored)
    missing = [one.id for one in corpus if one.id not in known and normalize(one.content).text.strip()]
    if missing:
        raise DatasetError(
            f"collection {name!r} lacks {len(missing)} documents of the dataset, e.g. {missing[0]!r}: {_advice(name)} "
            "whole"
        )


def _advice(name: str) -> str:
    return (
        f"ragtune ingest dataset=... store=postgres collection={name}, with this run's dataset and embedder, makes it"
    )
