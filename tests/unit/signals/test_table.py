"""Numbers from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtune.core.errors import ConfigError, DatasetError
from ragtune.core.types import ScoredDocument
from ragtune.signals.table import TableSignal
from ragtune.testing import make_context

DOCUMENTS = [ScoredDocument(id=doc_id) for doc_id in "ab"]


def test_low_numbers_speak_for_a_document_where_that_is_said(tmp_path: Path) -> None:
    file = tmp_path / "age.csv"
    file.write_text("doc_id,value\na,3\nc,9\n", encoding="utf-8")
    signal = TableSignal(file, by="document", higher_is_better=False)
    assert signal.values(make_context(), DOCUMENTS) == {"a": -3.0}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("doc_id,value\na,3\nb,inf\n", "age.csv:3: 'score' is 'inf': allowed is a finite number"),
        ("doc_id,value\na,old\n", "age.csv:2: 'score' is 'old': allowed is a number"),
        ("doc_id,value\na,3\na,4\n", "age.csv:3: document 'a' comes twice"),
        ("doc_id,year\na,3\n", "no column for 'score'"),
    ],
)
def test_a_bad_line_is_named(lines: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "age.csv"
    file.write_text(lines, encoding="utf-8")
    with pytest.raises(DatasetError, match=said):
        TableSignal(file, by="document")


def test_what_a_number_is_of_is_one_of_two() -> None:
    with pytest.raises(ConfigError, match="signal by='query': allowed are pair, document"):
        TableSignal("no matter", by="query")
