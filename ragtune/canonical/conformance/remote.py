"""A server as a target: the operations of RAGtune's adapters, whoever offers them, REST and MCP alike."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel

from ragtune.canonical.conformance.targets import EMBEDDER, Content, Target
from ragtune.canonical.normalization import NormalizedText
from ragtune.canonical.policies import ChunkPolicy, CompressPolicy, RetrievalPlan
from ragtune.canonical.types import Candidate, CandidateSets, Chunk, Embedding, Excerpts, SourceDocument, StoreCounts
from ragtune.core.errors import RagtuneError

_PAGE = 100
_ONLY_ANALYZER = "english-1"  # of servers that conform with 1.0.0, which do not know the argument


class TargetError(RagtuneError):
    """A server refused a request, or gave no answer of the agreed form."""


class RemoteTarget(Target):
    """What the transports have in common.

    Args:
        name: name of the target, shown to people.
        reranker: the server's name for the reranker of the golden answers; None if it has none.
    """

    def __init__(self, name: str, reranker: str | None) -> None:
        self.name = name
        self.has_reranker = reranker is not None
        self._reranker = reranker

    @abstractmethod
    def call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call an operation with a request and a response in JSON.

        Raises:
            TargetError: if the server refuses, fails, or cannot be reached.
        """

    def normalize(self, content: Content) -> NormalizedText:
        return NormalizedText.model_validate(self.call("normalize", {"content": _content(content)}))

    def chunk(self, document: SourceDocument, policy: ChunkPolicy) -> list[Chunk]:
        arguments = {
            "content": _content(document.content),
            "policy": policy.model_dump(),
            "doc_id": document.doc_id,
            "tags": document.tags,
            "metadata": document.metadata,
        }
        return _chunks(self.call("chunk", arguments))

    def embed(self, texts: Sequence[str]) -> Embedding:
        answer = self.call("embed", {"texts": list(texts), "embedder": EMBEDDER})
        return np.asarray(answer["embeddings"], dtype=np.float32).reshape(len(texts), answer["embed_dims"])

    def create(self, collection: str, analyzer: str) -> None:
        arguments = {"collection": collection, "embedder": EMBEDDER}
        try:
            self.call("create_collection", {**arguments, "analyzer": analyzer})
        except TargetError:
            if analyzer != _ONLY_ANALYZER:
                raise
            self.call("create_collection", arguments)

    def drop(self, collection: str) -> None:
        self.call("delete_collection", {"collection": collection})

    def index(self, collection: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
        return self.call("index", {"collection": collection, "chunks": _dump(chunks)})

    def delete(self, collection: str, doc_ids: Sequence[str]) -> int:
        return int(self.call("delete_documents", {"collection": collection, "doc_ids": list(doc_ids)})["deleted"])

    def chunks(self, collection: str, doc_id: str) -> list[Chunk]:
        return _chunks(self.call("get_chunks", {"collection": collection, "doc_id": doc_id}))

    def doc_ids(self, collection: str) -> list[str]:
        found: list[str] = []
        while True:
            after = {"after": found[-1]} if found else {}
            page = self.call("list_documents", {"collection": collection, "limit": _PAGE, **after})["doc_ids"]
            found += page
            if len(page) < _PAGE:
                return found

    def counts(self, collection: str) -> StoreCounts:
        answer = self.call("get_collection", {"collection": collection})
        return StoreCounts(documents=answer["documents"], chunks=answer["chunks"])

    def retrieve(self, collection: str, query: str, plan: RetrievalPlan) -> list[Candidate]:
        return _candidates(self.call("retrieve", {"collection": collection, "query": query, "plan": plan.model_dump()}))

    def fuse(self, candidate_sets: CandidateSets, method: str, params: Mapping[str, Any]) -> list[Candidate]:
        given: Any
        if isinstance(candidate_sets, Mapping):
            given = {name: _dump(candidates) for name, candidates in candidate_sets.items()}
        else:
            given = [_dump(candidates) for candidates in candidate_sets]
        return _candidates(self.call("fuse", {"candidate_sets": given, "method": method, "params": dict(params)}))

    def rerank(self, query: str, candidates: Sequence[Candidate]) -> list[Candidate]:
        arguments = {"query": query, "candidates": _dump(candidates), "model": self._reranker}
        return _candidates(self.call("rerank", arguments))

    def compress(self, query: str, candidates: Sequence[Candidate], policy: CompressPolicy) -> list[dict[str, Any]]:
        arguments = {"query": query, "candidates": _dump(candidates), "policy": policy.model_dump()}
        excerpts: list[dict[str, Any]] = self.call("compress", arguments)["excerpts"]
        return excerpts

    def package(
        self, query: str, candidates: Sequence[Candidate], excerpts: Excerpts | None, include_content: bool
    ) -> dict[str, Any]:
        arguments = {
            "query": query,
            "candidates": _dump(candidates),
            "excerpts": None if excerpts is None else [dict(excerpt) for excerpt in excerpts],
            "include_content": include_content,
        }
        return self.call("package", arguments)


def _content(content: Content) -> Any:
    return content if isinstance(content, str) else _dump(content)


def _dump(values: Sequence[BaseModel]) -> list[dict[str, Any]]:
    return [value.model_dump(mode="json") for value in values]


def _chunks(answer: Mapping[str, Any]) -> list[Chunk]:
    return [Chunk.model_validate(chunk) for chunk in answer["chunks"]]


def _candidates(answer: Mapping[str, Any]) -> list[Candidate]:
    return [Candidate.model_validate(candidate) for candidate in answer["candidates"]]
