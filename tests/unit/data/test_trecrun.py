"""TREC runs: plain and gzipped, with a mark, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ragtune.core.errors import DatasetError
from ragtune.data.trecrun import read_trec_run, source_name

LINES = b"q1 Q0 b 1 2.0 x\nq1 Q0 a 2 1.0 x\n"


@pytest.mark.parametrize("content", [LINES, b"\xef\xbb\xbf" + LINES, gzip.compress(LINES, mtime=0)])
def test_a_mark_or_gzip_makes_no_difference(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run").write_bytes(content)
    run = read_trec_run(tmp_path / "run")
    assert {query: [entry.doc_id for entry in entries] for query, entries in run.items()} == {"q1": ["b", "a"]}


def test_a_source_is_called_by_its_file_with_or_without_gzip() -> None:
    assert [source_name(Path("x", name)) for name in ("bm25.run", "bm25.run.gz", "bm25.v2.run", "bm25")] == [
        "bm25",
        "bm25",
        "bm25.v2",
        "bm25",
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("q1 Q0 d 1 0.5", "malformed line 'q1 Q0 d 1 0.5'"),
        ("x" * 10_000, "malformed line 'xxx"),
        (f"q1 Q0 d {'9' * 5000} 0.5 x", "malformed line"),
        (f"q1 Q0 d 1 {'9' * 5000} x", "score 999"),
        (f"q1 Q0 {'d' * 5000} 1 inf x", "score inf of ('q1', 'ddd"),
        ("q1 Q0 b 1 0.5 x", "document 'b' comes twice for query 'q1'"),
    ],
)
def test_a_bad_line_is_named_by_number_and_quoted_shortly(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "a.run").write_bytes(LINES + line.encode() + b"\n")
    with pytest.raises(DatasetError) as refused:
        read_trec_run(tmp_path / "a.run")
    message = str(refused.value).removeprefix(str(tmp_path))
    assert f"a.run:3: {said}" in message
    assert len(message) < 300


def test_a_run_that_changed_is_read_again_even_within_one_tick_of_the_clock(tmp_path: Path) -> None:
    import os

    file = tmp_path / "a.run"
    for name in ("first", "second"):
        file.write_text(f"q1 Q0 {name} 1 0.5 x\n")
        os.utime(file, ns=(1, 1))
        assert read_trec_run(file)["q1"][0].doc_id == name
