"""Ids on disk: each is found, in whatever order they are asked for, and nothing else is."""

from __future__ import annotations

import gc
import pickle
import weakref
from pathlib import Path

import numpy as np
import pytest

from ragtune.data.stored import storedids
from ragtune.data.stored.storedids import StoredIds
from ragtune.data.stored.stringrows import gathered

NAMES = [
    *(f"q{i}" for i in range(300)),
    "zoë",
    "東京",
    "a",
    *("u" * length + end for length in (63, 64, 3000) for end in ("b", "", "a")),
]
UNKNOWN = ["", "q", "q300", "zz", "u" * 65, "u" * 64 + "aa", "q1\0", "\ud800", None, 1]


@pytest.fixture
def ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredIds:
    monkeypatch.setattr(storedids, "_REMEMBERED", 50)
    StoredIds.save(gathered(NAMES), tmp_path)
    return StoredIds.load(tmp_path)


def test_ids_are_found_at_their_positions_in_any_order(ids: StoredIds) -> None:
    assert (list(ids), len(ids)) == (NAMES, len(NAMES))
    shuffled = np.random.default_rng(0).permutation(len(NAMES)).tolist()
    for order in (range(len(NAMES)), range(len(NAMES) - 1, -1, -1), shuffled, [5, 5, 6, 4, 310, 0]):
        names = [NAMES[i] for i in order]
        assert [ids[name] for name in names] == ids.places(names).tolist() == list(order)
        assert ids.places(gathered(names)).tolist() == list(order)
        assert not any(name in ids for name in UNKNOWN)
        for name in UNKNOWN[:-2]:
            assert ids.places(["a", name, "q1"]).tolist() == [NAMES.index("a"), -1, 1]
    assert len(ids._found) < 50 + 64  # and those read ahead with the last one, whatever has been asked for before


def test_ids_that_are_asked_for_together_are_searched_together(ids: StoredIds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids._found, "_searched", None)
    assert ids.places(["q7", "東京", "q200", "a"]).tolist() == [7, NAMES.index("東京"), 200, NAMES.index("a")]


def test_ids_are_read_in_their_own_order(ids: StoredIds) -> None:
    ordered = sorted(NAMES)
    for places in (range(len(NAMES)), [7, 3, 3], []):
        assert ids.at_places(np.array(places, dtype=int)) == [ordered[place] for place in places]


def test_some_of_the_ids_stay_where_they_are(ids: StoredIds) -> None:
    few = ids.only(["q7", "a", "q200", "unknown"])
    assert dict(few) == {"q7": 7, "q200": 200, "a": NAMES.index("a")}
    assert (len(few), [name for name in NAMES if name in few]) == (3, ["q7", "q200", "a"])
    assert dict(few.only(["a", "q8"])) == {"a": NAMES.index("a")}
    assert few.places(["q7", "q8", "", NAMES[-1]]).tolist() == [7, -1, -1, -1]
    assert ids.only([NAMES[-1]]).places(["", NAMES[-1]]).tolist() == [-1, len(NAMES) - 1]


def test_the_first_id_that_comes_again_is_told_and_no_ids_are_none(tmp_path: Path) -> None:
    names = ["b", "a", "x" * 70, "b", "a", "x" * 70]
    assert StoredIds.index(6, lambda i: names[i].encode(), 70, tmp_path) == 3
    assert StoredIds.index(3, lambda i: names[i].encode(), 70, tmp_path) is None
    (tmp_path / "none").mkdir()
    assert StoredIds.save(gathered([]), tmp_path / "none") is None
    none = StoredIds.load(tmp_path / "none")
    assert (dict(none), none.places(["a"]).tolist()) == ({}, [-1])


def test_ids_that_are_let_go_close_their_files_at_once(ids: StoredIds) -> None:
    assert dict(pickle.loads(pickle.dumps(ids))) == dict(ids)
    few = ids.only(["q7"])
    assert (ids["q5"], few["q7"]) == (5, 7)
    gone = weakref.ref(few)
    gc.disable()  # a sweep of a large process comes late, and each of them has four files open
    try:
        del few
        assert gone() is None
    finally:
        gc.enable()
