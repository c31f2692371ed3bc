"""Lines of text files as users have them: marked, gzipped, damaged, in another encoding."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from ragtune.core.errors import DatasetError
from ragtune.data.files.textfile import read_json, read_lines

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_lines_come_without_marks_ends_and_blanks_and_with_their_numbers(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    content = MARK + "a é\r\n\n \t \n".encode() + MARK + "b\u2028c\n".encode() + b"last"
    (tmp_path / "file").write_bytes(pack(content))
    assert list(read_lines(tmp_path / "file")) == [(1, "a é"), (4, "b\u2028c"), (5, "last")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"first\ncaf\xe9\n", "file:2: not UTF-8 (byte 0xe9 at position 3 of the line)"),
        ("first\n".encode("utf-16"), "file:1: not UTF-8 (byte 0xff at position 0 of the line): it looks like UTF-16"),
        ("first\n".encode("utf-16-le"), "file:1: a zero byte: it looks like UTF-16: save it as UTF-8"),
        (b"first\n\xed\xa0\x80\n", "file:2: not UTF-8"),
        (gzip.compress(b"first\nsecond\n", mtime=0)[:-6], "file: damaged gzip file"),
        (b"\x1f\x8b", "file: damaged gzip file"),
    ],
)
def test_what_is_not_utf_8_or_no_whole_gzip_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DatasetError) as refused:
        list(read_lines(tmp_path / "file"))
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "9" * 5000, b"\xff{}", '{"a": 1} x', '[{"a": 1, "a": 1}]'])
def test_json_that_cannot_be_read_is_a_value_error_of_one_short_line(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        read_json(text)
    assert len(str(refused.value)) < 200
    assert "\n" not in str(refused.value)
