"""Lines of text files as users have them: marked, gzipped, damaged, in another encoding."""

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


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "9" * 5000, b"\xff{}", '{"a": 1} x'])
def test_json_that_cannot_be_read_is_a_value_error_of_one_short_line(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        read_json(text)
    assert len(str(refused.value)) < 200
    assert "\n" not in str(refused.value)


def test_a_small_gzip_file_with_a_huge_content_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtune.data.files.textfile._FREE", 2**20)
    bomb = tmp_path / "run.gz"
    bomb.write_bytes(gzip.compress(b"q1 Q0 d1 1 0.5 t\n" * 2**18))
    with pytest.raises(DatasetError, match=r"run\.gz: unpacks to more than [\d,]+ bytes, 200 times its size"):
        list(read_lines(bomb))
    ordinary = tmp_path / "ordinary.gz"
    ordinary.write_bytes(gzip.compress(b"".join(b"q%d Q0 d%d 1 0.5 t\n" % (i, i) for i in range(2**17))))
    assert sum(1 for _ in read_lines(ordinary)) == 2**17


@pytest.mark.parametrize("packed", [False, True])
def test_an_endless_line_is_refused_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setattr("ragtune.data.files.textfile.MAX_LINE", 1000)
    file = tmp_path / "corpus"
    content = b"a\n" + b"x" * 1001 + b"\n"
    file.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(DatasetError, match="corpus:2: a line of more than 1,000 bytes"):
        list(read_lines(file))
