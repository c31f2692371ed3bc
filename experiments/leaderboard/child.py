"""The process of an outside policy, run as a script. It has the standard library, and neither scores nor judgments."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import reduce
from importlib import import_module
from itertools import accumulate
from typing import Any, NamedTuple

NATIVE = {"pyarrow", "duckdb", "polars", "fastparquet", "h5py", "lmdb"}
"""Packages that open files without Python's knowledge."""

ESCAPES = ("subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "socket.")
"""Events of other programs and of the network."""


class PolicyCandidate(NamedTuple):
    """A document that the first stage found."""

    id: str  # differs between requests and runs
    text: str
    rank: int  # of the first stage, 0 for its best
    scores: dict[str, float]  # of the first stages, by their names
    cost: float  # of its score, in the unit of the budget; 0 for calls


class PolicyRequest:
    """One query: its candidates, best first, and the only way to their scores."""

    id: str  # differs between runs
    query: str
    unit: str  # docs, calls or tokens
    budget: float
    left: float
    window: int | None  # documents of a call at most; scores then hold in their call only
    seed: int  # for random numbers: the same in every run

    def __init__(self, exchange: Callable[[Any], Any], number: int, candidates: Sequence[Any], **facts: Any) -> None:
        self._exchange, self._number = exchange, number
        self.candidates = [PolicyCandidate(*each) for each in candidates]
        vars(self).update(facts, left=facts["budget"])

    def score(self, ids: Sequence[str]) -> dict[str, float]:
        """Pay for one call of the reranker, and return its scores by id; ValueError, at no cost, if it is refused."""
        answer = self._exchange({"score": list(ids), "number": self._number})
        if "denied" in answer:
            raise ValueError(answer["denied"])
        self.left, scores = answer["left"], answer["scores"]
        return dict(scores)

    def affordable(self, ids: Sequence[str], budget: float | None = None) -> list[str]:
        """The first of these ids that one call can score within a budget, by default all that is left."""
        costs = {each.id: each.cost for each in self.candidates}
        most = self.left if budget is None else budget
        sums = accumulate(costs[doc_id] for doc_id in ids)
        return [doc_id for doc_id, spent in zip(ids, sums, strict=True) if spent <= most][: self.window]


def guard(closed: Sequence[str], out: int) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that ends the process where the policy reaches for anything but its own code."""

    def refuse(what: str, path: str = "") -> None:
        os.write(out, (json.dumps({"cheat": f"{what} {path.rpartition(os.sep)[2]}".strip()}) + "\n").encode())
        os._exit(1)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "import" and arguments[0].partition(".")[0] in NATIVE:
            raise ImportError(f"{arguments[0]} is closed to policies: it opens files without Python's knowledge")
        if event.startswith(ESCAPES):
            refuse(f"used {event}")
        if event != "open" and not event.startswith(("os.", "shutil.", "sqlite3.")):
            return
        paths = [os.fsdecode(each) for each in arguments if isinstance(each, (str, bytes, os.PathLike))]
        for path in map(os.path.realpath, paths[:1] if event == "open" else paths):
            if any(path == folder or path.startswith(folder + os.sep) for folder in closed):
                refuse("opened", path)
        if event == "open" and paths and paths[0] != os.devnull and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            refuse("wrote", paths[0])

    return hook


def main() -> None:
    """Answer questions until there are no more."""
    questions, out = os.fdopen(os.dup(0)), os.dup(1)
    os.dup2(2, 1)  # what the policy prints
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def exchange(message: Any) -> Any:
        os.write(out, (json.dumps(message) + "\n").encode())
        return json.loads(questions.readline() or os._exit(0))

    start = json.loads(questions.readline())
    sys.path[:], sys.dont_write_bytecode = start["path"], True
    sys.addaudithook(guard([*start["closed"], f"/proc/{os.getppid()}"], out))
    message: dict[str, Any] = {"ready": True}
    try:
        policy = reduce(getattr, start["attr"].split("."), import_module(start["module"]))()  # type: ignore[operator]
    except Exception as error:
        message = {"failed": f"{type(error).__name__}: {error}"}
    while True:
        question = exchange(message)
        begun = time.process_time()
        try:
            ranking = [str(doc_id) for doc_id in policy.rank(PolicyRequest(exchange, **question))]
            message = {"answer": ranking, "cpu_ms": (time.process_time() - begun) * 1000}
        except Exception as error:
            message = {"failed": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
