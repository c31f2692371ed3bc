"""What was asked for lately."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
    """Values by key that are looked up when they are first asked for; all are forgotten once there are too many.

    Args:
        look_up: the value of a key, perhaps among others that are likely to be asked for next.
        most: values from which on it begins anew.
    """

    def __init__(self, look_up: Callable[[K], Mapping[K, V]], most: int) -> None:
        self._look_up, self._most = look_up, most

    def __missing__(self, key: K) -> V:
        found = self._look_up(key)
        value = found[key]
        if len(self) >= self._most:
            self.clear()
        self.update(found)
        return value
