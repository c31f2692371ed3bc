"""Tables of many queries, put together from tables of some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from experiments.evaluate.rows import Rows

T = TypeVar("T")


class Stack(Generic[T]):
    """Tables one below the other: data classes of columns, which are arrays, strings, or dictionaries by query.

    Args:
        folder: where columns are that take much room, see :class:`~experiments.evaluate.rows.Rows`.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._make: Callable[..., T] | None = None
        self._columns: dict[str, Any] = {}

    def add(self, table: T) -> None:
        """Add a table of the kind of those that are there."""
        if self._make is None:
            self._make = type(table)
            names = [field.name for field in fields(table)]  # type: ignore[arg-type]
            self._columns = {name: self._begun(getattr(table, name)) for name in names}
        for name, column in self._columns.items():
            more = getattr(table, name)
            column.update(more) if isinstance(column, dict) else column.extend(more)

    def whole(self) -> T:
        """All tables, of which there is at least one, as one."""
        if self._make is None:
            raise ValueError("there is no table")
        columns = self._columns.items()
        return self._make(**{name: each.whole() if isinstance(each, Rows) else each for name, each in columns})

    def _begun(self, column: Any) -> Any:
        if isinstance(column, np.ndarray):
            return Rows(self._folder)
        return {} if isinstance(column, dict) else []
