"""Replays a policy of another package: it runs in a process of its own, and its account is kept here."""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_path
from typing import IO, Any, NamedTuple, cast

from experiments.replay.build import Session
from ragtune.core.errors import ConfigError
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.clock import VirtualClock
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.units import CALLS, Unit

CHILD = Path(__file__).with_name("child.py")
PATIENCE_S = 60
"""Seconds in which a policy has to say something."""

SAMPLE = 8
"""Queries of each collection and budget that are replayed by fresh instances."""


class Track(NamedTuple):
    """A collection in one unit, under one budget for each request."""

    session: Session
    depth: int  # candidates of a query
    unit: Unit
    budget: float
    window: int | None  # documents of a call at most


class PlayedQuery(NamedTuple):
    """The answer to a query, and what its scores were charged in each of UNITS."""

    ranking: tuple[str, ...]
    charged: tuple[float, ...]
    cpu_ms: float  # of the policy's own work


def play(entry: EntryPoint, track: Track, closed: Sequence[str]) -> list[PlayedQuery]:
    """Answers to all judged queries. ConfigError on a cheat, or where fresh instances answer a sample otherwise.

    The policy may open no file of the folders ``closed``.
    """
    judged, salt = track.session.dataset.judged, secrets.token_hex()
    found = list(_answers(entry, track, judged, salt, closed))
    drawn = sorted(secrets.SystemRandom().sample(range(len(judged)), min(SAMPLE, len(judged))), reverse=True)
    for names, why in ((salt, "it remembers other queries"), (secrets.token_hex(), "it depends on ids")):
        again = _answers(entry, track, [judged[i] for i in drawn], names, closed)
        if any(answer[:2] != found[i][:2] for i, answer in zip(drawn, again, strict=True)):
            raise ConfigError(f"policy {entry.name!r} refused: a fresh instance answers otherwise, so {why}")
    return found


def _answers(
    entry: EntryPoint, track: Track, query_ids: Sequence[str], salt: str, closed: Sequence[str]
) -> Iterator[PlayedQuery]:
    with closing(_Process(entry, closed)) as process:
        for number, query_id in enumerate(query_ids):
            yield _Account(track, query_id, salt).answer(process, number)


