"""Strings and ids on disk: each is found, in whatever order they are asked for, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragtune.data.stored import strings as ids_module
from ragtune.data.stored.strings import IdIndex, StoredStrings

NAMES = [*(f"q{i}" for i in range(300)), "zoë", "東京", "a", *("u" * 3000 + end for end in ("b", "", "a"))]
UNKNOWN = ["", "q", "q300", "u" * 65, "q1\0", "\ud800", None, 1]


@pytest.fixture(params=[2**32, 7])  # many ids have the same hash
def _hashes_below(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    crc32 = ids_module.crc32
    monkeypatch.setattr(ids_module, "crc32", lambda data: crc32(data) % request.param)


def index(names: list[str], folder: Path) -> tuple[StoredStrings, int | None]:
    folder.mkdir()
    StoredStrings.save(names, folder, "names")
    ids = StoredStrings.load(folder, "names")
    return ids, IdIndex.write(ids, folder)


@pytest.mark.usefixtures("_hashes_below")
def test_ids_are_found_at_their_positions_in_any_order(tmp_path: Path) -> None:
    names, twice = index(NAMES, tmp_path / "ids")
    assert twice is None
    ids = IdIndex(tmp_path / "ids", names)
    for order in (list(range(len(NAMES))), np.random.default_rng(0).permutation(len(NAMES)).tolist(), [5, 5, 300], []):
        assert ids.positions([NAMES[i] for i in order]).tolist() == order
    assert [ids.get(name) for name in NAMES] == list(range(len(NAMES)))
    assert [ids.get(name) for name in UNKNOWN] == [None] * len(UNKNOWN)
    for name in UNKNOWN[:-2]:
        assert ids.positions(["a", str(name), "q1"]).tolist() == [NAMES.index("a"), -1, 1]


@pytest.mark.usefixtures("_hashes_below")
def test_the_first_id_that_comes_again_is_named_and_no_ids_are_none(tmp_path: Path) -> None:
    assert index(["b", "a", "x" * 70, "c", "a", "b"], tmp_path / "twice")[1] == 4
    none, _ = index([], tmp_path / "none")
    assert IdIndex(tmp_path / "none", none).positions(["a"]).tolist() == [-1]


def test_strings_are_a_sequence_of_what_was_saved(tmp_path: Path) -> None:
    strings = ["q1", "", "zwei", "日本語", "q1", "ünder", "x" * 90]
    StoredStrings.save(strings, tmp_path, "some")
    found = StoredStrings.load(tmp_path, "some")
    assert (list(found), len(found), found[0], found[-1], found[3]) == (strings, 7, "q1", strings[-1], "日本語")
    for some in (slice(2, 5), slice(3, 3), slice(6, 99), slice(-2, None), slice(None, None, -1), slice(5, 1, -3)):
        assert found[some] == strings[some]
    assert found.at(np.array([6, 0, 3, 3, 1])) == [strings[i] for i in (6, 0, 3, 3, 1)]
    assert "zwei" in found
    with pytest.raises(IndexError):
        found[7]
    with (tmp_path / "some.utf8").open("ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match="another size"):
        StoredStrings.load(tmp_path, "some")
