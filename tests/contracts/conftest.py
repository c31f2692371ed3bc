"""What the contract suites share. Each suite runs over a table of factories: add a line to cover a new component."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.config.compose import compose
from experiments.config.paths import CONF
from experiments.replay.build import component
from ragtune import Corpus, Document
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext

# huggingface_hub reads it once, when it is imported: no test may reach for a hub.
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def durable_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that outlives single tests, since contract tests build the same components again and again."""
    return tmp_path_factory.mktemp("contract-cache")


@pytest.fixture(autouse=True)
def private_cache(durable_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGTUNE_CACHE", str(durable_cache))
    return durable_cache


# -- policies: every estimator and scheduler that has a conf file, on pools that are out to break them -----------------

NAMES = {group: sorted(path.stem for path in (CONF / group).glob("*.yaml")) for group in ("estimator", "scheduler")}

WORDS = ["heart", "blood", "salt", "ship", "rope", "anchor", "bread", "honey", "tea", "star", "pressure", "loaf"]
TEXTS = [f"{WORDS[i % 12]} {WORDS[(i * 5 + 1) % 12]} {WORDS[(i * 7 + 3) % 12]} {WORDS[i % 4]}" for i in range(14)]


def _falling(count: int) -> list[float]:
    return [20.0 - 1.3 * i for i in range(count)]


@dataclass
class World:
    """A collection, what the first stage finds in it, what the reranker thinks of it.

    Attributes:
        texts: one a document.
        first: first-stage scores of the first documents, which are the pool; one list a source, None for a document
            that a source lacks.
        score_of: rerank score by document number.
        finds: documents that join after each batch.
    """

    texts: Sequence[str]
    first: Mapping[str, Sequence[float | None]]
    score_of: Callable[[int], float] = lambda i: (i * 7 % 10) / 10
    finds: int = 0
    corpus: Corpus = field(init=False)

    def __post_init__(self) -> None:
        self.corpus = Corpus(Document(id=f"d{i:02d}", text=text) for i, text in enumerate(self.texts))

    @property
    def size(self) -> int:
        """Documents that may ever be in the pool."""
        retrieved = max((len(scores) for scores in self.first.values()), default=0)
        return len(self.texts) if self.finds else retrieved

    def pool(self) -> CandidatePool:
        ids = self.corpus.doc_ids
        columns = list(zip(*self.first.values(), strict=True))
        found = [{s: v for s, v in zip(self.first, row, strict=True) if v is not None} for row in columns]
        docs = [self.corpus.scored(ids[i], max(sources.values())) for i, sources in enumerate(found)]
        return CandidatePool(PoolItem.from_document(doc, i, found[i]) for i, doc in enumerate(docs))

    def score(self, doc_id: str) -> float:
        return self.score_of(int(doc_id[1:]))

    def grow(self, pool: CandidatePool) -> bool:
        new = self.corpus.doc_ids[len(pool) : len(pool) + self.finds]
        docs = [self.corpus.scored(doc_id, 0.3) for doc_id in new]
        pool.add(PoolItem.from_document(doc, len(pool) + i, {"graph": doc.score}) for i, doc in enumerate(docs))
        return bool(new)


class TableReranker(BaseReranker):
    """Knows the world's scores."""

    def __init__(self, world: World) -> None:
        self._world = world

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        return {item.doc_id: self._world.score(item.doc_id) for item in items}

    @property
    def is_recorded(self) -> bool:
        return True


WORLDS: dict[str, Callable[[], World]] = {
    "plain": lambda: World(TEXTS, {"bm25": _falling(14)}),
    "two sources": lambda: World(TEXTS[:6], {"bm25": [9, 8, None, 5, 3, None], "dense": [0.9, None, 0.7, 0.2, 0.1, 0]}),
    "constant first stage": lambda: World(TEXTS, {"bm25": [3.0] * 14}),
    "one candidate": lambda: World(TEXTS, {"bm25": [3.0]}),
    "smaller than the batch": lambda: World(TEXTS, {"bm25": [3.0, 2.0]}),
    "empty pool": lambda: World(TEXTS, {"bm25": []}),
    "equal texts": lambda: World(["salt and bread"] * 12, {"bm25": _falling(12)}),
    "empty texts": lambda: World([""] * 12, {"bm25": _falling(12)}),
    "duplicates": lambda: World([t for t in TEXTS[:6] for _ in range(2)], {"bm25": _falling(12)}),
    "scores 0": lambda: World(TEXTS, {"bm25": _falling(14)}, lambda i: 0.0),
    "scores .5": lambda: World(TEXTS, {"bm25": _falling(14)}, lambda i: 0.5),
    "scores 1": lambda: World(TEXTS, {"bm25": _falling(14)}, lambda i: 1.0),
    "scores 0 or 1": lambda: World(TEXTS, {"bm25": _falling(14)}, lambda i: float(i % 2)),
    "huge first stage": lambda: World(TEXTS, {"bm25": [1e9, -1e9, *_falling(10)]}),
    "growing": lambda: World(TEXTS, {"bm25": _falling(5)}, finds=2),
    "growing from one": lambda: World(TEXTS[:4], {"bm25": [1.0]}, finds=1),
    "growing, equal texts": lambda: World(["salt"] * 10, {"bm25": _falling(4)}, finds=3),
    "growing, empty texts": lambda: World([""] * 10, {"bm25": [0.0] * 4}, finds=3),
}

NOTHING = "nothing to tell apart"


@cache
def _world(name: str) -> World:
    if name == NOTHING:
        return World(["salt and bread"] * 30, {"bm25": [1.0] * 30}, lambda i: 0.5)
    return WORLDS[name]()


@cache
def _config(group: str, name: str) -> dict[str, Any]:
    return compose([f"{group}={name}"])


def _estimator(name: str, world: World) -> Any:
    resources = {"corpus": world.corpus, "qrels": {}, "reranker": TableReranker(world)}
    return component(_config("estimator", name), "estimator", resources)


def _scheduler(name: str) -> Any:
    return component(_config("scheduler", name), "scheduler", {})


@pytest.fixture(scope="session")
def policies() -> SimpleNamespace:
    """Makes policies by name, as the harness does, and worlds."""
    return SimpleNamespace(estimator=_estimator, scheduler=_scheduler, world=_world)


@pytest.fixture(params=NAMES["estimator"])
def estimator_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=NAMES["scheduler"])
def scheduler_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest) -> World:
    return _world(request.param)
