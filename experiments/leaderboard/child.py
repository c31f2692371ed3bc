"""The process of an outside policy, run as a script. It has the standard library, and neither scores nor judgments."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial, reduce
from importlib import import_module
from itertools import accumulate
from typing import Any, NamedTuple

NATIVE = ("pyarrow", "duckdb", "polars", "fastparquet", "h5py", "lmdb")
"""Packages that open files without Python's knowledge."""

CLOSED = (
    *("subprocess.", "pty.spawn", "socket.", "ctypes.dlsym", "sqlite3.connect", "gc.get_", "shutil."),
    *("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.mkdir", "os.symlink", "os.link"),
    *("os.rename", "os.remove", "os.rmdir", "os.truncate", "os.utime", "os.setxattr", "os.chmod"),
    *("fork_exec", "shm_open"),
)
"""Events of other programs, of the network, of other memory, and of files that would outlast the replay."""

UNHEARD = {"_posixsubprocess": "fork_exec", "_posixshmem": "shm_open"}
"""Functions that raise no event, by their modules: they get one of their name."""

CODE = (".py", ".pyc", ".so", "/entry_points.txt", "/METADATA")
DEVICES = (
    *("/dev/null", "/dev/urandom", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat"),
    *("/proc/self/maps", "/proc/self/cgroup", "/proc/self/stat", "/proc/self/status", "/proc/self/mountinfo"),
)
MACHINE = ("/sys/fs/cgroup/", "/sys/devices/system/", "/usr/share/zoneinfo/", "/etc/")
"""What libraries ask about the machine."""


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


def guard(closed: Sequence[str], roots: Sequence[str], out: int) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that ends the process where the policy reaches for anything but code and files below ``roots``.

    It holds what it calls, since a policy can replace the names of every module. What it holds are defaults that cannot
    be changed, no cells or functions of Python: a policy may reach its frame.
    """

    def hook(
        event: str,
        arguments: tuple[Any, ...],
        kind: Any = type,
        text: Any = str,
        write: Any = os.write,
        end: Any = os._exit,
        native: Any = NATIVE,
        events: Any = CLOSED,
        shut: Any = tuple(f"{folder}/" for folder in closed),
        opened: Any = (*MACHINE, *(f"{folder}/" for folder in roots)),
        code: Any = CODE,
        devices: Any = (*DEVICES, *sys.path),
        writing: int = os.O_WRONLY | os.O_RDWR,
        out: int = out,
    ) -> None:
        what = f"used {event}" if text.startswith(event, events) else ""
        if event == "import" and text.partition(arguments[0], ".")[0] in native:
            raise ImportError(f"{arguments[0]} is closed to policies: it opens files without Python's knowledge")
        if event == "open" and kind(arguments[0]) is not int:  # which is open already
            path, flags = arguments[0], arguments[2]
            name = text.rpartition(path, "/")[2] if kind(path) is text else "bytes"
            if kind(path) is not text or kind(flags) is not int:
                what = f"opened {name}"
            elif flags & writing and path != "/dev/null":
                what = f"wrote {name}"
            else:
                is_hidden = "/../" in path or "/./" in path or "//" in path or text.startswith(path, shut)
                is_open = path in devices or text.startswith(path, opened) or text.endswith(path, code)
                what = f"opened {name}" if is_hidden or not is_open else ""
        if what:
            write(out, b'{"cheat": "%s"}\n' % text.encode(what, "ascii", "replace").replace(b'"', b"'"))
            end(1)

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
    for module, name in UNHEARD.items():
        setattr(import_module(module), name, partial(sys.audit, name))
    sys.addaudithook(guard(start["closed"], start["roots"], out))
    message: dict[str, Any] = {"ready": True}
    try:
        policy = reduce(getattr, start["attr"].split("."), import_module(start["module"]))()  # type: ignore[operator]
    except Exception as error:
        message = {"failed": f"{type(error).__name__}: {error}"}
    while True:
        question = exchange(message)
        try:
            message = {"answer": [str(doc_id) for doc_id in policy.rank(PolicyRequest(exchange, **question))]}
        except Exception as error:
            message = {"failed": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
