"""Public modules that moved are still found under their old names, with a warning."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from ragtune.moved import MOVED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_name_gives_the_module_itself_with_a_warning(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} has moved to {MOVED[old]}"):
        found = import_module(old)
    new = import_module(MOVED[old])
    assert found is new
    assert new.__spec__ is not None
    assert new.__spec__.name == MOVED[old]


def test_a_name_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("ragtune.data.nothing_of_the_kind")
