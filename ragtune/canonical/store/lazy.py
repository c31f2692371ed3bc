"""A database that is connected when it is first asked."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ragtune.canonical.store.base import BaseDatabase, BaseStore
from ragtune.canonical.types import Collection
from ragtune.core.interfaces import BaseEmbedder


class LazyDatabase(BaseDatabase):
    """Connects at the first request for a collection; until then it is in order, and there is nothing to close."""

    def __init__(self, connect: Callable[[], BaseDatabase]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._database: BaseDatabase | None = None

    def open(
        self, name: str, embedder: BaseEmbedder, *, create: bool = False, analyzer: str | None = None
    ) -> BaseStore:
        return self._connected().open(name, embedder, create=create, analyzer=analyzer)

    def collections(self) -> list[Collection]:
        return self._connected().collections()

    def drop(self, name: str) -> bool:
        return self._connected().drop(name)

    def check(self) -> None:
        if self._database is not None:
            self._database.check()

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()

    def _connected(self) -> BaseDatabase:
        with self._lock:
            if self._database is None:
                self._database = self._connect()
            return self._database
