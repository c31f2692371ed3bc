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
from ragtune.core.component import declare_files
from ragtune.core.errors import DatasetError, UnknownCollectionError
from ragtune.core.interfaces import BaseEmbedder, BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus

MODES = ("lexical", "vector", "hybrid")

_NOT_IN_NAMES = re.compile("[^A-Za-z0-9_.-]+")
_NAME_MAX = 50


@declare_files(keeps=["folder"])
class PostgresRetriever(BaseRetriever):
    """Searches the chunks of a PostgreSQL collection; a document has its best chunk's score, ties go by document id."""

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
        name = collection_name(dataset_name, corpus) if collection is None else collection
        try:
            place = None if folder is None else Path(folder).resolve()
            self._store = _connected(dsn or os.environ.get("RAGTUNE_DSN"), place).open(name, embedder)
        except UnknownCollectionError as error:
            raise UnknownCollectionError(f"{error}; {_advice(name)}") from None
        _check_documents(self._store, corpus)

    def prepare(self) -> None:
        if self._mode != "lexical":
            self._store.embedder.prepare()

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        pool = max(top_k, self._pool)
        while True:
            options = {"mode": self._mode, "k": pool, "candidate_pool": pool, "rrf_k": self._rrf_k}
            found = retrieve(context.query, RetrievalPlan.model_validate(options), self._store)
            documents = _by_document(found)
            if len(documents) >= top_k or len(found) < pool:
                break
            pool *= 2
        ranked = sorted(documents, key=lambda doc_id: (-documents[doc_id][0].score, doc_id))[:top_k]
        return [self._document(doc_id, documents[doc_id]) for doc_id in ranked]

    def _document(self, doc_id: str, chunks: Sequence[Candidate]) -> ScoredDocument:
        sources: dict[str, float] = {}
        if self._mode == "hybrid":
            for chunk in chunks:
                for name, score in chunk.sources.items():
                    sources[name] = max(score, sources.get(name, score))
        return self._corpus.scored(doc_id, chunks[0].score, sources)


def collection_name(dataset_name: str, corpus: Corpus) -> str:
    """A name by dataset and corpus digest, e.g. ``demo-1f3a5c7e`` for ``demo/test``: all splits share a corpus."""
    first = _NOT_IN_NAMES.sub("-", dataset_name.partition("/")[0]).strip("-_.")[:_NAME_MAX]
    return f"{first or 'corpus'}-{corpus.digest[:8]}"


@cache
def _connected(dsn: str | None, folder: Path | None) -> BaseDatabase:
    """The database, shared by all retrievers of a process."""
    return connect(dsn, folder)


def _by_document(found: Sequence[Candidate]) -> dict[str, list[Candidate]]:
    documents: dict[str, list[Candidate]] = {}
    for candidate in found:
        documents.setdefault(candidate.doc_id, []).append(candidate)
    return documents


def _check_documents(store: BaseStore, corpus: Corpus) -> None:
    stored = set(store.doc_ids())
    others = [doc_id for doc_id in stored if doc_id not in corpus]
    missing = [one.id for one in corpus if one.id not in stored and normalize(one.content).text.strip()]
    if others or missing:
        name = store.collection.name
        raise DatasetError(
            f"collection {name!r} lacks {len(missing)} documents of the dataset and has {len(others)} others, e.g. "
            f"{(missing + sorted(others))[0]!r}: {_advice(name)}; prune=true deletes the others"
        )


def _advice(name: str) -> str:
    return (
        f"ragtune ingest dataset=... store=postgres collection={name}, with this run's dataset and embedder, makes it"
    )
