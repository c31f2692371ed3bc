"""A target's answers to the fixed inputs, as JSON that can be compared and pinned."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ragtune.canonical.conformance import Json, Observations, generated_chunks
from ragtune.canonical.conformance.targets import EMBEDDER, Target
from ragtune.canonical.types import Embedding

SKIPPED = {"skipped": "the target has no reranker"}

_BATCH = 1000  # chunks of a request that every server accepts
_PAGE = 100  # document ids, more than the fixtures have


def observe(target: Target, fixtures: Json) -> Observations:
    """The target's answers by case; a case that fails is ``{"error": ...}``. Its collections are dropped at the end."""
    observer = _Observer(target, fixtures, f"conformance-{uuid.uuid4().hex[:12]}")
    observations: Observations = {}
    try:
        for name, case in observer.cases():
            try:
                observations[name] = case()
            except Exception as error:
                observations[name] = {"error": f"{type(error).__name__}: {error}"}
    finally:
        for name in observer.collections:
            with suppress(Exception):  # a failure of the target is already in the observations
                target.call("delete_collection", {"collection": name})
    return observations


class _Observer:
    """The cases as calls, in the order in which they must happen."""

    def __init__(self, target: Target, fixtures: Json, collection: str) -> None:
        self.collection = collection
        self._target = target
        self._fixtures = fixtures
        self._stored: dict[tuple[str, int], Json] = {}

    @property
    def collections(self) -> list[str]:
        return [self.collection, *(self._name(group) for group in self._fixtures["groups"])]

    def cases(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        for document in self._fixtures["documents"]:
            yield f"normalize/{document['doc_id']}", partial(self._call, "normalize", content=document["content"])
            for policy in self._fixtures["policies"]:
                yield f"chunk/{policy}/{document['doc_id']}", partial(self._chunks, document, policy, _place)
            yield f"embed/{document['doc_id']}", partial(self._embedded, document)
        yield "embed/the same twice, alone and together", self._embedded_twice
        yield "store/index", self._index
        yield "store/index again", self._index
        yield "store/change a document", self._change
        yield "store/change it back", self._index
        yield "store/delete documents", self._delete
        yield "store/index what was deleted", self._index
        yield "store/contents", self._contents
        for case in self._fixtures["queries"]:
            yield case["name"], partial(self._answer, case, self.collection)
        for group in self._fixtures["groups"]:
            yield f"store/group {group['name']}", partial(self._index_group, group)
            for case in group["queries"]:
                yield case["name"], partial(self._answer, case, self._name(group))

    def _call(self, operation: str, **arguments: Any) -> Json:
        return self._target.call(operation, arguments)

    def _chunks(self, document: Json, policy: str, view: Callable[[Json], Any] = dict) -> list[Any]:
        given = {**document, "policy": self._fixtures["policies"][policy]}
        return [view(chunk) for chunk in self._call("chunk", **given)["chunks"]]

    def _own_chunks(self, documents: Sequence[Json]) -> list[Json]:
        """The documents as they are stored, each cut by its own policy."""
        return [one for document in documents for one in self._chunks(document, document["policy"])]

    def _vectors(self, texts: Sequence[str]) -> Embedding:
        answer = self._call("embed", texts=list(texts), embedder=EMBEDDER)
        return np.asarray(answer["embeddings"], dtype=np.float32).reshape(len(texts), answer["embed_dims"])

    def _embedded(self, document: Json) -> Any:
        texts = [chunk["content"] for chunk in self._own_chunks([document])]
        return _describe(self._vectors(texts)) if texts else None

    def _embedded_twice(self) -> Any:
        texts = [case["query"] for case in self._fixtures["queries"]]
        together = self._vectors(texts)
        alone = np.concatenate([self._vectors([text]) for text in texts])
        return {**_describe(together), "same": together.tobytes() == alone.tobytes()}

    def _index(self) -> Any:
        chunks = self._own_chunks(self._fixtures["documents"])
        self._stored = {_key(chunk): chunk for chunk in chunks}
        about = {"embedder": EMBEDDER, "analyzer": self._fixtures["analyzer"]}
        self._call("create_collection", collection=self.collection, **about)
        counts = self._call("index", collection=self.collection, chunks=chunks)
        keys = [tuple(key) for key in counts.pop("keys")]
        same = counts.pop("collection") == self.collection and keys == list(self._stored)
        return {**counts, "keys_are_those_given": same}

    def _name(self, group: Json) -> str:
        return f"{self.collection}-{group['name']}"

    def _index_group(self, group: Json) -> Any:
        generated = generated_chunks(group.get("generated", 0))
        chunks = self._own_chunks(group.get("documents", [])) + generated
        self._stored |= {_key(chunk): chunk for chunk in chunks}
        about = {"embedder": EMBEDDER, "analyzer": group["analyzer"]}
        self._call("create_collection", collection=self._name(group), **about)
        for start in range(0, len(chunks), _BATCH):
            self._call("index", collection=self._name(group), chunks=chunks[start : start + _BATCH])
        return self._counts(self._name(group))

    def _counts(self, collection: str) -> Json:
        answer = self._call("get_collection", collection=collection)
        return {name: answer[name] for name in ("documents", "chunks")}

    def _chunks_of(self, doc_id: str) -> list[Json]:
        chunks: list[Json] = self._call("get_chunks", collection=self.collection, doc_id=doc_id)["chunks"]
        return chunks

    def _change(self) -> Any:
        change = self._fixtures["change"]
        document = next(one for one in self._fixtures["documents"] if one["doc_id"] == change["doc_id"])
        chunks = self._own_chunks([{**document, "content": change["content"]}])
        counts = self._call("index", collection=self.collection, chunks=chunks)
        del counts["collection"]
        return {**counts, "stored": [_place(chunk) for chunk in self._chunks_of(change["doc_id"])]}

    def _delete(self) -> Any:
        doc_ids = [self._fixtures["documents"][0]["doc_id"], "no such document"]
        deleted = self._call("delete_documents", collection=self.collection, doc_ids=doc_ids)["deleted"]
        left = len(self._chunks_of(doc_ids[0]))
        return {"deleted": deleted, **self._counts(self.collection), "chunks_left_of_it": left}

    def _contents(self) -> Any:
        doc_ids = self._call("list_documents", collection=self.collection, limit=_PAGE)["doc_ids"]
        stored = [chunk for doc_id in doc_ids for chunk in self._chunks_of(doc_id)]
        return {
            **self._counts(self.collection),
            "doc_ids": doc_ids,
            "chunks_are_those_given": {_key(chunk): chunk for chunk in stored} == self._stored,
            "digest": _digest(_canonical(stored)),
        }

    def _answer(self, case: Json, collection: str) -> Any:
        if case.get("rerank") and self._target.reranker is None:
            return SKIPPED
        candidates = self._candidates(case, collection)
        given = {"query": case["query"], "candidates": candidates}
        answer: Json = {"candidates": [self._hit(candidate) for candidate in candidates]}
        excerpts = None
        if "compress" in case:
            excerpts = self._call("compress", policy=case["compress"], **given)["excerpts"]
            answer["excerpts"] = excerpts
        if "package" in case:
            answer["package"] = self._call("package", excerpts=excerpts, include_content=case["package"], **given)
        return answer

    def _candidates(self, case: Json, collection: str) -> list[Json]:
        def ranked(plan: Any) -> list[Json]:
            given = {"collection": collection, "query": case["query"], "plan": plan}
            found: list[Json] = self._call("retrieve", **given)["candidates"]
            return found

        plans = case["plans"]
        has_names = isinstance(plans, dict)
        lists: Any = {name: ranked(plan) for name, plan in plans.items()} if has_names else list(map(ranked, plans))
        if "fuse" in case:
            candidates = self._call("fuse", candidate_sets=lists, **case["fuse"])["candidates"]
        else:
            (candidates,) = lists.values() if has_names else lists
        if case.get("rerank"):
            given = {"query": case["query"], "candidates": candidates, "model": self._target.reranker}
            candidates = self._call("rerank", **given)["candidates"]
        return list(candidates)

    def _hit(self, candidate: Json) -> Json:
        stored = self._stored[_key(candidate)]
        same = all(candidate[name] == stored[name] for name in ("content", "tags", "metadata"))
        shown = {name: candidate[name] for name in ("doc_id", "chunk_index", "score", "sources")}
        return {**shown, "is_the_stored_chunk": same}


def _key(chunk: Json) -> tuple[str, int]:
    return chunk["doc_id"], chunk["chunk_index"]


def _place(chunk: Json) -> Any:
    """Index and span of a chunk, with a digest of the rest."""
    place = [chunk["chunk_index"], chunk["start"], chunk["end"]]
    rest = {name: chunk[name] for name in ("doc_id", "content", "tags", "metadata")}
    return [*place, _digest(_canonical(rest))[:16]]


def _describe(vectors: Embedding) -> Json:
    """Vectors by the digest of their bits, little-endian."""
    return {"vectors": len(vectors), "dims": vectors.shape[1], "digest": _digest(vectors.astype("<f4").tobytes())}


def _canonical(value: Sequence[Any] | Json) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
