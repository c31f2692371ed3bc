"""What a target answers to the fixed inputs, as JSON that can be compared and pinned."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ragtune.canonical.conformance.fixtures import (
    FixtureDocument,
    Fixtures,
    Group,
    Observations,
    QueryCase,
    generated_chunks,
)
from ragtune.canonical.conformance.targets import Target
from ragtune.canonical.types import Candidate, Chunk, Embedding, SourceDocument

Observe = Callable[[], Any]
Progress = Callable[[int, int], None]
"""Called with (cases done, cases in all)."""

_BATCH = 1000  # chunks of a request that every server takes

SKIPPED = {"skipped": "the target has no reranker"}


def observe(target: Target, fixtures: Fixtures, progress: Progress = lambda done, total: None) -> Observations:
    """The target's answers by case. A case that fails is ``{"error": ...}`` and leaves the others alone.

    Everything happens in a collection of its own, which is dropped at the end.
    """
    observer = _Observer(target, fixtures, f"conformance-{uuid.uuid4().hex[:12]}")
    cases = dict(observer.cases())
    observations: Observations = {}
    try:
        for done, (name, case) in enumerate(cases.items(), start=1):
            observations[name] = _attempt(case)
            progress(done, len(cases))
    finally:
        for name in observer.collections:
            with suppress(Exception):  # whatever is wrong with the target has been observed
                target.drop(name)
    return observations


def _attempt(case: Observe) -> Any:
    try:
        return case()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


class _Observer:
    """The cases as calls, in the order in which they must happen."""

    def __init__(self, target: Target, fixtures: Fixtures, collection: str) -> None:
        self.collection = collection
        self._target = target
        self._fixtures = fixtures
        self._stored: dict[tuple[str, int], Chunk] = {}

    @property
    def collections(self) -> list[str]:
        """Names of all collections that are made."""
        return [self.collection, *(self._name(group) for group in self._fixtures.groups)]

    def cases(self) -> Iterator[tuple[str, Observe]]:
        for document in self._fixtures.documents:
            yield f"normalize/{document.doc_id}", partial(self._normalized, document)
            for policy in self._fixtures.policies:
                yield f"chunk/{policy}/{document.doc_id}", partial(self._places, document, policy)
            yield f"embed/{document.doc_id}", partial(self._embedded, document)
        yield "embed/the same twice, alone and together", self._embedded_twice
        yield "store/index", self._index
        yield "store/index again", self._index
        yield "store/change a document", self._change
        yield "store/change it back", self._index
        yield "store/delete documents", self._delete
        yield "store/index what was deleted", self._index
        yield "store/contents", self._contents
        for case in self._fixtures.queries:
            yield case.name, partial(self._answer, case, self.collection)
        for group in self._fixtures.groups:
            yield f"store/group {group.name}", partial(self._index_group, group)
            for case in group.queries:
                yield case.name, partial(self._answer, case, self._name(group))

    def _normalized(self, document: SourceDocument) -> Any:
        return self._target.normalize(document.content).model_dump(mode="json")

    def _chunks(self, document: SourceDocument, policy: str) -> list[Chunk]:
        plain = SourceDocument(**document.model_dump(include=set(SourceDocument.model_fields)))
        return self._target.chunk(plain, self._fixtures.policies[policy])

    def _places(self, document: SourceDocument, policy: str) -> Any:
        return [_place(chunk) for chunk in self._chunks(document, policy)]

    def _own_chunks(self) -> list[Chunk]:
        """The corpus as it is stored, every document cut by its own policy."""
        return [one for document in self._fixtures.documents for one in self._chunks(document, document.policy)]

    def _embedded(self, document: FixtureDocument) -> Any:
        texts = [chunk.content for chunk in self._chunks(document, document.policy)]
        return _describe(self._target.embed(texts)) if texts else None

    def _embedded_twice(self) -> Any:
        texts = [case.query for case in self._fixtures.queries]
        together = self._target.embed(texts)
        alone = np.concatenate([self._target.embed([text]) for text in texts])
        return {**_describe(together), "same": together.tobytes() == alone.tobytes()}

    def _index(self) -> Any:
        chunks = self._own_chunks()
        self._stored = {(chunk.doc_id, chunk.chunk_index): chunk for chunk in chunks}
        self._target.create(self.collection, self._fixtures.analyzer)
        counts = self._target.index(self.collection, chunks)
        keys = [list(key) for key in counts.pop("keys")]
        same = counts.pop("collection") == self.collection and keys == [list(key) for key in self._stored]
        return {**counts, "keys_are_those_given": same}

    def _name(self, group: Group) -> str:
        return f"{self.collection}-{group.name}"

    def _index_group(self, group: Group) -> Any:
        chunks = [one for document in group.documents for one in self._chunks(document, document.policy)]
        chunks += generated_chunks(group.generated)
        self._stored |= {(chunk.doc_id, chunk.chunk_index): chunk for chunk in chunks}
        self._target.create(self._name(group), group.analyzer)
        for start in range(0, len(chunks), _BATCH):
            self._target.index(self._name(group), chunks[start : start + _BATCH])
        return self._target.counts(self._name(group)).model_dump()

    def _change(self) -> Any:
        change = self._fixtures.change
        document = next(one for one in self._fixtures.documents if one.doc_id == change.doc_id)
        chunks = self._chunks(document.model_copy(update={"content": change.content}), document.policy)
        counts = self._target.index(self.collection, chunks)
        del counts["collection"]
        return {**counts, "stored": [_place(chunk) for chunk in self._target.chunks(self.collection, change.doc_id)]}

    def _delete(self) -> Any:
        doc_ids = [self._fixtures.documents[0].doc_id, "no such document"]
        deleted = self._target.delete(self.collection, doc_ids)
        left = self._target.counts(self.collection).model_dump()
        return {"deleted": deleted, **left, "chunks_left_of_it": len(self._target.chunks(self.collection, doc_ids[0]))}

    def _contents(self) -> Any:
        doc_ids = self._target.doc_ids(self.collection)
        stored = [chunk for doc_id in doc_ids for chunk in self._target.chunks(self.collection, doc_id)]
        return {
            **self._target.counts(self.collection).model_dump(),
            "doc_ids": doc_ids,
            "chunks_are_those_given": {(chunk.doc_id, chunk.chunk_index): chunk for chunk in stored} == self._stored,
            "digest": _digest(_canonical([chunk.model_dump(mode="json") for chunk in stored])),
        }

    def _answer(self, case: QueryCase, collection: str) -> Any:
        if case.rerank and not self._target.has_reranker:
            return SKIPPED
        candidates = self._candidates(case, collection)
        answer: dict[str, Any] = {"candidates": [self._hit(candidate) for candidate in candidates]}
        excerpts = None
        if case.compress is not None:
            excerpts = answer["excerpts"] = self._target.compress(case.query, candidates, case.compress)
        if case.package is not None:
            answer["package"] = self._target.package(case.query, candidates, excerpts, case.package)
        return answer

    def _candidates(self, case: QueryCase, collection: str) -> list[Candidate]:
        def ranked(plan: Any) -> list[Candidate]:
            return self._target.retrieve(collection, case.query, plan)

        if case.fuse is None:
            (plan,) = case.plans.values() if isinstance(case.plans, dict) else case.plans
            candidates = ranked(plan)
        else:
            lists: Any = (
                {name: ranked(plan) for name, plan in case.plans.items()}
                if isinstance(case.plans, dict)
                else [ranked(plan) for plan in case.plans]
            )
            candidates = self._target.fuse(lists, case.fuse.method, case.fuse.params)
        return self._target.rerank(case.query, candidates) if case.rerank else candidates

    def _hit(self, candidate: Candidate) -> dict[str, Any]:
        stored = self._stored[candidate.key]
        same = all(getattr(candidate, name) == getattr(stored, name) for name in ("content", "tags", "metadata"))
        return {
            "doc_id": candidate.doc_id,
            "chunk_index": candidate.chunk_index,
            "score": candidate.score,
            "sources": candidate.sources,
            "is_the_stored_chunk": same,
        }


def _place(chunk: Chunk) -> Any:
    """Index, span, and what tells whether the rest is as it should be."""
    rest = chunk.model_dump(mode="json", exclude={"chunk_index", "start", "end"})
    return [chunk.chunk_index, chunk.start, chunk.end, _digest(_canonical(rest))[:16]]


def _describe(vectors: Embedding) -> dict[str, Any]:
    """Vectors by the digest of their bits, little-endian."""
    return {"vectors": len(vectors), "dims": vectors.shape[1], "digest": _digest(vectors.astype("<f4").tobytes())}


def _canonical(value: Sequence[Any] | dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
