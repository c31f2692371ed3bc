"""The fixed inputs of conformance and their golden answers: JSON, shipped with the package, pinned per version."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from pydantic import BaseModel, ConfigDict

from ragtune.canonical.conformance import SPEC
from ragtune.canonical.policies import ChunkPolicy, CompressPolicy, RetrievalPlan
from ragtune.canonical.types import Chunk, SourceDocument

CORPUS, QUERIES, GOLDEN = "corpus.json", "queries.json", "golden.json"

Observations = dict[str, Any]
"""What a target answered, as JSON: by case, ``block/...``."""


class FixtureDocument(SourceDocument):
    """A document of the corpus.

    Attributes:
        policy: name of the policy by which it is cut for the store; all policies cut it for the cases of ``chunk``.
    """

    policy: str


class Fusion(BaseModel):
    """How a case merges its lists: the arguments of :func:`ragtune.canonical.fuse`."""

    method: str = "rrf"
    params: dict[str, Any] = {}

    model_config = ConfigDict(frozen=True, extra="forbid")


class QueryCase(BaseModel):
    """A query and what is done with it, one block after the other.

    Attributes:
        name: ``block/what it is about``; the block is the last one.
        query: the query, any text.
        plans: retrieval plans by name or in order; each makes one ranked list.
        fuse: how the lists are merged; None where there is one list.
        rerank: whether the candidates are scored anew by the target's reranker.
        compress: how excerpts are made; None makes no excerpts.
        package: whether the answer is packaged with the candidates' content (true) or without (false); None does not
            package it.
    """

    name: str
    query: str
    plans: dict[str, RetrievalPlan] | tuple[RetrievalPlan, ...]
    fuse: Fusion | None = None
    rerank: bool = False
    compress: CompressPolicy | None = None
    package: bool | None = None

    model_config = ConfigDict(frozen=True, extra="forbid")


class Change(BaseModel):
    """A later state of a document that is in the corpus."""

    doc_id: str
    content: str

    model_config = ConfigDict(frozen=True, extra="forbid")


class Group(BaseModel):
    """Another collection, with its queries.

    Attributes:
        name: name of the group.
        analyzer: text analysis of the collection.
        documents: its documents, in the order in which they are indexed.
        generated: number of chunks that :func:`generated_chunks` adds.
        queries: the query cases that it answers.
    """

    name: str
    analyzer: str
    documents: tuple[FixtureDocument, ...] = ()
    generated: int = 0
    queries: tuple[QueryCase, ...]

    model_config = ConfigDict(frozen=True, extra="forbid")


class Fixtures(BaseModel):
    """All inputs of a specification version.

    Attributes:
        analyzer: text analysis of the collection.
        policies: chunking policies by name.
        documents: the corpus, in the order in which it is indexed.
        change: what one document is changed to and back from.
        queries: the query cases.
        groups: other collections.
    """

    policies: dict[str, ChunkPolicy]
    documents: tuple[FixtureDocument, ...]
    change: Change
    queries: tuple[QueryCase, ...]
    analyzer: str = "english-1"
    groups: tuple[Group, ...] = ()

    model_config = ConfigDict(frozen=True, extra="forbid")


def load_fixtures(spec: str = SPEC) -> Fixtures:
    """The inputs of a version, one of :data:`ragtune.canonical.conformance.SPECS`."""
    return Fixtures.model_validate({**_read(spec, CORPUS), "queries": _read(spec, QUERIES)["cases"]})


def load_golden(spec: str = SPEC) -> Observations:
    """The golden answers to them."""
    golden: Observations = _read(spec, GOLDEN)["cases"]
    return golden


def dump_golden(observations: Observations, spec: str = SPEC) -> str:
    """The text of the golden file: ASCII, a line a case, so that differences are readable."""
    cases = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in observations.items())
    return f'{{"spec": "{spec}", "cases": {{\n{cases}\n}}}}\n'


def generated_chunks(count: int) -> list[Chunk]:
    """Chunks of 8 to 27 made-up words, frequent and rare ones, the same on every platform.

    Every 50th is tagged ``few``, every third ``many``; ``page`` is 0 to 6.
    """
    state, made = 1, []
    for place in range(count):
        words = []
        for _ in range(8 + place % 20):
            state = state * 6364136223846793005 + 1442695040888963407 & 2**64 - 1  # Knuth's MMIX
            rank = (state >> 33) % 3000
            words.append(f"word{rank * rank // 3000}")
        tags = tuple(tag for tag, each in (("few", 50), ("many", 3)) if place % each == 0)
        chunk = Chunk(doc_id=f"g{place:05d}", chunk_index=0, content=" ".join(words), tags=tags)
        made.append(chunk.model_copy(update={"metadata": {"page": place % 7}, "end": len(chunk.content)}))
    return made


def _read(spec: str, name: str) -> Any:
    file = files("ragtune.canonical.conformance") / f"v{spec}" / name
    return json.loads(file.read_text(encoding="utf-8"))
