"""What only the controller may do while components are at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ragtune.core.errors import ControllerOnlyError


class Gate:
    """A gate that is open while the controller is in charge, and closed while a component works.

    Args:
        message: text of the error that a component gets when the gate is closed.
    """

    def __init__(self, message: str) -> None:
        self._message = message
        self._closed_by: frozenset[object] = frozenset()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Closed until the end of the block, whatever a component did to it in between."""
        before, mine = self._closed_by, object()
        self._closed_by = before | {mine}
        try:
            yield
        finally:
            if mine in self._closed_by:  # else it was a component's own block, left open and only now collected
                self._closed_by = before

    def require_open(self) -> None:
        """Let the controller pass.

        Raises:
            ControllerOnlyError: while a component is at work.
        """
        if self._closed_by:
            raise ControllerOnlyError(self._message)
