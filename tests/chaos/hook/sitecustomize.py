"""Kills a process at its n-th act of one kind, before Python runs anything else.

``CHAOS=kind:number:pid:folder``: the ``number``-th time (from 1; 0 for never) that this process does something of that
kind, the process group ``pid`` (0: this process alone) gets SIGKILL. Kinds are ``files``, changes of files below
``folder``, and ``requests``, sent by HTTP. At a regular end the count is written to the file ``CHAOS_COUNT`` names.
"""

import atexit
import itertools
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "sqlite3.connect", "shutil.copyfile"}
REQUESTS = {"http.client.send"}


def _watch(kind: str, number: int, pid: int, folder: str) -> None:
    counter = itertools.count(1)
    seen = [0]

    def is_one(event: str, arguments: tuple[object, ...]) -> bool:
        if kind == "requests":
            return event in REQUESTS
        if event == "open":
            path, mode, flags = arguments
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) if isinstance(flags, int) else mode != "r"
            return bool(writes) and _is_below(path)
        return event in CHANGES and any(map(_is_below, arguments))

    def _is_below(path: object) -> bool:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return False
        return str(Path(os.fsdecode(path)).absolute()).startswith(folder)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if is_one(event, arguments):
            seen[0] = next(counter)
            if seen[0] == number:
                (os.killpg if pid else os.kill)(pid or os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    if count_file := os.environ.get("CHAOS_COUNT"):
        atexit.register(_note, count_file, seen)


def _note(file: str, seen: list[int]) -> None:
    with suppress(OSError):  # of a full disk
        Path(file).write_text(str(seen[0]))


if plan := os.environ.pop("CHAOS", None):
    _kind, _number, _pid, _folder = plan.split(":", 3)
    _watch(_kind, int(_number), int(_pid), _folder)
