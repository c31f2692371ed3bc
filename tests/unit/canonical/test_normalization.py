# ruff: noqa: RUF001
import unicodedata
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtune.canonical.normalization import check_metadata, normalize
from ragtune.canonical.types import Segment
from ragtune.core.errors import InputError

HOSTILE = st.text(
    st.one_of(
        st.characters(codec=None),
        st.sampled_from("\r\n\t\x00\x0b\x0c\x85\u2028\u2029\ud800\udfff\u200f\u202e\ufeffe\u0301\u1100\u1161"),
    )
)


@pytest.mark.parametrize(
    ("given_text", "text"),
    [
        ("a\r\nb\rc\x85d\u2028e\u2029f\x0bg\x0ch", "a\nb\nc\nd\ne\nf\ng\nh"),
        ("tab\tstays, \x00bell\x07 \x7fand\x9f escape\x1b go", "tab\tstays, bell and escape go"),
        ("cafe\u0301", "café"),
        ("e\x00\u0301", "é"),
        ("lone \ud800surrogates\udfff", "lone surrogates"),
        ("\u202bשלום\u202c \u200fعربي\u200f", "\u202bשלום\u202c \u200fعربي\u200f"),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"),
        ("İi", "İi"),
    ],
)
def test_the_rules(given_text: str, text: str) -> None:
    found = normalize(given_text)
    assert found.text == text
    assert [(span.start, span.end) for span in found.segments] == [(0, len(text))]


@given(HOSTILE)
def test_normalizing_again_changes_nothing_and_only_what_can_be_stored_is_left(text: str) -> None:
    once = normalize(text)
    assert normalize(once.text) == once
    assert unicodedata.is_normalized("NFC", once.text)
    assert not [c for c in once.text if unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\t"]
    assert "\u2028" not in once.text
    once.text.encode("utf-8")


@given(st.lists(st.text(max_size=20), max_size=5))
def test_segments_lie_at_their_spans_and_are_joined_by_an_empty_line(texts: list[str]) -> None:
    result = normalize([Segment(text=text, metadata={"page": page}) for page, text in enumerate(texts)])
    pieces = [result.text[span.start : span.end] for span in result.segments]
    assert pieces == [normalize(text).text for text in texts]
    assert result.text == "\n\n".join(pieces)
    assert [span.metadata for span in result.segments] == [{"page": page} for page in range(len(texts))]
    assert normalize(result.text).text == result.text


def test_bytes_are_utf8_with_or_without_a_byte_order_mark() -> None:
    assert normalize("\ufeffcafé\x00".encode()).text == "café"
    with pytest.raises(InputError, match="not UTF-8: byte 0xFF at offset 3 "):
        normalize(b"abc\xff\xfe")


def test_a_segments_metadata_must_be_json() -> None:
    with pytest.raises(InputError, match=r"metadata of segment 1\['x'\]=nan"):
        normalize([Segment(text="a"), Segment(text="b", metadata={"x": float("nan")})])


def test_numpy_scalars_in_metadata_are_the_values_that_they_are() -> None:
    given = {"year": np.int64(2020), "shares": [np.float32(0.5)], "open": np.True_, "name": np.str_("a")}
    found = check_metadata(given)
    assert found == {"year": 2020, "shares": [0.5], "open": True, "name": "a"}
    assert [type(value) for value in found.values()] == [int, list, bool, str]


def test_an_integer_that_no_float_can_hold_stays_what_it_is() -> None:
    assert check_metadata({"id": -(10**999)}) == {"id": -(10**999)}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({1: 2}, "key of metadata=1: allowed is a string"),
        ({"a": {"b": [0, float("inf")]}}, r"metadata\['a'\]\['b'\]\[1\]=inf"),
        ({"a": (1, 2)}, r"metadata\['a'\]=\(1, 2\): allowed are JSON values"),
        ({"a": "x\x00"}, r"metadata\['a'\]='x\\x00'.*U\+0000 stands at 1"),
        ({"a": 10**1000}, "integers of at most 1000 digits"),
        (reduce(lambda inner, _: {"x": [inner]}, range(100), {}), "at most 64 levels"),
    ],
)
def test_what_is_no_json_object_is_refused_by_place_and_value(metadata: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_metadata(metadata)
