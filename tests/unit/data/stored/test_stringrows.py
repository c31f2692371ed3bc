"""Strings come back as they were added, wherever they are kept."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from ragtune.data.stored import rows, stringrows
from ragtune.data.stored.stringrows import StringRows, gathered, strings_at

STRINGS = ["q1", "", "zwei", "日本語", "q1", "ünder", "x" * 90]


@pytest.mark.parametrize("room", [0, 40, 10**6])
def test_strings_are_a_sequence_of_what_was_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(rows, "_ROOM", room)
    monkeypatch.setattr(rows, "_BLOCK", 2)
    monkeypatch.setattr(stringrows, "_AT_ONCE", 2)
    added = StringRows(tmp_path)
    assert list(added.whole()) == []
    for start, end in ((0, 0), (0, 3), (3, 4), (4, 7)):
        added.extend(STRINGS[start:end])
        assert list(added.whole()) == STRINGS[:end]
    found = added.whole()
    assert (len(found), found[0], found[-1], found[3]) == (7, "q1", STRINGS[-1], "日本語")
    for some in (slice(2, 5), slice(5, None), slice(3, 3), slice(5, 2), slice(6, 99), slice(99, None), slice(-2, None)):
        assert list(found[some]) == STRINGS[some]
        assert found[some] == STRINGS[some]
        assert list(found[some][1:]) == STRINGS[some][1:]
    assert STRINGS == found == gathered(STRINGS)
    assert found != STRINGS[:-1]
    assert found != [*STRINGS[:-1], "y"]
    assert found != "".join(STRINGS)
    assert "zwei" in found
    with pytest.raises(IndexError):
        found[7]
    for some in (slice(None, None, 2), slice(None, None, -1), slice(5, 1, -3), slice(1, 5, -1), slice(4, None, 9)):
        assert found[some] == STRINGS[some]
    for same in (found, found[2:5], found[::3]):
        assert pickle.loads(pickle.dumps(same)) == same
    places = np.array([6, 0, 3, 3, 1])
    for folder in (tmp_path, None):
        assert strings_at(found, places, folder) == [STRINGS[place] for place in places]
    assert list(tmp_path.iterdir()) == []


def test_a_slice_travels_without_the_other_strings() -> None:
    many = gathered(map(str, range(10_000)))
    assert len(pickle.dumps(many[70:73])) < 400
