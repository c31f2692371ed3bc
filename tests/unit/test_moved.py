"""Moved modules answer by their old paths for one release."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from ragtune._moved import MOVED


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_path_gives_the_moved_module_and_warns(old: str, new: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} has moved to {new}"):
        assert import_module(old) is import_module(new)
