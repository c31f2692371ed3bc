"""The examples in docstrings of the core run and print what they say."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "ragtune.core.interfaces",
        "ragtune.core.request.budget",
        "ragtune.core.statistics",
        "ragtune.core.tokens",
    ],
)
def test_examples_print_what_they_say(module: str) -> None:
    result = doctest.testmod(import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
