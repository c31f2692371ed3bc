"""Judgments whose columns are separated by blanks, tabs, or both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.datasets.beir import read_qrels
from experiments.datasets.dataset import add_judgment, assemble
from ragtune.core.errors import DatasetError
from ragtune.data.corpus import Corpus, Document

EXPECTED = {"q1": {"d1": 1, "d2": 0}, "q2": {"d1": 2}}


@pytest.mark.parametrize(
    "text",
    [
        "q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 2\n",
        "q1\t0\td1\t1\nq1 0 d2 0\nq2\t0 d1\t2\n",
        "q1 0\td1 1\nq1\t0\td2\t0\nq2 0 d1 2\n",
        "q1 0\td1\t1\nq1\t0  d2\t0 \n q2\t\t0\td1\t2\t\n",
        "  q1\t0\td1\t1\r\nq1\t0\td2\t0\r\nq2\t0\td1\t2\r\n",
        "query-id\tcorpus-id\tscore\nq1 d1\t1\nq1\td2 0\nq2 d1 2\n",
        "query-id corpus-id\tscore\nq1\td1\t1\nq1\td2\t0\nq2\td1\t2\n",
        "query-id\tcorpus-id\tscore\tcomment\nq1\td1\t1\ta word or two\nq1\td2\t0\t\nq2\td1\t2\tword\n",
    ],
)
def test_blanks_and_tabs_may_be_mixed(tmp_path: Path, text: str) -> None:
    file = tmp_path / "qrels.tsv"
    file.write_text(text)
    assert read_qrels(file) == EXPECTED


@pytest.mark.parametrize("line", ["q2\t0\td1", "q2 0 d1 2 more", "q2"])
def test_a_line_of_other_columns_is_refused_with_its_place(tmp_path: Path, line: str) -> None:
    file = tmp_path / "qrels.tsv"
    file.write_text(f"q1\t0\td1\t1\n{line}\n")
    with pytest.raises(DatasetError, match=r"qrels.tsv:2: malformed line .* separated by blanks or tabs"):
        read_qrels(file)


CORPUS = Corpus([Document(id="d1", text="tea")])


@pytest.mark.parametrize("grade", ["high", "1", 1.5, None, True, 10**7, float("nan")])
def test_a_loader_that_gives_a_bad_grade_is_told_where(grade: object) -> None:
    with pytest.raises(DatasetError, match=r"^pairs.csv:7: grade .*: allowed is a whole number from -1000000 to"):
        add_judgment({}, "q1", "d1", grade, "pairs.csv:7: ")
    with pytest.raises(DatasetError, match=r"^dataset 'mine': query 'q1', document 'd1': grade .*: allowed is a whole"):
        assemble("mine", CORPUS, {"q1": "tea"}, {"q1": {"d1": grade}})  # type: ignore[dict-item]


def test_grades_and_ids_of_numpy_are_those_of_python() -> None:
    dataset = assemble("mine", CORPUS, {"q1": "tea"}, {"q1": {"d1": np.int64(2)}})  # type: ignore[dict-item]
    assert [type(grade) for grade in dataset.qrels["q1"].values()] == [int]


def test_a_loader_that_gives_a_query_that_is_no_text_is_told_which() -> None:
    with pytest.raises(DatasetError, match="dataset 'mine': query 1 is 'tea': allowed are texts"):
        assemble("mine", CORPUS, {1: "tea"}, {})  # type: ignore[dict-item]
