"""What only the controller may do while components are at work."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ragtune.core.errors import ControllerOnlyError


class _Block:
    """One block in which a gate is closed. A batch passes ten of them, and a generator's costs twice as much."""

    __slots__ = ("_before", "_gate")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        self._before = self._gate.closed_by
        self._gate.closed_by = (*self._before, self)

    def __exit__(self, *raised: object) -> None:
        if self in self._gate.closed_by:  # else it was a component's own block, left open and only now collected
            self._gate.closed_by = self._before


_MESSAGE = (
    "only the controller changes the pool and spends the budget: a component returns what it has to say, and reports "
    "costs to context.meter"
)


class Gate:
    """Open while the controller is in charge, and closed while a component works."""

    def __init__(self) -> None:
        self.closed_by: tuple[object, ...] = ()

    def closed(self) -> AbstractContextManager[None]:
        """Closed until the end of the block, whatever a component did to it in between."""
        return _Block(self)

    def require_open(self) -> None:
        """Let the controller pass.

        Raises:
            ControllerOnlyError: while a component is at work.
        """
        if self.closed_by:
            raise ControllerOnlyError(_MESSAGE)
