"""What every component declares about files (:class:`~ragtune.core.component.Component`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch


def require_declared_files(make: Callable[[], Any]) -> None:
    """Check that a component declares each argument which names a file or folder, as one that it reads or keeps.

    Args:
        make: makes the component, with the files that it reads at their places.

    Raises:
        AssertionError: naming the argument and the value.
    """
    kind = type(make())
    known = inspect.signature(kind).parameters
    assert set(kind.reads_files) <= known.keys(), f"{kind.__name__}.reads_files={kind.reads_files}: no arguments"
    for name, value in _arguments(kind, make).items():
        for path in _paths(value):
            assert name in {*kind.reads_files, *kind.keeps_files}, (
                f"{kind.__name__}({name}={str(path)!r}) names a file or folder: "
                "declare the argument in reads_files, or in keeps_files if the component writes it itself"
            )


def _arguments(kind: type, make: Callable[[], Any]) -> dict[str, Any]:
    """What the constructor of a class is given while a component is made."""
    original: Callable[..., None] = kind.__init__  # type: ignore[misc]
    signature = inspect.signature(original)
    given: dict[str, Any] = {}

    @wraps(original)
    def recording(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            given.update(value if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD else {name: value})
        original(self, *args, **kwargs)

    with patch.object(kind, "__init__", recording):
        made = make()
    assert type(made) is kind
    return given


def _paths(value: object) -> Iterator[Path]:
    """Files and folders that are there, of those that a value may name; a single word may be another kind of name."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _paths(one)
    elif isinstance(value, (str, Path)) and value:
        path = Path(value)
        with suppress(OSError, ValueError):  # it cannot be a path
            if path.is_file() or (path.is_dir() and len(path.parts) > 1):
                yield path
