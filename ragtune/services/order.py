"""Writes in order of arrival: those of the same documents wait for each other, others do not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class _Turn:
    collection: str
    documents: frozenset[str] | None
    end: Future[None] = field(default_factory=Future)

    def meets(self, other: _Turn) -> bool:
        """Whether both write the same."""
        if self.collection != other.collection:
            return False
        return self.documents is None or other.documents is None or not self.documents.isdisjoint(other.documents)


class WriteOrder:
    """The writes that have arrived and have not ended. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: list[_Turn] = []

    @contextmanager
    def turn(self, collection: str, documents: frozenset[str] | None) -> Iterator[list[Future[None]]]:
        """A write from its arrival to its end.

        Args:
            collection: the collection that is written to.
            documents: ids of the documents that are written; None for the collection as a whole.

        Yields:
            The ends of the earlier writes that must be waited for.
        """
        turn = _Turn(collection, documents)
        with self._lock:
            before = [earlier.end for earlier in self._turns if earlier.meets(turn)]
            self._turns.append(turn)
        try:
            yield before
        finally:
            with self._lock:
                self._turns.remove(turn)
            turn.end.set_result(None)