class _Process:
    """A fresh instance of a policy. Messages are lines of JSON, which can carry no code."""

    def __init__(self, entry: EntryPoint, closed: Sequence[str]) -> None:
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        environment |= {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        self._name = entry.name
        self._child = subprocess.Popen(  # noqa: S603 -- this very Python, and a file beside this one
            [sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env=environment
        )
        path = [str(Path(folder).absolute()) for folder in sys.path]
        own = find_spec(entry.module.partition(".")[0])
        folders = [] if own is None else own.submodule_search_locations or [str(Path(str(own.origin)).parent)]
        roots = {get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
        roots |= {str(Path(folder).absolute()) for folder in folders}
        start = {"path": path, "closed": list(closed), "roots": sorted(roots), "module": entry.module}
        self.exchange({**start, "attr": entry.attr})

    def cpu_ms(self) -> float:
        """Milliseconds of processor time so far, by Linux's clock of the process: its own word would not do."""
        return 1000 * time.clock_gettime(~self._child.pid << 3 | 2)

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()

    def refuse(self, why: str) -> ConfigError:
        self.close()
        return ConfigError(f"policy {self._name!r} {' '.join(why.split())}")

    def exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        """Say something and return the answer; ConfigError on a cheat, a failure or silence."""
        to, back = cast(IO[bytes], self._child.stdin), cast(IO[bytes], self._child.stdout)
        try:
            to.write(json.dumps(message).encode() + b"\n")
            to.flush()
            heard = select.select([back], [], [], PATIENCE_S)[0]
            answer: dict[str, Any] = json.loads(back.readline()) if heard else {}
        except (OSError, ValueError):
            answer = {}
        given = [answer[key] for key in ("score", "answer") if key in answer] if isinstance(answer, dict) else [None]
        if not all(isinstance(each, list) and all(isinstance(one, str) for one in each) for each in given):
            raise self.refuse("failed: what it said is no list of ids")
        if not answer.keys() & {"ready", "score", "answer"}:
            failed = f"failed: {answer.get('failed', 'no answer')}"
            raise self.refuse(f"refused: it {answer['cheat']}" if "cheat" in answer else failed)
        return answer


class _Account:
    """A request: its candidates by the ids that the policy sees, and what it has spent."""

    def __init__(self, track: Track, query_id: str, salt: str) -> None:
        session, limit = track.session, {track.unit.limit: track.budget}
        self._track, self._reranker = track, next(iter(session.rerankers.values()))
        self._tracker = CostBudget.only(**limit, assembly_token_buffer=0).create_tracker(clock=VirtualClock())
        query = session.dataset.queries[query_id]
        self._context = RAGtuneContext(query=query, query_id=query_id, tracker=self._tracker)
        documents = session.parts["retriever"].retrieve(self._context, track.depth)
        items = [PoolItem.from_document(found, rank, found.sources) for rank, found in enumerate(documents)]
        self._items = {_digest(salt, query_id, item.doc_id): item for item in items}
        self._id = _digest(salt, query_id)

    def answer(self, process: _Process, number: int) -> PlayedQuery:
        """Ask the policy, and sell it scores until it has answered."""
        track, query = self._track, self._context.query
        candidates = [
            [doc_id, item.content, item.initial_rank, item.sources, self._price(item)]
            for doc_id, item in self._items.items()
        ]
        question = {"number": number, "id": self._id, "query": query, "candidates": candidates}
        question |= {"unit": track.unit.short, "budget": track.budget, "window": track.window}
        begun = process.cpu_ms()
        message = process.exchange({**question, "seed": int(_digest(query), 16)})
        while "score" in message:
            if message.get("number") != number:
                raise process.refuse("refused: it asked for scores of a request that is closed")
            message = process.exchange(self._sold(message["score"]))
        ranking = message["answer"]
        if not self._has(ranking):
            raise process.refuse("failed: its answer is not ids of candidates, each of them once")
        ids = dict.fromkeys([*ranking, *self._items])  # the rest in the first stage's order
        order = tuple(self._items[doc_id].doc_id for doc_id in ids)
        return PlayedQuery(order, self._tracker.amounts(), process.cpu_ms() - begun)

    def _price(self, item: PoolItem) -> float:
        unit = self._track.unit
        return 0.0 if unit is CALLS else getattr(self._reranker.expected_cost([item], self._context), unit.name)

    def _has(self, ids: Sequence[str]) -> bool:
        return len(set(ids)) == len(ids) and self._items.keys() >= set(ids)

    def _sold(self, ids: Sequence[str]) -> dict[str, Any]:
        """Scores by id, charged; or why not, and then nothing is charged."""
        track, most = self._track, self._track.window or len(self._items)
        if not 0 < len(ids) <= most or not self._has(ids):
            return {"denied": f"a call takes 1 to {most} candidates, each of them once"}
        items = [self._items[doc_id] for doc_id in ids]
        if short := self._tracker.charge(self._reranker.expected_cost(items, self._context)):
            left = f"{short.remaining:g} of {track.budget:g} {track.unit.noun} left"
            return {
                "denied": f"the account, which is kept outside the policy, has {left}, and {short.asked:g} are asked"
            }
        found = self._reranker.rerank(items, self._context, "default")
        left_over = track.budget - getattr(self._tracker.spent(), track.unit.name)
        return {"scores": {doc_id: found[self._items[doc_id].doc_id] for doc_id in ids}, "left": left_over}


def _digest(*parts: str) -> str:
    return sha256(" ".join(parts).encode()).hexdigest()[:16]
