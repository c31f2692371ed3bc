"""How compared runs are called: as shortly as tells them apart."""

from __future__ import annotations

import pytest

from experiments.compare.run_folder import distinct_names


@pytest.mark.parametrize(
    ("trails", "names"),
    [
        ([("r", "fixed"), ("r", "ours")], ["fixed", "ours"]),
        ([("sw1", "0"), ("sw2", "0"), ("sw2", "1")], ["sw1/0", "sw2/0", "1"]),
        ([("a", "x", "0"), ("b", "x", "0"), ("b", "y", "0")], ["a/x/0", "b/x/0", "y/0"]),
        ([("0",), ("a", "0")], ["0", "a/0"]),
        ([("a", "0")], ["0"]),
    ],
)
def test_folders_are_called_by_as_many_parents_as_needed(trails: list[tuple[str, ...]], names: list[str]) -> None:
    assert distinct_names([["/".join(t[-n:]) for n in range(1, len(t) + 1)] for t in trails]) == names


def test_ids_are_as_long_as_needed() -> None:
    ids = ["a" * 32, "a" * 12 + "b" * 20, "c" * 32]
    assert distinct_names([[i[:n] for n in range(8, 33)] for i in ids]) == ["a" * 13, "a" * 12 + "b", "c" * 8]
