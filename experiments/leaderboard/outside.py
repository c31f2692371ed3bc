"""Replays a policy of another package: it runs in a process of its own, and its account is kept here."""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib.metadata import EntryPoint
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from experiments.replay.build import Session
from ragtune.core.errors import ConfigError
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.clock import VirtualClock
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.units import TOKENS, Unit

CHILD = Path(__file__).with_name("child.py")
PATIENCE_S = 60
"""Seconds in which a policy has to say something."""

SAMPLE = 8
"""Queries of each collection and budget that are replayed by fresh instances."""

_ENVIRONMENT = ("PATH", "HOME", "LANG", "SYSTEMROOT")


class Table(NamedTuple):
    """Where a policy plays: a collection, and the budget of each request."""

    session: Session
    depth: int  # candidates of a query
    unit: Unit
    budget: float
    window: int | None  # documents of a call at most


class Answer(NamedTuple):
    """The answer to a query, what its scores were charged in each of UNITS, and the policy's own work."""

    ranking: tuple[str, ...]
    charged: tuple[float, ...]
    cpu_ms: float


def play(entry: EntryPoint, table: Table, closed: Sequence[str]) -> list[Answer]:
    """Answers to all judged queries; ConfigError where fresh instances answer otherwise, in another order or by other ids.

    Args:
        closed: folders of which the policy may open no file.
    """
    judged = table.session.dataset.judged
    salt = secrets.token_hex()
    found = dict(zip(judged, _answers(entry, table, judged, salt, closed), strict=True))
    drawn = sorted(secrets.SystemRandom().sample(range(len(judged)), min(SAMPLE, len(judged))), reverse=True)
    sample = [judged[i] for i in drawn]
    for again, why in ((salt, "it remembers other queries"), (secrets.token_hex(), "it depends on ids")):
        for query_id, answer in zip(sample, _answers(entry, table, sample, again, closed), strict=True):
            if answer[:2] != found[query_id][:2]:
                raise ConfigError(
                    f"policy {entry.name!r}: a fresh instance answers {table.session.dataset.queries[query_id]!r} "
                    f"otherwise: {why} (random numbers: seed them with request.seed)"
                )
    return [found[query_id] for query_id in judged]


def _answers(
    entry: EntryPoint, table: Table, query_ids: Sequence[str], salt: str, closed: Sequence[str]
) -> Iterator[Answer]:
    with _Process(entry, closed) as process:
        for query_id in query_ids:
            yield _Account(entry.name, table, query_id, salt).answer(process)


class _Process:
    """A fresh instance of a policy. Messages are lines of JSON, which can carry no code."""

    def __init__(self, entry: EntryPoint, closed: Sequence[str]) -> None:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment |= {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        self._name = entry.name
        self._process = subprocess.Popen(  # noqa: S603 -- this very Python, and a file beside this one
            [sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env=environment
        )
        path = [str(Path(folder).absolute()) for folder in sys.path]
        start = {"path": path, "closed": list(closed), "module": entry.module, "attr": entry.attr}
        self.requests = 0
        self.exchange(start)

    def __enter__(self) -> _Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        """Say something and return the answer; ConfigError on a cheat, a failure or silence."""
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
            heard = select.select([self._process.stdout], [], [], PATIENCE_S)[0]
            answer: dict[str, Any] = json.loads(self._process.stdout.readline()) if heard else {"failed": "no answer"}
        except (OSError, ValueError):
            answer = {"failed": "its process ended"}
        for kind in ("cheat", "failed"):
            if kind in answer:
                self.__exit__(None, None, None)
                said = "refused: it " if kind == "cheat" else "failed: "
                raise ConfigError(f"policy {self._name!r} {said}{' '.join(str(answer[kind]).split())}")
        return answer


class _Account:
    """A request: its candidates by the ids that the policy sees, and what it has spent."""

    def __init__(self, policy: str, table: Table, query_id: str, salt: str) -> None:
        session, budget = table.session, CostBudget.only(**{table.unit.limit: table.budget}, assembly_token_buffer=0)
        self._policy, self._table = policy, table
        self._reranker = next(iter(session.rerankers.values()))
        tracker = budget.create_tracker(clock=VirtualClock())
        query = session.dataset.queries[query_id]
        self._context = RAGtuneContext(query=query, query_id=query_id, tracker=tracker)
        documents = session.parts["retriever"].retrieve(self._context, table.depth)
        items = [PoolItem.from_document(found, rank, found.sources) for rank, found in enumerate(documents)]
        self._items = {sha256(f"{salt} {query_id} {item.doc_id}".encode()).hexdigest()[:16]: item for item in items}
        self._id = sha256(f"{salt} {query_id}".encode()).hexdigest()[:16]

    def answer(self, process: _Process) -> Answer:
        """Ask the policy, and sell it scores until it has answered."""
        process.requests += 1
        number, query, unit = process.requests, self._context.query, self._table.unit
        message = process.exchange(
            {
                "number": number,
                "id": self._id,
                "query": query,
                "candidates": [
                    [doc_id, item.content, item.initial_rank, item.sources, self._price(item)]
                    for doc_id, item in self._items.items()
                ],
                "unit": unit.short,
                "budget": self._table.budget,
                "window": self._table.window,
                "seed": int(sha256(query.encode()).hexdigest()[:8], 16),
            }
        )
        while "score" in message:
            if message["number"] != number:
                raise ConfigError(f"policy {self._policy!r} refused: it asked for scores of a request that is closed")
            message = process.exchange(self._sold(message["score"]))
        ranking = message["answer"]
        if len(set(ranking)) < len(ranking) or not self._items.keys() >= set(ranking):
            raise ConfigError(f"policy {self._policy!r}: an answer has the ids of candidates, each of them once")
        rest = [doc_id for doc_id in self._items if doc_id not in set(ranking)]
        ids = tuple(self._items[doc_id].doc_id for doc_id in [*ranking, *rest])
        return Answer(ids, self._context.tracker.amounts(), message["cpu_ms"])

    def _price(self, item: PoolItem) -> float:
        unit = self._table.unit
        return float(getattr(self._reranker.expected_cost([item], self._context), unit.name)) if unit is TOKENS else 1

    def _sold(self, ids: Sequence[str]) -> dict[str, Any]:
        """Scores for ids, charged; or why not, and then nothing is charged."""
        table, most = self._table, self._table.window or len(self._items)
        if not 0 < len(ids) <= most or len(set(ids)) < len(ids) or not self._items.keys() >= set(ids):
            return {"denied": f"a call takes 1 to {most} candidates, each of them once"}
        items = [self._items[doc_id] for doc_id in ids]
        tracker = self._context.tracker
        cost = self._reranker.expected_cost(items, self._context)
        if short := tracker.charge(cost):
            return {
                "denied": f"the account, which is kept outside the policy, has {short.remaining:g} of {table.budget:g} "
                f"{table.unit.noun} left, and {len(ids)} documents cost {short.asked:g}"
            }
        found = self._reranker.rerank(items, self._context, "default")
        left = table.budget - getattr(tracker.spent(), table.unit.name)
        return {"scores": {doc_id: found[self._items[doc_id].doc_id] for doc_id in ids}, "left": left}
